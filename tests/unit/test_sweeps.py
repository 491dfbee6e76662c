"""Sweeps: their values, and how their repeats run on executors and backends."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from polars.testing import assert_frame_equal
from stub_backend import StubBackend

import rtclab
from rtclab.backend import sim
from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput
from rtclab.experiment import Experiment, Interrupted, OtherVersion, Results, Stopped
from rtclab.experiment.work import Task, run_task, tasks_of
from rtclab.lab import open_results, sweep
from rtclab.metrics import METRICS, metric
from rtclab.metrics.statistics import summarise
from rtclab.scenario import Scenario
from rtclab.trace import Trace

VARY = {"link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"], "link.up.loss": "0..5 % x3"}
WHAT: dict[str, Any] = {"scenario": "first-call", "vary": VARY, "repeats": 6, "duration": "5 s"}
TASKS = 12
"""36 repeats, three to a task."""
TWO: dict[str, Any] = {"vary": {"link.up.loss": "0..5 % x2"}, "repeats": 2, "duration": "2 s"}

Run = Callable[[str], Any]


class Here(Executor):
    """Runs each task when it is submitted or, if ``backwards``, all in reverse once the last is submitted."""

    def __init__(self, *, backwards: bool = False, before: Callable[[int], None] = lambda task: None) -> None:
        self.backwards = backwards
        self.before = before
        self.submitted: list[tuple[Future[Any], Run, str]] = []

    def submit(self, run: Run, text: str) -> Future[Any]:  # type: ignore[override]
        future: Future[Any] = Future()
        self.submitted.append((future, run, text))
        if not self.backwards:
            self._run(len(self.submitted) - 1)
        elif len(self.submitted) == TASKS:
            for task in reversed(range(TASKS)):
                self._run(task)
        return future

    def _run(self, task: int) -> None:
        future, run, text = self.submitted[task]
        self.before(task)
        try:
            future.set_result(run(text))
        except Exception as error:
            future.set_exception(error)


def stop_at(number: int) -> Callable[[int], None]:
    """Presses Ctrl-C before a task."""

    def stop(task: int) -> None:
        if task == number:
            raise KeyboardInterrupt

    return stop


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A sweep that ran without interruption."""
    return sweep(**WHAT, jobs=1, out=tmp_path_factory.mktemp("whole"))


def test_the_table_has_a_row_for_every_repeat_metric_and_flow(whole: Results) -> None:
    table = whole.metrics()
    assert table.columns == [
        "condition",
        "link.up.capacity",
        "link.up.loss",
        "link.up.capacity_bps",
        "link.up.loss_percent",
        "repeat",
        "metric",
        "unit",
        "better",
        "flow",
        "value",
        "deviation",
        "measured_s",
    ]
    rates = table.filter(metric="receiving_rate")
    assert rates.height == 2 * 3 * 6 * 2  # capacities, losses, repeats, flows
    assert rates["unit"].unique().to_list() == ["kbit/s"]
    assert table.filter(metric="fairness")["flow"].unique().to_list() == [""]
    # Texts sort in the given order, not alphabetically; numbers are in base units.
    losses = table.select("link.up.loss", "link.up.loss_percent").unique().sort("link.up.loss")
    assert losses.rows() == [("0 %", 0.0), ("2.5 %", 2.5), ("5 %", 5.0)]
    assert table["link.up.capacity_bps"].unique().sort().to_list() == [5e5, 1e6]


def test_a_condition_has_the_same_values_as_the_same_run(whole: Results, tmp_path: Path) -> None:
    changes = {"link.up.capacity": "1 Mbit/s", "link.up.loss": "2.5 %"}
    run = rtclab.run("first-call", duration="5 s", repeats=6, set=changes, out=tmp_path)
    of_packets = [one.name for one in METRICS.values() if one.packets == "always"]  # sweeps record none
    columns = ["repeat", "metric", "unit", "better", "flow", "value", "deviation"]
    expected = run.metrics().filter(~pl.col("metric").is_in(of_packets)).select(columns)
    found = whole.where(changes).metrics().select(columns)
    assert_frame_equal(found, expected, check_exact=True)
    assert whole["link.up.capacity = 1 Mbit/s, link.up.loss = 2.5 %"].metrics().select(columns).equals(found)


