"""Why a call went as it did: the accounts of a run's flows over its repeats, and one sentence of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from statistics import fmean, median
from typing import Any

import numpy as np
import polars as pl

from rtclab.errors import BadInput
from rtclab.experiment.flows import Flows, chosen_flows
from rtclab.metrics import METRICS, media_flows
from rtclab.metrics.accounts.evidence import where_limited
from rtclab.metrics.accounts.limits import NAMES, course_of, sending_leg
from rtclab.metrics.accounts.losses import lost_packets
from rtclab.metrics.accounts.packets import read
from rtclab.metrics.accounts.queues import UsedPath, bottleneck_of
from rtclab.metrics.accounts.stalls import Stall, gaps_of, stalls_of
from rtclab.metrics.accounts.waits import SOUND_STAGES, STAGES, mean_sound_waits_ms, mean_waits_ms
from rtclab.metrics.series import gauge, span_ns
from rtclab.report.shown_flows import main_flows
from rtclab.report.words import flow_in_words, number
from rtclab.trace import NS_PER_S, Run, Trace

LEAST_SHARE = 0.1
"""Limits that held for a smaller part of the time are not said."""
LEAST_LOST_BEHIND = 5.0
"""Losses behind a server are said from this % of what it forwarded."""
LATE_MS = 250.0
"""Pictures that take longer are mentioned; from 150 to 400 ms on, a conversation suffers (ITU-T G.114)."""
ABOUT = {
    "limit": ("rate", "target", "stats-rate"),
    "freezes": ("resolution", "frame-rate"),
    "waits": ("waits", "delay"),
    "sound": ("sound", "delay"),
}
"""What a part of a sentence is about, and the plots that show it, the best first."""
MUCH_FROZEN = 0.03
"""If more of the time is frozen, 2 s in a minute, the freezes are said first."""
AUDIBLE_PERCENT = 1.0
"""If more of the sound is made up, 0.6 s in a minute, it is said. ITU-T G.113 has no table for Opus."""
SHORT_MS = 100.0
"""A queue that overflows although packets wait less, or less than a round trip on empty paths, is short.

A round trip is the length that keeps one TCP flow busy (Villamizar and Song, CCR 1994), and 100 ms is the one
that is reckoned with where it is not known (RFC 8289, 4.3)."""
LONG_MS = 400.0
"""A queue in which packets wait longer is long: no conversation should have this delay (ITU-T G.114)."""
OWN = ("maximum", "source", "start", "pause")
"""Limits that the sender has set itself. They are no trouble, so other limits are said before them."""
MOST_EXPLAINED = 12
"""Of a meeting with more flows, only these are explained unless flows are named."""
BESIDE = 0.2
"""Cross traffic with a larger part of a path's bytes is said to fill it."""


