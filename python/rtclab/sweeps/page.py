"""The report of a sweep: the varied fields, plots of the essential metrics, and a table of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from rtclab.metrics import METRICS, Metric, essentials
from rtclab.report import Plot
from rtclab.report.page import render
from rtclab.report.words import flow_in_words
from rtclab.sweeps.plan import Plan
from rtclab.sweeps.plots import make_plot
from rtclab.sweeps.values import Field

MAX_LINES = 6
"""Maximum number of lines in a plot. With more values of the second field, the plot is a heat map."""
MAX_ROWS = 200
"""Maximum number of rows in the table of points. The Parquet file has all rows."""
MAX_FAILURES = 20


@dataclass(frozen=True)
class Line:
    """A row of the table: one flow of one point.

    ``values`` are the values of the varied fields. ``cells`` has a row of the summary for each metric, or
    None.
    """

    values: Sequence[str]
    flow: str
    cells: Sequence[dict[str, Any] | None]


def page_of(
    name: str,
    plan: Plan,
    facts: Sequence[tuple[str, str]],
    rows: pl.LazyFrame,
    summary: pl.DataFrame,
    failures: pl.DataFrame,
) -> str:
    """The HTML text of the report."""
    names = essentials(summary.drop_nulls("mean")["metric"].unique())
    essential = summary.filter(pl.col("metric").is_in(names) & (pl.col("flow") != ""))
    metrics = [METRICS[metric] for metric in names if metric in essential["metric"]]
    lines = _lines(essential, plan.fields, metrics)
    failed = failures.head(MAX_FAILURES).iter_rows(named=True)
    return render(
        "sweep.html",
        [plot for metric in metrics for plot in _plots(rows, plan.fields, metric.name)],
        name=name,
        title=plan.scenario.get("title") or plan.name,
        facts=facts,
        fields=[(field.name, ", ".join(field.texts)) for field in plan.fields],
        columns=[field.name for field in plan.fields],
        metrics=metrics,
        lines=lines[:MAX_ROWS],
        left_out=max(len(lines) - MAX_ROWS, 0),
        failures=[(_point(row, plan.fields), row["repeat"], row["failure"]) for row in failed],
        more_failures=max(failures.height - MAX_FAILURES, 0),
    )


def _plots(rows: pl.LazyFrame, fields: Sequence[Field], metric: str) -> list[Plot]:
    """One plot for up to two fields: lines, or a heat map. For more fields, one plot per field."""
    match [field.name for field in fields]:
        case [only]:
            return [make_plot(rows, fields, metric, only, None, None)]
        case [first, second]:
            across = sorted(fields, key=lambda field: (bool(field.numbers), field.count))[0]
            if across.count > MAX_LINES:
                return [make_plot(rows, fields, metric, None, None, None)]
            along = second if across.name == first else first
            return [make_plot(rows, fields, metric, along, across.name, None)]
        case names:
            return [make_plot(rows, fields, metric, one, None, None) for one in names]


def _lines(essential: pl.DataFrame, fields: Sequence[Field], metrics: Sequence[Metric]) -> list[Line]:
    cells: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in essential.iter_rows(named=True):
        key = (*(row[field.name] for field in fields), row["flow"])
        cells.setdefault(key, {})[row["metric"]] = row
    return [
        Line(values, flow_in_words(flow), [known.get(metric.name) for metric in metrics])
        for (*values, flow), known in cells.items()
    ]


def _point(row: dict[str, Any], fields: Sequence[Field]) -> str:
    return ", ".join(f"{field.name} = {row[field.name]}" for field in fields)
