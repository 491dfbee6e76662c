"""Intervals over repeats and the comparison of two runs, against values from the t tables."""

from __future__ import annotations

from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from synthetic_run import second, trace

from rtclab.metrics import compare_runs, measure_run
from rtclab.metrics.series import Samples
from rtclab.metrics.statistics import mean_within_sd, summarise, welch
from rtclab.trace import Repeat, Run, RunManifest, Trace

T_975_2 = 4.302653  # Student's t, two degrees of freedom, 97.5 %


def samples(*values: float, lasts_s: list[float] | None = None) -> Samples:
    """One value a second, or of the given parts of a second."""
    at_s = np.arange(len(values)) + 0.5
    return Samples(at_s, np.array(values, dtype=float), None if lasts_s is None else np.array(lasts_s))


class MemoryRun(Run):
    """A run without files: some traces, and after them some repeats that failed."""

    def __init__(self, traces: list[Trace], failed: int = 0) -> None:
        self.traces = traces
        finished = [Repeat(index, seed=0, status="finished") for index in range(len(traces))]
        entries = finished + [Repeat(len(traces) + index, seed=0, status="failed") for index in range(failed)]
        self.manifest = RunManifest(backend="sim", repeats=tuple(entries))


def run_of_rates(*kbps: float, failed: int = 0) -> Run:
    seconds = [[second(at, 1, int(rate * 125)) for at in range(10)] for rate in kbps]
    return MemoryRun([trace(flow_seconds=rows) for rows in seconds], failed)


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
    assert close.significant is False
    assert welch(summarise([1, 2, 3]), summarise([4, 5, 6])).significant is True


def test_welch_against_a_constant_has_the_degrees_of_freedom_of_the_other_side() -> None:
    difference = welch(summarise([2, 2, 2]), summarise([1, 2, 3]))
    assert difference.ci95 == pytest.approx(T_975_2 / 3**0.5, abs=1e-5)


def test_one_repeat_cannot_be_significant_or_insignificant() -> None:
    difference = welch(summarise([1]), summarise([2, 3]))
    assert difference.value == 1.5
    assert difference.significant is None


def test_the_papers_deviation_is_the_mean_of_each_runs_deviation() -> None:
    repeats = [samples(1, 2, 3), samples(10, 12, 14), samples(7)]
    assert mean_within_sd(repeats) == pytest.approx(1.5)  # deviations 1 and 2
    assert isnan(mean_within_sd([samples(7), samples()]))


def row(table: Any, metric: str, flow: str = "alice->bob") -> dict[str, Any]:
    rows: list[dict[str, Any]] = table.filter(metric=metric, flow=flow).to_dicts()
    (found,) = rows
    return found


def test_a_run_is_measured_over_its_repeats() -> None:
    measured = row(measure_run(run_of_rates(800, 1000, 1200)), "receiving_rate")
    assert measured["values"] == [800, 1000, 1200]
    assert measured["mean"] == pytest.approx(1000)
    assert measured["sd"] == pytest.approx(200)
    assert measured["ci95_high"] - measured["mean"] == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    assert measured["mean"] - measured["ci95_low"] == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    assert measured["within_run_sd"] == pytest.approx(0)  # every second of a repeat is alike
    assert (measured["unit"], measured["better"], measured["repeats"]) == ("kbit/s", "higher", 3)


def test_what_cannot_be_measured_is_null_not_missing() -> None:
    unmeasured = row(measure_run(run_of_rates(800, 1000)), "rtt")
    assert unmeasured["mean"] is None
    assert unmeasured["repeats"] == 0
    assert unmeasured["values"] == [None, None]


def test_failed_repeats_are_a_share_of_all_repeats() -> None:
    run = run_of_rates(800, 1000, 1200, failed=1)
    assert row(measure_run(run), "call_failures", flow="")["mean"] == 25


def test_a_run_whose_every_repeat_failed_still_has_its_failures() -> None:
    measured = measure_run(MemoryRun([], failed=1))
    assert row(measured, "call_failures", flow="")["mean"] == 100


def test_the_window_reaches_every_metric() -> None:
    rows = [second(at, 125 if at < 5 else 250) for at in range(10)]
    measured = measure_run(MemoryRun([trace(flow_seconds=rows)]), window=(5, 10))
    assert row(measured, "sending_rate")["mean"] == 2000
    assert row(measured, "receiving_rate")["mean"] == 2000


def test_two_runs_are_compared_metric_by_metric() -> None:
    compared = row(compare_runs(run_of_rates(800, 1000, 1200), run_of_rates(400, 500, 600)), "receiving_rate")
    assert (compared["mean_a"], compared["mean_b"], compared["difference"]) == (1000, 500, -500)
    assert compared["difference_percent"] == pytest.approx(-50)
    assert compared["ci95_high_a"] - 1000 == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    assert 1000 - compared["ci95_low_a"] == pytest.approx(200 * T_975_2 / 3**0.5, abs=1e-3)
    # error sqrt(200^2/3 + 100^2/3) = 129.1, degrees of freedom 25/(16/2 + 1/2) = 2.941, t = 3.2211.
    assert compared["difference_ci95_high"] + 500 == pytest.approx(129.0994 * 3.2211, rel=1e-3)
    assert -500 - compared["difference_ci95_low"] == pytest.approx(129.0994 * 3.2211, rel=1e-3)
    assert compared["significant"] is True


def test_a_flow_that_only_one_run_has_is_compared_with_nothing() -> None:
    other = MemoryRun([trace({"x->y": []}, flow_seconds=[second(0, 125, flow="x->y")])])
    compared = compare_runs(run_of_rates(800, 900), other)
    assert row(compared, "sending_rate")["mean_b"] is None
    assert row(compared, "sending_rate", "x->y")["mean_a"] is None
    assert row(compared, "sending_rate", "x->y")["mean_b"] == 1000
