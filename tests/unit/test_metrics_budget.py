"""Metrics of delay budgets: what arrives in time, seconds over the budget, and recovery."""

from __future__ import annotations

from functools import cache
from math import isnan

import numpy as np
import pytest

import rtclab
from rtclab.experiment.measure import measured
from rtclab.metrics import METRICS
from rtclab.metrics.budget import longest_recovery_s, seconds_over_budget
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Trace

FLOW = "alice->bob"
NAMES = ("in_time_20", "in_time_100", "in_time_300", "over_budget", "recovery_time", "late_rate")


@cache
def call(name: str, control: str, duration: str = "20 s") -> Trace:
    return rtclab.simulate(Scenario.load(name, {"control": control, "duration": duration}))


def value(name: str, trace: Trace, flow: str = FLOW) -> float:
    return float(METRICS[name].function(trace, flow))


def test_a_full_queue_is_over_the_budget_and_hardly_anything_arrives_in_time() -> None:
    """A constant rate above the capacity fills the queue of 600 ms."""
    trace = call("access/dsl", "fixed")
    assert 500 < value("queuing_delay_p50", trace) <= 605
    assert value("over_budget", trace) > 90
    assert value("in_time_20", trace) <= value("in_time_100", trace) <= value("in_time_300", trace) < 20
    begin_s, over = seconds_over_budget(trace, FLOW)
    assert begin_s.size == over.size == 18  # without the first second and the last
    assert value("late_rate", trace) == pytest.approx(1000, rel=0.03)
    assert value("flow_begin", trace) + value("active_time", trace) == pytest.approx(20)


def test_percentiles_of_the_queuing_delay_are_in_order() -> None:
    found = [
        value(f"queuing_delay_p{percent}", call("access/dsl", "scream")) for percent in (5, 25, 50, 75, 95)
    ]
    assert found == sorted(found)
    assert found[0] < found[-1]


def test_in_time_does_not_count_seconds_of_heavy_loss() -> None:
    """A policer drops half of what `fixed` sends. What arrives is never late, and of no use."""
    trace = call("access/policer", "fixed")
    assert value("queuing_delay_p95", trace) < 100
    assert value("packet_loss", trace) > 40
    assert value("in_time_100", trace) < 20


def test_recovery_counts_from_a_fall_of_the_capacity_to_the_last_late_second() -> None:
    trace = call("access/l4s-drop", "goog-cc", "60 s")
    at_s = np.arange(1.0, 59.0)
    over = np.zeros(at_s.size)
    over[(at_s >= 21) & (at_s < 25)] = 1
    over[at_s == 50] = 1  # after the capacity has risen again
    assert longest_recovery_s(trace, FLOW, at_s, over) == 5
    assert longest_recovery_s(trace, FLOW, at_s, np.zeros(at_s.size)) == 0
    assert isnan(longest_recovery_s(trace, "bob->alice", at_s, over))


def test_in_a_window_everything_is_of_that_time() -> None:
    """`fixed` fills the queue within seconds; the capacity falls at 20 s."""
    trace = call("access/l4s-drop", "fixed", "60 s")
    part = trace.within((10.0, 18.0))
    begin_s, over = seconds_over_budget(part, FLOW)
    assert begin_s.tolist() == list(range(10, 18))
    assert value("over_budget", part) == pytest.approx(100 * over.mean())
    packets = trace.table("packets").filter(flow=FLOW)
    inside = packets.filter(packets["sent_ns"].is_between(10**10, 18 * 10**9, closed="left"))
    waited_ms = inside.drop_nulls(["delivered_ns", "queued_ns"])["queued_ns"] / 1e6
    assert value("in_time_100", part) <= 100 * (waited_ms < 100).mean() + 1e-9  # type: ignore[operator]
    assert value("late_rate", part) == value("receiving_rate", trace.within((14.0, 18.0)))
    assert (value("flow_begin", part), value("active_time", part)) == (10, 8)
    assert isnan(value("recovery_time", part))
    assert value("recovery_time", trace.within((10.0, 40.0))) <= 20


def test_captures_know_no_budget() -> None:
    """Without the delays of the paths nobody knows what a packet takes without queues."""
    trace = call("access/dsl", "scream")
    tables = {name: trace.table(name) for name in trace.tables}
    tables["paths"] = tables["paths"].clear()
    assert isnan(value("over_budget", Trace.in_memory(tables, trace.manifest)))


def test_repeats_that_share_tables_have_the_values_that_each_has_alone() -> None:
    scenario = Scenario.load("access/download", {"record": "seconds", "duration": "50 s"})
    seeds = [scenario.seed_of(repeat) for repeat in range(2)]
    alone = [rtclab.simulate(scenario, repeat) for repeat in range(2)]
    metrics = [METRICS[name] for name in (*NAMES, "share_against_tcp_20s", "rate_balance_20s")]
    for single, shared in zip(alone, rtclab.simulate_together([(scenario, seeds)]), strict=True):
        expected, found = (
            {one[:2]: one.value for one in measured(Repeat(0, 1, "finished"), trace, metrics)}
            for trace in (single, shared)
        )
        assert found == pytest.approx(expected)
        assert 0 < expected["share_against_tcp_20s", "bob->alice"] < 50
