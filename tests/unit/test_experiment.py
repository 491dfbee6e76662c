"""Experiments: what happens when repeats fail, are interrupted or resumed, on a backend without network."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from stub_backend import StubBackend
from synthetic_run import call_tables, write_run

import rtclab
from rtclab.errors import BadInput, CallFailed, LaboratoryFailed, TraceError, UnsupportedScenario
from rtclab.experiment import Experiment, Interrupted, Results, resumed, runner
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.trace import Repeat, RunManifest, Trace, only_writer

THREE = Scenario.load("first-call", {"repeats": 3, "duration": "2 s"})
NO_CAMERA = "alice: the page reported `no camera`\n  hint: plug one in"


def ran(backend: StubBackend, out: Path, *scenarios: Scenario, jobs: int | None = 1, **about: Any) -> Results:
    return Experiment(scenarios or [THREE], backend=backend, **about).run(out=out, jobs=jobs)


def outcomes(results: Results) -> list[tuple[str, str]]:
    return Results(results.path).outcomes().select("status", "reason").rows()


def files(results: Results) -> list[str]:
    return sorted(path.name for path in results.path.iterdir())


def test_every_repeat_leaves_a_trace_with_its_own_seed(tmp_path: Path) -> None:
    results = ran(StubBackend(), tmp_path)
    assert outcomes(results) == [("finished", "")] * 3
    assert files(results) == ["repeat-0", "repeat-1", "repeat-2", "results.sqlite", "watch.jsonl"]
    assert [trace.manifest.seed for trace in results.traces] == [THREE.seed_of(i) for i in range(3)]
    assert Scenario.model_validate(results.scenario) == THREE
    assert (results.name, results.conditions, results.planned) == ("first-call-stub-1", ["first-call"], 3)


def test_threads_and_number_of_repeats_change_nothing_in_a_trace(tmp_path: Path) -> None:
    alone = ran(StubBackend(), tmp_path, repeats=1)
    together = ran(StubBackend(), tmp_path, jobs=2)
    assert [repeat.repeat for repeat in together.repeats] == [0, 1, 2]
    for name in alone.traces[0].tables:
        first, second = (one.traces[0].path / f"{name}.parquet" for one in (alone, together))
        assert first.read_bytes() == second.read_bytes()
    assert alone.traces[0].manifest == together.traces[0].manifest


def test_a_failed_repeat_is_kept_with_its_reason_and_logs_and_the_others_go_on(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.failing = {1}
    results = ran(backend, tmp_path)
    assert outcomes(results) == [("finished", ""), ("failed", NO_CAMERA), ("finished", "")]
    assert [path.name for path in results.repeat_path(1).iterdir()] == ["browser.log"]
    assert results.failures().rows() == [("first-call", 1, "failed", NO_CAMERA)]
    failures = results.metrics(metrics=["call_failures"])
    assert failures.select("repeat", "value").rows() == [(0, 0.0), (1, 100.0), (2, 0.0)]


def test_failures_are_raised_with_their_number_and_the_first_reason(tmp_path: Path) -> None:
    backend = StubBackend()
    assert ran(backend, tmp_path).raise_for_failures().finished == 3
    backend.failing = {1, 2}
    expected = "2 of 3 repeats of first-call-stub-2 failed; repeat 1: alice: the page reported `no camera`"
    with pytest.raises(CallFailed, match=re.escape(expected)):
        ran(backend, tmp_path).raise_for_failures()
    backend.crashing = {0}
    with pytest.raises(LaboratoryFailed, match=r"3 of 3 .*; repeat 0: ZeroDivisionError: division by zero"):
        ran(backend, tmp_path).raise_for_failures()
    other = THREE.model_copy(update={"name": "other"})
    backend.crashing, backend.failing = set(), {0}
    with pytest.raises(CallFailed, match=r"2 of 6 .*; first-call, repeat 0: alice"):
        ran(backend, tmp_path, THREE, other).raise_for_failures()


def test_a_scan_has_a_table_of_all_finished_repeats_and_conditions(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.failing = {1}
    results = ran(backend, tmp_path, THREE, THREE.model_copy(update={"name": "other"}))
    scanned = results.scan("flow_seconds")
    assert isinstance(scanned, pl.LazyFrame)
    rows = scanned.collect()
    keys = rows.select("condition", "repeat").unique(maintain_order=True).rows()
    assert keys == [(name, repeat) for name in ("first-call", "other") for repeat in (0, 2)]
    assert rows.filter(condition="other").drop("condition").equals(results["other"].table("flow_seconds"))
    with pytest.raises(TraceError, match="no table `frame`"):
        results.scan("frame")
    with pytest.raises(TraceError, match="repeat-0: table `packets` was not recorded"):
        results.scan("packets")


def test_results_without_traces_cannot_be_scanned(tmp_path: Path) -> None:
    made = Experiment([THREE], repeats=1, traces=False).run(out=tmp_path, progress=False)
    with pytest.raises(BadInput, match="kept no traces"):
        made.scan("packets")


def test_an_unexpected_error_is_named_with_its_traceback_and_says_nothing_about_the_call(
    tmp_path: Path,
) -> None:
    backend = StubBackend()
    backend.crashing = {0}
    results = ran(backend, tmp_path)
    assert outcomes(results)[0] == ("error", "ZeroDivisionError: division by zero")
    assert "ZeroDivisionError" in (results.repeat_path(0) / "traceback.txt").read_text()
    assert results.metrics()["repeat"].unique().to_list() == [1, 2]
    assert (results.finished, results.unfinished) == (2, 1)


def test_a_share_of_failed_calls_is_not_measured_in_a_part_of_the_time(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.failing = {1}
    results = ran(backend, tmp_path, begin="1 s")
    assert "call_failures" not in results.metrics()["metric"]
    assert results.metrics()["repeat"].unique().to_list() == [0, 2]
    assert results.failures().height == 1


def test_a_metric_that_cannot_be_measured_leaves_the_trace_and_is_measured_once_it_can(
    tmp_path: Path, stub: StubBackend
) -> None:
    working = False

    @rtclab.metrics.metric(unit="s", source="this test", scope="trace")
    def of_this_test(trace: Trace) -> float:
        """Fails at first."""
        if not working:
            raise ZeroDivisionError("too early")
        return 7.0

    try:
        results = ran(stub, tmp_path, repeats=1)
        assert results.repeats[0].status == "finished"
        assert results.repeats[0].note == "not measured: ZeroDivisionError: too early"
        working = True
        again = Results(results.path)
        assert again.metrics(metrics=["of_this_test"])["value"].to_list() == [7.0]
        assert again.metrics(metrics=["sending_rate"])["value"].to_list() == [800.0, 800.0]
        assert Results(results.path).repeats[0].note == ""
    finally:
        del METRICS["of_this_test"]


def test_ctrl_c_keeps_finished_repeats_and_marks_the_rest_as_interrupted(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.interrupted_in = {1}
    with pytest.raises(Interrupted) as caught:
        ran(backend, tmp_path)
    results = caught.value.results
    assert outcomes(results) == [("finished", ""), ("interrupted", ""), ("interrupted", "")]
    assert files(results) == ["repeat-0", "results.sqlite", "watch.jsonl"]
    assert results._store.events()[-1][1] == "interrupted, 2 repeats left"


def test_ctrl_c_that_reaches_the_repeats_themselves_marks_them_all(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.interrupted_in = {0, 1, 2}
    with pytest.raises(Interrupted) as caught:
        ran(backend, tmp_path, jobs=2)
    assert outcomes(caught.value.results) == [("interrupted", "")] * 3
    assert files(caught.value.results) == ["results.sqlite", "watch.jsonl"]


def test_ctrl_c_keeps_the_repeats_that_were_running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = threading.Barrier(3)
    keep = runner._Keeper.keep

    class Slow(StubBackend):
        def run(self, scenario: Scenario, **how: Any) -> Trace:
            if how["repeat"] > 0:
                running.wait(10)
            return super().run(scenario, **how)

    def stop(keeper: Any, results: Any) -> None:
        keep(keeper, results)
        if results[0].outcome.repeat == 0:
            running.wait(10)  # both others are running
            raise KeyboardInterrupt

    monkeypatch.setattr(runner._Keeper, "keep", stop)
    with pytest.raises(Interrupted) as caught:
        ran(Slow(), tmp_path, jobs=3, repeats=3)
    assert outcomes(caught.value.results) == [("finished", "")] * 3


def test_ctrl_c_while_a_result_is_kept_does_not_take_it_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(store: Any, *results: Any, **key: Any) -> None:
        add(store, *results, **key)
        monkeypatch.undo()
        raise KeyboardInterrupt

    add = runner.Store.add
    monkeypatch.setattr(runner.Store, "add", stop)
    with pytest.raises(Interrupted) as caught:
        ran(StubBackend(), tmp_path)
    assert [status for status, _ in outcomes(caught.value.results)] == ["finished", *["interrupted"] * 2]
    assert caught.value.results.metrics(metrics=["sending_rate"]).height == 2


def test_ctrl_c_takes_no_earlier_outcome_away(tmp_path: Path, stub: StubBackend) -> None:
    stub.failing = {0}
    stub.crashing = {1}
    results = ran(stub, tmp_path)
    before = outcomes(results)
    stub.failing, stub.crashing, stub.interrupted_in = set(), set(), {0}
    with pytest.raises(Interrupted):
        resumed(results.path, repeats=4, jobs=1)
    assert outcomes(results) == [*before, ("interrupted", "")]
    assert (results.repeat_path(0) / "browser.log").read_text() == "no camera"


def test_resuming_runs_only_unfinished_repeats(tmp_path: Path, stub: StubBackend) -> None:
    stub.failing = {1}
    results = ran(stub, tmp_path)
    kept = (results.repeat_path(0) / "manifest.json").stat().st_mtime_ns
    stub.failing, stub.ran = set(), []
    assert outcomes(resumed(results.path)) == [("finished", "")] * 3
    assert stub.ran == [(1, THREE.seed_of(1))]
    assert (results.repeat_path(0) / "manifest.json").stat().st_mtime_ns == kept
    assert not (results.repeat_path(1) / "browser.log").exists()


def test_resuming_with_more_repeats_adds_them_and_with_fewer_is_refused(
    tmp_path: Path, stub: StubBackend
) -> None:
    results = ran(stub, tmp_path)
    assert resumed(results.path, repeats=5, jobs=1).planned == 5
    assert [repeat for repeat, _ in stub.ran] == [0, 1, 2, 3, 4]
    with pytest.raises(BadInput, match=r"^repeats: first-call-stub-1 has 5; got 4\n  hint: repeats can be"):
        resumed(results.path, repeats=4)


def test_resuming_includes_repeats_that_another_process_has_finished_since(
    tmp_path: Path, stub: StubBackend
) -> None:
    seen_before = ran(stub, tmp_path, repeats=1)
    resumed(seen_before.path, repeats=2)
    stub.ran = []
    assert resumed(seen_before.path, repeats=3).finished == 3
    assert [repeat for repeat, _ in stub.ran] == [2]
    assert (seen_before.finished, seen_before.outcomes().height) == (3, 3)


def test_another_backend_cannot_resume(tmp_path: Path, stub: StubBackend) -> None:
    results = ran(stub, tmp_path)
    with pytest.raises(BadInput, match="first-call-stub-1 was made by backend stub, not sim"):
        resumed(results.path, backend="sim")


def test_the_error_of_a_second_writer_names_the_first(tmp_path: Path, stub: StubBackend) -> None:
    results = ran(stub, tmp_path)
    with only_writer(results.path), pytest.raises(BadInput, match=r": process \d+ on \S+ is writing here"):
        resumed(results.path)
    resumed(results.path)
    assert not (results.path / ".lock").exists()


def test_a_killed_repeat_leaves_nothing_in_the_way(tmp_path: Path, stub: StubBackend) -> None:
    results = ran(stub, tmp_path, repeats=1)
    unfinished = results.path / ".repeat-1"
    unfinished.mkdir()
    (unfinished / "browser.log").write_text("half a line")
    # This one has finished, but was killed before its outcome was kept.
    Trace.write(results.repeat_path(2), {}, results.traces[0].manifest)
    assert resumed(results.path, repeats=3).finished == 3
    assert not unfinished.exists()
    assert [trace.table("flow_seconds").height for trace in resumed(results.path).traces] == [4, 4, 4]


def test_a_scenario_that_the_backend_cannot_run_leaves_no_directory(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedScenario, match="audio: the stub has no microphone"):
        ran(StubBackend(), tmp_path, Scenario.load("first-call", ["audio={}"]))
    named = {"a": THREE, "b": Scenario.load("first-call", ["audio={}"])}
    with pytest.raises(BadInput, match=r"^b: audio: the stub has no microphone"):
        Experiment(named, backend=StubBackend())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({"order": "sorted"}, "order: got `sorted`; expected plain, shuffled, paired"),
        ({"tries": 0}, "tries: got 0; expected at least 1"),
        ({"jobs": -1}, "jobs: got -1; expected at least 1"),
    ],
)
def test_impossible_arguments_are_refused_before_anything_starts(
    tmp_path: Path, how: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(message)}$"):
        Experiment([THREE], backend=StubBackend()).run(out=tmp_path, **how)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("order", "first"),
    [("plain", [("a", 0), ("a", 1)]), ("paired", [("a", 0), ("b", 0)]), ("shuffled", None)],
)
def test_repeats_run_in_the_order_that_was_asked_for(
    tmp_path: Path, order: Any, first: list[tuple[str, int]] | None
) -> None:
    seen: list[tuple[str, int]] = []

    class Noting(StubBackend):
        def run(self, scenario: Scenario, **how: Any) -> Trace:
            seen.append(("a" if scenario.seed == 1 else "b", how["repeat"]))
            return super().run(scenario, **how)

    both = {"a": THREE, "b": Scenario.load("first-call", {"duration": "2 s", "seed": 2})}
    results = Experiment(both, backend=Noting(), repeats=4).run(out=tmp_path, jobs=1, order=order)
    plain = [(label, repeat) for label in "ab" for repeat in range(4)]
    assert sorted(seen) == plain
    assert seen[:2] == first if first else seen != plain
    assert results.outcomes().select("condition", "repeat").rows() == plain


def live(disturbed: set[int], monkeypatch: pytest.MonkeyPatch) -> StubBackend:
    """A backend that runs one call at a time, whose tries with these numbers are disturbed."""
    backend = StubBackend()
    backend.parallel = False
    monkeypatch.setattr(
        runner, "disturbances", lambda trace: ["the clock was set"] if len(backend.ran) in disturbed else []
    )
    return backend


def test_a_disturbed_repeat_is_tried_again_and_says_so_if_all_tries_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = live({1, 3, 4}, monkeypatch)
    results = Experiment([THREE], backend=backend, repeats=2).run(out=tmp_path, tries=2)
    assert [repeat for repeat, _ in backend.ran] == [0, 0, 1, 1]
    assert results.outcomes().select("attempt", "disturbed").rows() == [(2, ""), (2, "the clock was set")]
    said = [what for _, what in results._store.events()]
    assert [what for what in said if "disturbed" in what] == [
        f"first-call, repeat {repeat}: disturbed, tried again: the clock was set" for repeat in (0, 1)
    ]


def test_conditions_have_their_own_values_traces_and_outcomes(tmp_path: Path) -> None:
    backend = StubBackend()
    backend.failing = {1}
    both = {"a": THREE, "b": Scenario.load("first-call", {"duration": "3 s"})}
    results = Experiment(both, backend=backend, name="two").run(out=tmp_path, jobs=2)
    assert (results.name, results.conditions, results.finished, results.planned) == (
        "two-1",
        ["a", "b"],
        4,
        6,
    )
    assert [trace.manifest.duration_ns for trace in results.traces] == [2 * 10**9] * 2 + [3 * 10**9] * 2
    b = results["b"]
    assert (b.finished, b.planned, b.unfinished) == (2, 3, 0)
    assert b.outcomes()["condition"].to_list() == ["b"] * 3
    assert b.between(begin="2 s").metrics(metrics=["sending_rate"])["value"].to_list() == [800.0] * 4
    late = results.between(begin="2 s")
    assert late.metrics()["condition"].unique().to_list() == ["b"]
    assert late.without_value([], late.summary()) == [
        "nothing was measured of a: nothing is left from 2 s on"
    ]
    with pytest.raises(BadInput, match=r"nothing to measure from 3 s on: the run ends at 3 s"):
        results.between(begin="3 s")
    with pytest.raises(BadInput, match=r"^two-1 has 2 conditions; expected one"):
        _ = results.run
    with pytest.raises(BadInput, match=r"^no condition `c` in two-1"):
        _ = results["c"]


# --- runs from before there were stores --------------------------------------------------------------


def old_run(out: Path) -> Path:
    """A run with two of three repeats, as it was kept in ``run.json``."""
    made = write_run(out, [call_tables(seed, duration_s=10) for seed in range(2)], failed={1: "no camera"})
    about = RunManifest(
        backend="sim",
        scenario={**made.scenario, "repeats": 3},
        repeats=tuple(made.repeats),
        versions={"rtclab": "0.1.0"},
    )
    (made.path / "results.sqlite").unlink()
    (made.path / "run.json").write_text(json.dumps(about.as_json()))
    return made.path


def test_a_run_from_before_there_were_stores_is_taken_over_and_measured(tmp_path: Path) -> None:
    results = Results(old_run(tmp_path))
    assert outcomes(results) == [("finished", ""), ("failed", "no camera")]
    assert (results.planned, results.unfinished) == (3, 1)
    assert results.outcomes()["older"].to_list() == [True, True]
    rates = results.metrics(metrics=["sending_rate"])
    assert rates.select("repeat", "flow").rows() == [(0, "alice->bob"), (0, "bob->alice")]
    assert results.metrics(metrics=["call_failures"])["value"].to_list() == [0.0, 100.0]
    assert (results.path / "run.json").is_file()


def test_a_kill_while_a_run_is_taken_over_loses_no_outcome(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = old_run(tmp_path)

    def killed(*arguments: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("rtclab.experiment.store._insert", killed)
        with pytest.raises(KeyboardInterrupt):
            Results(path)
    assert outcomes(Results(path)) == [("finished", ""), ("failed", "no camera")]


def test_looking_at_an_old_run_does_not_make_it_the_latest(tmp_path: Path) -> None:
    path = old_run(tmp_path)
    newer = ran(StubBackend(), tmp_path)
    Results(path).metrics()
    assert rtclab.open("latest", out=tmp_path).name == newer.name


def test_a_run_from_before_a_field_with_a_default_can_be_resumed(tmp_path: Path) -> None:
    path = ran(StubBackend(), tmp_path).path
    with sqlite3.connect(path / "results.sqlite") as database:
        ((text,),) = database.execute("SELECT value FROM about WHERE key = 'conditions'")
        known = json.loads(text)
        del known["scenarios"]["first-call"]["bottlenecks"]
        del known["scenarios"]["first-call"]["video"]["simulcast"]
        database.execute("UPDATE about SET value = ? WHERE key = 'conditions'", [json.dumps(known)])
    assert Results(path)._store.conditions.scenario(0) == THREE


@pytest.mark.parametrize(
    "spoil", [lambda known: known.clear(), lambda known: known.update(repeats=[{"repeat": 0}])]
)
def test_an_old_run_that_cannot_be_read_is_reported_with_its_file(
    tmp_path: Path, spoil: Callable[[dict[str, Any]], object]
) -> None:
    path = old_run(tmp_path)
    known = json.loads((path / "run.json").read_text())
    spoil(known)
    (path / "run.json").write_text(json.dumps(known))
    with pytest.raises(BadInput, match=re.escape(f"{path}/run.json: ")):
        Results(path)
    assert sorted(file.name for file in path.iterdir()) == ["repeat-0", "run.json"]


def test_a_repeat_has_a_row_with_its_outcome_in_order(tmp_path: Path) -> None:
    results = ran(StubBackend(), tmp_path, jobs=3)
    assert results.repeats == [Repeat(number, THREE.seed_of(number), "finished") for number in range(3)]
    rows = results.outcomes()
    assert rows["seed"].to_list() == [THREE.seed_of(number) for number in range(3)]
    assert rows.filter(pl.col("older")).is_empty()
