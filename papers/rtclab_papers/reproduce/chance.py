"""How often few sessions, taken at random from many, show a change that a paper printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan

import numpy as np
from numpy.typing import NDArray

SAMPLES = 20_000
"""Number of samples. The standard error of a share is at most 0.5 / sqrt(20 000) = 0.35 %."""


def share_of_samples(
    before: Sequence[float],
    after: Sequence[float],
    sessions: int,
    accepted: Callable[[NDArray[np.float64]], NDArray[np.bool_]],
    *,
    in_points: bool = False,
) -> float:
    """Share of samples whose change of the mean is accepted; NaN if a side has no values.

    The change is in per cent of the first mean, or in the unit of the values (``in_points``).

    A sample is as many ``sessions`` of each side, taken with replacement. The same values always give the
    same share.

    Source: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979).
    """
    if not (before and after):
        return nan
    source = np.random.default_rng(1)
    first, second = (
        np.array(values)[source.integers(len(values), size=(SAMPLES, sessions))].mean(axis=1)
        for values in (before, after)
    )
    if in_points:
        return float(accepted(second - first).mean())
    # A mean of 0 has no change in per cent (0 / 0), or an infinite one.
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(accepted(100 * (second - first) / first).mean())
