"""Simulated calls of participants behind NATs: outcome, reason, metrics, and the shipped scenarios."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.backend.sim_batch import simulate_together
from rtclab.errors import CallFailed
from rtclab.experiment import Experiment
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.trace import Trace

KINDS = ("none", "port-restricted", "symmetric", "udp-blocked")
DIRECT = {
    ("none", "none"),
    ("none", "port-restricted"),
    ("none", "symmetric"),
    ("port-restricted", "port-restricted"),
}
"""The pairs of kinds that connect without a relay, by RFC 8445 and RFC 4787. ``tests/live/test_nat.py`` has
the same for packets through the kernel's NATs."""


def pair(tmp_path: Path, alice: str, bob: str, more: str = "", seconds: int = 4) -> Scenario:
    file = tmp_path / "pair.toml"
    file.write_text(
        f"""
        name = "pair"
        duration = "{seconds} s"
        repeats = 1
        participants.alice.nat = "{alice}"
        participants.bob.nat = "{bob}"
        link.up.delay = "25 ms"
        video = {{}}
        {more}
        """
    )
    return Scenario.load(file)


def simulated(scenario: Scenario) -> Trace:
    SimBackend().check(scenario)
    return SimBackend().simulate(scenario, seed=1, repeat=0)


@pytest.mark.parametrize("alice", KINDS)
@pytest.mark.parametrize("bob", KINDS)
def test_pairs_connect_as_ice_says_and_always_over_a_relay(tmp_path: Path, alice: str, bob: str) -> None:
    connects = (alice, bob) in DIRECT or (bob, alice) in DIRECT
    assert (simulated(pair(tmp_path, alice, bob)).manifest.failure is None) == connects
    relayed = simulated(pair(tmp_path, alice, bob, 'calls = [{relay = "core"}]'))
    assert relayed.manifest.failure is None


def test_a_call_that_cannot_connect_fails_with_the_last_events_and_keeps_its_trace(tmp_path: Path) -> None:
    with pytest.raises(CallFailed) as failed:
        SimBackend().run(pair(tmp_path, "symmetric", "symmetric", seconds=20), seed=1, repeat=0, out=tmp_path)
    assert failed.value.message == (
        "alice and bob did not connect within 20 s; "
        "last event: alice's is `signalling_done` and bob's is `signalling_done`"
    )
    assert Trace(tmp_path).manifest.failure == failed.value.message


def test_repeats_simulated_together_fail_for_the_same_reason(tmp_path: Path) -> None:
    scenario = pair(tmp_path, "symmetric", "port-restricted")
    (together,) = simulate_together([(scenario, [1])])
    assert together.manifest.failure == simulated(scenario).manifest.failure


def test_a_failed_call_counts_as_one_and_a_pair_of_three_as_a_third(tmp_path: Path) -> None:
    failed = Experiment([pair(tmp_path, "udp-blocked", "none")]).run(out=tmp_path / "failed")
    assert METRICS["call_failures"].function(failed.run) == 100
    mesh = Scenario.load("examples/nat-mesh", ["duration=5 s", "repeats=1"])
    run = Experiment([mesh]).run(out=tmp_path / "mesh").run
    (repeat,) = run.repeats
    assert (repeat.status, repeat.note) == ("finished", "bob and carol did not connect within 5 s")
    assert METRICS["call_failures"].function(run) == pytest.approx(100 / 3)


@pytest.mark.parametrize("kind", ["sfu", "mcu"])
@pytest.mark.parametrize("nat", KINDS)
def test_servers_are_reached_from_behind_all_nats_that_pass_udp(tmp_path: Path, kind: str, nat: str) -> None:
    trace = simulated(pair(tmp_path, nat, nat, f'calls = [{{kind = "{kind}"}}]'))
    shown = trace.table("events").filter(event="first_frame").height
    assert shown == (0 if nat == "udp-blocked" else 2)