@dataclass(frozen=True)
class FlowAccount:
    """The accounts of one flow, over the repeats of a run.

    Attributes:
        flow: its name.
        shares: the mean part of the time, 0 to 1, in which each limit held; they add up to 1.
        grade: how the limits are known: ``known``, ``inferred`` or ``unknown``.
        losses: lost packets by cause and path, over all repeats.
        seen_losses: the same for the part of the way that its congestion control sees: to a server, if one
            forwards its media.
        lost_percent: lost packets there in % of those that were sent; NaN if it is not known.
        stalls: the freezes of all repeats.
        gaps: the gaps of sound of all repeats.
        concealed_percent: sound that was made up, in % of what was promised; NaN if it is not known.
        waits_ms: the mean time of a picture in each stage, in ms; empty if it is not known.
        sound_waits_ms: the same of sound.
        bottleneck: the path in whose queue its packets waited longest, in the first repeat that knows it.
        queue: the same for the part of the way that its congestion control sees.
        held_at: where packets or feedback waited when data on its way held the rate; empty if not known.
        lines: the mean part of the time, 0 to 1, in which its pictures had each number of lines.
        active_s: how long the flow was active in all repeats, in s.
        forwarded: whether a server forwards its media; limits are then of its sender.
        lost_behind_percent: packets that were lost behind the server, in % of those that it forwarded.
        paths: words for paths that are more than a wire, such as a Wi-Fi hop.
    """

    flow: str
    shares: Mapping[str, float]
    grade: str
    losses: Sequence[tuple[str, str, int]]
    seen_losses: Sequence[tuple[str, str, int]]
    lost_percent: float
    stalls: Sequence[Stall]
    gaps: Sequence[Stall]
    concealed_percent: float
    waits_ms: Mapping[str, float]
    sound_waits_ms: Mapping[str, float]
    bottleneck: UsedPath | None
    queue: UsedPath | None
    held_at: str
    lines: Mapping[int, float]
    active_s: float
    forwarded: bool
    lost_behind_percent: float
    paths: Mapping[str, str]

    @cached_property
    def sentences(self) -> list[str]:
        """What limited the rate and what the freezes were; where pictures waited, and what sound missed."""
        first, *others = ("; ".join(text for _, text in parts) + "." for parts in self.parts)
        return [f"{flow_in_words(self.flow)}: {first}", *others]

    @cached_property
    def parts(self) -> list[list[tuple[str, str]]]:
        """The parts of each sentence, without subject and full stop: a key of ``ABOUT``, and the text."""
        first = [("limit", self._limit()), ("freezes", self._freezes())]
        if self.stalls and (self.frozen_share >= MUCH_FROZEN or self._told[0][0] in OWN):
            first.reverse()
        said = [first, [("waits", self._lateness())], [("sound", self._sound())]]
        return [told for parts in said if (told := [part for part in parts if part[1]])]

    @property
    def frozen_share(self) -> float:
        """The part of the flow's time, 0 to 1, in which its video was frozen."""
        return sum(one.length_s for one in self.stalls) / self.active_s if self.active_s else 0.0

    @property
    def _told(self) -> list[tuple[str, float]]:
        """The two limits that held longest, and their shares; those of ``OWN`` come last."""
        ranked = sorted(self.shares.items(), key=lambda pair: -pair[1])
        told = [pair for pair in ranked[:2] if pair[1] >= LEAST_SHARE] or ranked[:1]
        return sorted(told, key=lambda pair: pair[0] in (*OWN, "unknown"))

    def _limit(self) -> str:
        told = self._told
        if told[0][0] == "unknown":
            unknown = "what limited its rate is not known: the trace has no values of its congestion control"
            return f"{unknown}{self._fewer_lines()}"
        parts = [f"{self.limit_in_words(name)} for {100 * share:.0f} % of the time" for name, share in told]
        guess = ", as its packets suggest" if self.grade == "inferred" else ""
        whose = "its sender was " if self.forwarded else ""
        limits = f"{whose}limited by {' and by '.join(parts)}{guess}"
        return f"{limits}{self._lost_behind_server()}{self._fewer_lines()}"

    def _lost_behind_server(self) -> str:
        """How much was lost behind the server and where, as words after what limited its sender."""
        seen = {(cause, path) for cause, path, _ in self.seen_losses}
        behind = [(cause, path) for cause, path, _ in self.losses if (cause, path) not in seen]
        if not self.forwarded or not behind or not self.lost_behind_percent >= LEAST_LOST_BEHIND:
            return ""
        share = number(self.lost_behind_percent)
        return f"; {share} % of what the server forwarded was lost {self._loss_in_words(*behind[0])}"

    def _fewer_lines(self) -> str:
        """For how long pictures had fewer lines than their most, as words after what limited the rate."""
        most = max(self.lines, default=0)
        share = 1 - self.lines.get(most, 1.0)
        if share < LEAST_SHARE:
            return ""
        return f"; its pictures had fewer than {most} lines for {100 * share:.0f} % of the time"

    def limit_in_words(self, name: str) -> str:
        """A limit as words that follow `limited by`, with its place: ``the queue of alice.up``."""
        at = self.queue
        if name == "delay" and at is not None:
            return f"{self._queue(at.path)}{self._queue_in_words(at)}"
        if name == "loss" and self.seen_losses:
            cause, path, _ = self.seen_losses[0]
            lost = f"{number(self.lost_percent)} %, " if self.lost_percent == self.lost_percent else ""
            return f"losses ({lost}{self._loss_in_words(cause, path)})"
        return self.limit_there(name, self.held_at if name == "window" else "")

    def limit_there(self, name: str, where: str) -> str:
        """A limit of a part of the time in words, with its place as :func:`.where_limited` says it."""
        if name == "delay" and where:
            return self._queue(where)
        if name == "loss" and where:
            cause, _, path = where.partition(" ")
            return f"losses {self._loss_in_words(cause, path)}"
        if name == "window" and where:
            return f"{WORDS[name]}, as packets waited in {self._queue(where)}"
        return WORDS[name]

    @staticmethod
    def _queue_in_words(at: UsedPath) -> str:
        parts = []
        if at.share_beside >= BESIDE:
            parts.append(f"which {at.beside} fills: {100 * at.share_beside:.0f} % of its bytes")
        if at.waited_ms == at.waited_ms:
            parts.append(f"in which packets waited up to {at.waited_ms:.0f} ms")
        return f" ({'; '.join(parts)})" if parts else ""

    def _loss_in_words(self, cause: str, path: str) -> str:
        if cause != "queue" or not path:
            return loss_in_words(cause, self.paths.get(path, path))
        full = f"full, {kind}" if (kind := self._kind(path)) else "full "
        return f"in a {full}queue on {self.paths.get(path, path)}{self._filled_by(path)}"

    def _queue(self, path: str) -> str:
        return f"the {self._kind(path)}queue of {self.paths.get(path, path)}"

    def _kind(self, path: str) -> str:
        """``long ``, or ``short `` if a queue overflows although packets wait for less than a round trip."""
        if (at := self._used(path)) is None:
            return ""
        if at.waited_ms > LONG_MS:
            return "long "
        overflows = any(
            cause == "queue" and lost_on == path for cause, lost_on, _ in (*self.losses, *self.seen_losses)
        )
        round_trip_ms = max(SHORT_MS, 2 * self.waits_ms.get("wires", 0.0))
        return "short " * (overflows and at.waited_ms < round_trip_ms)

    def _filled_by(self, path: str) -> str:
        """Which cross traffic fills the queue of a path, if some does."""
        at = self._used(path)
        return f", which {at.beside} fills" if at is not None and at.share_beside >= BESIDE else ""

    def _used(self, path: str) -> UsedPath | None:
        """How a path was used, if it is one of the two of which that is known."""
        return next((at for at in (self.queue, self.bottleneck) if at is not None and at.path == path), None)

    def _freezes(self) -> str:
        if not self.stalls:
            return ""
        (cause, where), length_ns = _spent_ns(self.stalls).most_common(1)[0]
        chosen = [one for one in self.stalls if (one.cause, one.where) == (cause, where)]
        words = f"{self._stall_in_words(cause, where)}{self._repair_in_words(chosen)}"
        if len(self.stalls) == 1:
            return f"its freeze of {_s(length_ns)} {words}"
        if len(chosen) == len(self.stalls):
            return f"all {len(chosen)} freezes ({_s(length_ns)}) {words}"
        lengths = f"{_s(length_ns)} of {_s(_spent_ns(self.stalls).total())}"
        return f"{len(chosen)} of {len(self.stalls)} freezes ({lengths}) {words}"

    @staticmethod
    def _repair_in_words(chosen: Sequence[Stall]) -> str:
        """How the losses of most of some freezes were repaired; with how many of them, if not all."""
        spent = Counter[str]()
        for one in chosen:
            spent[one.repair] += one.end_ns - one.begin_ns
        repair = spent.most_common(1)[0][0]
        if not repair:
            return ""
        alike = [one for one in chosen if one.repair == repair]
        words = repair_in_words(repair, median(one.repair_ms for one in alike))
        return f", {words}" if len(alike) == len(chosen) else f", {words} ({len(alike)} of {len(chosen)})"

    def _stall_in_words(self, cause: str, where: str) -> str:
        if cause == "loss":
            kind, _, path = where.partition(" ")
            return f"waited for packets lost {self._loss_in_words(kind, path)}"
        if cause == "sender":
            at = {"delay": self.queue.path if self.queue else "", "window": self.held_at}.get(where, "")
            return f"{SKIPPED} {self.limit_there(where or 'unknown', at)}{self._filled_by(at)}"
        if cause == "queue" and where:
            return f"waited for packets in {self._queue(where)}{self._filled_by(where)}"
        return cause_in_words(cause, where if cause == "sender" else self.paths.get(where, where))

    def _sound(self) -> str:
        if not self.concealed_percent > AUDIBLE_PERCENT or not self.gaps:
            return ""
        spent = _spent_ns(self.gaps)
        (cause, where), length_ns = spent.most_common(1)[0]
        share = f"{100 * length_ns / spent.total():.0f} % of it"
        if cause == "loss":
            kind, _, path = where.partition(" ")
            why = f"from packets lost {self._loss_in_words(kind, path)}"
        else:
            why = _missing_sound_in_words(cause, self.paths.get(where, where))
        return f"Of the sound, {number(self.concealed_percent)} % was made up; {share} came {why}"

    def _lateness(self) -> str:
        total = sum(self.waits_ms.values())
        if total < LATE_MS:
            return ""
        ranked = sorted(self.waits_ms.items(), key=lambda pair: -pair[1])
        parts = [f"{ms:.0f} ms {STAGES_IN_WORDS[stage]}" for stage, ms in ranked[:2]]
        return f"Pictures took {total:.0f} ms from camera to screen, of which {' and '.join(parts)}"

    def rows(self) -> list[dict[str, Any]]:
        """The accounts as rows: flow, account, what, where, value and unit."""
        rows = [("limit", name, "", 100 * share, "%") for name, share in self.shares.items() if share > 0]
        rows += [("loss", cause, path, float(count), "packets") for cause, path, count in self.losses]
        rows += [
            ("stall", cause, where, length_ns / NS_PER_S, "s")
            for (cause, where), length_ns in _spent_ns(self.stalls).most_common()
        ]
        rows += [
            ("gap", cause, where, length_ns / NS_PER_S, "s")
            for (cause, where), length_ns in _spent_ns(self.gaps).most_common()
        ]
        rows += [("wait", stage, "", ms, "ms") for stage, ms in self.waits_ms.items()]
        rows += [("sound_wait", stage, "", ms, "ms") for stage, ms in self.sound_waits_ms.items()]
        names = ("account", "what", "where", "value", "unit")
        return [{"flow": self.flow} | dict(zip(names, row, strict=True)) for row in rows]