def test_a_custom_metric_reads_no_rows_of_other_repeats(tmp_path: Path) -> None:
    @metric(unit="packets", source="this test", scope="trace")
    def all_packets(trace: Trace) -> float:
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


def test_all_conditions_have_the_same_seeds(tmp_path: Path) -> None:
    # The queue never gets that long, so both conditions behave the same.
    vary = {"link.up.queue": ["10 s", "11 s"]}
    grid = sweep("first-call", vary, repeats=3, duration="3 s", jobs=1, out=tmp_path)
    sent = grid.metrics().filter(metric="sending_rate", flow="alice->bob")
    first, second = (
        sent.filter(pl.col("link.up.queue") == queue)["value"].to_list() for queue in ("10 s", "11 s")
    )
    assert first == second
    assert len(set(first)) == 3


def test_the_table_does_not_depend_on_the_executor_or_the_order_of_tasks(
    whole: Results, tmp_path: Path
) -> None:
    with ThreadPoolExecutor(2) as threads:
        for executor in (Here(), Here(backwards=True), threads):
            grid = sweep(**WHAT, executor=executor, out=tmp_path)
            assert_same(grid, whole)
    assert_same(sweep(**WHAT, jobs=2, out=tmp_path), whole)


def assert_same(a: Results, b: Results) -> None:
    assert_frame_equal(a.metrics(), b.metrics(), check_exact=True)
    assert_frame_equal(a.outcomes(), b.outcomes())


def test_the_summary_has_the_same_statistics_as_the_summary_of_a_run(whole: Results) -> None:
    table, summary = whole.metrics(), whole.summary()
    keys = ["condition", "metric", "flow"]
    assert summary.select(keys).n_unique() == summary.height
    for row in summary.filter(condition=whole.conditions[5]).iter_rows(named=True):
        values = table.filter(**{key: row[key] for key in keys})["value"].to_list()
        assert row["repeats"] == 6
        if METRICS[row["metric"]].share:
            continue
        expected = summarise(values, METRICS[row["metric"]].bounds)
        found = [row[name] for name in ("mean", "sd", "ci95_low", "ci95_high")]
        known = [expected.mean, expected.sd, expected.ci95_low, expected.ci95_high]
        assert found == pytest.approx([None if value != value else value for value in known], nan_ok=True)


def test_by_averages_over_the_other_fields_repeat_by_repeat(whole: Results) -> None:
    by_loss = whole.summary(by="link.up.loss").filter(metric="receiving_rate", flow="alice->bob")
    assert by_loss["link.up.loss"].to_list() == ["0 %", "2.5 %", "5 %"]
    rows = whole.metrics().filter(metric="receiving_rate", flow="alice->bob")
    for loss, mean, low in by_loss.select("link.up.loss", "mean", "ci95_low").iter_rows():
        of_loss = rows.filter(pl.col("link.up.loss") == loss)
        means = of_loss.group_by("repeat", maintain_order=True).agg(pl.col("value").mean())["value"]
        expected = summarise(means.to_list(), (0.0, float("inf")))
        assert (mean, low) == pytest.approx((expected.mean, expected.ci95_low))
    with pytest.raises(
        BadInput, match=r"by: `link\.up\.delay` is not varied; expected link\.up\.capacity or"
    ):
        whole.summary(by="link.up.delay")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"link.up.delay": "1 ms"}, "where: `link.up.delay` is not varied; expected link.up.capacity or"),
        ({"link.up.loss": "3 %"}, "where: link.up.loss = `3 %` was not run; expected 0 %, 2.5 %, 5 %"),
    ],
)
def test_conditions_that_were_not_run_are_refused(
    whole: Results, values: dict[str, str], message: str
) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(message)}"):
        whole.where(values)


def test_a_part_of_a_sweep_counts_its_own_repeats_and_has_its_own_rows(whole: Results) -> None:
    part = whole.where({"link.up.loss": "5 %"})
    assert (part.planned, part.finished, part.unfinished, len(part.conditions)) == (12, 12, 0, 2)
    assert_frame_equal(part.metrics(), whole.metrics().filter(pl.col("link.up.loss") == "5 %"))
    failures = part.summary(metrics=["call_failures"]).select("mean", "repeats").rows()
    assert failures == [(0.0, 6)] * 2
    one = part.where({"link.up.capacity": "1 Mbit/s"})
    assert one.conditions == ["link.up.capacity = 1 Mbit/s, link.up.loss = 5 %"]
    with pytest.raises(BadInput, match="where: no condition is left"):
        one.where({"link.up.capacity": "0.5 Mbit/s"})


