"""A sweep on disk: ``sweep.json``, a part for each finished task and, at the end, one table.

A part is a Parquet file that is named after its task and written atomically. So however a sweep ends, each
finished task has exactly one part, and only tasks without a part are run again.
"""

from __future__ import annotations

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
from rtclab.scenario.table import closest
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
    """The directory of a sweep."""

    def __init__(self, path: Path) -> None:
        """Opens a sweep.

        Raises:
            TraceError: the directory is not a sweep, or it cannot be read.
        """
        self.path = path
        known = read_json(path / SWEEP_FILE, "sweep")
        try:
            self.plan = Plan.from_json(known["plan"])
            self.versions: dict[str, Any] = known["versions"]
            self.metrics: list[str] = known["metrics"]
        except (KeyError, TypeError) as error:
            raise TraceError(
                f"{path / SWEEP_FILE}: not in the format of this version of rtclab: {error}",
                hint="run the sweep again",
            ) from None

    @classmethod
    def create(cls, out: Path, plan: Plan) -> Self:
        """Creates the directory ``<out>/<scenario>-sweep-<n>``."""
        path = new_directory(out, f"{plan.name}-sweep-")
        about = {
            "versions": versions(),
            "machine": machine().model_dump(),
            "metrics": list(METRICS),
            "plan": plan.as_json(),
        }
        write_json(path / SWEEP_FILE, about)
        return cls(path)

    @classmethod
    def open(cls, name_or_path: str | Path, out: Path) -> Self:
        """Opens a sweep by its path or by its name below ``out``.

        Raises:
            TraceError: there is no such sweep.
        """
        for path in (Path(name_or_path), out / name_or_path):
            if (path / SWEEP_FILE).is_file():
                return cls(path)
        known = [path.name for path in subdirectories(out) if (path / SWEEP_FILE).is_file()]
        raise TraceError(
            f"no sweep `{name_or_path}`: neither a directory with {SWEEP_FILE} nor a name below {out}/",
            hint=closest(name_or_path, known),
        )

    def writing(self) -> AbstractContextManager[None]:
        """Locks the sweep for writing.

        Raises:
            BadInput: another process is writing to it. The message names the process.
        """
        return only_writer(self.path)

    def check_versions(self) -> None:
        """Checks that the sweep was started by this build of rtclab.

        Raises:
            BadInput: another build started it.
        """
        if self.versions != versions():
            raise BadInput(
                f"{self.path} was made by rtclab {self.versions.get('rtclab')}, "
                f"build {self.versions.get('code')}; this is build {versions()['code']}",
                hint="start a new sweep without --resume",
            )

    def check_metrics(self) -> None:
        """Checks that all metrics that the sweep measures are defined here.

        Raises:
            BadInput: one is not, so the remaining repeats would lack it.
        """
        missing = [f"`{name}`" for name in self.metrics if name not in METRICS]
        if missing:
            raise BadInput(
                f"{self.path} measures {', '.join(missing)}, which this program does not define",
                hint="resume it with `rtclab.sweep(resume=…)` in Python, after importing the module that "
                "defines the metric",
            )

    @property
    def table_file(self) -> Path:
        """File of the table, which exists once the sweep is finished."""
        return self.path / TABLE_FILE

    @property
    def finished(self) -> bool:
        """Whether all tasks have finished and the table is written."""
        return self.table_file.is_file()

    def done(self) -> set[int]:
        """Numbers of the finished tasks."""
        if self.finished:
            return set(range(self.plan.tasks))
        return {int(file.stem) for file in (self.path / PARTS).glob(ANY_PART)}

    def repeats_done(self) -> int:
        """Number of finished repeats."""
        return sum(len(self.plan.numbers(task)) for task in self.done())

    def add(self, task: int, part: bytes) -> None:
        """Writes the part of a task.

        Raises:
            DiskFull: no disk space is left. Earlier parts are kept.
        """
        self._part(task).parent.mkdir(exist_ok=True)
        write_bytes(self._part(task), part)

    def _part(self, task: int) -> Path:
        return self.path / PARTS / f"{task:06}.parquet"

    def rows(self) -> pl.LazyFrame:
        """The rows of all finished repeats; docs/sweeps.md describes the columns."""
        return pl.scan_parquet(self.table_file) if self.finished else self._rows_of_parts()

    def _rows_of_parts(self) -> pl.LazyFrame:
        parts = sorted((self.path / PARTS).glob(ANY_PART))
        return self._with_points(pl.scan_parquet(parts) if parts else PART.to_frame().lazy())

    def merge(self) -> None:
        """Merges all parts into the table, then deletes them.

        Raises:
            DiskFull: no disk space is left. The parts are kept.
        """
        replace_file(self.table_file, self._write_table)
        shutil.rmtree(self.path / PARTS)

    def point_directory(self, point: int) -> Path:
        """Directory of a point's live run."""
        return self.path / "points" / f"{point:06}"

    def _write_table(self, file: Path) -> None:
        try:
            self._rows_of_parts().sink_parquet(file)
        except pl.exceptions.ComputeError as error:
            # Polars hides the operating system's error in its own.
            if f"os error {errno.ENOSPC}" in str(error):
                raise DiskFull(self.table_file) from error
            raise

    def _with_points(self, parts: pl.LazyFrame) -> pl.LazyFrame:
        """Adds the values of the varied fields and the units of the metrics to the rows of parts."""
        units = {"metric": list(METRICS), "unit": [metric.unit for metric in METRICS.values()]}
        points = points_table(self.plan)
        # Joins are streamed and need little memory. Looking values up in a list would hold all rows.
        return (
            parts.join(points.lazy(), on="point", how="left", maintain_order="left")
            .join(pl.LazyFrame(units), on="metric", how="left", maintain_order="left")
            .select(*points.columns, "repeat", "metric", "unit", "flow", "value", "failure")
        )


def points_table(plan: Plan) -> pl.DataFrame:
    """The values of the fields at each point, as given and as numbers; one row per point."""
    point = np.arange(plan.points, dtype=np.int32)
    texts, numbers, stride = [], [], plan.points
    for field in plan.fields:
        stride //= field.count
        index = pl.Series(point // stride % field.count)
        texts.append(pl.Series(field.name, field.texts, dtype=pl.Enum(field.texts))[index])
        if field.numbers:
            numbers.append(pl.Series(field.number_column, field.numbers, dtype=pl.Float64)[index])
    return pl.DataFrame([pl.Series("point", point), *texts, *numbers])
