"""The page that compares runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.experiment.comparison import MARGIN_PERCENT, Differences, Side
from rtclab.experiment.flows import Flows
from rtclab.metrics import METRICS, Metric
from rtclab.phrases import names_in_words, repeats_in_words, tests_in_words
from rtclab.report import words
from rtclab.report.compared import DIFFERS, NONE_SEEN, TOO_FEW, Cell, Compared, essential_first
from rtclab.report.differences import scenario_differences
from rtclab.report.forest import forest
from rtclab.report.page import write_page
from rtclab.report.plots_of_runs import comparison_plots
from rtclab.report.runs import cautions_of, facts_of, means_of
from rtclab.report.verdict import findings, verdict
from rtclab.report.words import flow_in_words
from rtclab.trace import Run, window_in_words

WHOLE_RUN = "whole run"
MOST_NAMES = 5
"""Maximum number of labels in the heading."""
MOST_ROWS = 500
"""Maximum number of rows of a table; more would make a page of megabytes."""


@dataclass(frozen=True)
class ComparedRow:
    """A metric of a flow, and for each run beyond the first its row of the compared table.

    ``baseline`` is the first of these that has a value of the first run, if any has one. All numbers have the
    decimals of ``like``.
    """

    metric: Metric
    place: str
    cells: Sequence[Cell]
    baseline: Cell
    like: float

    @property
    def verdict(self) -> str:
        """What is said of the row: that it differs if any run differs, or else that it cannot be told if any
        cannot; empty if nothing is known of any."""
        of_runs = {cell["verdict"] for cell in self.cells}
        if of_runs & set(DIFFERS):
            return DIFFERS[0]
        return next((one for one in (TOO_FEW, NONE_SEEN) if one in of_runs), "")

    @property
    def stated(self) -> bool:
        """Whether the metric is a hypothesis."""
        return bool(self.baseline["hypothesis"])


@dataclass(frozen=True)
class FoldedGroup:
    """Rows of one verdict, those of essential metrics and then the largest differences first."""

    title: str
    rows: Sequence[ComparedRow]
    more: int
    folded: bool


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
    hypothesis: Sequence[str] = (),
    told: Compared | None = None,
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
        hypothesis: the metrics that were expected to differ before anybody saw the values.
        told: what is said of the differences, if the caller already has it.
    """
    sides = {label: [of] if isinstance(of, Run) else list(of) for label, of in runs.items()}
    alone = {label: of[0] for label, of in sides.items()}
    found = found or Differences.of({label: {"": Side.of_run(run)} for label, run in alone.items()})
    compared = found.table(metrics, wanted, hypothesis)
    told = told or Compared.of_runs(alone, compared)
    pairs = [number or 0 for numbers in found.pairs.values() for number in numbers]
    sentences = comparison_verdicts(alone, found.table()) if drawn else [""] * len(sides)
    window = next(iter(alone.values())).window
    trees = forest(told.labels, told.cells, told.by)
    shared, own = _facts(sides)
    return write_page(
        out,
        "comparison.html",
        [*([trees] if trees else []), *(comparison_plots(alone, wanted) if drawn else [])],
        tied=True,
        labels=[*sides],
        answer=told.answer(moved or {}),
        said={label: told.sentence(label) for label in told.others},
        counts={label: told.counts(label) for label in told.others},
        moved=moved or {},
        has_forest=trees is not None,
        title=title or names_in_words([*sides], MOST_NAMES),
        differences=scenario_differences(told.runs),
        verdicts=list(zip(sides, sentences, strict=True)) if drawn else [],
        cautions=[*_cautions(sides)],
        shared=shared,
        own=own,
        groups=_groups(compared),
        hypothesis=bool(compared["hypothesis"].any()),
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


def comparison_verdicts(runs: Mapping[str, Run], compared: pl.DataFrame) -> list[str]:
    """The verdict on each of the compared runs; ``compared`` is the result of ``compare_runs`` for all."""
    of_others = [means_of(compared.filter(label=label), "new") for label in [*runs][1:]]
    means = [means_of(compared, "base"), *of_others]
    return [verdict(findings(run, of_run)) for run, of_run in zip(runs.values(), means, strict=True)]


def _facts(sides: Mapping[str, Sequence[Run]]) -> tuple[list[tuple[str, str]], list[tuple[str, list[str]]]]:
    """The facts that hold for all sides, and the others with their value for each side."""
    of_sides = [dict(_facts_of_side(label, runs)) for label, runs in sides.items()]
    names = dict.fromkeys(name for facts in of_sides for name in facts)
    rows = [(name, [facts.get(name, words.MISSING) for facts in of_sides]) for name in names]
    shared = [(name, values[0]) for name, values in rows if len(set(values)) == 1]
    return shared, [(name, values) for name, values in rows if len(set(values)) > 1]


def _facts_of_side(label: str, runs: Sequence[Run]) -> Iterator[tuple[str, str]]:
    """The facts of one side; of several conditions only those that hold for all."""
    run, *more = runs
    name = run.name.partition(", ")[0] if more else run.name
    if name != label:
        yield "Run", name
    if more:
        yield "Conditions", str(len(runs))
    else:
        yield "Call", words.calls_of(run)
        yield "Network", "; ".join(f"{names}: {network}" for names, network in words.network_of(run))
    yield from facts_of(run)


def _cautions(sides: Mapping[str, Sequence[Run]]) -> Iterator[str]:
    """What a reader must know of the runs, each sentence once, and of which runs unless it is of all."""
    said = words.grouped(
        (caution, label)
        for label, runs in sides.items()
        for caution in dict.fromkeys(one for run in runs for one in cautions_of(run))
    )
    for caution, labels in said.items():
        yield caution if len(labels) == len(sides) else f"{names_in_words(labels, MOST_NAMES)}: {caution}"


def _groups(compared: pl.DataFrame) -> list[FoldedGroup]:
    """The rows by what is said of them: those that differ, and folded those that do not or cannot be told."""
    cells = compared.to_dicts()
    order = {_key(cell): place for place, cell in reversed([*enumerate(essential_first(cells))])}
    of_keys = words.grouped((_key(cell), cell) for cell in cells)
    rows = [_row(of_keys[key]) for key in sorted(of_keys, key=lambda key: order.get(key, len(order)))]
    known = [row for row in rows if row is not None]
    of_verdicts = words.grouped((row.verdict, row) for row in known)
    titles = {
        DIFFERS[0]: "Differences beyond chance",
        NONE_SEEN: "No difference seen",
        TOO_FEW: "Too few repeats to tell",
        "": "With a value on one side only",
    }
    return [
        FoldedGroup(f"{title} ({len(of)})", of[:MOST_ROWS], max(0, len(of) - MOST_ROWS), said != DIFFERS[0])
        for said, title in titles.items()
        if (of := of_verdicts.get(said))
    ]


def _key(cell: Cell) -> tuple[str, str, str]:
    return cell["metric"], cell["flow"], cell["condition"]


def _row(cells: Sequence[Cell]) -> ComparedRow | None:
    """The row of a metric of a flow; None if no run has a value."""
    baseline = next((cell for cell in cells if cell["base"] is not None), cells[0])
    means: list[Any] = [baseline["base"], *(cell["new"] for cell in cells)]
    known = [mean for mean in means if mean is not None]
    if not known:
        return None
    where = ", ".join(filter(None, [flow_in_words(baseline["flow"]) or WHOLE_RUN, baseline["condition"]]))
    return ComparedRow(METRICS[cells[0]["metric"]], where, cells, baseline, next(filter(None, known), 0.0))
