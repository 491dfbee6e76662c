"""How controls stand to each other over cases: ranks, ratios to the best, and what is within chance.

Values have the shape (controls, cases, repeats). Repeats of a case have the same seeds for all controls, so
they are drawn together. NaN is an unknown value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rtclab.metrics import holm, t_quantile, wilcoxon
from rtclab.metrics.series import Array
from rtclab.metrics.statistics import NORMAL_QUANTILE

DRAWS = 4000
"""Number of draws of a bootstrap; with many cases the ends of a 95 % interval rest on 100 draws each."""
SEED = 1


def per_case(values: Array) -> Array:
    """Means over the known repeats, of shape (controls, cases); NaN without any."""
    known = ~np.isnan(values)
    sums, counts = np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1)
    means: Array = np.divide(sums, counts, out=np.full(sums.shape, nan), where=counts > 0)
    return means


def drawn(values: Array, draws: int = DRAWS) -> Array:
    """Means per case of bootstrap samples, of shape (controls, draws, cases).

    Each sample draws cases first, and then repeats of each drawn case, both with replacement. Repeats of one
    case are not independent, so drawing repeats alone would give intervals that are too narrow.
    """
    _, cases, repeats = values.shape
    source = np.random.default_rng(SEED)
    which = source.integers(cases, size=(draws, cases))
    of_case = source.integers(repeats, size=(draws, cases, repeats))
    return np.stack([per_case(own[which[..., None], of_case]) for own in values])


def ranks(means: Array, better: str) -> Array:
    """The rank of each control in each case, 1 for the best; equal values share the mean of their ranks.

    The first axis are the controls. An unknown value shares the last ranks.
    """
    worst = np.where(np.isnan(means), np.inf, -means if better == "higher" else means)
    found: Array = np.stack(
        [1 + (worst < own).sum(axis=0) + ((worst == own).sum(axis=0) - 1) / 2 for own in worst]
    )
    return found


def interval(samples: Array, cases: int) -> tuple[float, float]:
    """The ends of the 95 % interval of bootstrap samples over a number of cases; NaN if one is unknown.

    Plain percentiles are too narrow for few cases. These are further out, as Student's t is further out than
    the normal distribution; of one case they are plain.

    Source: T. Hesterberg, The American Statistician 69 (2015), pages 371 to 386: expanded percentiles.
    """
    if np.isnan(samples).any():
        return nan, nan
    wide = sqrt(cases / (cases - 1)) * t_quantile(cases - 1) if cases > 1 else NORMAL_QUANTILE
    outside = 100 * NormalDist().cdf(-wide)
    low, high = np.percentile(samples, (outside, 100 - outside))
    return float(low), float(high)


def scores(means: Array, better: str, grain: float) -> Array:
    """How near each value is to the best of its case: 1 for the best, 0.5 for half as good.

    Higher values are divided by the best. The best of lower values is divided by them, with ``grain`` added
    to both, because below it a difference means nothing: 0.1 ms of queue is not ten times worse than 0.01 ms.
    """
    shifted = means + grain
    if better == "higher":
        best = np.fmax.reduce(shifted, axis=0)
        return np.asarray(np.divide(shifted, best, out=np.full(means.shape, nan), where=best > 0))
    return np.asarray(np.fmin.reduce(shifted, axis=0) / shifted)


@dataclass(frozen=True)
class Ranking:
    """The controls of a metric, best first.

    Attributes:
        order: the numbers of the controls.
        mean: the mean rank over cases, by control.
        low: lower end of its 95 % interval.
        high: upper end.
        bars: groups of at least two neighbours in ``order``, by their first and last place in it, between
            which no pair is more than chance apart.
        apart: the pairs that are more than chance apart.
        cases: number of cases.
    """

    order: tuple[int, ...]
    mean: Array
    low: Array
    high: Array
    bars: tuple[tuple[int, int], ...]
    apart: frozenset[frozenset[int]]
    cases: int


def ranking(values: Array, better: str) -> Ranking:
    """Ranks the controls over cases, with bootstrap intervals, and tests every pair.

    Pairs are tested with Wilcoxon's signed ranks of the differences per case, and Holm's procedure over all
    pairs of the metric. Cases in which either is unknown are left out of the test of a pair.
    """
    means = per_case(values)
    mean = ranks(means, better).mean(axis=1)
    samples = ranks(drawn(values), better).mean(axis=2)
    ends = [interval(own, means.shape[1]) for own in samples]
    order = tuple(sorted(range(len(values)), key=lambda index: (mean[index], index)))
    pairs = list(combinations(range(len(values)), 2))
    known = [(means[a] - means[b]) for a, b in pairs]
    marks = holm([wilcoxon(of[~np.isnan(of)].tolist()) for of in known])
    apart = frozenset(frozenset(pair) for pair, mark in zip(pairs, marks, strict=True) if mark)
    low, high = (np.array(of) for of in zip(*ends, strict=True))
    return Ranking(order, mean, low, high, _bars(order, apart), apart, means.shape[1])


def _bars(order: Sequence[int], apart: frozenset[frozenset[int]]) -> tuple[tuple[int, int], ...]:
    """The longest stretches of the order within which no pair is apart."""
    found: list[tuple[int, int]] = []
    for first in range(len(order)):
        last = first
        while last + 1 < len(order) and not any(
            frozenset((order[last + 1], order[index])) in apart for index in range(first, last + 1)
        ):
            last += 1
        if last > first and not (found and found[-1][1] >= last):
            found.append((first, last))
    return tuple(found)


@dataclass(frozen=True)
class Winner:
    """The best control of some cases, and by how much it is better than the best of all others.

    Attributes:
        control: its number.
        second: number of the best of the others; None if there is none.
        value: its mean over the cases.
        margin: by how much better its mean is than the mean of the second.
        low: lower end of the 95 % interval of the margin over whichever other is best.
        high: upper end.
    """

    control: int
    second: int | None
    value: float
    margin: float
    low: float
    high: float

    @property
    def certain(self) -> bool:
        """Whether the margin is more than chance."""
        return self.low > 0


def winner(values: Array, better: str) -> Winner | None:
    """The winner over cases; None if no control is known in all of them.

    A control that is unknown in a case takes no part.
    """
    whole = np.flatnonzero(~np.isnan(per_case(values)).any(axis=1))
    if not whole.size or not values.shape[1]:
        return None
    sign = 1 if better == "higher" else -1
    means = sign * per_case(values[whole]).mean(axis=1)
    order = sorted(range(whole.size), key=lambda index: (-means[index], index))
    first = order[0]
    if len(order) == 1:
        return Winner(int(whole[first]), None, float(sign * means[first]), nan, nan, nan)
    samples = sign * drawn(values[whole]).mean(axis=2)
    others = np.delete(samples, first, axis=0).max(axis=0)
    low, high = interval(samples[first] - others, values.shape[1])
    margin = float(means[first] - means[order[1]])
    return Winner(int(whole[first]), int(whole[order[1]]), float(sign * means[first]), margin, low, high)


def front(right: Array, up: Array) -> NDArray[np.bool_]:
    """Which points nobody beats: with a smaller ``right`` and a larger ``up``, or one of them equal."""
    known = ~(np.isnan(right) | np.isnan(up))
    beaten = [
        bool(((right <= x) & (up >= y) & ((right < x) | (up > y)) & known).any())
        for x, y in zip(right.tolist(), up.tolist(), strict=True)
    ]
    return np.asarray(known & ~np.array(beaten, dtype=bool))
