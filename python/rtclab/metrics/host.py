"""CPU and memory use of the flow's sender. Only live calls have these metrics."""

from __future__ import annotations

from rtclab.metrics.registry import OF_BROWSERS, metric
from rtclab.metrics.series import NO_SAMPLES, Samples, Window, samples_by, samples_in_window
from rtclab.trace import Trace


def cpu_percent(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """CPU use of the flow's sender at every sample, in per cent of one core."""
    return _host(trace, flow, window, "cpu_percent", 1.0)


def memory_mb(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Memory of the flow's sender at every sample, in MB of 10^6 bytes."""
    return _host(trace, flow, window, "memory_bytes", 1e-6)


@metric(unit="%", better="lower", source="100 % is one core", samples=cpu_percent, known=OF_BROWSERS)
def cpu(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean CPU use (% of one core) of the sender's browser, summed over its processes; in live calls only."""
    return cpu_percent(trace, flow, window).mean()


@metric(unit="MB", better="lower", source="1 MB is 10^6 bytes", samples=memory_mb, known=OF_BROWSERS)
def memory(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean memory (MB) of the sender's browser, summed over its processes; in live calls only."""
    return memory_mb(trace, flow, window).mean()


def _host(trace: Trace, flow: str, window: Window | None, column: str, scale: float) -> Samples:
    about = trace.manifest.flows.get(flow)
    if about is None:
        return NO_SAMPLES
    used = trace.cached(_hosts, column).get(about.sender, NO_SAMPLES)
    return samples_in_window(used, window).scaled(scale)


def _hosts(trace: Trace, column: str) -> dict[str, Samples]:
    return samples_by(trace.table("host"), "participant", column)
