"""What Jansen et al. measured: getStats once a second, as the published page of their tests computes it."""

from __future__ import annotations

from math import nan

import numpy as np

from rtclab.metrics import delay
from rtclab.metrics.rate import KBIT_PER_BYTE
from rtclab.metrics.series import Samples, counter, gauge, slopes
from rtclab.trace import Trace

MINUTE_S = 60
PEAK_WINDOW_S = 10
REACHED = 0.9
"""A rise ends at this share of the later rate."""
SPIKE = 1.5
"""A round-trip time above this multiple of the call's median is a peak."""


def rate_kbps(trace: Trace, flow: str) -> Samples:
    """Rate of received RTP with headers and retransmissions, without IP; of TCP what iperf counts."""
    media, headers = (
        slopes(counter(trace, "inbound_rtp", flow, name)) for name in ("bytesReceived", "headerBytesReceived")
    )
    if media.values.size:
        return Samples(media.at_s, (media.values + headers.values) * KBIT_PER_BYTE)
    transferred = slopes(counter(trace, "tcp", flow, "delivered_bytes"))
    return Samples(transferred.at_s, transferred.values * KBIT_PER_BYTE)


def loss_percent(trace: Trace, flow: str) -> Samples:
    """Loss in each second, audio and video together. In the mean slow seconds weigh as much as fast ones."""
    lost, received = (
        slopes(counter(trace, "inbound_rtp", flow, name)) for name in ("packetsLost", "packetsReceived")
    )
    expected = lost.values + received.values
    share = np.divide(100 * lost.values, expected, out=np.zeros_like(expected), where=expected > 0)
    return Samples(lost.at_s, share)


def frame_rate(trace: Trace, flow: str) -> Samples:
    """Frames per second of the received video in every report."""
    return gauge(trace, "inbound_rtp", flow, "framesPerSecond")


def rtt_sd_ms(trace: Trace, flow: str) -> float:
    """Standard deviation of the round-trip times of a call."""
    rtt = delay.rtt_ms(trace, flow).values
    return float(rtt.std()) if rtt.size else nan


def rtt_spike(trace: Trace, flow: str) -> float:
    """Mean of the highest peak of every ten seconds, as a multiple of the median; NaN without peaks."""
    rtt = delay.rtt_ms(trace, flow)
    if not rtt.values.size:
        return nan
    heights = rtt.values / np.median(rtt.values)
    windows = rtt.at_s // PEAK_WINDOW_S
    peaks = np.array([heights[windows == window].max() for window in np.unique(windows)])
    high = peaks[peaks > SPIKE]
    return float(high.mean()) if high.size else nan


def rise_s(trace: Trace, flow: str, begin_s: int) -> float:
    """Time from the start of a minute, or of the media, to the rate of the minute's second half."""
    rate = rate_kbps(trace, flow)
    chosen = (rate.at_s >= begin_s) & (rate.at_s < begin_s + MINUTE_S)
    at_s, values = rate.at_s[chosen], rate.values[chosen]
    later = values[at_s >= begin_s + MINUTE_S / 2]
    if not later.size:
        return nan
    reached = at_s[values >= REACHED * later.mean()]
    return float(reached[0] - max(begin_s, rate.at_s[0] - 1))
