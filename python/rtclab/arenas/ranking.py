"""Rankings of controls over cases: ranks, ratios to the best, and what is within chance.

Values have the shape (controls, cases, repeats). Repeats of a case have the same seeds for all controls. NaN
is an unknown value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import nan

import numpy as np
from numpy.typing import NDArray

from rtclab.metrics.series import Array
from rtclab.metrics.statistics import (
    bootstrap_over_cases,
    expanded_percentiles,
    means_of_known,
    signed_ranks_of_pairs,
)


def ranks(means: Array, better: str) -> Array:
    """The rank of each control in each case, 1 for the best; equal values share the mean of their ranks.

    The first axis are the controls. An unknown value shares the last ranks.
    """
    worst = np.where(np.isnan(means), np.inf, -means if better == "higher" else means)
    found: Array = np.stack(
        [1 + (worst < own).sum(axis=0) + ((worst == own).sum(axis=0) - 1) / 2 for own in worst]
    )
    return found


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
        p: the p-value of each pair of controls, by their numbers.
        apart: the pairs that are more than chance apart.
        cases: number of cases.
    """

    order: tuple[int, ...]
    mean: Array
    low: Array
    high: Array
    bars: tuple[tuple[int, int], ...]
    p: Mapping[frozenset[int], float]
    apart: frozenset[frozenset[int]]
    cases: int


def ranking(values: Array, better: str) -> Ranking:
    """Ranks the controls over cases, with bootstrap intervals, and tests every pair by its signed ranks."""
    means = means_of_known(values)
    mean = ranks(means, better).mean(axis=1)
    samples = ranks(bootstrap_over_cases(values), better).mean(axis=2)
    ends = [expanded_percentiles(own, means.shape[1]) for own in samples]
    order = tuple(sorted(range(len(values)), key=lambda index: (mean[index], index)))
    tested = {frozenset(pair): of for pair, of in signed_ranks_of_pairs(means).items()}
    p = {pair: one for pair, (one, _) in tested.items()}
    apart = frozenset(pair for pair, (_, mark) in tested.items() if mark)
    low, high = (np.array(of) for of in zip(*ends, strict=True))
    return Ranking(order, mean, low, high, _bars(order, apart), p, apart, means.shape[1])


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
    """The best control of some cases, and its lead over the runner-up.

    Attributes:
        control: its number.
        second: number of the runner-up; None if there is none.
        value: its mean over the cases.
        margin: by how much better its mean is than the runner-up's.
        low: lower end of the 95 % interval of the lead over the runner-up.
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
    whole = np.flatnonzero(~np.isnan(means_of_known(values)).any(axis=1))
    if not whole.size or not values.shape[1]:
        return None
    sign = 1 if better == "higher" else -1
    means = sign * means_of_known(values[whole]).mean(axis=1)
    order = sorted(range(whole.size), key=lambda index: (-means[index], index))
    first = order[0]
    if len(order) == 1:
        return Winner(int(whole[first]), None, float(sign * means[first]), nan, nan, nan)
    samples = sign * bootstrap_over_cases(values[whole]).mean(axis=2)
    others = np.delete(samples, first, axis=0).max(axis=0)
    low, high = expanded_percentiles(samples[first] - others, values.shape[1])
    margin = float(means[first] - means[order[1]])
    return Winner(int(whole[first]), int(whole[order[1]]), float(sign * means[first]), margin, low, high)


def front(right: Array, up: Array) -> NDArray[np.bool_]:
    """The Pareto front: the points that no other dominates, where ``right`` is small and ``up`` is large."""
    known = ~(np.isnan(right) | np.isnan(up))
    beaten = [
        bool(((right <= x) & (up >= y) & ((right < x) | (up > y)) & known).any())
        for x, y in zip(right.tolist(), up.tolist(), strict=True)
    ]
    return np.asarray(known & ~np.array(beaten, dtype=bool))
