"""Why a call went as it did: the accounts of a run's flows over its repeats, and one sentence of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean
from typing import Any

import polars as pl

from rtclab.experiment.flows import Flows, chosen_flows
from rtclab.metrics import METRICS, media_flows
from rtclab.metrics.accounts.limits import NAMES, course_of
from rtclab.metrics.accounts.losses import losses_table
from rtclab.metrics.accounts.queues import Bottleneck, bottleneck_of
from rtclab.metrics.accounts.stalls import Stall, stalls_of
from rtclab.metrics.accounts.waits import STAGES, mean_waits_ms
from rtclab.metrics.series import span_ns
from rtclab.report.flow_lines import main_flows
from rtclab.report.words import flow_in_words, number
from rtclab.trace import Run

LEAST_SHARE = 0.1
"""Limits that held for a smaller part of the time are not said."""
LATE_MS = 250.0
"""Pictures that are later than this are said to be late; above 150 to 400 ms people talk at once (ITU-T G.114)."""
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
        sent_percent_lost: lost packets in % of those that were sent; NaN if it is not known.
        stalls: the freezes of all repeats.
        waits_ms: the mean time of a picture in each stage, in ms; empty if it is not known.
        bottleneck: the path that was used most, in the first repeat that knows it.
        repeats: number of repeats that have the flow.
    """

    flow: str
    shares: Mapping[str, float]
    grade: str
    losses: Sequence[tuple[str, str, int]]
    sent_percent_lost: float
    stalls: Sequence[Stall]
    waits_ms: Mapping[str, float]
    bottleneck: Bottleneck | None
    repeats: int

    @cached_property
    def sentences(self) -> list[str]:
        """What limited the rate, what the freezes were, and where pictures waited; the first is the most telling."""
        return [part for part in (self._limit(), self._freezes(), self._lateness()) if part]

    def _limit(self) -> str:
        ranked = sorted(self.shares.items(), key=lambda pair: -pair[1])
        told = [(name, share) for name, share in ranked if share >= LEAST_SHARE and name != "start"][:2]
        if not told:
            name, share = ranked[0] if ranked else ("unknown", 1.0)
            told = [(name, share)]
        parts = [f"{self._limit_in_words(name)} for {100 * share:.0f} % of the time" for name, share in told]
        guess = ", as its packets suggest" if self.grade == "inferred" else ""
        return f"{flow_in_words(self.flow)} was limited by {' and '.join(parts)}{guess}."

    def _limit_in_words(self, name: str) -> str:
        at = self.bottleneck
        match name:
            case "delay" if at is not None:
                filled = ""
                if at.share_beside >= BESIDE:
                    filled = f", which {at.beside} fills with {100 * at.share_beside:.0f} % of the bytes"
                return f"the queue of {at.path}{filled}"
            case "loss":
                return f"losses{self._losses_in_words()}"
            case _:
                return WORDS[name]

    def _losses_in_words(self) -> str:
        if not self.losses:
            return ""
        cause, path, _ = self.losses[0]
        lost = (
            ""
            if self.sent_percent_lost != self.sent_percent_lost
            else f"{number(self.sent_percent_lost)} % lost "
        )
        where = f" on {path}" if path else ""
        return f" ({lost}{LOSSES_IN_WORDS[cause]}{where})"

    def _freezes(self) -> str:
        if not self.stalls:
            return ""
        kinds = Counter((one.cause, one.where) for one in self.stalls)
        seconds: Counter[tuple[str, str]] = Counter()
        for one in self.stalls:
            seconds[one.cause, one.where] += one.length_s  # type: ignore[assignment]
        (cause, where), length_s = seconds.most_common(1)[0]
        total = len(self.stalls)
        of = f"{kinds[cause, where]} of {total} freezes" if total > 1 else "The freeze"
        many = kinds[cause, where] != 1 and total > 1
        words = STALLS_IN_WORDS[cause].format(where=f" {self._where(cause, where)}" if where else "")
        verb = words if not many else words
        return f"{of} ({number(length_s)} s{f' of {number(sum(seconds.values()))} s' if total > 1 else ''}) {verb}."

    @staticmethod
    def _where(cause: str, where: str) -> str:
        if cause == "loss":
            kind, _, path = where.partition(" ")
            return f"{LOSSES_IN_WORDS.get(kind, kind)}{f' on {path}' if path else ''}"
        if cause == "sender":
            return f"({WORDS.get(where, where)})"
        return f"of {where}" if cause == "outage" else where

    def _lateness(self) -> str:
        total = sum(self.waits_ms.values())
        if not self.waits_ms or total < LATE_MS:
            return ""
        ranked = sorted(self.waits_ms.items(), key=lambda pair: -pair[1])
        parts = [f"{number(ms)} ms {STAGES_IN_WORDS[stage]}" for stage, ms in ranked[:2]]
        return f"Pictures were {number(total)} ms late: {' and '.join(parts)}."

    def rows(self) -> list[dict[str, Any]]:
        """The accounts as rows: flow, account, what, where, value and unit."""
        rows = [("limit", name, "", 100 * share, "%") for name, share in self.shares.items() if share > 0]
        rows += [("loss", cause, path, float(count), "packets") for cause, path, count in self.losses]
        spent: Counter[tuple[str, str]] = Counter()
        for one in self.stalls:
            spent[one.cause, one.where] += one.length_s  # type: ignore[assignment]
        rows += [("stall", cause, where, length, "s") for (cause, where), length in spent.most_common()]
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
    "unknown": "something that the trace does not tell",
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
    "outage": "had no network: an outage{where}",
    "sender": "had nothing to show: the sender sent no picture{where}",
    "loss": "waited for packets lost{where}",
    "queue": "waited for packets in queues{where}",
    "receiver": "arose at the receiver{where}",
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


