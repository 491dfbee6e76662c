"""What happened: traces (one repeat) and runs (all repeats of a scenario) on disk; see docs/trace.md."""

from __future__ import annotations

import difflib
import io
import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import polars as pl

from rtclab.errors import DiskFull, TraceError, is_disk_full

_INTEGER, _NUMBER, _TEXT, _TRUTH = pl.Int64(), pl.Float64(), pl.String(), pl.Boolean()
_OF_STREAM: dict[str, pl.DataType] = {
    "at_ns": _INTEGER,
    "participant": _TEXT,
    "flow": _TEXT,
    "ssrc": _INTEGER,
    "kind": _TEXT,
}

# As in docs/trace.md; a name that ends in `?` may be null.
_COLUMNS: dict[str, dict[str, pl.DataType]] = {
    "packets": {
        "sent_ns": _INTEGER,
        "delivered_ns?": _INTEGER,
        "dropped_ns?": _INTEGER,
        "drop_cause?": _TEXT,
        "drop_path?": _TEXT,
        "flow": _TEXT,
        "size_bytes": _INTEGER,
        "protocol": _TEXT,
        "kind?": _TEXT,
        "ssrc?": _INTEGER,
        "payload_type?": _INTEGER,
        "seq?": _INTEGER,
        "rtp_timestamp?": _INTEGER,
        "marker?": _TRUTH,
    },
    "flow_seconds": {
        "at_ns": _INTEGER,
        "flow": _TEXT,
        "sent_packets": _INTEGER,
        "sent_bytes": _INTEGER,
        "delivered_packets": _INTEGER,
        "delivered_bytes": _INTEGER,
        "dropped_packets": _INTEGER,
        "one_way_delay_min_ms?": _NUMBER,
        "one_way_delay_mean_ms?": _NUMBER,
        "one_way_delay_max_ms?": _NUMBER,
    },
    "delay_histogram": {"flow": _TEXT, "one_way_delay_ms": _NUMBER, "packets": _INTEGER},
    "outbound_rtp": _OF_STREAM
    | {
        "packetsSent": _INTEGER,
        "bytesSent": _INTEGER,
        "headerBytesSent": _INTEGER,
        "retransmittedPacketsSent": _INTEGER,
        "retransmittedBytesSent": _INTEGER,
        "targetBitrate?": _NUMBER,
        "framesEncoded?": _INTEGER,
        "keyFramesEncoded?": _INTEGER,
        "framesSent?": _INTEGER,
        "frameWidth?": _INTEGER,
        "frameHeight?": _INTEGER,
        "framesPerSecond?": _NUMBER,
        "nackCount?": _INTEGER,
        "pliCount?": _INTEGER,
    },
    "inbound_rtp": _OF_STREAM
    | {
        "packetsReceived": _INTEGER,
        "packetsLost": _INTEGER,
        "bytesReceived": _INTEGER,
        "headerBytesReceived": _INTEGER,
        "jitter": _NUMBER,
        "framesReceived?": _INTEGER,
        "framesDecoded?": _INTEGER,
        "framesDropped?": _INTEGER,
        "frameWidth?": _INTEGER,
        "frameHeight?": _INTEGER,
        "framesPerSecond?": _NUMBER,
        "freezeCount?": _INTEGER,
        "totalFreezesDuration?": _NUMBER,
        "nackCount?": _INTEGER,
        "pliCount?": _INTEGER,
        "jitterBufferDelay?": _NUMBER,
        "jitterBufferEmittedCount?": _INTEGER,
        "retransmittedPacketsReceived?": _INTEGER,
    },
    "remote_inbound_rtp": _OF_STREAM
    | {"roundTripTime?": _NUMBER, "fractionLost?": _NUMBER, "packetsLost": _INTEGER, "jitter": _NUMBER},
    "candidate_pair": {
        "at_ns": _INTEGER,
        "participant": _TEXT,
        "flow": _TEXT,
        "currentRoundTripTime?": _NUMBER,
        "availableOutgoingBitrate?": _NUMBER,
        "bytesSent": _INTEGER,
        "bytesReceived": _INTEGER,
        "packetsSent": _INTEGER,
        "packetsReceived": _INTEGER,
    },
    "frames": {
        "flow": _TEXT,
        "ssrc": _INTEGER,
        "rtp_timestamp": _INTEGER,
        "captured_ns?": _INTEGER,
        "received_ns?": _INTEGER,
        "rendered_ns?": _INTEGER,
        "width": _INTEGER,
        "height": _INTEGER,
        "size_bytes?": _INTEGER,
    },
    "controller": {
        "at_ns": _INTEGER,
        "participant": _TEXT,
        "flow": _TEXT,
        "name": _TEXT,
        "value": _NUMBER,
    },
    "host": {"at_ns": _INTEGER, "participant": _TEXT, "cpu_percent": _NUMBER, "memory_bytes": _INTEGER},
    "events": {"at_ns": _INTEGER, "participant": _TEXT, "flow?": _TEXT, "event": _TEXT, "detail": _TEXT},
    "paths": {"at_ns": _INTEGER, "path": _TEXT, "capacity_bps?": _INTEGER, "one_way_delay_ms": _NUMBER},
}

