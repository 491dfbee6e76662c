"""Real calls between two browsers through the emulator, and what happens when one of them fails."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import psutil
import pytest
from live_tests import Recorded, undisturbed, was_late
from parts import CALL

from rtclab.backend.live import LiveBackend, plan
from rtclab.backend.live.lab.process import STOP_GRACE_S
from rtclab.backend.live.session import PARTIAL_CAPTURE
from rtclab.backend.sampler import Sampler
from rtclab.errors import CallFailed
from rtclab.experiment import Experiment
from rtclab.scenario import Scenario
from rtclab.trace import SCHEMAS, Trace

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

SECOND = 10**9
START_S = 60
"""Longer than a call takes to begin on a busy machine."""
DEATH_S = 20
"""Longer than dozens of processes take to end on a busy machine, and shorter than their calls."""
page_configurations = plan.pages
FLOWS = ["alice->bob", "bob->alice"]
RUN = """
import sys
from pathlib import Path
from rtclab.backend.live import LiveBackend
from rtclab.scenario import Scenario
LiveBackend().run(Scenario.load("first-call"), seed=1, repeat=0, out=Path(sys.argv[1]))
"""


def call(out: Path, *changes: str, scenario: str = "first-call") -> Trace:
    """Runs a scenario with changes."""
    loaded = Scenario.load(scenario, list(changes))
    backend = LiveBackend()
    backend.check(loaded)
    return backend.run(loaded, seed=1, repeat=0, out=out)


def wait_for(condition: Callable[[], object], timeout_s: float) -> bool:
    """Waits for a condition, and returns whether it became true in time."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def command_line(process: psutil.Process) -> list[str]:
    """The command line of a process; empty if it has ended, as a browser's processes may at any time."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def browsers_below(process: psutil.Process) -> dict[str, psutil.Process]:
    """The main process of each participant's browser."""
    found = {}
    for child in process.children(recursive=True):
        line = command_line(child)
        homes = [word for word in line if word.startswith("--user-data-dir=")]
        if homes and not any(word.startswith("--type=") for word in line):
            found[Path(homes[0].partition("=")[2]).parent.name] = child
    return found


def renderers_of(browser: psutil.Process) -> list[psutil.Process]:
    """The processes that run the pages of a browser."""
    return [child for child in browser.children(recursive=True) if "--type=renderer" in command_line(child)]


@pytest.fixture(scope="module")
def one_megabit(recorded: Recorded) -> Trace:
    """A call of 15 s: 1 Mbit/s, and 50 ms one way."""
    return recorded.trace


def test_what_is_seen_of_a_call_once_a_second_is_what_its_trace_has(
    one_megabit: Trace, recorded: Recorded
) -> None:
    seen = recorded.watched
    at_s = [new["at_s"] for new in seen]
    assert 14 <= len(at_s) <= 18
    assert at_s == sorted(at_s)
    merged: dict[tuple[str, str], list[Any]] = {}
    for new in seen:
        for name, curves in (new["flows"] | new["people"]).items():
            for curve, points in curves.items():
                merged.setdefault((name, curve), []).extend(points)
    of_trace = Sampler.of_trace(one_megabit).new()
    for name, curves in (of_trace["flows"] | of_trace["people"]).items():
        for curve, points in curves.items():
            if curve != "delay_ms":  # the packets are assigned to flows when the call has ended
                seen_of = merged[name, curve]
                assert seen_of == points[: len(seen_of)], (name, curve)
                assert len(points) - len(seen_of) <= 1  # reports that came after the last look
    assert {("alice", "cpu_percent"), *((flow, "rtt_ms") for flow in FLOWS)} <= merged.keys()
    happened = [event for new in seen for event in new["events"]]
    assert {"joined", "dtls_connected", "first_frame"} <= {name for _, _, _, name, _ in happened}


