"""CPU and memory use of the flow's sender, and whether the CPU limits its video."""

from __future__ import annotations

from math import nan

import polars as pl

from rtclab.metrics.registry import OF_BROWSERS, OF_REPORTS, exact, metric
from rtclab.metrics.series import NO_SAMPLES, Samples, samples_by, samples_in_window, span_ns
from rtclab.trace import Trace, rows_by

OF_PROCESSORS = OF_BROWSERS | {"simulated": exact("of a participant or server with a `host`")}
"""What each source of traces knows of the load of processors."""


def cpu_percent(trace: Trace, flow: str) -> Samples:
    """CPU use of the flow's sender in every second, in per cent of one core."""
    return _host(trace, flow, "cpu_percent", 1.0)


def memory_mb(trace: Trace, flow: str) -> Samples:
    """Memory of the flow's sender at every sample, in MB of 10^6 bytes."""
    return _host(trace, flow, "memory_bytes", 1e-6)


@metric(unit="%", better="lower", source="100 % is one core", samples=cpu_percent, known=OF_PROCESSORS)
def cpu(trace: Trace, flow: str) -> float:
    """Mean CPU use (% of one core) of the flow's sender, over the whole run.

    Live, of the sender's browser or MCU, summed over its processes. Simulated, of the one processor of its
    `host`: the share of time in which it encodes, decodes and draws, in all calls together. Receiving,
    sending, sound and the page are not simulated, so a browser on the same machine uses more, and may use
    several cores.
    """
    return cpu_percent(trace, flow).mean()


@metric(unit="MB", better="lower", source="1 MB is 10^6 bytes", samples=memory_mb, known=OF_BROWSERS)
def memory(trace: Trace, flow: str) -> float:
    """Mean memory (MB) of the sender's browser, summed over its processes; in live calls only."""
    return memory_mb(trace, flow).mean()


@metric(
    unit="%",
    better="lower",
    source="W3C webrtc-stats, qualityLimitationReason",
    bounds=(0, 100),
    known=OF_REPORTS,
)
def cpu_limited(trace: Trace, flow: str) -> float:
    """Reports (%) of the sender's video that name its processor as the reason why pictures are smaller.

    A browser names it after encoding has taken most of the time between two pictures for some 20 s, and
    names the bandwidth if that is a reason, too. NaN without reports of a reason.
    """
    begin_ns, end_ns = span_ns(trace, flow)
    reasons = trace.cached(_limitations).get(flow)
    if reasons is None:
        return nan
    at_ns, is_limited = (reasons[name].to_numpy() for name in ("at_ns", "is_limited"))
    inside = is_limited[(at_ns >= begin_ns) & (at_ns < end_ns)]
    return 100 * int(inside.sum()) / inside.size if inside.size else nan


def _limitations(trace: Trace) -> dict[str, pl.DataFrame]:
    """By flow, when the sender reported why its video is limited, and whether by its processor."""
    is_limited = pl.col("qualityLimitationReason") == "cpu"
    rows = trace.table("outbound_rtp").select("flow", "at_ns", is_limited=is_limited).drop_nulls()
    return rows_by(rows, "flow")


def _host(trace: Trace, flow: str, column: str, scale: float) -> Samples:
    about = trace.manifest.flows.get(flow)
    if about is None:
        return NO_SAMPLES
    used = trace.cached(_hosts, column).get(about.sender, NO_SAMPLES)
    return samples_in_window(used, trace.window).scaled(scale)


def _hosts(trace: Trace, column: str) -> dict[str, Samples]:
    return samples_by(trace.table("host").lazy(), "participant", column)
