"""Rows of a trace as series over time; metrics and plots are made from these.

A flow is measured from its first packet on, so the time before a call is set up does not count as a rate of
zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rtclab.trace import SCHEMAS, Trace

Array = NDArray[np.float64]
IntegerArray = NDArray[np.int64]
Window = tuple[float, float]
"""Begin and end of what is measured, in seconds since the run began; the end is not included."""

NS_PER_S = 1_000_000_000
SECOND_NS = NS_PER_S  # length of one row of `flow_seconds`
BITS_PER_BYTE = 8


@dataclass(frozen=True)
class Samples:
    """Values over time, both of shape (samples,): seconds since the run began, and the metric's unit."""

    at_s: Array
    values: Array


NO_SAMPLES = Samples(np.empty(0), np.empty(0))


def mean(values: Array) -> float:
    """Arithmetic mean, NaN of nothing."""
    return float(values.mean()) if values.size else float("nan")


def in_window(rows: pl.DataFrame, window: Window | None) -> pl.DataFrame:
    """Rows with ``at_ns`` in the window, or all rows without one."""
    if window is None:
        return rows
    return rows.filter(pl.col("at_ns").is_between(*window_ns(window), closed="left"))


def window_ns(window: Window) -> tuple[int, int]:
    """The window in nanoseconds."""
    return round(window[0] * NS_PER_S), round(window[1] * NS_PER_S)


def samples_in_window(samples: Samples, window: Window | None) -> Samples:
    """Samples whose time is in the window, or all of them without one."""
    if window is None:
        return samples
    chosen = (samples.at_s >= window[0]) & (samples.at_s < window[1])
    return Samples(samples.at_s[chosen], samples.values[chosen])


def flow_seconds(trace: Trace, flow: str, window: Window | None = None) -> pl.DataFrame:
    """Rows of ``flow_seconds`` from the flow's first packet to its last row, in order of time."""
    rows = trace.kept(_from_first_packet).get(flow)
    return in_window(SCHEMAS["flow_seconds"].to_frame() if rows is None else rows, window)


def _from_first_packet(trace: Trace) -> dict[object, pl.DataFrame]:
    rows = trace.table("flow_seconds").sort("flow", "at_ns", maintain_order=True)
    begun = pl.col("sent_packets").cum_sum().over("flow") > 0
    return rows_by(rows.filter(begun), "flow")


def per_second(rows: pl.DataFrame, column: str) -> Samples:
    """A column of ``flow_seconds``, at the middle of every second from the first to the last row.

    A second without a row has a 0.
    """
    if rows.is_empty():
        return NO_SAMPLES
    index = (rows["at_ns"].to_numpy() - rows["at_ns"][0]) // SECOND_NS
    values = np.zeros(int(index[-1]) + 1)
    np.add.at(values, index, rows[column].cast(pl.Float64).to_numpy())
    return Samples(rows["at_ns"][0] / NS_PER_S + np.arange(values.size) + 0.5, values)


def gauge(
    trace: Trace, table: str, flow: str, column: str, window: Window | None = None, scale: float = 1.0
) -> Samples:
    """Every reported value of a column that is not a counter, times ``scale``; nulls are left out."""
    reported = samples_in_window(trace.kept(_gauges, table, column).get(flow, NO_SAMPLES), window)
    return Samples(reported.at_s, reported.values * scale)


def _gauges(trace: Trace, table: str, column: str) -> dict[str, Samples]:
    return samples_by(trace.table(table), "flow", column)


def counter(trace: Trace, table: str, flow: str, column: str) -> Samples:
    """A cumulative column at every report, summed over the flow's streams; nulls are left out."""
    return trace.kept(_counters, table, column).get(flow, NO_SAMPLES)


def _counters(trace: Trace, table: str, column: str) -> dict[str, Samples]:
    rows = trace.table(table).drop_nulls(column)
    totals = rows.group_by("flow", "at_ns").agg(pl.col(column).cast(pl.Float64).sum())
    return samples_by(totals, "flow", column)


def rows_by(rows: pl.DataFrame, key: str) -> dict[object, pl.DataFrame]:
    """Rows apart by the value of ``key``, each in their order."""
    return {value: part for (value,), part in rows.partition_by(key, as_dict=True).items()}


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


def slopes(total: Samples, window: Window | None = None) -> Samples:
    """Increase per second of a counter between neighbouring reports, at the middle of the time between them.

    An interval counts when its middle lies in the window.
    """
    if total.at_s.size < 2:
        return NO_SAMPLES
    elapsed_s = np.diff(total.at_s)
    middle_s = total.at_s[1:] - elapsed_s / 2
    chosen = (
        np.ones(elapsed_s.size, dtype=bool)
        if window is None
        else (middle_s >= window[0]) & (middle_s < window[1])
    )
    return Samples(middle_s[chosen], (np.diff(total.values) / elapsed_s)[chosen])


def mean_slope(total: Samples, window: Window | None = None) -> float:
    """Increase per second of a counter from the first to the last report of the window; NaN without two."""
    at_s, values = total.at_s, total.values
    if window is not None:
        begin = max(int(np.searchsorted(at_s, window[0], side="right")) - 1, 0)
        end = int(np.searchsorted(at_s, window[1], side="right"))
        at_s, values = at_s[begin:end], values[begin:end]
    if at_s.size < 2:
        return float("nan")
    return float((values[-1] - values[0]) / (at_s[-1] - at_s[0]))


def increase(total: Samples, window: Window | None = None) -> float:
    """How much a counter grew in the window, or since the stream began; NaN without a report.

    A counter of webrtc-stats is 0 when its stream begins, so a window that opens before the first report
    starts at 0.
    """
    from_s, to_s = window or (-np.inf, np.inf)
    until = total.values[total.at_s <= to_s]
    before = total.values[total.at_s <= from_s]
    if not until.size:
        return float("nan")
    return float(until[-1] - (before[-1] if before.size else 0.0))
