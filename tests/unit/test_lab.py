"""Results of a lab for its caller, with a stand-in for the lab: no namespaces are needed."""

from __future__ import annotations

import ctypes
import os
import signal
import threading
import time
from collections.abc import Iterator

import pytest

from rtclab.backend.live.lab import namespaces
from rtclab.backend.live.lab.namespaces import LabError, run_in_lab

ANSWER = """
import json, socket, sys
stream = socket.socket(fileno=int(sys.argv[1])).makefile("rw", encoding="utf-8")
argument = json.loads(stream.readline())["argument"]
for message in ({{"started": True}}, {{"event": {{"n": 1}}}}, {{"event": {{"n": 2}}}}, {last}):
    stream.write(json.dumps(message) + "\\n")
stream.flush()
"""
SLEEP_S = 600
"""Longer than Ctrl-C takes to end anything, even on a busy machine."""


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Lets a test define what the lab's process does, without new namespaces."""
    monkeypatch.setattr(namespaces, "UNSHARE", [])
    return monkeypatch


@pytest.fixture
def restarting_calls() -> Iterator[None]:
    """Makes system calls continue after SIGINT, as they do once polars has been used."""
    signal.siginterrupt(signal.SIGINT, False)
    yield
    signal.signal(signal.SIGINT, signal.default_int_handler)


def restarts_system_calls() -> bool:
    """Whether the kernel restarts system calls after SIGINT (SA_RESTART of ``struct sigaction``)."""
    action = (ctypes.c_ulong * 32)()
    assert ctypes.CDLL(None).sigaction(signal.SIGINT, None, action) == 0
    # glibc on 64 bits: a pointer, a mask of 1024 bits, then the flags as an int.
    return bool(action[17] & 0x10000000)


def test_a_lab_passes_on_events_and_its_result(lab: pytest.MonkeyPatch) -> None:
    lab.setattr(namespaces, "SERVE", ANSWER.format(last='{"result": {"long": argument["text"]}}'))
    events: list[dict[str, object]] = []
    text = "ä" * 200_000  # longer than any buffer
    assert run_in_lab("m:f", {"text": text}, on_event=events.append) == {"long": text}
    assert events == [{"n": 1}, {"n": 2}]


def test_a_lab_that_ends_without_a_result_is_an_error_with_its_status(lab: pytest.MonkeyPatch) -> None:
    lab.setattr(namespaces, "SERVE", ANSWER.format(last='{"event": {}}') + "sys.exit(3)")
    with pytest.raises(LabError, match="the lab ended with exit status 3 before `m:f` had returned"):
        run_in_lab("m:f", {})


@pytest.mark.usefixtures("restarting_calls")
def test_ctrl_c_ends_the_wait_for_a_lab_and_the_handler_of_sigint_is_unchanged(
    lab: pytest.MonkeyPatch,
) -> None:
    lab.setattr(namespaces, "SERVE", f"import time; time.sleep({SLEEP_S})")
    lab.setattr(namespaces, "STOP_TIMEOUT_S", 0.1)
    assert restarts_system_calls()
    pressed = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    begin_s = time.monotonic()
    pressed.start()
    with pytest.raises(KeyboardInterrupt):
        run_in_lab("m:f", {})
    assert 1 <= time.monotonic() - begin_s < SLEEP_S / 2
    assert restarts_system_calls()
