"""What the viewer gets: frames, their size, and freezes."""

from __future__ import annotations

from math import isnan

import numpy as np
import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import (
    NS_PER_S,
    IntegerArray,
    Samples,
    Window,
    before_end,
    counter,
    gauge,
    increase,
    mean_slope,
    slopes,
    span_ns,
    until_end,
)
from rtclab.trace import Trace

FREEZE_WINDOW = 30
"""A frame is compared with the mean of so many intervals, its own the last (W3C, freezeCount)."""
FREEZE_MIN_INTERVALS = 5
"""libwebrtc, video/video_quality_observer2.cc: with fewer there is no freeze."""
FREEZE_MARGIN_S = 0.150


def decoded_fps(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Frames decoded between neighbouring reports, per second."""
    return slopes(_decoded(trace, flow), window)


@metric(unit="frame/s", better="higher", source="W3C webrtc-stats, framesDecoded", samples=decoded_fps)
def frame_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Frames decoded at the receiver per second, from its first report on.

    A stream that falls silent counts until the flow's end.
    """
    return mean_slope(_decoded(trace, flow), window)


def _decoded(trace: Trace, flow: str) -> Samples:
    return until_end(trace, flow, counter(trace, "inbound_rtp", flow, "framesDecoded"))


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameWidth")
def frame_width(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean width of the received video over the receiver's reports."""
    return gauge(trace, "inbound_rtp", flow, "frameWidth", window).mean()


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameHeight")
def frame_height(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean height of the received video over the receiver's reports."""
    return gauge(trace, "inbound_rtp", flow, "frameHeight", window).mean()


@metric(unit="", better="lower", source="W3C webrtc-stats, freezeCount")
def freeze_count(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Freezes: a frame shown for at least max(3 x mean, mean + 150 ms) of the 30 frames before it.

    A picture that stands still when the flow ends, by the same rule, is a freeze too.
    """
    counted = increase(counter(trace, "inbound_rtp", flow, "freezeCount"), window)
    return _plus(counted, float(_open_freeze_s(trace, flow, window) > 0))


@metric(unit="s", better="lower", source="W3C webrtc-stats, totalFreezesDuration")
def freeze_duration(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Time during which the picture stood still: the durations of all freezes together.

    A freeze that is open when the flow ends counts until then.
    """
    counted = increase(counter(trace, "inbound_rtp", flow, "totalFreezesDuration"), window)
    return _plus(counted, _open_freeze_s(trace, flow, window))


def _plus(counted: float, still_open: float) -> float:
    """Receivers count a freeze when it ends, so an open one is in no counter; NaN if nothing is known."""
    return still_open if isnan(counted) and still_open else counted + still_open


def _open_freeze_s(trace: Trace, flow: str, window: Window | None) -> float:
    """How long in the window the last frame has stood still when the flow ends; 0 if that is no freeze."""
    shown_ns = trace.cached(_last_shown_ns).get(flow)
    if shown_ns is None or shown_ns.size < FREEZE_MIN_INTERVALS:
        return 0.0
    end_ns = span_ns(trace, flow)[1]
    intervals_s = np.diff(np.append(shown_ns, end_ns)) / NS_PER_S
    mean_s = float(intervals_s.mean())
    if intervals_s[-1] < max(3 * mean_s, mean_s + FREEZE_MARGIN_S):
        return 0.0
    begin_ns, until_ns = span_ns(trace, flow, window)
    return max(0, until_ns - max(begin_ns, int(shown_ns[-1]))) / NS_PER_S


def _last_shown_ns(trace: Trace) -> dict[object, IntegerArray]:
    """Of every flow: when the last frames were shown of the stream that showed the last of all."""
    shown = trace.table("frames").filter(before_end(trace, "rendered_ns")).sort("rendered_ns")
    of_flow = shown.filter(pl.col("ssrc") == pl.col("ssrc").last().over("flow"))
    last = of_flow.group_by("flow").agg(pl.col("rendered_ns").tail(FREEZE_WINDOW))
    return {flow: np.array(times_ns, dtype=np.int64) for flow, times_ns in last.iter_rows()}
