"""Mean, spread and confidence interval over repeats, and every statistical test of rtclab.

When to use which:

- ``paired``: repeats of two sides that share their seeds, as simulated ones do. What the seed decides is in
  both values, so the differences vary less than the values.
- ``welch``: repeats that share nothing, such as live calls, with spreads that may differ.
- ``ShareDifference``: shares of repeats that failed or not, which have no spread of their own.
- ``bootstrap_over_cases``, ``wilcoxon``: cases that are alike in nothing, such as the networks of an arena.
  The cases are the sample, and no distribution is assumed.
- ``Jackknife``: a number that is computed from the repeats of many conditions, such as a ratio of means.
- ``prediction_interval``, ``prediction_range``: where one more value lies, such as a single live call.
- ``kolmogorov_smirnov``: whether a few values may have the distribution of some others.
- ``holm``: several of these at once; it bounds the probability that any of them is chance.

Intervals are Student's t, cut at the bounds of the metric: no round-trip time is negative, no share is above
100 %. Cutting costs no coverage. The true mean lies within the bounds, so it is in the interval if and only
if it is in the part that remains. Unlike an interval on a logarithmic or logit scale, this one is about the
arithmetic mean, and it exists for values on a bound, such as losses of 0 %.
"""

from __future__ import annotations

import warnings
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import combinations
from math import ceil, comb, floor, hypot, isnan, nan, sqrt
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from rtclab._native import student_t_p, student_t_quantile
from rtclab.metrics.registry import ANY, Bounds
from rtclab.metrics.series import Array, Samples

CONFIDENCE = 0.95
NORMAL_QUANTILE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
"""Two-sided 95 % quantile of the normal distribution, 1.96."""
POWER = 0.8
"""Probability with which a test of enough repeats finds a difference."""
BOOTSTRAP_DRAWS = 4000
"""Number of draws of a bootstrap; with many cases the ends of a 95 % interval rest on 100 draws each."""
BOOTSTRAP_SEED = 1
MOST_REPEATS = 1_000_000
"""Largest number of repeats that is recommended to find a difference."""


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


def prediction_interval(values: Sequence[float], bounds: Bounds = ANY) -> tuple[float, float]:
    """The 95 % interval in which the value of one more repeat lies; NaN with fewer than two values.

    NaN values are left out. ``bounds`` are the metric's, and cut the interval. Values that are all equal give
    an interval without width.

    Source: Student's t: mean ± t s √(1 + 1/n).
    """
    known = summarise(values)
    if known.repeats < 2:
        return nan, nan
    half = t_quantile(known.repeats - 1) * known.sd * sqrt(1 + 1 / known.repeats)
    return _cut(known.mean - half, known.mean, bounds), _cut(known.mean + half, known.mean, bounds)


@dataclass(frozen=True)
class Proportion:
    """A share in % of a number of independent trials (``repeats``), with Wilson's 95 % interval.

    Unlike Student's interval, it exists for one trial and for shares of 0 and 100 %, and it stays within
    them. A trial may fail in part, so the share need not be a whole number of trials. All values are NaN
    without trials.

    Source: E. B. Wilson, JASA 22 (1927); recommended for few trials by Brown, Cai and DasGupta, Statistical
    Science 16 (2001), pages 101 to 133.
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

    ``p`` is the probability of a difference at least as large if there were none. ``deviations`` has the
    standard deviation of the differences of pairs, or of each run. ``ci95`` and ``p`` are NaN with fewer than
    two values. If nothing varies, ``ci95`` is NaN, and ``p`` is 1 for no difference and NaN for one, because
    there is nothing to test.
    """

    value: float
    ci95: float
    p: float
    bounds: Bounds = ANY
    deviations: tuple[float, ...] = ()

    @property
    def ci95_low(self) -> float:
        """Lower end of the interval, within the possible differences; NaN if ``ci95`` is."""
        return _cut(self.value - self.ci95, self.value, self.bounds)

    @property
    def ci95_high(self) -> float:
        """Upper end of the interval, within the possible differences; NaN if ``ci95`` is."""
        return _cut(self.value + self.ci95, self.value, self.bounds)

    @property
    def constant(self) -> bool:
        """Whether nothing varies: all pairs have this difference, or all repeats of each run are equal."""
        return bool(self.deviations) and not any(self.deviations)

    def repeats_needed(self, level: float) -> int | None:
        """Number of repeats of each run with which a test would find a difference of this size.

        ``level`` is the significance level of the test, which finds it with 80 % probability. None if the
        spread is unknown, nothing varies or the difference is 0. Computed as if the standard deviations were
        known.

        Source: n = (s / d)² (t(1 - level/2) + t(power))², solved for n because the degrees of freedom depend
        on n: J. H. Zar, Biostatistical Analysis, sample size of t-tests.
        """
        spread = hypot(*self.deviations)
        if not spread or not self.value:
            return None
        # Degrees of freedom by Welch and Satterthwaite: between n - 1 and 2 (n - 1) for two runs.
        share = 1 / sum((deviation / spread) ** 4 for deviation in self.deviations)

        def enough(repeats: int) -> bool:
            freedom = share * (repeats - 1)
            quantiles = student_t_quantile(1 - level / 2, freedom) + student_t_quantile(POWER, freedom)
            return quantiles * spread <= abs(self.value) * sqrt(repeats)

        return _smallest(enough)


