"""Measures one repeat: every metric that tables need, of every flow.

The papers measured at the receiver with a capture tool. Their rates are IP bytes in samples of one second,
and their "±" is the standard deviation of such samples within a run.
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
"""Mean over the repeat and standard deviation of its one-second samples; None if it was not measured."""
Values = dict[str, dict[str, Value]]
"""Values by metric and flow; the flow is ``WHOLE_RUN`` for what describes the whole repeat."""
MeasureMore = Callable[[Trace], Mapping[str, Mapping[str, float]]]
"""Measures values that only one paper needs, by name and flow."""

WINDOW_S = 10
"""Length of the window of a value that is named ``name@begin``."""
EVERY_FLOW = "*->*"
"""Pattern of all flows."""

WHOLE_RUN = ""
"""Stands for the flow of a value that describes the whole repeat."""
_HEADERS_BYTES = 20 + 8 + 10
"""Bytes of a packet that receivers do not count: IPv4, UDP, SRTP's tag (RFC 3711, 80 bits)."""
_CHANNEL_DATA_BYTES = 4
"""Header of TURN channel data: RFC 8656, section 12.4."""
MEDIA = "media"
"""Name of a value that is 1 for every flow of media; other flows do not have it."""

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
"""Our metrics by their names in the tables of papers."""


def measure(trace: Trace, measure_more: MeasureMore | None = None) -> Values:
    """The standard values of every flow, and those of ``measure_more``."""
    flows = trace.flows
    values: Values = {
        name: {flow: _value(trace, flow, metric) for flow in flows} for name, metric in STANDARD.items()
    }
    values["media_rate_kbps"] = {flow: _media_rate(trace, flow) for flow in flows}
    values["media_rtt_ms"] = {flow: _both_ways(trace, flow) for flow in flows}
    values[MEDIA] = dict.fromkeys(_media_flows(trace), (1.0, None))
    for name, of_flows in (measure_more(trace) if measure_more else {}).items():
        values[name] = {flow: (none_if_nan(value), None) for flow, value in of_flows.items()}
    return values


def _both_ways(trace: Trace, flow: str) -> Value:
    """Round-trip time of media: the sum of the one-way delays of both directions, bursts included."""
    sender, _, receiver = flow.partition("#")[0].partition("->")
    back = f"{receiver}->{sender}{flow[len(sender) + len(receiver) + 2 :]}"
    if back not in trace.manifest.flows:
        return None, None
    ways = [delay.one_way_delay_ms(trace, name) for name in (flow, back)]
    _, first, second = np.intersect1d(ways[0].at_s, ways[1].at_s, return_indices=True)
    together = Samples(ways[0].at_s[first], ways[0].values[first] + ways[1].values[second])
    mean = delay.one_way_delay(trace, flow) + delay.one_way_delay(trace, back)
    return none_if_nan(mean), none_if_nan(mean_within_sd([together]))


def _media_rate(trace: Trace, flow: str) -> Value:
    """Rate of RTP in IP bytes, repair included, as a capture tool counts it."""
    counted = wire.stats_bytes(trace, "inbound_rtp", flow)
    packets = counter(trace, "inbound_rtp", flow, "packetsReceived")
    around = _HEADERS_BYTES + (_CHANNEL_DATA_BYTES if _relayed(trace, flow) else 0)
    on_wire = Samples(counted.at_s, (counted.values + packets.values * around) * KBIT_PER_BYTE)
    return none_if_nan(mean_slope(on_wire)), none_if_nan(mean_within_sd([slopes(on_wire)]))


def _relayed(trace: Trace, flow: str) -> bool:
    call = trace.manifest.flows[flow].call
    return call is not None and trace.manifest.calls[call].relay is not None


def _media_flows(trace: Trace) -> list[str]:
    """Flows of media from participant to participant, whether anything arrived or not.

    The other flows are legs to and from a server, flows of feedback alone, and cross traffic.
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
    return none_if_nan(metric.function(trace, flow)), none_if_nan(sd)


def none_if_nan(value: float) -> float | None:
    """The value; None where it is NaN, since JSON has no NaN."""
    return None if isnan(value) else value
