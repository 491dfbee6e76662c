"""Why a call went as it did: the accounts of a run's flows over its repeats, and one sentence of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from statistics import fmean
from typing import Any

import polars as pl

from rtclab.errors import BadInput
from rtclab.experiment.flows import Flows, chosen_flows
from rtclab.metrics import METRICS, media_flows
from rtclab.metrics.accounts.limits import NAMES, course_of
from rtclab.metrics.accounts.losses import lost_packets
from rtclab.metrics.accounts.packets import read
from rtclab.metrics.accounts.queues import UsedPath, bottleneck_of
from rtclab.metrics.accounts.stalls import Stall, stalls_of
from rtclab.metrics.accounts.waits import STAGES, mean_waits_ms
from rtclab.metrics.series import span_ns
from rtclab.report.flow_lines import main_flows
from rtclab.report.words import flow_in_words, number
from rtclab.trace import NS_PER_S, Run

LEAST_SHARE = 0.1
"""Limits that held for a smaller part of the time are not said."""
LATE_MS = 250.0
"""Pictures that take longer are mentioned; from 150 to 400 ms on, a conversation suffers (ITU-T G.114)."""
ABOUT = {
    "limit": ("explained-rate", "rate", "target", "stats-rate"),
    "freezes": ("waits", "frame-rate"),
    "waits": ("waits", "delay"),
}
"""What a part of a sentence is about, and the plots that show it, the best first."""
MUCH_FROZEN = 0.03
"""If more of the time is frozen, 2 s in a minute, the freezes are said first."""
SHORT_MS = 40.0
"""A queue that overflows although packets wait less, or less than a round trip on empty paths, is short.

A round trip is the length that keeps one TCP flow busy (Villamizar and Song, CCR 1994)."""
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
        lost_percent: lost packets in % of those that were sent; NaN if it is not known.
        stalls: the freezes of all repeats.
        waits_ms: the mean time of a picture in each stage, in ms; empty if it is not known.
        bottleneck: the path that was used most, in the first repeat that knows it.
        active_s: how long the flow was active in all repeats, in s.
        paths: words for paths that are more than a wire, such as a Wi-Fi hop.
    """

    flow: str
    shares: Mapping[str, float]
    grade: str
    losses: Sequence[tuple[str, str, int]]
    lost_percent: float
    stalls: Sequence[Stall]
    waits_ms: Mapping[str, float]
    bottleneck: UsedPath | None
    active_s: float
    paths: Mapping[str, str]

    @cached_property
    def sentences(self) -> list[str]:
        """What limited the rate and what the freezes were; where pictures waited, if they took long."""
        first, *others = ("; ".join(text for _, text in parts) + "." for parts in self.parts)
        return [f"{flow_in_words(self.flow)}: {first}", *others]

    @cached_property
    def parts(self) -> list[list[tuple[str, str]]]:
        """The parts of each sentence, without subject and full stop: a key of ``ABOUT``, and the text."""
        parts = [("limit", self._limit()), ("freezes", self._freezes())]
        if self.stalls and self.frozen_share >= MUCH_FROZEN:
            parts.reverse()
        first = [part for part in parts if part[1]]
        others = [("waits", self._lateness())]
        return [first, *([part] for part in others if part[1])]

    @property
    def frozen_share(self) -> float:
        """The part of the flow's time, 0 to 1, in which its video was frozen."""
        return sum(one.length_s for one in self.stalls) / self.active_s if self.active_s else 0.0

    def _limit(self) -> str:
        ranked = sorted(self.shares.items(), key=lambda pair: -pair[1])
        if ranked[0][0] == "unknown":
            return "what limited its rate is not known: the trace has no values of its congestion control"
        told = [pair for pair in ranked[:2] if pair[1] >= LEAST_SHARE] or ranked[:1]
        parts = [f"{self.limit_in_words(name)} for {100 * share:.0f} % of the time" for name, share in told]
        guess = ", as its packets suggest" if self.grade == "inferred" else ""
        return f"limited by {' and by '.join(parts)}{guess}"

    def limit_in_words(self, name: str) -> str:
        """A limit as words that follow `limited by`, with its place: ``the queue of alice.up``."""
        at = self.bottleneck
        if name == "delay" and at is not None:
            short = "short " * self._is_short(at.path)
            return f"the {short}queue of {self.paths.get(at.path, at.path)}{self._queue_in_words(at)}"
        if name == "loss" and self.losses:
            cause, path, _ = self.losses[0]
            lost = f"{number(self.lost_percent)} %, " if self.lost_percent == self.lost_percent else ""
            return f"losses ({lost}{self._loss_in_words(cause, path)})"
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
        if cause == "queue" and self._is_short(path):
            return f"in a full, short queue on {self.paths.get(path, path)}"
        return loss_in_words(cause, self.paths.get(path, path))

    def _is_short(self, path: str) -> bool:
        """Whether the queue of a path overflows although packets wait for less than a round trip."""
        at = self.bottleneck
        overflows = any(cause == "queue" and lost_on == path for cause, lost_on, _ in self.losses)
        round_trip_ms = max(SHORT_MS, 2 * self.waits_ms.get("wires", 0.0))
        return overflows and at is not None and at.path == path and at.waited_ms < round_trip_ms

    def _frozen_ns(self) -> Counter[tuple[str, str]]:
        """How long video was frozen, by cause and place, in ns."""
        spent: Counter[tuple[str, str]] = Counter()
        for one in self.stalls:
            spent[one.cause, one.where] += one.end_ns - one.begin_ns
        return spent

    def _freezes(self) -> str:
        spent, number_of = self._frozen_ns(), Counter((one.cause, one.where) for one in self.stalls)
        if not spent:
            return ""
        (cause, where), length_ns = spent.most_common(1)[0]
        total = len(self.stalls)
        if total == 1:
            return f"its freeze of {_s(length_ns)} {self._stall_in_words(cause, where)}"
        count = number_of[cause, where]
        if count == total:
            return f"all {total} freezes ({_s(length_ns)}) {self._stall_in_words(cause, where)}"
        lengths = f"{_s(length_ns)} of {_s(sum(spent.values()))}"
        return f"{count} of {total} freezes ({lengths}) {self._stall_in_words(cause, where)}"

    def _stall_in_words(self, cause: str, where: str) -> str:
        match cause:
            case "loss":
                kind, _, path = where.partition(" ")
                return f"waited for packets lost {self._loss_in_words(kind, path)}"
            case "outage":
                return f"came from an outage of {self.paths.get(where, where)}"
            case "sender":
                limit = WORDS[where or "unknown"]
                return f"came from the sender, who sent no picture, limited by {limit}"
        return STALLS_IN_WORDS[cause]

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
            for (cause, where), length_ns in self._frozen_ns().most_common()
        ]
        rows += [("wait", stage, "", ms, "ms") for stage, ms in self.waits_ms.items()]
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
    "receiver": "came from the receiver, to which all packets had come",
    "unknown": "have no known cause",
}
STAGES_IN_WORDS = {
    "encoder": "before the first packet left",
    "pacer": "in the pacer",
    "queues": "in queues",
    "wires": "on the wires",
    "repair": "until lost packets were replaced",
    "receiver": "in the receiver's buffer and decoder",
}


