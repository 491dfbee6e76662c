"""What a change of one setting does, and whether as few sessions as a paper ran could show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import ClassVar

from pydantic import Field

from rtclab.metrics.statistics import Summary, summarise, welch
from rtclab.reproduce.cells import Metric
from rtclab.reproduce.measures import OVER_USE
from rtclab.reproduce.results import Results
from rtclab.reproduce.trends import Check, Finding, Need
from rtclab.scenario.table import Table

NO_SESSION = "no session with over-use"


class Pair(Table):
    """A condition that a paper ran with two settings; ``sessions`` is how often with each."""

    label: str
    before: str
    after: str
    sessions: int


@dataclass(frozen=True)
class Change:
    """The mean with the second setting minus the mean with the first, in per cent of the latter.

    Only sessions with over-use count. ``ci95`` is half the Welch interval of our sessions. ``papers_ci95`` is
    half the interval of as many sessions as the paper ran, with the deviations of ours. All are NaN without
    two sessions on each side, or where the first mean is 0.
    """

    pair: Pair
    sessions: tuple[int, int]
    percent: float = nan
    ci95: float = nan
    papers_ci95: float = nan

    @property
    def hidden(self) -> bool:
        """Whether as many sessions as the paper ran could not tell it from no change."""
        return abs(self.percent) <= self.papers_ci95

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return abs(self.percent) > self.ci95

    def __str__(self) -> str:
        if min(self.sessions) < 2:
            return f"{self.pair.label}: over-use in {max(self.sessions)} sessions"
        if isnan(self.percent):
            return f"{self.pair.label}: 0 with both"
        signed = f"{round(self.percent, 1) + 0:+.1f}".replace("-", "−")
        return f"{self.pair.label}: {signed} ± {self.ci95:.1f} %"


def change(results: Results, pair: Pair, metric: str) -> Change:
    """The change of a metric in one condition."""
    before, after = (_with_over_use(results, name, metric) for name in (pair.before, pair.after))
    sessions = before.repeats, after.repeats
    if min(sessions) < 2 or not before.mean:
        return Change(pair, sessions)
    percent = 100 / before.mean
    papers = _half_width(replace(before, repeats=pair.sessions), replace(after, repeats=pair.sessions))
    difference, ours = after.mean - before.mean, _half_width(before, after)
    return Change(pair, sessions, percent * difference, percent * ours, percent * papers)


def _half_width(before: Summary, after: Summary) -> float:
    """Half the Welch interval of the difference; 0 where neither side has any spread."""
    return 0.0 if before.sd == after.sd == 0 else welch(before, after).ci95


def _with_over_use(results: Results, scenario: str, metric: str) -> Summary:
    pairs = zip(results.per_repeat(scenario, metric), results.per_repeat(scenario, OVER_USE), strict=True)
    return summarise([value for (value, _), (over_use, _) in pairs if over_use and value is not None])


class Changes(Check):
    """The changes of a metric in some conditions meet bounds in per cent.

    Each change must be significant, and its interval must overlap the bounds. With ``stays_within`` its
    interval must lie within so many per cent of no change.
    """

    one_of: ClassVar[tuple[str, ...]] = (*Check.one_of, "stays_within")

    metric: Metric
    pairs: tuple[Pair, ...] = Field(min_length=1)
    stays_within: float | None = None

    @property
    def needs(self) -> list[Need]:
        """What must be measured with both settings of each condition."""
        return [
            (scenario, name)
            for pair in self.pairs
            for scenario in (pair.before, pair.after)
            for name in (self.metric, OVER_USE)
        ]

    def check(self, results: Results) -> Finding:
        """Whether all changes meet the condition, and what they are."""
        found = [change(results, pair, self.metric) for pair in self.pairs]
        return Finding(all(map(self._keeps, found)), _listed(found))

    def _keeps(self, one: Change) -> bool:
        if self.bounds is None:
            return abs(one.percent) + one.ci95 <= (self.stays_within or 0)
        low, high = self.bounds
        return one.significant and one.percent + one.ci95 >= low and one.percent - one.ci95 <= high


def _listed(found: Sequence[Change]) -> str:
    if not any(sessions for one in found for sessions in one.sessions):
        return NO_SESSION
    sessions = max(one.pair.sessions for one in found)
    hidden = [one.pair.label for one in found if one.hidden]
    which = "" if len(hidden) == len(found) else f" ({', '.join(hidden)})"
    seen = f"; not distinguishable in {sessions} sessions{which}" if hidden else ""
    return "; ".join(map(str, found)) + seen
