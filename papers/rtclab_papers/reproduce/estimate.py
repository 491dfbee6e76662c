"""Numbers over all repeats, their 95 % intervals, and what an interval says about bounds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf, isnan, nan

import numpy as np

from rtclab.metrics import Jackknife, Proportion, Summary
from rtclab.report import number


class Outcome(StrEnum):
    """What our repeats say about a published number or statement."""

    KEPT = "kept"
    CONTRADICTED = "contradicted"
    UNDECIDED = "undecided"
    UNTESTABLE = "untestable here"
    MISSING = "not measured"


SMALLEST = float(np.finfo(float).tiny)
"""The smallest difference that is one. What equals zero has neither risen nor fallen."""


@dataclass(frozen=True)
class Estimate:
    """A number, the ends of its 95 % interval, and the number of repeats behind it.

    The ends are NaN if there are fewer than two repeats, and equal if nothing varies.
    """

    value: float
    low: float
    high: float
    repeats: int

    @property
    def half(self) -> float:
        """Half the width of the interval."""
        return (self.high - self.low) / 2

    def within(self, low: float, high: float) -> Outcome:
        """Whether the number is between two bounds: undecided if its interval crosses one of them."""
        if isnan(self.value):
            return Outcome.MISSING
        if self.low >= low and self.high <= high:
            return Outcome.KEPT
        if self.high < low or self.low > high:
            return Outcome.CONTRADICTED
        return Outcome.UNDECIDED

    def repeats_needed(self, low: float, high: float) -> float:
        """About how many repeats make the interval so narrow that it crosses neither bound.

        The width of an interval falls with the square root of the number of repeats. Infinite if the number
        is on a bound, or if there are too few repeats to tell.
        """
        distance = min(abs(self.value - bound) for bound in (low, high))
        if isnan(self.half) or distance == 0:
            return inf
        return ceil(self.repeats * (self.half / distance) ** 2)

    def __str__(self) -> str:
        if isnan(self.value) or isnan(self.half) or self.half == 0:
            return number(self.value)
        return f"{number(self.value, self.value)} ± {number(self.half, self.value)}"


def estimate_of(summary: Summary) -> Estimate:
    """The mean of a summary with Student's interval, which has no width if all values are equal."""
    half = 0.0 if summary.sd == 0 else summary.ci95
    return Estimate(summary.mean, summary.mean - half, summary.mean + half, summary.repeats)


def exactly(value: float) -> Estimate:
    """A number without uncertainty, such as one from an equation."""
    return Estimate(value, value, value, 1)


def proportion(values: Iterable[float]) -> Estimate:
    """The mean of values of 0 or 100 %, one for each repeat, with Wilson's interval."""
    known = [value for value in values if not isnan(value)]
    share = Proportion(len(known), float(np.mean(known)) if known else nan)
    return Estimate(share.mean, share.ci95_low, share.ci95_high, len(known))


def jackknifed(number: Jackknife) -> Estimate:
    """A number with its jackknife interval."""
    return Estimate(number.whole, *number.interval())


def mean_of(parts: Sequence[Jackknife]) -> Jackknife:
    """The mean of the parts that are known."""
    return Jackknife.combine(lambda table: np.nanmean(table, axis=0), parts)
