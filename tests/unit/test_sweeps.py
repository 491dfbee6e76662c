"""Sweeps: their results, and what remains after Ctrl-C, a kill or a full disk."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import stub_backend
from polars.testing import assert_frame_equal
from stub_backend import StubBackend

import rtclab
from rtclab import backend as backends
from rtclab.backend import sim_batch
from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput, DiskFull
from rtclab.metrics import METRICS, metric
from rtclab.metrics.statistics import summarise
from rtclab.scenario import Scenario
from rtclab.sweeps import Grid, Interrupted, OtherVersion, SweepStopped, open_sweep, sweep
from rtclab.sweeps.store import Store
from rtclab.sweeps.worker import payload_of, run_task
from rtclab.trace import Trace

VARY = {"link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"], "link.up.loss": "0..5 % x3"}
WHAT: dict[str, Any] = {"scenario": "first-call", "vary": VARY, "repeats": 6, "duration": "5 s"}
TASKS = 12
"""36 repeats, three to a task."""

Task = Callable[[bytes, int], bytes]


class Here(Executor):
    """Runs each task when it is submitted or, if ``backwards``, all in reverse once the last is submitted."""

    def __init__(self, *, backwards: bool = False, before: Callable[[int], None] = lambda task: None) -> None:
        self.backwards = backwards
        self.before = before
        self.submitted: list[tuple[Future[bytes], Task, bytes, int]] = []

    def submit(self, run: Task, payload: bytes, task: int) -> Future[bytes]:  # type: ignore[override]
        future: Future[bytes] = Future()
        self.submitted.append((future, run, payload, task))
        if not self.backwards:
            self._run(*self.submitted[-1])
        elif len(self.submitted) == TASKS:
            for one in reversed(self.submitted):
                self._run(*one)
        return future

    def _run(self, future: Future[bytes], run: Task, payload: bytes, task: int) -> None:
        self.before(task)
        try:
            future.set_result(run(payload, task))
        except Exception as error:
            future.set_exception(error)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Grid:
    """A sweep that ran without interruption."""
    return sweep(**WHAT, jobs=1, out=tmp_path_factory.mktemp("whole"))


def test_the_table_has_a_row_for_every_repeat_metric_and_flow(whole: Grid) -> None:
    table = whole.metrics()
    assert table.columns == [
        "point",
        "link.up.capacity",
        "link.up.loss",
        "link.up.capacity_bps",
        "link.up.loss_percent",
        "repeat",
        "metric",
        "unit",
        "flow",
        "value",
        "failure",
    ]
    rates = table.filter(metric="receiving_rate")
    assert rates.height == 2 * 3 * 6 * 2  # capacities, losses, repeats, flows
    assert rates["unit"].unique().to_list() == ["kbit/s"]
    assert table.filter(metric="fairness")["flow"].unique().to_list() == [""]
    # Texts sort in the given order, not alphabetically; numbers are in base units.
    losses = table.select("link.up.loss", "link.up.loss_percent").unique().sort("link.up.loss")
    assert losses.rows() == [("0 %", 0.0), ("2.5 %", 2.5), ("5 %", 5.0)]
    assert table["link.up.capacity_bps"].unique().sort().to_list() == [5e5, 1e6]


def test_a_point_has_the_same_values_as_the_same_run(whole: Grid, tmp_path: Path) -> None:
    changes = {"link.up.capacity": "1 Mbit/s", "link.up.loss": "2.5 %"}
    run = rtclab.run("first-call", duration="5 s", repeats=6, changes=changes, out=tmp_path, progress=False)
    columns = ["metric", "flow", "repeat", "value"]
    # Metrics of all repeats together have no value per repeat, and sweeps record no packets.
    of_packets = ("inter_arrival_time", "inter_arrival_p95", "fec_share")
    measured = run.metrics().filter(~pl.col("metric").is_in(of_packets))
    expected = measured.select(columns).drop_nulls()
    point = whole.metrics().filter(
        pl.col("link.up.capacity") == "1 Mbit/s", pl.col("link.up.loss") == "2.5 %"
    )
    found = point.filter(pl.col("metric") != "call_failures").select(columns)
    assert_frame_equal(found.sort(columns), expected.sort(columns), check_exact=True, check_dtypes=False)


def test_a_custom_metric_reads_no_rows_of_other_repeats(tmp_path: Path) -> None:
    @metric(unit="packets", source="this test", scope="trace")
    def all_packets(trace: Trace, window: object) -> float:
        """Number of packets sent by all flows."""
        assert trace.flows == ["alice->bob", "bob->alice"]
        return float(trace.table("flow_seconds")["sent_packets"].sum())

    try:
        grid = sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, repeats=2, duration="3 s", out=tmp_path)
    finally:
        del METRICS["all_packets"]
    counted = grid.metrics().filter(metric="all_packets")
    for row in counted.iter_rows(named=True):
        scenario = Scenario.load("first-call", {"duration": "3 s", "link.up.loss": row["link.up.loss"]})
        seed = scenario.seed_of(row["repeat"])
        trace = SimBackend().simulate(scenario, seed=seed, repeat=row["repeat"])
        assert row["value"] == trace.table("flow_seconds")["sent_packets"].sum()
    assert counted.height == 4


def test_all_points_have_the_same_seeds(tmp_path: Path) -> None:
    # The queue never gets that long, so the two points behave the same.
    vary = {"link.up.queue": ["10 s", "11 s"]}
    grid = sweep("first-call", vary, repeats=3, duration="3 s", jobs=1, out=tmp_path)
    sent = grid.metrics().filter(metric="sending_rate", flow="alice->bob")
    first, second = (sent.filter(point=point)["value"].to_list() for point in (0, 1))
    assert first == second
    assert len(set(first)) == 3


def test_the_table_does_not_depend_on_the_executor_or_the_order_of_tasks(whole: Grid, tmp_path: Path) -> None:
    with ThreadPoolExecutor(2) as threads:
        for executor in (Here(), Here(backwards=True), threads):
            grid = sweep(**WHAT, executor=executor, out=tmp_path)
            assert grid.path.joinpath("metrics.parquet").read_bytes() == _bytes(whole)
    assert _bytes(sweep(**WHAT, jobs=2, out=tmp_path)) == _bytes(whole)


def _bytes(grid: Grid) -> bytes:
    return grid.path.joinpath("metrics.parquet").read_bytes()


def test_the_summary_has_the_same_statistics_as_the_summary_of_a_run(whole: Grid) -> None:
    table, summary = whole.metrics(), whole.summary()
    keys = ["point", "metric", "flow"]
    assert summary.select(keys).n_unique() == summary.height
    for row in summary.filter(pl.col("point") == 5).iter_rows(named=True):
        values = table.filter(**{key: row[key] for key in keys})["value"].to_list()
        expected = summarise(values, METRICS[row["metric"]].bounds)
        found = [row[name] for name in ("mean", "sd", "ci95_low", "ci95_high")]
        known = [expected.mean, expected.sd, expected.ci95_low, expected.ci95_high]
        assert row["repeats"] == 6
        assert found == pytest.approx([None if value != value else value for value in known], nan_ok=True)


def test_a_sweep_leaves_two_files_and_can_be_opened_by_name(whole: Grid) -> None:
    assert sorted(file.name for file in whole.path.iterdir()) == ["metrics.parquet", "sweep.json"]
    opened = open_sweep(whole.name, out=whole.path.parent)
    assert opened.progress() == (36, 36)
    assert opened.fields == list(VARY)
    assert_frame_equal(opened.metrics(), whole.metrics())


def test_sweeps_are_numbered_from_1(tmp_path: Path) -> None:
    what = WHAT | {"vary": {"link.up.loss": ["1 %"]}, "repeats": 1}
    assert [sweep(**what, jobs=1, out=tmp_path).name for _ in range(2)] == [
        "first-call-sweep-1",
        "first-call-sweep-2",
    ]


def test_a_failed_repeat_has_one_row_with_its_reason(tmp_path: Path) -> None:
    vary = {"link.up.loss": ["0 %", "100 %"]}
    grid = sweep("first-call", vary, repeats=2, duration="5 s", jobs=1, out=tmp_path)
    reason = "alice and bob did not connect within 5 s; last event: alice's is `joined` and bob's is `joined`"
    assert grid.failures().rows() == [(1, "100 %", 0, reason), (1, "100 %", 1, reason)]
    failed = grid.metrics().filter(pl.col("link.up.loss") == "100 %")
    assert failed.select("repeat", "metric", "value").rows() == [
        (0, "call_failures", 100.0),
        (1, "call_failures", 100.0),
    ]
    rates = grid.summary().filter(metric="call_failures").select("link.up.loss", "mean").rows()
    assert rates == [("0 %", 0.0), ("100 %", 100.0)]


def test_an_error_in_the_simulator_fails_only_its_repeat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulate, configs = sim_batch._native.simulate, []

    def sometimes(config: str) -> Any:
        if '"record"' in config and '"duration_ns": 0' not in config:
            configs.append(config)
        if len(configs) == 2 and config == configs[-1]:
            raise ValueError("goog-cc of alice: no target at 1 s")
        return simulate(config)

    what = {"scenario": "first-call", "vary": {"link.up.loss": ["0 %"]}, "repeats": 3, "duration": "3 s"}
    expected = sweep(**what, jobs=1, out=tmp_path).metrics()
    monkeypatch.setattr(sim_batch._native, "simulate", sometimes)
    grid = sweep(**what, jobs=1, out=tmp_path)
    reason = "ValueError: goog-cc of alice: no target at 1 s"
    assert grid.failures().rows() == [(0, "0 %", 1, reason)]
    assert_frame_equal(grid.metrics().filter(pl.col("repeat") != 1), expected.filter(pl.col("repeat") != 1))


def test_ctrl_c_keeps_finished_tasks_and_resume_runs_the_others(whole: Grid, tmp_path: Path) -> None:
    def stop(task: int) -> None:
        if task == 5:
            raise KeyboardInterrupt

    with pytest.raises(Interrupted) as stopped:
        sweep(**WHAT, executor=Here(before=stop), out=tmp_path)
    grid = stopped.value.grid
    assert grid.progress() == (15, 36)
    assert_frame_equal(grid.metrics(), whole.metrics().filter(_number() < 15))
    resumed = Here()
    assert sweep(resume=grid.path, executor=resumed).progress() == (36, 36)
    assert [task for *_, task in resumed.submitted] == list(range(5, 12))
    assert _bytes(grid) == _bytes(whole)
    # Nothing is left to do.
    sweep(resume=grid.path, executor=(idle := Here()))
    assert idle.submitted == []


def _number() -> pl.Expr:
    """Number of a repeat in its sweep."""
    return pl.col("point") * 6 + pl.col("repeat")


SCRIPT = """
import sys, rtclab.sweeps
rtclab.sweeps.sweep("first-call", {vary!r}, repeats=60, duration="30 s", jobs=1, out=sys.argv[1])
"""


def test_a_killed_sweep_has_the_same_table_after_resuming(tmp_path: Path) -> None:
    vary = {"link.up.loss": ["0 %", "2 %"]}
    process = subprocess.Popen([sys.executable, "-c", SCRIPT.format(vary=vary), str(tmp_path / "killed")])
    while not len(list(tmp_path.glob("killed/*/parts/0*.parquet"))) > 1:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = open_sweep("first-call-sweep-1", out=tmp_path / "killed")
    done, size = killed.progress()
    assert 0 < done < size
    resumed = sweep(resume=killed.path)
    expected = sweep("first-call", vary, repeats=60, duration="30 s", out=tmp_path / "whole")
    assert _bytes(resumed) == _bytes(expected)
    assert sorted(file.name for file in resumed.path.glob("[!.]*")) == ["metrics.parquet", "sweep.json"]


def test_a_full_disk_stops_a_sweep_and_finished_tasks_are_kept(whole: Grid, tmp_path: Path) -> None:
    parts = tmp_path / "first-call-sweep-1" / "parts"

    def fill(task: int) -> None:
        if task == 7:
            parts.mkdir()
            # Every write to this file fails with ENOSPC.
            (parts / f".000007.parquet-{os.getpid()}").symlink_to("/dev/full")

    with pytest.raises(DiskFull, match=r"000007.*no space left on the disk"):
        sweep(**WHAT, executor=Here(before=fill), out=tmp_path)
    grid = Grid(parts.parent)
    assert grid.progress() == (21, 36)
    sweep(resume=grid.path, jobs=1)
    assert _bytes(grid) == _bytes(whole)


def test_parts_are_kept_if_the_disk_is_full_when_the_table_is_written(whole: Grid, tmp_path: Path) -> None:
    def fill(task: int) -> None:
        if task == TASKS - 1:
            name = f".metrics.parquet-{os.getpid()}"
            (tmp_path / "first-call-sweep-1" / name).symlink_to("/dev/full")

    with pytest.raises(DiskFull, match=r"metrics\.parquet: no space left on the disk"):
        sweep(**WHAT, executor=Here(before=fill), out=tmp_path)
    grid = open_sweep("first-call-sweep-1", out=tmp_path)
    assert_frame_equal(grid.metrics(), whole.metrics())
    sweep(resume=grid.path, executor=(idle := Here()))
    assert (_bytes(grid), idle.submitted) == (_bytes(whole), [])


class LosesAWorker(ProcessPoolExecutor):
    """Kills one of its processes when the tenth task is submitted."""

    def submit(self, run: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        if arguments[1:] == (9,):
            os.kill(super().submit(os.getpid).result(), signal.SIGKILL)
        return super().submit(run, *arguments, **more)


def test_a_dead_worker_stops_the_sweep_and_resume_runs_the_other_tasks(whole: Grid, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with (
        LosesAWorker(1, mp_context=context) as pool,
        pytest.raises(
            SweepStopped, match="a worker died: it was killed or ran out of memory\n9 of 12 tasks"
        ) as stopped,
    ):
        sweep(**WHAT, executor=pool, out=tmp_path)
    grid = Grid(tmp_path / "first-call-sweep-1")
    assert f"rtclab sweep --resume {grid.path}" in str(stopped.value)
    sweep(resume=grid.path, jobs=1)
    assert _bytes(grid) == _bytes(whole)


def test_a_worker_with_another_version_refuses_and_names_both_versions(whole: Grid, tmp_path: Path) -> None:
    payload = json.loads(payload_of(Store(whole.path).plan, list(METRICS)))
    payload["versions"] |= {"rtclab": "0.0.9", "code": "0123456789ab"}
    with pytest.raises(
        OtherVersion,
        match=rf"runs rtclab {re.escape(rtclab.__version__)} \(.*\); "
        r"the caller runs rtclab 0\.0\.9 \(schema \d+, build 0123456789ab\)",
    ):
        run_task(json.dumps(payload).encode(), 0)


def test_a_worker_without_a_metric_of_the_caller_refuses(whole: Grid) -> None:
    payload = json.loads(payload_of(Store(whole.path).plan, list(METRICS)))
    payload["metrics"].append("smiles")
    with pytest.raises(OtherVersion, match="has no metric `smiles`, which the caller has"):
        run_task(json.dumps(payload).encode(), 0)


def test_a_sweep_of_another_build_cannot_be_resumed(whole: Grid, tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    about = json.loads((whole.path / "sweep.json").read_text())
    about["versions"]["code"] = "0123456789ab"
    (tmp_path / "old" / "sweep.json").write_text(json.dumps(about))
    with pytest.raises(BadInput, match=r"build 0123456789ab; this is build [0-9a-f]{12}"):
        sweep(resume=tmp_path / "old")


def test_a_sweep_cannot_be_resumed_without_a_metric_that_it_measures(tmp_path: Path) -> None:
    def packets_per_joule(trace: Trace, window: object) -> float:
        """Number of packets, for this test."""
        return 1.0

    def stop(task: int) -> None:
        if task == 1:
            raise KeyboardInterrupt

    what: dict[str, Any] = {"vary": {"link.up.loss": "0..5 % x2"}, "repeats": 2, "duration": "2 s"}
    own = metric(unit="packets", source="this test", scope="trace")
    own(packets_per_joule)
    try:
        with pytest.raises(Interrupted) as stopped:
            sweep("first-call", **what, executor=Here(before=stop), out=tmp_path)
        grid = stopped.value.grid
    finally:
        del METRICS["packets_per_joule"]
    with pytest.raises(BadInput, match=r"measures `packets_per_joule`, which this program does not define"):
        sweep(resume=grid.path, jobs=1)
    own(packets_per_joule)
    try:
        sweep(resume=grid.path, jobs=1)
    finally:
        del METRICS["packets_per_joule"]
    assert grid.metrics().filter(metric="packets_per_joule").height == 4


def test_a_metric_defined_after_a_sweep_began_does_not_appear_in_half_of_it(tmp_path: Path) -> None:
    def stop(task: int) -> None:
        if task == 1:
            raise KeyboardInterrupt

    what: dict[str, Any] = {"vary": {"link.up.loss": "0..5 % x2"}, "repeats": 2, "duration": "2 s"}
    with pytest.raises(Interrupted) as stopped:
        sweep("first-call", **what, executor=Here(before=stop), out=tmp_path)

    @metric(unit="packets", source="this test", scope="trace")
    def thought_of_later(trace: Trace, window: object) -> float:
        """Number of packets, for this test."""
        return 1.0

    try:
        grid = sweep(resume=stopped.value.grid.path, jobs=1)
    finally:
        del METRICS["thought_of_later"]
    assert grid.progress() == (4, 4)
    assert grid.metrics().filter(metric="thought_of_later").is_empty()


def test_a_second_process_cannot_write_to_the_same_sweep(whole: Grid) -> None:
    with (
        Store(whole.path).writing(),
        pytest.raises(BadInput, match=f"process {os.getpid()} on .* is writing"),
    ):
        sweep(resume=whole.path)


def test_workers_do_not_need_the_files_of_the_caller(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    trace = tmp_path / "mobile.mahimahi"
    trace.write_text("\n".join(str(12 * n) for n in range(1, 100)))  # 1500 bytes every 12 ms: 1 Mbit/s
    vary = {"link.up.capacity": [{"trace": "mobile.mahimahi"}, "1 Mbit/s"]}
    ran: list[int] = []

    def forget(task: int) -> None:
        trace.unlink(missing_ok=True)
        ran.append(task)

    grid = sweep("first-call", vary, repeats=1, duration="5 s", executor=Here(before=forget), out=tmp_path)
    assert ran == [0, 1]
    capacity = grid.summary().filter(metric="utilisation", flow="alice->bob")["mean"].to_list()
    assert all(0 < percent <= 100 for percent in capacity)


def test_resuming_accepts_no_other_scenario(whole: Grid) -> None:
    with pytest.raises(BadInput, match="resume: the scenario of a sweep cannot be changed"):
        sweep("first-call", VARY, resume=whole.path)


def test_an_unknown_sweep_is_refused_with_a_hint(whole: Grid) -> None:
    with pytest.raises(
        BadInput, match=r"no sweep `first-call-sweep-2`.*\n  hint: did you mean `first-call-sweep-1`"
    ):
        open_sweep("first-call-sweep-2", out=whole.path.parent)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> StubBackend:
    """A backend named ``stub``."""
    made = StubBackend()
    monkeypatch.setattr(stub_backend, "TheStub", lambda: made, raising=False)
    monkeypatch.setitem(backends._HOME, "stub", ("stub_backend", "TheStub"))
    return made


LIVE: dict[str, Any] = {
    "scenario": "first-call",
    "vary": {"link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"]},
    "backend": "stub",
    "repeats": 2,
    "duration": "3 s",
}


def test_each_live_point_is_a_run_in_the_directory_of_the_sweep(tmp_path: Path, stub: StubBackend) -> None:
    grid = sweep(**LIVE, out=tmp_path)
    assert [repeat for repeat, _ in stub.ran] == [0, 1, 0, 1]
    runs = [rtclab.open(path) for path in sorted(grid.path.glob("points/*/*"))]
    assert [run.scenario["link"]["up"]["capacity"] for run in runs] == ["500 kbit/s", "1 Mbit/s"]
    rates = grid.metrics().filter(metric="sending_rate", flow="alice->bob")
    # 100 packets of 1000 bytes a second.
    assert rates.select("link.up.capacity", "repeat", "value").rows() == [
        ("0.5 Mbit/s", 0, 800.0),
        ("0.5 Mbit/s", 1, 800.0),
        ("1 Mbit/s", 0, 800.0),
        ("1 Mbit/s", 1, 800.0),
    ]


def test_resuming_a_live_sweep_runs_only_failed_repeats_again(tmp_path: Path, stub: StubBackend) -> None:
    stub.failing = {1}
    grid = sweep(**LIVE, out=tmp_path)
    reason = "alice: the page reported `no camera`\n  hint: plug one in"
    assert grid.failures()["failure"].to_list() == [reason, reason]
    stub.failing.clear()
    stub.ran.clear()
    grid = sweep(resume=grid.path)
    assert [repeat for repeat, _ in stub.ran] == [1, 1]
    assert grid.failures().is_empty()
    assert grid.metrics().filter(metric="sending_rate", flow="alice->bob").height == 4


def test_a_fault_of_the_laboratory_in_a_sweep_is_listed_and_is_no_failed_call(
    tmp_path: Path, stub: StubBackend
) -> None:
    stub.crashing = {1}
    grid = sweep(**LIVE, out=tmp_path)
    assert grid.failures()["failure"].to_list() == ["ZeroDivisionError: division by zero"] * 2
    calls = grid.summary().filter(metric="call_failures")
    assert calls.select("mean", "repeats").rows() == [(0, 1)] * 2
    stub.crashing.clear()
    assert sweep(resume=grid.path).failures().is_empty()


def test_ctrl_c_in_a_live_sweep_keeps_finished_repeats(tmp_path: Path, stub: StubBackend) -> None:
    stub.interrupted_in = {1}
    with pytest.raises(Interrupted) as stopped:
        sweep(**LIVE, out=tmp_path)
    stub.interrupted_in.clear()
    stub.ran.clear()
    sweep(resume=stopped.value.grid.path)
    assert [repeat for repeat, _ in stub.ran] == [1, 0, 1]


def test_a_live_sweep_refuses_an_executor(tmp_path: Path, stub: StubBackend) -> None:
    with pytest.raises(BadInput, match="executor: the stub backend runs one call at a time"):
        sweep(**LIVE, executor=Here(), out=tmp_path)
    assert list(tmp_path.iterdir()) == []
