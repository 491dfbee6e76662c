"""What a call costs the machine of the flow's sender."""

from __future__ import annotations

import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import NS_PER_S, Samples, Window, in_window, mean
from rtclab.trace import Trace


def cpu_percent(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """CPU use of the flow's sender at every sample, in percent of one core."""
    return _host(trace, flow, window, "cpu_percent", 1.0)


def memory_mb(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Memory of the flow's sender at every sample, in MB of 10^6 bytes."""
    return _host(trace, flow, window, "memory_bytes", 1e-6)


@metric(unit="%", better="lower", source="100 % is one core", samples=cpu_percent)
def cpu(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean CPU use of all processes of the flow's sender."""
    return mean(cpu_percent(trace, flow, window).values)


@metric(unit="MB", better="lower", source="1 MB is 10^6 bytes", samples=memory_mb)
def memory(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean memory of all processes of the flow's sender."""
    return mean(memory_mb(trace, flow, window).values)


def _host(trace: Trace, flow: str, window: Window | None, column: str, scale: float) -> Samples:
    sender = flow.partition("->")[0]
    rows = in_window(trace.table("host").filter(pl.col("participant") == sender), window).drop_nulls(column)
    return Samples(rows["at_ns"].to_numpy() / NS_PER_S, rows[column].cast(pl.Float64).to_numpy() * scale)
