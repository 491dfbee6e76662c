"""Numbers over all repeats, their 95 % intervals, and what an interval says about bounds."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import ceil, inf, isnan, nan, sqrt

import numpy as np

from rtclab.metrics import Array, Proportion, Summary, t_quantile
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

    def repeats_to_decide(self, low: float, high: float) -> float:
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


@dataclass(frozen=True)
class Statistic:
    """A number computed from all repeats, and the same number computed without each of them.

    ``without`` has a value for each repeat, NaN if the repeat was not measured. What is computed from such
    numbers, like a ratio, is computed in the same way without each repeat, so it has an interval, too.
    """

    whole: float
    without: Array

    @classmethod
    def mean(cls, values: Sequence[float]) -> Statistic:
        """The mean of one value per repeat. NaN values are left out."""
        given = np.array(values, dtype=float)
        count = int(np.count_nonzero(~np.isnan(given)))
        if count == 0:
            return cls(nan, np.full(given.size, nan))
        total = float(np.nansum(given))
        without = (total - given) / (count - 1) if count > 1 else np.full(given.size, nan)
        return cls(total / count, without)

    @classmethod
    def constant(cls, value: float) -> Statistic:
        """A number that does not depend on the repeats."""
        return cls(value, np.empty(0))

    def estimate(self) -> Estimate:
        """The number with its interval, by the jackknife. For a mean this is Student's interval.

        Source: J. W. Tukey, "Bias and confidence in not-quite large samples", Annals of Mathematical
        Statistics 29 (1958); the standard error is that of B. Efron, C. Stein, Annals of Statistics 9 (1981).
        """
        if isnan(self.whole):
            return Estimate(nan, nan, nan, 0)
        if not self.without.size:
            return exactly(self.whole)
        known = self.without[~np.isnan(self.without)]
        if known.size < 2:
            return Estimate(self.whole, nan, nan, 1)
        # Rounding gives equal values a deviation of 1e-16.
        spread = known - known.mean() if np.ptp(known) > 1e-12 * abs(self.whole) else np.zeros(known.size)
        error = sqrt((known.size - 1) / known.size * float((spread**2).sum()))
        half = t_quantile(known.size - 1) * error
        return Estimate(self.whole, self.whole - half, self.whole + half, known.size)


def combine(function: Callable[[Array], Array], parts: Sequence[Statistic]) -> Statistic:
    """A statistic computed from others, such as their mean or sum.

    ``function`` reduces the first axis of an array of shape (parts, 1 + repeats). Parts with fewer repeats
    than others do not change without the repeats that they lack.
    """
    if not parts:
        return Statistic.constant(nan)
    most = max(part.without.size for part in parts)
    table = np.array(
        [[part.whole, *part.without, *[part.whole] * (most - part.without.size)] for part in parts]
    )
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
        reduced = function(table)
    return Statistic(float(reduced[0]), reduced[1:])


def mean_of(parts: Sequence[Statistic]) -> Statistic:
    """The mean of the parts that are known."""
    return combine(lambda table: np.nanmean(table, axis=0), parts)
