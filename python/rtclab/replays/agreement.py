"""For what share of the time two step functions agree."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rtclab.metrics.series import Array
from rtclab.report.plot_kinds import Steps

AGREE = (0.05, 0.10)
"""Relative differences up to which two targets agree."""
LASTING_S = 0.5
"""A difference that lasts this long is a divergence; shorter ones come from timing."""


@dataclass(frozen=True)
class Agreement:
    """How well one rate follows another between two times.

    ``within`` has the share of time in per cent for each bound of ``AGREE``. ``median_error`` and ``bias``
    are the median of the absolute and of the signed relative difference over time, in per cent.
    """

    within: tuple[float, ...]
    median_error: float
    bias: float


def agreement(own: Steps, other: Steps, begin_s: float, end_s: float) -> Agreement | None:
    """How well ``own`` follows ``other``; None if the two are never known at the same time."""
    moments, lasts, difference = _differences(own, other, begin_s, end_s)
    if not moments.size:
        return None
    size = np.abs(difference)
    within = tuple(min(100.0, float(100 * lasts[size <= bound].sum() / lasts.sum())) for bound in AGREE)
    return Agreement(within, 100 * _median(size, lasts), 100 * _median(difference, lasts))


def first_divergence(own: Steps, other: Steps, begin_s: float, end_s: float) -> float | None:
    """When the two begin to differ by more than the first bound of ``AGREE`` for at least ``LASTING_S``."""
    moments, lasts, difference = _differences(own, other, begin_s, end_s)
    since: float | None = None
    for at_s, last, apart in zip(moments, lasts, np.abs(difference) > AGREE[0], strict=True):
        if not apart:
            since = None
            continue
        since = float(at_s) if since is None else since
        if at_s + last - since >= LASTING_S:
            return since
    return None


def _differences(own: Steps, other: Steps, begin_s: float, end_s: float) -> tuple[Array, Array, Array]:
    """Time, duration and relative difference of each interval in which both hold their values."""
    changes = np.unique(np.concatenate([own.at_s, other.at_s, [begin_s, end_s]]))
    changes = changes[(changes >= begin_s) & (changes <= end_s)]
    moments, lasts = changes[:-1], np.diff(changes)
    values, others = own.at(moments), other.at(moments)
    known = ~np.isnan(values) & (others > 0) & (lasts > 0)
    return moments[known], lasts[known], values[known] / others[known] - 1


def _median(values: Array, weights: Array) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
