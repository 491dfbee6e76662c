"""What the viewer gets: frames, their size, and freezes."""

from __future__ import annotations

from rtclab.metrics.registry import metric
from rtclab.metrics.series import Samples, Window, counter, gauge, increase, mean, mean_slope, slopes
from rtclab.trace import Trace


def decoded_fps(trace: Trace, flow: str, window: Window | None = None) -> Samples:
    """Frames decoded between neighbouring reports, per second."""
    return slopes(counter(trace, "inbound_rtp", flow, "framesDecoded"), window)


@metric(unit="frame/s", better="higher", source="W3C webrtc-stats, framesDecoded", samples=decoded_fps)
def frame_rate(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Frames decoded at the receiver per second, from its first to its last report."""
    return mean_slope(counter(trace, "inbound_rtp", flow, "framesDecoded"), window)


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameWidth")
def frame_width(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean width of the received video over the receiver's reports."""
    return mean(gauge(trace, "inbound_rtp", flow, "frameWidth", window).values)


@metric(unit="pixel", better="higher", source="W3C webrtc-stats, frameHeight")
def frame_height(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Mean height of the received video over the receiver's reports."""
    return mean(gauge(trace, "inbound_rtp", flow, "frameHeight", window).values)


@metric(unit="", better="lower", source="W3C webrtc-stats, freezeCount")
def freeze_count(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Freezes: a frame shown for at least max(3 x mean, mean + 150 ms) of the 30 frames before it."""
    return increase(counter(trace, "inbound_rtp", flow, "freezeCount"), window)


@metric(unit="s", better="lower", source="W3C webrtc-stats, totalFreezesDuration")
def freeze_duration(trace: Trace, flow: str, window: Window | None = None) -> float:
    """Time during which the picture stood still: the durations of all freezes together."""
    return increase(counter(trace, "inbound_rtp", flow, "totalFreezesDuration"), window)
