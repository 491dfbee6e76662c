"""In which queue packets waited: the table `hops` adds up, and accounts name the path whose queue grew."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rtclab
from rtclab import Trace
from rtclab.backend.sim_batch import simulate_together
from rtclab.metrics.accounts.evidence import evidence_of
from rtclab.metrics.accounts.limits import limits_table
from rtclab.metrics.accounts.packets import packets_in_order
from rtclab.metrics.accounts.queues import bottleneck_of, knows_queues, waited_by_path
from rtclab.scenario import Scenario

FLOW = "alice->bob"
TOPOLOGIES = ["relay", "sfu", "nat-relay-over-tcp", "cascaded-mcu", "wifi", "mixing-mcu"]
BESIDE = '[traffic.bulk]\nsender = "alice"\nreceiver = "bob"\nstart = "2 s"\n'


def check_sums(trace: Trace) -> None:
    """The waits of delivered packets add up, and the one on `queued_path` is the longest."""
    of_packets = ["flow", "packet"]
    others = (
        trace.table("hops")
        .group_by(of_packets)
        .agg(pl.col("queued_ns").sum().alias("sum_ns"), pl.col("queued_ns").max().alias("max_ns"))
    )
    came = trace.table("packets").filter(pl.col("delivered_ns").is_not_null())
    rows = came.join(others, on=of_packets, how="full", coalesce=True)
    assert rows["queued_ns"].null_count() == 0
    longest_ns = rows["queued_ns"] - rows["sum_ns"].fill_null(0)
    assert (longest_ns >= rows["max_ns"].fill_null(0)).all()
    assert ((longest_ns > 0) == rows["queued_path"].is_not_null()).all()
    assert rows["queued_path"].drop_nulls().len() > 100
    for flow in trace.flows:
        waits = waited_by_path(trace, flow).group_by("packet").agg(pl.col("queued_ns").sum())
        whole = came.filter(pl.col("flow") == flow, pl.col("queued_ns") > 0)
        assert waits.sort("packet").equals(whole.select("packet", "queued_ns").sort("packet"))


@pytest.mark.parametrize("name", ["first-call", *(f"examples/{one}" for one in TOPOLOGIES)])
def test_the_waits_of_a_packet_add_up_to_its_time_in_queues(name: str) -> None:
    trace = rtclab.simulate(Scenario.load(name, ["duration=8 s"]))
    check_sums(trace)
    routes = {flow: set(about.route) for flow, about in trace.manifest.flows.items()}
    places = pl.concat([waited_by_path(trace, flow).select("flow", "path").unique() for flow in trace.flows])
    assert all(path in routes[flow] for flow, path in places.iter_rows()), (places, routes)


def test_cross_traffic_and_a_connection_of_tcp_to_a_relay_have_waits_on_both_legs(tmp_path: Path) -> None:
    scenario = Scenario.load("examples/nat-relay-over-tcp", ["duration=8 s"])
    assert waited_by_path(rtclab.simulate(scenario), FLOW)["path"].n_unique() > 1
    file = tmp_path / "beside.toml"
    file.write_text('extends = "first-call"\nduration = "8 s"\n' + BESIDE)
    trace = rtclab.simulate(Scenario.load(file))
    check_sums(trace)
    assert waited_by_path(trace, "bulk").height > 100


def wide(narrow: str, tmp_path: Path) -> Scenario:
    """A call over paths of 3 Mbit/s and one of 600 kbit/s."""
    file = tmp_path / "call.toml"
    texts = ['extends = "first-call"', 'duration = "30 s"']
    texts += [
        f'link.{way} = {{ capacity = "3 Mbit/s", delay = "20 ms", queue = "300 ms" }}'
        for way in ("up", "down")
    ]
    if narrow == "office":
        texts += [
            "[bottlenecks.office]",
            'routes = ["*->bob"]',
            'capacity = "600 kbit/s"',
            'queue = "300 ms"',
        ]
    file.write_text("\n".join(texts) + "\n")
    person, _, way = narrow.partition(".")
    changes = [f"participants.{person}.link.{way}.capacity=600 kbit/s"] if way else []
    return Scenario.load(file, changes)


@pytest.mark.parametrize("narrow", ["alice.up", "bob.down", "office"])
def test_the_path_whose_queue_grows_is_named(tmp_path: Path, narrow: str) -> None:
    results = rtclab.run(wide(narrow, tmp_path), repeats=1, out=tmp_path / "runs")
    trace = results.traces[0]
    at = bottleneck_of(trace, FLOW)
    assert at is not None
    assert (at.path, at.grade) == (narrow, "known")
    # At 600 kbit/s a queue of 300 ms holds 22.5 kB.
    assert 20 < at.waited_ms < 310
    rows = limits_table(trace).filter(flow=FLOW, limit="delay")
    assert rows.height
    assert set(rows["where"]) == {narrow}
    assert rows["evidence"].str.contains("detector_state=").all()
    assert f"the queue of {narrow}" in results.why(FLOW).sentences[FLOW][0]


def test_the_sender_behind_a_server_is_limited_by_its_own_uplink(tmp_path: Path) -> None:
    """Packets wait longer on bob's downlink, which alice's control does not see."""
    text = (
        'duration = "30 s"\n[video]\nmax_bitrate = "1 Mbit/s"\n[participants.alice]\n[participants.bob]\n'
        '[servers.sfu]\n[[calls]]\nkind = "sfu"\nserver = "sfu"\n'
        '[link]\nup = { capacity = "500 kbit/s", queue = "300 ms", delay = "20 ms" }\n'
        'down = { capacity = "460 kbit/s", queue = "2 s", delay = "20 ms" }\n'
    )
    file = tmp_path / "meeting.toml"
    file.write_text(text)
    trace = rtclab.simulate(Scenario.load(file))
    rows = limits_table(trace).filter(flow=FLOW)
    assert set(rows.filter(limit="delay")["where"]) == {"alice.up"}
    assert set(rows.filter(limit="server")["where"]) <= {"sfu"}


def test_losses_are_named_with_their_cause_and_path() -> None:
    scenario = Scenario.load("first-call", ["duration=30 s", "participants.bob.link.down.loss=10 %"])
    rows = limits_table(rtclab.simulate(scenario)).filter(flow=FLOW, limit="loss")
    assert rows.height
    assert "random bob.down" in set(rows["where"])
    assert rows["evidence"].str.contains("loss_based_state=").all()


def test_evidence_is_the_highest_state_and_the_mean_of_other_values() -> None:
    at_ns = pl.Series([0, 10, 20, 30]).to_numpy()
    values: Any = {
        "detector_state": (at_ns, pl.Series([1.0, 0.0, 1.0, 2.0]).to_numpy()),
        "delay_based_bps": (at_ns, pl.Series([9e9, 2e5, 4e5, 9e9]).to_numpy()),
    }
    # The value of 10 ns holds at 15 ns, and that of 30 ns comes when the time is over.
    assert evidence_of(values, "delay", "known", 15, 30) == "detector_state=1, delay_based_bps=3e+05"
    assert evidence_of({}, "loss", "inferred", 15, 30) == "packets"
    assert evidence_of({}, "unknown", "unknown", 15, 30) == ""
    own: Any = values | {"limited_by_delay": (at_ns, pl.Series([1.0] * 4).to_numpy())}
    assert evidence_of(own, "delay", "known", 15, 30) == "limited_by_delay=1"


def test_a_part_of_the_time_has_the_waits_of_its_own_packets() -> None:
    trace = rtclab.simulate(Scenario.load("first-call", ["duration=8 s"])).between("3 s", "5 s")
    packets = packets_in_order(trace, FLOW)
    assert waited_by_path(trace, FLOW)["queued_ns"].sum() == packets["queued_ns"].sum() > 0
    hops = trace.table("hops").filter(flow=FLOW)
    assert 0 < hops.height < trace.whole.table("hops").filter(flow=FLOW).height
    assert set(hops["packet"]) <= set(packets["packet"])


def test_repeats_that_share_their_tables_have_their_own_waits() -> None:
    scenario = Scenario.load("first-call", ["duration=6 s"])
    for number, trace in enumerate(simulate_together([(scenario, [1, 2])])):
        alone = trace.alone()
        together = waited_by_path(trace, f"{number}:{FLOW}")
        assert together["queued_ns"].sum() == waited_by_path(alone, FLOW)["queued_ns"].sum() > 0


def older(trace: Trace, out: Path) -> Trace:
    """The trace as schema 8 had it."""
    trace.save(out)
    (out / "hops.parquet").unlink()
    trace.table("packets").drop("packet", "queued_path").write_parquet(out / "packets.parquet")
    manifest = out / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema": 8}))
    return Trace(out)


def test_a_trace_without_waits_infers_the_path_that_was_used_most(tmp_path: Path) -> None:
    made = rtclab.simulate(wide("bob.down", tmp_path))
    trace = older(made, tmp_path / "older")
    assert trace.manifest.schema_number == 8
    assert knows_queues(made, FLOW)
    assert not knows_queues(trace, FLOW)
    assert waited_by_path(trace, FLOW).is_empty()
    at = bottleneck_of(trace, FLOW)
    assert at is not None
    assert (at.path, at.grade) == ("bob.down", "inferred")
    assert set(limits_table(trace).filter(flow=FLOW, limit="delay")["where"]) == {"bob.down"}
