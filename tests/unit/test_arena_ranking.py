"""Ranks, tests, picks and fronts of controls over cases."""

from __future__ import annotations

from itertools import product
from math import nan

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy import stats

from rtclab.arenas.ranking import front, ranking, ranks, scores, winner
from rtclab.metrics import wilcoxon
from rtclab.metrics.statistics import bootstrap_over_cases, expanded_percentiles, means_of_known

NUMBERS = st.floats(-1e3, 1e3).filter(lambda value: abs(value) > 1e-6)


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=25, unique=True), st.integers(0, 2**25 - 1))
def test_wilcoxon_is_the_exact_test_of_scipy_without_ties(sizes: list[int], signs: int) -> None:
    differences = [size if signs >> place & 1 else -size for place, size in enumerate(sizes)]
    expected = stats.wilcoxon(differences, method="exact").pvalue
    assert wilcoxon(differences) == pytest.approx(float(expected), abs=1e-12)


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=9))
def test_wilcoxon_with_ties_counts_the_combinations_of_signs(differences: list[int]) -> None:
    known = [abs(one) for one in differences if one]
    ranks_of = stats.rankdata(known)
    smaller = min(
        sum(rank for rank, one in zip(ranks_of, [d for d in differences if d], strict=True) if one * side > 0)
        for side in (1, -1)
    )
    sums = [
        sum(rank for rank, up in zip(ranks_of, ups, strict=True) if up)
        for ups in product((0, 1), repeat=len(known))
    ]
    as_small = sum(one <= smaller + 1e-9 for one in sums) / len(sums)
    assert wilcoxon(differences) == pytest.approx(min(1.0, 2 * as_small))


def test_six_differences_with_one_sign_are_significant_and_five_are_not() -> None:
    # 2 / 2^n: 1/16 for five, 1/32 for six.
    assert wilcoxon([1, 2, 3, 4, 5]) == 0.0625
    assert wilcoxon([-1, -2, -3, -4, -5, -6]) == 0.03125
    assert wilcoxon([0.0, 0.0]) == wilcoxon([]) == 1.0


def test_ties_share_a_rank_and_unknown_values_are_last() -> None:
    means = np.array([[1.0, 5.0], [1.0, nan], [3.0, nan]])
    assert ranks(means, "lower").tolist() == [[1.5, 1.0], [1.5, 2.5], [3.0, 2.5]]
    assert ranks(means[:, :1], "higher").ravel().tolist() == [2.5, 2.5, 1.0]


@given(arrays(np.float64, (4, 3), elements=st.integers(0, 5).map(float)))
def test_ranks_of_a_case_add_up_and_turn_round_with_the_direction(means: np.ndarray) -> None:
    low, high = ranks(means, "lower"), ranks(means, "higher")
    assert low.sum(axis=0).tolist() == [10.0] * 3
    assert (low + high).ravel().tolist() == [5.0] * 12


def test_bootstrap_means_come_from_the_drawn_cases_and_repeats() -> None:
    # Two controls that differ by 1 in every repeat do so in every draw, because repeats are drawn together.
    one = np.random.default_rng(2).normal(size=(5, 4))
    samples = bootstrap_over_cases(np.stack([one, one + 1]), 200)
    assert samples.shape == (2, 200, 5)
    assert np.allclose(samples[1] - samples[0], 1)
    # Equal repeats: a draw has the means of cases only.
    flat = np.repeat(np.arange(3.0)[None, :, None], 4, axis=2)
    assert set(bootstrap_over_cases(flat, 50).ravel().tolist()) == {0.0, 1.0, 2.0}


def test_the_interval_of_a_mean_rank_is_as_wide_as_the_cases_vary() -> None:
    # The first control is best in 8 of 16 cases. The mean rank of a draw has a standard deviation of 0.5 / 4,
    # and Student's t of 15 degrees of freedom is 2.13: with √(16/15) it reaches 0.275 to both sides of 1.5.
    values = np.zeros((2, 16, 3))
    values[0, ::2] = 1
    values[1, 1::2] = 1
    found = ranking(values, "higher")
    assert found.mean.tolist() == [1.5, 1.5]
    assert found.low[0] == pytest.approx(1.5 - 0.275, abs=0.04)
    assert found.high[0] == pytest.approx(1.5 + 0.275, abs=0.04)
    assert (found.bars, found.apart) == (((0, 1),), frozenset())


