"""What the viewer sees: frame rate, resolution and freezes."""

from __future__ import annotations

from math import isnan

import numpy as np
import polars as pl

from rtclab.metrics.registry import EXACT, OF_REPORTS, UNKNOWN, bounded, metric, sources
from rtclab.metrics.series import (
    NO_SAMPLES,
    IntegerArray,
    Samples,
    Window,
    before_end,
    counter,
    gauge,
    increase,
    once,
    samples_by,
    samples_in_window,
    slopes,
    span_ns,
    until_end,
)
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace, rows_by

FREEZE_WINDOW = 30
"""Number of intervals, the latest included, whose mean the latest is compared with (W3C, freezeCount)."""
FREEZE_MIN_INTERVALS = 5
"""With fewer intervals there is no freeze (libwebrtc, video/video_quality_observer2.cc)."""
FREEZE_MARGIN_S = 0.150


@once
def decoded_fps(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Frames decoded per second between consecutive reports."""
    decoded = counter(trace, "inbound_rtp", flow, "framesDecoded")
    return slopes(until_end(trace, flow, decoded), window)


@metric(
    unit="frame/s",
    better="higher",
    source="W3C webrtc-stats, framesDecoded",
    samples=decoded_fps,
    known=OF_REPORTS,
)
def frame_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Frames per second that the receiver decoded, from its first report on.

    If the stream stops before the flow ends, the time without frames counts too.
    """
    return decoded_fps(trace, flow, window).mean()


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameWidth", known=OF_REPORTS)
def frame_width(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean width (pixels) of the received video, over the receiver's reports of one per second."""
    return gauge(trace, "inbound_rtp", flow, "frameWidth", window).mean()


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameHeight", known=OF_REPORTS)
def frame_height(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean height (pixels) of the received video, over the receiver's reports of one per second."""
    return gauge(trace, "inbound_rtp", flow, "frameHeight", window).mean()


@metric(unit="", better="lower", source="W3C webrtc-stats, freezeCount", total=True, known=OF_REPORTS)
def freeze_count(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Number of video freezes while the flow was active; in a window, of those that are partly in it.

    A frame freezes if it is shown for at least max(3 x mean, mean + 150 ms), with the mean of the last 30
    frame intervals. Video that is frozen by this rule when the flow ends counts too. In a window the rule
    is applied to the frames that were shown. Without them, as in dumps, the receiver's counters tell how many
    freezes ended in the window.
    """
    if window is not None and flow in trace.cached(_shown):
        frozen = trace.cached(_freezes, flow)
        return float(np.count_nonzero(_inside_ns(frozen, span_ns(trace, flow, window))))
    counted = increase(counter(trace, "inbound_rtp", flow, "freezeCount"), window)
    return _plus(counted, float(_open_freeze_s(trace, flow, window) > 0))


@metric(
    unit="s", better="lower", source="W3C webrtc-stats, totalFreezesDuration", total=True, known=OF_REPORTS
)
def freeze_duration(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Total time (s) for which video was frozen: the sum over all freezes (see freeze_count).

    A freeze that is still open when the flow ends counts until then. Of a freeze that begins before a window
    or ends after it, the part in the window counts; without frames, as in dumps, freezes count when they end.
    """
    if window is not None and flow in trace.cached(_shown):
        frozen = trace.cached(_freezes, flow)
        return float(_inside_ns(frozen, span_ns(trace, flow, window)).sum() / NS_PER_S)
    counted = increase(counter(trace, "inbound_rtp", flow, "totalFreezesDuration"), window)
    return _plus(counted, _open_freeze_s(trace, flow, window))


def jitter_buffer_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Mean time in ms for which the frames between two reports waited; their number is the weight."""
    samples = trace.cached(_jitter_buffer_ms).get(flow, NO_SAMPLES)
    if window is None:
        return samples
    from_s, to_s = window
    return samples.chosen((samples.at_s >= from_s) & (samples.at_s < to_s))


@metric(
    unit="ms",
    better="lower",
    source="W3C webrtc-stats, jitterBufferDelay",
    samples=jitter_buffer_ms,
    known=OF_REPORTS,
)
def jitter_buffer_delay(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean time (ms) from the first packet of a video frame to the decoder."""
    return jitter_buffer_ms(trace, flow, window).mean()


def picture_delay_ms(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Mean time in ms from capture to display of the frames of each second; their number is the weight."""
    return samples_in_window(trace.cached(_picture_delays_ms, flow), window)


@metric(
    unit="ms",
    better="lower",
    source="W3C requestVideoFrameCallback, captureTime and presentationTime",
    samples=picture_delay_ms,
    known=sources(
        EXACT, bounded("with the capture time that the browser estimates"), UNKNOWN, UNKNOWN, UNKNOWN
    ),
)
def picture_delay(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean time (ms) from when the camera took a picture until it was shown, over all frames shown.

    It contains encoding, pacing, the network and the jitter buffer. Pictures that a server composes show
    several cameras: their delay is the mean over the cameras and contains the way to the server, decoding,
    the time until the picture is composed, and encoding. Of a flow to such a server it ends before decoding.
    Live, the delay of composed pictures is not known.
    """
    return picture_delay_ms(trace, flow, window).mean()


def _picture_delays_ms(trace: Trace, flow: str) -> Samples:
    shown = trace.cached(_shown).get(flow)
    if shown is None:
        return NO_SAMPLES
    rendered_ns, captured_ns = shown["rendered_ns"], shown["captured_ns"]
    if captured_ns.has_nulls():
        known = captured_ns.is_not_null()
        rendered_ns, captured_ns = rendered_ns.filter(known), captured_ns.filter(known)
    if rendered_ns.is_empty():
        return NO_SAMPLES
    second = rendered_ns.to_numpy() // NS_PER_S
    first = second.min()
    delay_ms = (rendered_ns.to_numpy() - captured_ns.to_numpy()) / NS_PER_MS
    frames = np.bincount(second - first)
    totals_ms = np.bincount(second - first, weights=delay_ms)
    some = np.flatnonzero(frames)
    return Samples(some + first + 0.5, totals_ms[some] / frames[some], frames[some].astype(np.float64))


def _jitter_buffer_ms(trace: Trace) -> dict[str, Samples]:
    columns = ["jitterBufferDelay", "jitterBufferEmittedCount"]
    counters = trace.table("inbound_rtp").select("flow", "kind", "at_ns", *columns)
    rows = counters.filter(pl.col("kind") == "video").drop_nulls(columns)
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
    shown, end_ns = trace.cached(_shown).get(flow), span_ns(trace, flow)[1]
    # All freezes are longer than the margin, and few flows end with an interval that long.
    if shown is None or end_ns - shown["rendered_ns"].to_numpy().max() < FREEZE_MARGIN_S * NS_PER_S:
        return 0.0
    frozen = trace.cached(_freezes, flow)
    if not frozen.size or frozen[-1, 1] < end_ns:
        return 0.0
    return float(_inside_ns(frozen[-1:], span_ns(trace, flow, window)).sum() / NS_PER_S)


def _inside_ns(frozen: IntegerArray, span: tuple[int, int]) -> IntegerArray:
    """For each freeze, its time within a span in ns."""
    begin_ns, end_ns = span
    inside_ns: IntegerArray = np.minimum(frozen[:, 1], end_ns) - np.maximum(frozen[:, 0], begin_ns)
    return inside_ns.clip(min=0)


def _freezes(trace: Trace, flow: str) -> IntegerArray:
    """Begin and end in ns of the freezes of a flow, in order, of shape (freezes, 2).

    Those of a flow with several streams, such as two cameras, follow each other stream by stream. The last
    interval lasts from the last frame of any of them to the end of the flow.
    """
    shown = trace.cached(_shown)[flow].sort("rendered_ns")
    shown_ns, ssrc = (shown[column].to_numpy() for column in ("rendered_ns", "ssrc"))
    streams = [shown_ns[ssrc == one] for one in dict.fromkeys(ssrc.tolist())]
    latest = [np.append(one, span_ns(trace, flow)[1]) for one in streams if one[-1] == shown_ns[-1]]
    earlier = [one for one in streams if one[-1] != shown_ns[-1]]
    return np.concatenate([_frozen(one) for one in (*earlier, *latest[:1])])


def _shown(trace: Trace) -> dict[str, pl.DataFrame]:
    """By flow, its frames that were shown before its end."""
    frames = trace.table("frames").select("flow", "ssrc", "captured_ns", "rendered_ns")
    return rows_by(frames.filter(before_end(trace, "rendered_ns")), "flow")


def _frozen(moments_ns: IntegerArray) -> IntegerArray:
    """The freezes between moments at which frames were shown, of shape (freezes, 2)."""
    intervals_s = np.diff(moments_ns) / NS_PER_S
    elapsed_s = np.append(0.0, np.cumsum(intervals_s))
    number = np.arange(1, intervals_s.size + 1)
    first = np.maximum(number - FREEZE_WINDOW, 0)
    mean_s = (elapsed_s[number] - elapsed_s[first]) / (number - first)
    frozen = (number >= FREEZE_MIN_INTERVALS) & (
        intervals_s >= np.maximum(3 * mean_s, mean_s + FREEZE_MARGIN_S)
    )
    return np.column_stack([moments_ns[:-1][frozen], moments_ns[1:][frozen]])
