"""Dynamic and fixed decrease factors: equations, over-use in the simulator, and checks of changes."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput
from rtclab.experiment.draws import drawn
from rtclab.scenario import Scenario, shipped
from rtclab.trace import Trace
from rtclab_papers.reproduce import condition_of, paper, simulate
from rtclab_papers.reproduce.changes import Change, Changes, Reading, SettingPair, change, mean_change
from rtclab_papers.reproduce.comparison import Comparison
from rtclab_papers.reproduce.equations import dynamic_alpha
from rtclab_papers.reproduce.estimate import Outcome
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import MEDIA, OVER_USE, Values, measure
from rtclab_papers.reproduce.published_cells import Verdict
from rtclab_papers.reproduce.score import scores
from rtclab_papers.reproduce.variants import split

PAPER = paper("iqbal")
FLOW = "alice->bob"
NARROW = SettingPair(
    label="200 kbit/s",
    before="iqbal/bandwidth-200kbit-fixed-alpha",
    after="iqbal/bandwidth-200kbit-dynamic-alpha",
    sessions=3,
)


def simulated(name: str, overrides: dict[str, object] | None = None) -> Trace:
    scenario = Scenario.load(name, overrides or {})
    return SimBackend().simulate(scenario, seed=scenario.seed_of(0), repeat=0)


def test_the_equations_give_values_computed_by_hand() -> None:
    # At the threshold b = 1: 1 + (0.99 - 1) / 1.3, and 1; far above it b = exp(-1/2) = 0.60653.
    assert dynamic_alpha(25, 25) == pytest.approx(0.99231, abs=1e-5)
    assert dynamic_alpha(25, 25, near_max=True) == 1
    assert dynamic_alpha(1e9, 25) == pytest.approx(0.90151, abs=1e-5)
    assert dynamic_alpha(1e9, 25, near_max=True) == pytest.approx(0.95168, abs=1e-5)


def test_the_factors_of_the_simulator_follow_the_equations() -> None:
    """Differential: the simulator's own implementation against the one here."""
    trace = simulated("iqbal/bandwidth-200kbit-dynamic-alpha", {"record": "packets", "duration": "300 s"})
    rows = (
        trace.table("controller")
        .filter((pl.col("flow") == FLOW) & (pl.col("participant") == "bob"))
        .pivot(on="name", index="at_ns", values="value", aggregate_function="last")
        .sort("at_ns")
    )
    used = rows.filter(pl.col("alpha").is_not_null() & pl.col("alpha").ne_missing(pl.col("alpha").shift()))
    off = []
    for at_ns, alpha in used.select("at_ns", "alpha").iter_rows():
        # The sample that raised over-use; the rate may fall again while that lasts.
        raised = rows.filter(
            pl.col("at_ns").is_between(at_ns - 10**9, at_ns) & (pl.col("detector_state") == 1)
        )
        known = [
            dynamic_alpha(value, threshold, near_max=near)
            for value, threshold in raised.select("detector_value_ms", "threshold_ms").iter_rows()
            if value > threshold
            for near in (False, True)
        ]
        if known:
            off.append(min(abs(alpha - one) for one in known))
    # Samples are per frame, over-use is per group of packets: of the few frames that are sent as several
    # packets some hide the group in question, and its value lies near, or there is none.
    assert len(off) > 100
    assert len(off) >= 0.99 * used.height
    assert np.mean(np.array(off) < 1e-9) > 0.95
    assert max(off) < 0.005


def test_a_narrow_link_causes_over_use_and_random_loss_does_not() -> None:
    for name, percent in (("bandwidth-500kbit", 100.0), ("loss-5-percent", 0.0)):
        measured = measure(simulated(f"iqbal/{name}-fixed-alpha"), [OVER_USE])
        assert measured[OVER_USE][FLOW] == (percent, None)


@pytest.mark.parametrize("condition", ["loss-10-percent", "delay-50ms"])
def test_without_over_use_both_factors_give_the_same_packets(condition: str) -> None:
    fixed, dynamic = (
        simulated(f"iqbal/{condition}-{factor}-alpha", {"record": "packets"}).table("packets")
        for factor in ("fixed", "dynamic")
    )
    assert fixed.height > 1000
    assert fixed.equals(dynamic)


def session(rate_kbps: float, rtt_ms: float, *, congested: bool) -> Values:
    return {
        MEDIA: {FLOW: (1.0, None)},
        "rate_kbps": {FLOW: (rate_kbps, 1.0)},
        "rtt_ms": {FLOW: (rtt_ms, 1.0)},
        OVER_USE: {FLOW: (100.0 if congested else 0.0, None)},
    }


def changes(metric: str, **bounds: object) -> Changes:
    return Changes(metric=metric, pairs=[NARROW], **bounds)


