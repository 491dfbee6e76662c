"""Audio at the listener: delay of playout, and sound made up because packets were missing."""

from __future__ import annotations

from math import nan

import polars as pl

from rtclab.metrics.registry import OF_REPORTS, metric
from rtclab.metrics.series import NO_SAMPLES, Samples, Window, increase, mean_slope, samples_by, until_end
from rtclab.trace import Trace

MS_PER_S = 1000
PERCENT = 100


@metric(
    unit="%", better="lower", source="W3C webrtc-stats, concealedSamples", bounds=(0, 100), known=OF_REPORTS
)
def audio_concealed(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Sound made up by the receiver because packets were missing or late, in % of the sound played."""
    return PERCENT * _ratio(trace, flow, "concealedSamples", "totalSamplesReceived", window)


@metric(unit="1/min", better="lower", source="W3C webrtc-stats, concealmentEvents", known=OF_REPORTS)
def concealment_events(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Times per minute that the receiver began to make up sound, from its first report on."""
    return 60 * mean_slope(until_end(trace, flow, _counted(trace, flow, "concealmentEvents")), window)


@metric(unit="ms", better="lower", source="W3C webrtc-stats, jitterBufferDelay", known=OF_REPORTS)
def audio_delay(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean time (ms) that sound waited in the jitter buffer, over the samples that left it."""
    return MS_PER_S * _ratio(trace, flow, "jitterBufferDelay", "jitterBufferEmittedCount", window)


@metric(unit="ms", better="lower", source="W3C webrtc-stats, jitterBufferTargetDelay", known=OF_REPORTS)
def audio_target_delay(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean delay (ms) that the jitter buffer of audio aimed at, over the samples that left it."""
    return MS_PER_S * _ratio(trace, flow, "jitterBufferTargetDelay", "jitterBufferEmittedCount", window)


def _ratio(trace: Trace, flow: str, part: str, whole: str, window: Window | None) -> float:
    """Increase of one counter divided by the increase of another; NaN if the latter did not grow."""
    of = increase(_counted(trace, flow, whole), window)
    return increase(_counted(trace, flow, part), window) / of if of > 0 else nan


def _counted(trace: Trace, flow: str, column: str) -> Samples:
    """A counter of the flow's audio streams, summed, until the flow's end."""
    return until_end(trace, flow, trace.cached(_counters, column).get(flow, NO_SAMPLES))


def _counters(trace: Trace, column: str) -> dict[str, Samples]:
    counters = trace.table("inbound_rtp").select("flow", "kind", "at_ns", column)
    rows = counters.filter(pl.col("kind") == "audio").drop_nulls(column)
    return samples_by(rows.group_by("flow", "at_ns").agg(pl.col(column).sum()), "flow", column)
