"""The trace of one repeat, on disk or in memory."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Hashable, Mapping
from copy import copy
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import polars as pl

from rtclab.arguments import table as named
from rtclab.errors import TraceError
from rtclab.renamed import BETWEEN, renamed
from rtclab.trace.files import json_bytes, write_new
from rtclab.trace.manifest import TraceManifest, read_manifest
from rtclab.trace.schema import OPTIONAL_TABLES, SCHEMAS, conform
from rtclab.trace.times import NS_PER_S
from rtclab.trace.window import Window, closed, window_in_words

if TYPE_CHECKING:
    from rtclab.experiment import Moment
    from rtclab.experiment.flows import Flows
    from rtclab.importers import Names
    from rtclab.report import Plot
    from rtclab.trace.run import Run

MANIFEST = "manifest.json"
Made = TypeVar("Made")


class Recorded(Protocol):
    """A table that is not a data frame yet. Most tables of a simulated call are written and never read."""

    def frame(self) -> pl.DataFrame:
        """The table as a data frame."""

    def parquet(self) -> bytes:
        """The content of the table's file."""


MOMENTS = {
    "packets": ("sent_ns",),
    "frames": ("rendered_ns", "received_ns", "captured_ns"),
}
"""The times by which rows belong to a window: the first that is known. Other tables have ``at_ns``."""


