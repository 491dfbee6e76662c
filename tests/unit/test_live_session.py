"""How a live session, without browsers, handles pairs that connect and pairs that do not."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any, cast

import pytest

from rtclab import _native
from rtclab.backend.live.connections import LiveConnection
from rtclab.backend.live.session import Session, _run_and_write
from rtclab.errors import CallFailed

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


def argument(start_s: float = 0) -> dict[str, Any]:
    """The argument of a call of three people from ``start_s`` to 60 s."""
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
            one_way=False,
            relay=None,
            forwards=None,
            server=None,
        )
        for number, (a, b) in enumerate(PAIRS)
    ]
    return {
        "call": {"traffic": [], "seed": 1, "duration_ns": 2 * S},
        "connections": [one.as_json() for one in connections],
        "nat": {},
    }


def checked(
    now_s: float, *connected: tuple[str, str], at_end: bool = False, start_s: float = 0
) -> tuple[list[str], str]:
    """The pairs listed as not connected, and why the session failed, after a check of the connections."""

    async def look() -> tuple[list[str], str]:
        session = Session(argument(start_s), [])
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
        session.fail("the emulator ended during the call")
        await session._failure

    written = []
    monkeypatch.setattr(Session, "run", run)
    monkeypatch.setattr(
        "rtclab.backend.live.session.write_trace", lambda *_, failure, **__: written.append(failure)
    )
    with pytest.raises(CallFailed, match=r"ended during the call: \[Errno 5\] Input/output error"):
        asyncio.run(_run_and_write({**argument(), "out": str(tmp_path)}, []))
    assert written == ["the emulator ended during the call: [Errno 5] Input/output error"], "what it carried"


def test_datagrams_that_an_sfu_was_too_slow_for_are_an_event() -> None:
    async def hear() -> dict[str, Any]:
        session = Session(argument(), [])
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
    with pytest.raises(CallFailed) as failed:
        session._failure.result()
    return failed.value.message


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

    async def watch() -> str:
        session = Session(argument(), [])
        session._emulator = cast(_native.Emulator, Clock(2))
        await session._watch()
        return reason_of(session)

    assert asyncio.run(watch()) == reason
