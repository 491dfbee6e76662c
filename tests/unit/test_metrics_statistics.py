"""Intervals over repeats and the comparison of two runs, against values from the t tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import stdtr, stdtrit
from scipy.stats import binomtest
from synthetic_run import report, second, trace

from rtclab._native import student_t_p, student_t_quantile
from rtclab.experiment import compare_runs, summary_of_run
from rtclab.metrics import METRICS
from rtclab.metrics.accounts.limits import LIMITS
from rtclab.metrics.registry import Bounds
from rtclab.metrics.series import Samples
from rtclab.metrics.statistics import (
    Proportion,
    holm,
    mean_within_sd,
    paired,
    prediction_interval,
    summarise,
    welch,
)
from rtclab.trace import NotConnected, Repeat, Run, Status, Trace

T_975_2 = 4.302653  # Student's t, two degrees of freedom, 97.5 %


def samples(*values: float, lasts_s: list[float] | None = None) -> Samples:
    """One value per second, or for the given parts of a second."""
    at_s = np.arange(len(values)) + 0.5
    return Samples(at_s, np.array(values, dtype=float), None if lasts_s is None else np.array(lasts_s))


def memory_run(
    traces: list[Trace],
    failed: int = 0,
    others: Sequence[Status] = (),
    backend: str = "sim",
    first_seed: int = 0,
) -> Run:
    """A run without files: traces of finished repeats, followed by failed repeats and those in ``others``."""
    statuses: list[Status] = ["finished"] * len(traces) + ["failed"] * failed + [*others]
    entries = [Repeat(index, first_seed + index, status) for index, status in enumerate(statuses)]
    opened = dict(enumerate(traces))
    return Run(
        path=Path(),
        name="run",
        backend=backend,
        scenario={},
        repeats=entries,
        planned=len(entries),
        opened=opened,
    )


def run_of_rates(*kbps: float, failed: int = 0, backend: str = "sim", first_seed: int = 0) -> Run:
    seconds = [[second(at, 1, int(rate * 125)) for at in range(10)] for rate in kbps]
    return memory_run([trace(flow_seconds=rows) for rows in seconds], failed, (), backend, first_seed)


def test_the_next_value_after_1_2_3_lies_in_2_plus_minus_4_968() -> None:
    # Wider than the interval of the mean by √(n + 1), that is twice.
    low, high = prediction_interval([1, nan, 2, 3])
    assert (low, high) == (
        pytest.approx(2 - T_975_2 * (4 / 3) ** 0.5),
        pytest.approx(2 + T_975_2 * (4 / 3) ** 0.5),
    )
    assert prediction_interval([1, 2, 3], (0.0, 5.0)) == (0.0, 5.0)
    assert prediction_interval([0.1] * 8) == (0.1, 0.1)
    assert all(isnan(end) for end in prediction_interval([1.0, nan]))


def test_one_value_more_lies_in_19_of_20_prediction_intervals() -> None:
    source = np.random.default_rng(1)
    inside = 0
    for values in source.normal(5, 2, (4000, 9)):
        low, high = prediction_interval(list(values[1:]))
        inside += low <= values[0] <= high
    assert 0.94 <= inside / 4000 <= 0.96


def test_the_interval_of_1_2_3_is_2_plus_minus_2_484() -> None:
    summary = summarise([1, 2, 3])
    assert (summary.repeats, summary.mean, summary.sd) == (3, 2, 1)
    assert summary.ci95 == pytest.approx(T_975_2 / 3**0.5, abs=1e-5)


def test_one_value_has_no_interval_and_none_has_no_mean() -> None:
    one = summarise([5])
    assert one.mean == 5
    assert isnan(one.sd)
    assert isnan(one.ci95)
    assert isnan(summarise([nan]).mean)


def test_a_repeat_that_cannot_be_measured_is_left_out() -> None:
    assert summarise([1, nan, 3]).repeats == 2
    assert summarise([1, nan, 3]).mean == 2


def test_welch_of_equal_spreads_has_the_degrees_of_freedom_of_both() -> None:
    # sd 1, n 3 on both sides: error sqrt(2/3), 4 degrees of freedom, t = 2.776445.
    close = welch(summarise([1, 2, 3]), summarise([2, 3, 4]))
    assert close.value == 1
    assert close.ci95 == pytest.approx(2.776445 * (2 / 3) ** 0.5, abs=1e-5)
    # t = 1 / 0.8165 = 1.2247 and, for a difference of 3, 3.674, which scipy's ttest_ind gives these p-values.
    assert close.p == pytest.approx(0.28786, abs=1e-5)
    assert welch(summarise([1, 2, 3]), summarise([4, 5, 6])).p == pytest.approx(0.02131, abs=1e-5)


def test_welch_against_a_constant_has_the_degrees_of_freedom_of_the_other_side() -> None:
    difference = welch(summarise([2, 2, 2]), summarise([1, 2, 3]))
    assert difference.ci95 == pytest.approx(T_975_2 / 3**0.5, abs=1e-5)


def test_one_repeat_cannot_be_significant_or_insignificant() -> None:
    difference = welch(summarise([1]), summarise([2, 3]))
    assert difference.value == 1.5
    assert isnan(difference.p)
    assert isnan(paired([1], [2]).p)


def test_repeats_in_pairs_are_tested_by_their_differences() -> None:
    # Differences 1, 2, 3: sd 1, so the t-test has the interval of 1, 2, 3 and t = 2 sqrt(3) = 3.4641.
    in_pairs = paired([10, 100, 1000], [11, 102, 1003])
    assert in_pairs.value == 2
    assert in_pairs.ci95 == pytest.approx(T_975_2 / 3**0.5, abs=1e-5)
    assert in_pairs.p == pytest.approx(0.07418, abs=1e-5)
    assert welch(summarise([10, 100, 1000]), summarise([11, 102, 1003])).p > 0.99


def test_of_many_tests_the_smallest_p_value_is_compared_with_the_smallest_share_of_5_percent() -> None:
    # 0.05 / 3 = 0.0167, then 0.05 / 2 = 0.025: 0.03 stops the procedure, although 0.04 is below 0.05.
    assert holm([0.04, nan, 0.01, 0.03]) == [False, None, True, False]
    assert holm([0.04, 0.01, 0.02]) == [True, True, True]
    assert holm([]) == []


def test_among_equal_runs_one_comparison_in_twenty_has_any_mark_at_all() -> None:
    random, experiments = np.random.default_rng(5), 300
    marked = 0
    for _ in range(experiments):
        a, b = random.normal(size=(2, 40, 5))
        tests = [welch(summarise(before), summarise(after)).p for before, after in zip(a, b, strict=True)]
        marked += any(holm(tests))
    # 5 % and three standard errors of 1.3 percentage points; without the correction it would be 87 %.
    assert marked / experiments < 0.09


def test_the_papers_deviation_is_the_mean_of_each_runs_deviation() -> None:
    repeats = [samples(1, 2, 3), samples(10, 12, 14), samples(7)]
    assert mean_within_sd(repeats) == pytest.approx(1.5)  # deviations 1 and 2
    assert isnan(mean_within_sd([samples(7), samples()]))


def test_a_deviation_weights_samples_by_the_time_that_they_cover() -> None:
    # Mean (2 + 4 + 0.5 * 6) / 2.5 = 3.6; squares 2.56 + 0.16 + 0.5 * 5.76 = 5.6; 2.5 - 2.25 / 2.5 = 1.6.
    weighted = samples(2, 4, 6, lasts_s=[1, 1, 0.5])
    assert weighted.mean() == pytest.approx(3.6)
    assert weighted.deviation() == pytest.approx((5.6 / 1.6) ** 0.5)
    assert samples(2, 4, 6, lasts_s=[1, 1, 1]).deviation() == pytest.approx(2)


@pytest.mark.parametrize(
    ("values", "bounds", "low", "high"),
    [
        ([0, 0, 3], (0, math.inf), 0, 1 + T_975_2),  # sd sqrt(3), half the interval T
        ([97, 100, 100], (0, 100), 99 - T_975_2, 100),
        ([0, 0, 3], (-math.inf, math.inf), 1 - T_975_2, 1 + T_975_2),
    ],
)
def test_an_interval_stays_within_the_bounds_of_its_metric(
    values: list[float], bounds: tuple[float, float], low: float, high: float
) -> None:
    summary = summarise(values, bounds)
    assert (summary.ci95_low, summary.ci95_high) == pytest.approx((low, high), abs=1e-5)


def test_a_mean_that_rounding_put_outside_the_bounds_is_in_its_interval() -> None:
    summary = summarise([100.0000001, 100.0000002], (0, 100))
    assert summary.ci95_low < summary.mean <= summary.ci95_high == summary.mean


def covered(draw: Callable[[np.random.Generator], np.ndarray], true: float, bounds: Bounds) -> float:
    """Share of 4000 experiments whose interval contains the true mean. All stay within the bounds."""
    random, hits = np.random.default_rng(7), 0
    for _ in range(4000):
        one = summarise(list(draw(random)), bounds)
        # Without spread there is no interval, so it does not contain the true mean.
        hits += not isnan(one.ci95) and one.ci95_low <= true <= one.ci95_high
        assert isnan(one.ci95) or bounds[0] <= one.ci95_low <= one.ci95_high <= bounds[1]
    return hits / 4000


def test_intervals_contain_the_true_mean_as_often_near_a_bound_as_far_from_it() -> None:
    def normal(mean: float) -> float:
        return covered(lambda random: random.normal(mean, 1, 5), mean, (-1e9, 1e9))

    # 95 % +- 3 standard errors of 4000 draws (0.35 percentage points each).
    assert 0.939 < normal(5) < 0.961

    # Round-trip times: gamma of shape 4 and mean 4, with lower bound 0. The interval of a skewed distribution
    # is slightly too short, with and without the cut.
    def gamma(bounds: Bounds) -> float:
        return covered(lambda random: random.gamma(4, 1, 5), 4, bounds)

    assert gamma((0, math.inf)) == gamma((-math.inf, math.inf))
    assert 0.90 < gamma((0, math.inf)) < 0.96

    # Jain's index: beta(8, 2) with mean 0.8, between 0 and 1.
    def beta(bounds: Bounds) -> float:
        return covered(lambda random: random.beta(8, 2, 5), 0.8, bounds)

    assert beta((0, 1)) == beta((-math.inf, math.inf))
    assert 0.90 < beta((0, 1)) < 0.96


def test_every_metric_has_bounds_that_fit_its_unit() -> None:
    bounds = {name: entry.bounds for name, entry in METRICS.items()}
    assert bounds["fairness"] == (0, 1)
    assert {name for name, (_, high) in bounds.items() if high == 100} == {
        "packet_loss",
        "residual_loss",
        "unseen_loss",
        "audio_concealed",
        "cpu_limited",
        "utilisation",
        "call_failures",
        "tcp_retransmissions",
        "retransmission_share",
        "fec_share",
        "ce_share",
        "aqm_drop_share",
        "share_against_tcp_1s",
        "share_against_tcp_5s",
        "share_against_tcp_20s",
        "in_time_20",
        "in_time_100",
        "in_time_300",
        "over_budget",
        "repaired_in_time",
        "repair_in_vain",
        *(f"limited_by_{limit}" for limit in LIMITS),
    }
    assert {name for name, one in METRICS.items() if one.bounds_in(30.0)[1] == 30} == {
        "freeze_duration",
        "freeze_duration_w3c",
        "convergence_time",
        "time_to_full_rate",
        "active_time",
        "recovery_time",
    }
    # Only a delay between two clocks may be negative.
    assert [name for name, (low, _) in bounds.items() if low < 0] == ["one_way_delay"]


def test_values_without_spread_have_no_interval_and_differ_if_they_are_not_equal() -> None:
    constant = summarise([5, 5, 5])
    assert (constant.mean, constant.sd) == (5, 0)
    assert isnan(constant.ci95)
    assert isnan(constant.ci95_low)
    difference = welch(constant, summarise([7, 7, 7]))
    assert (difference.value, difference.constant) == (2, True)
    assert isnan(difference.p)
    assert isnan(difference.ci95)
    assert welch(constant, constant).p == 1
    in_pairs = paired([5, 5], [7, 7])
    assert (in_pairs.value, in_pairs.constant) == (2, True)
    assert isnan(in_pairs.p)
    assert isnan(in_pairs.ci95)
    assert paired([5, 6], [5, 6]).p == 1


def test_a_difference_of_shares_is_at_most_a_hundred_points() -> None:
    a, b = summarise([0, 0, 3], (0, 100)), summarise([97, 100, 100], (0, 100))
    assert welch(a, b).bounds == (-100, 100)
    assert welch(a, b).ci95_high == 100
    assert welch(b, a).ci95_low == -100


def row(table: Any, metric: str, flow: str = "alice->bob") -> dict[str, Any]:
    rows: list[dict[str, Any]] = table.filter(metric=metric, flow=flow).to_dicts()
    (found,) = rows
    return found


def test_a_run_is_measured_over_its_repeats() -> None:
    measured = row(summary_of_run(run_of_rates(800, 1000, 1200)), "receiving_rate")
    assert measured["mean"] == pytest.approx(1000)
    assert measured["sd"] == pytest.approx(200)
    assert measured["ci95_high"] - measured["mean"] == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    assert measured["mean"] - measured["ci95_low"] == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    assert measured["within_run_sd"] == pytest.approx(0)  # all seconds of a repeat are alike
    assert (measured["unit"], measured["better"], measured["repeats"]) == ("kbit/s", "higher", 3)


def test_a_metric_that_cannot_be_measured_has_no_row() -> None:
    assert summary_of_run(run_of_rates(800, 1000)).filter(metric="rtt").is_empty()


def test_failed_repeats_are_a_share_of_all_repeats() -> None:
    run = run_of_rates(800, 1000, 1200, failed=1)
    assert row(summary_of_run(run), "call_failures", flow="")["mean"] == 25


def test_a_window_has_no_share_of_failed_calls() -> None:
    run = run_of_rates(800, 1000, failed=1)
    assert summary_of_run(replace(run, window=(0, 5))).filter(metric="call_failures").is_empty()


def test_pairs_that_never_connected_are_a_share_of_a_finished_repeat() -> None:
    run = run_of_rates(800, 1000)
    missing = NotConnected(a="alice", b="carol", call=0, within_ns=10**10)
    (first, _) = run.traces
    first.manifest = first.manifest.model_copy(update={"connections": 4, "not_connected": (missing,)})
    assert row(summary_of_run(run), "call_failures", flow="")["mean"] == pytest.approx(100 * (1 / 4) / 2)


def test_a_run_in_which_every_repeat_failed_still_has_its_failures() -> None:
    measured = summary_of_run(memory_run([], failed=1))
    assert row(measured, "call_failures", flow="")["mean"] == 100


def test_the_window_reaches_every_metric() -> None:
    rows = [second(at, 125 if at < 5 else 250) for at in range(10)]
    measured = summary_of_run(replace(memory_run([trace(flow_seconds=rows)]), window=(5, 10)))
    assert row(measured, "sending_rate")["mean"] == 2000
    assert row(measured, "receiving_rate")["mean"] == 2000


def test_two_runs_are_compared_metric_by_metric() -> None:
    before, after = run_of_rates(800, 1000, 1200, backend="live"), run_of_rates(400, 500, 600, backend="live")
    compared = row(compare_runs({"a": before, "b": after}), "receiving_rate")
    assert (compared["base"], compared["new"], compared["difference"]) == (1000, 500, -500)
    assert compared["difference_percent"] == pytest.approx(-50)
    assert compared["base_high"] - 1000 == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    assert 1000 - compared["base_low"] == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    # error sqrt(200^2/3 + 100^2/3) = 129.1, degrees of freedom 25/(16/2 + 1/2) = 2.941, t = 3.2211.
    assert compared["difference_high"] + 500 == pytest.approx(129.0994 * 3.2211, rel=1e-3)
    assert -500 - compared["difference_low"] == pytest.approx(129.0994 * 3.2211, rel=1e-3)
    assert compared["p"] == pytest.approx(2 * stdtr(25 / 8.5, -500 / 129.0994), rel=1e-4)


def test_simulated_repeats_with_the_same_seeds_are_compared_in_pairs() -> None:
    before, after = run_of_rates(800, 1000, 1200), run_of_rates(810, 1011, 1212)
    in_pairs = row(compare_runs({"a": before, "b": after}), "receiving_rate")
    # Differences 10, 11, 12: sd 1. Means that are 200 apart from repeat to repeat do not hide it.
    assert in_pairs["difference"] == pytest.approx(11)
    assert in_pairs["difference_high"] - 11 == pytest.approx(T_975_2 / 3**0.5, abs=1e-3)
    assert in_pairs["significant"] is True
    others = [
        run_of_rates(810, 1011, 1212, first_seed=7),
        run_of_rates(810, 1011, 1212, backend="live"),
    ]
    for other in others:
        alone = row(compare_runs({"a": before, "b": other}), "receiving_rate")
        assert alone["difference_high"] - 11 > 400
        assert alone["significant"] is False


def test_a_repeat_that_one_of_two_paired_runs_lacks_is_left_out_of_both() -> None:
    before, after = run_of_rates(800, 1000, 1200), run_of_rates(810, 1011)
    compared = row(compare_runs({"a": before, "b": after}), "receiving_rate")
    assert (compared["base"], compared["new"]) == (900, 910.5)
    assert compared["difference"] == 10.5


def test_a_difference_between_two_values_without_spread_is_marked() -> None:
    for backend in ("sim", "live"):
        before, after = (run_of_rates(rate, rate, backend=backend) for rate in (800, 900))
        compared = compare_runs({"a": before, "b": after})
        assert row(compared, "receiving_rate")["significant"] is True
        assert row(compared, "packet_loss")["significant"] is False  # 0 in both
        assert compared.filter(metric="rtt").is_empty()


@pytest.mark.parametrize(
    ("metric", "counted", "unit"),
    [
        ("nacks", "nackCount", "1/min"),
        ("key_frame_requests", "pliCount", "1/min"),
        ("freeze_count_w3c", "freezeCount", "1/min"),
        ("freeze_duration_w3c", "totalFreezesDuration", "s/min"),
    ],
)
def test_totals_of_runs_of_different_length_are_compared_per_minute(
    metric: str, counted: str, unit: str
) -> None:
    def run_of(seconds: int) -> Run:
        # One in ten seconds: six a minute, whatever the length of the run.
        reports = [report(at, **{counted: at // 10}) for at in range(1, seconds + 1)]
        sent = [second(at, 1) for at in range(seconds)]
        return memory_run([trace(flow_seconds=sent, inbound_rtp=reports)] * 2)

    compared = row(compare_runs({"a": run_of(10), "b": run_of(60)}), metric)
    assert (compared["base"], compared["new"], compared["unit"]) == (6, 6, unit)
    part = replace(run_of(60), window=(15, 30))
    windowed = row(compare_runs({"a": part, "b": part}), metric)
    assert windowed["base"] == 8  # at 20 s and at 30 s, in a quarter of a minute


def test_totals_are_the_metrics_that_count_or_add_up_while_a_flow_lasts() -> None:
    totals = {name: one.compared_unit for name, one in METRICS.items() if one.total}
    assert totals == {
        "nacks": "1/min",
        "key_frame_requests": "1/min",
        "freeze_count": "1/min",
        "freeze_duration": "s/min",
        "freeze_count_w3c": "1/min",
        "freeze_duration_w3c": "s/min",
        "oscillations": "1/min",
    }
    assert METRICS["rtt"].compared_unit == "ms"


def test_a_flow_that_only_one_run_has_is_compared_with_nothing() -> None:
    other = memory_run([trace({"x->y": []}, flow_seconds=[second(0, 125, flow="x->y")])])
    compared = compare_runs({"a": run_of_rates(800, 900), "b": other})
    assert row(compared, "sending_rate")["new"] is None
    assert row(compared, "sending_rate", "x->y")["base"] is None
    assert row(compared, "sending_rate", "x->y")["new"] == 1000


@pytest.mark.parametrize("degrees_of_freedom", [1, 1.5, 2, 4, 5.7, 9, 29, 99, 1000])
def test_quantiles_of_students_t_agree_with_scipy(degrees_of_freedom: float) -> None:
    for share in (0.025, 0.5, 0.9, 0.975):
        quantile = student_t_quantile(share, degrees_of_freedom)
        assert quantile == pytest.approx(stdtrit(degrees_of_freedom, share), rel=1e-9, abs=1e-9)


@pytest.mark.parametrize(("share", "degrees_of_freedom"), [(1.5, 4), (nan, 4), (0.975, 0), (0.975, nan)])
def test_a_quantile_that_does_not_exist_is_refused(share: float, degrees_of_freedom: float) -> None:
    with pytest.raises(ValueError, match=r"share is|degrees_of_freedom is"):
        student_t_quantile(share, degrees_of_freedom)


@pytest.mark.parametrize(
    ("failed", "calls", "low", "high"),
    # Brown, Cai and DasGupta 2001, section 3.1.1, with z = 1.96: (x + z²/2 ± z sqrt(x (n - x) / n + z²/4)) /
    # (n + z²). For x = 0 that is 0 to z² / (n + z²), for x = n the mirror image.
    [(0, 10, 0.0, 27.7534), (10, 10, 72.2466, 100.0), (1, 1, 20.6543, 100.0), (4, 10, 16.8180, 68.7326)],
)
def test_wilsons_interval_exists_where_all_calls_agree(
    failed: int, calls: int, low: float, high: float
) -> None:
    share = Proportion(calls, 100 * failed / calls)
    assert (share.ci95_low, share.ci95_high) == pytest.approx((low, high), abs=1e-3)


def test_an_independent_implementation_gives_the_same_wilson_interval() -> None:
    for calls in (1, 3, 20, 1000):
        for failed in range(0, calls + 1, max(calls // 7, 1)):
            expected = binomtest(failed, calls).proportion_ci(method="wilson")
            share = Proportion(calls, 100 * failed / calls)
            assert share.ci95_low / 100 == pytest.approx(expected.low, abs=1e-12)
            assert share.ci95_high / 100 == pytest.approx(expected.high, abs=1e-12)


def test_call_failures_count_calls_and_neither_interruptions_nor_faults_of_the_laboratory() -> None:
    rows = [second(at, 1, 1000) for at in range(10)]
    run = memory_run([trace(flow_seconds=rows)], failed=1, others=["error", "interrupted", "error"])
    assert METRICS["call_failures"].function(run) == 50
    row = summary_of_run(run).filter(metric="call_failures").row(0, named=True)
    assert (row["repeats"], row["mean"]) == (2, 50)
    # 1 of 2: z² / n = 1.9207, so 0.5 ± sqrt(1.9207 / 4 + 1.9207² / 4) / 2.9207.
    assert (row["ci95_low"], row["ci95_high"]) == pytest.approx((9.4531, 90.5469), abs=1e-3)
    assert isnan(METRICS["call_failures"].function(memory_run([], others=["error"])))


@pytest.mark.parametrize("degrees_of_freedom", [1, 2.5, 4, 99])
def test_p_values_of_students_t_are_those_of_scipy(degrees_of_freedom: float) -> None:
    for t in (0, 0.7, -2.1, 9, 400):
        p = student_t_p(t, degrees_of_freedom)
        assert p == pytest.approx(2 * stdtr(degrees_of_freedom, -abs(t)), rel=1e-9, abs=0)
    with pytest.raises(ValueError, match=r"t is NaN"):
        student_t_p(nan, degrees_of_freedom)