@dataclass(frozen=True)
class Why:
    """Why the flows of a run went as they did. A notebook and ``str`` show the sentences."""

    accounts: Sequence[FlowAccount]

    @property
    def sentences(self) -> dict[str, list[str]]:
        """The sentences of each flow."""
        return {one.flow: one.sentences for one in self.accounts}

    def table(self) -> pl.DataFrame:
        """The accounts as one table: a row for each limit, cause of loss, cause of freezes, and stage."""
        schema = {"flow": pl.String, "account": pl.String, "what": pl.String, "where": pl.String}
        rows = [row for one in self.accounts for row in one.rows()]
        return pl.DataFrame(rows, schema=schema | {"value": pl.Float64, "unit": pl.String})

    def __str__(self) -> str:
        return "\n".join(" ".join(one.sentences) for one in self.accounts)


def why(run: Run, flows: Flows = None) -> Why:
    """The accounts of the flows of a run that carry media from one participant to another.

    Raises:
        BadInput: there is no such flow.
    """
    if flows is None:
        carrying = {name for trace in run.traces for name in media_flows(trace)}
        wanted = [name for name in main_flows(run) if name in carrying]
    else:
        wanted = chosen_flows(flows, run.flows)
    return Why([account for flow in wanted if (account := _account(run, flow)) is not None])


def _account(run: Run, flow: str) -> FlowAccount | None:
    traces = [trace for trace in run.traces if course_of(trace, flow) is not None]
    if not traces:
        return None
    courses = [course_of(trace, flow) for trace in traces]
    shares = [one.shares(span_ns(trace, flow)) for trace, one in zip(traces, courses, strict=True) if one]
    losses: Counter[tuple[str, str]] = Counter()
    for trace in traces:
        for row in losses_table(trace).filter(pl.col("flow") == flow).iter_rows(named=True):
            losses[row["cause"], row["path"]] += row["packets"]
    waits = [found for trace in traces if (found := mean_waits_ms(trace, flow))]
    lost = [METRICS["packet_loss"].function(trace, flow) for trace in traces]
    return FlowAccount(
        flow,
        {name: fmean(one.get(name, 0.0) for one in shares) for name in NAMES},
        courses[0].grade if courses[0] else "unknown",
        [(cause, path, count) for (cause, path), count in losses.most_common()],
        fmean(lost),
        [one for trace in traces for one in stalls_of(trace, flow)],
        {stage: fmean(one[stage] for one in waits) for stage in STAGES} if waits else {},
        next((found for trace in traces if (found := bottleneck_of(trace, flow)) is not None), None),
        len(traces),
    )
