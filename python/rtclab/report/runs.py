"""The report of a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from rtclab.experiment.comparison import totals_per_minute
from rtclab.experiment.flows import Flows, carrying, chosen_flows
from rtclab.experiment.summary import summary_of_run
from rtclab.metrics import METRICS, Metric, essentials
from rtclab.metrics.wire import StreamRates, stream_rates
from rtclab.phrases import count, name_for_commands
from rtclab.report import imported, words
from rtclab.report.answer import GOOD, MARKS
from rtclab.report.chart import legend
from rtclab.report.page import write_page
from rtclab.report.people import people_of
from rtclab.report.plots_of_runs import page_flows, run_plots
from rtclab.report.quality import FREEZES, judged, marks_of
from rtclab.report.run_answer import answer_of
from rtclab.report.shown_flows import main_flows
from rtclab.report.timeline import timeline
from rtclab.report.verdict import Findings, findings, verdict
from rtclab.report.why import ABOUT, FlowAccount, Why, why
from rtclab.report.words import flow_in_words
from rtclab.trace import Run, window_in_words

FEW_FLOWS = 6
"""With more flows than this, the metrics begin with a table of means and extremes over flows."""
MOST_REASONS = 6
"""Maximum number of flows whose reasons the page of a run says; `rtclab why` says all."""
MOST_FLOWS = 20
"""Maximum number of flows in a table; more would make a page of megabytes."""


@dataclass(frozen=True)
class Spread:
    """A metric over many flows: their mean, and the lowest and highest value, each with its flow."""

    metric: Metric
    mean: float
    lowest: tuple[float, str]
    highest: tuple[float, str]


def write_report(
    run: Run, measured: pl.DataFrame | None = None, page: Path | None = None, wanted: Flows = None
) -> Path:
    """Writes the report of a run to ``page``, by default ``report.html`` in its directory; returns the path.

    ``measured`` is the result of ``summary_of_run``, if the caller already has it. The page shows the wanted
    flows, or all that do not carry feedback alone. If no repeat finished, the page says why.
    """
    measured = summary_of_run(run) if measured is None else measured
    flows = _in_order(run) if wanted is None else chosen_flows(wanted, run.flows)
    main = main_flows(run) if wanted is None else flows
    shown = flows[:MOST_FLOWS]
    reasons = why(run, None if wanted is None else flows, MOST_REASONS) if run.traces else Why([])
    found = findings_of(run, measured)
    if wanted is not None:
        found = found.only(flows)
    marked = judged(run, found.means, found.media)
    table = _rows(measured, shown)
    marks = marks_of(marked, found.silent)
    columns = _columns(run, wanted, reasons.accounts, marks) if table else []
    rows = timeline(run, [column.flow for column in columns], reasons.accounts) if columns else []
    plots = run_plots(run, wanted, reasons.accounts) if table else []
    names = [plot.name for plot in plots]
    return write_page(
        page or run.path / "report.html",
        "report.html",
        [*rows, *plots],
        tied=True,
        run=run,
        title=run.scenario.get("title") or run.scenario.get("name") or run.name,
        window=run.window and window_in_words(run.window),
        about=_about(run),
        calls=words.calls_of(run),
        network=words.network_of(run),
        answer=answer_of(run, measured, found, marked, reasons),
        verdict=verdict(found),
        rows_of_timeline=len(rows),
        columns_of_timeline=columns,
        legend=legend(rows),
        events=rows[0].events if rows else [],
        people=people_of(run, found, marked),
        reasons=reasons,
        anchors={what: next((one for one in of if one in names), "") for what, of in ABOUT.items()},
        flow_in_words=flow_in_words,
        name=name_for_commands(run.path),
        cautions=cautions_of(run),
        facts=facts_of(run),
        problems=_problems(run),
        columns=[flow_in_words(flow) for flow in shown],
        left_out=len(flows) - len(shown),
        groups=_groups(table),
        marks={(one.metric, one.flow): one.mark for one in marked},
        shown=shown,
        spreads=_spreads(measured, main) if len(flows) > FEW_FLOWS else [],
        whole=_rows(measured, [""]),
        metrics=METRICS.values(),
        streams=_streams(run, shown),
    )


@dataclass(frozen=True)
class TimelineColumn:
    """A column of the timeline: a flow, its heading and its mark."""

    flow: str
    title: str
    mark: str


def _columns(
    run: Run, wanted: Flows, accounts: Sequence[FlowAccount], marks: Mapping[str, str]
) -> list[TimelineColumn]:
    """The flows of the timeline, the worst first."""
    flows = page_flows(run, wanted, accounts) if run.traces else []
    flows = sorted(flows, key=lambda flow: -MARKS.index(marks.get(flow, GOOD)))
    return [TimelineColumn(flow, flow_in_words(flow), marks.get(flow, "")) for flow in flows]


def _about(run: Run) -> str:
    """What kind of run it is, in a line: ``simulated, 60 s, 5 of 5 repeats``."""
    duration = str(run.scenario.get("duration", ""))
    repeats = f"{run.finished} of {count(run.planned, 'repeat')}"
    known = "one recording" if run.backend in words.IMPORTED else repeats
    return ", ".join(filter(None, [words.kind_in_words(run.backend), duration, known]))


GROUPS = {
    "Rate": ("rate", "wire", "adapting", "fairness", "tcp"),
    "Delay": ("delay", "arrivals", "budget"),
    "Loss and repair": ("loss", "repair", "marks", "fates"),
    "Pictures": ("media",),
    "Sound": ("audio",),
    "What limited the rate": ("limited",),
    "Set-up, time and processor": ("setup", "host"),
}
"""The groups of metrics by the modules that define them; others are of the group ``OTHERS``."""
OTHERS = "Others"
Rows = list[tuple[Metric, list[dict[str, Any] | None]]]


def _groups(rows: Rows) -> list[tuple[str, Rows]]:
    """Rows of the table of metrics by what they are about; first those to look at first."""
    modules = {module: title for title, of in GROUPS.items() for module in of}
    first = essentials({metric.name for metric, _ in rows})
    by_name = {metric.name: (metric, cells) for metric, cells in rows}
    found = {FIRST: [by_name[name] for name in first]} | {title: [] for title in (*GROUPS, OTHERS)}
    for metric, cells in rows:
        if metric.name not in first:
            module = metric.function.__module__.rpartition(".")[2]
            found[modules.get(module, OTHERS)].append((metric, cells))
    return [(title, of) for title, of in found.items() if of]


FIRST = "First"
"""The group of the metrics to look at first."""


def run_verdict(run: Run, measured: pl.DataFrame) -> str:
    """The sentence that sums up a run; ``measured`` is its summary."""
    return verdict(findings_of(run, measured))


def findings_of(run: Run, measured: pl.DataFrame) -> Findings:
    """The facts about a run from its summary."""
    return findings(run, means_of(measured, "mean") | totals_per_minute(run, [FREEZES]))


def _rows(table: pl.DataFrame, flows: Sequence[str]) -> list[tuple[Metric, list[dict[str, Any] | None]]]:
    """The metrics that have a value for any of the flows, in the order of the registry.

    Each comes with its row of the measured table for each flow, or None if it has none.
    """
    of_flows = table.filter(pl.col("flow").is_in(flows))
    known = {(row["metric"], row["flow"]): row for row in of_flows.iter_rows(named=True)}
    rows = []
    for metric in METRICS.values():
        cells = [known.get((metric.name, flow)) for flow in flows]
        if any(cell is not None and cell["mean"] is not None for cell in cells):
            rows.append((metric, cells))
    return rows


def _in_order(run: Run) -> list[str]:
    """The flows of a run that do not carry feedback alone, beginning with the main flows."""
    return list(dict.fromkeys([*main_flows(run), *carrying([run])]))


def _problems(run: Run) -> list[tuple[str, list[tuple[str, str, str]]]]:
    """What is said of repeats: a heading, and the number of each repeat and the reason."""
    named = [(f"Repeat {one.repeat}", one) for one in run.repeats]
    reasons = [(one.status, (name, "", one.reason or "no reason recorded")) for name, one in named]
    return [
        ("Failed repeats", [row for status, row in reasons if status == "failed"]),
        (
            "Repeats that say nothing about the call: the laboratory failed",
            [row for status, row in reasons if status == "error"],
        ),
        ("Notes on finished repeats", [(name, "", one.note) for name, one in named if one.note]),
    ]


def means_of(table: pl.DataFrame, column: str) -> dict[tuple[str, str], float]:
    """The values of a column of the measured table, by metric and flow."""
    metrics, flows, values = table.drop_nulls(column).select("metric", "flow", column)
    return dict(zip(zip(metrics.to_list(), flows.to_list(), strict=True), values.to_list(), strict=True))


def _spreads(measured: pl.DataFrame, flows: Sequence[str]) -> list[Spread]:
    """A row for each metric that has a value for any of the flows."""
    known = measured.drop_nulls("mean").filter(pl.col("flow").is_in(flows))
    in_words = {flow: flow_in_words(flow) for flow in flows}
    found = []
    for name, means, of in known.group_by("metric", maintain_order=True).agg("mean", "flow").iter_rows():
        values = [*zip(means, map(in_words.__getitem__, of), strict=True)]
        found.append(Spread(METRICS[name], fmean(means), min(values), max(values)))
    return found


def _streams(run: Run, flows: Sequence[str]) -> list[tuple[str, StreamRates]]:
    """Name and rates of every stream of the flows; rates are means over the repeats that have the stream."""
    known = (one for trace in run.traces for one in stream_rates(trace, flows))
    names = ("wire", "repair", "stats", "difference_bytes")
    found = []
    for (flow, kind), repeats in words.grouped(((one.flow, one.kind), one) for one in known).items():
        means = (float(np.mean([getattr(rates, name) for rates in repeats])) for name in names)
        found.append((f"{flow_in_words(flow)}, {kind}", StreamRates(flow, kind, *means)))
    return found


def cautions_of(run: Run) -> list[str]:
    """What a reader must know of the results, beginning with the repeats that are missing."""
    missing = f"{run.unfinished} of {run.planned} repeats did not run to their end."
    resume = [f"{missing} `rtclab run --resume {run.path}` runs them."] if run.unfinished else []
    return [*resume, *words.cautions(run), *imported.cautions(run.traces)]


def facts_of(run: Run) -> list[tuple[str, str]]:
    """How the run was made, as pairs of name and value."""
    scenario = run.scenario
    backends = {
        "sim": "simulated (virtual time)",
        "live": "live (real browsers, emulated network)",
        "log": "imported log of a browser",
        "capture": "imported capture",
    }
    facts = [
        ("Scenario", "" if run.backend in words.IMPORTED else str(scenario.get("name", ""))),
        ("Source", str(scenario.get("source") or "")),
        ("Backend", backends.get(run.backend, run.backend)),
        ("Repeats", f"{run.finished} of {run.planned} finished"),
        ("Duration", str(scenario.get("duration", ""))),
        *imported.facts(run.traces),
        ("Seed", str(scenario.get("seed", ""))),
        *words.controls(run),
        ("Emulator lateness", words.lateness(run.traces)),
        ("Versions", words.versions(run)),
        ("Machine", words.machine_in_words(run.machine)),
    ]
    return [(name, value) for name, value in facts if value]
