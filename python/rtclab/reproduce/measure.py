"""What is kept of one repeat: every metric that tables ask for, of every flow.

The papers measured at the receiver with a capture tool: IP total length of what arrived, in samples of one
second; their "±" is the standard deviation of such samples within a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan, nan

import numpy as np

from rtclab.metrics import METRICS, delay, wire
from rtclab.metrics.rate import KBIT_PER_BYTE
from rtclab.metrics.series import Samples, counter, mean_slope, slopes
from rtclab.metrics.statistics import mean_within_sd
from rtclab.trace import Trace

Value = tuple[float | None, float | None]
"""Mean over the repeat and standard deviation of its one-second samples; null where there is none."""
Values = dict[str, dict[str, Value]]
"""By metric and flow; what describes the whole repeat has an empty one."""
More = Callable[[Trace], Mapping[str, Mapping[str, float]]]
"""Values of a trace that only one paper needs, by name and flow."""

WHOLE_RUN = ""
"""In the place of a flow for what describes the whole repeat."""
_HEADERS_BYTES = 20 + 8 + 10
"""Around what receivers count of a packet: IPv4, UDP, SRTP's tag (RFC 3711, 80 bits)."""
_CHANNEL_DATA_BYTES = 4
"""RFC 8656, section 12.4."""
MEDIA = "media"
"""Under this name: 1 for every flow of media; the other flows have none."""

STANDARD = {
    "rate_kbps": "receiving_rate",
    "rtt_ms": "rtt",
    "owd_ms": "one_way_delay",
    "packet_loss_pct": "packet_loss",
    "residual_loss_pct": "residual_loss",
    # What a capture at the receiver sees: sequence numbers, not what FEC recovered.
    "unseen_loss_pct": "unseen_loss",
    "framerate_fps": "frame_rate",
    "width_px": "frame_width",
    "height_px": "frame_height",
    "setup_ms": "setup_time",
}
"""Names in tables of papers, and the metrics that they are."""


def measure(trace: Trace, more: More | None = None) -> Values:
    """The standard values of every flow, and those of ``more``."""
    flows = trace.flows
    values: Values = {
        name: {flow: _value(trace, flow, metric) for flow in flows} for name, metric in STANDARD.items()
    }
    values["media_rate_kbps"] = {flow: _media_rate(trace, flow) for flow in flows}
    values["media_rtt_ms"] = {flow: _both_ways(trace, flow) for flow in flows}
    values[MEDIA] = dict.fromkeys(_media_flows(trace), (1.0, None))
    for name, of_flows in (more(trace) if more else {}).items():
        values[name] = {flow: (_null(value), None) for flow, value in of_flows.items()}
    return values


def _both_ways(trace: Trace, flow: str) -> Value:
    """Round trip of media: one-way delays of both directions together, bursts of packets in them."""
    sender, _, receiver = flow.partition("#")[0].partition("->")
    back = f"{receiver}->{sender}{flow[len(sender) + len(receiver) + 2 :]}"
    if back not in trace.manifest.flows:
        return None, None
    ways = [delay.one_way_delay_ms(trace, name) for name in (flow, back)]
    _, first, second = np.intersect1d(ways[0].at_s, ways[1].at_s, return_indices=True)
    together = Samples(ways[0].at_s[first], ways[0].values[first] + ways[1].values[second])
    mean = delay.one_way_delay(trace, flow) + delay.one_way_delay(trace, back)
    return _null(mean), _null(mean_within_sd([together]))


def _media_rate(trace: Trace, flow: str) -> Value:
    """Rate in IP bytes of what carries RTP, repair with it, as a capture tool that looks for RTP counts."""
    counted = wire.stats_bytes(trace, "inbound_rtp", flow)
    packets = counter(trace, "inbound_rtp", flow, "packetsReceived")
    around = _HEADERS_BYTES + (_CHANNEL_DATA_BYTES if _relayed(trace, flow) else 0)
    on_wire = Samples(counted.at_s, (counted.values + packets.values * around) * KBIT_PER_BYTE)
    return _null(mean_slope(on_wire)), _null(mean_within_sd([slopes(on_wire)]))


def _relayed(trace: Trace, flow: str) -> bool:
    call = trace.manifest.flows[flow].call
    return call is not None and trace.manifest.calls[call].relay is not None


def _media_flows(trace: Trace) -> list[str]:
    """Flows of media from participant to participant, sent or expected; the others are the legs to and from
    a server, feedback alone, and cross traffic.
    """
    seen = {flow for table in ("outbound_rtp", "inbound_rtp") for flow in trace.table(table)["flow"].unique()}
    people = trace.manifest.participants
    return [
        name
        for name, flow in trace.manifest.flows.items()
        if name in seen and flow.sender in people and flow.receiver in people
    ]


def _value(trace: Trace, flow: str, name: str) -> Value:
    metric = METRICS[name]
    sd = mean_within_sd([metric.samples(trace, flow)]) if metric.samples else nan
    return _null(metric.function(trace, flow)), _null(sd)


def _null(value: float) -> float | None:
    return None if isnan(value) else value
