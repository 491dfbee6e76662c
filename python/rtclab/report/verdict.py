"""The verdict: one sentence that sums up a run from its metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from rtclab.metrics import rate
from rtclab.metrics.series import NS_PER_S
from rtclab.report.words import flow_in_words
from rtclab.trace import FlowInfo, Run

SECONDS_PER_MINUTE = 60
LEAST_LOSS_PERCENT = 0.05
"""Lower losses are not mentioned; they would read 0.0 %."""


@dataclass(frozen=True)
class Findings:
    """The facts that the verdict is made of.

    Attributes:
        means: mean of each metric, by metric and flow; the flow is "" for the whole run.
        media: flows of media from participant to participant.
        tcp: flows of TCP cross traffic.
        lengths_s: duration of each flow in seconds.
        capacity: capacity of the routes, in words; empty unless all flows have the same constant capacity.
        capacities_differ: whether the routes of the flows have different capacities.
        repeats: number of planned repeats.
        failed: number of repeats in which the call failed.
        unfinished: number of repeats that say nothing about the call: they did not run to their end.
        reason: why the first repeat failed that did.
    """

    means: Mapping[tuple[str, str], float]
    media: Sequence[str] = ()
    tcp: Sequence[str] = ()
    lengths_s: Mapping[str, float] = field(default_factory=dict)
    capacity: str = ""
    capacities_differ: bool = False
    repeats: int = 1
    failed: int = 0
    unfinished: int = 0
    reason: str = ""


def verdict(found: Findings) -> str:
    """The verdict as a sentence: failures first, then rates, delay, loss, freezes and set-up time."""
    if found.failed + found.unfinished == found.repeats:
        return _sentence([f"no repeat finished ({found.reason})" if found.reason else "no repeat finished"])
    parts = [
        f"{found.failed} of {found.repeats} repeats failed" if found.failed else "",
        f"{found.unfinished} of {found.repeats} repeats did not run to their end" if found.unfinished else "",
        _connections(found),
        _rates(found, found.media, _subject(found.media)),
        _loss(found),
        _freezes(found),
        _span("set-up took {}", _seconds, [value / 1000 for value in _values(found, "setup_time")]),
        _tcp(found),
    ]
    return _sentence([part for part in parts if part] or ["nothing was measured"])


def findings(run: Run, means: Mapping[tuple[str, str], float]) -> Findings:
    """The facts about a run; ``means`` has the mean of each metric, by metric and flow."""
    flows = {name: flow for trace in run.traces for name, flow in trace.manifest.flows.items()}
    people = {name for trace in run.traces for name in trace.manifest.participants}
    failed = [repeat for repeat in run.repeats if repeat.status == "failed"]
    reasons = [repeat.reason for repeat in run.repeats if repeat.status in ("failed", "error")]
    media = [name for name, flow in flows.items() if _is_media(name, flow, people, means)]
    tcp = [name for name in flows if ("tcp_throughput", name) in means]
    capacities = _capacities(run, media or tcp)
    return Findings(
        means,
        media,
        tcp,
        {name: (flow.end_ns - flow.begin_ns) / NS_PER_S for name, flow in flows.items()},
        _common_capacity(capacities),
        len(capacities) > 1,
        run.planned,
        len(failed),
        run.unfinished,
        reasons[0].partition("\n")[0] if reasons else "",
    )


def _is_media(name: str, flow: FlowInfo, people: set[str], means: Mapping[tuple[str, str], float]) -> bool:
    """Whether the flow carries media between participants; a leg to or from a server does not count."""
    sends = any((metric, name) in means for metric in ("goodput", "target_bitrate", "frame_rate"))
    return sends and {flow.sender, flow.receiver} <= people and flow.acknowledges is None


def _capacities(run: Run, flows: Sequence[str]) -> set[tuple[float, ...]]:
    """The values in bit/s that the capacity of each flow's route takes; equal routes count once."""
    found = set()
    for flow in flows:
        trace = next(trace for trace in run.traces if flow in trace.manifest.flows)
        _, capacity_bps = rate.route_capacity(trace, flow)
        known = capacity_bps[~np.isnan(capacity_bps)]
        found.add(tuple(dict.fromkeys(known.tolist())))
    return found


