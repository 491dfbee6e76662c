"""Hosts outside: the node behind which they are, their packets, and what a machine needs for them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from scenario_text import error, scenario
from test_live_packet_flows import ALICE, between, connections, flows, packets

import rtclab
from rtclab.backend.live.connections import Endpoint
from rtclab.backend.live.doctor import SETUP, parts_of, what_is_missing
from rtclab.backend.live.lab.internet import PROGRAM, user_space_nat
from rtclab.backend.live.records.packet_flows import FlowKeys, assign_flows, join_relay_legs
from rtclab.errors import SEE_DOCTOR, BackendUnavailable
from rtclab.scenario.network import Routes

INTERNET = "internet=true"
NO_PROCESS = 2**22 + 1
"""Above the largest id of a process (PID_MAX_LIMIT of Linux)."""


def test_packets_to_and_from_the_outside_cross_the_link_of_their_node(tmp_path: Path) -> None:
    routes = Routes(scenario(tmp_path, "[bottlenecks.shared]\nroutes = ['alice->internet']", INTERNET))
    assert routes.nodes == ["alice", "bob", "core", "internet"]
    assert routes.between("alice", "internet") == ("alice.up", "shared", "internet.down")
    assert routes.between("internet", "alice") == ("internet.up", "alice.down")


def test_simulated_calls_have_no_hosts_outside(tmp_path: Path) -> None:
    text = "[link.up]\nloss = '5 %'\njitter = '5 ms'"
    closed, opened = (
        rtclab.simulate(scenario(tmp_path, text, "duration=2 s", *changes)) for changes in ([], [INTERNET])
    )
    assert closed.table("packets").equals(opened.table("packets"))


def test_the_node_of_the_hosts_outside_has_its_name_alone(tmp_path: Path) -> None:
    message = "participants.internet: `internet` is the node of the hosts outside"
    assert message in error(tmp_path, "[participants.internet]", INTERNET)
    assert scenario(tmp_path, "[participants.internet]").participants.keys() == {"alice", "bob", "internet"}
    assert "cannot read `*->internet`" in error(tmp_path, "[bottlenecks.shared]\nroutes = ['*->internet']")


def test_what_a_page_loads_from_the_host_that_it_calls_belongs_to_no_flow(tmp_path: Path) -> None:
    made = connections(tmp_path, "")
    call = replace(made[0], b="internet", flows=("alice->internet", "internet->alice"))
    names = {"10.77.0.2": "alice", "203.0.113.1": "internet"}
    known = FlowKeys({0: call}, {Endpoint("10.77.0.2", ALICE, 0)}, names, {}, {})
    seen = packets(
        between(("alice", ALICE), ("internet", 3478), 0),
        between(("alice", 33_000), ("internet", 443), 1, protocol="other"),
        between(("internet", 443), ("alice", 33_000), 2, protocol="other"),
        between(("internet", 3478), ("alice", ALICE), 3),
    )
    assert flows(join_relay_legs(assign_flows(seen, known))) == ["alice->internet", "internet->alice"]


def test_without_the_program_live_calls_with_hosts_outside_say_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    missing = {
        check.name: check.hint for check in what_is_missing(parts_of(scenario(tmp_path, "", INTERNET)))
    }
    assert missing[PROGRAM] == f"apt-get install {PROGRAM}, or {SETUP}"
    assert PROGRAM not in {check.name for check in what_is_missing(parts_of(scenario(tmp_path)))}
    with (
        user_space_nat() as attach,
        pytest.raises(BackendUnavailable, match=f"`{PROGRAM}` is not installed") as caught,
    ):
        attach(NO_PROCESS)
    assert caught.value.hint == SEE_DOCTOR


@pytest.mark.needs(PROGRAM)
def test_what_the_program_says_when_it_does_not_start_is_in_the_error() -> None:
    with (
        user_space_nat() as attach,
        pytest.raises(BackendUnavailable, match=f"did not start: .*{NO_PROCESS}"),
    ):
        attach(NO_PROCESS)
