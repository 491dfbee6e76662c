"""The two-sample test of Kolmogorov and Smirnov with exact probabilities, also with equal values."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import comb

import numpy as np

from rtclab.metrics import Array

POWER = 0.8
"""Probability with which a difference is seen that counts as visible."""
SAMPLES = 4000
"""Random samples from which the power is estimated: its standard error is below 0.8 %."""
LARGEST_SHIFT = 4.0
SHIFT_STEP = 0.1


def ks_p(a: Sequence[float], b: Sequence[float]) -> float:
    """The probability of two samples at least this different if both are of one distribution.

    The difference is the largest distance of the two empirical distributions. The probability is over all
    ways to divide the pooled values into samples of these sizes, so it is exact with equal values, too.

    Source: J. L. Hodges, Arkiv för Matematik 3 (1958), section 5 (paths in a lattice); with equal values
    G. Schröer and D. Trenkler, Computational Statistics & Data Analysis 20 (1995).

    Raises:
        ValueError: a sample is empty.
    """
    if not a or not b:
        raise ValueError("a sample is empty")
    pooled = np.sort(np.concatenate([a, b]))
    # After each of these positions a larger value comes; only there are the distributions compared.
    ends = np.flatnonzero(np.diff(pooled) > 0) + 1
    first = np.searchsorted(np.sort(a), pooled[ends - 1], side="right")
    distances = np.abs(first * len(b) - (ends - first) * len(a))
    return _p(len(a), len(b), int(distances.max(initial=0)), tuple(ends.tolist()))


@cache
def _p(m: int, n: int, distance: int, ends: tuple[int, ...]) -> float:
    """The share of the paths from (0, 0) to (m, n) that are somewhere at least ``distance`` away.

    A path goes right for each value of the first sample and up for each one of the second. At (i, j) the
    distributions are ``abs(i / m - j / n)`` apart; ``distance`` is the multiple of m n. It counts where
    i + j is in ``ends``.
    """
    if distance <= 0:
        return 1.0
    compared = frozenset(ends)
    close = [0] * (n + 1)  # by j, the paths to (i, j) that were never that far away
    for i in range(m + 1):
        for j in range(n + 1):
            here = 1 if i == j == 0 else (close[j] if i else 0) + (close[j - 1] if j else 0)
            far = i + j in compared and abs(i * n - j * m) >= distance
            close[j] = 0 if far else here
    paths = comb(m + n, m)
    return (paths - close[n]) / paths


def visible_shift(m: int, n: int, level: float) -> float:
    """The shift that the test sees with probability ``POWER``, in standard deviations of a normal variable.

    For samples of ``m`` and ``n`` values and tests at ``level``. From random samples with a fixed seed, in
    steps of 0.1; infinite above 4.
    """
    ends = tuple(range(1, m + n))
    needed = next((d for d in range(1, m * n + 1) if _p(m, n, d, ends) <= level), None)
    if needed is None:
        return float("inf")
    source = np.random.default_rng(1)
    first, second = source.normal(size=(SAMPLES, m)), source.normal(size=(SAMPLES, n))
    for step in range(round(LARGEST_SHIFT / SHIFT_STEP) + 1):
        shift = step * SHIFT_STEP
        if float((_distances(first + shift, second) >= needed).mean()) >= POWER:
            return round(shift, 1)
    return float("inf")


def _distances(first: Array, second: Array) -> Array:
    """The largest distance of each pair of rows, as a multiple of the product of their lengths."""
    m, n = first.shape[1], second.shape[1]
    order = np.argsort(np.concatenate([first, second], axis=1), axis=1)
    walk = np.cumsum(np.where(order < m, n, -m), axis=1)
    return np.asarray(np.abs(walk).max(axis=1))
