"""Combines the time series of several repeats: mean, minimum and maximum of each second."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from rtclab.metrics.series import Array, IntegerArray, Samples

MOST_POINTS = 600
"""Maximum number of points of a line; more than a screen can show only makes the page larger."""
LEAST_POINTS = 100
MOST_POINTS_OF_A_PLOT = 2400
GAP, LEAST_STEPS = 4, 5
"""A time without values is a gap if it is this many times the usual step, of a line with some steps."""
LEAST_LENGTH_S = 0.5
"""Samples of shorter intervals are not drawn: a single packet changes their rate too much."""


@dataclass(frozen=True)
class Band:
    """Mean, minimum and maximum over repeats at the times ``at_s``; all of shape (points,)."""

    at_s: Array
    mean: Array
    low: Array
    high: Array


def band(
    repeats: Sequence[Samples], points: int, lows: Sequence[Samples] = (), highs: Sequence[Samples] = ()
) -> Band:
    """Combines repeats in steps of one second, or in longer steps if there would be more than ``points``.

    If ``lows`` or ``highs`` are given, the minimum or the maximum is taken over them, not over the repeats.
    """
    pooled = _pooled(repeats)
    end_s = float(pooled.at_s[-1]) + 1 if pooled.at_s.size else 0.0
    step_s = max(1.0, np.ceil(end_s / points))
    lowest, highest = _pooled(lows) if lows else pooled, _pooled(highs) if highs else pooled
    return _with_gaps(
        Band(
            _per_step(pooled.at_s, pooled.at_s, step_s, _mean),
            _per_step(pooled.at_s, pooled.values, step_s, _mean),
            _per_step(lowest.at_s, lowest.values, step_s, np.minimum.reduceat),
            _per_step(highest.at_s, highest.values, step_s, np.maximum.reduceat),
        )
    )


def _with_gaps(band: Band) -> Band:
    """The band with NaN in the middle of long times without values, across which no line is drawn."""
    apart_s = np.diff(band.at_s)
    if apart_s.size < LEAST_STEPS:
        return band
    gaps = np.flatnonzero(apart_s > GAP * np.median(apart_s))
    middles_s = band.at_s[gaps] + apart_s[gaps] / 2
    at_s = np.insert(band.at_s, gaps + 1, middles_s)
    return Band(at_s, *(np.insert(one, gaps + 1, np.nan) for one in (band.mean, band.low, band.high)))


def points_per_line(lines: int) -> int:
    """Maximum number of points of each line in a plot with this many lines, so that pages stay small."""
    return int(np.clip(MOST_POINTS_OF_A_PLOT // max(lines, 1), LEAST_POINTS, MOST_POINTS))


def thinned(values: Array, points: int) -> Array:
    """At most ``points`` of the values, evenly spaced, including the first and the last."""
    if values.size <= points:
        return values
    chosen: Array = values[np.linspace(0, values.size - 1, points).astype(int)]
    return chosen


def _pooled(repeats: Sequence[Samples]) -> Samples:
    """The samples of all repeats, sorted by time, without samples of intervals too short to draw."""
    drawn = [one if one.lasts_s is None else one.chosen(one.lasts_s >= LEAST_LENGTH_S) for one in repeats]
    at_s = np.concatenate([samples.at_s for samples in drawn])
    order = np.argsort(at_s, kind="stable")
    return Samples(at_s[order], np.concatenate([samples.values for samples in drawn])[order])


def _per_step(
    at_s: Array, values: Array, step_s: float, reduce: Callable[[Array, IntegerArray], Array]
) -> Array:
    begins = np.unique(at_s // step_s, return_index=True)[1].astype(np.int64)
    return reduce(values, begins) if begins.size else values


def _mean(values: Array, begins: IntegerArray) -> Array:
    counts = np.diff(np.append(begins, values.size))
    return np.asarray(np.add.reduceat(values, begins) / counts)