@pytest.mark.parametrize("kind", ["star", "hub-and-spoke", "tree"])
def test_participants_who_forward_may_be_behind_nats(tmp_path: Path, kind: str) -> None:
    more = f'participants.carol.nat = "port-restricted"\ncalls = [{{kind = "{kind}"}}]'
    trace = simulated(pair(tmp_path, "port-restricted", "port-restricted", more))
    assert trace.manifest.not_connected == ()


def test_traffic_does_not_pass_the_nat(tmp_path: Path) -> None:
    more = 'traffic.load = {sender = "core", receiver = "alice", rate = "100 kbit/s", protocol = "udp"}'
    trace = simulated(pair(tmp_path, "udp-blocked", "none", more))
    load = trace.table("packets").filter(flow="load")
    assert load.height > 10
    assert load["delivered_ns"].null_count() < 5


def test_over_tcp_the_loss_of_one_leg_becomes_delay() -> None:
    """At a low rate. There are 25 ms from alice to the relay, 25 ms back, and 25 ms from there to bob."""

    def measured(*changes: str) -> tuple[float, float]:
        low = ["duration=20 s", "video.max_bitrate=500 kbit/s"]
        trace = simulated(Scenario.load("examples/nat-relay-over-tcp", [*low, *changes]))
        packets = trace.table("packets").filter(flow="alice->bob", protocol="rtp")
        # What left in the last second may still be on its way.
        settled = packets.filter(pl.col("sent_ns") < 19 * 10**9)
        lost = settled["delivered_ns"].null_count() / settled.height
        delays = (settled["delivered_ns"] - settled["sent_ns"]).drop_nulls()
        return 100 * lost, float(delays.quantile(0.99) or 0) / 1e6

    (tcp_lost, tcp_ms), (udp_lost, udp_ms) = measured(), measured("participants.alice.nat=none")
    # 1 % is lost on each of two legs, or on the one that is UDP.
    assert 0.3 < tcp_lost < 1.7
    assert 1.0 < udp_lost < 3.0
    # 50 ms and a short queue; what TCP repeats also waits 50 ms for the acknowledgement of something later.
    assert 50 < udp_ms < 100
    assert 100 < tcp_ms < 250


@pytest.mark.parametrize(("nat", "keeps"), [("none", True), ("udp-blocked", False)])
def test_a_relay_keeps_the_codepoints_of_udp_and_tcp_loses_them(
    tmp_path: Path, nat: str, keeps: bool
) -> None:
    """SCReAM sends ECT(1) until a report says that a packet arrived without."""
    more = """
        calls = [{relay = "core"}]
        congestion_control = {name = "scream"}
    """
    trace = simulated(pair(tmp_path, nat, "none", more))

    def most(table: str, column: str) -> dict[str, int]:
        return dict(trace.table(table).group_by("flow").agg(pl.col(column).max()).iter_rows())

    sent = most("outbound_rtp", "packetsSentWithEct1")
    assert sent.keys() == {"alice->bob", "bob->alice"}
    received = most("inbound_rtp", "packetsReceivedWithEct1")
    bleached = most("remote_inbound_rtp", "packetsWithBleachedEct1Marking")
    none = dict.fromkeys(sent, 0)
    if keeps:
        assert bleached == none
        # A second has more than 20 packets, and few are in transit when the statistics end.
        assert all(sent[flow] > 100 and 0 <= sent[flow] - received[flow] < 20 for flow in sent)
    else:
        assert received == none
        # A round trip is 100 ms, in which the first frames leave.
        assert all(2 <= packets < 60 for packets in sent.values())
        assert bleached == sent


@pytest.mark.parametrize(
    ("name", "failed"), [("nat-direct", 0), ("nat-mesh", 100 / 3), ("nat-relay-over-tcp", 0)]
)
def test_the_examples_do_what_they_say(tmp_path: Path, name: str, failed: float) -> None:
    scenario = Scenario.load(f"examples/{name}", ["duration=5 s", "repeats=1"])
    run = Experiment([scenario]).run(out=tmp_path).run
    assert METRICS["call_failures"].function(run) == pytest.approx(failed)
