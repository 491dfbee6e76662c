"""The trace of one repeat, on disk or in memory."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from functools import cache, cached_property
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar

import polars as pl

from rtclab.arguments import table as named
from rtclab.errors import TraceError
from rtclab.trace.files import json_bytes, write_new
from rtclab.trace.manifest import TraceManifest, read_manifest
from rtclab.trace.schema import OPTIONAL_TABLES, SCHEMAS, conform

MANIFEST = "manifest.json"
Made = TypeVar("Made")


class Recorded(Protocol):
    """A table that is not a data frame yet. Most tables of a simulated call are written and never read."""

    def frame(self) -> pl.DataFrame:
        """The table as a data frame."""

    def parquet(self) -> bytes:
        """The content of the table's file."""


METHODS = "rtclab.trace_methods"
"""The module that sets the methods of a trace that measure and draw."""


class Trace:
    """The trace of one repeat: a directory with ``manifest.json`` and one Parquet file per table."""

    # The module `METHODS` sets these, because a trace knows neither importers nor metrics nor reports.
    from_pcap: ClassVar[Callable[..., Trace]]
    metrics: ClassVar[Callable[..., pl.DataFrame]]
    summary: ClassVar[Callable[..., pl.DataFrame]]
    plot: ClassVar[Callable[..., Any]]
    report: ClassVar[Callable[..., Path]]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """Imports the module that sets the methods, when the first of them is used."""
            if name not in ("metrics", "summary", "plot", "report"):
                raise AttributeError(f"a trace has no attribute {name!r}")
            import_module(METHODS)
            return getattr(self, name)

    def __init__(self, path: str | Path) -> None:
        """Opens a trace.

        Raises:
            TraceError: ``path`` is not a trace, is incomplete, or is a trace of another version. The message
                names file and field.
        """
        directory = Path(path)
        self._open(directory, read_manifest(directory / MANIFEST, TraceManifest), {})

    def _open(
        self, path: Path, manifest: TraceManifest, tables: Mapping[str, pl.DataFrame | Recorded]
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._known = dict(tables)
        self._cached: dict[object, Any] = {}
        self._cached_part: dict[object, Any] = {}
        self._whole: Trace | None = None
        self._alone: Trace | None = None
        self._make_alone: Callable[[], Trace] | None = None
        # The temporary directory that holds the trace, if any; deleted together with this object.
        self.temporary: TemporaryDirectory[str] | None = None

    @classmethod
    def _of(cls, path: Path, manifest: TraceManifest, tables: Mapping[str, pl.DataFrame | Recorded]) -> Trace:
        made = cls.__new__(cls)
        made._open(path, manifest, tables)
        return made

    @classmethod
    def in_memory(cls, tables: Mapping[str, pl.DataFrame | Recorded], manifest: TraceManifest) -> Trace:
        """A trace that exists only in memory. Tables are completed as in :meth:`write`.

        Raises:
            TraceError: a table or column is invalid, as in :meth:`write`. Recorded tables are checked when
                they are read.
        """
        return cls._of(Path(os.devnull), manifest, _complete(tables))

    def restricted(self, manifest: TraceManifest, alone: Callable[[], Trace] | None) -> Trace:
        """This trace restricted to the flows of ``manifest``.

        Tables and cached values still cover all flows. ``alone`` makes a trace of these flows only, for
        :meth:`alone`.
        """
        part = copy(self)
        part.manifest = manifest
        part.__dict__.pop("flows", None)
        part._whole, part._make_alone = self._whole or self, alone
        part._cached_part = {}
        return part

    def alone(self) -> Trace:
        """A trace whose tables have no rows of other repeats: this one, unless it shares its tables."""
        if self._make_alone is None:
            return self
        if self._alone is None:
            self._alone = self._make_alone()
        return self._alone

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r})"

    @cached_property
    def flows(self) -> list[str]:
        """Names of all flows except flows of acknowledgements, in the order of the manifest."""
        return [name for name, flow in self.manifest.flows.items() if flow.acknowledges is None]

    @property
    def tables(self) -> list[str]:
        """Names of the tables present, in the order of docs/trace.md."""
        return [name for name in SCHEMAS if name in self._known or self._file(name).is_file()]

    def save(self, path: str | Path) -> Trace:
        """Writes all tables and the manifest to the directory ``path``; see :meth:`write`."""
        tables = {name: self._known.get(name) for name in self.tables}
        known = {name: self.table(name) if table is None else table for name, table in tables.items()}
        return _save(Path(path), known, self.manifest)

    def table(self, name: str) -> pl.DataFrame:
        """A table, with the columns and types of ``SCHEMAS[name]``.

        Tables stay in memory once they are read, because every metric uses them; ``packets`` does not,
        because it is large.

        Raises:
            TraceError: there is no such table, it was not recorded, or its file is invalid. The message names
                file and column.
        """
        if name not in SCHEMAS:
            raise TraceError(f"no table `{name}`; expected {', '.join(SCHEMAS)}")
        known = self._known.get(name)
        if isinstance(known, pl.DataFrame):
            return known
        if known is not None:
            frame = self._known[name] = conform(name, known.frame())
            return frame
        file = self._file(name)
        if not file.is_file():
            if name in OPTIONAL_TABLES:
                hint = 'record it with record = "packets"'
                raise TraceError(f"{self.path}: table `{name}` was not recorded", hint=hint)
            raise TraceError(f"{file}: the file is missing", hint="run the scenario again")
        frame = _read_table(file, name)
        if name not in OPTIONAL_TABLES:
            self._known[name] = frame
        return frame

    def select(self, name: str, **columns: pl.Expr) -> pl.DataFrame:
        """Columns computed from a table, which need not be in memory as a whole.

        Raises:
            TraceError: the table is unavailable or invalid, as in :meth:`table`.
        """
        if name in self._known or name not in SCHEMAS or not self._file(name).is_file():
            return self.table(name).select(**columns)
        return _read_table(self._file(name), name, columns)

    def rows_of_flow(self, name: str, flow: str) -> pl.DataFrame:
        """The rows of one flow, in order, in a table that has the column ``flow``.

        The table is split only once, because every metric uses every flow, and a mesh of 50 has 2450 flows.

        Raises:
            TraceError: the table is unavailable or invalid, as in :meth:`table`.
        """
        return self.cached(_by_flow, name).get(flow, SCHEMAS[name].to_frame())

    def cached(self, make: Callable[..., Made], *args: Hashable) -> Made:
        """``make(trace, *args)``, computed on the first call and cached for the lifetime of this object.

        Metrics are called for each flow, so they cache here what they compute for all flows at once.
        """
        key = (make, args)
        if key not in self._cached:
            self._cached[key] = make(self._whole or self, *args)
        made: Made = self._cached[key]
        return made

    def cached_part(self, make: Callable[..., Made], *args: Hashable) -> Made:
        """As :meth:`cached`, but ``make`` sees only the flows of this trace if it shares its tables."""
        key = (make, args)
        if key not in self._cached_part:
            self._cached_part[key] = make(self, *args)
        made: Made = self._cached_part[key]
        return made

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.parquet"

    @classmethod
    def write(cls, path: str | Path, tables: Mapping[str, pl.DataFrame], manifest: TraceManifest) -> Trace:
        """Writes a trace to the directory ``path``. Other files there are kept.

        Columns are put in order, missing nullable columns are filled with null, and missing tables are
        written empty. The manifest is written last, so a directory without one is not a trace.

        Raises:
            TraceError: a table or column is unknown or missing, has nulls that it must not have, or has
                another type.
            DiskFull: no space is left. Nothing is left behind.
        """
        return _save(Path(path), _complete(tables), manifest)


