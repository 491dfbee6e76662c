"""Comparison of results: the difference of each metric and flow, its 95 % interval and a verdict on it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean
from typing import Any, Literal, Self

import polars as pl

from rtclab.experiment.flows import Flows, chosen_flows, flows_of
from rtclab.experiment.measure import rows_of
from rtclab.metrics import METRICS, Metric
from rtclab.metrics.setup import active_time
from rtclab.metrics.statistics import (
    CONFIDENCE,
    Difference,
    Proportion,
    ShareDifference,
    Summary,
    holm,
    paired,
    summarise,
    welch,
)
from rtclab.scenario.ignored import SIM
from rtclab.trace import Run

MARGIN_PERCENT = 10
"""No difference is seen if its 95 % interval excludes a larger one, in % of the first run's mean."""
Verdict = Literal["differs", "constant difference", "no difference seen", "too few repeats to tell"]
"""What a comparison says of a difference; see :meth:`Differences.table`."""

ROWS: dict[str, pl.DataType] = {
    **dict.fromkeys(("condition", "metric", "unit", "better", "flow", "label"), pl.String()),
    **dict.fromkeys(("base", "base_low", "base_high", "new", "new_low", "new_high"), pl.Float64()),
    **dict.fromkeys(("difference", "difference_percent", "difference_low", "difference_high"), pl.Float64()),
    "p": pl.Float64(),
    "significant": pl.Boolean(),
    "verdict": pl.String(),
    "repeats_needed": pl.Int64(),
    "hypothesis": pl.Boolean(),
}
"""The columns of a comparison. Gates and arenas give the same names to the same things."""
Values = Mapping[tuple[str, str], Mapping[int, float]]
"""By metric and flow, the known values by the number of the repeat."""


def compare_runs(
    runs: Mapping[str, Run],
    *,
    pair_repeats: bool = True,
    metrics: Sequence[str] | None = None,
    flows: Flows = None,
) -> pl.DataFrame:
    """Compares runs, given by their labels, with the first, from their traces; see :class:`Differences`.

    Raises:
        BadInput: there is no such flow.
    """
    sides = {label: {"": Side.of_run(run)} for label, run in runs.items()}
    return Differences.of(sides, pair_repeats=pair_repeats).table(metrics, flows)


@dataclass(frozen=True)
class Side:
    """The repeats of one condition, and what was measured in them.

    In comparisons, totals such as the number of freezes are divided by the minutes for which the flow was
    active, because repeats may differ in length.
    """

    run: Run
    values: Values

    @classmethod
    def of_run(cls, run: Run) -> Self:
        """Measures a run from its traces."""
        return cls(run, per_minute(values_of(rows_of(run, METRICS.values()))))

    def by_flow(self, metric: str) -> dict[str, Mapping[int, float]]:
        """The values of a metric by flow, and by the number of the repeat."""
        return {flow: of for (name, flow), of in self.values.items() if name == metric}