def test_only_a_sweep_with_traces_can_be_measured_at_other_times(whole: Results, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"kept no traces, so only its own time can be measured\n  hint: "):
        whole.between(begin="2 s").metrics()
    assert rtclab.compare(*(whole[label] for label in whole.conditions[:2])).table().height > 0
    with pytest.raises(BadInput, match="kept no traces, so only its own time can be measured"):
        rtclab.compare(whole, by="link.up.loss", begin="2 s").table()
    traced = sweep("first-call", **TWO, traces=True, out=tmp_path)
    assert len(traced.traces) == 4
    late = traced.between(begin="1 s").metrics(metrics=["sending_rate"])
    own = sweep("first-call", **TWO, begin="1 s", metrics=["sending_rate"], out=tmp_path)
    assert late.height == 8
    # These record no packets, and the same sums.
    assert_frame_equal(own.metrics(), late, check_exact=True)
    assert_frame_equal(own.between(begin="1 s").metrics(), late, check_exact=True)


def test_a_sweep_leaves_one_file_and_can_be_opened_by_name(whole: Results) -> None:
    assert [file.name for file in whole.path.iterdir()] == ["results.sqlite"]
    opened = open_results(whole.name, out=whole.path.parent)
    assert (opened.finished, opened.planned, opened.unfinished) == (36, 36, 0)
    assert opened.fields == list(VARY)
    assert_same(opened, whole)


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
    label = "link.up.loss = 100 %"
    assert grid.failures().rows() == [(label, "100 %", repeat, "failed", reason) for repeat in (0, 1)]
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
    simulate, configs = sim._native.simulate, []

    def sometimes(config: str) -> Any:
        if '"record"' in config and '"duration_ns": 0' not in config:
            configs.append(config)
        if len(configs) == 2 and config == configs[-1]:
            raise ValueError("goog-cc of alice: no target at 1 s")
        return simulate(config)

    what = {"scenario": "first-call", "vary": {"link.up.loss": ["0 %"]}, "repeats": 3, "duration": "3 s"}
    whole = sweep(**what, jobs=1, out=tmp_path).metrics()
    monkeypatch.setattr(sim._native, "simulate", sometimes)
    grid = sweep(**what, jobs=1, out=tmp_path)
    reason = "ValueError: goog-cc of alice: no target at 1 s"
    assert grid.failures().select("repeat", "status", "reason").rows() == [(1, "error", reason)]
    assert_frame_equal(grid.metrics().filter(pl.col("repeat") != 1), whole.filter(pl.col("repeat") != 1))


def test_ctrl_c_keeps_finished_tasks_and_resume_runs_the_others(whole: Results, tmp_path: Path) -> None:
    with pytest.raises(Interrupted) as stopped:
        sweep(**WHAT, executor=Here(before=stop_at(5)), out=tmp_path)
    grid = stopped.value.results
    assert (grid.finished, grid.unfinished) == (15, 21)
    statuses = grid.outcomes()["status"].to_list()
    assert statuses == ["finished"] * 15 + ["interrupted"] * 21
    assert_frame_equal(grid.metrics(), whole.metrics().filter(_number(whole) < 15))
    resumed = sweep(resume=grid.path, executor=(executor := Here()))
    ran = [
        (part["condition"], repeat)
        for *_, text in executor.submitted
        for part in json.loads(text)["parts"]
        for repeat in part["repeats"]
    ]
    assert ran == [divmod(number, 6) for number in range(15, 36)]
    assert_same(resumed, whole)
    # Nothing is left to do.
    sweep(resume=grid.path, executor=(idle := Here()))
    assert idle.submitted == []


def _number(results: Results) -> pl.Expr:
    """Number of a repeat in its sweep."""
    numbers = {label: number for number, label in enumerate(results.conditions)}
    return pl.col("condition").replace_strict(numbers, return_dtype=pl.Int64) * 6 + pl.col("repeat")


