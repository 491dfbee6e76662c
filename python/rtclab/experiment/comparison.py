"""Comparison of runs: the difference of each metric and flow, its 95 % interval and a verdict on it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from statistics import fmean
from typing import Any, Literal, Self

import polars as pl

from rtclab.experiment.flows import Flows, chosen_flows, flows_of
from rtclab.experiment.measure import rows_of
from rtclab.metrics import METRICS, Metric, span_ns
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
from rtclab.trace import NS_PER_S, Run

SIM = "sim"
MARGIN_PERCENT = 10
"""No difference is seen if its 95 % interval excludes a larger one, in % of the first run's mean."""
Verdict = Literal["differs", "constant difference", "no difference seen", "too few repeats to tell"]
"""What a comparison says of a difference; see :func:`compare_runs`."""
NS_PER_MINUTE = 60 * NS_PER_S

COMPARED: dict[str, pl.DataType] = {
    "metric": pl.String(),
    "unit": pl.String(),
    "better": pl.String(),
    "flow": pl.String(),
    "label": pl.String(),
    "mean_a": pl.Float64(),
    "ci95_low_a": pl.Float64(),
    "ci95_high_a": pl.Float64(),
    "mean_b": pl.Float64(),
    "ci95_low_b": pl.Float64(),
    "ci95_high_b": pl.Float64(),
    "difference": pl.Float64(),
    "difference_percent": pl.Float64(),
    "difference_ci95_low": pl.Float64(),
    "difference_ci95_high": pl.Float64(),
    "p": pl.Float64(),
    "significant": pl.Boolean(),
    "verdict": pl.String(),
    "repeats_needed": pl.Int64(),
}


def compare_runs(
    runs: Mapping[str, Run],
    *,
    pair_repeats: bool = True,
    metrics: Sequence[str] | None = None,
    flows: Flows = None,
) -> pl.DataFrame:
    """Compares runs, given by their labels, with the first: a row for each metric, flow and other run.

    Metric and flow have a value in the first run, ``a``, or in any other. ``label`` is the label of the
    compared run, ``b``. By default all metrics are compared, of the whole run and of all flows that do not
    carry feedback alone; ``metrics`` and ``flows`` choose some, such as ``["rtt"]`` and ``"*->erin"``.

    The difference is b - a; ``difference_percent`` is relative to a. 95 % intervals are given by their ends,
    within the metric's bounds. Totals, such as the number of freezes, are divided by the minutes for which
    the flow was active, because runs may differ in length.

    If both runs were simulated, the repeats of :func:`paired_repeats` are compared in pairs, and a repeat for
    which one run has no value is left out of both: a run that failed in the hard repeats would look better.
    Otherwise, or without ``pair_repeats``, the test is Welch's. Shares of all repeats, such as failed calls,
    have Newcombe's interval and Fisher's exact test. ``p`` is the p-value of the test, null with fewer than
    two repeats and for a constant difference.

    ``verdict`` is one of:

    - ``differs``: the difference is more than chance, over all rows of the table (Holm, 5 %).
    - ``constant difference``: nothing varies, so the difference is not chance and needs no test.
    - ``no difference seen``: neither, and the interval excludes differences of more than 10 % of
      a's mean; or nothing varies and both runs are equal.
    - ``too few repeats to tell``: anything else. ``repeats_needed`` says with how many repeats of each run a
      difference of the size seen would be found with a probability of 80 %, at the level at which Holm's
      procedure ended. It is null if the spread is unknown or the difference is 0.

    ``significant`` is true for the first two, and null with fewer than two repeats.

    Raises:
        BadInput: there is no such flow.
    """
    compared = Differences.of(runs, pair_repeats=pair_repeats)
    return compared.table(metrics, flows)


@dataclass(frozen=True)
class Differences:
    """All differences between runs. A table shows the ones that were asked for.

    Attributes:
        all: each metric of each flow in the first and another run.
        carries: the flows by name, and whether each carries media or data in any run.
    """

    all: Sequence[_Compared]
    carries: Mapping[str, bool]

    @classmethod
    def of(cls, runs: Mapping[str, Run], *, pair_repeats: bool = True) -> Self:
        """Measures runs, given by their labels, and compares each with the first."""
        return cls(_differences(runs, pair_repeats=pair_repeats), flows_of(runs.values()))

    def table(self, metrics: Sequence[str] | None = None, flows: Flows = None) -> pl.DataFrame:
        """The rows of some metrics and flows as in :func:`compare_runs`; Holm's correction is over them.

        A named metric of the whole run is there whatever the flows are.
        """
        chosen = self._flows(flows) | (set() if metrics is None else {""})
        asked = [
            one for one in self.all if one.flow in chosen and (metrics is None or one.metric.name in metrics)
        ]
        marked = holm([one.difference.p for one in asked])
        level = (1 - CONFIDENCE) / max(marked.count(False), 1)
        rows = [one.row(mark, level) for one, mark in zip(asked, marked, strict=True)]
        return pl.DataFrame(rows, schema=COMPARED, orient="row")

    def _flows(self, flows: Flows) -> set[str]:
        """The flows asked for; by default those that carry media or data, and the whole run."""
        if flows is not None:
            return set(chosen_flows(flows, self.carries))
        carrying = {name for name, carries in self.carries.items() if carries}
        return {"", *(carrying or self.carries)}


