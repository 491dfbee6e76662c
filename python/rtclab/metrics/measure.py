"""Tables of all metrics of a run, and of two runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any, Literal

import polars as pl

from rtclab.metrics.registry import METRICS, Bounds, Metric
from rtclab.metrics.series import Window, span_ns
from rtclab.metrics.statistics import (
    CONFIDENCE,
    Difference,
    Proportion,
    ShareDifference,
    Summary,
    holm,
    mean_within_sd,
    paired,
    summarise,
    welch,
)
from rtclab.trace import NS_PER_S, Run, Trace

SIM = "sim"
MARGIN_PERCENT = 10
"""No difference is seen if its 95 % interval excludes a larger one, in % of the first run's mean."""
Verdict = Literal["differs", "constant difference", "no difference seen", "too few repeats to tell"]
"""What a comparison says of a difference; see :func:`compare_runs`."""
NS_PER_MINUTE = 60 * NS_PER_S

MEASURED: dict[str, pl.DataType] = {
    "metric": pl.String(),
    "unit": pl.String(),
    "better": pl.String(),
    "flow": pl.String(),
    "mean": pl.Float64(),
    "sd": pl.Float64(),
    "ci95_low": pl.Float64(),
    "ci95_high": pl.Float64(),
    "within_run_sd": pl.Float64(),
    "repeats": pl.Int64(),
    "values": pl.List(pl.Float64),
}

