"""The quantities of papers by name, and how they are measured in a trace.

Most papers measured at the receiver with a capture tool. Their rates are IP bytes in samples of one second,
and their "±" is the standard deviation of such samples within a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isnan, nan
from statistics import mean

import numpy as np
import polars as pl

from rtclab.backend.together import own_name
from rtclab.metrics import METRICS, delay, rate, wire
from rtclab.metrics.rate import KBIT_PER_BYTE
from rtclab.metrics.series import NS_PER_S, Samples, counter, gauge, mean_slope, slopes
from rtclab.metrics.statistics import mean_within_sd
from rtclab.reproduce import getstats
from rtclab.trace import Trace

Value = tuple[float | None, float | None]
"""Mean over the repeat and standard deviation of its one-second samples; None if it was not measured."""
Values = dict[str, dict[str, Value]]
"""Values of one repeat by name and flow."""

RATE, DELAY, LOSS, OTHER = "rate", "delay", "loss", "other"
"""Kinds of quantities, which are counted apart."""
WINDOW_S = 10
"""Length of the window of a value that is named ``name@begin``."""
MEDIA = "media"
"""Name of a value that every repeat has: 1 for every flow of media, nothing for other flows."""
OVER_USE = "over_use_percent"

_HEADERS_BYTES = 20 + 8 + 10
"""Bytes of a packet that receivers do not count: IPv4, UDP, SRTP's tag (RFC 3711, 80 bits)."""
_CHANNEL_DATA_BYTES = 4
"""Header of TURN channel data: RFC 8656, section 12.4."""


@dataclass(frozen=True)
class Measure:
    """How a quantity of a flow is measured; ``label`` names it at the axis of a figure.

    ``series`` is the quantity over time, and ``value`` its mean over a repeat, which has the deviation of the
    series. Without ``value`` the mean of the series is taken and has no deviation. ``at`` is the value from
    some second on; without ``at`` it is the mean of the series over the next ten seconds. With ``packets``
    every packet must be recorded.
    """

    kind: str = OTHER
    label: str = ""
    value: Callable[[Trace, str], float] | None = None
    series: Callable[[Trace, str], Samples] | None = None
    at: Callable[[Trace, str, int], float] | None = None
    packets: bool = False

    def of(self, trace: Trace, flow: str) -> Value:
        """The value over the repeat, and its deviation."""
        samples = self.series(trace, flow) if self.series else None
        if self.value is None:
            return none_if_nan(samples.mean() if samples else nan), None
        sd = mean_within_sd([samples]) if samples else nan
        return none_if_nan(self.value(trace, flow)), none_if_nan(sd)


def measure(trace: Trace, names: Iterable[str]) -> Values:
    """Values of every flow by name. ``name@20`` is the value from 20 s on; see :class:`Measure`."""
    return {name: {own_name(flow): _value(trace, flow, name) for flow in trace.flows} for name in names}


def _value(trace: Trace, flow: str, name: str) -> Value:
    name, _, begin = name.partition("@")
    wanted = MEASURES[name]
    if not begin:
        return wanted.of(trace, flow)
    if wanted.at is not None:
        return none_if_nan(wanted.at(trace, flow, int(begin))), None
    samples = trace.cached(_series, name, flow)
    chosen = samples.values[(samples.at_s >= int(begin)) & (samples.at_s < int(begin) + WINDOW_S)]
    return float(chosen.mean()) if chosen.size else None, None


def _series(trace: Trace, name: str, flow: str) -> Samples:
    series = MEASURES[name].series
    assert series is not None, f"`{name}` has no series"
    return series(trace, flow)


def none_if_nan(value: float) -> float | None:
    """The value; None where it is NaN, since JSON has no NaN."""
    return None if isnan(value) else value


def _standard(kind: str, label: str, name: str) -> Measure:
    """One of our metrics."""
    metric = METRICS[name]
    return Measure(kind, label, metric.function, metric.samples)


def _media_rate(trace: Trace, flow: str) -> float:
    return mean_slope(_on_wire(trace, flow))


def _media_rates(trace: Trace, flow: str) -> Samples:
    return slopes(_on_wire(trace, flow))


def _on_wire(trace: Trace, flow: str) -> Samples:
    """Kilobits of RTP in IP packets, repair included, as a capture tool counts them."""
    counted = wire.stats_bytes(trace, "inbound_rtp", flow)
    packets = counter(trace, "inbound_rtp", flow, "packetsReceived")
    around = _HEADERS_BYTES + (_CHANNEL_DATA_BYTES if _relayed(trace, flow) else 0)
    return Samples(counted.at_s, (counted.values + packets.values * around) * KBIT_PER_BYTE)


def _relayed(trace: Trace, flow: str) -> bool:
    call = trace.manifest.flows[flow].call
    return call is not None and trace.manifest.calls[call].relay is not None


def _media_rtt(trace: Trace, flow: str) -> float:
    """Round-trip time of media: the sum of the one-way delays of both directions, bursts included."""
    back = _way_back(trace, flow)
    return delay.one_way_delay(trace, flow) + delay.one_way_delay(trace, back) if back else nan


def _media_rtts(trace: Trace, flow: str) -> Samples:
    there = delay.one_way_delay_ms(trace, flow)
    back = delay.one_way_delay_ms(trace, _way_back(trace, flow))
    at_s, first, second = np.intersect1d(there.at_s, back.at_s, return_indices=True)
    return Samples(at_s, there.values[first] + back.values[second])


def _way_back(trace: Trace, flow: str) -> str:
    """The flow of the same call in the other direction; empty if there is none."""
    flows = trace.manifest.flows
    wanted = (flows[flow].call, flows[flow].receiver, flows[flow].sender)
    ways = (name for name, of in flows.items() if (of.call, of.sender, of.receiver) == wanted)
    return "" if wanted[0] is None else next(ways, "")


