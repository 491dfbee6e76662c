"""Cross traffic, from the table `traffic` to flows, tables and metrics."""

from pathlib import Path

import polars as pl
import pytest
from scenario_text import error, scenario

from rtclab.backend.sim import SimBackend
from rtclab.metrics.rate import receiving_rate
from rtclab.metrics.tcp import tcp_throughput
from rtclab.report.words import calls

LONG = """
name = "long"
duration = "30 s"
record = "seconds"
[participants.alice]
[participants.bob]
[participants.bob.link]
down = { capacity = "2 Mbit/s", queue = "300 ms", delay = "25 ms" }
[traffic.download]
sender = "core"
receiver = "bob"
start = "5 s"
"""


def test_a_transfer_fills_its_link_from_its_start_on(tmp_path: Path) -> None:
    trace = SimBackend().run(scenario(tmp_path, base=LONG), seed=1, repeat=0, out=tmp_path / "trace")
    assert trace.manifest.flows["download"].route == ("core.up", "bob.down")
    kbps = tcp_throughput(trace.within((10, 30)), "download")
    # 1448 of 1500 B of 2 Mbit/s are 1931 kbit/s; the call has no media.
    assert 1850 < kbps < 1931
    sent = trace.table("flow_seconds")
    first_ns = sent.filter((sent["flow"] == "download") & (sent["sent_packets"] > 0))["at_ns"].min()
    assert first_ns == 5 * 10**9


def test_several_transfers_are_separate_flows_and_objects_are_one_flow(tmp_path: Path) -> None:
    two = scenario(tmp_path, "flows = 2\n", base=LONG)
    assert [flow.name for flow in two.traffic_flows()] == ["download.1", "download.2"]
    web = scenario(tmp_path, "flows = 2\nobjects = {}\n", base=LONG)
    assert [flow.name for flow in web.traffic_flows()] == ["download"]


UDP = """
name = "noise"
duration = "20 s"
[participants.alice]
[participants.bob]
[participants.bob.link]
down = { capacity = "500 kbit/s", queue = "100 ms", delay = "25 ms" }
[traffic.noise]
protocol = "udp"
sender = "core"
receiver = "bob"
start = "5 s"
"""


def test_udp_keeps_its_rate_and_loses_the_excess_over_the_capacity(tmp_path: Path) -> None:
    udp = scenario(tmp_path, 'rate = "1 Mbit/s"\npacket_size = "1250 B"\n', base=UDP)
    trace = SimBackend().run(udp, seed=1, repeat=0, out=tmp_path / "trace")
    packets = trace.table("packets").filter(pl.col("flow") == "noise")
    # 100 packets/s for 15 s, every 10 ms from 5 s on, beside the few packets of a call without media.
    assert packets["sent_ns"].to_list() == [5 * 10**9 + number * 10**7 for number in range(1500)]
    assert set(packets["size_bytes"]) == {1250}
    assert set(packets["protocol"]) == {"udp"}
    # Half is dropped, but for 100 ms of queue (5 packets), one in service and two in flight.
    assert 742 <= packets["dropped_ns"].count() <= 750
    assert 490 <= receiving_rate(trace.within((6, 20)), "noise") <= 510
    assert set(trace.manifest.flows) == {"alice->bob", "bob->alice", "noise"}