class Trace:
    """The trace of one repeat: a directory with ``manifest.json`` and one Parquet file per table.

    Attributes:
        path: the directory.
        manifest: what is known of the repeat and of its flows, always over all of its time.
        window: begin and end in s of the part of its time that this object shows; None for all of it.
    """

    def __init__(self, path: str | Path) -> None:
        """Opens a trace.

        Raises:
            TraceError: ``path`` is not a trace, is incomplete, or is a trace of another version. The message
                names file and field.
        """
        directory = Path(path)
        self._open(directory, read_manifest(directory / MANIFEST), {})

    def _open(
        self, path: Path, manifest: TraceManifest, tables: Mapping[str, pl.DataFrame | Recorded]
    ) -> None:
        self.path = path
        self.manifest = manifest
        self._known = dict(tables)
        self._cached: dict[object, Any] = {}
        self._cached_part: dict[object, Any] = {}
        self.window: Window | None = None
        self._parts: dict[Window, Trace] = {}
        self._of_all_time: Trace | None = None
        self._of_all_flows: Trace | None = None
        self._alone: Trace | None = None
        self._make_alone: Callable[[], Trace] | None = None
        # The temporary directory that holds the trace, if any; deleted together with this object.
        self._temporary: TemporaryDirectory[str] | None = None

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

    @classmethod
    def from_pcap(
        cls,
        sender: Path | str,
        receiver: Path | str | None = None,
        *,
        out: str | Path | None = None,
        names: Names | None = None,
        sdp: str | None = None,
        corrected: bool = False,
    ) -> Trace:
        """Makes a trace from captures (pcap or pcapng) for the metrics of rate, delay and loss.

        The tables ``packets``, ``flow_seconds`` and ``delay_histogram`` are filled; the others are empty.
        With two captures, the trace has only RTP packets. A single capture gives rates and losses, but delays
        only if it has packets both entering and leaving, as the emulator's capture does. A flow lasts from
        its first packet until one mean packet interval after its last.

        Args:
            sender: the capture nearer to the sender, or the only one.
            receiver: the capture nearer to the receiver.
            out: directory of the trace. By default a temporary one, which is deleted with the trace.
            names: participants by address (``10.0.0.1``) or by address and port (``10.0.0.1:5004``); or two
                names, of the sender and of the receiver of the first RTP packet. Flows are named after
                participants, and after addresses and ports where no name is given.
            sdp: text of the session descriptions, for the codecs.
            corrected: subtract the estimated difference of the two clocks from the delays.

        Raises:
            BadInput: a capture cannot be read.
            TraceError: nothing was captured.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=1, capture=True)
            >>> trace = rtclab.Trace.from_pcap(run.path / "repeat-0/capture.pcapng", names=["bob", "alice"])
            >>> trace.flows
            ['bob->alice', 'alice->bob']
        """
        from rtclab.importers.captures import read_captures

        captures = Path(sender), None if receiver is None else Path(receiver)
        named = {} if names is None else names
        imported = read_captures(*captures, named, sdp, corrected=corrected)
        if out is not None:
            return cls.write(out, imported.tables, imported.manifest)
        temporary = TemporaryDirectory(prefix="rtclab-trace-")
        made = cls.write(Path(temporary.name), imported.tables, imported.manifest)
        made._temporary = temporary
        return made

    def restricted(self, manifest: TraceManifest, alone: Callable[[], Trace] | None) -> Trace:
        """This trace restricted to the flows of ``manifest``.

        Tables and cached values still cover all flows. ``alone`` makes a trace of these flows only, for
        :meth:`alone`.
        """
        part = copy(self)
        part.manifest = manifest
        part.__dict__.pop("flows", None)
        part._of_all_flows, part._make_alone = self._of_all_flows or self, alone
        part._cached_part, part._parts = {}, {}
        return part

    def within(self, window: Window | None) -> Trace:
        """This trace over a part of its time, given in seconds, or over all of it.

        Its tables have the rows of that time, and metrics and plots are of that time. What was computed for
        another part, or for all of the time, stays cached.
        """
        if window == self.window:
            return self
        whole = self.whole
        if window is not None and window not in whole._parts:
            part = whole._parts[window] = copy(whole)
            part.window, part._of_all_time, part._cached_part = window, whole, {}
        return whole if window is None else whole._parts[window]

    @property
    def whole(self) -> Trace:
        """This trace over all of its time."""
        return self._of_all_time or self

    def between(self, begin: Moment | None = None, end: Moment | None = None) -> Trace:
        """The trace over a part of its time: its tables, metrics, plots and report are of that time.

        Times count from the begin of the repeat, whatever part the trace is about. Without arguments, it is
        about all of the time.

        Args:
            begin: the begin, such as ``"10 s"`` or 10 (seconds); by default the begin of the repeat.
            end: the end, which is excluded; by default the end of the repeat.

        Raises:
            BadInput: a time cannot be read, ``end`` is not after ``begin``, or the repeat ends before
                ``begin``.

        Example:
            >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
            >>> trace.between("5 s").table("packets")["sent_ns"].min() >= 5e9
            True
        """
        from rtclab.experiment.window import check_reached, open_window

        window = open_window(begin, end)
        check_reached(window, [self.end_s])
        return self.within(window and closed(window, self.end_s))

    def alone(self) -> Trace:
        """A trace whose tables have no rows of other repeats: this one, unless it shares its tables."""
        whole = self.whole
        if whole._make_alone is None:
            return self
        if whole._alone is None:
            whole._alone = whole._make_alone()
        return whole._alone.within(self.window)

    def __repr__(self) -> str:
        part = "" if self.window is None else f" {window_in_words(self.window)}"
        return f"Trace({str(self.path)!r}){part}"

    @property
    def end_s(self) -> float:
        """When the repeat ended, in s since it began."""
        return self.manifest.duration_ns / NS_PER_S

    @cached_property
    def flows(self) -> list[str]:
        """Names of all flows except flows of acknowledgements, in the order of the manifest."""
        return [name for name, flow in self.manifest.flows.items() if flow.acknowledges is None]

    @property
    def tables(self) -> list[str]:
        """Names of the tables present, in the order of docs/trace.md."""
        return [name for name in SCHEMAS if name in self._known or self._file(name).is_file()]

    def move(self, path: str | Path) -> None:
        """Moves the directory of the trace to ``path``."""
        self.path = self.path.rename(path)

    def save(self, path: str | Path) -> Trace:
        """Writes all tables and the manifest to the directory ``path``, over all time; see :meth:`write`."""
        if self.window is not None:
            return self.whole.save(path)
        tables = {name: self._known.get(name) for name in self.tables}
        known = {name: self.table(name) if table is None else table for name, table in tables.items()}
        return _save(Path(path), known, self.manifest)

    def table(self, name: str) -> pl.DataFrame:
        """A table, with the columns and types of ``SCHEMAS[name]``, and the rows of the trace's window.

        Packets and their waits belong to a window if they were sent in it, frames if they were shown in it,
        and seconds of ``flow_seconds`` if they are at least partly in it. ``paths`` begins with the change of
        each path that holds when the window begins.

        Tables stay in memory once they are read, because every metric uses them; ``packets`` does not,
        because it is large.

        The accounts of docs/why.md are tables, too, which are made from the others: ``limits``, ``losses``,
        ``stalls`` and ``waits``.

        Raises:
            TraceError: there is no such table, it was not recorded, or its file is invalid. The message names
                file and column. Or the trace has a window, and the rows of the table have no time.
        """
        if name not in SCHEMAS:
            from rtclab.metrics.accounts import ACCOUNTS

            if name not in ACCOUNTS:
                raise TraceError(f"no table `{name}`; expected {', '.join((*SCHEMAS, *ACCOUNTS))}")
            return ACCOUNTS[name].of(self)
        rows = self._read(name)
        if self.window is None:
            return rows
        if name == "hops":
            return rows.join(self.table("packets"), on=["flow", "packet"], how="semi", maintain_order="left")
        return rows_within(name, rows, self.window)

    def _read(self, name: str) -> pl.DataFrame:
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

    def select(self, name: str, where: pl.Expr | None = None, **columns: pl.Expr) -> pl.DataFrame:
        """Columns computed from a table, or from its rows for which ``where`` is true.

        The table need not be in memory as a whole.

        Raises:
            TraceError: the table is unavailable or invalid, as in :meth:`table`.
        """
        if self.window or name in self._known or name not in SCHEMAS or not self._file(name).is_file():
            rows = self.table(name)
            return (rows if where is None else rows.filter(where)).select(**columns)
        return _read_table(self._file(name), name, columns, where)

    @renamed(begin=BETWEEN, end=BETWEEN)
    def metrics(self) -> pl.DataFrame:
        """The value of every metric for every flow, with the columns of :meth:`rtclab.Results.metrics`.

        A metric that could not be measured has no row.

        Raises:
            TraceError: a table cannot be read.

        Example:
            >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
            >>> trace.between("5 s").metrics().filter(metric="packet_loss")["value"].max() <= 100
            True
        """
        from rtclab.experiment import metrics_of

        return metrics_of(self._run())

    @renamed(begin=BETWEEN, end=BETWEEN)
    def summary(self) -> pl.DataFrame:
        """As :meth:`rtclab.Results.summary`, for one repeat: ``mean`` is the value, without intervals.

        ``within_run_sd`` is the standard deviation of one-second samples.

        Raises:
            TraceError: a table cannot be read.

        Example:
            >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
            >>> trace.summary().filter(metric="receiving_rate")["repeats"].to_list()
            [1, 1]
        """
        from rtclab.experiment import summary_of_run

        return summary_of_run(self._run())

    def plot(self, name: str = "rate", flow: Flows = None, *, flows: Flows = None) -> Plot:
        """A plot of the trace. A notebook displays it; ``save`` writes it as SVG, PNG, PDF or HTML.

        Args:
            name: the plot's name, such as "rate" or "delay".
            flow: the flows to draw, such as ``"alice->bob"``, ``"*->bob"`` or a list; by default all
                flows of the report.
            flows: another name of ``flow``.

        Raises:
            BadInput: there is no such plot or flow, or the trace has no data for it.

        Example:
            >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
            >>> trace.plot("delay").save("delay.svg").name
            'delay.svg'
        """
        from rtclab.report import run_plot

        return run_plot(self._run(), name, flow if flows is None else flows)

    def report(self, path: str | Path) -> Path:
        """Writes the report of the trace, an HTML page; returns its path.

        Raises:
            DiskFull: the page could not be written.

        Example:
            >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
            >>> trace.report("trace.html").name
            'trace.html'
        """
        from rtclab.report import write_report

        return write_report(self._run(), page=Path(path))

    def _run(self) -> Run:
        """The trace as a run with one repeat, for functions that measure and show runs."""
        from rtclab.trace.run import Run

        return Run.of_trace(self)

    def rows_of_flow(self, name: str, flow: str) -> pl.DataFrame:
        """The rows of one flow, in order, in a table that has the column ``flow``.

        The table is split only once, because every metric uses every flow, and a mesh of 50 has 2450 flows.

        Raises:
            TraceError: the table is unavailable or invalid, as in :meth:`table`.
        """
        rows = self.cached_in_window(_by_flow, name).get(flow)
        return SCHEMAS[name].to_frame() if rows is None else rows

    def cached(self, make: Callable[..., Made], *args: Hashable) -> Made:
        """``make(trace, *args)``, computed on the first call and cached for the lifetime of this object.

        ``make`` sees all of the time. Metrics are called for each flow, so they cache here what they compute
        for all flows at once.
        """
        return self._cached_over(None, make, args)

    def cached_in_window(self, make: Callable[..., Made], *args: Hashable) -> Made:
        """As :meth:`cached`, but ``make`` sees this trace's window."""
        return self._cached_over(self.window, make, args)

    def _cached_over(
        self, window: Window | None, make: Callable[..., Made], args: tuple[Hashable, ...]
    ) -> Made:
        key = (window, make, args)
        if key not in self._cached:
            self._cached[key] = make((self._of_all_flows or self).within(window), *args)
        made: Made = self._cached[key]
        return made

    def cached_part(self, make: Callable[..., Made], *args: Hashable) -> Made:
        """As :meth:`cached_in_window`, but ``make`` sees only the flows of this trace if it shares tables."""
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


