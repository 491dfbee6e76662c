"""Tables of all metrics of a run, and of two runs side by side."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import isnan, nan
from typing import Any

import polars as pl

from rtclab.metrics.registry import METRICS, Metric
from rtclab.metrics.series import Window, span_ns
from rtclab.metrics.statistics import Proportion, Summary, holm, mean_within_sd, paired, summarise, welch
from rtclab.metrics.wire import stream_rates
from rtclab.trace import NS_PER_S, Run, Trace

SIM = "sim"
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

PER_REPEAT: dict[str, pl.DataType] = {
    "metric": pl.String(),
    "unit": pl.String(),
    "better": pl.String(),
    "flow": pl.String(),
    "repeat": pl.Int64(),
    "value": pl.Float64(),
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
}


def measure_run(run: Run, window: Window | None = None) -> pl.DataFrame:
    """Every metric of every flow, over the finished repeats.

    Returns one row per metric and flow, in the order of the registry. ``flow`` is empty for metrics of the
    whole run. ``mean``, ``sd`` and the 95 % interval (Student's t within the metric's bounds; Wilson's for a
    share of all repeats) are over repeats. ``within_run_sd`` is the mean over repeats of the standard
    deviation of one-second samples, for metrics that have such samples. ``values`` holds one value per
    finished repeat. Values that cannot be measured are null, and so is Student's interval of fewer than two
    values or of values that are all equal. A metric
    of all repeats together, such as the share of failed calls, is null in a window.
    """
    rows = [_row(one, window) for one in _measured(run, window)]
    return pl.DataFrame(rows, schema=MEASURED, orient="row")


def measure_repeats(run: Run, window: Window | None = None) -> pl.DataFrame:
    """Every metric of every flow in every finished repeat, one row each, with the columns of ``PER_REPEAT``.

    ``flow`` is empty for metrics of a whole repeat. ``repeat`` is null for metrics of all repeats together,
    such as the share of failed calls. ``value`` is null if it could not be measured.
    """
    rows = [
        (one.metric.name, one.metric.unit, one.metric.better, one.flow, repeat, _null(value))
        for one in _measured(run, window)
        for repeat, value in zip(one.repeats, one.values, strict=True)
    ]
    return pl.DataFrame(rows, schema=PER_REPEAT, orient="row")


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


def prepare(trace: Trace) -> None:
    """Computes the inputs of metrics and reports and caches them in the trace, so that measuring is fast."""
    for metric in METRICS.values():
        for flow in trace.flows if metric.scope == "flow" else ():
            metric.function(trace, flow, None)
            if metric.samples is not None:
                metric.samples(trace, flow, None)
    stream_rates(trace)


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


def compare_runs(a: Run, b: Run, window: Window | None = None) -> pl.DataFrame:
    """The metrics of two runs side by side: one row per metric and flow of either run.

    The difference is b - a; ``difference_percent`` is relative to a. 95 % intervals are given by their ends,
    within the metric's bounds. Totals, such as the number of freezes, are divided by the minutes for which
    the flow was active, because runs may differ in length.

    If both runs were simulated, the repeats of :func:`paired_repeats` are compared in pairs, and a repeat for
    which one run has no value is left out of both. Otherwise the test is Welch's. ``p`` is its p-value,
    ``significant`` whether the difference is more than chance, over all rows (Holm, 5 %). Both are null with
    fewer than two repeats.
    """
    pairs = paired_repeats(a, b)
    sides = [_by_repeat(run, window) for run in (a, b)]
    order = {name: index for index, name in enumerate(METRICS)}
    keys = sorted(dict.fromkeys([*sides[0], *sides[1]]), key=lambda key: order[key[0]])
    rows = [_compared(*key, sides[0].get(key, {}), sides[1].get(key, {}), pairs) for key in keys]
    marked = holm([nan if row["p"] is None else row["p"] for row in rows])
    rows = [row | {"significant": mark} for row, mark in zip(rows, marked, strict=True)]
    return pl.DataFrame(rows, schema=COMPARED, orient="row")


def paired_repeats(a: Run, b: Run) -> list[int]:
    """The numbers of the repeats that both runs finished with the same seed, if both were simulated.

    Empty if there are fewer than two, because then nothing is compared in pairs.
    """
    if not a.backend == b.backend == SIM:
        return []
    seeds = [{one.repeat: one.seed for one in run.repeats if one.status == "finished"} for run in (a, b)]
    pairs = [number for number, seed in seeds[0].items() if seeds[1].get(number) == seed]
    return pairs if len(pairs) > 1 else []


Values = dict[int | None, float]
"""The values of a metric by the number of the repeat, None for a metric of all repeats together."""


def _by_repeat(run: Run, window: Window | None) -> dict[tuple[str, str], Values]:
    """By metric and flow, the values as they are compared: totals per minute."""
    finished = [one.repeat for one in run.repeats if one.status == "finished"]
    numbers = {id(trace): number for trace, number in zip(run.traces, finished, strict=True)}
    found: dict[tuple[str, str], Values] = {}
    for one in _measured(run, window):
        values = _per_minute(one, window) if one.metric.total else one.values
        repeats: list[int | None] = [None]
        if one.metric.scope != "run":
            repeats = [numbers[id(trace)] for trace in one.traces]
        known = {repeat: value for repeat, value in zip(repeats, values, strict=True) if not isnan(value)}
        found[one.metric.name, one.flow] = known
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


def _compared(name: str, flow: str, a: Values, b: Values, pairs: Sequence[int]) -> dict[str, Any]:
    metric = METRICS[name]
    both = [number for number in pairs if number in a and number in b]
    if both:
        a, b = {number: a[number] for number in both}, {number: b[number] for number in both}
    first, second = (summarise([*side.values()], metric.bounds) for side in (a, b))
    difference = paired([*a.values()], [*b.values()], metric.bounds) if both else welch(first, second)
    return {
        "metric": name,
        "unit": metric.compared_unit,
        "better": metric.better,
        "flow": flow,
        "mean_a": _null(first.mean),
        "ci95_low_a": _null(first.ci95_low),
        "ci95_high_a": _null(first.ci95_high),
        "mean_b": _null(second.mean),
        "ci95_low_b": _null(second.ci95_low),
        "ci95_high_b": _null(second.ci95_high),
        "difference": _null(difference.value),
        "difference_percent": _null(100 * difference.value / abs(first.mean)) if first.mean else None,
        "difference_ci95_low": _null(difference.ci95_low),
        "difference_ci95_high": _null(difference.ci95_high),
        "p": _null(difference.p),
    }


def _null(value: float | None) -> float | None:
    """Replaces NaN by null: JSON has no NaN, and polars' aggregations skip null."""
    return None if value is None or isnan(value) else value
