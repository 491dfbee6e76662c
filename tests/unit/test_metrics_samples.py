"""Statistics of single values: the range of one more repeat, whole distributions, and the jackknife."""

from __future__ import annotations

import math
from math import nan

import numpy as np
import pytest
from scipy import stats

from rtclab.metrics import (
    Jackknife,
    kolmogorov_smirnov,
    prediction_range,
    share_of_samples,
    summarise,
    visible_shift,
)


def distance(a: np.ndarray, b: np.ndarray, axis: int = -1) -> np.ndarray:
    """The largest distance of two empirical distributions, for scipy's permutation test."""
    pooled = np.concatenate([a, b], axis=axis)
    below_a = (a[..., None, :] <= pooled[..., :, None]).mean(axis=-1)
    below_b = (b[..., None, :] <= pooled[..., :, None]).mean(axis=-1)
    return np.asarray(np.abs(below_a - below_b).max(axis=-1))


@pytest.mark.parametrize("shift", [0.0, 0.5, 1.0, 2.0, 5.0])
def test_the_probability_is_scipys_without_equal_values(shift: float) -> None:
    source = np.random.default_rng(1)
    for sizes in ((10, 39), (7, 7), (3, 20), (1, 4)):
        a, b = source.normal(size=sizes[0]) + shift, source.normal(size=sizes[1])
        known = stats.ks_2samp(a, b, method="exact").pvalue
        assert kolmogorov_smirnov(a.tolist(), b.tolist()) == pytest.approx(known, rel=1e-9)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ([0, 0, 0, 1], [0, 0, 1, 2, 2, 3]),
        ([0, 1, 2, 3], [3, 3, 4, 5, 6, 6]),
        ([1, 1, 1], [2, 2, 2, 2]),
        ([0, 2, 2, 9], [1, 1, 2, 8, 9, 9]),
    ],
)
def test_the_probability_is_that_of_all_permutations_with_equal_values(a: list[int], b: list[int]) -> None:
    known = stats.permutation_test(
        (a, b), distance, vectorized=True, n_resamples=np.inf, alternative="greater"
    ).pvalue
    assert kolmogorov_smirnov(a, b) == pytest.approx(known, rel=1e-9)


def test_equal_samples_do_not_differ_and_separate_ones_do_as_much_as_they_can() -> None:
    assert kolmogorov_smirnov([1, 1, 1], [1, 1]) == 1.0
    # Of the C(49, 10) divisions, two separate the samples.
    separate = kolmogorov_smirnov(list(range(10)), list(range(100, 139)))
    assert separate == pytest.approx(2 / math.comb(49, 10), rel=1e-9, abs=0)
    with pytest.raises(ValueError, match="empty"):
        kolmogorov_smirnov([], [1.0])


def test_false_alarms_are_as_rare_as_stated() -> None:
    """Of 2000 pairs of samples of one distribution, at most 5 % have p up to 0.05, and not much fewer."""
    source = np.random.default_rng(2)
    found = [
        kolmogorov_smirnov(source.normal(size=10).tolist(), source.normal(size=39).tolist())
        for _ in range(2000)
    ]
    alarms = np.mean([p <= 0.05 for p in found])
    assert 0.03 < alarms < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 2000)


@pytest.mark.parametrize("sizes", [(10, 39), (40, 40)])
def test_the_visible_shift_is_a_little_larger_than_that_of_a_t_test(sizes: tuple[int, int]) -> None:
    """With known variance a shift of (1.96 + 0.84) sqrt(1/m + 1/n) is seen with 80 % probability.

    No test of a normal shift does better. The efficiency of this one is above a half.
    """
    best = (1.96 + 0.84) * math.sqrt(1 / sizes[0] + 1 / sizes[1])
    assert best < visible_shift(*sizes, 0.05) < best * math.sqrt(2)
    assert visible_shift(*sizes, 0.05) < visible_shift(*sizes, 0.05 / 200)


def test_two_small_samples_can_never_be_significant() -> None:
    """Two and two can be divided in six ways, so p is at least a third."""
    assert visible_shift(2, 2, 0.05) == math.inf


