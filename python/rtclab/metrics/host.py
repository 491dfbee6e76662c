"""CPU and memory use of the flow's sender."""

from __future__ import annotations

from rtclab.metrics.registry import OF_BROWSERS, exact, metric
from rtclab.metrics.series import NO_SAMPLES, Samples, Window, samples_by, samples_in_window
from rtclab.trace import Trace

OF_PROCESSORS = OF_BROWSERS | {"simulated": exact("of a participant or server with a `host`")}
"""What each source of traces knows of the load of processors."""


def cpu_percent(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """CPU use of the flow's sender in every second, in per cent of one core."""
    return _host(trace, flow, window, "cpu_percent", 1.0)


def memory_mb(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Memory of the flow's sender at every sample, in MB of 10^6 bytes."""
    return _host(trace, flow, window, "memory_bytes", 1e-6)


@metric(unit="%", better="lower", source="100 % is one core", samples=cpu_percent, known=OF_PROCESSORS)
def cpu(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean CPU use (% of one core) of the flow's sender, over the whole run.

    Live, of the sender's browser or MCU, summed over its processes. Simulated, of the one processor of its
    `host`: the share of time in which it encodes, decodes and draws, in all calls together. Receiving,
    sending, sound and the page are not simulated, so a browser on the same machine uses more, and may use
    several cores.
    """
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
