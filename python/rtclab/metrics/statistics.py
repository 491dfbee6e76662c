"""Mean, spread and confidence interval over repeats, and the difference of two sets of repeats.

Intervals are Student's t, cut at the bounds of the metric: no round-trip time is negative, no share is above
100 %. Cutting costs no coverage. The true mean lies within the bounds, so it is in the interval if and only
if it is in the part that remains. Unlike an interval on a logarithmic or logit scale, this one is about the
arithmetic mean, and it exists for values on a bound, such as losses of 0 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot, isnan, nan, sqrt

import numpy as np

from rtclab._native import student_t_quantile
from rtclab.metrics.registry import ANY, Bounds
from rtclab.metrics.series import Samples

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Summary:
    """Number, mean, standard deviation and half 95 % interval of the repeats that could be measured.

    ``sd`` is NaN with fewer than two values, ``mean`` with none. ``ci95`` is half of Student's interval,
    before it is cut. It is NaN with fewer than two values, and if all values are equal, because equal values
    say nothing about the spread.
    """

    repeats: int
    mean: float
    sd: float
    ci95: float
    bounds: Bounds = ANY

    @property
    def ci95_low(self) -> float:
        """Lower end of the interval, within the bounds; NaN if ``ci95`` is."""
        return _cut(self.mean - self.ci95, self.mean, self.bounds)

    @property
    def ci95_high(self) -> float:
        """Upper end of the interval, within the bounds; NaN if ``ci95`` is."""
        return _cut(self.mean + self.ci95, self.mean, self.bounds)


def summarise(values: Sequence[float], bounds: Bounds = ANY) -> Summary:
    """Summary of one value per repeat. NaN values are left out. ``bounds`` are the metric's."""
    measured = np.array([value for value in values if not isnan(value)])
    count = measured.size
    if count == 0:
        return Summary(0, nan, nan, nan, bounds)
    if count == 1:
        return Summary(1, float(measured[0]), nan, nan, bounds)
    if np.ptp(measured) == 0:
        # Rounding would give equal values a deviation of 1e-16, which makes any difference significant.
        return Summary(count, float(measured[0]), 0.0, nan, bounds)
    sd = float(measured.std(ddof=1))
    return Summary(count, float(measured.mean()), sd, t_quantile(count - 1) * sd / sqrt(count), bounds)


@dataclass(frozen=True)
class Difference:
    """Mean of b minus mean of a, half its 95 % interval, and whether that interval excludes 0.

    ``ci95`` is NaN and ``significant`` None if a side has fewer than two values, or if the values of each
    side are all equal.
    """

    value: float
    ci95: float
    significant: bool | None
    bounds: Bounds = ANY

    @property
    def ci95_low(self) -> float:
        """Lower end of the interval, within the possible differences; NaN if ``ci95`` is."""
        return _cut(self.value - self.ci95, self.value, self.bounds)

    @property
    def ci95_high(self) -> float:
        """Upper end of the interval, within the possible differences; NaN if ``ci95`` is."""
        return _cut(self.value + self.ci95, self.value, self.bounds)


def welch(a: Summary, b: Summary) -> Difference:
    """Difference of two means with unequal variances.

    Source: B. L. Welch, Biometrika 34 (1947); degrees of freedom after Welch and Satterthwaite.
    """
    value, bounds = b.mean - a.mean, (b.bounds[0] - a.bounds[1], b.bounds[1] - a.bounds[0])
    if a.repeats < 2 or b.repeats < 2:
        return Difference(value, nan, None, bounds)
    error_a, error_b = a.sd / sqrt(a.repeats), b.sd / sqrt(b.repeats)
    error = hypot(error_a, error_b)
    if error == 0:
        return Difference(value, nan, None, bounds)
    # With shares of the variance, the fourth powers of small errors do not underflow.
    share_a, share_b = (error_a / error) ** 2, (error_b / error) ** 2
    freedom = 1 / (share_a**2 / (a.repeats - 1) + share_b**2 / (b.repeats - 1))
    ci95 = t_quantile(freedom) * error
    return Difference(value, ci95, abs(value) > ci95, bounds)


def mean_within_sd(samples_per_repeat: Sequence[Samples]) -> float:
    """Mean over repeats of the standard deviation of each repeat's samples: the "±" of the papers.

    Singh et al. 2013 and Jansen et al. 2017 print it after their rates. A sample over part of a second has
    that part as its weight. Repeats with fewer than two samples are left out; NaN if none remains.
    """
    deviations = [samples.deviation() for samples in samples_per_repeat if samples.values.size > 1]
    return float(np.mean(deviations)) if deviations else nan


def _cut(end: float, mean: float, bounds: Bounds) -> float:
    """An end of an interval, cut at the bounds but not beyond the mean, which rounding may move outside."""
    if isnan(end):
        return nan
    return min(max(end, min(bounds[0], mean)), max(bounds[1], mean))


def t_quantile(degrees_of_freedom: float) -> float:
    """Two-sided 95 % quantile of Student's t."""
    return student_t_quantile((1 + CONFIDENCE) / 2, degrees_of_freedom)