def _save(path: Path, tables: Mapping[str, pl.DataFrame | Recorded], manifest: TraceManifest) -> Trace:
    frames = {name: table for name, table in tables.items() if isinstance(table, pl.DataFrame)}
    contents = _parquet(frames)
    contents |= {
        name: table.parquet() for name, table in tables.items() if not isinstance(table, pl.DataFrame)
    }
    files = {f"{name}.parquet": contents[name] for name in tables}
    files[MANIFEST] = json_bytes(manifest.as_json())
    path.mkdir(parents=True, exist_ok=True)
    writing = path / f".writing-{os.getpid()}"
    try:
        writing.mkdir()
        for file, content in files.items():
            write_new(writing / file, content)
        for file in files:
            (writing / file).rename(path / file)
        writing.rmdir()
    except BaseException:
        shutil.rmtree(writing, ignore_errors=True)
        raise
    # They will be measured, and need not be read again.
    kept = {name: table for name, table in tables.items() if name not in OPTIONAL_TABLES}
    return Trace._of(path, manifest, kept)


def _parquet(frames: Mapping[str, pl.DataFrame]) -> dict[str, bytes]:
    """The content of each table's file. One query for all tables is faster than one for each."""
    buffers = {name: io.BytesIO() for name, frame in frames.items() if not frame.is_empty()}
    if buffers:
        # Tables are always read whole, so statistics are useless. zstd would take a quarter more CPU time.
        queries = [
            frames[name].lazy().sink_parquet(buffer, compression="snappy", statistics=False, lazy=True)
            for name, buffer in buffers.items()
        ]
        pl.collect_all(queries, engine="streaming")
    return {name: buffers[name].getvalue() if name in buffers else _empty(name) for name in frames}


@cache
def _empty(name: str) -> bytes:
    """The content of the file of a table without rows."""
    buffer = io.BytesIO()
    SCHEMAS[name].to_frame().write_parquet(buffer)
    return buffer.getvalue()


def rows_by(rows: pl.DataFrame, key: str, *more: str) -> dict[Any, pl.DataFrame]:
    """Splits rows by the value of ``key``, or by the values of several keys. The order is kept."""
    parts = rows.partition_by(key, *more)
    # Polars would run a query for the key of each part.
    if not more:
        return {part[key][0]: part for part in parts}
    return {tuple(part[name][0] for name in (key, *more)): part for part in parts}


def _by_flow(trace: Trace, name: str) -> dict[Any, pl.DataFrame]:
    return rows_by(trace.table(name), "flow")


def _read_table(file: Path, name: str, columns: Mapping[str, pl.Expr] | None = None) -> pl.DataFrame:
    """A table from its file, or columns computed from it."""
    try:
        if columns is None:
            return conform(name, pl.read_parquet(file))
        if list(pl.read_parquet_schema(file)) != list(SCHEMAS[name]):
            return conform(name, pl.read_parquet(file)).select(**columns)
        return pl.scan_parquet(file).select(**columns).collect(engine="streaming")
    except TraceError as error:
        raise TraceError(f"{file}: {error.message}", hint="run the scenario again") from None
    # Polars panics on some corrupt files.
    except (OSError, pl.exceptions.PolarsError, pl.exceptions.PanicException) as error:
        raise TraceError(f"{file}: cannot be read: {error}", hint="run the scenario again") from None


def _complete(tables: Mapping[str, pl.DataFrame | Recorded]) -> dict[str, pl.DataFrame | Recorded]:
    """The tables in the form of the contract, with empty tables for missing ones."""
    known = {
        name: conform(name, table) if isinstance(table, pl.DataFrame) else table
        for name, table in named("tables", tables, "data frames by the name of their table").items()
    }
    for name in SCHEMAS.keys() - known.keys() - OPTIONAL_TABLES:
        known[name] = SCHEMAS[name].to_frame()
    return known
