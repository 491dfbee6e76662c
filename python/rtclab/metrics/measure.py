"""Tables of all metrics of a run, and of two runs side by side."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isnan

import polars as pl

from rtclab.metrics.registry import METRICS, Metric
from rtclab.metrics.series import Window
from rtclab.metrics.statistics import Summary, mean_within_sd, summarise, welch
from rtclab.metrics.wire import stream_rates
from rtclab.trace import Run, Trace

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
    "significant": pl.Boolean(),
}


def measure_run(run: Run, window: Window | None = None) -> pl.DataFrame:
    """Every metric of every flow, over the finished repeats.

    Returns one row per metric and flow, in the order of the registry. ``flow`` is empty for metrics of the
    whole run. ``mean``, ``sd`` and the 95 % interval (Student's t within the metric's bounds) are over
    repeats. ``within_run_sd`` is the mean over repeats of the standard deviation of one-second samples, for
    metrics that have such samples. ``values`` holds one value per finished repeat. Values that cannot be
    measured are null, and so is an interval of fewer than two values or of values that are all equal.
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


def _measured(run: Run, window: Window | None) -> Iterator[_Measured]:
    for metric in METRICS.values():
        if metric.scope == "run":
            yield _Measured(metric, "", [None], [metric.function(run)], [])
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
    summary = summarise(measured.values, metric.bounds)
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

    95 % intervals are given by their ends, within the metric's bounds. The difference is b - a with Welch's t
    interval; ``difference_percent`` is relative to a. ``significant`` says whether the interval excludes 0.
    It is null if a run has fewer than two repeats, or if the values of both runs are all equal.
    """
    sides = [_summaries(measure_run(run, window)) for run in (a, b)]
    order = {name: index for index, name in enumerate(METRICS)}
    keys = sorted(dict.fromkeys([*sides[0], *sides[1]]), key=lambda key: order[key[0]])
    nothing = summarise([])
    rows = [_compared(*key, sides[0].get(key, nothing), sides[1].get(key, nothing)) for key in keys]
    return pl.DataFrame(rows, schema=COMPARED, orient="row")


def _summaries(measured: pl.DataFrame) -> dict[tuple[str, str], Summary]:
    return {
        (name, flow): summarise([value for value in values if value is not None], METRICS[name].bounds)
        for name, flow, values in measured.select("metric", "flow", "values").iter_rows()
    }


def _compared(name: str, flow: str, a: Summary, b: Summary) -> dict[str, object]:
    metric, difference = METRICS[name], welch(a, b)
    return {
        "metric": name,
        "unit": metric.unit,
        "better": metric.better,
        "flow": flow,
        "mean_a": _null(a.mean),
        "ci95_low_a": _null(a.ci95_low),
        "ci95_high_a": _null(a.ci95_high),
        "mean_b": _null(b.mean),
        "ci95_low_b": _null(b.ci95_low),
        "ci95_high_b": _null(b.ci95_high),
        "difference": _null(difference.value),
        "difference_percent": _null(100 * difference.value / abs(a.mean)) if a.mean else None,
        "difference_ci95_low": _null(difference.ci95_low),
        "difference_ci95_high": _null(difference.ci95_high),
        "significant": difference.significant,
    }


def _null(value: float | None) -> float | None:
    """Replaces NaN by null: JSON has no NaN, and polars' aggregations skip null."""
    return None if value is None or isnan(value) else value
