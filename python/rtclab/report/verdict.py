"""The verdict: one sentence that sums up a run from its metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from statistics import fmean

import numpy as np

from rtclab.metrics import media_flows, rate
from rtclab.metrics.media import is_watched, saw_nothing
from rtclab.metrics.promises import never_connected
from rtclab.metrics.series import span_ns
from rtclab.phrases import names_in_words
from rtclab.report.shown_flows import flows_in, main_flows
from rtclab.report.why import LATE_MS
from rtclab.report.words import brief, flow_in_words
from rtclab.trace import Run

LEAST_LOSS_PERCENT = 0.05
"""Lower losses are not mentioned; they would read 0.0 %."""
LEAST_REPEATED_PERCENT = 20.0
"""Smaller shares of retransmissions are not mentioned: repair of one loss in ten takes about half as much."""
LEAST_LIMITED_PERCENT = 5.0
"""Processors that limit video for a smaller share of the time are not mentioned."""
LEAST_FREEZE_S = 0.05
"""Shorter freezes, in s per minute, are not mentioned; they would read 0.0 s."""
MUCH = 1.5
"""Values differ much, and are given with the names of their flows, if one is this many times another."""
MOST_RECEIVERS = 4
"""Maximum number of receivers named in the sentence."""
LEAST_PICTURES = 1.0
"""Who sees fewer pictures a second sees no video, whatever is frozen."""
TOGETHER_NS = 1_000_000_000
"""Flows whose beginnings and ends differ by less ran at the same time."""

RATES = {
    "receiving_rate": "received {}",
    "stats_receiving_rate": "received {} of RTP",
    "stats_sending_rate": "sent {} of RTP",
}
"""The rates that a flow may have, the best first: logs and dumps lack what only a network or one end sees."""


@dataclass(frozen=True)
class Findings:
    """The facts that the verdict is made of.

    Attributes:
        means: mean of each metric, by metric and flow; the flow is "" for the whole run. Totals are per
            minute.
        media: flows of media from participant to participant.
        tcp: flows of TCP cross traffic.
        others: all other flows that readers care about.
        receivers: the receiver of each flow.
        senders: the sender of each flow.
        capacity: capacity of the routes, in words; empty unless all flows have the same constant capacity.
        capacities_differ: whether the routes of the flows have different capacities.
        tcp_together: whether all TCP flows ran at the same time, so that their rates may be added.
        repeats: number of planned repeats.
        failed: number of repeats in which the call failed.
        unfinished: number of repeats that say nothing about the call: they did not run to their end.
        reason: why the first repeat failed that did.
        watched: flows in which pictures are promised for long enough to miss them.
        unseen: by flow, the number of repeats in which a picture was promised and none was seen.
        apart: by flow, the number of repeats in which its ends should have connected and never did.
    """

    means: Mapping[tuple[str, str], float]
    _: KW_ONLY
    media: Sequence[str] = ()
    tcp: Sequence[str] = ()
    others: Sequence[str] = ()
    receivers: Mapping[str, str] = field(default_factory=dict)
    senders: Mapping[str, str] = field(default_factory=dict)
    capacity: str = ""
    capacities_differ: bool = False
    tcp_together: bool = True
    repeats: int = 1
    failed: int = 0
    unfinished: int = 0
    reason: str = ""
    watched: Set[str] = frozenset()
    unseen: Mapping[str, int] = field(default_factory=dict)
    apart: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def silent(self) -> Mapping[str, int]:
        """By flow, the number of repeats in which nothing was seen: without a connection, or a picture."""
        flows = dict.fromkeys([*self.apart, *self.unseen])
        return {flow: max(self.apart.get(flow, 0), self.unseen.get(flow, 0)) for flow in flows}

    def only(self, flows: Collection[str]) -> Findings:
        """The facts about some of the flows."""
        media, tcp, others = (
            [flow for flow in kept if flow in flows] for kept in (self.media, self.tcp, self.others)
        )
        unseen, apart = (
            {flow: count for flow, count in counts.items() if flow in flows}
            for counts in (self.unseen, self.apart)
        )
        watched = self.watched & {*flows}
        return replace(self, media=media, tcp=tcp, others=others, watched=watched, unseen=unseen, apart=apart)


def verdict(found: Findings) -> str:
    """The verdict as a sentence: failures first, then who saw nobody, rates, delay, late pictures, loss and
    its repair, slow processors, freezes, set-up."""
    if found.failed + found.unfinished == found.repeats:
        return _sentence([f"no repeat finished ({found.reason})" if found.reason else "no repeat finished"])
    media = found.media or (() if found.tcp else found.others)
    parts = [
        f"{found.failed} of {found.repeats} repeats failed" if found.failed else "",
        f"{found.unfinished} of {found.repeats} repeats did not run to their end" if found.unfinished else "",
        _connections(found),
        *_unseen(found),
        *_rates(found, media),
        _delays(found, media),
        _lateness(found),
        _loss(found),
        _repeated(found),
        _processors(found),
        _freezes(found),
        _span("set-up took {}", _seconds, _values(found, "setup_time", media, 1 / 1000), named=False),
        *_tcp(found),
    ]
    return _sentence([part for part in parts if part] or ["nothing was measured"])


def findings(run: Run, means: Mapping[tuple[str, str], float]) -> Findings:
    """The facts about a run.

    ``means`` has the mean of each metric, by metric and flow, with totals per minute.
    """
    flows = flows_in(run)
    people = {name for trace in run.traces for name in trace.manifest.participants}
    failed = [repeat for repeat in run.repeats if repeat.status == "failed"]
    reasons = [repeat.reason for repeat in run.repeats if repeat.status in ("failed", "error")]
    tcp = [name for name in flows if ("tcp_throughput", name) in means]
    # A leg to or from a server is not between participants.
    between = [
        name for name in main_flows(run) if {flows[name].sender, flows[name].receiver} <= people
    ] or main_flows(run)
    carrying = {name for trace in run.traces for name in media_flows(trace)}
    media = [name for name in between if name in carrying]
    others = [name for name in between if name not in (*media, *tcp)]
    capacities = _capacities(run, media or tcp or others)
    return Findings(
        means,
        media=media,
        tcp=tcp,
        others=others,
        receivers={name: flow.receiver for name, flow in flows.items()},
        senders={name: flow.sender for name, flow in flows.items()},
        capacity=_common_capacity(capacities),
        capacities_differ=len(capacities) > 1,
        tcp_together=_together(run, tcp),
        repeats=run.planned,
        failed=len(failed),
        unfinished=run.unfinished,
        reason=reasons[0].partition("\n")[0] if reasons else "",
        watched={flow for trace in run.traces for flow in media if is_watched(trace, flow)},
        unseen=Counter(flow for trace in run.traces for flow in media if saw_nothing(trace, flow)),
        apart=Counter(flow for trace in run.traces for flow in between if never_connected(trace, flow)),
    )


def _together(run: Run, flows: Sequence[str]) -> bool:
    """Whether the flows ran at the same time in every repeat, as far as it lies in the window."""
    for trace in run.traces:
        spans = [span_ns(trace, flow) for flow in flows if flow in trace.manifest.flows]
        for moments in zip(*spans, strict=True):
            if max(moments) - min(moments) > TOGETHER_NS:
                return False
    return True


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
            return rate_in_words(capacity_bps / 1000)
    return ""


def _subject(flows: Sequence[str], kind: str = "flow") -> str:
    match flows:
        case [one]:
            return f"the {kind} {flow_in_words(one)}"
        case [there, back] if there.split("->")[::-1] == back.split("->"):
            return "both directions"
        case [_, _]:
            return f"both {kind}s"
    return f"each of the {len(flows)} {kind}s"


def _rates(found: Findings, flows: Sequence[str], kind: str = "flow") -> list[str]:
    """The share of the capacity that was used or, if capacities differ, the rates; then the delay.

    Flows with a rate of another kind have a part of their own.
    """
    media = kind == "flow"
    rtt, one_way = (_values(found, metric, flows) for metric in ("rtt", "one_way_delay"))
    delay = _span(" with a round-trip time of {}", _ms, rtt, named=False)
    if not delay and not (media and _delays(found, flows)):
        delay = _span(" with a one-way delay of {}", _ms, one_way, named=len(one_way) <= 2)
    parts, left = [], list(flows)
    for metric, verb in RATES.items():
        rates = _values(found, metric, left)
        left = [flow for flow in left if flow not in rates]
        if not rates:
            continue
        subject = _subject(list(rates), kind)
        used = _values(found, "utilisation", rates)
        if uneven := _uneven_rates(found, rates) if media and metric == "receiving_rate" else "":
            part = uneven
        elif len(used) < len(rates):
            part = _span(f"{subject} {verb}", rate_in_words, rates)
        elif found.capacities_differ:
            part = _span(f"{subject} {verb}", rate_in_words, rates)
            # The flows of a meeting share their links.
            part += _span(", {} of the route's capacity", _percent, used) if len(rates) <= 2 else ""
        else:
            of = f" of {found.capacity}" if found.capacity else " of the capacity"
            part = _span(f"{subject} used {{}}{of}", _percent, used)
        parts.append(part + ("," if delay and "," in part else "") + delay)
        delay = ""
    return parts


def _delays(found: Findings, flows: Sequence[str]) -> str:
    """The one-way delays to or from those whose packets take much longer than all others."""
    delays = _values(found, "one_way_delay", flows)
    for way, ends in (("to", found.receivers), ("from", found.senders)):
        if split := _split(delays, ends, _ms, high_is_bad=True):
            who, theirs, others = split
            return f"packets {way} {who} take {theirs}, {way} the others {others}"
    return ""


def _uneven_rates(found: Findings, rates: Mapping[str, float]) -> str:
    """Who receives, or is received, at much lower rates than all others; empty if nobody is."""
    for verb, verb_of_many, at, ends in (
        ("receives", "receive", "", found.receivers),
        ("is received", "are received", "at ", found.senders),
    ):
        if split := _split(rates, ends, rate_in_words, high_is_bad=False):
            who, theirs, others = split
            return f"{who} {verb_of_many if ' and ' in who else verb} {at}{theirs}, the others {at}{others}"
    return ""


def _split(
    values: Mapping[str, float],
    ends: Mapping[str, str],
    in_words: Callable[[float], str],
    *,
    high_is_bad: bool,
) -> tuple[str, str, str] | None:
    """The participants whose flows all have worse values than all other flows, and much worse on average.

    With them come their values and those of all others, in words. ``ends`` has the participant of each flow.
    None if nobody stands out. Of several ways to divide the participants, the one with the widest gap counts.
    """
    if len(values) <= 2 or min(values.values()) <= 0:
        return None
    of_end: dict[str, dict[str, float]] = {}
    for flow, value in values.items():
        of_end.setdefault(ends[flow], {})[flow] = value
    ranked = sorted(of_end, key=lambda name: fmean(of_end[name].values()), reverse=high_is_bad)
    widest, found = 1.0, None
    for count in range(1, len(ranked)):
        theirs, others = (
            {flow: value for name in names for flow, value in of_end[name].items()}
            for names in (ranked[:count], ranked[count:])
        )
        low, high = (others, theirs) if high_is_bad else (theirs, others)
        gap = min(high.values()) / max(low.values())
        if gap > widest and fmean(high.values()) > MUCH * fmean(low.values()):
            widest = gap
            who = [name for name in of_end if name in ranked[:count]]
            bad, good = (_span("{}", in_words, own, named=False) for own in (theirs, others))
            found = names_in_words(who, MOST_RECEIVERS), bad, good
    return found


def _connections(found: Findings) -> str:
    failed = found.means.get(("call_failures", ""), 0.0)
    # The metric also counts the calls of failed repeats, which the sentence has already mentioned.
    if failed <= 100 * found.failed / (found.repeats - found.unfinished) + 0.01:
        return ""
    return f"{_percent(failed)} of calls failed"


def _unseen(found: Findings) -> list[str]:
    """Who never connected to whom, who saw no picture of whom, and who saw fewer than one a second."""
    repeats = found.repeats - found.failed - found.unfinished
    apart, often = list(found.apart), _often(found.apart, repeats)
    parts = [f"{_seeing(found, apart, 'never connected to', '')}{often}"] if apart else []
    blank = [flow for flow in found.media if found.unseen.get(flow)]
    pictures = _values(found, "frame_rate", [flow for flow in found.watched if flow not in blank])
    slow = [flow for flow in found.media if pictures.get(flow, LEAST_PICTURES) < LEAST_PICTURES]
    if blank:
        often = _often({flow: found.unseen[flow] for flow in blank}, repeats)
        parts.append(f"{_seeing(found, blank, 'saw no picture')}{often}")
    if slow:
        parts.append(_seeing(found, slow, "saw fewer than 1 picture a second"))
    return parts


def _often(counts: Mapping[str, int], repeats: int) -> str:
    """In how many repeats something happened; empty if it did in all of them."""
    least, most = min(counts.values(), default=repeats), max(counts.values(), default=repeats)
    count = f"{least} to {most}" if least < most else f"{most}"
    return f" in {count} of {repeats} repeats" if least < repeats else ""


def _seeing(found: Findings, flows: Sequence[str], what: str, of: str = "of ") -> str:
    """Who did what, and of whom: ``erin saw no picture of ben and dora``."""
    if len(flows) == len(found.media) > 1 and what.startswith("saw"):
        return "nobody saw a picture" if what == "saw no picture" else f"everybody {what}"
    receivers = list(dict.fromkeys(found.receivers[flow] for flow in flows))
    senders = list(dict.fromkeys(found.senders[flow] for flow in flows))
    pairs = {(found.receivers[flow], found.senders[flow]) for flow in flows}
    does = f"{names_in_words(receivers, MOST_RECEIVERS)} {what}"
    whole = len(pairs) == sum(one != other for one in receivers for other in senders)
    return f"{does} {of}{names_in_words(senders, MOST_RECEIVERS) if whole else 'some others'}"


def _loss(found: Findings) -> str:
    lost = _values(found, "packet_loss")
    if not lost or max(lost.values()) < LEAST_LOSS_PERCENT:
        return ""
    if len(lost) <= 2 or not _differ(lost.values()):
        return _span("{} of packets were lost", _percent, lost)
    who, most, others = _worst_receivers(found, lost)
    rest = f"up to {_percent(others)}" if others >= LEAST_LOSS_PERCENT else "none"
    lost_to = f"up to {_percent(most)} of packets to {who or 'all receivers'} were lost"
    return f"{lost_to}, to the others {rest}" if who else lost_to


def _lateness(found: Findings) -> str:
    """How long pictures took from camera to screen, if any took long."""
    took_ms = _values(found, "picture_delay")
    if max(took_ms.values(), default=0.0) < LATE_MS:
        return ""
    if len(took_ms) <= 2 or not _differ(took_ms.values()):
        return _span("pictures took {} from camera to screen", _ms, took_ms)
    who, most, others = _worst_receivers(found, took_ms)
    rest = f", those to the others up to {_ms(others)}" if who else ""
    return f"pictures to {who or 'all receivers'} took up to {_ms(most)} from camera to screen{rest}"


def _repeated(found: Findings) -> str:
    """The share of retransmissions in what was sent, where it is large."""
    shares = _values(found, "retransmission_share")
    many = {flow: share for flow, share in shares.items() if share >= LEAST_REPEATED_PERCENT}
    if not many:
        return ""
    receivers = list(dict.fromkeys(found.receivers[flow] for flow in many))
    to = "" if len(many) == len(shares) else f" to {names_in_words(receivers, MOST_RECEIVERS)}"
    return _span(f"{{}} of the bytes sent{to} were retransmissions", _percent, many, named=False)


def _processors(found: Findings) -> str:
    """Whose processors limit the video that they send."""
    shares = _values(found, "cpu_limited")
    limited = [flow for flow, percent in shares.items() if percent >= LEAST_LIMITED_PERCENT]
    names = list(dict.fromkeys(found.senders[flow] for flow in limited))
    if not names:
        return ""
    whose = names_in_words(names, MOST_RECEIVERS)
    return f"{'processors limit' if len(names) > 1 else 'the processor limits'} the video of {whose}"


def _freezes(found: Findings) -> str:
    """Duration of video freezes per minute: of both directions, or of the receivers who see most of them."""
    frozen = _values(found, "freeze_duration")
    if not frozen:
        return ""
    if max(frozen.values()) < LEAST_FREEZE_S:
        return "no video freezes"
    if len(frozen) <= 2 or not _differ(frozen.values()):
        return _span("video froze for {} per minute", _seconds, frozen)
    who, most, others = _worst_receivers(found, frozen)
    see = "see" if not who or " and " in who else "sees"
    rest = f"up to {_seconds(others)}" if others >= LEAST_FREEZE_S else "none"
    seen = f"{who or 'all receivers'} {see} freezes of up to {_seconds(most)} per minute"
    return f"{seen}, the others {rest}" if who else seen


def _worst_receivers(found: Findings, values: Mapping[str, float]) -> tuple[str, float, float]:
    """Whose largest value is near the largest of all, that one, and the largest value of the others.

    The names are empty if they are all.
    """
    of_receiver: dict[str, float] = {}
    for flow, value in values.items():
        receiver = found.receivers[flow]
        of_receiver[receiver] = max(of_receiver.get(receiver, 0.0), value)
    most = max(of_receiver.values())
    worst = [name for name, value in of_receiver.items() if value * MUCH >= most]
    others = [value for name, value in of_receiver.items() if name not in worst]
    return names_in_words(worst, MOST_RECEIVERS) if others else "", most, max(others, default=0.0)


def _tcp(found: Findings) -> list[str]:
    if not found.tcp:
        return []
    if not found.media:
        return _rates(found, found.tcp, "TCP flow")
    rates = _values(found, "receiving_rate", found.tcp)
    if found.tcp_together:
        return [f"TCP cross traffic received {rate_in_words(sum(rates.values()))}"] if rates else []
    return [_span(f"{_subject(list(rates), 'TCP flow')} received {{}}", rate_in_words, rates)]


def _values(
    found: Findings, metric: str, flows: Iterable[str] | None = None, scale: float = 1.0
) -> dict[str, float]:
    """The means of a metric by flow, times ``scale``."""
    flows = found.media if flows is None else flows
    return {flow: scale * found.means[metric, flow] for flow in flows if (metric, flow) in found.means}


def _differ(values: Iterable[float]) -> bool:
    known = list(values)
    return max(known) > MUCH * min(known)


def _span(
    text: str, in_words: Callable[[float], str], values: Mapping[str, float], *, named: bool = True
) -> str:
    """The text with the values of flows in place of ``{}``; empty without values.

    Values are given as a range. If they differ much and are to be named, the smallest and the largest have
    the names of their flows.
    """
    if not values:
        return ""
    least, most = min(values, key=values.__getitem__), max(values, key=values.__getitem__)
    low, high = in_words(values[least]), in_words(values[most])
    if low == high:
        return text.format(low)
    number, _, unit = low.partition(" ")
    nothing = float(number) == 0
    if not named or not _differ(values.values()):
        if nothing:
            return text.format(f"up to {high}")
        return text.format(f"{number} to {high}" if high.endswith(f" {unit}") else f"{low} to {high}")
    at_most = f"{high} ({flow_in_words(most)})"
    if nothing:
        return text.format(at_most if len(values) == 2 else f"up to {at_most}")
    between = "and" if len(values) == 2 else "to"
    return text.format(f"{low} ({flow_in_words(least)}) {between} {at_most}")


def _percent(value: float) -> str:
    return f"{value:.0f} %" if value >= 10 or value == 0 else f"{value:.1f} %"


def _ms(value: float) -> str:
    return f"{value:.0f} ms"


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"


def rate_in_words(kbps: float) -> str:
    """A rate in kbit/s, or in Mbit/s from 1 Mbit/s on."""
    return f"{brief(kbps / 1000)} Mbit/s" if kbps >= 1000 else f"{kbps:.0f} kbit/s"


def _sentence(parts: Sequence[str]) -> str:
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."
