"""Meetings: who is connected with whom, over which links, and which live calls are taken."""

from __future__ import annotations

import shutil
from dataclasses import replace
from itertools import permutations
from pathlib import Path

import pytest

from rtclab.backend.sim import SimBackend
from rtclab.experiment import Experiment
from rtclab.metrics import METRICS
from rtclab.scenario.path import PathSpec
from rtclab.scenario.units import Bitrate
from rtclab_papers.validate.conditions import CallCondition
from rtclab_papers.validate.meetings import (
    PEOPLE,
    SERVER,
    SIZES,
    TOPOLOGIES,
    WORSE,
    known_conditions,
    meeting,
)
from rtclab_papers.validate.twin import outcomes


def names(condition: CallCondition) -> set[str]:
    """The names of the flows."""
    return {flow.name for flow in condition.scenario.flows()}


def pairs(people: int) -> set[str]:
    """Everybody to everybody else."""
    return {f"{a}->{b}" for a, b in permutations(PEOPLE[:people], 2)}


def rate(path: PathSpec) -> int:
    """The constant capacity of a path in bit/s."""
    assert isinstance(path.capacity, Bitrate)
    return path.capacity.bps


def test_there_are_three_and_four_people_in_each_topology() -> None:
    assert len({one.name for one in known_conditions()}) == len(SIZES) * len(TOPOLOGIES) == 6
    assert {one.group for one in known_conditions()} == {"meetings"}


@pytest.mark.parametrize("people", SIZES)
def test_a_mesh_has_a_flow_from_everybody_to_everybody(people: int) -> None:
    assert names(meeting(people, "mesh")) == pairs(people)


@pytest.mark.parametrize("kind", ["str0m", "janus"])
@pytest.mark.parametrize("people", SIZES)
def test_over_an_sfu_the_flows_to_and_from_the_server_come_in_addition(people: int, kind: str) -> None:
    condition = meeting(people, kind)
    legs = {f"{one}->{SERVER}" for one in PEOPLE[:people]} | {f"{SERVER}->{one}" for one in PEOPLE[:people]}
    assert names(condition) == pairs(people) | legs
    assert condition.scenario.servers[SERVER].kind == kind


@pytest.mark.parametrize("condition", known_conditions(), ids=lambda condition: condition.name)
def test_only_the_worse_uplink_is_narrower_than_the_streams_on_it(condition: CallCondition) -> None:
    scenario = condition.scenario
    others = len(scenario.participants) - 1
    assert scenario.video is not None
    assert scenario.audio is not None
    stream = scenario.video.max_bitrate.bps + scenario.audio.bitrate.bps
    sent = others if condition.name.endswith("mesh") else 1
    for name in scenario.participants:
        link = scenario.link_of(name)
        assert (rate(link.up) < sent * stream) is (name == WORSE)
        assert rate(link.down) > others * stream


def shortened(condition: CallCondition) -> CallCondition:
    """The condition with a call of eight seconds."""
    data = condition.scenario.model_dump(mode="json", by_alias=True, exclude_none=True)
    scenario = type(condition.scenario).read(data | {"duration": "8 s"}, condition.name)
    return replace(condition, scenario=scenario)


def test_the_two_sfus_differ_in_set_up() -> None:
    traces = [
        SimBackend().simulate(shortened(meeting(3, kind)).scenario, seed=1, repeat=0)
        for kind in ("str0m", "janus")
    ]
    for trace in traces:
        assert trace.table("flow_seconds")["delivered_bytes"].sum() > 0
    # Janus is asked three times before a page publishes, and offers after the publisher's handshake.
    ours, janus = (METRICS["setup_time"].function(trace, "alice->bob") for trace in traces)
    assert ours + 150 < janus < ours + 900


def test_every_flow_of_a_meeting_has_a_value(tmp_path: Path) -> None:
    """The live call here is simulated. If its run is gone, it stays in the rows."""
    one, file, live = shortened(meeting(3, "janus")), tmp_path / "rows.csv", tmp_path / "live"
    Experiment({one.name: one.scenario}, repeats=1, backend=SimBackend()).run(into=live / "live")
    [found] = outcomes([one], file, live, run_missing=False, say=print, repeats=3)
    assert (found.live.calls, found.live.connected) == (1, 1)
    rates = {
        flow: values for (metric, flow), values in found.live.values.items() if metric == "receiving_rate"
    }
    assert rates.keys() >= pairs(3) | {f"{name}->{SERVER}" for name in PEOPLE[:3]}
    assert {len(values) for values in rates.values()} == {1}
    assert all(pair.covered for pair in found.pairs)

    shutil.rmtree(live)
    assert outcomes([one], file, live, run_missing=False, say=print, repeats=3) == [found]
