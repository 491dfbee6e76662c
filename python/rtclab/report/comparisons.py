"""The page that compares runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.experiment.comparison import MARGIN_PERCENT, Differences, Side
from rtclab.experiment.flows import Flows, chosen_flows
from rtclab.metrics import METRICS, Metric
from rtclab.phrases import names_in_words, repeats_in_words, tests_in_words
from rtclab.report import words
from rtclab.report.differences import scenario_differences
from rtclab.report.page import write_page
from rtclab.report.run_plots import comparison_plots
from rtclab.report.runs import MOST_FLOWS, cautions_of, facts_of, in_order, means_of
from rtclab.report.verdict import findings, verdict
from rtclab.report.words import flow_in_words
from rtclab.trace import Run, window_in_words

WHOLE_RUN = "whole run"
MOST_CONDITIONS = 20
"""Maximum number of conditions whose metrics the page has."""


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
    hypothesis: Sequence[str] = (),
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
        hypothesis: the metrics that were expected to differ before anybody saw the values.
    """
    sides = {label: [of] if isinstance(of, Run) else list(of) for label, of in runs.items()}
    alone = {label: of[0] for label, of in sides.items()}
    found = found or Differences.of({label: {"": Side.of_run(run)} for label, run in alone.items()})
    compared = found.table(metrics, wanted, hypothesis)
    pairs = [count or 0 for counts in found.pairs.values() for count in counts]
    sentences = comparison_verdicts(alone, found.table()) if drawn else [""] * len(sides)
    known = list(dict.fromkeys(flow for of in sides.values() for run in of for flow in in_order(run)))
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
        tests=tests_in_words(
            compared["p"].count(),
            pairs,
            asked=metrics is not None or wanted is not None,
            stated=compared.filter("hypothesis")["p"].count(),
        ),
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
        "cautions": list(dict.fromkeys(caution for one in runs for caution in cautions_of(one))),
        "facts": facts_of(run),
    }


def comparison_verdicts(runs: Mapping[str, Run], compared: pl.DataFrame) -> list[str]:
    """The verdict on each of the compared runs; ``compared`` is the result of ``compare_runs`` for all."""
    of_others = [means_of(compared.filter(label=label), "new") for label in [*runs][1:]]
    means = [means_of(compared, "base"), *of_others]
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