WORDS = {
    "pause": "its own pause",
    "start": "its start, from which it still grew",
    "maximum": "its own maximum bitrate",
    "source": "its own camera and encoder, which gave less than they might",
    "processor": "the sender's processor",
    "delay": "a queue that grew",
    "loss": "losses",
    "window": "data on its way that was not acknowledged",
    "feedback": "missing feedback",
    "server": "the server, which forwarded less",
    "unknown": "something unknown",
}
LOSSES_IN_WORDS = {
    "outage": "in an outage",
    "queue": "in a full queue",
    "aqm": "by the discipline of a queue",
    "burst": "in bursts",
    "random": "at random",
    "unknown": "for an unknown reason",
}
STALLS_IN_WORDS = {
    "queue": "waited for packets in queues",
    "delay": "waited for packets that took longer on their way",
    "receiver": "came from the receiver, to which all packets had come",
    "unknown": "have no known cause",
}
SKIPPED = "came from the sender, who sent no picture, limited by"
REPAIRS_IN_WORDS = {
    "slow": "which were replaced after {ms:.0f} ms",
    "lost": "whose retransmissions were lost too",
    "request": "as requests for them were lost",
    "key_frame": "until a key frame came {s:.1f} s later",
    "none": "which nothing replaced",
}
SOUND_IN_WORDS = {
    "outage": "from an outage",
    "sender": "from the sender, who sent it late or not at all",
    "queue": "from packets that waited in the queue",
    "delay": "from packets that took longer on their way",
    "receiver": "from the receiver, for whom no packet was missing",
    "unknown": "from an unknown cause",
}
STAGES_IN_WORDS = {
    "camera": "before the encoder",
    "encoder": "in the encoder",
    "pacer": "in the pacer",
    "queues": "in queues",
    "wires": "on the wires",
    "server": "at servers",
    "repair": "until lost packets were replaced",
    "jitter_buffer": "in the jitter buffer",
    "lip_sync": "until the sound was there",
    "decoder": "in the decoder",
    "display": "before the screen",
}
STAGES_OF_SOUND = {"microphone": "until a packet was recorded", "loudspeaker": "before the loudspeaker"}
"""The stages that sound has and pictures have not, as words after a time."""


