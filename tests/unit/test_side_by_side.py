"""Live tests side by side: whoever measures is alone, and nobody waits forever."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import side_by_side
from side_by_side import Turns

LONG_S = 30.0
"""What happens at all happens sooner, even on a busy machine."""
SHORT_S = 0.1


@pytest.fixture
def processes(tmp_path: Path) -> tuple[Turns, Turns]:
    """Two processes, as locks tell them apart: each has opened the files itself."""
    first, second = (Turns(tmp_path / "room", tmp_path / "door") for _ in range(2))
    return first, second


def begins(turns: Turns, alone: bool) -> tuple[threading.Event, threading.Thread]:
    """Starts a test in a thread, and tells when it is its turn."""
    began = threading.Event()

    def run() -> None:
        with turns.alone() if alone else turns.beside_others():
            began.set()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return began, thread


def test_two_live_tests_run_side_by_side(processes: tuple[Turns, Turns]) -> None:
    with processes[0].beside_others(), processes[1].beside_others():
        pass


@pytest.mark.parametrize("alone", [True, False])
def test_nobody_begins_while_somebody_measures(processes: tuple[Turns, Turns], alone: bool) -> None:
    with processes[0].alone():
        began, thread = begins(processes[1], alone)
        assert not began.wait(SHORT_S)
    assert began.wait(LONG_S)
    thread.join()


def test_a_test_that_measures_waits_for_others_and_shares_again_afterwards(
    processes: tuple[Turns, Turns],
) -> None:
    with processes[0].beside_others():
        began, thread = begins(processes[1], alone=True)
        assert not began.wait(SHORT_S)
        with processes[0].alone():
            pass  # whichever of the two is first
    assert began.wait(LONG_S)
    thread.join()
    with processes[0].beside_others():
        with processes[0].alone():
            pass
        began, thread = begins(processes[1], alone=True)
        assert not began.wait(SHORT_S)
    thread.join()


def test_threads_of_one_process_measure_together(processes: tuple[Turns, Turns]) -> None:
    with processes[0].alone():
        began, thread = begins(processes[0], alone=True)
        assert began.wait(LONG_S)
        thread.join()
        began, thread = begins(processes[1], alone=False)
        assert not began.wait(SHORT_S)
    thread.join()


def test_compilers_stand_still_only_while_somebody_wants_silence(
    processes: tuple[Turns, Turns], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_by_side, "SILENCE", tmp_path / "silence")
    with processes[0].alone():
        assert not side_by_side.is_silence_wanted()
    with processes[0].in_silence():
        assert side_by_side.is_silence_wanted()
    assert not side_by_side.is_silence_wanted()