def _smallest(enough: Callable[[int], bool]) -> int | None:
    """The smallest number of repeats, from 2 on, that is enough; None above ``MOST_REPEATS``."""
    above = 2
    while not enough(above):
        if above > MOST_REPEATS:
            return None
        above *= 2
    return bisect_left(range(above), True, lo=max(above // 2, 2), key=enough)


def paired(a: Sequence[float], b: Sequence[float], bounds: Bounds = ANY) -> Difference:
    """Mean difference of repeats that were paired, such as by their seeds; ``bounds`` limit the metric.

    Source: Student's t-test of the differences.
    """
    of_pairs = summarise([after - before for before, after in zip(a, b, strict=True)])
    error = of_pairs.sd / sqrt(max(of_pairs.repeats, 1))
    return _tested(of_pairs.mean, error, of_pairs.repeats - 1, bounds, of_pairs.sd)


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
        return _tested(value, 0, 1, a.bounds, a.sd, b.sd)
    # With shares of the variance, the fourth powers of small errors do not underflow.
    share_a, share_b = (error_a / error) ** 2, (error_b / error) ** 2
    freedom = 1 / (share_a**2 / (a.repeats - 1) + share_b**2 / (b.repeats - 1))
    return _tested(value, error, freedom, a.bounds, a.sd, b.sd)


def _tested(value: float, error: float, freedom: float, bounds: Bounds, *deviations: float) -> Difference:
    """The difference with this standard error and these degrees of freedom; ``bounds`` are of the metric."""
    possible = bounds[0] - bounds[1], bounds[1] - bounds[0]
    if freedom <= 0 or isnan(error):
        return Difference(value, nan, nan, possible)
    if error == 0:
        return Difference(value, nan, nan if value else 1.0, possible, deviations)
    p = student_t_p(value / error, freedom)
    return Difference(value, t_quantile(freedom) * error, p, possible, deviations)


@dataclass(frozen=True)
class ShareDifference:
    """Share b minus share a, both in %, with Newcombe's 95 % interval and the p-value of Fisher's exact test.

    The trials of both are independent. Paired ones would need to be known one by one. All values are NaN if
    either has no trials.

    Source: R. G. Newcombe, Statistics in Medicine 17 (1998), pages 873 to 890, method 10, which combines two
    Wilson intervals; R. A. Fisher, Statistical Methods for Research Workers (1934).
    """

    a: Proportion
    b: Proportion

    @property
    def value(self) -> float:
        """The difference in percentage points."""
        return self.b.mean - self.a.mean

    @property
    def ci95_low(self) -> float:
        """Lower end of the interval in percentage points."""
        return self.value - hypot(self.b.mean - self.b.ci95_low, self.a.ci95_high - self.a.mean)

    @property
    def ci95_high(self) -> float:
        """Upper end of the interval in percentage points."""
        return self.value + hypot(self.b.ci95_high - self.b.mean, self.a.mean - self.a.ci95_low)

    @property
    def p(self) -> float:
        """Probability of shares that are at least as unlikely as these, if both runs were alike.

        Trials that failed in part are rounded to whole ones, in each run towards the other, so that ``p`` is
        never too small.
        """
        if isnan(self.value):
            return nan
        towards = (ceil, floor) if self.value > 0 else (floor, ceil)
        failed_a, failed_b = (
            whole(round(one.repeats * one.mean / 100, 6))
            for whole, one in zip(towards, (self.a, self.b), strict=True)
        )
        failed = failed_a + failed_b
        ways = [comb(self.a.repeats, k) * comb(self.b.repeats, failed - k) for k in range(failed + 1)]
        return sum(number for number in ways if number <= ways[failed_a]) / sum(ways)

    @property
    def constant(self) -> bool:
        """Whether every trial of both ended in the same way."""
        return self.a.mean == self.b.mean and self.a.mean in (0, 100)

    def repeats_needed(self, level: float) -> int | None:
        """Number of trials of each run with which a test would find a difference of this size.

        ``level`` is the significance level of the test, which finds it with probability ``POWER``. None if
        the shares are equal or unknown.

        Source: J. T. Casagrande, M. C. Pike and P. G. Smith, Biometrics 34 (1978), for Fisher's exact test.
        """
        a, b = self.a.mean / 100, self.b.mean / 100
        apart = abs(b - a)
        if isnan(apart) or apart == 0:
            return None
        mean = (a + b) / 2
        at_level = NormalDist().inv_cdf(1 - level / 2) * sqrt(2 * mean * (1 - mean))
        at_power = NormalDist().inv_cdf(POWER) * sqrt(a * (1 - a) + b * (1 - b))
        # Without the square root of the continuity correction, this is the number for the chi-squared test.
        squared = (at_level + at_power) ** 2
        return ceil(squared * (1 + sqrt(1 + 4 * apart / squared)) ** 2 / (4 * apart**2))


def holm(p_values: Sequence[float]) -> list[bool | None]:
    """Whether each difference is more than chance; None for NaN.

    The probability that any of them is marked by chance is at most 5 %.

    Source: S. Holm, Scandinavian Journal of Statistics 6 (1979).
    """
    tests = sorted((p, index) for index, p in enumerate(p_values) if not isnan(p))
    marked: list[bool | None] = [None if isnan(p) else False for p in p_values]
    for rank, (p, index) in enumerate(tests):
        if p > (1 - CONFIDENCE) / (len(tests) - rank):
            break
        marked[index] = True
    return marked


def wilcoxon(differences: Sequence[float]) -> float:
    """The two-sided p-value of Wilcoxon's signed-rank test, for differences of pairs that may be symmetric.

    The distribution is exact, also with ties, which share the mean of their ranks: every combination of signs
    is equally likely. Differences of 0 are left out; 1 without any other. With fewer than six differences no
    p-value is below 5 %.

    Source: F. Wilcoxon, Biometrics Bulletin 1 (1945).
    """
    known = np.array([one for one in differences if one], dtype=np.float64)
    if not known.size:
        return 1.0
    sizes = np.abs(known)
    # Twice the ranks, so that shared ranks are whole numbers.
    twice = np.array([2 * (sizes < one).sum() + (sizes == one).sum() + 1 for one in sizes], dtype=np.int64)
    total = int(twice.sum())
    chances = np.zeros(total + 1)
    chances[0] = 1.0
    for rank in twice.tolist():
        shifted = np.zeros(total + 1)
        shifted[rank:] = chances[: total + 1 - rank]
        chances = (chances + shifted) / 2
    smaller = min(int(twice[known > 0].sum()), int(twice[known < 0].sum()))
    return min(1.0, 2 * float(chances[: smaller + 1].sum()))


def means_of_known(values: Array) -> Array:
    """Means over the last axis of the values that are known; NaN without any."""
    known = ~np.isnan(values)
    sums, counts = np.where(known, values, 0.0).sum(axis=-1), known.sum(axis=-1)
    means: Array = np.divide(sums, counts, out=np.full(sums.shape, nan), where=counts > 0)
    return means


def bootstrap_over_cases(values: Array, draws: int = BOOTSTRAP_DRAWS) -> Array:
    """Means per case of bootstrap samples of cases, of shape (sides, draws, cases).

    ``values`` have the shape (sides, cases, repeats). This is right if the question is about further cases,
    such as other networks, and all sides ran the same cases with the same seeds. Each sample draws cases
    first, and then repeats of each drawn case, both with replacement and the same for all sides. Repeats of
    one case are not independent, so drawing repeats alone would give intervals that are too narrow.
    """
    _, cases, repeats = values.shape
    source = np.random.default_rng(BOOTSTRAP_SEED)
    which = source.integers(cases, size=(draws, cases))
    of_case = source.integers(repeats, size=(draws, cases, repeats))
    return np.stack([means_of_known(own[which[..., None], of_case]) for own in values])


def expanded_percentiles(samples: Array, cases: int) -> tuple[float, float]:
    """The ends of the 95 % interval of bootstrap samples over a number of cases; NaN if one is unknown.

    This is right with :func:`bootstrap_over_cases` and few cases, for which plain percentiles are too narrow.
    These are further out, as Student's t is further out than the normal distribution; of one case they are
    plain.

    Source: T. Hesterberg, The American Statistician 69 (2015), pages 371 to 386: expanded percentiles.
    """
    if np.isnan(samples).any():
        return nan, nan
    wide = sqrt(cases / (cases - 1)) * t_quantile(cases - 1) if cases > 1 else NORMAL_QUANTILE
    outside = 100 * NormalDist().cdf(-wide)
    low, high = np.percentile(samples, (outside, 100 - outside))
    return float(low), float(high)


def signed_ranks_of_pairs(means: Array) -> dict[tuple[int, int], tuple[float, bool]]:
    """By pair of sides, the p-value of Wilcoxon's signed ranks over cases, and whether Holm marks it.

    ``means`` have the shape (sides, cases). This is right if cases are the sample, and differ so much that a
    mean over them would be about the largest alone. Holm's procedure is over all pairs. Cases in which either
    side is unknown are left out of the test of a pair.
    """
    pairs = list(combinations(range(len(means)), 2))
    known = [(means[a] - means[b]) for a, b in pairs]
    p_values = [wilcoxon(of[~np.isnan(of)].tolist()) for of in known]
    marks = map(bool, holm(p_values))
    return dict(zip(pairs, zip(p_values, marks, strict=True), strict=True))


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


# Of single values rather than means: what one more repeat gives, whole distributions, and numbers that are
# computed from several means.


@dataclass(frozen=True)
class PredictionRange:
    """The range of the repeats, in which one more repeat is expected; :func:`prediction_range` computes it.

    Attributes:
        middle: median over the repeats, which a few outliers do not change.
        low: smallest value.
        high: largest value.
        known: number of repeats in which the value could be measured.
    """

    middle: float
    low: float
    high: float
    known: int

    @property
    def level(self) -> float:
        """Probability that a further repeat lies in the range, at least: (known - 1) / (known + 1)."""
        return (self.known - 1) / (self.known + 1)


def prediction_range(values: Sequence[float]) -> PredictionRange:
    """Median of the repeats, and the interval in which a further one is expected: their range.

    Repeats with other seeds are exchangeable. So each of n + 1 values is as likely the smallest or the
    largest as any other, and the last one lies between the extremes of the others with probability
    (n - 1) / (n + 1), whatever the distribution: 95 % for 39 repeats. With equal values it is more. A repeat
    in which the metric is unknown, such as a call that does not connect, does not count: n is smaller, and so
    is the probability.

    Source: S. S. Wilks, Annals of Mathematical Statistics 12 (1941); H. A. David and H. N. Nagaraja, Order
    Statistics, 3rd edition (2003), chapter 7, on prediction intervals.

    Raises:
        ValueError: there are no values.
    """
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise ValueError("no values")
    return PredictionRange(float(np.median(array)), float(array.min()), float(array.max()), array.size)


def kolmogorov_smirnov(a: Sequence[float], b: Sequence[float]) -> float:
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
    return _share_of_paths(len(a), len(b), int(distances.max(initial=0)), tuple(ends.tolist()))


@cache
def _share_of_paths(m: int, n: int, distance: int, ends: tuple[int, ...]) -> float:
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


POWER_SAMPLES = 4000
"""Random samples from which the power is estimated: its standard error is below 0.8 %."""
LARGEST_SHIFT, SHIFT_STEP = 4.0, 0.1
"""The largest visible shift that is looked for, and the steps, in standard deviations."""


def visible_shift(m: int, n: int, level: float) -> float:
    """The shift that :func:`kolmogorov_smirnov` sees with probability ``POWER``, in standard deviations.

    It is of a normal variable, for samples of ``m`` and ``n`` values and tests at ``level``. From random
    samples with a fixed seed, in steps of 0.1; infinite above 4.
    """
    ends = tuple(range(1, m + n))
    needed = next((d for d in range(1, m * n + 1) if _share_of_paths(m, n, d, ends) <= level), None)
    if needed is None:
        return float("inf")
    source = np.random.default_rng(1)
    first, second = source.normal(size=(POWER_SAMPLES, m)), source.normal(size=(POWER_SAMPLES, n))
    for step in range(round(LARGEST_SHIFT / SHIFT_STEP) + 1):
        shift = step * SHIFT_STEP
        # The largest distance of each pair of rows, as a multiple of the product of their lengths.
        order = np.argsort(np.concatenate([first + shift, second], axis=1), axis=1)
        distances = np.abs(np.cumsum(np.where(order < m, n, -m), axis=1)).max(axis=1)
        if float((distances >= needed).mean()) >= POWER:
            return round(shift, 1)
    return float("inf")


BOOTSTRAP_SAMPLES = 20_000
"""Number of samples. The standard error of a share is at most 0.5 / sqrt(20 000) = 0.35 %."""


def share_of_samples(
    before: Sequence[float],
    after: Sequence[float],
    size: int,
    accepted: Callable[[Array], NDArray[np.bool_]],
    *,
    in_points: bool = False,
) -> float:
    """Share of random samples whose change of the mean is accepted; NaN if a side has no values.

    The change is in per cent of the first mean, or in the unit of the values (``in_points``). ``accepted``
    says of an array of changes which are accepted.

    A sample has ``size`` values of each side, taken with replacement. The same values always give the same
    share.

    Source: B. Efron, "Bootstrap methods: another look at the jackknife", Annals of Statistics 7 (1979).
    """
    if not (before and after):
        return nan
    source = np.random.default_rng(1)
    first, second = (
        np.array(values)[source.integers(len(values), size=(BOOTSTRAP_SAMPLES, size))].mean(axis=1)
        for values in (before, after)
    )
    if in_points:
        return float(accepted(second - first).mean())
    # A mean of 0 has no change in per cent (0 / 0), or an infinite one.
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(accepted(100 * (second - first) / first).mean())


@dataclass(frozen=True)
class Jackknife:
    """A number computed from all repeats, and the same number computed without each of them.

    ``without`` has a value for each repeat, NaN if the repeat was not measured. What is computed from such
    numbers, like a ratio, is computed in the same way without each repeat, so it has an interval, too.
    """

    whole: float
    without: Array

    @classmethod
    def mean(cls, values: Sequence[float]) -> Jackknife:
        """The mean of one value per repeat. NaN values are left out."""
        given = np.array(values, dtype=float)
        count = int(np.count_nonzero(~np.isnan(given)))
        if count == 0:
            return cls(nan, np.full(given.size, nan))
        total = float(np.nansum(given))
        without = (total - given) / (count - 1) if count > 1 else np.full(given.size, nan)
        return cls(total / count, without)

    @classmethod
    def constant(cls, value: float) -> Jackknife:
        """A number that does not depend on the repeats."""
        return cls(value, np.empty(0))

    @classmethod
    def combine(cls, function: Callable[[Array], Array], parts: Sequence[Jackknife]) -> Jackknife:
        """A number computed from others, such as their mean or sum.

        ``function`` reduces the first axis of an array of shape (parts, 1 + repeats). Parts with fewer
        repeats than others do not change without the repeats that they lack.
        """
        if not parts:
            return cls.constant(nan)
        most = max(part.without.size for part in parts)
        table = np.array(
            [[part.whole, *part.without, *[part.whole] * (most - part.without.size)] for part in parts]
        )
        with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # a mean of nothing is NaN
            reduced = function(table)
        return cls(float(reduced[0]), reduced[1:])

    def interval(self) -> tuple[float, float, int]:
        """The ends of the 95 % interval, and the number of repeats behind it. For a mean it is Student's.

        The ends are NaN with one repeat, and equal for a constant.

        Source: J. W. Tukey, "Bias and confidence in not-quite large samples", Annals of Mathematical
        Statistics 29 (1958); the standard error is that of B. Efron, C. Stein, Annals of Statistics 9 (1981).
        """
        if isnan(self.whole):
            return nan, nan, 0
        if not self.without.size:
            return self.whole, self.whole, 1
        known = self.without[~np.isnan(self.without)]
        if known.size < 2:
            return nan, nan, 1
        # Rounding gives equal values a deviation of 1e-16.
        spread = known - known.mean() if np.ptp(known) > 1e-12 * abs(self.whole) else np.zeros(known.size)
        error = sqrt((known.size - 1) / known.size * float((spread**2).sum()))
        half = t_quantile(known.size - 1) * error
        return self.whole - half, self.whole + half, known.size
