"""Quantities as measured by other tools, for comparison with published numbers. Reports do not list them.

Packet captures at the receiver count IP bytes. Pages in a browser read getStats once a second.
"""

from __future__ import annotations

from math import nan

import numpy as np
import polars as pl

from rtclab.metrics import Samples, counter, delay, gauge, mean_slope, slopes, wire
from rtclab.trace import KBIT_PER_BYTE, NS_PER_S, Trace

UNCOUNTED_HEADERS_BYTES = 20 + 8 + 10
"""Bytes of a packet that getStats does not count: IPv4 header, UDP header, SRTP tag (RFC 3711, 80 bits)."""
CHANNEL_DATA_BYTES = 4
"""Size of a TURN channel data header (RFC 8656, section 12.4)."""
MINUTE_S = 60
PEAK_WINDOW_S = 10
REACHED = 0.9
"""A rate has reached a level at this share of it."""
SPIKE = 1.5
"""A round-trip time above this multiple of the call's median is a spike."""


def rtp_rate(trace: Trace, flow: str) -> float:
    """Mean rate of received RTP packets in kbit/s, including repair and IP headers."""
    return mean_slope(_rtp_kbit(trace, flow))


def rtp_kbps(trace: Trace, flow: str) -> Samples:
    """Rate of received RTP packets in each second in kbit/s, including repair and IP headers."""
    return slopes(_rtp_kbit(trace, flow))


def _rtp_kbit(trace: Trace, flow: str) -> Samples:
    counted = wire.stats_bytes(trace, "inbound_rtp", flow)
    packets = counter(trace, "inbound_rtp", flow, "packetsReceived")
    around = UNCOUNTED_HEADERS_BYTES + (CHANNEL_DATA_BYTES if _relayed(trace, flow) else 0)
    return Samples(counted.at_s, (counted.values + packets.values * around) * KBIT_PER_BYTE)


def _relayed(trace: Trace, flow: str) -> bool:
    call = trace.manifest.flows[flow].call
    return call is not None and trace.manifest.calls[call].relay is not None


def media_rtt(trace: Trace, flow: str) -> float:
    """Round-trip time of media in ms: mean one-way delays of a flow and of its reverse flow, added."""
    back = way_back(trace, flow)
    return delay.one_way_delay(trace, flow) + delay.one_way_delay(trace, back) if back else nan


def media_rtt_ms(trace: Trace, flow: str) -> Samples:
    """Round-trip time of media in each second in ms."""
    there = delay.one_way_delay_ms(trace, flow)
    back = delay.one_way_delay_ms(trace, way_back(trace, flow))
    at_s, first, second = np.intersect1d(there.at_s, back.at_s, return_indices=True)
    return Samples(at_s, there.values[first] + back.values[second])


def way_back(trace: Trace, flow: str) -> str:
    """The flow of the same call in the reverse direction; empty if there is none."""
    flows = trace.manifest.flows
    wanted = (flows[flow].call, flows[flow].receiver, flows[flow].sender)
    ways = (name for name, of in flows.items() if (of.call, of.sender, of.receiver) == wanted)
    return "" if wanted[0] is None else next(ways, "")


def sent_to_all_kbps(trace: Trace, sender: str) -> Samples:
    """Total sending rate of a participant in each second in kbit/s (IP bytes).

    If it sends to a server, only that leg counts, not the flows that pass through the server.
    """
    flows = {name: trace.manifest.flows[name] for name in trace.flows}
    sent = [name for name, flow in flows.items() if flow.sender == sender]
    own = [name for name in sent if flows[name].receiver not in trace.manifest.participants] or sent
    seconds = trace.table("flow_seconds").filter(pl.col("flow").is_in(own))
    total = seconds.group_by("at_ns").agg(pl.col("sent_bytes").sum()).sort("at_ns")
    at_s = total["at_ns"].to_numpy() / NS_PER_S + 0.5
    return Samples(at_s, total["sent_bytes"].to_numpy() * KBIT_PER_BYTE)


def stats_kbps(trace: Trace, flow: str) -> Samples:
    """Rate of received RTP in kbit/s, with headers and retransmissions, without IP; of TCP the goodput."""
    media, headers = (
        slopes(counter(trace, "inbound_rtp", flow, name)) for name in ("bytesReceived", "headerBytesReceived")
    )
    if media.values.size:
        return Samples(media.at_s, (media.values + headers.values) * KBIT_PER_BYTE)
    transferred = slopes(counter(trace, "tcp", flow, "delivered_bytes"))
    return Samples(transferred.at_s, transferred.values * KBIT_PER_BYTE)


def stats_loss(trace: Trace, flow: str) -> Samples:
    """Packet loss of audio and video in each second in per cent; 0 if no packet was expected."""
    lost, received = (
        slopes(counter(trace, "inbound_rtp", flow, name)) for name in ("packetsLost", "packetsReceived")
    )
    expected = lost.values + received.values
    percent = np.divide(100 * lost.values, expected, out=np.zeros_like(expected), where=expected > 0)
    return Samples(lost.at_s, percent)


def stats_fps(trace: Trace, flow: str) -> Samples:
    """Frame rate of the received video in frames per second, as reported."""
    return gauge(trace, "inbound_rtp", flow, "framesPerSecond")


def frame_widths(trace: Trace, flow: str) -> Samples:
    """Width of the received video in pixels, as reported."""
    return gauge(trace, "inbound_rtp", flow, "frameWidth")


def rtt_sd_ms(trace: Trace, flow: str) -> float:
    """Standard deviation of the reported round-trip times in ms."""
    rtt = delay.rtt_ms(trace, flow).values
    return float(rtt.std()) if rtt.size else nan


def rtt_spike(trace: Trace, flow: str) -> float:
    """Mean height of round-trip-time spikes, as a multiple of the median; NaN if there are none.

    Only the highest spike of every ten seconds counts.
    """
    rtt = delay.rtt_ms(trace, flow)
    median = np.median(rtt.values) if rtt.values.size else 0.0
    if not median:
        return nan
    heights = rtt.values / median
    windows = rtt.at_s // PEAK_WINDOW_S
    peaks = np.array([heights[windows == window].max() for window in np.unique(windows)])
    high = peaks[peaks > SPIKE]
    return float(high.mean()) if high.size else nan


def rise_s(trace: Trace, flow: str, begin_s: int) -> float:
    """Time in s that the rate takes to reach its level in the second half of the minute from ``begin_s`` on.

    The rise starts with the minute, or with the media if these start later.
    """
    rate = stats_kbps(trace, flow)
    if not rate.at_s.size:
        return nan
    return reached_s(trace, flow, begin_s) - max(0.0, float(rate.at_s[0]) - 1 - begin_s)


def reached_s(trace: Trace, flow: str, begin_s: int) -> float:
    """Time in s from ``begin_s`` until the rate reaches its level in the second half of the minute."""
    rate = stats_kbps(trace, flow)
    chosen = (rate.at_s >= begin_s) & (rate.at_s < begin_s + MINUTE_S)
    at_s, values = rate.at_s[chosen], rate.values[chosen]
    later = values[at_s >= begin_s + MINUTE_S / 2]
    if not later.size:
        return nan
    return float(at_s[values >= REACHED * later.mean()][0] - begin_s)