def stall_in_words(stall: Stall) -> str:
    """What a freeze or gap of sound was, as words after its subject: ``waited for packets in queues``."""
    kind, _, path = stall.where.partition(" ")
    if stall.media == "audio":
        words = f"came {_missing_sound_in_words(stall.cause, stall.where)}"
    elif stall.cause == "loss":
        words = f"waited for packets lost {loss_in_words(kind, path)}"
    else:
        words = cause_in_words(stall.cause, stall.where)
    if stall.repair:
        words = f"{words}, {repair_in_words(stall.repair, stall.repair_ms)}"
    return f"{words} ({stall.detail})" if stall.detail else words


def _missing_sound_in_words(cause: str, where: str) -> str:
    """Why sound was missing, given the cause and the place of a gap."""
    if cause == "loss":
        kind, _, path = where.partition(" ")
        return f"from packets lost {loss_in_words(kind, path)}"
    place = {"queue": f" of {where}", "outage": f" of {where}", "delay": f" over {where}"}
    return SOUND_IN_WORDS[cause] + (place.get(cause, "") if where else "")


def cause_in_words(cause: str, where: str) -> str:
    """What a freeze was that did not wait for lost packets, given its cause and place."""
    match cause:
        case "outage":
            return f"came from an outage of {where}" if where else "came from an outage"
        case "sender":
            return f"{SKIPPED} {WORDS[where or 'unknown']}"
        case "queue" if where:
            return f"waited for packets in the queue of {where}"
        case "delay" if where:
            return f"{STALLS_IN_WORDS[cause]} over {where}"
    return STALLS_IN_WORDS[cause]


