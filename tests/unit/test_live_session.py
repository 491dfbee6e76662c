"""How a live session, without browsers, handles pairs that connect and pairs that do not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import TestClient, TestServer

from rtclab import _native
from rtclab.backend.backends import manifest
from rtclab.backend.live.browsers.browser_process import BrowserProcess
from rtclab.backend.live.browsers.page_server import PageServer
from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.plan import SessionPlan
from rtclab.backend.live.session import PARTIAL_CAPTURE, LiveParticipant, Session, _run_and_write
from rtclab.errors import CallFailed, LaboratoryFailed
from rtclab.scenario import Scenario

S = 10**9
PAIRS = [("alice", "bob"), ("alice", "carol"), ("bob", "carol")]


class Clock:
    """Stands in for the emulator, as a clock."""

    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def now_ns(self) -> int:
        return round(self.now_s * S)

    def is_running(self) -> bool:
        return True


def plan(start_s: float = 0, out: Path = Path("out")) -> SessionPlan:
    """The plan of a call of three people from ``start_s`` to 60 s."""
    connections = [
        LiveConnection(
            number=number,
            call=0,
            a=a,
            b=b,
            start_ns=round(start_s * S),
            end_ns=60 * S,
            flows=(f"{a}->{b}", f"{b}->{a}"),
            feed=a,
        )
        for number, (a, b) in enumerate(PAIRS)
    ]
    planned = manifest(Scenario.load("first-call"), backend="live", seed=1, repeat=0)
    return SessionPlan(
        call={"traffic": [], "seed": 1, "duration_ns": 2 * S, "record": "seconds"},
        manifest=planned.model_copy(update={"calls": ()}),
        connections=tuple(connections),
        out=out,
    )


def checked(
    now_s: float, *connected: tuple[str, str], at_end: bool = False, start_s: float = 0
) -> tuple[list[str], str]:
    """The pairs listed as not connected, and why the session failed, after a check of the connections."""

    async def look() -> tuple[list[str], str]:
        session = Session(plan(start_s), [])
        session._emulator = cast(_native.Emulator, Clock(now_s))
        session._connected = {PAIRS.index(pair) for pair in connected}
        session._check_connections(at_end=at_end)
        return [str(one) for one in session.not_connected], reason_of(session)

    return asyncio.run(look())


class Broken(Clock):
    """An emulator that has ended by itself, such as by an error of the disk."""

    def stop(self) -> Any:
        return {"failure": OSError(5, "Input/output error"), "port_failures": []}


def test_why_the_emulator_ended_is_the_reason_of_the_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run(session: Session) -> None:
        session._emulator = cast(_native.Emulator, Broken(3))
        session.fail("the emulator ended during the call", LaboratoryFailed)
        await session._failure

    written = []
    monkeypatch.setattr(Session, "run", run)
    (tmp_path / PARTIAL_CAPTURE).touch()
    monkeypatch.setattr(
        "rtclab.backend.live.session.write_trace", lambda *_, failure, **__: written.append(failure)
    )
    with pytest.raises(LaboratoryFailed, match=r"ended during the call: \[Errno 5\] Input/output error"):
        asyncio.run(_run_and_write(plan(out=tmp_path), []))
    assert written == ["the emulator ended during the call: [Errno 5] Input/output error"], "what it carried"


def test_datagrams_that_an_sfu_was_too_slow_for_are_an_event() -> None:
    async def hear() -> dict[str, Any]:
        session = Session(plan(), [])
        at_ms = session.recorder.run_began_ms + 2500
        session._servers._receive("sfu", {"overload": {"at_ms": at_ms, "dropped": 120}})
        return session.recorder.rows["events"][0]

    row = asyncio.run(hear())
    assert row.pop("at_ns") == pytest.approx(2.5 * S)
    assert row == {
        "participant": "sfu",
        "flow": None,
        "event": "overloaded",
        "detail": "120 datagrams dropped",
    }


def reason_of(session: Session) -> str:
    """Why the session failed; empty if it did not."""
    if not session._failure.done():
        return ""
    error = session._failure.exception()
    assert isinstance(error, CallFailed | LaboratoryFailed)
    return error.message


def test_nobody_fails_while_there_is_still_time() -> None:
    assert checked(30) == ([], "")
    assert checked(40, start_s=10) == ([], "")


def test_a_call_in_which_nobody_connected_in_time_fails() -> None:
    missing, reason = checked(31)
    assert reason.startswith("alice and bob did not connect within 31 s; last event: ")
    assert len(missing) == 3


def test_a_pair_that_is_late_does_not_stop_the_others() -> None:
    assert checked(31, ("alice", "bob")) == ([], "")


def test_at_the_end_pairs_that_did_not_connect_are_listed() -> None:
    missing, reason = checked(60, ("alice", "bob"), ("alice", "carol"), at_end=True)
    assert (missing, reason) == (["bob and carol did not connect within 60 s"], "")


def test_a_short_call_in_which_nobody_connected_fails_at_its_end() -> None:
    missing, reason = checked(4, at_end=True)
    assert reason.startswith("alice and bob did not connect within 4 s")
    assert len(missing) == 3


@pytest.mark.parametrize(
    ("slept_s", "reason"),
    [(0.9, ""), (42.0, "this machine was suspended for 42 s during the call")],
)
def test_a_machine_that_was_suspended_fails_the_repeat(
    slept_s: float, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No test can suspend the machine: one clock counts the time of a suspension, the other does not.
    boot_s = iter([100.0, 100.0, 100.0 + slept_s, 100.0 + slept_s])
    clocks = {time.CLOCK_BOOTTIME: lambda: next(boot_s), time.CLOCK_MONOTONIC: lambda: 70.0}
    monkeypatch.setattr(time, "clock_gettime", lambda clock: clocks[clock]())

    async def watch() -> Session:
        session = Session(plan(), [])
        session._emulator = cast(_native.Emulator, Clock(2))
        await session._watch()
        return session

    session = asyncio.run(watch())
    assert reason_of(session) == reason
    if reason:  # the laboratory failed, not the call
        assert isinstance(session._failure.exception(), LaboratoryFailed)


class Whole(Clock):
    """An emulator that ends as it should."""

    def stop(self) -> Any:
        return {"failure": None, "port_failures": []}


@pytest.mark.parametrize(
    ("emulator", "left"), [(Whole(3), "capture.pcapng"), (Broken(3), "capture.pcapng.partial")]
)
def test_a_capture_has_its_name_only_if_it_is_whole(tmp_path: Path, emulator: Clock, left: str) -> None:
    async def stop() -> None:
        session = Session(plan(out=tmp_path), [])
        session._emulator = cast(_native.Emulator, emulator)
        await session.stop()

    (tmp_path / PARTIAL_CAPTURE).touch()
    asyncio.run(stop())
    assert [file.name for file in tmp_path.iterdir()] == [left]


def test_who_would_join_after_the_end_does_not_prolong_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    waited_s: list[float] = []

    async def note(_: Session, at_ns: int) -> None:
        waited_s.append(at_ns / S)

    async def attend() -> None:
        session = Session(plan(), [])
        page = SimpleNamespace(send=lambda *_, **__: asyncio.sleep(0))
        for join_s in (0, 30):
            participant = LiveParticipant(
                "alice", join_s * S, 2 * S, cast(PageServer, page), cast(BrowserProcess, None)
            )
            participant.left.set()
            await session._attend(participant)

    monkeypatch.setattr(Session, "_sleep_until", note)
    asyncio.run(attend())
    assert waited_s == [0, 2]


def test_a_report_that_cannot_be_handled_fails_the_laboratory_and_is_named() -> None:
    async def report() -> Session:
        session = Session(plan(), [])
        server = PageServer(
            lambda message: session._receive("alice", message),
            lambda: closed.append(True),
            lambda error: session._report_failed("alice", error),
        )
        async with TestClient(TestServer(server.application())) as client:
            socket = await client.ws_connect("/report")
            await socket.receive_json()
            await socket.send_json({"type": "event", "event": "joined", "number": 99, "at_ms": 0})
            await socket.receive()
        return session

    closed: list[bool] = []
    session = asyncio.run(report())
    assert reason_of(session) == "a report of alice's page could not be handled: KeyError: 99"
    assert isinstance(session._failure.exception(), LaboratoryFailed)
    assert closed == [True]


@pytest.mark.parametrize(
    ("step_s", "notes"),
    [
        (0.009, []),
        (-0.25, ["this machine's clock was set by -0.250 s while the pages loaded: set-up times, frames "]),
    ],
)
def test_a_clock_that_was_set_while_the_pages_loaded_is_noted(
    step_s: float, notes: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # No test can set the clock of the machine.
    wall_s = iter([1000.0, 1007.0 + step_s])
    monotonic_s = iter([10.0, 17.0])
    clocks = {
        time.CLOCK_REALTIME: lambda: next(wall_s),
        time.CLOCK_MONOTONIC: lambda: next(monotonic_s),
        time.CLOCK_BOOTTIME: lambda: 0.0,
    }

    async def work() -> Session:
        session = Session(plan(), [])
        monkeypatch.setattr(session, "_prepare", lambda: asyncio.sleep(0))
        monkeypatch.setattr(session, "_begin", lambda: None)
        monkeypatch.setattr(session._traffic, "run", begin_nothing_else)
        monkeypatch.setattr(time, "clock_gettime", lambda clock: clocks[clock]())
        with pytest.raises(InterruptedError):
            await session._work()
        return session

    def begin_nothing_else(_: object) -> None:
        raise InterruptedError

    assert [note[: len(start)] for note, start in zip(asyncio.run(work()).notes, notes, strict=True)] == notes
