"""Rows of a trace as series over time; metrics and plots are made from these.

A flow is measured while it is there: from its first packet to the end of its connection, which the manifest
tells. Neither the time before a call is set up nor that after somebody has left counts as a rate of zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan, sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.trace import SCHEMAS, Trace, rows_by

Array = NDArray[np.float64]
IntegerArray = NDArray[np.int64]
Window = tuple[float, float]
"""Begin and end of what is measured, in seconds since the run began; the end is not included."""

NS_PER_S = 1_000_000_000
SECOND_NS = NS_PER_S  # length of one row of `flow_seconds`
BITS_PER_BYTE = 8
SILENT_S = 2.0
"""Reports come once a second: a stream without one for longer has fallen silent."""


@dataclass(frozen=True)
class Samples:
    """Values over time, each array of shape (samples,): seconds since the run began, and the metric's unit.

    ``lasts_s`` is the time in s that each value stands for, which is its weight; None where all weigh the
    same, as readings do.
    """

    at_s: Array
    values: Array
    lasts_s: Array | None = None

    def scaled(self, factor: float) -> Samples:
        """The same samples in another unit."""
        return Samples(self.at_s, self.values * factor, self.lasts_s)

    def chosen(self, which: NDArray[np.bool_]) -> Samples:
        """Some of the samples."""
        lasts_s = None if self.lasts_s is None else self.lasts_s[which]
        return Samples(self.at_s[which], self.values[which], lasts_s)

    def mean(self) -> float:
        """Mean over time, NaN of nothing."""
        if not self.values.size:
            return nan
        if self.lasts_s is None:
            return float(self.values.mean())
        return float((self.values * self.lasts_s).sum() / self.lasts_s.sum())

    def deviation(self) -> float:
        """Standard deviation over time, NaN of fewer than two samples.

        With equal weights it is the usual one with n - 1; with others the sum of squares is divided by
        V1 - V2 / V1, where V1 is the sum of the weights and V2 that of their squares.
        """
        if self.values.size < 2:
            return nan
        weights = np.ones(self.values.size) if self.lasts_s is None else self.lasts_s
        total = float(weights.sum())
        squares = float((weights * (self.values - self.mean()) ** 2).sum())
        return sqrt(squares / (total - float((weights**2).sum()) / total))


NO_SAMPLES = Samples(np.empty(0), np.empty(0))
NO_SECONDS = pl.DataFrame(schema={**SCHEMAS["flow_seconds"], "end_ns": pl.Int64(), "share": pl.Float64()})


def window_ns(window: Window) -> tuple[int, int]:
    """The window in nanoseconds."""
    return round(window[0] * NS_PER_S), round(window[1] * NS_PER_S)


def samples_in_window(samples: Samples, window: Window | None) -> Samples:
    """Samples whose time is in the window, or all of them without one."""
    if window is None:
        return samples
    return samples.chosen((samples.at_s >= window[0]) & (samples.at_s < window[1]))


def span_ns(trace: Trace, flow: str, window: Window | None = None) -> tuple[int, int]:
    """The part of the window in which the flow was there, in ns; of no length if it was not."""
    about = trace.manifest.flows.get(flow)
    if about is None:
        return 0, 0
    begin_ns, end_ns = about.begin_ns, about.end_ns
    if window is not None:
        begin_ns, end_ns = max(begin_ns, window_ns(window)[0]), min(end_ns, window_ns(window)[1])
    return begin_ns, max(begin_ns, end_ns)


def before_end(trace: Trace, moment: str) -> pl.Expr:
    """Whether a column of times is known and before the end of the row's flow."""
    ends = {name: flow.end_ns for name, flow in trace.manifest.flows.items()}
    end_ns = pl.col("flow").replace_strict(ends, default=None, return_dtype=pl.Int64)
    return (pl.col(moment) < end_ns).fill_null(False)


def overlap_ns(at_ns: IntegerArray, span: tuple[int, int]) -> IntegerArray:
    """How much of the second that begins at each time lies in the span, in ns."""
    begin_ns, end_ns = span
    from_ns, to_ns = np.maximum(at_ns, begin_ns), np.minimum(at_ns + SECOND_NS, end_ns)
    return np.maximum(to_ns - from_ns, 0)


