"""One repeat on disk."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import polars as pl

from rtclab.errors import TraceError
from rtclab.trace.files import json_bytes, read_json, write_bytes
from rtclab.trace.schema import OPTIONAL_TABLES, SCHEMAS, conform

MANIFEST = "manifest.json"
Made = TypeVar("Made")


class Trace:
    """One repeat: a directory with ``manifest.json`` and one Parquet file per table."""

    def __init__(self, path: Path) -> None:
        """Opens a trace.

        Raises:
            TraceError: ``path`` holds none, or one that was not written to its end.
        """
        self.path = path
        self.manifest: dict[str, Any] = read_json(path / MANIFEST, "trace")
        self._read: dict[str, pl.DataFrame] = {}
        self._kept: dict[object, Any] = {}
        # Lives as long as the trace in it.
        self._temporary: TemporaryDirectory[str] | None = None

    @classmethod
    def in_memory(cls, tables: Mapping[str, pl.DataFrame], manifest: Mapping[str, object]) -> Trace:
        """A trace that is measured and forgotten; what :meth:`write` does to tables is done to these.

        Raises:
            TraceError: as :meth:`write`.
        """
        made = cls.__new__(cls)
        made.path = Path(os.devnull)
        made.manifest = dict(manifest)
        made._read = _complete(tables)
        made._kept = {}
        made._temporary = None
        return made

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r})"

    @property
    def tables(self) -> list[str]:
        """Names of the tables present, in the order of docs/trace.md."""
        return [name for name in SCHEMAS if name in self._read or self._file(name).is_file()]

    def save(self, path: Path) -> Trace:
        """Writes all tables and the manifest into the directory ``path``; see :meth:`write`."""
        return Trace.write(path, {name: self.table(name) for name in self.tables}, self.manifest)

    def table(self, name: str) -> pl.DataFrame:
        """A table, with the columns and types of ``SCHEMAS[name]``.

        Every metric asks again, so tables stay in memory once read; not ``packets``, which is large.

        Raises:
            TraceError: there is no such table, or it was not recorded.
        """
        if name not in SCHEMAS:
            raise TraceError(f"no table `{name}`; expected {', '.join(SCHEMAS)}")
        frame = self._read.get(name)
        if frame is not None:
            return frame
        file = self._file(name)
        if not file.is_file():
            hint = 'record it with record = "packets"' if name in OPTIONAL_TABLES else None
            raise TraceError(f"{self.path}: table `{name}` was not recorded", hint=hint)
        frame = pl.read_parquet(file)
        if name not in OPTIONAL_TABLES:
            self._read[name] = frame
        return frame

    def rows_of_flow(self, name: str, flow: str) -> pl.DataFrame:
        """The rows of one flow in a table that has the column ``flow``, in their order.

        Every metric of every flow asks, so the table is split once: a mesh of 50 has 2450 flows.

        Raises:
            TraceError: as :meth:`table`.
        """
        rows = self.table(name)
        if name not in self._read:
            return rows.filter(pl.col("flow") == flow)
        return self.kept(_by_flow, name).get(flow, rows.clear())

    def kept(self, make: Callable[..., Made], *args: Hashable) -> Made:
        """``make(trace, *args)``, made when first asked for and kept as long as the trace.

        What a metric computes for all flows at once is kept here, since it is asked for flow by flow.
        """
        key = (make, args)
        if key not in self._kept:
            self._kept[key] = make(self, *args)
        made: Made = self._kept[key]
        return made

    def _file(self, name: str) -> Path:
        return self.path / f"{name}.parquet"

    @classmethod
    def write(cls, path: Path, tables: Mapping[str, pl.DataFrame], manifest: Mapping[str, object]) -> Trace:
        """Writes a trace into the directory ``path``; what else is there stays.

        Columns are put in order, missing nullable ones filled with null, missing tables written empty.
        The manifest comes last: a directory without one is no trace.

        Raises:
            TraceError: a table or column is unknown, missing, null where it must not be, or of another type.
            DiskFull: nothing is left behind then.
        """
        frames = _complete(tables)
        path.mkdir(parents=True, exist_ok=True)
        writing = path / f".writing-{os.getpid()}"
        try:
            writing.mkdir()
            for name in (name for name in SCHEMAS if name in frames):
                buffer = io.BytesIO()
                frames[name].write_parquet(buffer)
                write_bytes(writing / f"{name}.parquet", buffer.getvalue())
            write_bytes(writing / MANIFEST, json_bytes(manifest))
            for file in sorted(writing.iterdir(), key=lambda file: file.name == MANIFEST):
                file.rename(path / file.name)
        finally:
            shutil.rmtree(writing, ignore_errors=True)
        return cls(path)

    @classmethod
    def from_pcap(
        cls,
        sender: Path | str,
        receiver: Path | str | None = None,
        *,
        out: Path | None = None,
        names: Mapping[str, str] | None = None,
        sdp: str | None = None,
        corrected: bool = False,
    ) -> Trace:
        """Makes a trace of captures (pcap, pcapng), on which all metrics of rate, delay and loss work.

        ``packets``, ``flow_seconds`` and ``delay_histogram`` are filled, the other tables empty. With both
        captures there are RTP packets only. One capture has rates and losses, but no delays, unless it saw
        packets come in and go out again, as the emulator's does.

        Args:
            sender: capture nearer to the sender, or the only one.
            receiver: capture nearer to the receiver.
            out: directory of the trace; a temporary one, gone with the trace, if not given.
            names: participants by address (``10.0.0.1``) or address and port (``10.0.0.1:5004``); flows are
                named after them, else after addresses and ports.
            sdp: session descriptions that tell codecs.
            corrected: take the estimated difference of the two clocks off; else delays are as they are.

        Raises:
            BadInput: a capture cannot be read.
            TraceError: nothing was captured.
        """
        from rtclab.trace.pcap import from_one, from_two

        if receiver is None:
            captured = from_one(Path(sender), names or {}, sdp)
        else:
            captured = from_two(Path(sender), Path(receiver), names or {}, sdp, corrected=corrected)
        if out is not None:
            return cls.write(out, captured.tables, captured.manifest)
        temporary = TemporaryDirectory(prefix="rtclab-trace-")
        made = cls.write(Path(temporary.name), captured.tables, captured.manifest)
        made._temporary = temporary
        return made


def _by_flow(trace: Trace, name: str) -> dict[object, pl.DataFrame]:
    parts = trace.table(name).partition_by("flow", maintain_order=True, as_dict=True)
    return {flow: part for (flow,), part in parts.items()}


def _complete(tables: Mapping[str, pl.DataFrame]) -> dict[str, pl.DataFrame]:
    """The tables as the contract has them, missing ones empty."""
    frames = {name: conform(name, frame) for name, frame in tables.items()}
    for name in SCHEMAS.keys() - frames.keys() - OPTIONAL_TABLES:
        frames[name] = SCHEMAS[name].to_frame()
    return frames
