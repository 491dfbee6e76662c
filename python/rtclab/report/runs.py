"""The report of a run, and the page that compares runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import polars as pl

from rtclab.experiment.comparison import MARGIN_PERCENT, Differences, Side, totals_per_minute
from rtclab.experiment.flows import Flows, carrying, chosen_flows
from rtclab.experiment.summary import summary_of_run
from rtclab.metrics import METRICS, Metric, essentials
from rtclab.metrics.wire import StreamRates, stream_rates
from rtclab.phrases import name_for_commands, names_in_words, repeats_in_words, tests_in_words
from rtclab.report import imported, words
from rtclab.report.answer import GOOD, MARKS
from rtclab.report.chart import legend
from rtclab.report.differences import scenario_differences
from rtclab.report.page import write_page
from rtclab.report.people import people_of
from rtclab.report.quality import FREEZES, Judged, judged, worst
from rtclab.report.run_answer import answer_of
from rtclab.report.run_plots import comparison_plots, page_flows, run_plots
from rtclab.report.shown_flows import main_flows
from rtclab.report.timeline import timeline
from rtclab.report.verdict import Findings, findings, verdict
from rtclab.report.why import ABOUT, FlowAccount, Why, why
from rtclab.report.words import flow_in_words
from rtclab.trace import Run, window_in_words

WHOLE_RUN = "whole run"
FEW_FLOWS = 6
"""With more flows than this, the metrics begin with a table of means and extremes over flows."""
MOST_CONDITIONS = 20
"""Maximum number of conditions whose metrics the page of a comparison has."""
MOST_REASONS = 6
"""Maximum number of flows whose reasons the page of a run says; `rtclab why` says all."""
MOST_FLOWS = 20
"""Maximum number of flows in a table; more would make a page of megabytes."""


@dataclass(frozen=True)
class ComparedRow:
    """A metric of a flow, and for each run beyond the first its row of the compared table.

    ``baseline`` is the first of these that has a value of the first run, if any has one. All numbers have the
    decimals of ``like``.
    """

    metric: Metric
    cells: Sequence[dict[str, Any]]
    baseline: dict[str, Any]
    like: float


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
    marked = judged(run, found.means, found.media)
    columns = _columns(run, wanted, reasons.accounts, marked)
    rows = timeline(run, [column.flow for column in columns], reasons.accounts) if columns else []
    plots = run_plots(run, wanted, reasons.accounts)
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
        answer=answer_of(run, measured, found, reasons),
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
        cautions=_cautions(run),
        facts=_facts(run),
        problems=_problems(run),
        columns=[flow_in_words(flow) for flow in shown],
        left_out=len(flows) - len(shown),
        groups=_groups(_rows(measured, shown)),
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
    run: Run, wanted: Flows, accounts: Sequence[FlowAccount], marked: Sequence[Judged]
) -> list[TimelineColumn]:
    """The flows of the timeline, the worst first."""
    flows = page_flows(run, wanted, accounts) if run.traces else []
    marks = {flow: worst([one.mark for one in marked if one.flow == flow]) for flow in flows}
    flows = sorted(flows, key=lambda flow: -MARKS.index(marks[flow] or GOOD))
    return [TimelineColumn(flow, flow_in_words(flow), marks[flow]) for flow in flows]


def _about(run: Run) -> str:
    """What kind of run it is, in a line: ``simulated, 60 s, 5 of 5 repeats``."""
    duration = str(run.scenario.get("duration", ""))
    kind = {"sim": "simulated", "live": "live", "log": "imported log", "capture": "imported capture"}
    repeats = "" if run.backend in words.IMPORTED else f"{run.finished} of {run.planned} repeats"
    return ", ".join(filter(None, [kind.get(run.backend, run.backend), duration, repeats]))


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
    return findings(run, _means(measured, "mean") | totals_per_minute(run, [FREEZES]))


def write_comparison(
    runs: Mapping[str, Run | Sequence[Run]],
    out: Path,
    found: Differences | None = None,
    *,
    title: str = "",
    metrics: Sequence[str] | None = None,
    wanted: Flows = None,
    moved: Mapping[str, str] | None = None,
    drawn: bool = True,
    differing: Sequence[Run] | None = None,
) -> Path:
    """Writes the page ``out``, which compares runs, given by their labels, with the first; returns ``out``.

    Args:
        runs: by label a run, or the runs of several conditions.
        out: the file.
        found: their differences, if the caller already has them.
        title: the heading; by default the labels.
        metrics: the metrics in the tables; by default all.
        wanted: the flows in tables and plots; by default all that do not carry feedback alone.
        moved: by label of the other runs, a sentence that says which cause moved.
        drawn: whether each side is one run with traces, about which there are sentences and plots.
        differing: the runs whose scenarios are compared, if there are several conditions.
    """
    sides = {label: [of] if isinstance(of, Run) else list(of) for label, of in runs.items()}
    alone = {label: of[0] for label, of in sides.items()}
    found = found or Differences.of({label: {"": Side.of_run(run)} for label, run in alone.items()})
    compared = found.table(metrics, wanted)
    pairs = [count or 0 for counts in found.pairs.values() for count in counts]
    sentences = comparison_verdicts(alone, found.table()) if drawn else [""] * len(sides)
    known = list(dict.fromkeys(flow for of in sides.values() for run in of for flow in _in_order(run)))
    flows = (known if wanted is None else chosen_flows(wanted, found.carries))[:MOST_FLOWS]
    whole = [""] if wanted is None else []
    window = next(iter(alone.values())).window
    conditions = compared["condition"].unique(maintain_order=True).to_list() or [""]
    return write_page(
        out,
        "comparison.html",
        comparison_plots(alone, wanted) if drawn else [],
        tied=True,
        labels=[*sides],
        moved=moved or {},
        title=title or names_in_words([*sides], len(sides)),
        differences=scenario_differences([*alone.values()] if differing is None else differing),
        runs=[
            _side(label, of, sentence) for (label, of), sentence in zip(sides.items(), sentences, strict=True)
        ],
        groups=[
            (
                ", ".join(filter(None, [condition, flow_in_words(flow) or WHOLE_RUN])),
                _compared_rows(compared.filter(condition=condition), flow),
            )
            for condition in conditions[:MOST_CONDITIONS]
            for flow in flows + whole
        ],
        left_out=max(0, len(conditions) - MOST_CONDITIONS),
        metrics=METRICS.values(),
        window=window and window_in_words(window),
        pairs=pairs,
        tests=tests_in_words(compared["p"].count(), pairs, asked=metrics is not None or wanted is not None),
        margin=MARGIN_PERCENT,
        repeats_in_words=repeats_in_words,
    )


def _side(label: str, runs: Sequence[Run], sentence: str) -> dict[str, Any]:
    """What the page says of one side; of several conditions only what holds for all of them."""
    run, *more = runs
    return {
        "label": label,
        "name": run.name.partition(", ")[0] if more else run.name,
        "calls": f"{len(runs)} conditions" if more else words.calls_of(run),
        "network": "" if more else words.network_of(run),
        "verdict": sentence,
        "cautions": list(dict.fromkeys(caution for one in runs for caution in _cautions(one))),
        "facts": _facts(run),
    }


def comparison_verdicts(runs: Mapping[str, Run], compared: pl.DataFrame) -> list[str]:
    """The verdict on each of the compared runs; ``compared`` is the result of ``compare_runs`` for all."""
    of_others = [_means(compared.filter(label=label), "new") for label in [*runs][1:]]
    means = [_means(compared, "base"), *of_others]
    return [verdict(findings(run, of_run)) for run, of_run in zip(runs.values(), means, strict=True)]


def _compared_rows(compared: pl.DataFrame, flow: str) -> list[ComparedRow]:
    """A row for each metric that has a value of the flow in any run."""
    cells = words.grouped((cell["metric"], cell) for cell in compared.filter(flow=flow).iter_rows(named=True))
    rows = []
    for name, of_metric in cells.items():
        baseline = next((cell for cell in of_metric if cell["base"] is not None), of_metric[0])
        means = [baseline["base"], *(cell["new"] for cell in of_metric)]
        if known := [mean for mean in means if mean is not None]:
            rows.append(ComparedRow(METRICS[name], of_metric, baseline, known[0]))
    return rows


def _rows(table: pl.DataFrame, flows: Sequence[str]) -> list[tuple[Metric, list[dict[str, Any] | None]]]:
    """The metrics that have a value for any of the flows, in the order of the registry.

    Each comes with its row of the measured table for each flow, or None if it has none.
    """
    known = {(row["metric"], row["flow"]): row for row in table.iter_rows(named=True)}
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


def _means(table: pl.DataFrame, column: str) -> dict[tuple[str, str], float]:
    """The values of a column of the measured table, by metric and flow."""
    known = table.drop_nulls(column).select("metric", "flow", column)
    return {(metric, flow): mean for metric, flow, mean in known.iter_rows()}


def _spreads(measured: pl.DataFrame, flows: Sequence[str]) -> list[Spread]:
    """A row for each metric that has a value for any of the flows."""
    known = measured.drop_nulls("mean").filter(pl.col("flow").is_in(flows)).select("metric", "mean", "flow")
    values = words.grouped((metric, (mean, flow_in_words(flow))) for metric, mean, flow in known.iter_rows())
    return [
        Spread(METRICS[name], fmean(mean for mean, _ in found), min(found), max(found))
        for name, found in values.items()
    ]


def _streams(run: Run, flows: Sequence[str]) -> list[tuple[str, StreamRates]]:
    """Name and rates of every stream of the flows; rates are means over the repeats that have the stream."""
    known = (one for trace in run.traces for one in stream_rates(trace, flows))
    names = ("wire", "repair", "stats", "difference_bytes")
    found = []
    for (flow, kind), repeats in words.grouped(((one.flow, one.kind), one) for one in known).items():
        means = (float(np.mean([getattr(rates, name) for rates in repeats])) for name in names)
        found.append((f"{flow_in_words(flow)}, {kind}", StreamRates(flow, kind, *means)))
    return found


def _cautions(run: Run) -> list[str]:
    """What a reader must know of the results, beginning with the repeats that are missing."""
    missing = f"{run.unfinished} of {run.planned} repeats did not run to their end."
    resume = [f"{missing} `rtclab run --resume {run.path}` runs them."] if run.unfinished else []
    return [*resume, *words.cautions(run), *imported.cautions(run.traces)]


def _facts(run: Run) -> list[tuple[str, str]]:
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
        ("Machine", words.machine(run.machine)),
    ]
    return [(name, value) for name, value in facts if value]