def flow_seconds(trace: Trace, flow: str, window: Window | None = None) -> pl.DataFrame:
    """The flow's rows of :func:`seconds_there`."""
    rows = trace.cached(_seconds_of_flows, window).get(flow)
    return NO_SECONDS if rows is None else rows


def _seconds_of_flows(trace: Trace, window: Window | None) -> dict[object, pl.DataFrame]:
    return rows_by(seconds_there(trace, window), "flow")


def seconds_there(trace: Trace, window: Window | None = None) -> pl.DataFrame:
    """Rows of ``flow_seconds`` of the seconds in which their flow was there, in order of flow and time.

    A column ``share`` is added: the part of the row's time with the flow that lies in the window. What was
    counted in the row is taken as spread evenly over that time. ``end_ns`` is when the flow ended.
    """
    return trace.cached(_seconds_there, window)


def _seconds_there(trace: Trace, window: Window | None) -> pl.DataFrame:
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
    inside_ns = end_ns - begin_ns
    if window is not None:
        from_ns, to_ns = window_ns(window)
        inside_ns = pl.min_horizontal(end_ns, to_ns) - pl.max_horizontal(begin_ns, from_ns)
    return (
        trace.table("flow_seconds")
        .join(spans, on="flow", maintain_order="left")
        .filter(inside_ns > 0)
        .with_columns(share=inside_ns / (end_ns - begin_ns))
        .drop("begin_ns")
        .sort("flow", "at_ns", maintain_order=True)
    )


def total(rows: pl.DataFrame, *columns: str) -> float:
    """Sum of columns over rows of :func:`flow_seconds`, each as far as it counts; null is 0."""
    share = rows["share"].to_numpy()
    return float(sum(_sum(rows[column].to_numpy() * share) for column in columns))


def _sum(amounts: Array) -> float:
    total = float(amounts.sum())
    return float(np.nansum(amounts)) if isnan(total) else total


def _seconds(trace: Trace) -> dict[object, pl.DataFrame]:
    return rows_by(trace.table("flow_seconds").sort("flow", "at_ns", maintain_order=True), "flow")


def per_second(trace: Trace, flow: str, column: str, window: Window | None = None) -> Samples:
    """A column of ``flow_seconds`` per second, at the middle of every second in which the flow was there.

    The first and last second may be partial: the value is per second of the time that the flow was there, and
    ``lasts_s`` is that time. A second without a row has a 0.
    """
    rows = trace.cached(_seconds).get(flow)
    if rows is None:
        return NO_SAMPLES
    return rates_of(trace, flow, rows["at_ns"].to_numpy(), rows[column].to_numpy(), window)