COMPARED: dict[str, pl.DataType] = {
    "metric": pl.String(),
    "unit": pl.String(),
    "better": pl.String(),
    "flow": pl.String(),
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
COMPARED_WITH = dict([*COMPARED.items()][:4]) | {"label": pl.String()} | COMPARED


def measure_run(run: Run, window: Window | None = None) -> pl.DataFrame:
    """Every metric of every flow, over the finished repeats, computed from their traces.

    Returns one row per metric and flow, in the order of the registry. ``flow`` is empty for metrics of the
    whole run. ``mean``, ``sd`` and the 95 % interval (Student's t within the metric's bounds; Wilson's for a
    share of all repeats) are over repeats. ``within_run_sd`` is the mean over repeats of the standard
    deviation of one-second samples, for metrics that have such samples. ``values`` holds one value per
    finished repeat. Values that cannot be measured are null, and so is Student's interval of fewer than two
    values or of values that are all equal. A metric of all repeats together, such as the share of failed
    calls, is null in a window.
    """
    rows = [_row(one, window) for one in _measured(run, window)]
    return pl.DataFrame(rows, schema=MEASURED, orient="row")


@dataclass(frozen=True)
class _Measured:
    """One metric of one flow: a value for each repeat that has the flow, and the traces of these repeats."""

    metric: Metric
    flow: str
    repeats: list[int | None]
    values: list[float]
    traces: list[Trace]
    trials: int | None = None

    def summary(self) -> Summary | Proportion:
        """Mean and interval over repeats."""
        if self.trials is None:
            return summarise(self.values, self.metric.bounds)
        return Proportion(self.trials, self.values[0])


def _measured(
    run: Run, window: Window | None, metrics: Iterable[Metric] | None = None
) -> Iterator[_Measured]:
    """The given metrics of every flow, by default all. One of all repeats together is unknown in a window."""
    for metric in METRICS.values() if metrics is None else metrics:
        if metric.scope == "run":
            trials = None if metric.trials is None else metric.trials(run)
            yield _Measured(metric, "", [None], [metric.function(run) if window is None else nan], [], trials)
        elif metric.scope == "trace":
            values = [metric.function(trace, window) for trace in run.traces]
            yield _Measured(metric, "", _numbers(run.traces), values, run.traces)
        else:
            for flow in flows_of(run):
                traces = [trace for trace in run.traces if flow in trace.manifest.flows]
                values = [metric.function(trace, flow, window) for trace in traces]
                yield _Measured(metric, flow, _numbers(traces), values, traces)


def _numbers(traces: Sequence[Trace]) -> list[int | None]:
    return [trace.manifest.repeat for trace in traces]


def flows_of(run: Run) -> list[str]:
    """Names of the run's flows of media and data, in order of first appearance."""
    return list(dict.fromkeys(flow for trace in run.traces for flow in trace.flows))


def _row(measured: _Measured, window: Window | None) -> dict[str, object]:
    metric, flow = measured.metric, measured.flow
    summary = measured.summary()
    within_run_sd = None
    if metric.samples is not None:
        within_run_sd = mean_within_sd([metric.samples(trace, flow, window) for trace in measured.traces])
    return {
        "metric": metric.name,
        "unit": metric.unit,
        "better": metric.better,
        "flow": flow,
        "mean": _null(summary.mean),
        "sd": _null(summary.sd),
        "ci95_low": _null(summary.ci95_low),
        "ci95_high": _null(summary.ci95_high),
        "within_run_sd": _null(within_run_sd),
        "repeats": summary.repeats,
        "values": [_null(value) for value in measured.values],
    }


def compare_runs(a: Run, b: Run, window: Window | None = None, *, pair_repeats: bool = True) -> pl.DataFrame:
    """The metrics of two runs side by side: one row per metric and flow of either run.

    The difference is b - a; ``difference_percent`` is relative to a. 95 % intervals are given by their ends,
    within the metric's bounds. Totals, such as the number of freezes, are divided by the minutes for which
    the flow was active, because runs may differ in length.

    If both runs were simulated, the repeats of :func:`paired_repeats` are compared in pairs, and a repeat for
    which one run has no value is left out of both. Otherwise, or without ``pair_repeats``, the test is
    Welch's. Shares of all repeats, such as failed calls, have Newcombe's interval and Fisher's exact test.
    ``p`` is the p-value of the test, null with fewer than two repeats and for a constant difference.

    ``verdict`` is one of:

    - ``differs``: the difference is more than chance, over all rows (Holm, 5 %).
    - ``constant difference``: nothing varies, so the difference is not chance and needs no test.
    - ``no difference seen``: neither, and the interval excludes differences of more than 10 % of
      a's mean; or nothing varies and both runs are equal.
    - ``too few repeats to tell``: anything else. ``repeats_needed`` says with how many repeats of each run a
      difference of the size seen would be found with a probability of 80 %, at the level at which Holm's
      procedure ended. It is null if the spread is unknown or the difference is 0.

    ``significant`` is true for the first two, and null with fewer than two repeats.
    """
    return compare_with(a, {"": b}, window, pair_repeats=pair_repeats).drop("label")


def compare_with(
    baseline: Run, others: Mapping[str, Run], window: Window | None = None, *, pair_repeats: bool = True
) -> pl.DataFrame:
    """Each of the other runs, by label, compared with the baseline.

    Returns the columns of :func:`compare_runs`, and ``label``. Holm's correction is over all rows of all
    runs.
    """
    values = [_by_repeat(run, window) for run in (baseline, *others.values())]
    known = [
        (label, _paired_repeats(baseline, run, pair_repeats), values[0], of_run)
        for (label, run), of_run in zip(others.items(), values[1:], strict=True)
    ]
    order = {name: index for index, name in enumerate(METRICS)}
    keys = sorted(dict.fromkeys(key for of_run in values for key in of_run), key=lambda key: order[key[0]])
    nothing = _Values({})
    compared = [
        _compared(label, *key, a.get(key, nothing), b.get(key, nothing), pairs)
        for key in keys
        for label, pairs, a, b in known
    ]
    marked = holm([one.difference.p for one in compared])
    level = (1 - CONFIDENCE) / max(marked.count(False), 1)
    rows = [one.row(mark, level) for one, mark in zip(compared, marked, strict=True)]
    return pl.DataFrame(rows, schema=COMPARED_WITH, orient="row")


def _paired_repeats(a: Run, b: Run, pair_repeats: bool) -> list[int]:
    return paired_repeats(a, b) if pair_repeats else []


def paired_repeats(a: Run, b: Run) -> list[int]:
    """The numbers of the repeats that both runs finished with the same seed, if both were simulated.

    Empty if there are fewer than two, because then nothing is compared in pairs.
    """
    if not a.backend == b.backend == SIM:
        return []
    seeds = [{one.repeat: one.seed for one in run.repeats if one.status == "finished"} for run in (a, b)]
    pairs = [number for number, seed in seeds[0].items() if seeds[1].get(number) == seed]
    return pairs if len(pairs) > 1 else []


@dataclass(frozen=True)
class _Values:
    """The values of a metric by the number of the repeat, None for a metric of all repeats together.

    ``trials`` is the number of trials behind a share of all repeats, otherwise None.
    """

    by_repeat: Mapping[int | None, float]
    trials: int | None = None

    def of(self, repeats: Sequence[int]) -> _Values:
        """The values of these repeats."""
        return _Values({number: self.by_repeat[number] for number in repeats}, self.trials)

    def summary(self, bounds: Bounds) -> Summary | Proportion:
        """Mean and interval."""
        values = [*self.by_repeat.values()]
        if self.trials is None:
            return summarise(values, bounds)
        return Proportion(self.trials, *values)


def _by_repeat(run: Run, window: Window | None) -> dict[tuple[str, str], _Values]:
    """By metric and flow, the values as they are compared: totals per minute."""
    finished = [one.repeat for one in run.repeats if one.status == "finished"]
    numbers = {id(trace): number for trace, number in zip(run.traces, finished, strict=True)}
    found: dict[tuple[str, str], _Values] = {}
    for one in _measured(run, window):
        values = _per_minute(one, window) if one.metric.total else one.values
        repeats: list[int | None] = [None]
        if one.metric.scope != "run":
            repeats = [numbers[id(trace)] for trace in one.traces]
        known = {repeat: value for repeat, value in zip(repeats, values, strict=True) if not isnan(value)}
        found[one.metric.name, one.flow] = _Values(known, one.trials if known else None)
    return found


def totals_per_minute(run: Run, window: Window | None = None) -> dict[tuple[str, str], float]:
    """The totals by metric and flow, per minute for which the flow was active; the mean over repeats."""
    totals = [metric for metric in METRICS.values() if metric.total]
    means = {
        (one.metric.name, one.flow): summarise(_per_minute(one, window)).mean
        for one in _measured(run, window, totals)
    }
    return {key: mean for key, mean in means.items() if not isnan(mean)}


def _per_minute(total: _Measured, window: Window | None) -> list[float]:
    spans = [span_ns(trace, total.flow, window) for trace in total.traces]
    minutes = [(end_ns - begin_ns) / NS_PER_MINUTE for begin_ns, end_ns in spans]
    return [value / long if long else nan for value, long in zip(total.values, minutes, strict=True)]


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


def _compared(label: str, name: str, flow: str, a: _Values, b: _Values, pairs: Sequence[int]) -> _Compared:
    metric = METRICS[name]
    both = [number for number in pairs if number in a.by_repeat and number in b.by_repeat]
    if both:
        a, b = a.of(both), b.of(both)
    first, second = (side.summary(metric.bounds) for side in (a, b))
    difference: Difference | ShareDifference
    if isinstance(first, Proportion) and isinstance(second, Proportion):
        difference = ShareDifference(first, second)
    elif both:
        difference = paired([*a.by_repeat.values()], [*b.by_repeat.values()], metric.bounds)
    elif isinstance(first, Summary) and isinstance(second, Summary):
        difference = welch(first, second)
    else:
        difference = Difference(nan, nan, nan)  # one side is unknown
    return _Compared(label, metric, flow, first, second, difference)


def _null(value: float | None) -> float | None:
    """Replaces NaN by null: JSON has no NaN, and polars' aggregations skip null."""
    return None if value is None or isnan(value) else value
