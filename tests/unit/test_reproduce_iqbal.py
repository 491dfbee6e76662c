"""Dynamic and fixed decrease factors: equations, over-use in the simulator, and checks of changes."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.reproduce import paper
from rtclab.reproduce.cells import Verdict
from rtclab.reproduce.changes import Changes, Pair, change
from rtclab.reproduce.comparison import Comparison
from rtclab.reproduce.equations import detector_of, dynamic_alpha
from rtclab.reproduce.measures import MEDIA, OVER_USE, Values, measure
from rtclab.reproduce.results import Results
from rtclab.reproduce.store import Store
from rtclab.scenario import Scenario, shipped
from rtclab.trace import Trace

PAPER = paper("iqbal")
FLOW = "alice->bob"
NARROW = Pair(
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


def test_the_published_table_uses_the_divisor_1_3_not_1_14() -> None:
    off = {
        near: [
            abs(dynamic_alpha(*detector_of(cell.row, cell.column), near_max=near) - cell.mean)
            for cell in PAPER.cells
            if cell.table == "1"
        ]
        for near in (False, True)
    }
    assert max(off[False]) < 0.008
    assert 0.05 < max(off[True]) < 0.053


def test_the_factors_that_the_simulator_used_are_those_of_the_equations() -> None:
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
def results(tmp_path: Path) -> Results:
    stores = {}
    # Rates 90 and 110 alternate, so the deviation is a little over 10; the sessions without over-use differ.
    for name, extra in ((NARROW.before, 0.0), (NARROW.after, 10.0)):
        congested = [session(90 + 20 * (i % 2) + extra, 50, congested=True) for i in range(40)]
        others = [session(1000, 5, congested=False)]
        stores[name] = Store(tmp_path, name, "f")
        for number, values in enumerate(congested + others):
            stores[name].add(number, values)
    return Results(stores, dict.fromkeys(stores, 41))


def test_a_change_over_sessions_with_over_use_shows_in_40_sessions_but_not_in_3(results: Results) -> None:
    found = change(results, NARROW, "rate_kbps")
    assert (found.before.repeats, found.after.repeats) == (40, 40)
    assert found.percent == pytest.approx(10)
    # sd² = 100 · 40/39. Welch with 78 degrees of freedom (t = 1.991): 1.991 · 10.13 · √(2/40) = 4.51;
    # with 3 sessions each (4 degrees of freedom, t = 2.776): 2.776 · 10.13 · √(2/3) = 22.95.
    assert found.ci95() == pytest.approx(4.51, abs=0.01)
    assert found.ci95(3) == pytest.approx(22.95, abs=0.02)
    assert str(found) == "200 kbit/s: +10.0 ± 4.5 %"
    finding = changes("rate_kbps", between=(0, 20)).check(results)
    assert finding.figures == "200 kbit/s: +10.0 ± 4.5 %; not distinguishable in 3 sessions"


@pytest.mark.parametrize(
    ("low", "high", "holds"),
    [(0, 20, True), (14.4, 30, True), (14.6, 30, False), (-20, 5.6, True), (-20, 5.4, False)],
)
def test_a_claim_holds_if_the_intervals_overlap(
    results: Results, low: float, high: float, *, holds: bool
) -> None:
    assert changes("rate_kbps", between=(low, high)).check(results).holds == holds


def test_without_any_change_no_claim_holds(results: Results) -> None:
    finding = changes("rtt_ms", between=(-100, 100)).check(results)
    assert not finding.holds
    assert finding.figures == "200 kbit/s: +0.0 ± 0.0 %; not distinguishable in 3 sessions"


def test_a_published_change_holds_within_20_percent(results: Results) -> None:
    # 10 ± 4.5 against 18 (14.4 to 21.6) and 19 (15.2 to 22.8).
    assert changes("rate_kbps", near=18).check(results).holds
    assert not changes("rate_kbps", near=19).check(results).holds
    assert not changes("rate_kbps", near=-10).check(results).holds


def test_a_value_stays_within_a_limit_if_its_whole_interval_does(results: Results) -> None:
    # 10 ± 4.5 reaches 14.5.
    assert changes("rate_kbps", stays_within=14.6).check(results).holds
    assert not changes("rate_kbps", stays_within=14.4).check(results).holds


def test_every_condition_is_shipped_with_both_decrease_factors() -> None:
    known = shipped()
    assert set(PAPER.scenarios) == {name for name in known if name.startswith("iqbal/")}


def test_table_1_is_counted_and_table_2_has_no_published_numbers(results: Results) -> None:
    comparison = Comparison(PAPER, results)
    (count,) = comparison.counts()
    assert (count.kind, count.within, count.compared) == ("other", 10, 10)
    assert {one.verdict for one in comparison.of("2")} == {Verdict.UNPUBLISHED}
    assert all(isnan(cell.mean) for cell in PAPER.cells if cell.table == "2")


def test_two_way_delay_is_added_to_the_round_trip_time() -> None:
    # 10 ms without the emulator, and 50 ms.
    trace = simulated("iqbal/delay-50ms-fixed-alpha")
    rtt_s = trace.table("remote_inbound_rtp")["roundTripTime"].drop_nulls()
    assert rtt_s.median() == pytest.approx(0.060, abs=0.001)
