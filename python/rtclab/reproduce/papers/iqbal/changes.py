"""What the dynamic decrease factor changes, and whether as few sessions as the paper ran could show it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import isnan, nan
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, InstanceOf

from rtclab.metrics.statistics import Summary, summarise, welch
from rtclab.reproduce.papers.iqbal.pairs import FLOW, OVER_USE, Pair, labelled
from rtclab.reproduce.results import Results
from rtclab.reproduce.trends import Check, Finding

NO_SESSION = "no session with over-use"


@dataclass(frozen=True)
class Change:
    """The mean with the dynamic factor minus the mean with the fixed one, in per cent of the latter.

    Only sessions with over-use count, as in the paper. ``ci95`` is half the Welch interval of our sessions,
    ``papers_ci95`` half that of as many sessions as the paper ran with the deviations of ours. All are NaN
    without two sessions on each side, or where the fixed mean is 0.
    """

    pair: Pair
    sessions: tuple[int, int]
    percent: float
    ci95: float
    papers_ci95: float

    @property
    def known(self) -> bool:
        """Whether both sides have enough sessions to compare."""
        return not isnan(self.percent) and not isnan(self.ci95)

    @property
    def hidden(self) -> bool:
        """Whether as many sessions as the paper ran could not tell it from no change."""
        return self.known and abs(self.percent) <= self.papers_ci95

    @property
    def significant(self) -> bool:
        """Whether the interval excludes 0."""
        return self.known and abs(self.percent) > self.ci95

    def __str__(self) -> str:
        if min(self.sessions) < 2:
            return f"{self.pair.label}: over-use in {max(self.sessions)} sessions"
        if not self.known:
            return f"{self.pair.label}: 0 with both"
        return f"{self.pair.label}: {signed(self.percent)} ± {self.ci95:.1f} %"


def change(results: Results, pair: Pair, metric: str) -> Change:
    """The change of a metric in one condition."""
    fixed, dynamic = (_with_over_use(results, name, metric) for name in (pair.fixed, pair.dynamic))
    percent = 100 / fixed.mean if fixed.mean else nan
    n = pair.sessions
    papers = _half_width(replace(fixed, repeats=n), replace(dynamic, repeats=n))
    ours = _half_width(fixed, dynamic)
    return Change(
        pair,
        (fixed.repeats, dynamic.repeats),
        percent * (dynamic.mean - fixed.mean),
        percent * ours,
        percent * papers,
    )


def _half_width(fixed: Summary, dynamic: Summary) -> float:
    """Half the Welch interval of the difference; 0 where neither side has any spread."""
    return 0.0 if fixed.sd == dynamic.sd == 0 else welch(fixed, dynamic).ci95


def _with_over_use(results: Results, scenario: str, metric: str) -> Summary:
    pairs = zip(
        results.per_repeat(scenario, metric, FLOW), results.per_repeat(scenario, OVER_USE, FLOW), strict=True
    )
    return summarise([value for (value, _), (seen, _) in pairs if seen and value is not None])


class Changes(Check):
    """The changes of a metric in some conditions meet bounds in per cent.

    Each change must be significant, and its interval must overlap the bounds. With ``stays_within`` its
    interval must lie within so many per cent of no change.
    """

    one_of: ClassVar[tuple[str, ...]] = (*Check.one_of, "stays_within")

    metric: str
    pairs: tuple[Annotated[InstanceOf[Pair], BeforeValidator(labelled)], ...] = Field(min_length=1)
    stays_within: float | None = None

    @property
    def scenarios(self) -> list[str]:
        """Both scenarios of each condition."""
        return [name for pair in self.pairs for name in (pair.fixed, pair.dynamic)]

    def check(self, results: Results) -> Finding:
        """Whether all changes meet the condition, and what they are."""
        found = [change(results, pair, self.metric) for pair in self.pairs]
        return Finding(all(map(self._keeps, found)), _listed(found))

    def _keeps(self, one: Change) -> bool:
        if self.bounds is None:
            return one.known and abs(one.percent) + one.ci95 <= (self.stays_within or 0)
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


def signed(value: float) -> str:
    """The value with its sign and one decimal."""
    return f"{round(value, 1) + 0:+.1f}".replace("-", "−")
