"""The report of several conditions: what differs, plots of the essential metrics, and a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from rtclab.errors import BadInput
from rtclab.experiment.fields import Field
from rtclab.experiment.flows import Flows
from rtclab.metrics import METRICS, Metric, essentials
from rtclab.report.page import write_page
from rtclab.report.plot import Plot
from rtclab.report.sweep_plots import MAX_LINES, sweep_plot
from rtclab.report.words import flow_in_words, versions
from rtclab.trace import OpenWindow, Run, window_in_words

MAX_ROWS = 200
"""Maximum number of rows in the table of points. The store has all rows."""
MAX_FAILURES = 20


class Swept(Protocol):
    """What the report needs of :class:`rtclab.Results`."""

    @property
    def path(self) -> Path: ...
    @property
    def name(self) -> str: ...
    @property
    def fields(self) -> list[str]: ...
    @property
    def varied(self) -> tuple[Field, ...]: ...
    @property
    def conditions(self) -> list[str]: ...
    @property
    def part(self) -> str: ...
    @property
    def window(self) -> OpenWindow | None: ...
    @property
    def page_suffix(self) -> str: ...
    @property
    def runs(self) -> list[Run]: ...
    @property
    def finished(self) -> int: ...
    @property
    def planned(self) -> int: ...
    def outcomes(self) -> pl.DataFrame: ...
    def failures(self) -> pl.DataFrame: ...
    def metrics(self, *, metrics: Sequence[str] | None = None) -> pl.DataFrame: ...
    def rows_of_flows(self, rows: pl.DataFrame, flows: Flows) -> pl.DataFrame: ...
    def without_feedback(self, rows: pl.DataFrame) -> pl.DataFrame: ...


@dataclass(frozen=True)
class SweepView:
    """What the report of a sweep shows: metrics, the fields of axis and lines, flows, averaged fields."""

    metrics: Sequence[str] = ()
    x: str | None = None
    by: str | None = None
    flow: Flows = None
    average: tuple[str, ...] = ()


@dataclass(frozen=True)
class PointLine:
    """A row of the table: one flow of one point.

    ``values`` are the values of the varied fields. ``cells`` has a row of the summary for each metric, or
    None. ``repeats`` says how many repeats its means are of, if they are fewer than in other rows.
    """

    values: Sequence[str]
    flow: str
    cells: Sequence[dict[str, Any] | None]
    repeats: str = ""


def write_sweep_report(results: Swept, summary: pl.DataFrame, chosen: SweepView | None = None) -> Path:
    """Writes ``report.html`` into the directory of the results of several conditions; returns its path.

    The page of some of the conditions says which, and has a name of its own.

    Raises:
        DiskFull: no disk space is left.
    """
    chosen = chosen or SweepView()
    essential, metrics = _essential(_of_flows(results, summary, chosen), chosen)
    lines = _lines(essential, [field.name for field in results.varied], metrics)
    failures = results.failures()
    failed = failures.head(MAX_FAILURES).iter_rows(named=True)
    return write_page(
        results.path / f"report{results.page_suffix}.html",
        "sweep.html",
        sweep_plots(results, summary, chosen),
        name=results.name,
        title=str(results.runs[0].scenario.get("title") or results.name),
        part=results.part,
        window=results.window and window_in_words(results.window),
        facts=_facts(results),
        fields=[(field.name, ", ".join(field.texts)) for field in results.varied],
        columns=[field.name for field in results.varied],
        metrics=metrics,
        lines=lines[:MAX_ROWS],
        left_out=max(len(lines) - MAX_ROWS, 0),
        failures=[(f"{row['condition']}, repeat {row['repeat']}", "", row["reason"]) for row in failed],
        more_failures=max(failures.height - MAX_FAILURES, 0),
    )


def sweep_plots(results: Swept, summary: pl.DataFrame, chosen: SweepView) -> list[Plot]:
    """The plots of the chosen or the essential metrics, in the order of the report."""
    names = [metric.name for metric in _essential(summary, chosen)[1]]
    rows = _of_flows(results, results.metrics(metrics=names), chosen)
    return [
        plot
        for name in names
        for plot in _plots(results, name, rows.filter(pl.col("metric") == name), chosen)
    ]


def _of_flows(results: Swept, rows: pl.DataFrame, chosen: SweepView) -> pl.DataFrame:
    """The rows of the chosen flows, or of all flows that do not carry feedback alone."""
    return results.without_feedback(rows) if chosen.flow is None else results.rows_of_flows(rows, chosen.flow)


def _essential(summary: pl.DataFrame, chosen: SweepView) -> tuple[pl.DataFrame, list[Metric]]:
    """The rows of the summary and the metrics that the report shows."""
    names = chosen.metrics or essentials(summary.drop_nulls("mean")["metric"].unique())
    rows = summary.filter(pl.col("metric").is_in(names) & (pl.col("flow") != ""))
    return rows, [METRICS[metric] for metric in names if metric in rows["metric"]]


def _plots(results: Swept, metric: str, rows: pl.DataFrame, chosen: SweepView) -> list[Plot]:
    """The plots of a metric. With more fields than a plot can show, its values are averaged over some."""
    fields = [field for field in results.varied if field.count > 1] or results.varied[:1]
    if rows.is_empty():
        return []
    options = (chosen.x, chosen.by, chosen.flow, chosen.average)
    if options != (None, None, None, ()):
        return [sweep_plot(rows, fields, metric, *options)]
    few, *_, many = sorted([*fields, fields[0]], key=lambda field: (bool(field.numbers), field.count))
    try:
        if few == many or few.count > MAX_LINES:
            return [sweep_plot(rows, fields, metric)]
        return [sweep_plot(rows, fields, metric, many.name, few.name)]
    except BadInput:  # too many combinations of further fields
        of_flow = str(rows["flow"][0])
        others = {one.name: [other.name for other in fields if other != one] for one in fields}
        return [sweep_plot(rows, fields, metric, x, None, of_flow, average) for x, average in others.items()]


def _facts(results: Swept) -> list[tuple[str, str]]:
    """The facts at the top of the report, as pairs of label and value."""
    run = results.runs[0]
    repeats = f"{run.planned} of each" + (", with the same seeds" if results.fields else "")
    facts = [
        ("Scenario", str(run.scenario["name"])),
        ("Backend", "simulated (virtual time)" if run.backend == "sim" else run.backend),
        ("Conditions", str(len(results.conditions))),
        ("Repeats", repeats),
        ("Finished", f"{results.finished} of {results.planned}"),
        ("Versions", versions(run)),
    ]
    older = int(results.outcomes()["older"].sum())
    if older:
        facts.append(("Older", f"{older} repeats were run by another build of rtclab"))
    return facts


def _lines(essential: pl.DataFrame, fields: Sequence[str], metrics: Sequence[Metric]) -> list[PointLine]:
    cells: dict[tuple[str, ...], dict[str, dict[str, Any]]] = {}
    for row in essential.iter_rows(named=True):
        key = (*(row[field] for field in fields), row["flow"])
        cells.setdefault(key, {})[row["metric"]] = row
    counts = {key: max(row["repeats"] for row in known.values()) for key, known in cells.items()}
    most = max(counts.values(), default=0)
    return [
        PointLine(
            key[:-1],
            flow_in_words(key[-1]),
            [known.get(metric.name) for metric in metrics],
            f"{counts[key]} of {most} repeats" if counts[key] < most else "",
        )
        for key, known in cells.items()
    ]