def test_bars_join_neighbours_that_are_not_apart() -> None:
    rng = np.random.default_rng(3)
    base = rng.normal(size=(1, 12, 1)) * 10
    # Two are alike but for noise, and the third is always better.
    noise = rng.normal(size=(2, 12, 1))
    values = np.concatenate([base + noise[:1], base + noise[1:], base + 50])
    found = ranking(values, "higher")
    assert found.order[0] == 2
    assert found.bars == ((1, 2),)
    assert found.apart == {frozenset((0, 2)), frozenset((1, 2))}


def test_a_winner_is_certain_only_if_it_beats_the_best_of_the_others() -> None:
    cases = np.arange(8.0)[None, :, None] * np.ones((3, 8, 4))
    better = cases + np.array([0.0, 0.5, 2.0])[:, None, None]
    found = winner(better, "higher")
    assert found is not None
    assert (found.control, found.second, found.certain) == (2, 1, True)
    assert found.margin == pytest.approx(1.5)
    assert (found.low, found.high) == pytest.approx((1.5, 1.5))
    # Each is better in half of the cases.
    mixed = np.zeros((2, 8, 2))
    mixed[0, ::2], mixed[1, 1::2] = 1.1, 1.0
    found = winner(mixed, "higher")
    assert found is not None
    assert (found.control, found.certain) == (0, False)
    assert found.low < 0 < found.high
    # Whoever is unknown somewhere takes no part.
    better[2, 3] = nan
    found = winner(better, "higher")
    assert found is not None
    assert found.control == 1
    assert winner(np.full((2, 3, 1), nan), "lower") is None


def test_among_controls_alike_somebody_is_certain_to_win_about_as_often_as_the_interval_says() -> None:
    rng = np.random.default_rng(5)
    trials, certain = 150, 0
    for _ in range(trials):
        found = winner(rng.normal(size=(2, 6, 1)) + 0.3 * rng.normal(size=(2, 6, 2)), "higher")
        certain += found is not None and found.certain
    # 5 % with a standard deviation of 1.8 %, at three of them.
    assert 0 < certain / trials < 0.105


@given(
    arrays(np.float64, 6, elements=st.integers(0, 4).map(float)),
    arrays(np.float64, 6, elements=st.integers(0, 4).map(float)),
)
def test_the_front_is_what_nobody_beats(right: np.ndarray, up: np.ndarray) -> None:
    found = front(right, up)
    assert found.any()
    for index in range(6):
        beats = [
            right[other] <= right[index]
            and up[other] >= up[index]
            and (right[other], up[other]) != (right[index], up[index])
            for other in range(6)
        ]
        assert found[index] == (not any(beats))


def test_scores_are_1_for_the_best_and_fall_in_proportion() -> None:
    means = np.array([[80.0], [40.0], [nan]])
    assert scores(means, "higher", 0)[:2].tolist() == [[1.0], [0.5]]
    assert np.isnan(scores(means, "higher", 0)[2, 0])
    # 9 ms and 19 ms with a grain of 1 ms are 10 and 20.
    assert scores(np.array([[9.0], [19.0]]), "lower", 1).ravel().tolist() == [1.0, 0.5]
    assert np.isnan(scores(np.zeros((2, 1)), "higher", 0)).all()


def test_means_leave_out_unknown_repeats() -> None:
    assert means_of_known(np.array([[[1.0, nan, 3.0], [nan, nan, nan]]]))[0, 0] == 2
    assert np.isnan(means_of_known(np.array([[[nan]]]))).all()
    assert np.isnan(expanded_percentiles(np.array([1.0, nan]), 2)).all()
