"""Simulated repeats that are stepped."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

import rtclab
from rtclab import Scenario, Trace
from rtclab.errors import BadInput, ScenarioError

SHORT = {"duration": "6 s"}


def scenario(**changes: str) -> Scenario:
    return Scenario.load("first-call", SHORT | {name.replace("__", "."): of for name, of in changes.items()})


def assert_same(one: Trace, other: Trace) -> None:
    assert one.tables == other.tables
    for name in one.tables:
        assert_frame_equal(one.table(name), other.table(name))


def test_a_stepped_repeat_ends_with_the_trace_of_a_run_in_one_go(tmp_path: Path) -> None:
    simulation = rtclab.Simulation(scenario(), repeat=3)
    for until in (0.0, 1, "2.5 s", "2500 ms", 4.2):
        simulation.advance(until)
        simulation.trace()
    assert simulation.now == 4.2
    simulation.advance()
    assert simulation.now == simulation.duration == 6
    stepped = simulation.trace()
    whole = rtclab.simulate(scenario(), repeat=3)
    assert_same(stepped, whole)
    assert stepped.manifest == whole.manifest
    assert_same(stepped.save(tmp_path), whole)


def test_the_trace_so_far_is_that_of_a_repeat_that_ends_now() -> None:
    simulation = rtclab.Simulation(scenario())
    simulation.advance("4 s")
    so_far = simulation.trace()
    assert so_far.manifest.duration_ns == 4_000_000_000
    assert {flow.end_ns for flow in so_far.manifest.flows.values()} == {4_000_000_000}
    shorter = rtclab.simulate(scenario(duration="4 s"))
    for name in ("packets", "frames", "flow_seconds", "candidate_pair"):
        assert_frame_equal(so_far.table(name), shorter.table(name))


def test_a_link_that_is_changed_in_the_middle_acts_like_one_that_changes_by_itself() -> None:
    simulation = rtclab.Simulation(scenario())
    simulation.advance("3 s")
    simulation.change({"link.up.capacity": "400 kbit/s"})
    simulation.advance()
    changed = simulation.trace()
    steps = [["0 s", "1 Mbit/s"], ["3 s", "400 kbit/s"]]
    planned = Scenario.load("first-call", SHORT | {"link.up.capacity": {"steps": steps}})
    assert_same(changed, rtclab.simulate(planned))
    assert simulation.scenario.link.up.capacity != scenario().link.up.capacity
    up = changed.table("paths").filter(pl.col("path") == "alice.up")
    assert up.rows() == [(0, "alice.up", 1_000_000, 25.0), (3_000_000_000, "alice.up", 400_000, 25.0)]


def test_a_repeat_goes_neither_back_nor_beyond_its_end() -> None:
    simulation = rtclab.Simulation(scenario())
    simulation.advance("2 s")
    for until in ("1 s", "7 s"):
        with pytest.raises(BadInput, match=f"cannot advance to {until}; expected 2 s to the end at 6 s"):
            simulation.advance(until)
    simulation.advance("2 s")
    assert simulation.now == 2


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"video.max_bitrate": "1 Mbit/s"}, BadInput, "can only change its paths, and these are of video"),
        ({"link.up.capacitee": "1 Mbit/s"}, ScenarioError, "capacitee"),
        ({"link.up.capacity": "fast"}, ScenarioError, "fast"),
    ],
)
def test_a_change_that_is_impossible_changes_nothing(
    changes: dict[str, str], error: type[Exception], text: str
) -> None:
    simulation = rtclab.Simulation(scenario())
    simulation.advance("2 s")
    with pytest.raises(error, match=text):
        simulation.change(changes)
    simulation.advance()
    assert_same(simulation.trace(), rtclab.simulate(scenario()))
