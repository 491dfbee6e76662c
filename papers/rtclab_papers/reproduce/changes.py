"""Effects of changing one setting, and how often as few sessions as a paper's would show them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, nan, prod

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rtclab.metrics import Summary, share_of_samples, summarise
from rtclab.scenario import Table
from rtclab_papers.reproduce.estimate import SMALLEST, Outcome, estimate_of
from rtclab_papers.reproduce.measurements import Measurements, mean_of_known
from rtclab_papers.reproduce.measures import OVER_USE
from rtclab_papers.reproduce.published_cells import Metric
from rtclab_papers.reproduce.trends import Check, Finding, Need

NO_SESSION = "no session with over-use"


class SettingPair(Table):
    """A condition that a paper ran with two settings, each in this many ``sessions``.

    ``before`` and ``after`` are the scenarios with the first and the second setting.
    """

    label: str
    before: str
    after: str
    sessions: int


class Reading(Table):
    """A way to read the paper: variants of the scenarios before and after the change.

    ``before`` and ``after`` follow the names of the scenarios. An ``extra`` reading runs only on request.
    """

    label: str = ""
    before: str = ""
    after: str = ""
    extra: bool = False


@dataclass(frozen=True)
class Change:
    """A metric of a condition with both settings, in the repeats that have over-use with both.

    With ``in_points`` the change is in the unit of the metric, such as percentage points, else in per cent.
    Repeats with the same number have the same seed, so they are equal until the first over-use.
    """

    pair: SettingPair
    before: dict[int, float]
    after: dict[int, float]
    in_points: bool = False

    @cached_property
    def of_repeats(self) -> dict[int, float]:
        """The change in each repeat: in per cent of the first mean (NaN if that is 0), or in points."""
        mean = float(np.mean([*self.before.values()])) if self.before else nan
        unit = 1 if self.in_points else (mean or nan) / 100
        return {repeat: (self.after[repeat] - before) / unit for repeat, before in self.before.items()}

    @cached_property
    def percent(self) -> Summary:
        """The mean change, with its 95 % interval (t of the paired differences)."""
        return summarise([*self.of_repeats.values()])

    def __str__(self) -> str:
        if len(self.before) < 2:
            return f"{self.pair.label}: over-use in {len(self.before)} sessions"
        if isnan(self.percent.mean):
            return f"{self.pair.label}: {'from 0' if any(self.after.values()) else '0 with both'}"
        return f"{self.pair.label}: {_with_interval(self.percent, self.in_points)}"


def change(results: Measurements, pair: SettingPair, metric: str, *, in_points: bool = False) -> Change:
    """The change of a metric in a condition."""
    before, after = (_with_over_use(results, name, metric) for name in (pair.before, pair.after))
    both = sorted(before.keys() & after.keys())
    first, second = ({repeat: of[repeat] for repeat in both} for of in (before, after))
    return Change(pair, first, second, in_points)


def _with_over_use(results: Measurements, scenario: str, metric: str) -> dict[int, float]:
    over_use = results.numbered(scenario, OVER_USE)
    values = results.numbered(scenario, metric)
    return {
        repeat: value for repeat, (value, _) in values.items() if over_use[repeat][0] and value is not None
    }


def mean_change(changes: Sequence[Change]) -> Summary:
    """The mean over conditions of their changes, with the interval over repeats.

    Conditions share their seeds, and so the drawn values of a repeat. That is why a repeat counts once.
    """
    repeats = sorted({repeat for one in changes for repeat in one.of_repeats})
    return summarise([mean_of_known(one.of_repeats.get(repeat) for one in changes) for repeat in repeats])


class Changes(Check):
    """Checks the changes of a metric in some conditions against bounds in per cent, or in percentage points.

    They are kept if the 95 % interval of their mean is between the bounds. The first of the ``readings``
    decides.
    """

    metric: Metric
    pairs: tuple[SettingPair, ...] = Field(min_length=1)
    readings: tuple[Reading, ...] = (Reading(),)
    in_points: bool = False

    @property
    def needs(self) -> list[Need]:
        """What must be measured, with both settings of each condition, in the readings that always run."""
        return self._needs_of(one for one in self.readings if not one.extra)

    @property
    def extra_needs(self) -> list[Need]:
        """What must be measured for the readings that run only on request."""
        return self._needs_of(one for one in self.readings if one.extra)

    def _needs_of(self, readings: Iterable[Reading]) -> list[Need]:
        pairs = [pair for one in readings for pair in self._pairs_in(one)]
        scenarios = dict.fromkeys(name for pair in pairs for name in (pair.before, pair.after))
        return [(scenario, name) for scenario in scenarios for name in (self.metric, OVER_USE)]

    def _pairs_in(self, reading: Reading) -> list[SettingPair]:
        return [
            pair.model_copy(
                update={"before": pair.before + reading.before, "after": pair.after + reading.after}
            )
            for pair in self.pairs
        ]

    def found(self, results: Measurements) -> dict[str, list[Change]]:
        """The changes in each reading that was run, by its label."""
        return {
            one.label: [
                change(results, pair, self.metric, in_points=self.in_points) for pair in self._pairs_in(one)
            ]
            for one in self.readings
            if all(results.repeats_of(scenario) for scenario, _ in self._needs_of([one]))
        }

    def check(self, results: Measurements) -> Finding:
        """Whether the changes pass in the first reading, and these changes as text."""
        first = next(iter(self.found(results).values()))
        outcome, repeats = self.judge(first)
        return Finding(outcome, self._in_full(first), repeats)

    def judge(self, found: Sequence[Change]) -> tuple[Outcome, float]:
        """The outcome of the changes, and about how many sessions would decide it."""
        estimate = estimate_of(mean_change(found))
        low, high = self.bounds or (-inf, inf)
        # No change at all is not a change in the printed direction.
        low, high = (SMALLEST if low == 0 else low), (-SMALLEST if high == 0 else high)
        return estimate.within(low, high), estimate.repeats_needed(low, high)

    def in_short(self, found: Sequence[Change]) -> str:
        """The mean change with its interval."""
        if not any(one.before for one in found):
            return NO_SESSION
        mean = mean_change(found)
        return "nothing to compare" if isnan(mean.mean) else _with_interval(mean, self.in_points)

    def _in_full(self, found: Sequence[Change]) -> str:
        if not any(one.before for one in found):
            return NO_SESSION
        chance, real = (self._share(found, with_change=given) for given in (False, True))
        mean = [f"mean {self.in_short(found)}"] if len(found) > 1 else []
        shares = (
            f"as printed in {_in_words(chance)} of samples of {found[0].pair.sessions} sessions by chance, "
            f"in {_in_words(real)} with the change"
        )
        return "; ".join([*map(str, found), *mean, shares])

    def _share(self, found: Sequence[Change], *, with_change: bool) -> float:
        """Share of samples in which all conditions show at least the printed change.

        A sample has as many sessions of each condition and setting as the paper ran. Without the change, both
        settings are sampled from the sessions with the first one.
        """
        return prod(
            share_of_samples(
                [*one.before.values()],
                [*(one.after if with_change else one.before).values()],
                one.pair.sessions,
                self.as_printed,
                in_points=self.in_points,
            )
            for one in found
        )

    def as_printed(self, changes: NDArray[np.float64]) -> NDArray[np.bool_]:
        """Whether a change has the printed sign and at least the printed size; without size, the sign.

        If the bounds have different signs: whether it is between them.
        """
        low, high = (self.near, self.near) if self.near is not None else self.between or (-inf, inf)
        if low > 0 or high < 0:
            return changes >= low if low > 0 else changes <= high
        if low < 0 < high:
            return (changes >= low) & (changes <= high)
        return changes > 0 if low == 0 else changes < 0


def _with_interval(change: Summary, in_points: bool) -> str:
    digits, unit = (3, "points") if in_points else (1, "%")
    mean = f"{round(change.mean, digits) + 0:+.{digits}f}".replace("-", "−")
    return f"{mean} ± {0.0 if change.sd == 0 else change.ci95:.{digits}f} {unit}"


def _in_words(share: float) -> str:
    if isnan(share):
        return "–"
    return "less than 0.1 %" if share < 0.001 else f"{100 * share:.{0 if share >= 0.095 else 1}f} %"