def stall_in_words(stall: Stall) -> str:
    """What a freeze or gap of sound was, as words after its subject: ``waited for packets in queues``."""
    match stall.cause:
        case "loss":
            kind, _, path = stall.where.partition(" ")
            words = f"waited for packets lost {loss_in_words(kind, path)}"
        case "outage":
            words = f"came from an outage of {stall.where}" if stall.where else "came from an outage"
        case "sender":
            limit = WORDS[stall.where or "unknown"]
            words = f"came from the sender, who sent nothing, limited by {limit}"
        case cause:
            words = STALLS_IN_WORDS[cause]
    return f"{words} ({stall.detail})" if stall.detail else words


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
        read(trace, wanted)
    accounts = [account for flow in wanted if (account := _account(run, flow)) is not None]
    return Why(accounts, left_out)


def _account(run: Run, flow: str) -> FlowAccount | None:
    traces = [trace for trace in run.traces if course_of(trace, flow) is not None]
    if not traces:
        return None
    courses = [course_of(trace, flow) for trace in traces]
    shares = [one.shares(span_ns(trace, flow)) for trace, one in zip(traces, courses, strict=True) if one]
    losses: Counter[tuple[str, str]] = Counter()
    for trace in traces:
        lost = lost_packets(trace, flow)
        losses.update(zip(lost.cause.tolist(), lost.path.tolist(), strict=True))
    paths = _paths(run.scenario)
    waits = [found for trace in traces if (found := mean_waits_ms(trace, flow))]
    loss = [METRICS["packet_loss"].function(trace, flow) for trace in traces]
    return FlowAccount(
        flow,
        {name: fmean(one.get(name, 0.0) for one in shares) for name in NAMES},
        courses[0].grade if courses[0] else "unknown",
        [(cause, path, count) for (cause, path), count in losses.most_common()],
        fmean(known) if (known := [one for one in loss if one == one]) else nan,
        [one for trace in traces for one in stalls_of(trace, flow)],
        {stage: fmean(one[stage] for one in waits) for stage in STAGES} if waits else {},
        next((one for trace in traces if (one := bottleneck_of(trace, flow, paths)) is not None), None),
        sum(end_ns - begin_ns for begin_ns, end_ns in (span_ns(trace, flow) for trace in traces)) / NS_PER_S,
        paths,
    )


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