def _differences(runs: Mapping[str, Run], *, pair_repeats: bool) -> list[_Compared]:
    baseline, *others = runs.items()
    values = [_values(run, METRICS.values()) for run in runs.values()]
    pairs = [paired_repeats(baseline[1], run) if pair_repeats else None for _, run in others]
    metrics, flows = list(METRICS), ["", *dict.fromkeys(flow for run in runs.values() for flow in run.flows)]
    keys = {key for of_run in values for key in of_run}
    return [
        _compared(label, *key, values[0].get(key, {}), of_run.get(key, {}), numbers)
        for key in sorted(keys, key=lambda key: (metrics.index(key[0]), flows.index(key[1])))
        for (label, _), of_run, numbers in zip(others, values[1:], pairs, strict=True)
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


def totals_per_minute(run: Run) -> dict[tuple[str, str], float]:
    """The totals by metric and flow, per minute for which the flow was active; the mean over repeats."""
    totals = [metric for metric in METRICS.values() if metric.total]
    return {key: fmean(values.values()) for key, values in _values(run, totals).items()}


def _values(run: Run, metrics: Iterable[Metric]) -> dict[tuple[str, str], dict[int, float]]:
    """By metric and flow, the known values by the number of the repeat; totals are per minute."""
    found: dict[tuple[str, str], dict[int, float]] = {}
    for repeat, metric, flow, value, _ in rows_of(run, metrics).iter_rows():
        minutes = 1.0
        if METRICS[metric].total:
            begin_ns, end_ns = span_ns(run.trace(repeat), flow)
            minutes = (end_ns - begin_ns) / NS_PER_MINUTE
        if minutes:
            found.setdefault((metric, flow), {})[repeat] = value / minutes
    return found


@dataclass(frozen=True)
class _Compared:
    """A metric of a flow in two runs, and the difference."""

    label: str
    metric: Metric
    flow: str
    a: Summary | Proportion
    b: Summary | Proportion
    difference: Difference | ShareDifference

    def row(self, marked: bool | None, level: float) -> dict[str, Any]:
        """The row of a table. ``marked`` is Holm's answer, and ``level`` the level at which Holm ended."""
        difference, mean = self.difference, self.a.mean
        verdict = self._verdict(marked)
        too_few = verdict == "too few repeats to tell"
        return {
            "metric": self.metric.name,
            "unit": self.metric.compared_unit,
            "better": self.metric.better,
            "flow": self.flow,
            "label": self.label,
            "mean_a": _null(mean),
            "ci95_low_a": _null(self.a.ci95_low),
            "ci95_high_a": _null(self.a.ci95_high),
            "mean_b": _null(self.b.mean),
            "ci95_low_b": _null(self.b.ci95_low),
            "ci95_high_b": _null(self.b.ci95_high),
            "difference": _null(difference.value),
            "difference_percent": _null(100 * difference.value / abs(mean)) if mean else None,
            "difference_ci95_low": _null(difference.ci95_low),
            "difference_ci95_high": _null(difference.ci95_high),
            "p": _null(difference.p),
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
        margin = abs(self.a.mean) * MARGIN_PERCENT / 100
        if -margin <= difference.ci95_low and difference.ci95_high <= margin:
            return "no difference seen"
        return "too few repeats to tell"


def _compared(
    label: str,
    name: str,
    flow: str,
    a: Mapping[int, float],
    b: Mapping[int, float],
    pairs: Sequence[int] | None,
) -> _Compared:
    """Compares the values of two runs by repeat: in pairs, if there are ``pairs`` and both have values."""
    metric = METRICS[name]
    if metric.share:
        share, other = (Proportion(len(of), fmean(of.values()) if of else nan) for of in (a, b))
        return _Compared(label, metric, flow, share, other, ShareDifference(share, other))
    in_pairs = pairs is not None and bool(a) and bool(b)
    both = [number for number in pairs or () if number in a and number in b]
    before, after = ([of[number] for number in (both if in_pairs else of)] for of in (a, b))
    bounds = metric.compared_bounds
    first, second = summarise(before, bounds), summarise(after, bounds)
    difference = paired(before, after, bounds) if in_pairs else welch(first, second)
    return _Compared(label, metric, flow, first, second, difference)


def _null(value: float) -> float | None:
    """Replaces NaN by null: JSON has no NaN, and polars' aggregations skip null."""
    return None if isnan(value) else value
