"""Series over time from the tables of a trace, for metrics and plots.

A flow is measured while it is active, from its first packet to the end of its connection, as the manifest
says. Neither the time before set-up nor the time after a participant has left counts as a rate of zero.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import wraps
from itertools import pairwise
from math import isnan, nan, sqrt
from typing import Any, TypeVar, cast

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.trace import NS_PER_S, SCHEMAS, Trace, Window, rows_by

Array = NDArray[np.float64]
IntegerArray = NDArray[np.int64]

SECOND_NS = NS_PER_S  # length of one row of `flow_seconds`
ALWAYS_NS = 2**62
"""More than any time in a trace, in ns."""
SILENT_S = 2.0
"""Reports come once a second. A stream without a report for longer than this has fallen silent."""


@dataclass(frozen=True)
class Samples:
    """Values over time; each array has the shape (samples,).

    ``at_s`` is in seconds since the run began, ``values`` in the unit of the metric. ``lasts_s`` is the time
    in s that each value covers, which is its weight. It is None if all values have the same weight.
    """

    at_s: Array
    values: Array
    lasts_s: Array | None = None

    def scaled(self, factor: float) -> Samples:
        """The samples with their values multiplied by a factor, for another unit."""
        return Samples(self.at_s, self.values * factor, self.lasts_s)

    def chosen(self, which: NDArray[np.bool_]) -> Samples:
        """The samples for which ``which`` is true."""
        lasts_s = None if self.lasts_s is None else self.lasts_s[which]
        return Samples(self.at_s[which], self.values[which], lasts_s)

    def mean(self) -> float:
        """Weighted mean; NaN if there are no samples."""
        if not self.values.size:
            return nan
        if self.lasts_s is None:
            return float(self.values.mean())
        return float((self.values * self.lasts_s).sum() / self.lasts_s.sum())

    def deviation(self) -> float:
        """Weighted standard deviation; NaN for fewer than two samples.

        With equal weights it is the usual one with n - 1. Otherwise the sum of squares is divided by
        V1 - V2 / V1, where V1 is the sum of the weights and V2 the sum of their squares.
        """
        if self.values.size < 2:
            return nan
        squares = (self.values - self.mean()) ** 2
        if self.lasts_s is None:
            return sqrt(float(squares.sum()) / (self.values.size - 1))
        total = float(self.lasts_s.sum())
        spread = float((self.lasts_s * squares).sum())
        return sqrt(spread / (total - float((self.lasts_s**2).sum()) / total))


Function = TypeVar("Function", bound=Callable[..., Any])

NO_SAMPLES = Samples(np.empty(0), np.empty(0))
NO_SECONDS = pl.DataFrame(schema={**SCHEMAS["flow_seconds"], "end_ns": pl.Int64(), "share": pl.Float64()})


def once(make: Function) -> Function:
    """Makes a function compute its result only once for each window of a trace and further arguments.

    The value of a metric and the deviation of its samples come from the same samples.
    """

    @wraps(make)
    def cached(trace: Trace, *arguments: Hashable) -> Any:
        return trace.cached_in_window(make, *arguments)

    return cast(Function, cached)


def window_ns(trace: Trace) -> tuple[int, int]:
    """Begin and end of the trace's window in ns; without a window, of a time that contains any repeat."""
    if trace.window is None:
        return -ALWAYS_NS, ALWAYS_NS
    return round(trace.window[0] * NS_PER_S), round(trace.window[1] * NS_PER_S)


def samples_in_window(samples: Samples, window: Window | None) -> Samples:
    """The samples whose time lies in the window; all of them if there is no window."""
    if window is None:
        return samples
    return samples.chosen((samples.at_s >= window[0]) & (samples.at_s < window[1]))


def span_ns(trace: Trace, flow: str) -> tuple[int, int]:
    """Begin and end in ns of the part of the window in which the flow was active; empty if there is none."""
    about = trace.manifest.flows.get(flow)
    if about is None:
        return 0, 0
    from_ns, to_ns = window_ns(trace)
    begin_ns = max(about.begin_ns, from_ns)
    return begin_ns, max(begin_ns, min(about.end_ns, to_ns))


