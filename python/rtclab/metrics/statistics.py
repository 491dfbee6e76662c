"""Mean, spread and confidence over repeats; the difference of two sets of repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, isnan, nan, sqrt

import numpy as np

from rtclab.metrics.series import Array

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Of the repeats that could be measured: how many, mean, standard deviation, half the 95 % interval.

    ``sd`` and ``ci95`` are NaN with fewer than two values, ``mean`` with none.
    """

    repeats: int
    mean: float
    sd: float
    ci95: float


def summarise(values: Sequence[float]) -> Summary:
    """Summary of one value per repeat; NaN values are left out. The interval is Student's t over repeats."""
    measured = np.array([value for value in values if not isnan(value)])
    count = measured.size
    if count == 0:
        return Summary(0, nan, nan, nan)
    if count == 1:
        return Summary(1, float(measured[0]), nan, nan)
    if np.ptp(measured) == 0:
        # Rounding would give equal values a deviation of 1e-16, and then any difference is significant.
        return Summary(count, float(measured[0]), 0.0, 0.0)
    sd = float(measured.std(ddof=1))
    return Summary(count, float(measured.mean()), sd, _t_quantile(count - 1) * sd / sqrt(count))


@dataclass(frozen=True)
class Difference:
    """Mean of b minus mean of a, half its 95 % interval, and whether that interval excludes 0.

    ``ci95`` is NaN and ``significant`` None when a side has fewer than two values.
    """

    value: float
    ci95: float
    significant: bool | None


def welch(a: Summary, b: Summary) -> Difference:
    """Difference of two means with unequal variances.

    Source: B. L. Welch, Biometrika 34 (1947); degrees of freedom after Welch and Satterthwaite.
    """
    value = b.mean - a.mean
    if a.repeats < 2 or b.repeats < 2:
        return Difference(value, nan, None)
    error_a, error_b = a.sd / sqrt(a.repeats), b.sd / sqrt(b.repeats)
    error = hypot(error_a, error_b)
    if error == 0:
        return Difference(value, 0.0, value != 0)
    # Shares of the variance, so that the fourth powers of small errors do not underflow.
    share_a, share_b = (error_a / error) ** 2, (error_b / error) ** 2
    freedom = 1 / (share_a**2 / (a.repeats - 1) + share_b**2 / (b.repeats - 1))
    ci95 = _t_quantile(freedom) * error
    return Difference(value, ci95, abs(value) > ci95)


def mean_within_sd(samples_per_repeat: Sequence[Sequence[float] | Array]) -> float:
    """Mean over repeats of each repeat's standard deviation of its samples: the "±" of the papers.

    Singh et al. 2013 and Jansen et al. 2017 print it behind their rates. Repeats with fewer than two samples
    are left out; NaN if none remains.
    """
    deviations = [float(np.std(samples, ddof=1)) for samples in samples_per_repeat if len(samples) > 1]
    return float(np.mean(deviations)) if deviations else nan


def _t_quantile(degrees_of_freedom: float) -> float:
    """Two-sided 95 % quantile of Student's t."""
    from scipy.special import stdtrit  # here, because importing scipy takes longer than most commands

    return float(stdtrit(degrees_of_freedom, (1 + CONFIDENCE) / 2))
