"""Time series beside the samples of metrics: losses by cause, pictures, sound and estimates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl

from rtclab.metrics.accounts.fates import fates_of
from rtclab.metrics.accounts.losses import CAUSES, lost_packets
from rtclab.metrics.audio import increases_while_promised
from rtclab.metrics.media import frozen_spans
from rtclab.metrics.packets import packets_of, were_recorded
from rtclab.metrics.series import (
    NO_SAMPLES,
    SECOND_NS,
    Array,
    IntegerArray,
    Samples,
    counter,
    flow_seconds,
    from_begin,
    gauge,
    samples_in_window,
    span_ns,
)
from rtclab.trace import NS_PER_S, Trace, rows_by

PERCENT = 100.0
KEPT_FATE = "in_time"


def frame_height(trace: Trace, flow: str) -> Samples:
    """Lines of the pictures that the receiver decoded last, at every report from the first picture on."""
    samples = gauge(trace, "inbound_rtp", flow, "frameHeight")
    return samples.chosen(samples.values > 0)


def concealed_percent(trace: Trace, flow: str) -> Samples:
    """Sound that the receiver made up, in % of what it played between two reports."""
    if flow not in trace.manifest.flows:
        return NO_SAMPLES
    since_s, at_s, made_up = increases_while_promised(trace, flow, "concealedSamples")
    since_played_s, _, played = increases_while_promised(trace, flow, "totalSamplesReceived")
    if since_s.size != since_played_s.size:
        return NO_SAMPLES
    some = played > 0
    shares = PERCENT * made_up[some] / played[some]
    return Samples((since_s[some] + at_s[some]) / 2, shares, at_s[some] - since_s[some])


def frozen_percent(trace: Trace, flow: str) -> Samples:
    """The part of each second in which video was frozen, in %."""
    begin_ns, end_ns = span_ns(trace, flow)
    seconds = np.arange(begin_ns // NS_PER_S, max(-(-end_ns // NS_PER_S), begin_ns // NS_PER_S))
    middles_s: Array = seconds + np.float64(0.5)
    frozen = np.zeros(seconds.size)
    spans = trace.cached(frozen_spans, flow)
    for from_ns, to_ns in () if spans is None else spans.tolist():
        overlap = np.minimum((seconds + 1) * NS_PER_S, to_ns) - np.maximum(seconds * NS_PER_S, from_ns)
        frozen += np.maximum(overlap, 0)
    shares: Array = PERCENT * frozen / NS_PER_S
    return Samples(middles_s, shares)


def lost_percent(trace: Trace, flow: str) -> Samples:
    """Packets that were lost, in % of the packets sent in each second or reported between two reports."""
    if were_recorded(trace):
        seconds, sent = _sent_per_second(trace, flow)
        lost = _per_second(lost_packets(trace, flow).sent_ns, seconds)
        return _share(seconds, lost, sent)
    rows = flow_seconds(trace, flow)
    if rows.height:
        sent, lost = (rows[name].to_numpy() for name in ("sent_packets", "dropped_packets"))
        return samples_in_window(_share(rows["at_ns"].to_numpy() // SECOND_NS, lost, sent), trace.window)
    return reported_lost_percent(trace, flow)


def reported_lost_percent(trace: Trace, flow: str) -> Samples:
    """Packets that the receiver missed between two reports of getStats, in % of those it should have had."""
    received, lost = (
        from_begin(trace, flow, counter(trace, "inbound_rtp", flow, name))
        for name in ("packetsReceived", "packetsLost")
    )
    if received.at_s.size < 2 or received.at_s.size != lost.at_s.size:
        return NO_SAMPLES
    # A packet that comes late is no longer lost, so the counter may fall.
    missed = np.maximum(np.diff(lost.values), 0)
    expected: Array = np.diff(received.values) + missed
    some = expected > 0
    shares: Array = PERCENT * missed[some] / expected[some]
    lasts_s: Array = np.diff(received.at_s)[some]
    return samples_in_window(Samples(received.at_s[1:][some] - lasts_s / 2, shares, lasts_s), trace.window)


def _share(seconds: IntegerArray, part: Array, whole: Array) -> Samples:
    some = whole > 0
    middle_s: Array = seconds[some] + np.float64(0.5)
    return Samples(middle_s, PERCENT * part[some] / whole[some])


def _sent_per_second(trace: Trace, flow: str) -> tuple[IntegerArray, Array]:
    """The seconds from the first to the last packet of a flow, and the packets sent in each."""
    sent_ns = packets_of(trace, flow).sent_ns
    sent_ns = sent_ns[sent_ns >= 0]
    if not sent_ns.size:
        return np.empty(0, np.int64), np.empty(0)
    seconds = np.arange(sent_ns.min() // SECOND_NS, sent_ns.max() // SECOND_NS + 1)
    return seconds, _per_second(sent_ns, seconds)


def _per_second(at_ns: IntegerArray, seconds: IntegerArray) -> Array:
    """How many moments lie in each of some seconds that follow each other."""
    if not seconds.size:
        return np.empty(0)
    index = at_ns // SECOND_NS - seconds[0]
    counts = np.bincount(index[(index >= 0) & (index < seconds.size)], minlength=seconds.size)
    return counts.astype(np.float64)


def losses_by_cause(traces: Sequence[Trace], flow: str) -> tuple[IntegerArray, dict[str, Array]]:
    """Lost packets by cause, in % of all packets sent in each second, over all repeats.

    Returns the seconds, and by cause an array of shape (seconds,). Causes that lost nothing are left out.
    Nothing is known of traces without packets.
    """
    known = [trace for trace in traces if flow in trace.manifest.flows and were_recorded(trace)]
    spans = [(trace, *_sent_per_second(trace, flow)) for trace in known]
    spans = [one for one in spans if one[1].size]
    if not spans:
        return np.empty(0, np.int64), {}
    first, last = min(one[1][0] for one in spans), max(one[1][-1] for one in spans)
    seconds = np.arange(first, last + 1)
    sent = np.zeros(seconds.size)
    found = {cause: np.zeros(seconds.size) for cause in CAUSES}
    for trace, own, of_own in spans:
        sent[own[0] - first : own[-1] - first + 1] += of_own
        lost = lost_packets(trace, flow)
        for cause, total in found.items():
            total += _per_second(lost.sent_ns[lost.cause == cause], seconds)
    shares = {cause: PERCENT * total / np.maximum(sent, 1) for cause, total in found.items() if total.any()}
    return seconds, shares


def unrepaired_percent(trace: Trace, flow: str) -> Samples:
    """Lost packets of video that nothing replaced in time, in % of the packets sent in each second."""
    if flow not in trace.manifest.flows or not were_recorded(trace):
        return NO_SAMPLES
    seconds, sent = _sent_per_second(trace, flow)
    fates = fates_of(trace, flow)
    sent_ns = (
        fates.sent.sent_ns[fates.lost[fates.fate != KEPT_FATE]] if fates.lost.size else np.empty(0, np.int64)
    )
    return samples_in_window(_share(seconds, _per_second(sent_ns, seconds), sent), trace.window)


def estimates(traces: Sequence[Trace], flow: str) -> list[str]:
    """Names in the trace of the rates that the sender's congestion control tells of a flow."""
    names: dict[str, None] = {}
    for trace in traces:
        for name in _controllers(trace).get(flow, {}):
            names.setdefault(name)
    return list(names)