def before_end(trace: Trace, moment: str) -> pl.Expr:
    """Whether the time in a column is known and before the end of the row's flow."""
    ends = {name: flow.end_ns for name, flow in trace.manifest.flows.items()}
    end_ns = pl.col("flow").replace_strict(ends, default=None, return_dtype=pl.Int64)
    return (pl.col(moment) < end_ns).fill_null(False)


def overlap_ns(at_ns: IntegerArray, span: tuple[int, int]) -> IntegerArray:
    """For the second that begins at each time, its overlap with the span, in ns."""
    begin_ns, end_ns = span
    inside_ns: IntegerArray = np.minimum(at_ns + SECOND_NS, end_ns) - np.maximum(at_ns, begin_ns)
    return np.maximum(inside_ns, 0, out=inside_ns)


def flow_seconds(trace: Trace, flow: str) -> pl.DataFrame:
    """The rows of one flow in :func:`active_seconds`."""
    return _seconds_of_flows(trace).get(flow, NO_SECONDS)


@once
def _seconds_of_flows(trace: Trace) -> dict[object, pl.DataFrame]:
    return rows_by(active_seconds(trace), "flow")


@once
def active_seconds(trace: Trace) -> pl.DataFrame:
    """The rows of ``flow_seconds`` in which the flow was active, by flow and time.

    The added column ``share`` is the share of the row's active time that lies in the window. Counts are
    assumed to be spread evenly over the active time. The added column ``end_ns`` is the end of the flow.
    """
    flows = trace.manifest.flows
    spans = pl.DataFrame(
        {
            "flow": list(flows),
            "begin_ns": [flow.begin_ns for flow in flows.values()],
            "end_ns": [flow.end_ns for flow in flows.values()],
        },
        schema={"flow": pl.String, "begin_ns": pl.Int64, "end_ns": pl.Int64},
    )
    begin_ns = pl.max_horizontal("at_ns", "begin_ns")
    end_ns = pl.min_horizontal(pl.col("at_ns") + SECOND_NS, "end_ns")
    from_ns, to_ns = window_ns(trace)
    inside_ns = pl.min_horizontal(end_ns, to_ns) - pl.max_horizontal(begin_ns, from_ns)
    return (
        trace.whole.table("flow_seconds")
        .lazy()
        .join(spans.lazy(), on="flow", maintain_order="left")
        .filter(inside_ns > 0)
        .with_columns(share=inside_ns / (end_ns - begin_ns))
        .drop("begin_ns")
        .sort("flow", "at_ns", maintain_order=True)
        .collect()
    )


def total(rows: pl.DataFrame, *columns: str) -> float:
    """Sum of columns over rows of :func:`flow_seconds`, weighted with ``share``; null counts as 0."""
    share = rows["share"].to_numpy()
    return float(sum(_sum(rows[column].to_numpy() * share) for column in columns))


def _sum(amounts: Array) -> float:
    total = float(amounts.sum())
    return float(np.nansum(amounts)) if isnan(total) else total


def _seconds(trace: Trace) -> dict[object, pl.DataFrame]:
    return rows_by(trace.table("flow_seconds").sort("flow", "at_ns", maintain_order=True), "flow")


@once
def per_second(trace: Trace, flow: str, column: str) -> Samples:
    """A column of ``flow_seconds`` as a rate, at the middle of every second in which the flow was active.

    Amounts are divided by the time in the second for which the flow was active, which may be less than 1 s in
    the first and last second. ``lasts_s`` is the part of that time in the window. A second without a row has
    the rate 0.
    """
    rows = trace.cached(_seconds).get(flow)
    if rows is None:
        return NO_SAMPLES
    return rates_of(trace, flow, rows["at_ns"].to_numpy(), rows[column].to_numpy())