def rates_of(
    trace: Trace, flow: str, at_ns: IntegerArray, amounts: NDArray[np.generic], window: Window | None
) -> Samples:
    """Amounts per second in each second in which the flow was there; see :func:`per_second`."""
    begin_ns, end_ns = span_ns(trace, flow)
    first = begin_ns // SECOND_NS
    index = at_ns // SECOND_NS - first
    seconds = (first + np.arange(-(-end_ns // SECOND_NS) - first)) * SECOND_NS
    known = (index >= 0) & (index < seconds.size)
    totals = np.bincount(index[known], weights=amounts[known], minlength=seconds.size)
    there_s = overlap_ns(seconds, (begin_ns, end_ns)) / NS_PER_S
    inside_s = overlap_ns(seconds, span_ns(trace, flow, window)) / NS_PER_S
    rates = np.divide(totals, there_s, out=np.zeros(seconds.size), where=there_s > 0)
    return Samples(seconds / NS_PER_S + 0.5, rates, inside_s).chosen(inside_s > 0)


def gauge(
    trace: Trace, table: str, flow: str, column: str, window: Window | None = None, scale: float = 1.0
) -> Samples:
    """Every value of a column that is not a counter, as long as the flow was there, times ``scale``.

    Nulls are left out.
    """
    return _reported(trace, trace.cached(_gauges, table, column), flow, window).scaled(scale)


def _gauges(trace: Trace, table: str, column: str) -> dict[str, Samples]:
    return samples_by(trace.table(table), "flow", column)


def gauge_of_streams(
    trace: Trace, table: str, flow: str, column: str, window: Window | None = None
) -> Samples:
    """As :func:`gauge`, summed over the flow's streams."""
    return _reported(trace, trace.cached(_counters, table, column), flow, window)


def _reported(trace: Trace, known: dict[str, Samples], flow: str, window: Window | None) -> Samples:
    samples = known.get(flow, NO_SAMPLES)
    end_s = span_ns(trace, flow)[1] / NS_PER_S
    return samples_in_window(samples.chosen(samples.at_s <= end_s), window)


def counter(trace: Trace, table: str, flow: str, column: str) -> Samples:
    """A cumulative column at every report, summed over the flow's streams; nulls are left out."""
    return trace.cached(_counters, table, column).get(flow, NO_SAMPLES)


def _counters(trace: Trace, table: str, column: str) -> dict[str, Samples]:
    rows = trace.table(table).drop_nulls(column)
    totals = rows.group_by("flow", "at_ns").agg(pl.col(column).cast(pl.Float64).sum())
    return samples_by(totals, "flow", column)


def until_end(trace: Trace, flow: str, counted: Samples) -> Samples:
    """A counter as long as the flow was there.

    What the first report after the flow's end adds came before that end. A stream that fell silent before
    stays as it was until the end.
    """
    if not counted.at_s.size:
        return counted
    end_s = span_ns(trace, flow)[1] / NS_PER_S
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
    """As :func:`until_end`, and from 0 when the flow begins: the bytes of a rate over all of its time."""
    counted = until_end(trace, flow, counted)
    begin_s = span_ns(trace, flow)[0] / NS_PER_S
    if not counted.at_s.size or counted.at_s[0] <= begin_s:
        return counted
    return Samples(np.append(begin_s, counted.at_s), np.append(0.0, counted.values))


def samples_by(rows: pl.DataFrame, key: str, column: str) -> dict[str, Samples]:
    """A column over ``at_ns`` as one series per value of ``key``; nulls are left out."""
    known = rows.drop_nulls(column).sort(key, "at_ns", maintain_order=True)
    at_s = known["at_ns"].to_numpy() / NS_PER_S
    values = known[column].cast(pl.Float64).to_numpy()
    samples, begin = {}, 0
    for length, name in known[key].rle().struct.unnest().iter_rows():
        samples[name] = Samples(at_s[begin : begin + length], values[begin : begin + length])
        begin += length
    return samples


def slopes(counted: Samples, window: Window | None = None) -> Samples:
    """Increase per second of a counter between neighbouring reports, at the middle of the time between them.

    Each stands for the part of that time that lies in the window.
    """
    if counted.at_s.size < 2:
        return NO_SAMPLES
    elapsed_s = np.diff(counted.at_s)
    inside_s = elapsed_s if window is None else np.diff(np.clip(counted.at_s, *window))
    middle_s = counted.at_s[1:] - elapsed_s / 2
    return Samples(middle_s, np.diff(counted.values) / elapsed_s, inside_s).chosen(inside_s > 0)


def mean_slope(counted: Samples, window: Window | None = None) -> float:
    """Increase per second of a counter from the first to the last report, or in the window between these.

    Between two reports it is taken to grow evenly. NaN without two reports.
    """
    return slopes(counted, window).mean()


def increase(counted: Samples, window: Window | None = None) -> float:
    """How much a counter grew in the window, or since the stream began; NaN without a report.

    A counter of webrtc-stats is 0 when its stream begins, so a window that opens before the first report
    starts at 0.
    """
    from_s, to_s = window or (-np.inf, np.inf)
    until = counted.values[counted.at_s <= to_s]
    before = counted.values[counted.at_s <= from_s]
    if not until.size:
        return nan
    return float(until[-1] - (before[-1] if before.size else 0.0))
