"""What Jansen et al. measured: getStats once a second, as the published page of their tests computes it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from rtclab.metrics.rate import KBIT_PER_BYTE
from rtclab.metrics.series import Samples, counter, gauge, slopes
from rtclab.reproduce.measure import WINDOW_S
from rtclab.trace import Trace

MINUTE_S = 60
REACHED = 0.9
"""Share of the later rate at which a rise ends."""


SPIKE = 1.5
"""Multiple of a call's median round-trip time above which there is a peak."""


def measure(trace: Trace) -> Mapping[str, Mapping[str, float]]:
    """Values by name and flow: averages of the whole call, means of windows, and how long rises take.

    Windows are named by quantity and begin: ``kbps@60`` is the mean rate from 60 s to 70 s.
    """
    values: dict[str, dict[str, float]] = {}
    for flow in trace.flows:
        for name, value in _of_flow(trace, flow).items():
            values.setdefault(name, {})[flow] = value
    return values


def _of_flow(trace: Trace, flow: str) -> dict[str, float]:
    rate = rate_kbps(trace, flow)
    series = {
        "kbps": rate,
        "rtt": gauge(trace, "remote_inbound_rtp", flow, "roundTripTime", scale=1e3),
        "fps": gauge(trace, "inbound_rtp", flow, "framesPerSecond"),
        "width": gauge(trace, "inbound_rtp", flow, "frameWidth"),
    }
    values = {
        f"{name}@{begin_s}": mean
        for name, samples in series.items()
        for begin_s, mean in _windows(samples).items()
    }
    averages = {
        "rate_kbps": rate.values,
        "rtt_ms": series["rtt"].values,
        "packet_loss_pct": loss_percent(trace, flow),
    }
    values |= {name: float(of.mean()) for name, of in averages.items() if of.size}
    if series["rtt"].values.size:
        values["rtt_sd_ms"] = float(series["rtt"].values.std())
        values |= _spikes(series["rtt"])
    return values | {f"rise_s@{begin_s}": rise_s for begin_s, rise_s in _rises_s(rate).items()}


def rate_kbps(trace: Trace, flow: str) -> Samples:
    """Rate of received RTP with headers and retransmissions, without IP; of TCP what iperf counts."""
    received = [
        counter(trace, "inbound_rtp", flow, name) for name in ("bytesReceived", "headerBytesReceived")
    ]
    media, headers = (slopes(total) for total in received)
    if media.values.size:
        return Samples(media.at_s, (media.values + headers.values) * KBIT_PER_BYTE)
    transferred = slopes(counter(trace, "tcp", flow, "delivered_bytes"))
    return Samples(transferred.at_s, transferred.values * KBIT_PER_BYTE)


def loss_percent(trace: Trace, flow: str) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Loss in each second, audio and video together. In the mean slow seconds weigh as much as fast ones."""
    lost, received = (
        slopes(counter(trace, "inbound_rtp", flow, name)) for name in ("packetsLost", "packetsReceived")
    )
    expected = lost.values + received.values
    return np.divide(100 * lost.values, expected, out=np.zeros_like(expected), where=expected > 0)


def _spikes(rtt: Samples) -> dict[str, float]:
    """Mean of the highest peak of each window, as a multiple of the median; empty without peaks."""
    heights = rtt.values / np.median(rtt.values)
    windows = rtt.at_s // WINDOW_S
    peaks = np.array([heights[windows == window].max() for window in np.unique(windows)])
    high = peaks[peaks > SPIKE]
    return {"rtt_spike": float(high.mean())} if high.size else {}


def _windows(samples: Samples) -> dict[int, float]:
    begins = (samples.at_s // WINDOW_S).astype(int) * WINDOW_S
    return {int(begin_s): float(samples.values[begins == begin_s].mean()) for begin_s in np.unique(begins)}


def _rises_s(rate: Samples) -> dict[int, float]:
    """Time from the begin of each minute, or of the media, until the rate of its second half is reached."""
    rises = {}
    for begin_s in range(0, int(rate.at_s[-1]) if rate.at_s.size else 0, MINUTE_S):
        chosen = (rate.at_s >= begin_s) & (rate.at_s < begin_s + MINUTE_S)
        at_s, values = rate.at_s[chosen], rate.values[chosen]
        later = values[at_s >= begin_s + MINUTE_S / 2]
        if later.size:
            reached = at_s[values >= REACHED * later.mean()]
            rises[begin_s] = float(reached[0] - max(begin_s, rate.at_s[0] - 1))
    return rises
