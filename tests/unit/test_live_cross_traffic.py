"""Cross traffic of live calls: what is planned and what is refused, without a lab."""

import asyncio
import json
from pathlib import Path

import pytest
from scenario_text import scenario

from rtclab.backend.live.connections import PortFlows
from rtclab.backend.live.lab import cross_traffic as traffic
from rtclab.backend.live.lab.cross_traffic import CrossTraffic, check_traffic
from rtclab.errors import BackendUnavailable, UnsupportedScenario

CALL = """
name = "beside"
duration = "20 s"
[participants.alice]
[participants.bob]
[video]
[traffic.download]
sender = "core"
receiver = "bob"
congestion_control = "bbr"
flows = 2
[traffic.web]
sender = "alice"
receiver = "bob"
flows = 3
objects = {}
[traffic.noise]
protocol = "udp"
rate = "10 Mbit/s"
packet_size = "1250 B"
sender = "bob"
receiver = "alice"
"""


@pytest.fixture(autouse=True)
def _a_kernel_with_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "kernel_congestion_controls", lambda: {"newreno", "cubic", "bbr"})
    monkeypatch.setattr(traffic.shutil, "which", lambda name: f"/usr/bin/{name}")


class Started(Exception):
    """A program would have been started."""


def start(*_: object, **__: object) -> None:
    raise Started


def planned(tmp_path: Path, *changes: str) -> CrossTraffic:
    addresses = {"core": "10.77.0.1", "alice": "10.77.0.2", "bob": "10.77.0.3"}
    config = scenario(tmp_path, "", *changes, base=CALL).native(seed=1)["traffic"]
    return CrossTraffic(config, addresses, spawn=start, home=tmp_path, fail=pytest.fail)


def test_a_congestion_control_that_the_kernel_lacks_is_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check_traffic(scenario(tmp_path, base=CALL))
    monkeypatch.setattr(traffic, "kernel_congestion_controls", lambda: {"newreno", "cubic"})
    with pytest.raises(UnsupportedScenario) as caught:
        check_traffic(scenario(tmp_path, base=CALL))
    assert "traffic.download.congestion_control" in str(caught.value)
    assert "this kernel has no `bbr`; expected `cubic` or `newreno`" in str(caught.value)
    assert "kernel module tcp_bbr" in str(caught.value)


def test_prague_is_in_no_ordinary_kernel(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedScenario) as caught:
        check_traffic(scenario(tmp_path, "", "traffic.download.congestion_control=prague", base=CALL))
    assert "traffic.download.congestion_control: this kernel has no `prague`; expected" in str(caught.value)
    assert "only the Linux of the L4S team has it" in str(caught.value)


def test_all_tcp_of_a_sender_uses_ecn_or_none(tmp_path: Path) -> None:
    check_traffic(scenario(tmp_path, "", "traffic.web.ecn=true", base=CALL))
    both = ["traffic.web.ecn=true", "traffic.download.sender=alice"]
    with pytest.raises(UnsupportedScenario) as caught:
        check_traffic(scenario(tmp_path, "", *both, base=CALL))
    refused = "traffic.web.ecn: live, all TCP from `alice` uses ECN or none; traffic.download.ecn is false"
    assert refused in str(caught.value)


@pytest.mark.parametrize(("changes", "asking"), [([], []), (["traffic.web.ecn=true"], ["alice"])])
def test_senders_ask_for_ecn_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: list[str], asking: list[str]
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(traffic, "request_ecn", asked.append)
    with pytest.raises(Started):
        asyncio.run(planned(tmp_path, *changes).prepare())
    assert asked == asking


def test_both_ends_of_objects_have_the_congestion_control(tmp_path: Path) -> None:
    changed = planned(tmp_path, "traffic.web.congestion_control=dctcp")
    web = next(plan for plan in changed.plans if plan.flow == "web")
    assert web.server.command[-1] == "dctcp"
    assert json.loads(web.client.command[-1])["congestion_control"] == "dctcp"


def test_iperf3_is_needed_only_for_transfers_and_udp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic.shutil, "which", lambda _: None)
    with pytest.raises(BackendUnavailable, match="iperf3 is not installed"):
        check_traffic(scenario(tmp_path, base=CALL))
    begin, end = CALL.index("[traffic.web]"), CALL.index("[traffic.noise]")
    check_traffic(scenario(tmp_path, base=CALL[: CALL.index("[traffic.download]")] + CALL[begin:end]))


def test_each_flow_is_known_by_a_port_of_its_own(tmp_path: Path) -> None:
    assert planned(tmp_path).port_flows() == {
        ("core", 20_001): PortFlows("download.1 acks", "download.1", "tcp"),
        ("core", 20_003): PortFlows("download.2 acks", "download.2", "tcp"),
        ("bob", 20_004): PortFlows("web", "web acks", "tcp"),
        ("bob", 20_007): PortFlows(outgoing="noise", protocol="udp"),
        # Where iperf3 listens, for its control connection too.
        ("bob", 20_000): PortFlows(),
        ("bob", 20_002): PortFlows(),
        ("alice", 20_006): PortFlows(),
    }


def test_iperf3_gets_the_rate_of_its_payload(tmp_path: Path) -> None:
    noise = next(plan for plan in planned(tmp_path).plans if plan.flow == "noise")
    command = noise.client.command
    # 1222 of 1250 B are payload; a packet a millisecond.
    assert command[command.index("--bitrate") + 1] == "9776000"
    assert command[command.index("--length") + 1] == "1222"
    assert command[command.index("--pacing-timer") + 1] == "1000"