def test_udp_flows_are_numbered_and_their_size_has_a_default(tmp_path: Path) -> None:
    two = scenario(tmp_path, 'rate = "300 kbit/s"\nflows = 2\n', base=UDP)
    assert [flow.name for flow in two.traffic_flows()] == ["noise.1", "noise.2"]
    native = two.native(seed=1)["traffic"][0]
    assert native["udp"] == {"rate_bps": 300_000, "packet_bytes": 1200}
    assert calls(two.model_dump(mode="json")).endswith("noise is 2 300 kbit/s UDP flows from core to bob")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ([], "traffic.noise.rate: UDP needs a rate\n  hint: for example"),
        (["rate=0 kbit/s"], "traffic.noise.rate: must be positive; got `0 bit/s`"),
        (
            ["rate=1 Mbit/s", "congestion_control=cubic"],
            "traffic.noise.congestion_control: UDP has none; got `cubic`",
        ),
        (["rate=1 Mbit/s", "objects={}"], "traffic.noise.objects: only TCP sends objects"),
        (
            ["rate=1 Mbit/s", "packet_size=2 kB"],
            "traffic.noise.packet_size: `2 kB` is not between 44 B and 1.5 kB",
        ),
        (
            ["rate=1 Mbit/s", "ecn=true"],
            "traffic.noise.ecn: UDP does not react to marks; only `newreno` or `cubic` have the choice",
        ),
        (["protocol=tcp", "rate=1 Mbit/s"], "traffic.noise.rate: only UDP has one; got `1 Mbit/s`"),
    ],
)
def test_a_field_of_the_other_protocol_is_an_error(tmp_path: Path, changes: list[str], message: str) -> None:
    changed = [f"traffic.noise.{change}" for change in changes]
    assert message in error(tmp_path, "", *changed, base=UDP)


@pytest.mark.parametrize("control", ["newreno", "cubic"])
def test_ecn_reaches_the_simulator(tmp_path: Path, control: str) -> None:
    own = scenario(
        tmp_path, "", "traffic.download.ecn=true", f"traffic.download.congestion_control={control}", base=LONG
    )
    assert own.native(seed=1)["traffic"][0]["ecn"] is True
    assert calls(own.model_dump(mode="json")).endswith(
        f"download is a {control} TCP flow with ECN from core to bob"
    )


@pytest.mark.parametrize(
    ("control", "reason"),
    [("bbr", "does not use ECN"), ("dctcp", "always uses ECN"), ("prague", "always uses ECN")],
)
def test_a_control_without_the_choice_of_ecn_says_so(tmp_path: Path, control: str, reason: str) -> None:
    chosen = f"traffic.download.congestion_control={control}"
    assert "ecn" not in scenario(tmp_path, "", chosen, base=LONG).native(seed=1)["traffic"][0]
    refused = f"traffic.download.ecn: `{control}` {reason}; only `newreno` or `cubic` have the choice"
    assert refused in error(tmp_path, "", chosen, "traffic.download.ecn=true", base=LONG)


@pytest.mark.parametrize("control", ["dctcp", "prague"])
def test_controls_of_marking_queues_fill_a_link_that_only_drops(tmp_path: Path, control: str) -> None:
    chosen = f"traffic.download.congestion_control={control}"
    own = scenario(tmp_path, "", chosen, base=LONG)
    trace = SimBackend().run(own, seed=1, repeat=0, out=tmp_path / "trace")
    assert 1850 < tcp_throughput(trace.within((10, 30)), "download") < 1931


def test_traffic_after_the_end_is_an_error_although_it_says_when_it_stops(tmp_path: Path) -> None:
    late = ["traffic.download.start=30 s", "traffic.download.end=50 s", "duration=5 s"]
    refused = "traffic.download.start: `30 s` is not before duration = `5 s`"
    assert refused in error(tmp_path, "", *late, base=LONG)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            'receiver = "bobby"',
            "traffic.download.receiver: unknown node `bobby`; expected alice, bob, core\n"
            "  hint: did you mean `bob`?",
        ),
        ('receiver = "core"', "traffic.download.receiver: `core` is the sender"),
        ('start = "60 s"', "traffic.download.start: `60 s` is not before duration = `30 s`"),
        (
            'congestion_control = "reno"',
            "traffic.download.congestion_control: unknown value `reno`; expected `newreno`, `cubic`, "
            "`bbr`, `dctcp` or `prague`",
        ),
        (
            'objects = { min_size = "60 kB" }',
            "traffic.download.objects.min_size: `60 kB` is not between 1 B and max_size = `50 kB`",
        ),
    ],
)
def test_wrong_traffic_says_what_was_expected(tmp_path: Path, change: str, message: str) -> None:
    field, _, value = change.partition(" = ")
    assert message in error(tmp_path, "", f"traffic.download.{field}={value}", base=LONG)
