"""What the viewer sees: frame rate, resolution and freezes."""

from __future__ import annotations

from math import isnan

import numpy as np
import polars as pl

from rtclab.metrics.registry import metric
from rtclab.metrics.series import (
    NO_SAMPLES,
    NS_PER_S,
    IntegerArray,
    Samples,
    Window,
    counter,
    gauge,
    increase,
    mean_slope,
    samples_by,
    slopes,
    span_ns,
    until_end,
)
from rtclab.trace import Trace

FREEZE_WINDOW = 30
"""Number of intervals, the latest included, whose mean the latest is compared with (W3C, freezeCount)."""
FREEZE_MIN_INTERVALS = 5
"""With fewer intervals there is no freeze (libwebrtc, video/video_quality_observer2.cc)."""
FREEZE_MARGIN_S = 0.150


def decoded_fps(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Frames decoded per second between consecutive reports."""
    return slopes(_decoded(trace, flow), window)


@metric(unit="frame/s", better="higher", source="W3C webrtc-stats, framesDecoded", samples=decoded_fps)
def frame_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Frames per second that the receiver decoded, from its first report on.

    If the stream stops before the flow ends, the time without frames counts too.
    """
    return mean_slope(_decoded(trace, flow), window)


def _decoded(trace: Trace, flow: str) -> Samples:
    return until_end(trace, flow, counter(trace, "inbound_rtp", flow, "framesDecoded"))


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameWidth")
def frame_width(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean width (pixels) of the received video, over the receiver's reports of one per second."""
    return gauge(trace, "inbound_rtp", flow, "frameWidth", window).mean()


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameHeight")
def frame_height(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean height (pixels) of the received video, over the receiver's reports of one per second."""
    return gauge(trace, "inbound_rtp", flow, "frameHeight", window).mean()


@metric(unit="", better="lower", source="W3C webrtc-stats, freezeCount", total=True)
def freeze_count(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Number of video freezes while the flow was active.

    A frame freezes if it is shown for at least max(3 x mean, mean + 150 ms), where mean is that of the last
    30 frame intervals. Video that is frozen by this rule when the flow ends counts too.
    """
    counted = increase(counter(trace, "inbound_rtp", flow, "freezeCount"), window)
    return _plus(counted, float(_open_freeze_s(trace, flow, window) > 0))


@metric(unit="s", better="lower", source="W3C webrtc-stats, totalFreezesDuration", total=True)
def freeze_duration(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Total time (s) for which video was frozen: the sum over all freezes (see freeze_count).

    A freeze that is still open when the flow ends counts until then.
    """
    counted = increase(counter(trace, "inbound_rtp", flow, "totalFreezesDuration"), window)
    return _plus(counted, _open_freeze_s(trace, flow, window))


def jitter_buffer_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Mean time in ms for which the frames between two reports waited; their number is the weight."""
    samples = trace.cached(_jitter_buffer_ms).get(flow, NO_SAMPLES)
    if window is None:
        return samples
    from_s, to_s = window
    return samples.chosen((samples.at_s >= from_s) & (samples.at_s < to_s))


@metric(unit="ms", better="lower", source="W3C webrtc-stats, jitterBufferDelay", samples=jitter_buffer_ms)
def jitter_buffer_delay(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean time (ms) from the first packet of a video frame to the decoder."""
    return jitter_buffer_ms(trace, flow, window).mean()


def _jitter_buffer_ms(trace: Trace) -> dict[str, Samples]:
    columns = ["jitterBufferDelay", "jitterBufferEmittedCount"]
    rows = trace.table("inbound_rtp").filter(pl.col("kind") == "video").drop_nulls(columns)
    sums = rows.group_by("flow", "at_ns").agg(pl.col(columns).sum())
    waited, frames = (samples_by(sums, "flow", column) for column in columns)
    samples: dict[str, Samples] = {}
    for flow, counted in frames.items():
        count = np.diff(counted.values, prepend=0.0)
        waited_ms = np.diff(waited[flow].values, prepend=0.0) * 1e3
        emitted = count > 0
        mean_ms = waited_ms[emitted] / count[emitted]
        samples[flow] = Samples(counted.at_s[emitted], mean_ms, count[emitted])
    return samples


def _plus(counted: float, still_open: float) -> float:
    """The counted freezes plus the open one, which receivers do not count before it ends.

    NaN if neither is known.
    """
    return still_open if isnan(counted) and still_open else counted + still_open


def _open_freeze_s(trace: Trace, flow: str, window: Window | None) -> float:
    """Time in s, within the window, for which the last frame is frozen at the flow's end; 0 if it is not."""
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


def _last_shown_ns(trace: Trace) -> dict[str, IntegerArray]:
    """When the last frames of each flow were shown, in ns, in the stream that showed the latest frame."""
    shown = trace.table("frames").drop_nulls("rendered_ns").group_by("flow", "ssrc").agg("rendered_ns")
    last: dict[str, IntegerArray] = {}
    for flow, times in zip(shown["flow"], shown["rendered_ns"], strict=True):
        rendered_ns = np.sort(times.to_numpy())
        in_time = rendered_ns[: np.searchsorted(rendered_ns, span_ns(trace, flow)[1])]
        if in_time.size and (flow not in last or in_time[-1] > last[flow][-1]):
            last[flow] = in_time[-FREEZE_WINDOW:]
    return last