def repair_in_words(repair: str, took_ms: float) -> str:
    """How lost packets were repaired, as words after them, and how long that took if it is known."""
    words = REPAIRS_IN_WORDS[repair].format(ms=took_ms, s=took_ms / 1000)
    is_told = repair in ("slow", "key_frame") or took_ms != took_ms
    return words if is_told else f"{words} and which were replaced after {took_ms:.0f} ms"


def _spent_ns(stalls: Sequence[Stall]) -> Counter[tuple[str, str]]:
    """How long some freezes or gaps lasted, by cause and place, in ns."""
    spent: Counter[tuple[str, str]] = Counter()
    for one in stalls:
        spent[one.cause, one.where] += one.end_ns - one.begin_ns
    return spent


def loss_in_words(cause: str, path: str) -> str:
    """How packets were lost: ``at random on alice.up``."""
    return f"{LOSSES_IN_WORDS[cause]} on {path}" if path else LOSSES_IN_WORDS[cause]


@dataclass(frozen=True, repr=False)
class Why:
    """Why the flows of a run went as they did. Its ``repr``, which a notebook shows, are the sentences."""

    accounts: Sequence[FlowAccount]
    left_out: int = 0
    """Number of further flows, whose video was frozen for a shorter time."""

    @property
    def sentences(self) -> dict[str, list[str]]:
        """The sentences of each flow."""
        return {one.flow: one.sentences for one in self.accounts}

    def table(self) -> pl.DataFrame:
        """The accounts as one table: a row for each limit, cause of loss, cause of freezes, and stage."""
        schema = {"flow": pl.String, "account": pl.String, "what": pl.String, "where": pl.String}
        rows = [row for one in self.accounts for row in one.rows()]
        return pl.DataFrame(rows, schema=schema | {"value": pl.Float64, "unit": pl.String})

    def __repr__(self) -> str:
        return "\n".join(" ".join(one.sentences) for one in self.accounts)


def worst_first(run: Run, flows: Sequence[str]) -> list[str]:
    """The flows of media among some flows of a run, those whose video was frozen longest first."""
    carrying = {name for trace in run.traces for name in media_flows(trace)}

    def frozen_s(flow: str) -> float:
        lengths_s = [METRICS["freeze_duration"].function(trace, flow) for trace in run.traces]
        return sum(length_s for length_s in lengths_s if length_s == length_s)

    return sorted((flow for flow in flows if flow in carrying), key=lambda flow: -frozen_s(flow))


def why(run: Run, flows: Flows = None, most: int = MOST_EXPLAINED) -> Why:
    """The accounts of flows of a run that carry media.

    ``flows`` are by default those from one participant to another; of more than ``most``, those whose video
    was frozen longest.

    Raises:
        BadInput: there is no such flow, or the run kept no traces.
    """
    if not run.traces and any(repeat.status == "finished" for repeat in run.repeats):
        raise BadInput(
            f"{run.name} has no traces, which reasons are found in",
            hint="simulated sweeps keep them with --traces",
        )
    if flows is None:
        wanted = worst_first(run, main_flows(run))
        left_out, wanted = len(wanted[most:]), wanted[:most]
    else:
        left_out, wanted = 0, chosen_flows(flows, run.flows)
    for trace in run.traces:
        legs = [sending_leg(trace, flow) for flow in wanted if flow in trace.manifest.flows]
        read(trace, list(dict.fromkeys([*wanted, *legs])))
    accounts = [account for flow in wanted if (account := _account(run, flow)) is not None]
    return Why(accounts, left_out)