def _common_capacity(capacities: set[tuple[float, ...]]) -> str:
    """The capacity in words; empty unless all flows have the same constant capacity."""
    match list(capacities):
        case [(capacity_bps,)]:
            return _rate(capacity_bps / 1000)
    return ""


def _subject(flows: Sequence[str]) -> str:
    match flows:
        case [one]:
            return f"the flow {flow_in_words(one)}"
        case [there, back] if there.split("->")[::-1] == back.split("->"):
            return "both directions"
        case [_, _]:
            return "both flows"
    return f"each of the {len(flows)} flows"


def _rates(found: Findings, flows: Sequence[str], subject: str) -> str:
    """The share of the capacity that was used or, if capacities differ, the rate received; then the delay."""
    received = _values(found, "receiving_rate", flows)
    used = _values(found, "utilisation", flows)
    delay = _span(" with a round-trip time of {}", _ms, _values(found, "rtt", flows))
    delay = delay or _span(" with a one-way delay of {}", _ms, _values(found, "one_way_delay", flows))
    if used and len(used) == len(flows):
        if found.capacities_differ:
            share = _span(" ({} of the route's capacity)", _percent, used)
            return _span(f"{subject} received {{}}{share}{delay}", _rate, received)
        of = f" of {found.capacity}" if found.capacity else " of the capacity"
        return _span(f"{subject} used {{}}{of}{delay}", _percent, used)
    return _span(f"{subject} received {{}}{delay}", _rate, received)


def _connections(found: Findings) -> str:
    failed = found.means.get(("call_failures", ""), 0.0)
    # The metric also counts the calls of failed repeats, which the sentence has already mentioned.
    if failed <= 100 * found.failed / (found.repeats - found.unfinished) + 0.01:
        return ""
    return f"{_percent(failed)} of calls failed"


def _loss(found: Findings) -> str:
    lost = _values(found, "packet_loss")
    if not lost or max(lost) < LEAST_LOSS_PERCENT:
        return ""
    return _span("{} of packets were lost", _percent, lost)


def _freezes(found: Findings) -> str:
    """Duration of video freezes per minute of a flow."""
    frozen = [
        SECONDS_PER_MINUTE * found.means["freeze_duration", flow] / found.lengths_s[flow]
        for flow in found.media
        if ("freeze_duration", flow) in found.means and found.lengths_s.get(flow)
    ]
    if frozen and max(frozen) < 0.05:
        return "no video freezes"
    return _span("video froze for {} per minute", _seconds, frozen)


def _tcp(found: Findings) -> str:
    if not found.tcp:
        return ""
    if not found.media:
        one = len(found.tcp) == 1
        subject = f"the TCP flow {found.tcp[0]}" if one else f"each of the {len(found.tcp)} TCP flows"
        return _rates(found, found.tcp, subject)
    total = sum(_values(found, "receiving_rate", found.tcp))
    return f"TCP cross traffic received {_rate(total)}"


def _values(found: Findings, metric: str, flows: Iterable[str] | None = None) -> list[float]:
    flows = found.media if flows is None else flows
    return [found.means[metric, flow] for flow in flows if (metric, flow) in found.means]


def _span(text: str, in_words: Callable[[float], str], values: Sequence[float]) -> str:
    """The text with the range of the values in place of ``{}``; empty without values."""
    if not values:
        return ""
    low, high = in_words(min(values)), in_words(max(values))
    if low == high:
        return text.format(low)
    number, _, unit = low.partition(" ")
    if float(number) == 0:
        return text.format(f"up to {high}")
    return text.format(f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}")


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def _ms(value: float) -> str:
    return f"{value:.0f} ms"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def _rate(kbps: float) -> str:
    if kbps >= 1000:
        return f"{kbps / 1000:.3g} Mbit/s"
    return f"{kbps:.0f} kbit/s"


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