def estimate_kbps(trace: Trace, flow: str, name: str) -> Samples:
    """A rate that the sender's congestion control tells, in kbit/s, at each change."""
    rows = _controllers(trace).get(flow, {}).get(name)
    if rows is None:
        return NO_SAMPLES
    samples = Samples(rows["at_ns"].to_numpy() / NS_PER_S, rows["value"].to_numpy() / 1000)
    return samples_in_window(samples, trace.window)


def _controllers(trace: Trace) -> dict[str, dict[str, pl.DataFrame]]:
    return trace.cached(_rates_of_controllers)


def _rates_of_controllers(trace: Trace) -> dict[str, dict[str, pl.DataFrame]]:
    """By flow and name, the rates in the table of controllers that are finite."""
    rates = pl.col("name").str.ends_with("_bps") & pl.col("value").is_finite()
    rows = trace.table("controller").filter(rates).sort("at_ns", maintain_order=True)
    return {str(flow): dict(rows_by(of, "name")) for flow, of in rows_by(rows, "flow").items()}


def available_kbps(trace: Trace, flow: str) -> Samples:
    """The rate that a browser's congestion control thinks is available for all its streams, in kbit/s."""
    return gauge(trace, "candidate_pair", flow, "availableOutgoingBitrate", 1e-3)