def _account(run: Run, flow: str) -> FlowAccount | None:
    traces = [trace for trace in run.traces if course_of(trace, flow) is not None]
    if not traces:
        return None
    courses = [course_of(trace, flow) for trace in traces]
    shares = [one.shares(span_ns(trace, flow)) for trace, one in zip(traces, courses, strict=True) if one]
    leg, paths = sending_leg(traces[0], flow), _paths(run.scenario)
    waits, sound_waits = (
        [found for trace in traces if (found := mean(trace, flow))]
        for mean in (mean_waits_ms, mean_sound_waits_ms)
    )
    spans = [span_ns(trace, flow) for trace in traces]
    return FlowAccount(
        flow=flow,
        shares={name: fmean(one.get(name, 0.0) for one in shares) for name in NAMES},
        grade=courses[0].grade if courses[0] else "unknown",
        losses=_losses(traces, flow),
        seen_losses=_losses(traces, leg),
        lost_percent=_mean_of("packet_loss", traces, leg),
        stalls=[one for trace in traces for one in stalls_of(trace, flow)],
        gaps=[one for trace in traces for one in gaps_of(trace, flow)],
        concealed_percent=_mean_of("audio_concealed", traces, flow),
        waits_ms={stage: fmean(one[stage] for one in waits) for stage in STAGES} if waits else {},
        sound_waits_ms={stage: fmean(one[stage] for one in sound_waits) for stage in SOUND_STAGES}
        if sound_waits
        else {},
        bottleneck=_bottleneck(traces, flow, paths),
        queue=_bottleneck(traces, leg, paths),
        held_at=_held_at(traces, leg),
        lines=_lines(traces, flow),
        active_s=sum(end_ns - begin_ns for begin_ns, end_ns in spans) / NS_PER_S,
        forwarded=leg != flow,
        lost_behind_percent=_mean_of("packet_loss", traces, flow) if leg != flow else nan,
        paths=paths,
    )


def _losses(traces: Sequence[Trace], flow: str) -> list[tuple[str, str, int]]:
    """The lost packets of a flow by cause and path over repeats, the most frequent first."""
    found: Counter[tuple[str, str]] = Counter()
    for trace in traces:
        lost = lost_packets(trace, flow)
        found.update(zip(lost.cause.tolist(), lost.path.tolist(), strict=True))
    return [(cause, path, count) for (cause, path), count in found.most_common()]


def _mean_of(metric: str, traces: Sequence[Trace], flow: str) -> float:
    """The mean of a metric of a flow over repeats; NaN if none has a value."""
    values = [METRICS[metric].function(trace, flow) for trace in traces]
    known = [value for value in values if value == value]
    return fmean(known) if known else nan


def _bottleneck(traces: Sequence[Trace], flow: str, paths: Mapping[str, str]) -> UsedPath | None:
    """The bottleneck of a flow in the first repeat that knows it."""
    return next((one for trace in traces if (one := bottleneck_of(trace, flow, paths)) is not None), None)


def _held_at(traces: Sequence[Trace], flow: str) -> str:
    """Where packets or feedback waited for most of the time in which data on its way held a flow's rate."""
    held_ns: Counter[str] = Counter()
    for trace in traces:
        if (course := course_of(trace, flow)) is None:
            continue
        for begin_ns, end_ns, code in zip(*course.stretches, strict=True):
            if NAMES[code] == "window":
                held_ns[where_limited(trace, flow, "window", begin_ns, end_ns)] += end_ns - begin_ns
    return held_ns.most_common(1)[0][0] if held_ns else ""


def _lines(traces: Sequence[Trace], flow: str) -> dict[int, float]:
    """The part of a flow's reports on shown pictures, 0 to 1, in which they had each number of lines."""
    heights = [gauge(trace, "inbound_rtp", flow, "frameHeight").values for trace in traces]
    lines, counts = np.unique(np.concatenate(heights), return_counts=True)
    shown = dict(zip(lines.astype(int).tolist(), counts.tolist(), strict=True))
    shown.pop(0, None)
    return {height: count / sum(shown.values()) for height, count in shown.items()}


def _s(length_ns: int) -> str:
    """A length in s, with as many decimals as help."""
    length_s = length_ns / NS_PER_S
    return f"{length_s:.2f} s" if length_s < 1 else f"{length_s:.1f} s"


def _paths(scenario: Mapping[str, Any]) -> dict[str, str]:
    """Words for the paths of Wi-Fi hops in a scenario, which is given as JSON values."""
    found = {}
    for name, own in scenario.get("participants", {}).items():
        for way, path in ((own.get("link") or scenario.get("link")) or {}).items():
            if isinstance(path, dict) and path.get("wifi"):
                fades = ", which fades" if path["wifi"].get("fading") else ""
                found[f"{name}.{way}"] = f"the Wi-Fi hop {name}.{way}{fades}"
    return found