SCHEMAS: dict[str, pl.Schema] = {
    table: pl.Schema({name.removesuffix("?"): dtype for name, dtype in columns.items()})
    for table, columns in _COLUMNS.items()
}
"""Columns and types of every table."""

NULLABLE: dict[str, frozenset[str]] = {
    table: frozenset(name[:-1] for name in columns if name.endswith("?"))
    for table, columns in _COLUMNS.items()
}
"""The columns of every table that may be null."""

OPTIONAL_TABLES = frozenset({"packets"})
"""Tables that are left out, not empty, when the scenario does not record them."""

MANIFEST = "manifest.json"
RUN_FILE = "run.json"

Status = Literal["finished", "failed"]


class Trace:
    """One repeat: a directory with ``manifest.json`` and one Parquet file per table."""

    def __init__(self, path: Path) -> None:
        """Opens a trace.

        Raises:
            TraceError: ``path`` holds none, or one that was not written to its end.
        """
        self.path = path
        self.manifest: dict[str, Any] = _read_json(path / MANIFEST, "trace")
        self._read: dict[str, pl.DataFrame] = {}

    def __repr__(self) -> str:
        return f"Trace({str(self.path)!r})"

    @property
    def tables(self) -> list[str]:
        """Names of the tables present, in the order of docs/trace.md."""
        return [name for name in SCHEMAS if self._file(name).is_file()]

    def table(self, name: str) -> pl.DataFrame:
        """A table, with the columns and types of ``SCHEMAS[name]``.

        Every metric asks again, so tables stay in memory once read; not ``packets``, which is large.

        Raises:
            TraceError: there is no such table, or it was not recorded.
        """
        if name not in SCHEMAS:
            raise TraceError(f"no table `{name}`; expected {', '.join(SCHEMAS)}")
        file = self._file(name)
        if not file.is_file():
            hint = 'record it with record = "packets"' if name in OPTIONAL_TABLES else None
            raise TraceError(f"{self.path}: table `{name}` was not recorded", hint=hint)
        frame = self._read.get(name)
        if frame is None:
            frame = pl.read_parquet(file)
            if name not in OPTIONAL_TABLES:
                self._read[name] = frame
        return frame

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
        frames = {name: conform(name, frame) for name, frame in tables.items()}
        for name in SCHEMAS.keys() - frames.keys() - OPTIONAL_TABLES:
            frames[name] = SCHEMAS[name].to_frame()
        path.mkdir(parents=True, exist_ok=True)
        writing = path / f".writing-{os.getpid()}"
        try:
            writing.mkdir()
            for name in (name for name in SCHEMAS if name in frames):
                buffer = io.BytesIO()
                frames[name].write_parquet(buffer)
                _write(writing / f"{name}.parquet", buffer.getvalue())
            _write(writing / MANIFEST, _json_bytes(manifest))
            for file in sorted(writing.iterdir(), key=lambda file: file.name == MANIFEST):
                file.rename(path / file.name)
        finally:
            shutil.rmtree(writing, ignore_errors=True)
        return cls(path)


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with exactly the columns and types of the table ``name``.

    Raises:
        TraceError: naming table and column.
    """
    if name not in SCHEMAS:
        raise TraceError(f"no table `{name}`; expected {', '.join(SCHEMAS)}")
    schema, nullable = SCHEMAS[name], NULLABLE[name]
    for column in frame.columns:
        if column not in schema:
            raise TraceError(f"table `{name}`: unknown column `{column}`; expected {', '.join(schema)}")
    missing = [column for column in schema if column not in frame.columns]
    for column in missing:
        if column not in nullable:
            raise TraceError(f"table `{name}`: column `{column}` is missing")
    if list(frame.schema.items()) != list(schema.items()):
        frame = frame.with_columns(pl.lit(None, schema[column]).alias(column) for column in missing)
        try:
            frame = frame.select(pl.col(column).cast(dtype) for column, dtype in schema.items())
        except pl.exceptions.PolarsError as error:
            raise TraceError(f"table `{name}`: {error}") from None
    for column in schema:
        if column not in nullable and frame[column].null_count():
            raise TraceError(f"table `{name}`: column `{column}` has nulls, which it may not")
    return frame


@dataclass(frozen=True)
class Repeat:
    """What became of one repeat; ``reason`` says why it failed."""

    repeat: int
    seed: int
    status: Status
    reason: str = ""


class Run:
    """All repeats of a scenario on one backend: ``run.json`` and a trace per finished repeat."""

    def __init__(self, path: Path) -> None:
        """Opens a run.

        Raises:
            TraceError: ``path`` holds none.
        """
        self.path = path
        self.manifest: dict[str, Any] = _read_json(path / RUN_FILE, "run")

    def __repr__(self) -> str:
        return f"Run({str(self.path)!r})"

    @classmethod
    def create(cls, out: Path, *, scenario: str, backend: str, manifest: Mapping[str, object]) -> Run:
        """Makes the directory ``<out>/<scenario>-<backend>-<n>`` with the first free n from 1."""
        stem = f"{scenario}-{backend}-"
        number = 1 + max((_number(path.name, stem) for path in _subdirectories(out)), default=0)
        while True:
            path = out / f"{stem}{number}"
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                # Somebody else took this number in the meantime.
                number += 1
        write_json(path / RUN_FILE, {"scenario": {}, **manifest, "backend": backend, "repeats": []})
        return cls(path)

    @classmethod
    def open(cls, name_or_path: str | Path, *, out: Path = Path("runs")) -> Run:
        """Opens a run by its path, its name below ``out`` (``first-call-sim-3``), or ``latest``.

        Raises:
            TraceError: there is none.
        """
        text = str(name_or_path)
        known = {path.name: path for path in _subdirectories(out) if (path / RUN_FILE).is_file()}
        if (Path(text) / RUN_FILE).is_file():
            return cls(Path(text))
        if text in known:
            return cls(known[text])
        if text == "latest" and known:
            return cls(max(known.values(), key=lambda path: (path / RUN_FILE).stat().st_mtime_ns))
        near = difflib.get_close_matches(text, known, n=1)
        hint = f"did you mean `{near[0]}`?" if near else "make one with `rtclab run first-call`"
        raise TraceError(f"no run `{text}`: neither a directory with {RUN_FILE} nor below {out}/", hint=hint)

    @property
    def name(self) -> str:
        """Name of the directory, e.g. ``first-call-sim-3``."""
        return self.path.resolve().name

    @property
    def backend(self) -> str:
        """``sim`` or ``live``."""
        return str(self.manifest["backend"])

    @property
    def scenario(self) -> dict[str, Any]:
        """The scenario as it ran, with all changes, as JSON values."""
        scenario: dict[str, Any] = self.manifest["scenario"]
        return scenario

    @property
    def repeats(self) -> list[Repeat]:
        """What became of each repeat, in order."""
        return [Repeat(**entry) for entry in self.manifest["repeats"]]

    @cached_property
    def traces(self) -> list[Trace]:
        """The traces of the finished repeats, in order."""
        return [Trace(self.repeat_path(entry.repeat)) for entry in self.repeats if entry.status == "finished"]

    def repeat_path(self, repeat: int) -> Path:
        """Where the trace of a repeat lies."""
        return self.path / f"repeat-{repeat}"

    def record(self, outcome: Repeat) -> None:
        """Notes what became of a repeat, replacing what was noted before."""
        outcome = replace(outcome, reason=outcome.reason.strip())
        others = [entry for entry in self.manifest["repeats"] if entry["repeat"] != outcome.repeat]
        repeats = sorted([*others, asdict(outcome)], key=lambda entry: entry["repeat"])
        self.manifest = {**self.manifest, "repeats": repeats}
        self.__dict__.pop("traces", None)
        write_json(self.path / RUN_FILE, self.manifest)


def write_json(path: Path, value: object) -> None:
    """Writes a JSON file so that it is either the old one or the whole new one.

    Raises:
        DiskFull: the old file is still there then.
    """
    temporary = path.with_name(f".{path.name}-{os.getpid()}")
    try:
        _write(temporary, _json_bytes(value))
        temporary.rename(path)
    finally:
        temporary.unlink(missing_ok=True)


def _json_bytes(value: object) -> bytes:
    return (json.dumps(value, indent=1, ensure_ascii=False) + "\n").encode()


def _write(path: Path, data: bytes) -> None:
    try:
        path.write_bytes(data)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(path) from error
        raise


def _read_json(path: Path, what: str) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text())
    except FileNotFoundError:
        raise TraceError(f"{path.parent} is no {what}: it has no {path.name}") from None
    except (OSError, ValueError) as error:
        raise TraceError(f"{path}: cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise TraceError(f"{path}: expected a JSON object")
    return value


def _subdirectories(path: Path) -> list[Path]:
    return [entry for entry in path.iterdir() if entry.is_dir()] if path.is_dir() else []


def _number(name: str, stem: str) -> int:
    number = name.removeprefix(stem)
    return int(number) if name.startswith(stem) and number.isdecimal() else 0
