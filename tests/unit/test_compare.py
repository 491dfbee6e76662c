"""Comparing any number of runs: statistics of differences, what differs, labels, pages and plots."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from itertools import permutations
from math import isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from scipy.stats import fisher_exact, nct, ttest_ind, ttest_rel
from scipy.stats import t as student
from synthetic_run import call_tables, second, trace, write_run
from test_metrics_statistics import memory_run, row, run_of_rates

import rtclab
from rtclab.errors import BadInput
from rtclab.experiment import Differences, compare_runs
from rtclab.experiment.comparison import Row, Side
from rtclab.metrics import METRICS
from rtclab.metrics.statistics import (
    POWER,
    Difference,
    Proportion,
    ShareDifference,
    Summary,
    paired,
    summarise,
    welch,
)
from rtclab.report import comparison_plot, write_comparison
from rtclab.report.compared import Compared, in_percent, phrase
from rtclab.report.differences import scenario_differences
from rtclab.report.drawing import Intervals
from rtclab.report.forest import forest
from rtclab.report.static_svg import static_svgs
from rtclab.trace import Run

RATES = st.lists(st.floats(100, 2000).map(lambda rate: round(rate)), min_size=3, max_size=6)
SHARES = st.integers(1, 60).flatmap(lambda trials: st.tuples(st.integers(0, trials), st.just(trials)))


def share(failed: float, trials: int) -> Proportion:
    return Proportion(trials, 100 * failed / trials)


# --- shares ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("a", "b", "low", "high"),
    # Newcombe 1998, table II, method 10. The differences there are first minus second.
    [
        ((48, 80), (56, 70), 5.24, 33.39),
        ((3, 10), (9, 10), 17.05, 80.90),
        ((2, 7), (6, 7), 5.82, 80.62),
        ((0, 29), (5, 56), -3.81, 19.26),
        ((0, 20), (0, 10), -16.11, 27.75),
        ((0, 10), (0, 10), -27.75, 27.75),
        ((0, 20), (10, 10), 67.91, 100.0),
        ((0, 10), (10, 10), 60.75, 100.0),
    ],
)
def test_intervals_of_differences_of_shares_are_those_that_newcombe_printed(
    a: tuple[int, int], b: tuple[int, int], low: float, high: float
) -> None:
    found = ShareDifference(share(*a), share(*b))
    assert (found.ci95_low, found.ci95_high) == pytest.approx((low, high), abs=0.006)


@given(SHARES, SHARES)
def test_newcombes_interval_contains_the_difference_and_stays_within_what_is_possible(
    a: tuple[int, int], b: tuple[int, int]
) -> None:
    there, back = (ShareDifference(share(*one), share(*other)) for one, other in ((a, b), (b, a)))
    assert -100 - 1e-9 <= there.ci95_low <= there.value + 1e-9
    assert there.value - 1e-9 <= there.ci95_high <= 100 + 1e-9
    assert (there.ci95_low, there.p) == pytest.approx((-back.ci95_high, back.p))


@settings(deadline=None)
@given(SHARES, SHARES)
def test_the_exact_test_of_shares_agrees_with_scipy(a: tuple[int, int], b: tuple[int, int]) -> None:
    table = [[failed, trials - failed] for failed, trials in (a, b)]
    assert ShareDifference(share(*a), share(*b)).p == pytest.approx(fisher_exact(table).pvalue, abs=1e-9)


def test_trials_that_failed_in_part_make_no_difference_more_certain() -> None:
    in_part = ShareDifference(share(0.4, 5), share(4.5, 5))
    assert in_part.p == ShareDifference(share(1, 5), share(4, 5)).p
    assert isnan(ShareDifference(Proportion(0, nan), share(1, 5)).p)


def test_the_needed_trials_find_a_difference_of_shares_in_80_of_100_attempts() -> None:
    random = np.random.default_rng(7)
    for a, b in ((10, 50), (20, 40)):
        needed = ShareDifference(share(a, 100), share(b, 100)).repeats_needed(0.05)
        assert needed is not None
        failed = random.binomial(needed, [a / 100, b / 100], size=(1000, 2))
        found = np.mean([ShareDifference(share(x, needed), share(y, needed)).p <= 0.05 for x, y in failed])
        assert 0.76 < found < 0.86  # three standard errors are 0.04, and trials are whole
    assert ShareDifference(share(1, 5), share(1, 5)).repeats_needed(0.05) is None


# --- how many repeats would do -----------------------------------------------------------------------


def exact_repeats(effect: float, level: float, share: float) -> int:
    """By the noncentral t distribution; ``effect`` in standard deviations of the difference."""
    repeats = 2
    while True:
        freedom = share * (repeats - 1)
        bound = student.ppf(1 - level / 2, freedom)
        if nct.sf(bound, freedom, effect * repeats**0.5) >= POWER:
            return repeats
        repeats += 1


@pytest.mark.parametrize("level", [0.05, 0.05 / 70, 0.05 / 300])
@pytest.mark.parametrize("effect", [3.0, 1.5, 1.0, 0.5, 0.2])
def test_the_needed_repeats_agree_with_the_noncentral_t_distribution(effect: float, level: float) -> None:
    in_pairs = Difference(effect, nan, nan, deviations=(1.0,)).repeats_needed(level)
    assert in_pairs == pytest.approx(exact_repeats(effect, level, 1), abs=1)
    alike = Difference(effect, nan, nan, deviations=(0.5**0.5, 0.5**0.5)).repeats_needed(level)
    assert alike == pytest.approx(exact_repeats(effect, level, 2), abs=1)


def test_the_needed_repeats_find_a_difference_in_80_of_100_attempts() -> None:
    random = np.random.default_rng(3)
    needed = Difference(1.0, nan, nan, deviations=(1.0, 2.0)).repeats_needed(0.05)
    assert needed is not None
    found = 0
    for _ in range(1000):
        a, b = random.normal(0, 1, needed), random.normal(1, 2, needed)
        found += welch(summarise(a.tolist()), summarise(b.tolist())).p <= 0.05
    assert 0.76 < found / 1000 < 0.84


@given(st.floats(0.05, 5), st.floats(1.01, 3), st.sampled_from([0.05, 0.001]))
def test_a_larger_difference_needs_no_more_repeats_and_a_stricter_level_no_fewer(
    effect: float, times: float, level: float
) -> None:
    def needed(value: float, at: float) -> int:
        found = Difference(value, nan, nan, deviations=(1.0,)).repeats_needed(at)
        assert found is not None
        return found

    assert needed(effect * times, level) <= needed(effect, level) <= needed(effect, level / 2)
    assert needed(-effect, level) == needed(effect, level)


def test_without_a_difference_or_a_spread_nobody_knows_how_many_repeats_would_do() -> None:
    assert paired([1, 2], [1, 2]).repeats_needed(0.05) is None
    assert paired([1], [2]).repeats_needed(0.05) is None
    assert Difference(1e-9, nan, nan, deviations=(1.0,)).repeats_needed(0.05) is None


@pytest.mark.filterwarnings("ignore:Precision loss")
@settings(deadline=None)
@given(RATES, st.data())
def test_p_values_are_those_of_scipy(rates: list[float], data: st.DataObject) -> None:
    others = data.draw(st.lists(st.floats(100, 2000).map(round), min_size=len(rates), max_size=len(rates)))
    changes = [after - before for before, after in zip(rates, others, strict=True)]
    if len(set(changes)) > 1:
        assert paired(rates, others).p == pytest.approx(ttest_rel(others, rates).pvalue, rel=1e-6)
    if len(set(rates)) > 1 or len(set(others)) > 1:
        alone = welch(summarise(rates), summarise(others))
        assert alone.p == pytest.approx(ttest_ind(others, rates, equal_var=False).pvalue, rel=1e-6)


# --- verdicts ----------------------------------------------------------------------------------------


def test_each_difference_has_one_verdict() -> None:
    baseline = run_of_rates(800, 1000, 1200)
    runs: dict[str, Run] = {
        "far": run_of_rates(400, 602, 801),
        "moved": run_of_rates(810, 1010, 1210),
        "near": run_of_rates(801, 998, 1202),
        "unclear": run_of_rates(900, 900, 1500),
    }
    compared = compare_runs({"a": baseline, **runs})
    verdicts = {label: row(compared.filter(label=label), "receiving_rate") for label in runs}
    assert {label: found["verdict"] for label, found in verdicts.items()} == {
        "far": "differs",
        "moved": "constant difference",
        "near": "no difference seen",
        "unclear": "too few repeats to tell",
    }
    assert [found["significant"] for found in verdicts.values()] == [True, True, False, False]
    assert [found["repeats_needed"] is None for found in verdicts.values()] == [True, True, True, False]
    # What is constant is no test; what is 0 in both runs is no difference.
    assert verdicts["moved"]["p"] is None
    assert set(compared.filter(metric="packet_loss")["verdict"]) == {"no difference seen"}


def test_one_repeat_is_too_few_and_nobody_knows_how_many_would_do() -> None:
    found = row(compare_runs({"a": run_of_rates(800), "b": run_of_rates(900)}), "receiving_rate")
    assert (found["verdict"], found["repeats_needed"], found["significant"]) == (
        "too few repeats to tell",
        None,
        None,
    )


@settings(max_examples=30, deadline=None)
@given(st.lists(RATES.filter(lambda rates: len(rates) == 4), min_size=3, max_size=3))
def test_the_order_of_the_runs_beyond_the_first_changes_nothing(rates: list[list[float]]) -> None:
    baseline, *others = (run_of_rates(*of_run) for of_run in rates)
    by_label = dict(zip("bc", others, strict=True))
    order = ["metric", "flow", "label"]
    first, *rest = (
        compare_runs({"a": baseline} | {label: by_label[label] for label in labels}).sort(order)
        for labels in permutations(by_label)
    )
    assert all(first.equals(other) for other in rest)


@settings(max_examples=30, deadline=None)
@given(st.lists(RATES.filter(lambda rates: len(rates) == 4), min_size=2, max_size=2))
def test_too_few_repeats_are_fewer_than_would_do(rates: list[list[float]]) -> None:
    compared = compare_runs({str(index): run_of_rates(*of_run) for index, of_run in enumerate(rates)})
    needed = compared.filter(verdict="too few repeats to tell")["repeats_needed"].drop_nulls()
    assert (needed > 4).all()


def test_the_correction_is_over_all_runs() -> None:
    baseline, other = run_of_rates(800, 1000, 1200), run_of_rates(810, 1013, 1211)
    alone = compare_runs({"a": baseline, "b": other})
    p = row(alone, "receiving_rate")["p"]
    many = compare_runs({"a": baseline} | {str(index): other for index in range(40)})
    assert row(many.filter(label="7"), "receiving_rate")["p"] == p
    assert row(alone, "receiving_rate")["significant"] is True
    assert row(many.filter(label="7"), "receiving_rate")["significant"] is False


def test_simulated_runs_can_be_compared_without_pairs() -> None:
    before, after = run_of_rates(800, 1000, 1200), run_of_rates(810, 1011, 1212)
    alone = row(compare_runs({"a": before, "b": after}, pair_repeats=False), "receiving_rate")
    assert alone["p"] == pytest.approx(
        ttest_ind([810, 1011, 1212], [800, 1000, 1200], equal_var=False).pvalue
    )


@pytest.mark.parametrize("left", [3, 2, 1])
def test_a_run_is_no_better_for_failing_in_its_hard_repeats(left: int) -> None:
    """The first repeats are easy. Where both finished, the second run is 10 kbit/s slower."""
    whole = [1000.0, 800, 600, 400]
    found = row(
        compare_runs(
            {
                "a": run_of_rates(*whole),
                "b": run_of_rates(*(rate - 10 for rate in whole[:left]), failed=4 - left),
            }
        ),
        "receiving_rate",
    )
    assert found["base"] == pytest.approx(sum(whole[:left]) / left)
    assert found["difference"] == pytest.approx(-10)


def test_runs_of_which_no_repeat_finished_in_both_are_not_compared() -> None:
    early, late = run_of_rates(900, 800, failed=2), run_of_rates(500, 400, 300, 200)
    late.repeats[:2] = [replace(one, status="failed") for one in late.repeats[:2]]
    found = row(compare_runs({"a": early, "b": late}), "receiving_rate")
    assert (found["base"], found["new"], found["difference"], found["verdict"]) == (None,) * 4
    apart = row(compare_runs({"a": early, "b": run_of_rates(500, 400, first_seed=9)}), "receiving_rate")
    assert (apart["base"], apart["difference"]) == (850, -400)  # other seeds: nothing to pair


def test_failed_calls_have_newcombes_interval_and_fishers_test() -> None:
    rows = [second(at, 1, 1000) for at in range(5)]
    good = memory_run([trace(flow_seconds=rows)] * 10)
    bad = memory_run([trace(flow_seconds=rows)] * 2, failed=8)
    found = row(compare_runs({"a": good, "b": bad}), "call_failures", flow="")
    assert found["difference"] == 80
    assert found["p"] == pytest.approx(fisher_exact([[0, 10], [8, 2]]).pvalue)
    assert 38 < found["difference_low"] < 80 < found["difference_high"] < 100


# --- a hypothesis stated beforehand ------------------------------------------------------------------


def differences_of_p(p: dict[str, float]) -> Differences:
    """A difference of one flow for each metric, with the given p-value."""
    side = Summary(5, 100.0, 10.0, 10.0)
    rows = [
        Row("", "b", METRICS[name], "a->b", side, side, Difference(9.0, 20.0, value, deviations=(10.0,)))
        for name, value in p.items()
    ]
    return Differences(rows, {"a->b": True}, {"b": [5]})


NAMES_80 = [name for name in METRICS if name != "rtt"][:79]


def test_a_hypothesis_stated_beforehand_is_tested_alone_among_80_metrics() -> None:
    found = differences_of_p({"rtt": 0.03} | dict.fromkeys(NAMES_80, 0.5))
    seen = {stated: row(found.table(hypothesis=stated), "rtt", "a->b") for stated in ((), ("rtt",))}
    assert [(one["verdict"], one["significant"], one["hypothesis"]) for one in seen.values()] == [
        ("too few repeats to tell", False, False),
        ("differs", True, True),
    ]
    # A hypothesis whose difference may be chance does not differ for having been stated.
    chance = differences_of_p({"rtt": 0.06} | dict.fromkeys(NAMES_80, 0.5)).table(hypothesis=["rtt"])
    assert row(chance, "rtt", "a->b")["significant"] is False


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 0.1), min_size=80, max_size=80))
def test_a_hypothesis_and_the_other_metrics_are_corrected_as_if_each_were_all(p: list[float]) -> None:
    found = differences_of_p(dict(zip(["rtt", *NAMES_80], p, strict=True)))
    stated = [*NAMES_80[:2], "rtt"]
    rest = [name for name in NAMES_80 if name not in stated]
    table = found.table(hypothesis=stated)
    for names, of_table in (
        (stated, table.filter("hypothesis")),
        (rest, table.filter(~pl.col("hypothesis"))),
    ):
        alone = found.table(metrics=names)
        assert of_table.drop("hypothesis").equals(alone.drop("hypothesis"))
        assert set(of_table["metric"]) == set(names)


def test_several_hypotheses_are_corrected_among_themselves() -> None:
    p = {"rtt": 0.03, "packet_loss": 0.04}
    alone, both = (
        differences_of_p(p).table(hypothesis=names).filter("hypothesis") for names in (["rtt"], [*p])
    )
    assert alone["significant"].to_list() == [True]
    assert both["significant"].to_list() == [False, False]  # the smaller p is above 2.5 %


def test_a_hypothesis_is_in_the_table_whatever_metrics_and_flows_are_chosen() -> None:
    runs = {"a": {"": Side.of_run(run_of_rates(800, 900))}, "b": {"": Side.of_run(run_of_rates(400, 500))}}
    found = Differences.of(runs)
    table = found.table(["receiving_rate"], "alice->bob", ["call_failures"])
    assert table.select("metric", "flow", "hypothesis").rows() == [
        ("receiving_rate", "alice->bob", False),
        ("call_failures", "", True),
    ]
    assert not found.table(hypothesis=["rtt"])["hypothesis"].any()  # it has no value


def test_a_hypothesis_about_no_metric_is_refused(three: list[rtclab.Results]) -> None:
    with pytest.raises(BadInput, match="no metric `receiving_rat`") as caught:
        rtclab.compare(*three, hypothesis="receiving_rat")
    assert caught.value.hint == "did you mean `receiving_rate`?"
    with pytest.raises(BadInput, match="hypothesis: "):
        rtclab.compare(*three, hypothesis=[])


# --- what differs ------------------------------------------------------------------------------------


def run_with(out: Path, **fields: object) -> Run:
    run = write_run(out, [call_tables(1, duration_s=10)])
    run.scenario.update(fields)
    return run


def test_what_differs_are_paths_of_fields_with_a_value_for_each_run(tmp_path: Path) -> None:
    capacity = {"steps": [["0 s", "1 Mbit/s"], ["5 s", "500 kbit/s"]]}
    runs = [
        run_with(tmp_path, title="A", calls=[{"kind": "p2p"}], link={"up": {"queue": "300 ms"}}),
        run_with(tmp_path, title="B", calls=[{"kind": "sfu"}], link={"up": {"capacity": capacity}}),
    ]
    assert scenario_differences(runs) == [
        ("link.up.queue", ["300 ms", "–"]),
        ("calls[0].kind", ["p2p", "sfu"]),
        ("link.up.capacity", ["–", "1 Mbit/s from 0 s; 500 kbit/s from 5 s"]),
    ]
    assert scenario_differences([runs[0], runs[0]]) == []


# --- the Python interface, pages and plots -----------------------------------------------------------


@pytest.fixture(scope="module")
def three(tmp_path_factory: pytest.TempPathFactory) -> list[rtclab.Results]:
    """A call, with half the capacity, and with a shorter queue."""
    out = tmp_path_factory.mktemp("runs")
    changes = [{}, {"link.up.capacity": "500 kbit/s"}, {"link.up.queue": "100 ms"}]
    return [
        rtclab.run("first-call", duration="8 s", repeats=2, set=change, out=out, progress=False)
        for change in changes
    ]


def test_three_runs_have_a_row_for_each_compared_run(three: list[rtclab.Results]) -> None:
    labels = ["baseline", "slow", "short"]
    compared = rtclab.compare(*three, labels=labels)
    table = compared.table()
    assert table["label"].unique(maintain_order=True).to_list() == ["slow", "short"]
    assert table.columns[:7] == ["condition", "metric", "unit", "better", "flow", "label", "base"]
    assert compared.differences().rows() == [
        ("link.up.capacity", "1 Mbit/s", "500 kbit/s", "1 Mbit/s"),
        ("link.up.queue", "300 ms", "300 ms", "100 ms"),
    ]
    two = rtclab.compare(three[0], three[1]).table()
    key = {"metric": "receiving_rate", "flow": "alice->bob"}
    shared = ["base", "new", "difference", "p"]
    assert two.filter(**key).select(shared).equals(table.filter(label="slow", **key).select(shared))


def test_the_page_says_first_what_differs_and_has_a_column_for_each_run(
    three: list[rtclab.Results],
) -> None:
    compared = rtclab.compare(*three, labels=["baseline", "slow", "<short>"])
    page = compared.report()
    assert page == rtclab.compare(*three).report(), "the same name each time"
    assert len(page.name) < 60
    text = compared.report().read_text(encoding="utf-8").partition("<script type")[0]
    parts = (
        'class="lead"',
        'id="differences"',
        'id="rate"',
        'id="metrics"',
        'id="runs"',
        "link.up.queue</th>",
    )
    places = [text.index(part) for part in parts]
    assert places == sorted(places)
    assert "<short>" not in text
    groups = text.count('<details open class="group">') + text.count('<details class="group">')
    assert text.count('<th scope="col">&lt;short&gt; − baseline</th>') == groups > 1
    # What holds for all is said once, and its kind also above the title.
    assert text.count("simulated (virtual time)") == 2
    assert text.count("<dt>Machine</dt>") == 1


# --- what is said of differences -----------------------------------------------------------------------


def told(base: list[float], new: list[float], **given: Any) -> Compared:
    runs = {"a": run_of_rates(*base), "b": run_of_rates(*new)}
    sides = {label: {"": Side.of_run(run)} for label, run in runs.items()}
    return Compared.of_runs(runs, Differences.of(sides).table(**given))


def test_the_sentence_says_the_largest_difference_both_means_and_whether_it_is_chance() -> None:
    found = told([800, 1000, 1200], [400, 502, 601], metrics=["receiving_rate"])
    p = ttest_rel([400, 502, 601], [800, 1000, 1200]).pvalue
    assert found.sentence("b") == (
        "With the same scenario, alice → bob: the receiving rate is 50 % lower (1000 → 501 kbit/s, worse); "
        f"that is more than chance (p = {p:.2g}, Holm over 1 comparison)."
    )
    assert found.counts("b") == "Of 1 comparison: 1 beyond chance."
    (figure,) = found.answer({}).figures
    assert (figure.value, figure.unit, figure.about) == ("−50", "%", "1000 → 501 kbit/s, worse")


def test_the_sentence_of_an_unclear_difference_names_the_repeats_that_would_do() -> None:
    found = told([800, 1000, 1200], [900, 900, 1500], metrics=["receiving_rate"])
    assert "no difference is more than chance" in found.sentence("b")
    assert found.counts("b") == "Of 1 comparison: 1 unclear with 3 repeats."
    (cell,) = found.cells
    assert cell["repeats_needed"] > 3
    first, second = found.answer({}).steps
    assert first.command == (f"rtclab run --resume . --repeats {cell['repeats_needed']}"), (
        "both runs are in memory, so their path is the same"
    )
    assert second.command == "rtclab compare . --hypothesis receiving_rate"


@pytest.mark.parametrize(
    ("base", "new", "how"),
    [
        (1000, 899, "is 10 % lower (1000 → 899 kbit/s, worse)"),
        (1000, 1015, "is 1.5 % higher (1000 → 1015 kbit/s, better)"),
        (1000, 1990, "is 99 % higher (1000 → 1990 kbit/s, better)"),
        (1000, 2000, "is 2.0 times as high (1000 → 2000 kbit/s, better)"),
        (0, 100, "rises (0 → 100.0 kbit/s, better)"),
        (100, 0, "falls (100.0 → 0 kbit/s, worse)"),
        (100, 100, "is the same (100.0 → 100.0 kbit/s)"),
    ],
)
def test_differences_in_words(base: float, new: float, how: str) -> None:
    side, other = (Summary(5, mean, 1.0, 1.0) for mean in (base, new))
    found = Row("", "b", METRICS["receiving_rate"], "a->b", side, other, Difference(new - base, 1.0, 0.01))
    assert phrase(found.as_dict(True, 0.05)) == f"the receiving rate {how}"


def test_a_hypothesis_is_said_apart_from_the_other_differences() -> None:
    found = told([800, 1000, 1200], [810, 1013, 1211], hypothesis=["receiving_rate"])
    sentence = found.sentence("b")
    assert "that was stated beforehand and is more than chance (p = " in sentence
    assert ", tested alone)." in sentence
    assert not [step for step in found.answer({}).steps if "--hypothesis" in step.command]
    chance = told([800, 1000, 1200], [900, 900, 1500], hypothesis=["receiving_rate"]).sentence("b")
    assert "that was stated beforehand and may be chance (p = " in chance


def test_of_one_repeat_the_difference_is_said_and_that_chance_is_unknown() -> None:
    sentence = told([800], [400]).sentence("b")
    assert "the receiving rate is 50 % lower (800.0 → 400.0 kbit/s, worse)" in sentence
    assert "whether that is more than chance takes two repeats of each or more" in sentence


def test_if_no_repeat_finished_the_page_says_so_and_which_command_says_why(tmp_path: Path) -> None:
    runs = {"a": run_of_rates(800, 900), "b": run_of_rates(failed=2)}
    text = (
        write_comparison(runs, tmp_path / "page.html")
        .read_text(encoding="utf-8")
        .partition("<script type")[0]
    )
    assert "no flow can be compared: no repeat of b finished" in text
    assert "rtclab show ." in text


# --- the forest plot ------------------------------------------------------------------------------------


def cell(metric: str, base: float, new: float, verdict: str = "differs", half: float = 1.0) -> dict[str, Any]:
    row = Row(
        "",
        "b",
        METRICS[metric],
        "a->b",
        Summary(5, base, 1, 1),
        Summary(5, new, 1, 1),
        Difference(new - base, half, 0.001),
    ).as_dict(True, 0.05)
    return row | {"verdict": verdict, "hypothesis": False}


def test_an_interval_in_percent_ends_where_the_new_mean_would_be_impossible() -> None:
    assert in_percent(cell("receiving_rate", 1000, 50, half=80)) == pytest.approx((-95, -100, -87))
    assert in_percent(cell("packet_loss", 80, 96, half=8)) == pytest.approx((20, 10, 25))
    assert in_percent(cell("receiving_rate", 1000, 500, half=80)) == pytest.approx((-50, -58, -42))


def test_the_forest_plot_has_a_row_for_each_difference_beyond_chance_essential_metrics_first() -> None:
    plot = forest(
        ["a", "b"],
        [
            cell("sending_rate", 1000, 100),
            cell("receiving_rate", 1000, 500, half=50),
            cell("rtt", 100, 75, half=5),
            cell("jitter", 10, 11, "too few repeats to tell"),
        ],
    )
    assert plot is not None
    names = [name for _, name in sorted(plot.y.named, reverse=True)]
    assert names == ["Receiving rate", "RTT", "Sending rate"]
    (drawn,) = (mark for mark in plot.marks if isinstance(mark, Intervals))
    assert not drawn.hollow
    assert drawn.x.tolist() == pytest.approx([-50, -25, -90])
    assert drawn.low.tolist() == pytest.approx([-55, -30, -90.1])
    assert drawn.high.tolist() == pytest.approx([-45, -20, -89.9])
    assert plot.title == "Differences from a: a → b"
    assert plot.x.begin < -90 < 10 < plot.x.end


def test_differences_without_a_place_on_the_axis_are_beyond_its_last_tick_and_in_the_names() -> None:
    plot = forest(["a", "b"], [cell("rtt", 10, 100), cell("packet_loss", 0, 5), cell("jitter", 10, 12)])
    assert plot is not None
    assert {name for _, name in plot.y.named} == {"RTT: 10 → 100 ms", "Packet loss: 0 → 5 %", "Jitter"}
    (drawn,) = (mark for mark in plot.marks if isinstance(mark, Intervals))
    beyond = {x > plot.x.last_tick for x in drawn.x[:2]}
    assert beyond == {True}
    assert drawn.x[2] == pytest.approx(20)
    assert plot.x.last_tick < plot.x.end


def test_if_nothing_differs_the_forest_plot_shows_essential_metrics_hollow() -> None:
    few = "too few repeats to tell"
    plot = forest(["a", "b"], [cell("rtt", 10, 11, few), cell("jitter", 10, 12, few)])
    assert plot is not None
    (drawn,) = (mark for mark in plot.marks if isinstance(mark, Intervals))
    assert drawn.hollow
    assert [name for _, name in plot.y.named] == ["RTT"]
    assert forest(["a", "b"], []) is None


def test_a_comparison_plots_its_differences_with_and_without_traces(
    three: list[rtclab.Results], tmp_path: Path
) -> None:
    plot = rtclab.compare(*three, labels=["a", "b", "c"], flows="alice->bob").plot("differences")
    assert {mark.look.label for mark in plot.marks if isinstance(mark, Intervals)} == {"b", "c"}
    failed = rtclab.run(
        "first-call", duration="2 s", repeats=1, set={"link.up.loss": "100 %"}, out=tmp_path, progress=False
    )
    with pytest.raises(BadInput, match="plot: nothing can be compared"):
        rtclab.compare(failed, failed, flows="alice->bob", metrics="rtt").plot("differences")


def test_the_forest_plot_is_drawn_by_all_three_ways_and_none_is_cut(tmp_path: Path) -> None:
    metrics = [name for name, one in METRICS.items() if one.scope == "flow"][:24]
    plot = forest(["a", "b"], [cell(name, 100, 50) for name in metrics])
    assert plot is not None
    (svg,) = static_svgs(plot)
    assert all(METRICS[name].label in svg for name in metrics)
    (height,) = re.findall(r'viewBox="0 0 480 (\d+)"', svg)
    assert all(0 < float(y) < int(height) for y in re.findall(r'<text x="[\d.]+" y="([\d.]+)"', svg))
    assert plot.save(tmp_path / "forest.svg").stat().st_size > 1000
    assert "intervals" in plot.save(tmp_path / "forest.html").read_text(encoding="utf-8")


def test_runs_have_the_same_colours_on_all_plots_and_a_window_is_drawn_alone(
    three: list[rtclab.Results],
) -> None:
    compared = rtclab.compare(*three, labels=["a", "b", "c"], begin="3 s", end="6 s")
    plots = [compared.plot(name) for name in ("rate", "delay", "delay-distribution", "frame-rate")]
    colours = [
        {mark.look.label: mark.look.colour for mark in plot.marks if mark.look.label in "abc"}
        for plot in plots
    ]
    assert all(of_plot == colours[0] for of_plot in colours)
    assert len(set(colours[0].values())) == 3
    for plot in plots:
        if plot.over_time:
            assert (plot.x.begin, plot.x.end) == (3, 6)
            for mark in plot.marks:
                assert mark.x.min() >= 3, plot.name
                assert mark.x.max() <= 6.5, plot.name
    whole = rtclab.compare(*three, labels=["a", "b", "c"]).plot("delay-distribution")
    packets = (
        three[0].table("packets", repeat=0).filter(pl.col("sent_ns").is_between(3e9, 6e9, closed="left"))
    )
    slowest_ms = (packets["delivered_ns"] - packets["sent_ns"]).max() / 1e6  # type: ignore[operator]
    assert plots[2].x.end >= slowest_ms
    assert plots[2].x.end <= whole.x.end + 1e-6


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["one"], "labels: 1 for 3 runs"),
        (["a", "b", "a"], "labels: `a` stands for several runs"),
        (["a", " ", "c"], "labels: one is empty"),
    ],
)
def test_labels_that_name_no_run_are_refused(
    three: list[rtclab.Results], labels: list[str], message: str
) -> None:
    with pytest.raises(BadInput, match=message) as caught:
        rtclab.compare(*three, labels=labels)
    assert caught.value.hint


def test_a_run_compared_with_itself_is_numbered(three: list[rtclab.Results]) -> None:
    name = three[0].name
    assert rtclab.compare(three[0], three[0]).labels == [name, f"{name} (2)"]


def test_the_page_and_plot_of_a_window_without_packets_exist(tmp_path: Path) -> None:
    runs = {name: write_run(tmp_path, [call_tables(1, duration_s=10)]) for name in "ab"}
    runs = {name: replace(run, window=(2, 5)) for name, run in runs.items()}
    page = write_comparison(runs, tmp_path / "page.html")
    charts = json.loads(page.read_text().partition('id="chart-data">')[2].partition("</script>")[0])
    assert [chart["name"] for chart in charts][:2] == ["rate", "delay"]
    assert comparison_plot(runs, "rate").x.begin == 2


def test_a_link_of_a_participant_is_compared_field_by_field(tmp_path: Path) -> None:
    changes = [f"participants.alice.link.up.{field}" for field in ("queue=200 ms", 'queue={aqm = "dualpi2"}')]
    runs = [
        rtclab.run("access/lte", duration="4 s", repeats=1, set=[change], out=tmp_path, progress=False)
        for change in changes
    ]
    differing = rtclab.compare(*runs).differences()
    rows = [row for row in differing.iter_rows() if str(row[0]).startswith("participants.alice")]
    assert rows
    assert all(row[0].startswith("participants.alice.link.up.queue") and any(row[1:]) for row in rows)


# --- conditions and sweeps, from the store ------------------------------------------------------------


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> rtclab.Results:
    """A sweep without traces: two losses and two capacities, three repeats each."""
    return rtclab.sweep(
        "first-call",
        {"link.up.loss": ["0 %", "5 %"], "link.up.capacity": ["1 Mbit/s", "2 Mbit/s"]},
        duration="8 s",
        repeats=3,
        out=tmp_path_factory.mktemp("runs"),
    )


def test_conditions_of_a_sweep_are_compared_by_a_field_where_all_others_are_equal(
    grid: rtclab.Results, tmp_path: Path
) -> None:
    compared = rtclab.compare(grid, by="link.up.loss", metrics=["packet_loss"], flows="alice->bob")
    assert compared.labels == ["0 %", "5 %"]
    table = compared.table()
    assert table.select("condition", "label", "base").rows() == [
        ("link.up.capacity = 1 Mbit/s", "5 %", 0.0),
        ("link.up.capacity = 2 Mbit/s", "5 %", 0.0),
    ]
    assert table["new"].to_list() == pytest.approx([5, 5], abs=1.5)  # some 500 packets in each repeat
    assert compared.differences().rows() == [("link.up.loss", "0 %", "5 %")]
    assert compared.verdicts() == []
    text = compared.report(tmp_path / "page.html").read_text()
    assert "<h1>link.up.loss: 0 % and 5 %</h1>" in text
    assert '<td data-column="Flow">alice → bob, link.up.capacity = 2 Mbit/s</td>' in text
    with pytest.raises(BadInput, match="plot: `rate` is drawn over time; expected one condition with traces"):
        compared.plot("rate")


def test_the_page_of_many_conditions_says_the_first_and_folds_the_others(
    grid: rtclab.Results, tmp_path: Path
) -> None:
    page = rtclab.compare(grid, by="condition").report(tmp_path / "page.html").read_text(encoding="utf-8")
    assert page.count('<ul class="of-sides">') == 1
    labels = [f"{one} {'long' * 20} 名前" for one in range(9)]
    many = (
        rtclab.Comparison([grid[grid.conditions[0]]] * 9, labels).report(tmp_path / "many.html").read_text()
    )
    assert page.count("<li><strong>link.up") == 3
    assert many.count('<ul class="of-sides">') == 2
    assert "<details><summary>4 more</summary>" in many
    assert all(f"<li><strong>{label}:" in many for label in labels[1:])


def test_a_sweep_is_compared_with_another_in_the_conditions_that_both_have(
    grid: rtclab.Results, tmp_path: Path
) -> None:
    other = rtclab.sweep(
        "first-call",
        {"link.up.loss": ["0 %"], "link.up.capacity": ["1 Mbit/s", "3 Mbit/s"]},
        duration="8 s",
        repeats=3,
        out=tmp_path,
    )
    table = rtclab.compare(grid, other, labels=["a", "b"], metrics=["rtt"]).table()
    assert set(table["condition"]) == {"link.up.loss = 0 %, link.up.capacity = 1 Mbit/s"}
    assert table["difference"].to_list() == [0.0, 0.0]  # the same scenario and seeds
    assert rtclab.compare(*(grid[label] for label in grid.conditions[:2])).labels == [
        "link.up.loss = 0 %, link.up.capacity = 1 Mbit/s",
        "link.up.loss = 0 %, link.up.capacity = 2 Mbit/s",
    ]


def test_totals_of_a_sweep_are_per_minute_as_those_of_its_traces(tmp_path: Path) -> None:
    vary = {"link.up.loss": ["5 %", "10 %"]}
    traced = rtclab.sweep("first-call", vary, duration="8 s", repeats=2, traces=True, out=tmp_path)
    runs = dict(zip(traced.conditions, traced.runs, strict=True))
    columns = ("metric", "flow", "base", "new", "difference")
    stored = rtclab.compare(traced, by="condition").table().select(columns)
    assert "freeze_duration" in stored["metric"]
    assert_frame_equal(stored, compare_runs(runs).select(columns))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "alone: expected two results or more, or what differs"),
        (
            {"by": "link.up.delay"},
            "by: `link.up.delay` is not varied in first-call-sweep-1; expected link.up.",
        ),
        ({"by": "link.up.loss", "labels": ["a"]}, "labels: 1 for 2 runs; expected one for each"),
        ({"by": "link.up.loss", "labels": ["a", "a"]}, "labels: `a` stands for several runs"),
    ],
)
def test_conditions_that_cannot_be_compared_are_refused(
    grid: rtclab.Results, given: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        rtclab.compare(grid, **given)


def test_results_that_share_no_condition_are_refused(grid: rtclab.Results, tmp_path: Path) -> None:
    other = rtclab.sweep(
        "first-call", {"link.up.delay": ["1 ms", "2 ms"]}, duration="2 s", repeats=2, out=tmp_path
    )
    with pytest.raises(
        BadInput, match=r"^a and b share no condition: link\.up\.loss = 0 %, .*; link\.up\.de"
    ):
        rtclab.compare(grid, other, labels=["a", "b"]).table()
    with pytest.raises(BadInput, match="by: compares the conditions of one experiment; got 2 results"):
        rtclab.compare(grid, other, by="link.up.loss")
