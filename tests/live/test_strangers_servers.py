"""Servers and applications that know nothing of rtclab: LiveKit, and the demo of Janus as Debian has it."""

from __future__ import annotations

import itertools
from pathlib import Path

import polars as pl
import pytest
from parts import CALL

from rtclab.backend.live import LiveBackend
from rtclab.experiment import Experiment
from rtclab.scenario import Scenario
from rtclab.trace import Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

STRANGERS = Path(__file__).parent / "strangers"
PNG = b"\x89PNG\r\n"


def call(out: Path, name: str) -> Trace:
    """The trace of a stranger's scenario."""
    scenario = Scenario.load(STRANGERS / name / "scenario.toml")
    run = Experiment([scenario], backend=LiveBackend(), repeats=1).run(out=out).run
    (repeat,) = run.repeats
    assert repeat.status == "finished", repeat.reason
    return run.trace(0)


def forwards_everything(trace: Trace, server: str, people: tuple[str, ...]) -> None:
    """Checks that everybody's sound and picture reach everybody else over a server."""
    about = trace.manifest
    media = trace.table("packets").filter(pl.col("delivered_ns").is_not_null(), kind="video")
    shown = dict(trace.table("frames").group_by("flow").len().iter_rows())
    for sender, receiver in itertools.permutations(people, 2):
        flow = f"{sender}->{receiver}"
        expected = (f"{sender}.up", f"{server}.down", f"{server}.up", f"{receiver}.down")
        assert about.flows[flow].route == expected
        # Copies count from when their senders sent the originals: 40 ms, and the time in the server.
        copies = media.filter(flow=flow)
        delay_ms = copies.select((pl.col("delivered_ns") - pl.col("sent_ns")).median() / 1e6).item()
        assert 40 < delay_ms < 200
        begun = pl.col("sent_ns") >= copies["sent_ns"].min()
        originals = media.filter(begun, flow=f"{sender}->{server}")
        assert copies.height == pytest.approx(originals.height, rel=0.15)
        assert shown[flow] > 5
    assert set(trace.table("host")["participant"]) == {*people, server, "app"}
    assert about.notes == ()


@pytest.mark.needs("livekit-server", "livekit-client")
def test_three_people_meet_over_livekit_from_the_scenario_alone(tmp_path: Path) -> None:
    forwards_everything(call(tmp_path, "livekit"), "livekit", ("alice", "bob", "carol"))


@pytest.mark.needs("janus", "janus-demos")
def test_two_people_meet_in_the_demo_of_janus_by_clicking_and_typing(tmp_path: Path) -> None:
    trace = call(tmp_path, "janus")
    forwards_everything(trace, "janus", ("alice", "bob"))
    assert (trace.path / "alice-room.png").read_bytes().startswith(PNG)
