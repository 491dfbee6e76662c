"""Which cause moved between two runs: the largest differences between the accounts of a flow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rtclab.metrics.accounts.stalls import Stall
from rtclab.report.shown_flows import main_flows
from rtclab.report.why import (
    LEAST_SHARE,
    LONG_MS,
    MOST_EXPLAINED,
    STAGES_IN_WORDS,
    FlowAccount,
    stall_in_words,
    why,
    worst_first,
)
from rtclab.report.words import flow_in_words
from rtclab.trace import Run

LEAST_FROZEN = 0.01
"""Causes of freezes that differ by a smaller part of the time, 0.6 s in a minute, are not said."""
LEAST_WAIT_MS = 50.0
"""Stages that differ by less are not said."""


@dataclass(frozen=True)
class Move:
    """A cause that holds for another part of a flow in one run than in another.

    Attributes:
        account: ``limit``, ``stall`` or ``wait``.
        what: the cause in words.
        before: its value in the first run: % of the time, s of freezes per minute, or ms.
        after: its value in the second run.
        size: how much it moved, to rank moves of different accounts; 1 is as much as possible.
    """

    account: str
    what: str
    before: float
    after: float
    size: float

    @property
    def in_words(self) -> str:
        """The move as a part of a sentence."""
        if self.account == "limit":
            return f"{self.what} for {self.before:.0f} % of the time before, {self.after:.0f} % now"
        name, unit = ("s per minute", 1) if self.account == "stall" else ("ms", 0)
        before, after = (f"{value:.{unit}f}" for value in (self.before, self.after))
        nothing = f"{0:.{unit}f}"
        told = [f"{one} {name}" if one != nothing else "none" for one in (before, after)]
        return f"{self.what}: {told[0]} before, {told[1]} now"


@dataclass(frozen=True)
class Moved:
    """What moved most in the flow in which most moved. If nothing did, there are no moves."""

    flow: str
    moves: Sequence[Move]
    unknown: str = ""
    """Why it is not known what moved; empty if it is known."""
    limit: str = ""
    """What limited the flow longest in both runs, in words; empty if it is not the same or not known."""

    @property
    def sentence(self) -> str:
        """What moved, as a sentence."""
        if self.unknown:
            return f"Which cause moved is not known: {self.unknown}."
        if not self.moves:
            if not self.limit:
                return "No cause moved much."
            return (
                f"No cause moved much: {flow_in_words(self.flow)} is limited mostly {self.limit}, as before."
            )
        limits = " and ".join(one.in_words for one in self.moves if one.account == "limit")
        parts = [f"limited {limits}"] if limits else []
        parts += [one.in_words for one in self.moves if one.account != "limit"]
        parts += [f"mostly limited {self.limit} before and now"] if self.limit else []
        return f"{flow_in_words(self.flow)}: {'; '.join(parts)}."

    def as_dict(self) -> dict[str, object]:
        """The flow, its moves, and the sentence, as JSON values."""
        moves = [
            {name: getattr(one, name) for name in ("account", "what", "before", "after")}
            for one in self.moves
        ]
        return {"flow": self.flow, "moves": moves, "sentence": self.sentence}


def moved(before: Run, after: Run) -> Moved:
    """What moved between two runs, in the flow of both in which most moved.

    Of meetings, those flows are looked at whose video was frozen longest in either run.
    """
    for run in (before, after):
        if not run.traces:
            return Moved("", (), f"{run.name} has no traces")
    shared = [flow for flow in main_flows(before) if flow in main_flows(after)]
    worst = [flow for run in (after, before) for flow in worst_first(run, shared)[:MOST_EXPLAINED]]
    flows = list(dict.fromkeys(worst))
    if not flows:
        return Moved("", (), "the runs share no flow of media")
    sides = [{one.flow: one for one in why(run, flows).accounts} for run in (before, after)]
    both = {flow: (sides[0][flow], sides[1][flow]) for flow in flows if flow in sides[0].keys() & sides[1]}
    found = [Moved(flow, _moves(*of), limit=_longest_limit(*of)) for flow, of in both.items()]
    return max(found, key=lambda one: sum(move.size for move in one.moves), default=Moved("", ()))


def _longest_limit(before: FlowAccount, after: FlowAccount) -> str:
    """What limited a flow longest in both runs: ``by the queue of alice.up``; empty if it is not the same."""
    names = {max(one.shares, key=one.shares.__getitem__, default="unknown") for one in (before, after)}
    return "" if len(names) > 1 or names == {"unknown"} else f"by {after.limit_in_words(names.pop())}"


def _moves(before: FlowAccount, after: FlowAccount) -> list[Move]:
    """The largest moves of a flow: of two limits, of one cause of freezes, and of one stage."""
    chosen = []
    for moves, most in (
        (_limits(before, after), 2),
        (_freezes(before, after), 1),
        (_waits(before, after), 1),
    ):
        chosen += sorted(moves, key=lambda move: -move.size)[:most]
    return chosen


def _limits(before: FlowAccount, after: FlowAccount) -> Iterator[Move]:
    for name, share in before.shares.items():
        other = after.shares.get(name, 0.0)
        if name == "unknown" or abs(other - share) < LEAST_SHARE:
            continue
        words = (before if share > other else after).limit_in_words(name)
        yield Move("limit", f"by {words}", 100 * share, 100 * other, abs(other - share))


def _freezes(before: FlowAccount, after: FlowAccount) -> Iterator[Move]:
    shares = [_frozen_shares(one) for one in (before, after)]
    for words in dict.fromkeys([*shares[0], *shares[1]]):
        old, new = (side.get(words, 0.0) for side in shares)
        if abs(new - old) >= LEAST_FROZEN:
            yield Move("stall", f"freezes that {words}", 60 * old, 60 * new, abs(new - old))


def _frozen_shares(account: FlowAccount) -> Mapping[str, float]:
    """By cause in words, the part of the time in which video was frozen."""
    shares: dict[str, float] = {}
    for one in account.stalls:
        # Without its details, such as how long a repair took, which differ between freezes of one cause.
        words = stall_in_words(Stall(one.begin_ns, one.end_ns, one.cause, one.where))
        shares[words] = shares.get(words, 0.0) + one.length_s / account.active_s
    return shares


def _waits(before: FlowAccount, after: FlowAccount) -> Iterator[Move]:
    for stage, ms in before.waits_ms.items():
        other_ms = after.waits_ms.get(stage, ms)
        if abs(other_ms - ms) >= LEAST_WAIT_MS:
            words = f"pictures {STAGES_IN_WORDS[stage]}"
            # The limit of ITU-T G.114 counts as much as a limit that held always.
            yield Move("wait", words, ms, other_ms, abs(other_ms - ms) / LONG_MS)