def rates_of(trace: Trace, flow: str, at_ns: IntegerArray, amounts: NDArray[np.generic]) -> Samples:
    """Amounts as a rate in each second in which the flow was active; see :func:`per_second`."""
    begin_ns, end_ns = span_ns(trace.whole, flow)
    first = begin_ns // SECOND_NS
    index = at_ns // SECOND_NS - first
    seconds = (first + np.arange(-(-end_ns // SECOND_NS) - first)) * SECOND_NS
    known = (index >= 0) & (index < seconds.size)
    totals = np.bincount(index[known], weights=amounts[known], minlength=seconds.size)
    there_s = overlap_ns(seconds, (begin_ns, end_ns)) / NS_PER_S
    inside_s = overlap_ns(seconds, span_ns(trace, flow)) / NS_PER_S
    rates = np.divide(totals, there_s, out=np.zeros(seconds.size), where=there_s > 0)
    return Samples(seconds / NS_PER_S + 0.5, rates, inside_s).chosen(inside_s > 0)


def gauge(trace: Trace, table: str, flow: str, column: str, scale: float = 1.0) -> Samples:
    """The values of a column that is not cumulative, until the flow's end, times ``scale``.

    Nulls are left out.
    """
    return _reported(trace, trace.cached(_gauges, table, column), flow).scaled(scale)


def _gauges(trace: Trace, table: str, column: str) -> dict[str, Samples]:
    reports = trace.cached(_reports, table)
    return _samples(reports.at_s, reports.values(column), reports.of_flow)


def gauge_of_streams(trace: Trace, table: str, flow: str, column: str) -> Samples:
    """The values of :func:`gauge`, summed over the flow's streams."""
    return _reported(trace, trace.cached(_counters, table, column), flow)


def _reported(trace: Trace, known: dict[str, Samples], flow: str) -> Samples:
    samples = known.get(flow, NO_SAMPLES)
    end_s = span_ns(trace.whole, flow)[1] / NS_PER_S
    return samples_in_window(samples.chosen(samples.at_s <= end_s), trace.window)


def counter(trace: Trace, table: str, flow: str, *columns: str) -> Samples:
    """Cumulative columns at every report, summed over the flow's streams. Nulls are left out."""
    return trace.cached(_counters, table, *columns).get(flow, NO_SAMPLES)


def _counters(trace: Trace, table: str, *columns: str) -> dict[str, Samples]:
    return _summed(trace.cached(_reports, table), *columns)


def counters_of_kind(trace: Trace, table: str, kind: str, column: str) -> dict[str, Samples]:
    """By flow, a cumulative column at every report, summed over the flow's streams of one kind of media."""
    return _summed(trace.cached(_reports, table, kind), column)


def _summed(reports: _Reports, *columns: str) -> dict[str, Samples]:
    """By flow, columns at every report, summed over the flow's streams."""
    values = sum((reports.values(column) for column in columns), start=np.zeros(reports.at_s.size))
    starts = reports.starts
    if starts.size == values.size:
        return _samples(reports.at_s, values, reports.of_flow)
    known = ~np.isnan(values)
    totals = np.add.reduceat(np.where(known, values, 0.0), starts)
    totals[~np.logical_or.reduceat(known, starts)] = nan
    ends = {flow: (rows.start, rows.stop) for flow, rows in reports.of_flow.items()}
    of_flow = {flow: slice(*np.searchsorted(starts, rows)) for flow, rows in ends.items()}
    return _samples(reports.at_s[starts], totals, of_flow)


@dataclass(frozen=True)
class _Reports:
    """The rows of a table in order of flow and time, with the rows of each flow.

    ``starts`` are the indices of the first row for each flow and time. Several streams of a flow report at
    the same time.
    """

    rows: pl.DataFrame
    at_s: Array
    of_flow: dict[str, slice]
    starts: IntegerArray

    def values(self, column: str) -> Array:
        """A column as floats, of shape (rows,), with NaN for null."""
        values: Array = self.rows[column].cast(pl.Float64).to_numpy()
        return values


def _reports(trace: Trace, table: str, kind: str = "") -> _Reports:
    """The reports in a table, of one kind of media or of all."""
    rows = trace.table(table)
    rows = (rows.filter(kind=kind) if kind else rows).sort("flow", "at_ns", maintain_order=True)
    at_ns = rows["at_ns"].to_numpy()
    first = np.append(True, np.diff(at_ns) != 0)[: at_ns.size]
    of_flow = _slices(rows["flow"])
    for of_one in of_flow.values():
        first[of_one.start] = True
    return _Reports(rows, at_ns / NS_PER_S, of_flow, np.flatnonzero(first))


def _samples(at_s: Array, values: Array, of_flow: dict[str, slice]) -> dict[str, Samples]:
    """The values of each flow without NaN. Flows without values are left out."""
    known = ~np.isnan(values)
    if known.all():
        return {flow: Samples(at_s[rows], values[rows]) for flow, rows in of_flow.items()}
    return {
        flow: Samples(at_s[rows][known[rows]], values[rows][known[rows]])
        for flow, rows in of_flow.items()
        if known[rows].any()
    }


def until_end(trace: Trace, flow: str, counted: Samples) -> Samples:
    """A counter until the flow's end.

    The increase in the first report after the flow's end is taken to have happened before it. If the stream
    fell silent earlier, the counter keeps its last value until the end.
    """
    if not counted.at_s.size:
        return counted
    end_s = span_ns(trace.whole, flow)[1] / NS_PER_S
    before = int(np.searchsorted(counted.at_s, end_s))
    at_s, values = counted.at_s[:before], counted.values[:before]
    if before < counted.at_s.size:
        last = counted.values[before]
    elif end_s - counted.at_s[-1] > SILENT_S:
        last = counted.values[-1]
    else:
        return counted
    return Samples(np.append(at_s, end_s), np.append(values, last))


def from_begin(trace: Trace, flow: str, counted: Samples) -> Samples:
    """A counter until the flow's end that begins with 0 when the flow does, for rates over the whole flow."""
    counted = until_end(trace, flow, counted)
    begin_s = span_ns(trace.whole, flow)[0] / NS_PER_S
    if not counted.at_s.size or counted.at_s[0] <= begin_s:
        return counted
    return Samples(np.append(begin_s, counted.at_s), np.append(0.0, counted.values))


def arrays_by_flow(rows: pl.DataFrame) -> dict[str, tuple[NDArray[Any], ...]]:
    """By flow, the columns of rows after the first one, which is ``flow``, in the order of the rows."""
    of_flows = rows.group_by("flow", maintain_order=True).all()
    columns = [of_flows[name].explode().to_numpy() for name in rows.columns[1:]]
    ends = np.cumsum(of_flows.to_series(1).list.len().to_numpy()).tolist()
    return {
        flow: tuple(column[first:end] for column in columns)
        for flow, (first, end) in zip(of_flows["flow"], pairwise([0, *ends]), strict=True)
    }


def samples_by(rows: pl.LazyFrame, key: str, column: str) -> dict[str, Samples]:
    """A column over ``at_ns``, as one series per value of ``key``. Nulls are left out."""
    ordered = rows.select(key, "at_ns", column).drop_nulls(column).sort(key, "at_ns", maintain_order=True)
    known = ordered.collect()
    at_s = known["at_ns"].to_numpy() / NS_PER_S
    values = known[column].cast(pl.Float64).to_numpy()
    return {name: Samples(at_s[rows], values[rows]) for name, rows in _slices(known[key]).items()}


def _slices(key: pl.Series) -> dict[str, slice]:
    """The rows of each value of a sorted column."""
    runs = key.rle().struct.unnest()
    ends = np.cumsum(runs["len"].to_numpy(), dtype=np.int64).tolist()
    return {name: slice(*span) for name, span in zip(runs["value"], pairwise([0, *ends]), strict=True)}


def slopes(counted: Samples, window: Window | None = None) -> Samples:
    """Increase per second of a counter between consecutive reports, at the middle of the interval.

    The weight of each is the part of the interval that lies in the window.
    """
    if counted.at_s.size < 2:
        return NO_SAMPLES
    elapsed_s = np.diff(counted.at_s)
    inside_s = elapsed_s if window is None else np.diff(np.clip(counted.at_s, *window))
    middle_s = counted.at_s[1:] - elapsed_s / 2
    return Samples(middle_s, np.diff(counted.values) / elapsed_s, inside_s).chosen(inside_s > 0)


def mean_slope(counted: Samples, window: Window | None = None) -> float:
    """Increase per second of a counter in the part of the window between its first and last report.

    The counter is assumed to grow evenly between reports. NaN if there are fewer than two reports.
    """
    return slopes(counted, window).mean()


def increase(counted: Samples, window: Window | None = None) -> float:
    """Increase of a counter in the window or, without one, since the stream began. NaN without reports.

    Counters of webrtc-stats are 0 when their stream begins, so before the first report the value is 0.
    """
    from_s, to_s = window or (-np.inf, np.inf)
    until = counted.values[counted.at_s <= to_s]
    before = counted.values[counted.at_s <= from_s]
    if not until.size:
        return nan
    return float(until[-1] - (before[-1] if before.size else 0.0))
