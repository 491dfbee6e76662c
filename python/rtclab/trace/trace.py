"""One repeat on disk."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.errors import TraceError
from rtclab.trace.files import json_bytes, read_json, write_bytes
from rtclab.trace.schema import OPTIONAL_TABLES, SCHEMAS, conform

MANIFEST = "manifest.json"


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
                write_bytes(writing / f"{name}.parquet", buffer.getvalue())
            write_bytes(writing / MANIFEST, json_bytes(manifest))
            for file in sorted(writing.iterdir(), key=lambda file: file.name == MANIFEST):
                file.rename(path / file.name)
        finally:
            shutil.rmtree(writing, ignore_errors=True)
        return cls(path)
