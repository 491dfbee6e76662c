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
from statistics import NormalDist

import numpy as np

from rtclab._native import student_t_p, student_t_quantile
from rtclab.metrics.registry import ANY, Bounds
from rtclab.metrics.series import Samples

CONFIDENCE = 0.95
NORMAL_QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Two-sided 95 % quantile of the normal distribution, 1.96."""


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
class Proportion:
    """A share in % of a number of independent trials (``repeats``), with Wilson's 95 % interval.

    Unlike Student's interval, it exists for one trial and for shares of 0 and 100 %, and it stays within
    them. A trial may fail in part, so the share need not be a whole number of trials. All values are NaN
    without trials.

    Source: E. B. Wilson, JASA 22 (1927); recommended for few trials by Brown, Cai and DasGupta, Statistical
    Science 16 (2001), section 5.
    """

    repeats: int
    mean: float
    sd: float = nan

    @property
    def ci95_low(self) -> float:
        """Lower end of the interval in %."""
        return self._end(-1)

    @property
    def ci95_high(self) -> float:
        """Upper end of the interval in %."""
        return self._end(1)

    def _end(self, side: int) -> float:
        if not self.repeats:
            return nan
        share, weight = self.mean / 100, NORMAL_QUANTILE**2 / self.repeats
        half = sqrt(weight * share * (1 - share) + weight**2 / 4)
        end = (share + weight / 2 + side * half) / (1 + weight)
        return 100 * min(max(end, 0.0), 1.0)  # rounding may put an end a little outside


@dataclass(frozen=True)
class Difference:
    """Mean of b minus mean of a, half its 95 % interval, and the p-value of its t-test.

    ``p`` is the probability of a difference at least as large if there were none. Both are NaN with fewer
    than two values. If nothing varies, ``ci95`` is NaN, and ``p`` is 0 for a difference and 1 for none.
    """

    value: float
    ci95: float
    p: float
    bounds: Bounds = ANY

    @property
    def ci95_low(self) -> float:
        """Lower end of the interval, within the possible differences; NaN if ``ci95`` is."""
        return _cut(self.value - self.ci95, self.value, self.bounds)

    @property
    def ci95_high(self) -> float:
        """Upper end of the interval, within the possible differences; NaN if ``ci95`` is."""
        return _cut(self.value + self.ci95, self.value, self.bounds)


def paired(a: Sequence[float], b: Sequence[float], bounds: Bounds = ANY) -> Difference:
    """Mean difference of repeats that were paired, such as by their seeds; ``bounds`` limit the metric.

    Source: Student's t-test of the differences.
    """
    of_pairs = summarise([after - before for before, after in zip(a, b, strict=True)])
    return _tested(of_pairs.mean, of_pairs.sd / sqrt(max(of_pairs.repeats, 1)), of_pairs.repeats - 1, bounds)


def welch(a: Summary, b: Summary) -> Difference:
    """Difference of two means with unequal variances.

    Source: B. L. Welch, Biometrika 34 (1947); degrees of freedom after Welch and Satterthwaite.
    """
    value = b.mean - a.mean
    if a.repeats < 2 or b.repeats < 2:
        return _tested(value, nan, 0, a.bounds)
    error_a, error_b = a.sd / sqrt(a.repeats), b.sd / sqrt(b.repeats)
    error = hypot(error_a, error_b)
    if error == 0:
        return _tested(value, 0, 1, a.bounds)
    # With shares of the variance, the fourth powers of small errors do not underflow.
    share_a, share_b = (error_a / error) ** 2, (error_b / error) ** 2
    freedom = 1 / (share_a**2 / (a.repeats - 1) + share_b**2 / (b.repeats - 1))
    return _tested(value, error, freedom, a.bounds)


def _tested(value: float, error: float, freedom: float, bounds: Bounds) -> Difference:
    """The difference with this standard error and these degrees of freedom; ``bounds`` are of the metric."""
    possible = bounds[0] - bounds[1], bounds[1] - bounds[0]
    if freedom <= 0 or isnan(error):
        return Difference(value, nan, nan, possible)
    if error == 0:
        return Difference(value, nan, float(value == 0), possible)
    return Difference(value, t_quantile(freedom) * error, student_t_p(value / error, freedom), possible)


def holm(p_values: Sequence[float]) -> list[bool | None]:
    """Whether each difference is more than chance; None for NaN.

    The probability that any of them is marked by chance is at most 5 %. Source: S. Holm, Scandinavian Journal
    of Statistics 6 (1979).
    """
    tests = sorted((p, index) for index, p in enumerate(p_values) if not isnan(p))
    marked: list[bool | None] = [None if isnan(p) else False for p in p_values]
    for rank, (p, index) in enumerate(tests):
        if p > (1 - CONFIDENCE) / (len(tests) - rank):
            break
        marked[index] = True
    return marked


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
