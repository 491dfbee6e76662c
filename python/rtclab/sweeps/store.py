"""A sweep on disk: ``sweep.json``, a part per finished task, and in the end one table of all.

A part is written whole or not at all, under the number of its task. So whatever ends a sweep leaves every
finished task once, and a task is run again only if it has no part.
"""

from __future__ import annotations

import difflib
import errno
import shutil
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import numpy as np
import polars as pl

from rtclab.backend import machine
from rtclab.errors import BadInput, DiskFull, TraceError
from rtclab.metrics import METRICS
from rtclab.sweeps.measure import PART
from rtclab.sweeps.plan import Plan
from rtclab.sweeps.worker import versions
from rtclab.trace import (
    new_directory,
    only_writer,
    read_json,
    replace_file,
    subdirectories,
    write_bytes,
    write_json,
)

SWEEP_FILE = "sweep.json"
TABLE_FILE = "metrics.parquet"
PARTS = "parts"
ANY_PART = "[0-9]*.parquet"


class Store:
    """The directory of one sweep."""

    def __init__(self, path: Path) -> None:
        """Opens a sweep.

        Raises:
            TraceError: there is none, or it cannot be read.
        """
        self.path = path
        known = read_json(path / SWEEP_FILE, "sweep")
        try:
            self.plan = Plan.from_json(known["plan"])
            self.versions: dict[str, Any] = known["versions"]
        except (KeyError, TypeError) as error:
            raise TraceError(
                f"{path / SWEEP_FILE}: not as this rtclab writes it: {error}", hint="make the sweep again"
            ) from None

    @classmethod
    def create(cls, out: Path, plan: Plan) -> Self:
        """Makes the directory ``<out>/<scenario>-sweep-<n>``."""
        path = new_directory(out, f"{plan.name}-sweep-")
        about = {"versions": versions(), "machine": machine().model_dump(), "plan": plan.as_json()}
        write_json(path / SWEEP_FILE, about)
        return cls(path)

    @classmethod
    def open(cls, name_or_path: str | Path, out: Path) -> Self:
        """Opens a sweep by its path or its name below ``out``.

        Raises:
            TraceError: there is none.
        """
        for path in (Path(name_or_path), out / name_or_path):
            if (path / SWEEP_FILE).is_file():
                return cls(path)
        known = [path.name for path in subdirectories(out) if (path / SWEEP_FILE).is_file()]
        near = difflib.get_close_matches(str(name_or_path), known, n=1)
        raise TraceError(
            f"no sweep `{name_or_path}`: neither a directory with {SWEEP_FILE} nor below {out}/",
            hint=f"did you mean `{near[0]}`?" if near else None,
        )

    def writing(self) -> AbstractContextManager[None]:
        """Holds the sweep for writing.

        Raises:
            BadInput: somebody else is writing it; the message names the process.
        """
        return only_writer(self.path)

    def check_versions(self) -> None:
        """Refuses to go on with what another rtclab began.

        Raises:
            BadInput: naming both builds.
        """
        if self.versions != versions():
            raise BadInput(
                f"{self.path} was made by rtclab {self.versions.get('rtclab')}, "
                f"build {self.versions.get('code')}; this is another build",
                hint="start a new sweep without --resume",
            )

    @property
    def table_file(self) -> Path:
        """The table of all results, once the sweep is finished."""
        return self.path / TABLE_FILE

    @property
    def finished(self) -> bool:
        """Whether every task is done and the table written."""
        return self.table_file.is_file()

    def done(self) -> set[int]:
        """The tasks that have a part; all once the sweep is finished."""
        if self.finished:
            return set(range(self.plan.tasks))
        return {int(file.stem) for file in (self.path / PARTS).glob(ANY_PART)}

    def repeats_done(self) -> int:
        """How many repeats are finished."""
        return sum(len(self.plan.numbers(task)) for task in self.done())

    def add(self, task: int, part: bytes) -> None:
        """Keeps the part of a task.

        Raises:
            DiskFull: the parts before are still there then.
        """
        self._part(task).parent.mkdir(exist_ok=True)
        replace_file(self._part(task), lambda file: write_bytes(file, part))

    def _part(self, task: int) -> Path:
        return self.path / PARTS / f"{task:06}.parquet"

    def rows(self) -> pl.LazyFrame:
        """All rows that are finished, as docs/sweeps.md describes them."""
        return pl.scan_parquet(self.table_file) if self.finished else self._rows_of_parts()

    def _rows_of_parts(self) -> pl.LazyFrame:
        parts = sorted((self.path / PARTS).glob(ANY_PART))
        return self._tidy(pl.scan_parquet(parts) if parts else PART.to_frame().lazy())

    def merge(self) -> None:
        """Makes the one table of all parts, and removes these.

        Raises:
            DiskFull: the parts are still there then.
        """
        replace_file(self.table_file, self._write_table)
        shutil.rmtree(self.path / PARTS)

    def point_directory(self, point: int) -> Path:
        """Where the live run of a point lies."""
        return self.path / "points" / f"{point:06}"

    def _write_table(self, file: Path) -> None:
        try:
            self._rows_of_parts().sink_parquet(file)
        except pl.exceptions.ComputeError as error:
            # Polars hides the operating system's error in its own.
            if f"os error {errno.ENOSPC}" in str(error):
                raise DiskFull(self.table_file) from error
            raise

    def _tidy(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Rows of parts with their values of the varied fields, and the units of metrics."""
        units = {"metric": list(METRICS), "unit": [metric.unit for metric in METRICS.values()]}
        points = points_table(self.plan)
        # Joins run in little memory; looking values up in a list would hold all rows.
        return (
            parts.join(points.lazy(), on="point", how="left", maintain_order="left")
            .join(pl.LazyFrame(units), on="metric", how="left", maintain_order="left")
            .select(*points.columns, "repeat", "metric", "unit", "flow", "value", "failure")
        )


def points_table(plan: Plan) -> pl.DataFrame:
    """The values of each point's fields, as they were given and as numbers."""
    point = np.arange(plan.points, dtype=np.int32)
    texts, numbers, stride = [], [], plan.points
    for field in plan.fields:
        stride //= field.count
        index = pl.Series(point // stride % field.count)
        texts.append(pl.Series(field.name, field.texts, dtype=pl.Enum(field.texts))[index])
        if field.numbers:
            numbers.append(pl.Series(field.number_column, field.numbers, dtype=pl.Float64)[index])
    return pl.DataFrame([pl.Series("point", point), *texts, *numbers])
