"""Series of several repeats as one: mean, smallest and largest of each second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rtclab.metrics.series import Array, IntegerArray, Samples

MOST_POINTS = 600
"""Points of a line; more than a screen can show only make the page heavy."""
LEAST_POINTS = 100
MOST_POINTS_OF_A_PLOT = 2400


@dataclass(frozen=True)
class Band:
    """Mean, smallest and largest over repeats, each of shape (points,), at the middle of its step."""

    at_s: Array
    mean: Array
    low: Array
    high: Array


def band(
    repeats: Sequence[Samples],
    points: int,
    lows: Sequence[Samples] = (),
    highs: Sequence[Samples] = (),
) -> Band:
    """The repeats second by second, or in longer steps where that would be more than ``points`` values.

    ``lows`` and ``highs`` stand in for the repeats in the smallest and largest value.
    """
    pooled = _pooled(repeats)
    end_s = float(pooled.at_s[-1]) + 1 if pooled.at_s.size else 0.0
    step_s = max(1.0, np.ceil(end_s / points))
    steps, mean = _reduced(pooled, step_s, _mean)
    _, low = _reduced(_pooled(lows) if lows else pooled, step_s, np.minimum.reduceat)
    _, high = _reduced(_pooled(highs) if highs else pooled, step_s, np.maximum.reduceat)
    return Band((steps + 0.5) * step_s, mean, low, high)


def points_per_line(lines: int) -> int:
    """How many points each of so many lines may have so that a page stays small."""
    return int(np.clip(MOST_POINTS_OF_A_PLOT // max(lines, 1), LEAST_POINTS, MOST_POINTS))


def thinned(values: Array, points: int) -> Array:
    """At most ``points`` of the values, evenly spread, the first and the last among them."""
    if values.size <= points:
        return values
    chosen: Array = values[np.linspace(0, values.size - 1, points).astype(int)]
    return chosen


def _pooled(repeats: Sequence[Samples]) -> Samples:
    """The samples of all repeats in order of time."""
    at_s = np.concatenate([samples.at_s for samples in repeats])
    order = np.argsort(at_s, kind="stable")
    return Samples(at_s[order], np.concatenate([samples.values for samples in repeats])[order])


def _reduced(
    samples: Samples, step_s: float, reduce: Callable[[Array, IntegerArray], Array]
) -> tuple[Array, Array]:
    steps, first = np.unique(samples.at_s // step_s, return_index=True)
    begins = first.astype(np.int64)
    return steps, reduce(samples.values, begins) if begins.size else samples.values


def _mean(values: Array, begins: IntegerArray) -> Array:
    counts = np.diff(np.append(begins, values.size))
    return np.asarray(np.add.reduceat(values, begins) / counts)