@pytest.fixture
def results() -> Measurements:
    found = {}
    # Rates 90 and 110 alternate, and rise by 5, 5, 15, 15 …; the sessions without over-use differ.
    for name, rises in ((NARROW.before, (0, 0)), (NARROW.after, (5, 15))):
        congested = [session(90 + 20 * (i % 2) + rises[i // 2 % 2], 50, congested=True) for i in range(40)]
        others = [session(1000, 5, congested=False)]
        found[name] = dict(enumerate(congested + others))
    return Measurements(found)


def test_a_change_is_over_pairs_of_sessions_with_over_use(results: Measurements) -> None:
    found = change(results, NARROW, "rate_kbps").percent
    assert found.repeats == 40
    assert found.mean == pytest.approx(10)
    # sd² = 25 · 40/39; t with 39 degrees of freedom is 2.0227: 2.0227 · 5.064 / √40 = 1.619.
    assert found.ci95 == pytest.approx(1.619, abs=0.001)
    assert str(change(results, NARROW, "rate_kbps")) == "200 kbit/s: +10.0 ± 1.6 %"


def test_sessions_pair_up_by_number_even_if_one_failed(results: Measurements) -> None:
    before = {number: values for number, values in results.values[NARROW.before].items() if number}
    found = change(Measurements({**results.values, NARROW.before: before}), NARROW, "rate_kbps")
    assert found.percent.repeats == 39
    assert {round(found.after[i] - found.before[i]) for i in found.before} == {5, 15}


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        # 10 ± 1.62 reaches from 8.38 to 11.62.
        (0, 20, Outcome.KEPT),
        (8.3, 11.7, Outcome.KEPT),
        (8.5, 20, Outcome.UNDECIDED),
        (0, 11.5, Outcome.UNDECIDED),
        (11.7, 30, Outcome.CONTRADICTED),
        (-20, 8.3, Outcome.CONTRADICTED),
    ],
)
def test_a_change_is_kept_if_its_whole_interval_is_between_the_bounds(
    results: Measurements, low: float, high: float, outcome: Outcome
) -> None:
    assert changes("rate_kbps", between=(low, high)).check(results).outcome == outcome


def test_no_change_contradicts_a_change_in_either_direction(results: Measurements) -> None:
    finding = changes("rtt_ms", between=(-100, 0)).check(results)
    assert finding.outcome == Outcome.CONTRADICTED
    assert changes("rtt_ms", between=(0, 100)).check(results).outcome == Outcome.CONTRADICTED
    assert finding.figures == (
        "200 kbit/s: +0.0 ± 0.0 %; as printed in less than 0.1 % of samples of 3 sessions by chance, in less "
        "than 0.1 % with the change"
    )


def test_a_change_in_points_is_the_difference_itself(results: Measurements) -> None:
    # Rates of 90 and 110 kbit/s rise by 5 and 15, which is 10 points and, because their mean is 100, 10 %.
    found = change(results, NARROW, "rate_kbps", in_points=True)
    assert found.percent.mean == 10
    assert str(found) == "200 kbit/s: +10.000 ± 1.619 points"


def test_a_repeat_counts_once_in_the_mean_of_two_conditions() -> None:
    # The same repeats rise by 0 and 20 %, and by 10 and 30 %: 5 and 25 %. t(1) · sd / √2 = 12.706 · 10.
    first = Change(NARROW, {0: 100.0, 1: 100.0}, {0: 100.0, 1: 120.0})
    second = Change(NARROW, {0: 50.0, 1: 50.0}, {0: 55.0, 1: 65.0})
    mean = mean_change([first, second])
    assert (mean.repeats, mean.mean) == (2, pytest.approx(15))
    assert mean.ci95 == pytest.approx(127.06, abs=0.01)


def test_only_the_first_reading_decides_and_others_are_found_if_they_ran(results: Measurements) -> None:
    suffix = {"before": "-fixed-alpha", "after": "-dynamic-alpha"}
    base = NARROW.model_copy(update=dict.fromkeys(suffix, "iqbal/bandwidth-200kbit"))
    readings = (
        Reading(label="as printed", **suffix),
        Reading(label="swapped", before=suffix["after"], after=suffix["before"]),
        Reading(label="not run", before="+none", after="+none", extra=True),
    )
    check = Changes(metric="rate_kbps", pairs=[base], readings=readings, near=10)
    assert {scenario for scenario, _ in check.needs} == {NARROW.before, NARROW.after}
    assert {scenario for scenario, _ in check.extra_needs} == {"iqbal/bandwidth-200kbit+none"}
    assert check.check(results).holds
    found = check.found(results)
    assert list(found) == ["as printed", "swapped"]
    assert check.judge(found["swapped"])[0] == Outcome.CONTRADICTED
    assert check.in_short(found["swapped"]).startswith("−9.1 ± ")


@pytest.mark.parametrize(
    ("bounds", "accepted"),
    [
        ({"near": -29.4}, [-40, -29.4]),
        ({"near": 19}, [19, 30, 50]),
        ({"between": (4, 23)}, [19, 30, 50, 4]),
        ({"between": (-29, -13)}, [-40, -29.4]),
        ({"between": (0, 100)}, [19, 30, 50, 4]),
        ({"between": (-100, 0)}, [-40, -29.4, -1]),
        ({"between": (-4, 4)}, [-1, 4, 0]),
    ],
)
def test_a_change_is_as_printed_if_it_is_as_large_in_the_printed_direction(
    bounds: dict[str, object], accepted: list[float]
) -> None:
    values = np.array([-40, -29.4, -1, 0, 4, 19, 30, 50])
    assert set(values[changes("rtt_ms", **bounds).as_printed(values)]) == set(accepted)


SHARED = "iqbal/delay-50ms-fixed-alpha+shared-path"


def test_every_repeat_draws_its_own_traffic_within_the_stated_bounds() -> None:
    condition = condition_of(SHARED, 1)
    drawn_ = [drawn(condition.scenario, condition.draws, repeat) for repeat in range(200)]
    traffic = [one.traffic["others"] for one in drawn_]
    assert {one.flows for one in traffic} == {1, 2, 3, 4}
    idle_s = np.array([one.objects.mean_idle.ns / 1e9 for one in traffic if one.objects])
    assert 3 <= idle_s.min() < 3.5
    assert 50 < idle_s.max() <= 60
    # Log-uniform: the share below x is ln(x / 3) / ln 20, at the median of 200 within 0.5 ± 3 · 0.0354.
    assert 0.394 < np.log(np.median(idle_s) / 3) / np.log(20) < 0.606
    assert {str(one.link.down.wifi and one.link.down.wifi.fading) for one in drawn_} == {
        "None",
        "near",
        "far",
    }
    assert drawn(condition.scenario, condition.draws, 7) == drawn_[7]


def test_both_factors_meet_the_same_traffic() -> None:
    both = [condition_of(SHARED.replace("fixed", factor), 1) for factor in ("fixed", "dynamic")]
    fixed, dynamic = (drawn(condition.scenario, condition.draws, 3) for condition in both)
    assert fixed.seed_of(3) == dynamic.seed_of(3)
    different = {"name", "title", "congestion_control"}
    assert fixed.model_dump(exclude=different) == dynamic.model_dump(exclude=different)


def test_the_shared_path_causes_over_use_where_the_quiet_path_does_not(tmp_path: Path) -> None:
    names = (SHARED, SHARED.partition("+")[0])
    results = simulate({name: condition_of(name, 6) for name in names}, tmp_path, jobs=1)
    over_use = [results.mean(name, OVER_USE) for name in names]
    # There was some in 46 of 60 sessions; then fewer than 2 of 6 have a probability of 0.0034.
    assert over_use[0] >= 100 * 2 / 6
    assert over_use[1] == 0


def test_a_variant_sets_options_and_says_so() -> None:
    made = condition_of("iqbal/delay-50ms-dynamic-alpha+shared-path+whole-threshold+replaces-beta", 1)
    assert made.scenario.congestion_control.options == {"whole_threshold": 1, "replaces_beta": 1}
    assert str(made.scenario.link.up.queue) == "100 ms"
    assert any("3 to 60 s, log-uniform" in remark for remark in PAPER.remarks)


def test_an_unknown_variant_suggests_the_closest_one() -> None:
    with pytest.raises(BadInput, match="no variant `shared`") as error:
        condition_of("iqbal/delay-50ms-fixed-alpha+shared", 1)
    assert "shared-path" in str(error.value)


def test_every_condition_is_shipped_with_both_decrease_factors() -> None:
    # Scenarios with options are the same conditions with other rules.
    known = {
        name
        for name in shipped()
        if name.startswith("iqbal/") and not Scenario.load(name).congestion_control.options
    }
    assert {split(name)[0] for name in PAPER.scenarios} == known
    assert known < set(PAPER.scenarios)


def test_table_1_is_counted_and_table_2_has_no_published_numbers(results: Measurements) -> None:
    comparison = Comparison(PAPER, results)
    (everything,) = scores([comparison])
    assert (everything.kind, everything.all.within, everything.all.all) == ("equation", 10, 10)
    assert {one.verdict for one in comparison.of("2")} == {Verdict.UNPUBLISHED}
    assert all(isnan(cell.mean) for cell in PAPER.cells if cell.table == "2")


def test_two_way_delay_is_added_to_the_round_trip_time() -> None:
    # 10 ms without the emulator, and 50 ms.
    trace = simulated("iqbal/delay-50ms-fixed-alpha")
    rtt_s = trace.table("remote_inbound_rtp")["roundTripTime"].drop_nulls()
    assert rtt_s.median() == pytest.approx(0.060, abs=0.001)