def test_both_participants_go_through_every_step_of_the_set_up_in_order(one_megabit: Trace) -> None:
    """A round trip of 100 ms lies between ICE and DTLS, more than a busy machine is late."""
    steps = ["joined", "signalling_done", "ice_connected", "dtls_connected"]
    events = one_megabit.table("events").sort("at_ns")
    for participant in ("alice", "bob"):
        own = events.filter(pl.col("participant") == participant, pl.col("event").is_in(steps))
        assert own["event"].to_list() == steps
        received = "bob->alice" if participant == "alice" else "alice->bob"
        assert own["flow"].to_list() == [None, received, received, received]
    first_frames = events.filter(event="first_frame").sort("flow")
    assert first_frames["flow"].to_list() == FLOWS
    # TCP, WebSocket, offer and answer, ICE and DTLS take at least five round trips of 100 ms.
    assert (first_frames["at_ns"] > 500_000_000).all()
    assert (first_frames["at_ns"] < 8 * SECOND).all()


def test_a_trace_of_a_live_call_has_rows_for_both_flows_in_every_table_of_calls(one_megabit: Trace) -> None:
    assert one_megabit.tables == list(SCHEMAS)
    for name in one_megabit.tables:
        table = one_megabit.table(name)
        assert table.schema == SCHEMAS[name]
        if name == "tcp":
            assert table.is_empty()  # this call has no cross traffic
        elif "flow" in table.columns:
            assert sorted(table["flow"].drop_nulls().unique()) == FLOWS, name
    seconds = one_megabit.table("flow_seconds").group_by("flow").len()
    assert seconds["len"].to_list() == [15, 15]


def test_the_emulator_saw_every_byte_that_the_browsers_received(one_megabit: Trace) -> None:
    packets = one_megabit.table("packets").filter(protocol="rtp")
    for flow in FLOWS:
        reports = one_megabit.table("inbound_rtp").filter(flow=flow, kind="video").sort("at_ns")
        until = reports.row(-1, named=True)
        delivered = packets.filter(pl.col("flow") == flow, pl.col("delivered_ns") <= until["at_ns"])
        # getStats does not count IPv4 (20 B), UDP (8 B) and the SRTP tag of AEAD_AES_128_GCM (16 B).
        seen_bytes = (delivered["size_bytes"] - 44).sum()
        received_bytes = until["bytesReceived"] + until["headerBytesReceived"]
        assert received_bytes == pytest.approx(seen_bytes, rel=0.03)
        assert until["packetsReceived"] == pytest.approx(delivered.height, rel=0.03)


def test_the_round_trip_time_is_the_delay_of_the_paths_and_of_a_bounded_queue(one_megabit: Trace) -> None:
    rtt_s = one_megabit.table("remote_inbound_rtp")["roundTripTime"].drop_nulls()
    assert rtt_s.len() > 10
    assert rtt_s.min() > 0.1  # four times 25 ms
    assert rtt_s.median() < 0.35


def test_no_packet_is_delivered_earlier_than_the_paths_allow(one_megabit: Trace) -> None:
    delay_ms = one_megabit.table("delay_histogram")["one_way_delay_ms"]
    assert delay_ms.min() == pytest.approx(50.5, abs=0.5)  # 50 ms, and twice up to 0.5 ms for 60 bytes
    assert one_megabit.manifest.emulator["no_route"] == 0