Rows = TypeVar("Rows", pl.DataFrame, pl.LazyFrame)


def rows_within(name: str, rows: Rows, window: Window) -> Rows:
    """The rows of a table that belong to a window; see :meth:`Trace.table`.

    Raises:
        TraceError: the rows of the table have no time.
    """
    moments = MOMENTS.get(name, ("at_ns",))
    if moments[0] not in SCHEMAS[name]:
        raise TraceError(
            f"table `{name}` counts over all of the time; this trace is {window_in_words(window)}",
            hint="read it from the whole trace, or count the table `packets`",
        )
    begin_ns, end_ns = (round(moment * NS_PER_S) for moment in window)
    at_ns = pl.coalesce(moments)
    if name == "flow_seconds":
        begin_ns -= NS_PER_S - 1
    inside = at_ns.is_between(begin_ns, end_ns, closed="left")
    if name == "paths":
        holds = at_ns.filter(at_ns <= begin_ns).max().over("path")
        inside |= at_ns == holds
    return rows.filter(inside)


def rows_by(rows: pl.DataFrame, key: str, *more: str) -> dict[Any, pl.DataFrame]:
    """Splits rows by the value of ``key``, or by the values of several keys. The order is kept."""
    parts = rows.partition_by(key, *more)
    # Polars would run a query for the key of each part.
    if not more:
        return {part[key][0]: part for part in parts}
    return {tuple(part[name][0] for name in (key, *more)): part for part in parts}


def _by_flow(trace: Trace, name: str) -> dict[Any, pl.DataFrame]:
    return rows_by(trace.table(name), "flow")


def _read_table(
    file: Path, name: str, columns: Mapping[str, pl.Expr] | None = None, where: pl.Expr | None = None
) -> pl.DataFrame:
    """A table from its file, or columns computed from it or from some of its rows."""
    chosen = pl.lit(value=True) if where is None else where
    try:
        if columns is None:
            return conform(name, pl.read_parquet(file))
        if list(pl.read_parquet_schema(file)) != list(SCHEMAS[name]):
            return conform(name, pl.read_parquet(file)).filter(chosen).select(**columns)
        return pl.scan_parquet(file).filter(chosen).select(**columns).collect(engine="streaming")
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