def test_repeats_can_be_added_to_every_condition(whole: Results, tmp_path: Path) -> None:
    few = sweep(**WHAT | {"repeats": 2}, out=tmp_path)
    assert (few.finished, few.planned) == (12, 12)
    assert_same(sweep(resume=few.path, repeats=6), whole)


class LosesAWorker(ProcessPoolExecutor):
    """Kills one of its processes when the tenth task is submitted."""

    submitted = 0

    def submit(self, run: Any, /, *arguments: Any, **more: Any) -> Future[Any]:
        self.submitted += 1
        if self.submitted == 10:
            os.kill(super().submit(os.getpid).result(), signal.SIGKILL)
        return super().submit(run, *arguments, **more)


def test_a_dead_worker_stops_the_sweep_and_resume_runs_the_other_tasks(
    whole: Results, tmp_path: Path
) -> None:
    context = multiprocessing.get_context("spawn")
    with (
        LosesAWorker(1, mp_context=context) as pool,
        pytest.raises(
            Stopped, match="a worker died: it was killed or ran out of memory\n27 of 36 repeats are finished"
        ) as stopped,
    ):
        sweep(**WHAT, executor=pool, out=tmp_path)
    grid = Results(tmp_path / "first-call-sweep-1")
    assert grid.finished == 27
    assert f"--resume {grid.path}`" in str(stopped.value)
    assert_same(sweep(resume=grid.path, jobs=1), whole)


def a_task() -> dict[str, Any]:
    """The JSON values that a worker gets."""
    planned = Experiment("first-call", vary=VARY, repeats=1)
    known: dict[str, Any] = json.loads(next(tasks_of(planned.conditions, [(0, 0)], planned.about)).text)
    return known


def test_a_worker_with_another_version_refuses_and_names_both_versions() -> None:
    known = a_task()
    known["versions"] |= {"rtclab": "0.0.9", "code": "0123456789ab"}
    with pytest.raises(
        OtherVersion,
        match=rf"runs rtclab {re.escape(rtclab.__version__)} \(.*\); "
        r"the caller runs rtclab 0\.0\.9 \(schema \d+, build 0123456789ab\)",
    ):
        run_task(json.dumps(known))


def test_a_worker_without_a_metric_of_the_caller_refuses() -> None:
    known = a_task()
    known["parts"][0]["names"].append("smiles")
    with pytest.raises(OtherVersion, match="has no metric `smiles`, which the caller has"):
        run_task(json.dumps(known))


@pytest.mark.parametrize(
    ("repeats", "count", "order"),
    [(1, 7, "plain"), (7, 3, "plain"), (7, 3, "paired"), (1000, 40, "plain"), (50_000, 10, "plain")],
)
def test_every_repeat_is_in_exactly_one_task(repeats: int, count: int, order: str) -> None:
    vary = {"link.up.delay": f"1..100 ms x{count}"}
    planned = Experiment("first-call", vary=vary, repeats=repeats)
    items = [(condition, repeat) for condition in range(count) for repeat in range(repeats)]
    if order == "paired":
        items.sort(key=lambda item: item[::-1])
    tasks: list[Task] = list(tasks_of(planned.conditions, items, planned.about))
    found = []
    for task in tasks:
        parts = json.loads(task.text)["parts"]
        own = [(part["condition"], repeat) for part in parts for repeat in part["repeats"]]
        delays = [part["scenario"]["link"]["up"]["delay"] for part in parts]
        texts = [str(planned.conditions.scenario(part["condition"]).link.up.delay) for part in parts]
        assert delays == texts
        assert len(own) == task.size
        found += own
    assert found == items
    assert len(tasks) <= 4000


def test_a_sweep_cannot_be_resumed_without_a_metric_that_it_measures(tmp_path: Path) -> None:
    def packets_per_joule(trace: Trace) -> float:
        """Number of packets, for this test."""
        return 1.0

    own = metric(unit="packets", source="this test", scope="trace")
    own(packets_per_joule)
    try:
        with pytest.raises(Interrupted) as stopped:
            sweep("first-call", **TWO, executor=Here(before=stop_at(1)), out=tmp_path)
        grid = stopped.value.results
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
    with pytest.raises(Interrupted) as stopped:
        sweep("first-call", **TWO, executor=Here(before=stop_at(1)), out=tmp_path)

    @metric(unit="packets", source="this test", scope="trace")
    def thought_of_later(trace: Trace) -> float:
        """Number of packets, for this test."""
        return 1.0

    try:
        grid = sweep(resume=stopped.value.results.path, jobs=1)
    finally:
        del METRICS["thought_of_later"]
    assert (grid.finished, grid.planned) == (4, 4)
    assert grid.metrics().filter(metric="thought_of_later").is_empty()


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


