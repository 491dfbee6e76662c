"""Effects of changing one setting, and whether the few sessions of a paper could show them."""

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
    """A condition that a paper ran with two settings, each in this many ``sessions``.

    ``before`` and ``after`` are the scenarios with the first and the second setting.
    """

    label: str
    before: str
    after: str
    sessions: int


@dataclass(frozen=True)
class Change:
    """A metric of a condition with both settings, over the sessions with over-use."""

    pair: Pair
    before: Summary
    after: Summary

    @property
    def percent(self) -> float:
        """Change of the mean in per cent of the first mean; NaN if that is 0."""
        return 100 * (self.after.mean - self.before.mean) / (self.before.mean or nan)

    def ci95(self, sessions: int | None = None) -> float:
        """Half the width of the 95 % confidence interval of ``percent`` (Welch's t).

        With ``sessions`` it is the width for that many sessions with our standard deviations. It is 0 if
        neither setting has any spread, and NaN if a setting has fewer than two sessions.
        """
        before, after = self.before, self.after
        if min(before.repeats, after.repeats) < 2:
            return nan
        if sessions is not None:
            before, after = replace(before, repeats=sessions), replace(after, repeats=sessions)
        half = 0.0 if before.sd == after.sd == 0 else welch(before, after).ci95
        return 100 * half / (before.mean or nan)

    @property
    def hidden(self) -> bool:
        """Whether as few sessions as the paper ran could not distinguish this change from none."""
        return abs(self.percent) <= self.ci95(self.pair.sessions)

    def __str__(self) -> str:
        sessions = self.before.repeats, self.after.repeats
        if min(sessions) < 2:
            return f"{self.pair.label}: over-use in {max(sessions)} sessions"
        if isnan(self.percent):
            return f"{self.pair.label}: 0 with both"
        signed = f"{round(self.percent, 1) + 0:+.1f}".replace("-", "−")
        return f"{self.pair.label}: {signed} ± {self.ci95():.1f} %"


def change(results: Results, pair: Pair, metric: str) -> Change:
    """The change of a metric in a condition."""
    return Change(pair, *(_with_over_use(results, name, metric) for name in (pair.before, pair.after)))


def _with_over_use(results: Results, scenario: str, metric: str) -> Summary:
    pairs = zip(results.per_repeat(scenario, metric), results.per_repeat(scenario, OVER_USE), strict=True)
    return summarise([value for (value, _), (over_use, _) in pairs if over_use and value is not None])


class Changes(Check):
    """Checks the changes of a metric in some conditions against bounds in per cent.

    Each change must be significant, and its interval must overlap the bounds. With ``stays_within``, its
    interval must instead be within this many per cent of no change.
    """

    one_of: ClassVar[tuple[str, ...]] = (*Check.one_of, "stays_within")

    metric: Metric
    pairs: tuple[Pair, ...] = Field(min_length=1)
    stays_within: float | None = None

    @property
    def needs(self) -> list[Need]:
        """What must be measured, with both settings of each condition."""
        return [
            (scenario, name)
            for pair in self.pairs
            for scenario in (pair.before, pair.after)
            for name in (self.metric, OVER_USE)
        ]

    def check(self, results: Results) -> Finding:
        """Whether all changes pass, and the changes as text."""
        found = [change(results, pair, self.metric) for pair in self.pairs]
        return Finding(all(map(self._holds, found)), _listed(found))

    def _holds(self, one: Change) -> bool:
        low, high = one.percent - one.ci95(), one.percent + one.ci95()
        if self.bounds is None:
            limit = self.stays_within or 0
            return -limit <= low and high <= limit
        significant = abs(one.percent) > one.ci95()
        return significant and high >= self.bounds[0] and low <= self.bounds[1]


def _listed(found: Sequence[Change]) -> str:
    if not any(one.before.repeats or one.after.repeats for one in found):
        return NO_SESSION
    sessions = max(one.pair.sessions for one in found)
    hidden = [one.pair.label for one in found if one.hidden]
    which = "" if len(hidden) == len(found) else f" ({', '.join(hidden)})"
    seen = f"; not distinguishable in {sessions} sessions{which}" if hidden else ""
    return "; ".join(map(str, found)) + seen
