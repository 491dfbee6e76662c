"""TCP cross traffic, from the table `traffic` to flows, tables and metrics."""

from pathlib import Path

import pytest
from scenario_text import error, scenario

from rtclab.backend.sim import SimBackend
from rtclab.metrics.tcp import tcp_throughput

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
    kbps = tcp_throughput(trace, "download", (10, 30))
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            'receiver = "bobby"',
            "traffic.download.receiver: unknown node `bobby`; expected alice, bob, core\n"
            "  hint: did you mean `bob`?",
        ),
        ('receiver = "core"', "traffic.download.receiver: `core` is the sender"),
        ('start = "60 s"', "traffic.download.start: `60 s` is not before the end at `30 s`"),
        (
            'congestion_control = "reno"',
            "traffic.download.congestion_control: unknown value `reno`; expected `newreno`, `cubic` or `bbr`",
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