def values_of(rows: pl.DataFrame) -> dict[tuple[str, str], dict[int, float]]:
    """The known values of one condition from rows with the columns repeat, metric, flow and value."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    known = rows.drop_nulls("value").select("repeat", "metric", "flow", "value")
    for repeat, metric, flow, value in known.iter_rows():
        found.setdefault((metric, flow), {})[repeat] = value
    return found


def per_minute(values: Values) -> Values:
    """The values with totals divided by the minutes of ``active_time``; without it there are no totals."""
    found: dict[tuple[str, str], Mapping[int, float]] = {}
    for (name, flow), of in values.items():
        if name in METRICS and METRICS[name].total:
            active = values.get((active_time.__name__, flow), {})
            of = {repeat: value / (active[repeat] / 60) for repeat, value in of.items() if active.get(repeat)}
        if of:
            found[name, flow] = of
    return found


@dataclass(frozen=True)
class Differences:
    """All differences between a baseline and others. A table shows the ones that were asked for.

    Attributes:
        all: each metric of each flow in the baseline and another side.
        carries: the flows by name, and whether each carries media or data in any condition.
        pairs: by label, the number of repeats that are compared in pairs in each condition; None if they
            are not paired.
    """

    all: Sequence[Row]
    carries: Mapping[str, bool]
    pairs: Mapping[str, Sequence[int | None]]

    @classmethod
    def of(cls, sides: Mapping[str, Mapping[str, Side]], *, pair_repeats: bool = True) -> Self:
        """Compares sides, given by their labels, with the first, in each condition that both have.

        A side has its conditions by name. Metric and flow have a value in the baseline or in the other side.

        If both were simulated, the repeats of :func:`paired_repeats` are compared in pairs, and a repeat for
        which one side has no value is left out of both: a run that failed in the hard repeats would look
        better. Otherwise, or without ``pair_repeats``, the test is Welch's. Shares of all repeats, such as
        failed calls, have Newcombe's interval and Fisher's exact test.
        """
        (_, baseline), *others = sides.items()
        rows: list[Row] = []
        pairs: dict[str, list[int | None]] = {label: [] for label, _ in others}
        for condition, base in baseline.items():
            there = {label: side[condition] for label, side in others if condition in side}
            in_pairs = {
                label: paired_repeats(base.run, side.run) if pair_repeats else None
                for label, side in there.items()
            }
            for label, of in in_pairs.items():
                pairs[label].append(None if of is None else len(of))
            rows += _of_condition(condition, base, there, in_pairs)
        runs = [side.run for conditions in sides.values() for side in conditions.values()]
        return cls(rows, flows_of(runs), pairs)

    def table(
        self, metrics: Sequence[str] | None = None, flows: Flows = None, hypothesis: Sequence[str] = ()
    ) -> pl.DataFrame:
        """A row for each condition, metric, flow and side beyond the first, with the columns of ``ROWS``.

        ``label`` is the label of the compared side. ``base`` and ``new`` are the means of the baseline and of
        that side, and the difference is new - base; ``difference_percent`` is relative to base. 95 %
        intervals are given by their ends, within the metric's bounds. ``p`` is the p-value of the test, null
        with fewer than two repeats and for a constant difference. ``condition`` is empty if each side has a
        single one.

        By default all metrics are there, of the whole run and of all flows that do not carry feedback alone;
        ``metrics`` and ``flows`` choose some, such as ``["rtt"]`` and ``"*->erin"``. A named metric of the
        whole run is there whatever the flows are.

        ``hypothesis`` names metrics for which a difference was expected before anybody saw the values. They
        are in the table whatever ``metrics`` says, and the column ``hypothesis`` is true in their rows. These
        rows are tested as if there were no others, and the other rows as if there were no hypothesis.

        ``verdict`` is one of:

        - ``differs``: the difference is more than chance, over all rows that are tested together (Holm, 5 %).
        - ``constant difference``: nothing varies, so the difference is not chance and needs no test.
        - ``no difference seen``: neither, and the interval excludes differences of more than 10 % of the
          baseline's mean; or nothing varies and both sides are equal.
        - ``too few repeats to tell``: anything else. ``repeats_needed`` says with how many repeats of each
          side a difference of the size seen would be found with a probability of 80 %, at the level at which
          Holm's procedure ended. It is null if the spread is unknown or the difference is 0.

        ``significant`` is true for the first two, and null with fewer than two repeats.
        """
        chosen, named = self._flows(flows), {*(metrics or ()), *hypothesis}
        asked = [
            one
            for one in self.all
            if (metrics is None or one.metric.name in named)
            and (one.flow in chosen or (not one.flow and one.metric.name in named))
        ]
        stated = [one.metric.name in hypothesis for one in asked]
        marks: dict[int, tuple[bool | None, float]] = {}
        for together in (True, False):
            places = [place for place, is_stated in enumerate(stated) if is_stated == together]
            marked = holm([asked[place].difference.p for place in places])
            level = (1 - CONFIDENCE) / max(marked.count(False), 1)
            marks |= {place: (mark, level) for place, mark in zip(places, marked, strict=True)}
        rows = [one.as_dict(*marks[place]) | {"hypothesis": stated[place]} for place, one in enumerate(asked)]
        return pl.DataFrame(rows, schema=ROWS, orient="row")

    def _flows(self, flows: Flows) -> set[str]:
        """The flows asked for; by default those that carry media or data, and the whole run."""
        if flows is not None:
            return set(chosen_flows(flows, self.carries))
        carrying = {name for name, carries in self.carries.items() if carries}
        return {"", *(carrying or self.carries)}


def _of_condition(
    condition: str,
    base: Side,
    others: Mapping[str, Side],
    pairs: Mapping[str, Sequence[int] | None],
) -> list[Row]:
    """The differences of one condition, in the order of metrics and flows."""
    sides = [base, *others.values()]
    keys = {key: None for side in sides for key in side.values if key[0] in METRICS}
    of_runs = [flow for side in sides for flow in side.run.flows]
    flows = {flow: place for place, flow in enumerate(dict.fromkeys(["", *of_runs, *(of for _, of in keys)]))}
    metrics = {name: place for place, name in enumerate(METRICS)}
    return [
        _row(condition, label, *key, base.values.get(key, {}), side.values.get(key, {}), pairs[label])
        for key in sorted(keys, key=lambda key: (metrics[key[0]], flows[key[1]]))
        for label, side in others.items()
    ]


def paired_repeats(a: Run, b: Run) -> list[int] | None:
    """The numbers of the repeats that both runs finished with the same seed, if both were simulated.

    None if fewer than two repeats have the same seed, whether they finished or not: then the runs are
    compared, but not in pairs.
    """
    if not a.backend == b.backend == SIM:
        return None
    seeds = {one.repeat: one.seed for one in a.repeats}
    pairs = [one for one in b.repeats if seeds.get(one.repeat) == one.seed]
    finished = {one.repeat for one in a.repeats if one.status == "finished"}
    both = [one.repeat for one in pairs if one.status == "finished" and one.repeat in finished]
    return both if len(pairs) > 1 else None


def totals_per_minute(run: Run, metrics: Sequence[str]) -> dict[tuple[str, str], float]:
    """Totals by metric and flow, per minute for which the flow was active; the mean over repeats."""
    wanted = [METRICS[name] for name in (*metrics, active_time.__name__)]
    found = per_minute(values_of(rows_of(run, wanted)))
    return {key: fmean(of.values()) for key, of in found.items() if METRICS[key[0]].total}


@dataclass(frozen=True)
class Row:
    """A metric of a flow in one condition of two sides, and the difference."""

    condition: str
    label: str
    metric: Metric
    flow: str
    base: Summary | Proportion
    new: Summary | Proportion
    difference: Difference | ShareDifference

    def as_dict(self, marked: bool | None, level: float) -> dict[str, Any]:
        """The row of a table. ``marked`` is Holm's answer, and ``level`` the level at which Holm ended."""
        difference, mean = self.difference, self.base.mean
        verdict = self._verdict(marked)
        too_few = verdict == "too few repeats to tell"
        return {
            "condition": self.condition,
            "metric": self.metric.name,
            "unit": self.metric.compared_unit,
            "better": self.metric.better,
            "flow": self.flow,
            "label": self.label,
            "base": null(mean),
            "base_low": null(self.base.ci95_low),
            "base_high": null(self.base.ci95_high),
            "new": null(self.new.mean),
            "new_low": null(self.new.ci95_low),
            "new_high": null(self.new.ci95_high),
            "difference": null(difference.value),
            "difference_percent": null(100 * difference.value / abs(mean)) if mean else None,
            "difference_low": null(difference.ci95_low),
            "difference_high": null(difference.ci95_high),
            "p": null(difference.p),
            "significant": True if verdict == "constant difference" else marked,
            "verdict": verdict,
            "repeats_needed": difference.repeats_needed(level) if too_few else None,
        }

    def _verdict(self, marked: bool | None) -> Verdict | None:
        difference = self.difference
        if isnan(difference.value):
            return None
        if marked:
            return "differs"
        if difference.constant:
            return "constant difference" if difference.value else "no difference seen"
        margin = abs(self.base.mean) * MARGIN_PERCENT / 100
        if -margin <= difference.ci95_low and difference.ci95_high <= margin:
            return "no difference seen"
        return "too few repeats to tell"


def _row(
    condition: str,
    label: str,
    name: str,
    flow: str,
    a: Mapping[int, float],
    b: Mapping[int, float],
    pairs: Sequence[int] | None,
) -> Row:
    """Compares the values of two runs by repeat: in pairs, if there are ``pairs`` and both have values."""
    metric = METRICS[name]
    if metric.share:
        share, other = (Proportion(len(of), fmean(of.values()) if of else nan) for of in (a, b))
        return Row(condition, label, metric, flow, share, other, ShareDifference(share, other))
    in_pairs = pairs is not None and bool(a) and bool(b)
    both = [number for number in pairs or () if number in a and number in b]
    before, after = ([of[number] for number in (both if in_pairs else of)] for of in (a, b))
    bounds = metric.compared_bounds
    first, second = summarise(before, bounds), summarise(after, bounds)
    difference = paired(before, after, bounds) if in_pairs else welch(first, second)
    return Row(condition, label, metric, flow, first, second, difference)


def null(value: float) -> float | None:
    """Replaces NaN by null: JSON has no NaN, and polars' aggregations skip null."""
    return None if isnan(value) else value
