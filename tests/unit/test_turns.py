"""Live calls of a machine take taking_turns."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from stub_backend import StubBackend

from rtclab.backend import taking_turns
from rtclab.experiment import Experiment, Interrupted, resumed
from rtclab.scenario import Scenario

CALL = Scenario.load("first-call", {"repeats": 2, "duration": "2 s"})
TURN = (
    "import sys, time; from pathlib import Path; from rtclab.backend import taking_turns\n"
    "taking_turns.LOCK = Path(sys.argv[1])\n"
    "with taking_turns.turn(): print('mine', flush=True); time.sleep(60)"
)


def live() -> StubBackend:
    """A backend that runs one call at a time."""
    backend = StubBackend()
    backend.parallel = False
    return backend


def other_process(lock: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TURN, str(lock)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


@pytest.fixture
def holder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[subprocess.Popen[str]]:
    """Another process whose turn it is."""
    monkeypatch.setattr(taking_turns, "LOCK", tmp_path / "live-calls.lock")
    with other_process(taking_turns.LOCK) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "mine\n"
        yield process
        process.kill()


class Listening(io.StringIO):
    """Standard error that kills a process once it is said to be waited for."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        super().__init__()
        self.process = process

    def write(self, text: str) -> int:
        if f"waiting for process {self.process.pid} on " in text:
            self.process.kill()
        return super().write(text)


def test_a_live_run_waits_for_another_one_says_for_which_and_goes_on_when_it_was_killed(
    holder: subprocess.Popen[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", said := Listening(holder))
    run = Experiment([CALL], backend=live()).run(out=tmp_path / "runs")
    assert said.getvalue().count("waiting for ") == 1
    assert [repeat.status for repeat in run.repeats] == ["finished"] * 2
    assert not taking_turns.LOCK.exists()


def test_ctrl_c_ends_the_wait_for_another_live_run(holder: subprocess.Popen[str]) -> None:
    with other_process(taking_turns.LOCK) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith(f"waiting for process {holder.pid} on ")
        waiting.send_signal(signal.SIGINT)
        assert waiting.wait() == -signal.SIGINT
    assert taking_turns.LOCK.exists()  # the other one's turn goes on


@pytest.mark.usefixtures("holder")
def test_a_simulated_run_and_one_that_is_finished_wait_for_nobody(tmp_path: Path, stub: StubBackend) -> None:
    run = Experiment([CALL], backend=stub).run(out=tmp_path / "runs")
    assert [repeat.status for repeat in run.repeats] == ["finished"] * 2
    stub.parallel, stub.ran = False, []
    assert resumed(run.path).finished == 2
    assert stub.ran == []


@pytest.mark.usefixtures("holder")
def test_ctrl_c_while_waiting_marks_all_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("rtclab.trace.lock.time.sleep", press)
    with pytest.raises(Interrupted) as caught:
        Experiment([CALL], backend=live()).run(out=tmp_path / "runs")
    assert [repeat.status for repeat in caught.value.results.repeats] == ["interrupted"] * 2