def test_the_interval_is_the_range_of_the_repeats() -> None:
    found = prediction_range([3.0, 1.0, 10.0])
    assert (found.middle, found.low, found.high, found.known) == (3.0, 1.0, 10.0, 3)
    assert found.level == 0.5
    assert prediction_range([1.0]).level == 0.0
    with pytest.raises(ValueError, match="no values"):
        prediction_range([])


@pytest.mark.parametrize("count", [9, 39])
@pytest.mark.parametrize("shape", ["normal", "lognormal", "cauchy"])
def test_a_further_repeat_lies_in_the_interval_as_often_as_stated(shape: str, count: int) -> None:
    """Of 4000 samples, (n - 1) / (n + 1) cover a further value, whatever the distribution; four errors."""
    source = np.random.default_rng(1)
    size = (4000, count + 1)
    samples = {
        "normal": lambda: source.normal(size=size),
        "lognormal": lambda: source.lognormal(sigma=2, size=size),
        "cauchy": lambda: source.standard_cauchy(size=size),
    }[shape]()
    found = [prediction_range(list(sample[:-1])) for sample in samples]
    covered = np.mean([one.low <= last <= one.high for one, last in zip(found, samples[:, -1], strict=True)])
    level = (count - 1) / (count + 1)
    assert abs(covered - level) < 4 * math.sqrt(level * (1 - level) / len(samples))


def test_equal_values_are_covered_more_often_than_stated() -> None:
    """Of counts of 0 or 1, only a first 1 or a first 0 lies outside: with p = 0.02 at most 0.98^9 * 0.02."""
    source = np.random.default_rng(1)
    samples = source.random(size=(4000, 10)) < 0.02
    found = [prediction_range(list(sample[:-1])) for sample in samples]
    outside = np.mean(
        [not one.low <= last <= one.high for one, last in zip(found, samples[:, -1], strict=True)]
    )
    share = 0.98**9 * 0.02
    assert abs(outside - share) < 4 * math.sqrt(share / 4000)
    assert outside < 1 - 8 / 10


def test_the_interval_is_as_certain_as_there_are_calls_that_know_the_value() -> None:
    said = prediction_range([10.0 + number for number in range(8)])
    assert (said.low, said.high, said.known) == (10, 17, 8)
    assert said.level == pytest.approx(7 / 9)


def test_the_share_of_samples_agrees_with_all_possible_samples() -> None:
    # Three of 90 and 110: k of them are 110 with probability 1, 3, 3, 1 of 8. The second side has more in
    # (1 - (1 + 9 + 9 + 1) / 64) / 2 = 0.34375 of all samples. Three standard errors are 0.0101.
    share = share_of_samples([90, 110], [90, 110], 3, lambda percent: percent > 0)
    assert share == pytest.approx(0.34375, abs=0.0101)
    # Only 90, 90, 90 to 110, 110, 110 is a rise of 22.2 %: 1 of 64. Three standard errors are 0.0026.
    share = share_of_samples([90, 110], [90, 110], 3, lambda percent: percent > 20)
    assert share == pytest.approx(1 / 64, abs=0.0026)


def test_a_sample_without_loss_on_both_sides_is_no_change() -> None:
    assert share_of_samples([0.0], [0.0], 3, lambda percent: percent >= 0) == 0
    assert share_of_samples([0.0], [1.0], 3, lambda percent: percent >= 29) == 1


def test_the_jackknife_of_a_mean_is_students_interval() -> None:
    values = [3.0, 5.0, nan, 10.0, 2.0]
    ours, student = Jackknife.mean(values), summarise(values)
    low, high, repeats = ours.interval()
    assert (ours.whole, repeats) == (student.mean, student.repeats)
    assert (high - low) / 2 == pytest.approx(student.ci95)


def test_the_interval_of_a_ratio_is_narrow_if_both_numbers_vary_together() -> None:
    def ratio(*values: float) -> tuple[float, float, float]:
        parts = [Jackknife.mean(values), Jackknife.mean([90.0, 110.0, 95.0, 105.0])]
        found = Jackknife.combine(lambda table: table[0] / table[1], parts)
        return found.whole, *found.interval()[:2]

    assert ratio(180.0, 220.0, 190.0, 210.0) == (2, 2, 2)
    _, low, high = ratio(220.0, 180.0, 190.0, 210.0)
    assert high - low > 0.2
