"""What the viewer sees: frame rate, resolution, and times without a new picture."""

from __future__ import annotations

from dataclasses import dataclass
from math import isnan, nan

import numpy as np
import polars as pl

from rtclab.metrics.packets import NEVER
from rtclab.metrics.promises import NO_SPANS, inside_ns, promised, union
from rtclab.metrics.registry import EXACT, OF_REPORTS, UNKNOWN, bounded, metric, sources
from rtclab.metrics.series import (
    NO_SAMPLES,
    Array,
    IntegerArray,
    Samples,
    arrays_by_flow,
    before_end,
    counter,
    from_begin,
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
LONGEST_STILL_NS = NS_PER_S
"""A picture that is older is frozen, however slowly pictures came before."""
NO_MOMENTS: IntegerArray = np.empty(0, np.int64)


@once
def decoded_fps(trace: Trace, flow: str) -> Samples:
    """Frames decoded per second between consecutive reports, of each video stream that packets came on."""
    decoded = until_end(trace, flow, counter(trace, "inbound_rtp", flow, "framesDecoded"))
    return slopes(_per_stream(trace, flow, decoded), trace.window)


def _per_stream(trace: Trace, flow: str, counted: Samples) -> Samples:
    """A counter of all video streams of a flow, as one that grows by their mean.

    A stream counts between two reports if packets of it came. So a stream that ended, or that its sender
    pauses, does not lower the mean of the others.
    """
    packets = trace.cached(_video_packets).get(flow, [])
    if not packets or not counted.at_s.size:
        return counted
    received = [np.interp(counted.at_s, one.at_s, one.values) for one in packets]
    streams = np.sum([np.diff(one) > 0 for one in received], axis=0)
    growth = np.diff(counted.values) / np.maximum(streams, 1)
    return Samples(counted.at_s, np.cumsum(np.append(counted.values[0], growth)))


def _video_packets(trace: Trace) -> dict[str, list[Samples]]:
    """By flow with several video streams, the packets received so far of each of them."""
    rows = trace.table("inbound_rtp").lazy().filter(pl.col("kind") == "video")
    rows = rows.filter(pl.col("ssrc").n_unique().over("flow") > 1).sort("at_ns")
    rows = rows.select("flow", "ssrc", "at_ns", pl.col("packetsReceived").cast(pl.Float64))
    streams: dict[str, list[Samples]] = {}
    for (flow, _), stream in rows_by(rows.collect(), "flow", "ssrc").items():
        counted = stream["packetsReceived"].to_numpy()
        streams.setdefault(str(flow), []).append(Samples(stream["at_ns"].to_numpy() / NS_PER_S, counted))
    return streams


@metric(
    unit="frame/s",
    better="higher",
    source="W3C webrtc-stats, framesDecoded",
    samples=decoded_fps,
    known=OF_REPORTS,
)
def frame_rate(trace: Trace, flow: str) -> float:
    """Frames per second that the receiver decoded of a video stream, from its first report on.

    If a flow has several video streams, as a dump of a conference does, it is their mean and not their sum.
    Between two reports, the streams that packets came on count. If all streams stop before the flow ends, the
    time without frames counts too.
    """
    return decoded_fps(trace, flow).mean()


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameWidth", known=OF_REPORTS)
def frame_width(trace: Trace, flow: str) -> float:
    """Mean width (pixels) of the received video, over the receiver's reports of one per second.

    Reports before the first picture do not count.
    """
    return _size(trace, flow, "frameWidth")


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameHeight", known=OF_REPORTS)
def frame_height(trace: Trace, flow: str) -> float:
    """Mean height (pixels) of the received video, over the receiver's reports of one per second.

    Reports before the first picture do not count.
    """
    return _size(trace, flow, "frameHeight")


def _size(trace: Trace, flow: str, column: str) -> float:
    sizes = gauge(trace, "inbound_rtp", flow, column)
    return sizes.chosen(sizes.values > 0).mean()


_NO_PICTURE = "time without a picture, and W3C webrtc-stats, "


@metric(unit="", better="lower", source=_NO_PICTURE + "freezeCount", total=True, known=OF_REPORTS)
def freeze_count(trace: Trace, flow: str) -> float:
    """Number of times for which the receiver saw no new picture; see freeze_duration.

    A time that is partly in a window counts. No picture at all is one freeze.
    """
    frozen = trace.cached(frozen_spans, flow)
    return nan if frozen is None else float(np.count_nonzero(inside_ns(frozen, span_ns(trace, flow))))


@metric(
    unit="s",
    better="lower",
    source=_NO_PICTURE + "totalFreezesDuration",
    total=True,
    of_time=True,
    known=OF_REPORTS,
)
def freeze_duration(trace: Trace, flow: str) -> float:
    """Time (s) for which the receiver should have seen new pictures and saw none.

    A picture is promised from the end of set-up, when both ends are connected, until the flow ends, except
    while the sender pauses. Promised time counts if no picture appears for more than 1 s, so that a black
    screen and a picture every few seconds are frozen, or if W3C's rule counts it (see freeze_count_w3c). Of a
    freeze that is partly in a window, the part in the window counts. There is no value if no picture is
    promised: the sender sends no video, or the ends never connected.

    In dumps, which have no times of pictures, it is the time between reports in which packets arrived and no
    picture was decoded, and the freezes that the receiver counted.
    """
    frozen = trace.cached(frozen_spans, flow)
    return nan if frozen is None else _seconds_inside(frozen, span_ns(trace, flow))


@metric(unit="", better="lower", source="W3C webrtc-stats, freezeCount", total=True, known=OF_REPORTS)
def freeze_count_w3c(trace: Trace, flow: str) -> float:
    """Number of freezes by the rule of W3C, for comparisons with browsers' counters; see freeze_count.

    A picture freezes if it is shown for at least max(3 x mean, mean + 150 ms), with the mean of the last 30
    intervals between pictures. So a receiver who sees nothing has none. Video that is frozen by this rule
    when the flow ends counts too. In a window, freezes that are partly in it count, and the rule is applied
    to the pictures that were shown. Without them, as in dumps, the receiver's counters tell how many freezes
    ended in the window.
    """
    if trace.window is not None and flow in trace.cached(_shown):
        frozen = trace.cached(_freezes, flow)
        return float(np.count_nonzero(inside_ns(frozen, span_ns(trace, flow))))
    counted = increase(counter(trace, "inbound_rtp", flow, "freezeCount"), trace.window)
    return _plus(counted, float(_open_freeze_s(trace, flow) > 0))


@metric(
    unit="s",
    better="lower",
    source="W3C webrtc-stats, totalFreezesDuration",
    total=True,
    of_time=True,
    known=OF_REPORTS,
)
def freeze_duration_w3c(trace: Trace, flow: str) -> float:
    """Total time (s) of the freezes by the rule of W3C; see freeze_count_w3c.

    A freeze that is still open when the flow ends counts until then. Of a freeze that begins before a window
    or ends after it, the part in the window counts; without pictures, as in dumps, freezes count when they
    end.
    """
    if trace.window is not None and flow in trace.cached(_shown):
        return _seconds_inside(trace.cached(_freezes, flow), span_ns(trace, flow))
    counted = increase(counter(trace, "inbound_rtp", flow, "totalFreezesDuration"), trace.window)
    return _plus(counted, _open_freeze_s(trace, flow))


def is_watched(trace: Trace, flow: str) -> bool:
    """Whether pictures are promised to the flow's receiver for more than 1 s."""
    video = trace.cached(promised, flow, "video")
    return video is not None and inside_ns(video, span_ns(trace, flow)).sum() > LONGEST_STILL_NS


def saw_nothing(trace: Trace, flow: str) -> bool:
    """Whether pictures are promised to the flow's receiver for more than 1 s, and it saw not one."""
    if not is_watched(trace, flow):
        return False
    span = span_ns(trace, flow)
    shown = trace.cached(_shown).get(flow)
    if shown is not None:
        return not ((shown.rendered_ns >= span[0]) & (shown.rendered_ns < span[1])).any()
    return not increase(counter(trace, "inbound_rtp", flow, "framesDecoded"), trace.window) > 0


def jitter_buffer_ms(trace: Trace, flow: str) -> Samples:
    """Mean time in ms for which the frames between two reports waited; their number is the weight."""
    return samples_in_window(trace.cached(_jitter_buffer_ms).get(flow, NO_SAMPLES), trace.window)


@metric(
    unit="ms",
    better="lower",
    source="W3C webrtc-stats, jitterBufferDelay",
    samples=jitter_buffer_ms,
    known=OF_REPORTS,
)
def jitter_buffer_delay(trace: Trace, flow: str) -> float:
    """Mean time (ms) from the first packet of a video frame to the decoder."""
    return jitter_buffer_ms(trace, flow).mean()


def picture_delay_ms(trace: Trace, flow: str) -> Samples:
    """Mean time in ms from capture to display of the frames of each second; their number is the weight."""
    return samples_in_window(trace.cached(_picture_delays_ms, flow), trace.window)


@metric(
    unit="ms",
    better="lower",
    source="W3C requestVideoFrameCallback, expectedDisplayTime; RFC 3550, sender reports",
    samples=picture_delay_ms,
    known=sources(EXACT, bounded("to 10 ms; from Firefox, to half of the ways' difference"), *[UNKNOWN] * 3),
)
def picture_delay(trace: Trace, flow: str) -> float:
    """Mean time (ms) from when the camera took a picture until it was shown, over all frames shown.

    It contains encoding, pacing, the network and the jitter buffer. Pictures that a server composes show
    several cameras: their delay is the mean over the cameras and contains the way to the server, decoding,
    the time until the picture is composed, and encoding. Of a flow to such a server it ends before decoding.
    Live, the delay of composed pictures is not known, and a picture begins when the sender's reports say that
    the camera took it; without an event log of the sender, when the receiving browser supposes it.
    """
    return picture_delay_ms(trace, flow).mean()


def _picture_delays_ms(trace: Trace, flow: str) -> Samples:
    shown = trace.cached(_shown).get(flow)
    if shown is None:
        return NO_SAMPLES
    known = shown.captured_ns != NEVER
    rendered_ns, captured_ns = shown.rendered_ns[known], shown.captured_ns[known]
    if not rendered_ns.size:
        return NO_SAMPLES
    second = rendered_ns // NS_PER_S
    first = second.min()
    delay_ms = (rendered_ns - captured_ns) / NS_PER_MS
    frames = np.bincount(second - first)
    totals_ms = np.bincount(second - first, weights=delay_ms)
    some = np.flatnonzero(frames)
    return Samples(some + first + 0.5, totals_ms[some] / frames[some], frames[some].astype(np.float64))


def _jitter_buffer_ms(trace: Trace) -> dict[str, Samples]:
    columns = ["jitterBufferDelay", "jitterBufferEmittedCount"]
    counters = trace.table("inbound_rtp").lazy().select("flow", "kind", "at_ns", *columns)
    rows = counters.filter(pl.col("kind") == "video").drop_nulls(columns)
    sums = rows.group_by("flow", "at_ns").agg(pl.col(columns).sum()).collect()
    waited, frames = (samples_by(sums.lazy(), "flow", column) for column in columns)
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


def _open_freeze_s(trace: Trace, flow: str) -> float:
    """Time in s, within the window, for which the last frame is frozen at the flow's end; 0 if it is not."""
    shown, end_ns = trace.cached(_shown).get(flow), span_ns(trace.whole, flow)[1]
    # All freezes are longer than the margin, and few flows end with an interval that long.
    if shown is None or end_ns - shown.rendered_ns.max() < FREEZE_MARGIN_S * NS_PER_S:
        return 0.0
    frozen = trace.cached(_freezes, flow)
    if not frozen.size or frozen[-1, 1] < end_ns:
        return 0.0
    return _seconds_inside(frozen[-1:], span_ns(trace, flow))


def _seconds_inside(spans: IntegerArray, span: tuple[int, int]) -> float:
    return float(inside_ns(spans, span).sum() / NS_PER_S)


def frozen_spans(trace: Trace, flow: str) -> IntegerArray | None:
    """Begin and end in ns of the times for which :func:`freeze_duration` counts, in order and apart.

    None if no picture is promised.
    """
    video = trace.cached(promised, flow, "video")
    if video is None:
        return None if trace.manifest.flows[flow].promised is not None else _counted(trace, flow)
    decoded = increase(counter(trace, "inbound_rtp", flow, "framesDecoded"))
    if flow not in trace.cached(_shown) and decoded > 0:
        still, counted = _still_between_reports(trace, flow, video), _counted(trace, flow)
        return union(np.concatenate([still, NO_SPANS if counted is None else counted]), touching=False)
    still = np.concatenate([_without_picture(trace, flow, span) for span in video])
    return union(np.concatenate([still, trace.cached(_freezes, flow)]), touching=False)


def _without_picture(trace: Trace, flow: str, span: IntegerArray) -> IntegerArray:
    """The times within a span for which no picture appeared for too long, of shape (times, 2)."""
    shown = trace.cached(_shown).get(flow)
    shown_ns = NO_MOMENTS if shown is None else np.sort(shown.rendered_ns)
    between = shown_ns[(shown_ns >= span[0]) & (shown_ns < span[1])]
    moments = np.concatenate([span[:1], between, span[1:]])
    still = np.diff(moments) > LONGEST_STILL_NS
    return np.column_stack([moments[:-1][still], moments[1:][still]])


def _freezes(trace: Trace, flow: str) -> IntegerArray:
    """Begin and end in ns of the freezes of a flow by the rule of W3C, in order, of shape (freezes, 2).

    Each promised time is taken for itself, so a pause is not frozen. Freezes of a flow with several streams,
    such as two cameras, follow each other stream by stream. The last interval lasts from the last frame of
    any of them to the end of the promised time.
    """
    shown, video = trace.cached(_shown).get(flow), trace.cached(promised, flow, "video")
    if shown is None:
        return NO_SPANS
    order = np.argsort(shown.rendered_ns, kind="stable")
    shown_ns, ssrc = shown.rendered_ns[order], shown.ssrc[order]
    spans = np.array([span_ns(trace, flow)]) if video is None else video
    found = [NO_SPANS]
    for begin_ns, end_ns in spans.tolist():
        inside = slice(*np.searchsorted(shown_ns, (begin_ns, end_ns)))
        found += _freezes_of_streams(shown_ns[inside], ssrc[inside], end_ns)
    return np.concatenate(found)


def _freezes_of_streams(shown_ns: IntegerArray, ssrc: IntegerArray, end_ns: int) -> list[IntegerArray]:
    """The freezes of each stream, from the times and streams of frames; one of them lasts until the end."""
    streams = [shown_ns[ssrc == one] for one in dict.fromkeys(ssrc.tolist())]
    latest = [np.append(one, end_ns) for one in streams if one[-1] == shown_ns[-1]]
    earlier = [one for one in streams if one[-1] != shown_ns[-1]]
    return [_by_rule(one) for one in (*earlier, *latest[:1])]


@dataclass(frozen=True)
class _Shown:
    """The frames of a flow that were shown before its end; each array has the shape (frames,).

    ``captured_ns`` is ``NEVER`` where it is not known.
    """

    rendered_ns: IntegerArray
    captured_ns: IntegerArray
    ssrc: IntegerArray


def _shown(trace: Trace) -> dict[str, _Shown]:
    """By flow, its frames that were shown, if there are any."""
    captured_ns = pl.col("captured_ns").fill_null(NEVER)
    frames = trace.table("frames").select("flow", "rendered_ns", captured_ns, "ssrc")
    shown = arrays_by_flow(frames.filter(before_end(trace, "rendered_ns")))
    return {flow: _Shown(*columns) for flow, columns in shown.items()}


def _by_rule(moments_ns: IntegerArray) -> IntegerArray:
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


def _still_between_reports(trace: Trace, flow: str, video: IntegerArray) -> IntegerArray:
    """The times between reports in which pictures were promised and none was decoded, of shape (times, 2).

    The picture before such a time, or after it, may be up to one interval between reports away. So a time
    counts if it and one interval together are too long.
    """
    decoded = from_begin(trace, flow, counter(trace, "inbound_rtp", flow, "framesDecoded"))
    at_ns = _ns(decoded.at_s)
    between = np.column_stack([at_ns[:-1], at_ns[1:]])
    none = np.diff(decoded.values) == 0
    still = union(between[none])
    usual_ns = np.median(np.diff(at_ns)) if none.size else 0
    long = still[still[:, 1] - still[:, 0] + usual_ns > LONGEST_STILL_NS]
    pieces = [long.clip(*span) for span in video.tolist()]
    inside = np.concatenate([NO_SPANS, *pieces])
    return inside[inside[:, 0] < inside[:, 1]]


def _counted(trace: Trace, flow: str) -> IntegerArray | None:
    """The freezes that the receiver counted, as if they had ended when they were reported; None without any.

    Freezes between the same two reports follow each other and are equally long.
    """
    lasted, number = (
        counter(trace, "inbound_rtp", flow, name) for name in ("totalFreezesDuration", "freezeCount")
    )
    if not lasted.at_s.size or lasted.at_s.size != number.at_s.size:
        return None
    lasted_ns = _ns(np.diff(lasted.values, prepend=0.0))
    count = np.diff(number.values, prepend=0.0).astype(np.int64).clip(min=0)
    spans = [
        np.linspace(end_ns - length_ns, end_ns, parts + 1).astype(np.int64)
        for end_ns, length_ns, parts in zip(_ns(lasted.at_s), lasted_ns, count, strict=True)
        if parts and length_ns > 0
    ]
    edges = [np.column_stack([moments[:-1], moments[1:]]) for moments in spans]
    return np.concatenate([NO_SPANS, *edges])


def _ns(seconds: Array) -> IntegerArray:
    return np.rint(seconds * NS_PER_S).astype(np.int64)
