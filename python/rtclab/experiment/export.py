"""The values of all repeats as one table, and as a file for other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rtclab.errors import BadInput
from rtclab.experiment.flows import Flows
from rtclab.trace import replace_file, write_text

if TYPE_CHECKING:
    from rtclab.experiment.results import Results

SUFFIXES = (".csv", ".parquet")
OF_OUTCOMES = ("seed", "status", "reason")
OF_VALUES = ("metric", "flow", "unit", "value", "deviation", "measured_s")


def values_of_repeats(
    results: Results, metrics: str | Sequence[str] | None = None, flows: Flows = None
) -> pl.DataFrame:
    """The value of every metric for every flow in every repeat that ended, with the outcome of the repeat.

    Columns: ``condition`` and the varied fields, ``repeat``, ``seed``, ``status``, ``reason``, ``metric``,
    ``flow``, ``unit``, ``value``, ``deviation`` and ``measured_s``. A repeat without a value has one row, in
    which what is unknown is null.
    """
    values = results.metrics(metrics=metrics, flows=flows).select("condition", "repeat", *OF_VALUES)
    order = pl.DataFrame({"condition": results.conditions}).with_row_index("place")
    outcomes = results.outcomes().join(order, on="condition").sort("place", "repeat")
    fields = outcomes.columns[: outcomes.columns.index("repeat")]
    return outcomes.select(*fields, "repeat", *OF_OUTCOMES).join(
        values, on=["condition", "repeat"], how="left", maintain_order="left_right"
    )


def write_values(
    path: Path, results: Results, metrics: str | Sequence[str] | None = None, flows: Flows = None
) -> None:
    """Writes :func:`values_of_repeats` as CSV or Parquet, by the ending of the path; directories are made.

    Raises:
        BadInput: the path has another ending, or there is no such metric or flow.
        DiskFull: no disk space is left.
    """
    if path.suffix not in SUFFIXES:
        raise BadInput(f"export: `{path}`: expected a name that ends in {' or '.join(SUFFIXES)}")
    rows = values_of_repeats(results, metrics, flows)
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        write_text(path, rows.write_csv())
    else:
        replace_file(path, rows.write_parquet)