def _is_media(trace: Trace, flow: str) -> float:
    """1 if the flow is media from participant to participant, whether anything arrived or not.

    The other flows are legs to and from a server, flows of feedback alone, and cross traffic.
    """
    about, people = trace.manifest.flows[flow], trace.manifest.participants
    is_seen = flow in trace.cached(_flows_with_reports)
    return 1.0 if is_seen and about.sender in people and about.receiver in people else nan


def _flows_with_reports(trace: Trace) -> set[str]:
    return {flow for table in ("outbound_rtp", "inbound_rtp") for flow in trace.table(table)["flow"].unique()}


def _sent_to_all(trace: Trace, sender: str) -> Samples:
    """What a participant sends in each second, to a server or else to everybody."""
    flows = {name: trace.manifest.flows[name] for name in trace.flows}
    sent = [name for name, flow in flows.items() if flow.sender == sender]
    own = [name for name in sent if flows[name].receiver not in trace.manifest.participants] or sent
    seconds = trace.table("flow_seconds").filter(pl.col("flow").is_in(own))
    total = seconds.group_by("at_ns").agg(pl.col("sent_bytes").sum()).sort("at_ns")
    at_s = total["at_ns"].to_numpy() / NS_PER_S + 0.5
    return Samples(at_s, total["sent_bytes"].to_numpy() * KBIT_PER_BYTE)


def _fec_share(trace: Trace, flow: str) -> float:
    """FEC as a share of what all send, in per cent: IP bytes of FEC of those of all RTP, repair included.

    Source: the slides of Singh et al., "FEC is ~20% of the average send rate".
    """
    rtp = trace.table("packets").filter(pl.col("flow").is_in(trace.flows), pl.col("protocol") == "rtp")
    fec_bytes = int(rtp.filter(pl.col("kind") == "fec")["size_bytes"].sum())
    return 100 * fec_bytes / (int(rtp["size_bytes"].sum()) or nan)


def _first_call_share(trace: Trace, flow: str) -> float:
    """Receiving rate of the first of several calls from 30 to 90 s, in per cent of the mean of the others.

    Of all calls that have a flow from the flow's sender to its receiver.
    """
    flows, ends = trace.manifest.flows, trace.manifest.flows[flow]
    calls = [
        name
        for name in trace.flows
        if (flows[name].sender, flows[name].receiver) == (ends.sender, ends.receiver)
    ]
    first, *others = (rate.receiving_rate(trace, call, (30.0, 90.0)) for call in calls)
    return 100 * first / (mean(others) or nan) if others else nan


def _over_use(trace: Trace, flow: str) -> float:
    """100 if over-use ever reduced the rate of the flow, else 0, so that the mean over repeats is per cent.

    The decrease factor is in the trace from the first decrease on, so a sample per second misses none but one
    in the last second.
    """
    return 100.0 if flow in trace.cached(_flows_with_over_use) else 0.0


def _flows_with_over_use(trace: Trace) -> set[str]:
    return set(trace.table("controller").filter(pl.col("name") == "alpha")["flow"].unique())


_KBPS, _MS, _PIXELS, _LOST = "Rate (kbit/s)", "RTT (ms)", "Width (pixel)", "Packet loss (%)"

MEASURES = {
    "rate_kbps": _standard(RATE, _KBPS, "receiving_rate"),
    "sent_kbps": _standard(RATE, _KBPS, "sending_rate"),
    "sent_to_all_kbps": Measure(RATE, _KBPS, series=_sent_to_all),
    "media_rate_kbps": Measure(RATE, _KBPS, _media_rate, _media_rates),
    "rtt_ms": _standard(DELAY, _MS, "rtt"),
    "media_rtt_ms": Measure(DELAY, _MS, _media_rtt, _media_rtts),
    "owd_ms": _standard(DELAY, "One-way delay (ms)", "one_way_delay"),
    "packet_loss_pct": _standard(LOSS, _LOST, "packet_loss"),
    "residual_loss_pct": _standard(LOSS, "Residual loss (%)", "residual_loss"),
    # What a capture at the receiver sees: sequence numbers, not what FEC recovered.
    "unseen_loss_pct": _standard(LOSS, "Residual loss (%)", "unseen_loss"),
    "framerate_fps": _standard(OTHER, "Frames per second", "frame_rate"),
    "width_px": Measure(
        OTHER, _PIXELS, series=lambda trace, flow: gauge(trace, "inbound_rtp", flow, "frameWidth")
    ),
    "height_px": _standard(OTHER, "Height (pixel)", "frame_height"),
    "setup_ms": _standard(OTHER, "Set-up time (ms)", "setup_time"),
    # As Jansen et al. measured.
    "stats_rate_kbps": Measure(RATE, _KBPS, series=getstats.rate_kbps),
    "stats_rtt_ms": Measure(DELAY, _MS, series=delay.rtt_ms),
    "stats_loss_pct": Measure(LOSS, _LOST, series=getstats.loss_percent),
    "stats_fps": Measure(OTHER, "Frames per second", series=getstats.frame_rate),
    "rtt_sd_ms": Measure(value=getstats.rtt_sd_ms),
    "rtt_spike": Measure(value=getstats.rtt_spike),
    "rise_s": Measure(at=getstats.rise_s),
    # Of single papers.
    "fec_share": Measure(value=_fec_share, packets=True),
    "first_call_share": Measure(value=_first_call_share),
    OVER_USE: Measure(value=_over_use),
    MEDIA: Measure(value=_is_media),
}