@pytest.mark.measures
def test_at_500_kbits_the_browsers_settle_between_300_and_500_kbits(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    def half_a_megabit() -> Trace:
        return call(tmp_path_factory.mktemp("call"), "duration=20 s", scenario="sim-vs-live/500kbit")

    trace = undisturbed(half_a_megabit, was_late)
    last_seconds = trace.table("flow_seconds").filter(pl.col("at_ns") >= 10 * SECOND)
    for flow in FLOWS:
        rates_bps = last_seconds.filter(flow=flow)["delivered_bytes"] * 8
        assert rates_bps.len() == 10
        assert 300_000 < rates_bps.mean() < 500_000


def test_a_browser_that_dies_fails_the_call_and_is_named_with_its_signal(tmp_path: Path) -> None:
    def kill_bob() -> None:
        # The capture appears when the call begins.
        wait_for((tmp_path / PARTIAL_CAPTURE).exists, START_S)
        browsers_below(psutil.Process())["bob"].kill()

    killer = threading.Thread(target=kill_bob)
    killer.start()
    with pytest.raises(CallFailed, match="the browser of bob was killed by SIGKILL"):
        call(tmp_path)
    killer.join()
    # Alice's page may notice the failure, too.
    failed = Trace(tmp_path).table("events").filter(event="failed", participant="")
    assert failed["detail"].str.starts_with("the browser of bob was killed").to_list() == [True]
    assert browsers_below(psutil.Process()) == {}


def test_a_renderer_that_crashes_fails_the_call_and_its_page_is_named(tmp_path: Path) -> None:
    def crash_bobs_page() -> None:
        wait_for((tmp_path / PARTIAL_CAPTURE).exists, START_S)
        for renderer in renderers_of(browsers_below(psutil.Process())["bob"]):
            with contextlib.suppress(psutil.NoSuchProcess):  # it may already have ended
                renderer.send_signal(signal.SIGSEGV)

    crash = threading.Thread(target=crash_bobs_page)
    crash.start()
    with pytest.raises(CallFailed, match="the page of bob closed its report socket"):
        call(tmp_path)
    crash.join()
    failed = Trace(tmp_path).table("events").filter(event="failed", participant="")
    assert failed["detail"].str.starts_with("the page of bob closed").to_list() == [True]
    assert browsers_below(psutil.Process()) == {}


@pytest.mark.parametrize(
    ("defect", "error"),
    [
        # An error before the run begins: no camera takes 3000 pictures a second.
        ({"video": {"width": 640, "height": 480, "frameRate": 3000}}, "OverconstrainedError"),
        # An error during the call: both pages read the formats for the other's description.
        ({"formats": None}, "TypeError"),
    ],
    ids=["before the call", "during the call"],
)
def test_a_page_error_fails_the_repeat_and_says_whose_page_and_which_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defect: dict[str, object], error: str
) -> None:
    def defective(scenario: Scenario) -> dict[str, dict[str, object]]:
        told = page_configurations(scenario)
        return told | {"bob": told["bob"] | defect}

    monkeypatch.setattr(plan, "pages", defective)
    scenario = Scenario.load("first-call", ["duration=15 s"])
    run = Experiment([scenario], backend=LiveBackend(), repeats=1).run(out=tmp_path)
    assert run.traces == []
    (repeat,) = run.repeats
    assert repeat.status == "failed"
    assert repeat.reason.startswith(f"the page of bob reported an error: {error}")


def test_participants_who_never_connect_fail_the_call_and_are_named(tmp_path: Path) -> None:
    with pytest.raises(CallFailed, match="alice and bob did not connect within 4 s"):
        call(tmp_path, "duration=4 s", "link.up.loss=100 %")


@pytest.mark.parametrize("depth", [0, 1, 2], ids=["the run", "unshare", "the lab"])
def test_nothing_remains_when_a_process_of_the_lab_is_killed(tmp_path: Path, depth: int) -> None:
    with subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stderr=subprocess.DEVNULL) as run:
        ours = [psutil.Process(run.pid)]
        assert wait_for((tmp_path / PARTIAL_CAPTURE).exists, START_S)
        descendants = ours[0].children(recursive=True)
        for _ in range(depth):
            ours += ours[-1].children()
        assert len(browsers_below(ours[0])) == 2
        ours[-1].kill()
    assert len(descendants) > 10
    _, alive = psutil.wait_procs(descendants, timeout=DEATH_S)
    assert alive == []


def test_control_c_ends_a_call_at_once_and_leaves_nothing(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", RUN, str(tmp_path)], stderr=subprocess.PIPE) as run:
        assert wait_for((tmp_path / PARTIAL_CAPTURE).exists, START_S)
        descendants = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.SIGINT)
        _, said = run.communicate(timeout=STOP_GRACE_S + DEATH_S)
    assert said.rstrip().endswith(b"KeyboardInterrupt")
    _, alive = psutil.wait_procs(descendants, timeout=DEATH_S)
    assert alive == []