def test_resuming_accepts_no_other_scenario(whole: Results) -> None:
    with pytest.raises(BadInput, match="resume: a run goes on as it began"):
        sweep("first-call", VARY, resume=whole.path)


def test_the_seed_cannot_be_varied(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"^vary: seed: cannot be varied: "):
        sweep("first-call", {"seed": [1, 2]}, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def live(stub: StubBackend) -> StubBackend:
    """A backend named ``stub`` that runs one call at a time."""
    stub.parallel = False
    return stub


LIVE: dict[str, Any] = {
    "scenario": "first-call",
    "vary": {"link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"]},
    "backend": "stub",
    "repeats": 2,
    "duration": "3 s",
}


def test_each_live_repeat_leaves_a_trace_in_the_directory_of_its_condition(
    tmp_path: Path, live: StubBackend
) -> None:
    grid = sweep(**LIVE, out=tmp_path)
    assert [repeat for repeat, _ in live.ran] == [0, 1, 0, 1]
    capacities = [run.scenario["link"]["up"]["capacity"] for run in grid.runs]
    assert capacities == ["500 kbit/s", "1 Mbit/s"]
    places = [trace.path.relative_to(grid.path).as_posix() for trace in grid.traces]
    assert places == [f"conditions/00000{condition}/repeat-{i}" for condition in (0, 1) for i in (0, 1)]
    rates = grid.metrics().filter(metric="sending_rate", flow="alice->bob")
    # 100 packets of 1000 bytes a second.
    assert rates.select("link.up.capacity", "repeat", "value").rows() == [
        (capacity, repeat, 800.0) for capacity in ("0.5 Mbit/s", "1 Mbit/s") for repeat in (0, 1)
    ]


def test_resuming_a_live_sweep_runs_only_failed_repeats_again(tmp_path: Path, live: StubBackend) -> None:
    live.failing = {1}
    grid = sweep(**LIVE, out=tmp_path)
    reason = "alice: the page reported `no camera`\n  hint: plug one in"
    assert grid.failures().select("status", "reason").rows() == [("failed", reason)] * 2
    live.failing.clear()
    live.ran.clear()
    grid = sweep(resume=grid.path)
    assert [repeat for repeat, _ in live.ran] == [1, 1]
    assert grid.failures().is_empty()
    assert grid.metrics().filter(metric="sending_rate", flow="alice->bob").height == 4


def test_a_fault_of_the_laboratory_in_a_sweep_is_listed_and_is_no_failed_call(
    tmp_path: Path, live: StubBackend
) -> None:
    live.crashing = {1}
    grid = sweep(**LIVE, out=tmp_path)
    assert (
        grid.failures().select("status", "reason").rows()
        == [("error", "ZeroDivisionError: division by zero")] * 2
    )
    calls = grid.summary().filter(metric="call_failures")
    assert calls.select("mean", "repeats").rows() == [(0, 1)] * 2
    live.crashing.clear()
    assert sweep(resume=grid.path).failures().is_empty()


def test_a_live_sweep_refuses_executors_threads_and_no_traces(tmp_path: Path, live: StubBackend) -> None:
    with pytest.raises(BadInput, match="executor: the stub backend runs one call at a time"):
        sweep(**LIVE, executor=Here(), out=tmp_path)
    with pytest.raises(BadInput, match="jobs: the stub backend runs one call at a time"):
        sweep(**LIVE, jobs=2, out=tmp_path)
    with pytest.raises(BadInput, match="executor: repeats that leave traces run on this machine"):
        sweep("first-call", VARY, traces=True, executor=Here(), out=tmp_path)
    with pytest.raises(BadInput, match="traces: live calls are measured from their traces"):
        Experiment([Scenario.load("first-call")], backend=live, traces=False)
    assert list(tmp_path.iterdir()) == []
