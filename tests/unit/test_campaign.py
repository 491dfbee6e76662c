"""Campaigns: what happens to a run when repeats fail, are interrupted, or are resumed."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from rtclab.campaign import Interrupted, run_scenario
from stub_backend import StubBackend

from rtclab.errors import BadInput, UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, Run

THREE = Scenario.load("first-call", {"repeats": 3, "duration": "2 s"})


def outcomes(run: Run) -> list[tuple[str, str]]:
    return [(repeat.status, repeat.reason) for repeat in Run(run.path).repeats]


def files(run: Run) -> list[str]:
    return sorted(path.relative_to(run.path).as_posix() for path in run.path.iterdir())


def test_every_repeat_leaves_a_trace_with_its_own_seed(tmp_path: Path) -> None:
    run = run_scenario(THREE, StubBackend(), out=tmp_path)
    assert outcomes(run) == [("finished", "")] * 3
    assert files(run) == ["repeat-0", "repeat-1", "repeat-2", "run.json"]
    assert [trace.manifest.seed for trace in run.traces] == [THREE.seed_of(i) for i in range(3)]
    assert Scenario.model_validate(run.scenario) == THREE


def test_threads_and_number_of_repeats_change_nothing_in_a_trace(tmp_path: Path) -> None:
    alone = run_scenario(THREE, StubBackend(), out=tmp_path, repeats=1)
    with ThreadPoolExecutor(2) as executor:
        together = run_scenario(THREE, StubBackend(), out=tmp_path, executor=executor)
    assert [repeat.repeat for repeat in together.repeats] == [0, 1, 2]
    for name in alone.traces[0].tables:
        first, second = (run.traces[0].path / f"{name}.parquet" for run in (alone, together))
        assert first.read_bytes() == second.read_bytes()
    assert alone.traces[0].manifest == together.traces[0].manifest


def test_a_failed_repeat_is_marked_with_its_reason_and_the_others_go_on(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.failing = {1}
    told: list[Repeat] = []
    run = run_scenario(THREE, backend, out=tmp_path, on_progress=told.append)
    reason = "alice: the page reported `no camera`\n  hint: plug one in"
    assert outcomes(run) == [("finished", ""), ("failed", reason), ("finished", "")]
    assert told == run.repeats
    assert [path.name for path in run.repeat_path(1).iterdir()] == ["browser.log"]


def test_an_unexpected_error_is_named_and_its_traceback_kept(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.crashing = {0}
    run = run_scenario(THREE, backend, out=tmp_path)
    assert outcomes(run)[0] == ("error", "ZeroDivisionError: division by zero")
    assert "ZeroDivisionError" in (run.repeat_path(0) / "traceback.txt").read_text()


def test_ctrl_c_keeps_finished_repeats_and_marks_the_rest_as_interrupted(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.interrupted_in = {1}
    with pytest.raises(Interrupted) as caught:
        run_scenario(THREE, backend, out=tmp_path)
    run = caught.value.run
    assert outcomes(run) == [("finished", ""), ("interrupted", ""), ("interrupted", "")]
    assert files(run) == ["repeat-0", "run.json"]


def test_ctrl_c_between_parallel_repeats_keeps_those_that_were_running(tmp_path: Path) -> None:
    def stop(outcome: Repeat) -> None:
        raise KeyboardInterrupt

    with ThreadPoolExecutor(1) as executor, pytest.raises(Interrupted) as caught:
        run_scenario(THREE, StubBackend(), out=tmp_path, executor=executor, on_progress=stop)
    statuses = [(repeat.repeat, repeat.status, repeat.reason) for repeat in caught.value.run.repeats]
    assert [repeat for repeat, _, _ in statuses] == [0, 1, 2]
    assert statuses[0][1] == "finished"
    assert {(status, reason) for _, status, reason in statuses} <= {
        ("finished", ""),
        ("interrupted", ""),
    }


def test_ctrl_c_that_reaches_the_repeats_themselves_marks_them_all(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.interrupted_in = {0, 1, 2}
    with ThreadPoolExecutor(2) as executor, pytest.raises(Interrupted) as caught:
        run_scenario(THREE, backend, out=tmp_path, executor=executor)
    assert outcomes(caught.value.run) == [("interrupted", "")] * 3
    assert files(caught.value.run) == ["run.json"]


def test_resuming_runs_only_unfinished_repeats(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.failing = {1}
    run = run_scenario(THREE, backend, out=tmp_path)
    kept = (run.repeat_path(0) / "manifest.json").stat().st_mtime_ns
    backend.failing, backend.ran = set(), []
    resumed = run_scenario(THREE, backend, resume=run)
    assert backend.ran == [(1, THREE.seed_of(1))]
    assert outcomes(resumed) == [("finished", "")] * 3
    assert (run.repeat_path(0) / "manifest.json").stat().st_mtime_ns == kept
    assert not (run.repeat_path(1) / "browser.log").exists()


def test_resuming_with_more_repeats_adds_to_the_run(tmp_path: Path) -> None:
    backend = StubBackend()
    run = run_scenario(THREE, backend, out=tmp_path)
    run_scenario(THREE, backend, resume=run, repeats=5)
    assert [repeat for repeat, _ in backend.ran] == [0, 1, 2, 3, 4]


def test_resuming_a_run_with_another_scenario_is_refused(tmp_path: Path) -> None:
    run = run_scenario(THREE, StubBackend(), out=tmp_path)
    other = Scenario.load("first-call", {"repeats": 3, "duration": "3 s", "seed": 2})
    with pytest.raises(BadInput, match="ran another scenario: duration, seed changed"):
        run_scenario(other, StubBackend(), resume=run)


def test_a_run_from_before_a_field_with_a_default_can_be_resumed(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.failing = {1}
    run = run_scenario(THREE, backend, out=tmp_path)
    about = json.loads((run.path / "run.json").read_text())
    del about["scenario"]["bottlenecks"], about["scenario"]["video"]["simulcast"]
    (run.path / "run.json").write_text(json.dumps(about))
    backend.failing = set()
    assert outcomes(run_scenario(THREE, backend, resume=Run(run.path))) == [("finished", "")] * 3


def test_a_scenario_that_the_backend_cannot_run_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedScenario, match="audio: the stub has no microphone"):
        run_scenario(Scenario.load("first-call", ["audio={}"]), StubBackend(), out=tmp_path)
    assert list(tmp_path.iterdir()) == []
