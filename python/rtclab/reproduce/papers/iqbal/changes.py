"""Dynamic against fixed decrease factor: how much changes, and whether the paper could have seen it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import isnan, nan

from rtclab.metrics.statistics import Summary, summarise, welch
from rtclab.reproduce.paper import Finding
from rtclab.reproduce.papers.iqbal.conditions import FLOW, OVER_USE, Condition
from rtclab.reproduce.results import Results
from rtclab.reproduce.trends import Check
from rtclab.reproduce.verdict import RELATIVE

NO_SESSION = "no session with over-use"


@dataclass(frozen=True)
class Change:
    """Mean with the dynamic factor minus that with the fixed one, in per cent of that.

    Only sessions with over-use count, as in the paper. ``ci95`` is half the Welch interval of our sessions,
    ``papers_ci95`` half that of as many sessions as the paper ran with the deviations of ours. All are NaN
    without two sessions on each side, or where the fixed mean is 0.
    """

    condition: Condition
    sessions: tuple[int, int]
    percent: float
    ci95: float
    papers_ci95: float

    @property
    def known(self) -> bool:
        """Whether there is anything to compare."""
        return not isnan(self.percent) and not isnan(self.ci95)

    @property
    def hidden(self) -> bool:
        """Whether as many sessions as the paper ran could not have told it from no change."""
        return self.known and abs(self.percent) <= self.papers_ci95

    @property
    def significant(self) -> bool:
        """Whether the interval excludes no change at all."""
        return self.known and abs(self.percent) > self.ci95

    def __str__(self) -> str:
        if min(self.sessions) < 2:
            return f"{self.condition.words}: over-use in {max(self.sessions)} sessions"
        if not self.known:
            return f"{self.condition.words}: 0 with both"
        return f"{self.condition.words}: {signed(self.percent)} ± {self.ci95:.1f} %"


def change(results: Results, condition: Condition, metric: str) -> Change:
    """The change of a metric in one condition."""
    fixed, dynamic = (_with_over_use(results, name, metric) for name in (condition.fixed, condition.dynamic))
    percent = 100 / fixed.mean if fixed.mean else nan
    n = condition.sessions
    papers = _half_width(replace(fixed, repeats=n), replace(dynamic, repeats=n))
    ours = _half_width(fixed, dynamic)
    return Change(
        condition,
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


def changes_within(conditions: Sequence[Condition], metric: str, low: float, high: float) -> Check:
    """In every condition the metric changes, significantly, by something between two bounds in per cent.

    A change counts as between them if its interval overlaps theirs.
    """

    def keeps(one: Change) -> bool:
        return one.significant and one.percent + one.ci95 >= low and one.percent - one.ci95 <= high

    return _every(conditions, metric, keeps)


def changes_by(conditions: Sequence[Condition], metric: str, percent: float) -> Check:
    """As printed, within the tolerance of printed rates and delays."""
    bounds = sorted((percent * (1 - RELATIVE), percent * (1 + RELATIVE)))
    return changes_within(conditions, metric, *bounds)


def stays(conditions: Sequence[Condition], metric: str, within: float) -> Check:
    """In every condition the interval of the change lies within so many per cent of none."""
    return _every(conditions, metric, lambda one: one.known and abs(one.percent) + one.ci95 <= within)


def _every(conditions: Sequence[Condition], metric: str, keeps: Callable[[Change], bool]) -> Check:
    def check(results: Results) -> Finding:
        found = [change(results, condition, metric) for condition in conditions]
        return Finding(all(map(keeps, found)), _listed(found))

    return check


def _listed(found: Sequence[Change]) -> str:
    if not any(sessions for one in found for sessions in one.sessions):
        return NO_SESSION
    sessions = max(one.condition.sessions for one in found)
    hidden = [one.condition.words for one in found if one.hidden]
    which = "" if len(hidden) == len(found) else f" ({', '.join(hidden)})"
    seen = f"; not distinguishable in {sessions} sessions{which}" if hidden else ""
    return "; ".join(map(str, found)) + seen


def signed(value: float) -> str:
    """With its sign and one decimal."""
    return f"{round(value, 1) + 0:+.1f}".replace("-", "−")
