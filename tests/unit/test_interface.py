"""The Python interface: examples, results and errors."""

from __future__ import annotations

import builtins
import doctest
import inspect
import re
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
import stub_backend
from stub_backend import StubBackend

import rtclab
from rtclab import comparing, gates, lab, linking, machine, monitoring
from rtclab.backend import backends, sim_steps
from rtclab.errors import BadInput, TraceError
from rtclab.experiment import Interrupted, experiment, results
from rtclab.metrics import ESSENTIAL, METRICS
from rtclab.trace import trace

EXAMPLES = [
    test
    for module in (lab, linking, machine, comparing, experiment, results, gates, trace, sim_steps, monitoring)
    for test in doctest.DocTestFinder().find(module, extraglobs={"rtclab": rtclab})
    if test.examples
]


def short(name: str) -> str:
    return re.sub(r"^rtclab\.[a-z_.]+\.", "", name)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda test: short(test.name))
def test_examples_in_docstrings_run(
    example: doctest.DocTest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert doctest.DocTestRunner().run(example).failed == 0


def test_importing_every_name_keeps_the_builtins_of_python() -> None:
    names: dict[str, object] = {}
    exec("from rtclab import *", names)
    assert names["run"] is rtclab.run
    # `__builtins__` is set by exec.
    assert not names.keys() & set(dir(builtins)) - {"__builtins__"}
    assert rtclab.open is lab.open_results


def test_every_public_name_has_an_example() -> None:
    with_example = {short(test.name) for test in EXAMPLES}
    functions = {
        *("compare", "delete", "doctor", "link", "list_metrics", "list_runs", "list_scenarios", "monitor"),
        *("open_results", "replay", "run", "show", "sweep", "import_files", "watch"),
    }
    methods = {
        f"{one.__name__}.{name}"
        for one in (rtclab.Comparison, rtclab.Results)
        for name, value in vars(one).items()
        if inspect.isfunction(value) and not name.startswith("_")
    }
    assert functions | methods <= with_example


def test_help_begins_with_the_names_that_matter() -> None:
    named = re.findall(r"^    (\w+)  +\S", str(rtclab.__doc__), re.MULTILINE)
    assert len(named) == 10
    assert set(named) <= {*dir(rtclab)}
    also = re.findall(r"``(\w+)``", str(rtclab.__doc__).partition("there are also")[2].partition(". ")[0])
    assert {"sweep", "watch", "show", "delete"} <= set(also) <= {*dir(rtclab)}


def test_public_names_are_listed_and_imported_on_first_use() -> None:
    assert {"run", "open", "compare", "Experiment", "Results", "Scenario", "Trace"} <= set(dir(rtclab))
    assert all(getattr(rtclab, name) is not None for name in dir(rtclab))


@pytest.fixture
def run(tmp_path: Path) -> rtclab.Results:
    """Repeats of 4 s whose flows have 100 packets of 1000 bytes per second; the second repeat failed."""
    backend = StubBackend()
    backend.failing = {1}
    scenario = rtclab.Scenario.load("first-call", {"repeats": 3, "duration": "4 s"})
    return rtclab.Experiment([scenario], backend=backend).run(out=tmp_path)


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> StubBackend:
    """Replaces the simulator by a stub; its runs have the backend ``stub``."""
    backend = StubBackend()
    monkeypatch.setattr(stub_backend, "TheStub", lambda: backend, raising=False)
    for name in ("sim", "stub"):
        monkeypatch.setitem(backends._HOME, name, ("stub_backend", "TheStub"))
    return backend


def test_metrics_have_a_row_for_each_repeat_metric_and_flow(run: rtclab.Results) -> None:
    rates = run.metrics().filter(metric="sending_rate")
    assert rates.select("flow", "repeat", "value", "unit").rows() == [
        ("alice->bob", 0, 800.0, "kbit/s"),
        ("bob->alice", 0, 800.0, "kbit/s"),
        ("alice->bob", 2, 800.0, "kbit/s"),
        ("bob->alice", 2, 800.0, "kbit/s"),
    ]
    failures = run.metrics(metrics=["call_failures"])
    assert failures.select("flow", "repeat", "value").rows() == [("", 0, 0.0), ("", 1, 100.0), ("", 2, 0.0)]
    assert run.failures().select("condition", "repeat", "status").rows() == [("first-call", 1, "failed")]


def test_a_table_of_all_repeats_has_a_column_with_the_repeat(run: rtclab.Results) -> None:
    whole = run.table("flow_seconds")
    assert whole.columns[0] == "repeat"
    assert whole["repeat"].unique().to_list() == [0, 2]
    assert whole.filter(repeat=2).drop("repeat").equals(run.table("flow_seconds", repeat=2))
    with pytest.raises(BadInput, match="has no finished repeat 1; finished: 0, 2"):
        run.table("flow_seconds", repeat=1)


def test_times_are_strings_with_a_unit_or_numbers_of_seconds(run: rtclab.Results) -> None:
    assert run.between(begin="1 s", end=3).summary().equals(run.between(begin=1, end="3 s").summary())
    with pytest.raises(BadInput, match="begin: no unit in `3`"):
        run.between(begin="3").summary()
    with pytest.raises(BadInput, match="nothing to measure from 4 s on: the run ends at 4 s"):
        run.between(begin=4).summary()


@pytest.mark.parametrize(("duration", "written"), [(2, "2 s"), (1.5, "1.5 s"), ("2 s", "2 s")])
def test_a_duration_is_a_string_with_a_unit_or_a_number_of_seconds(
    duration: str | float, written: str, tmp_path: Path
) -> None:
    made = rtclab.run("first-call", duration=duration, repeats=1, out=tmp_path)
    assert made.scenario["duration"] == written
    grid = rtclab.sweep("first-call", {"link.up.loss": ["0 %"]}, duration=duration, repeats=1, out=tmp_path)
    sent = made.metrics().filter(metric="sending_rate", flow="alice->bob")["value"]
    swept = grid.metrics().filter(metric="sending_rate", flow="alice->bob")["value"]
    assert swept.to_list() == sent.to_list()
    assert swept[0] > 0


def test_a_loaded_scenario_can_be_changed_and_run(tmp_path: Path) -> None:
    loaded = rtclab.Scenario.load("first-call", {"duration": "2 s"})
    made = rtclab.run(loaded, repeats=1, set={"link.up.capacity": "2 Mbit/s"}, out=tmp_path)
    assert made.scenario["link"]["up"]["capacity"] == "2 Mbit/s"
    assert made.scenario["duration"] == "2 s"
    assert made.table("paths", repeat=0).filter(path="alice.up")["capacity_bps"].to_list() == [2_000_000]


def test_the_same_arguments_give_the_same_numbers(tmp_path: Path) -> None:
    first, second = (
        rtclab.run("first-call", duration="3 s", repeats=2, seed=7, out=tmp_path) for _ in range(2)
    )
    assert first.metrics().equals(second.metrics())
    assert set(rtclab.compare(first, second).table()["difference"].drop_nulls()) == {0.0}


def test_an_interrupted_run_has_the_finished_repeats_and_can_be_resumed(
    tmp_path: Path, stub: StubBackend
) -> None:
    stub.interrupted_in = {1}
    with pytest.raises(Interrupted) as caught:
        rtclab.run("first-call", duration="2 s", repeats=2, out=tmp_path, jobs=1)
    made = caught.value.results
    assert isinstance(made, rtclab.Results)
    assert made.metrics().filter(metric="sending_rate")["repeat"].unique().to_list() == [0]
    assert (made.finished, made.unfinished, made.planned) == (1, 1, 2)
    stub.interrupted_in = set()
    resumed = rtclab.run(resume=made.path, out=tmp_path)
    assert [repeat.status for repeat in resumed.repeats] == ["finished", "finished"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "no scenario given"),
        ({"scenario": "firs-call"}, "no scenario `firs-call`"),
        ({"scenario": "first-call", "duration": "20"}, "^duration: no unit in `20`"),
        ({"scenario": "first-call", "duration": -20}, "^duration: `-20 s` is negative; expected a time"),
        ({"scenario": "first-call", "duration": 1e10}, "^duration: .*too large"),
        ({"scenario": "first-call", "set": {"foo": 1}}, "^set: foo: unknown key"),
        ({"scenario": "first-call", "set": ["link"]}, "cannot read `link`"),
        ({"scenario": "first-call", "backend": "simm"}, "no backend `simm`; expected sim or live"),
        ({"scenario": "first-call", "resume": "x"}, "^resume: a run goes on as it began"),
    ],
)
def test_bad_input_is_rejected_before_anything_is_written(
    arguments: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(BadInput, match=message):
        rtclab.run(**arguments, out=tmp_path / "runs")  # type: ignore[arg-type]
    assert not (tmp_path / "runs").exists()


def test_open_opens_sweeps_too(tmp_path: Path) -> None:
    made = rtclab.sweep("first-call", {"link.up.loss": ["0 %"]}, duration="2 s", repeats=1, out=tmp_path)
    for name in (made.path, made.name):
        opened = rtclab.open(name, out=tmp_path)
        assert isinstance(opened, rtclab.Results)
        assert opened.fields == ["link.up.loss"]
        assert opened.metrics().equals(made.metrics())


def test_results_are_a_mapping_of_their_conditions(tmp_path: Path) -> None:
    vary = {"link.up.loss": ["0 %", "2 %"], "link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"]}
    options: dict[str, Any] = {"duration": "2 s", "repeats": 1, "out": tmp_path, "progress": False}
    grid = rtclab.run("first-call", vary=vary, **options)
    assert grid.conditions == rtclab.sweep("first-call", vary, **options).conditions
    first = "link.up.loss = 0 %, link.up.capacity = 0.5 Mbit/s"
    assert (len(grid), first in grid, "nope" in grid, next(iter(grid))) == (4, True, False, first)
    assert list(grid) == grid.keys() == [label for label, _ in grid.items()]
    assert [one.conditions for one in grid.values()] == [[label] for label in grid]
    assert grid[first].metrics().equals(grid.values()[0].metrics())
    with pytest.raises(BadInput, match=r"did you mean `link.up.loss = 0 %, link.up.capacity = 0.5 Mbit/s`"):
        grid["link.up.loss = 0 %, link.up.capacity = 0.5 Mbit"]
    with pytest.raises(BadInput, match="condition: got `0`; expected the label of a condition"):
        grid[0]  # type: ignore[index]
    shown = grid._repr_html_()
    assert "4 of 4 repeats finished" in shown
    assert "0.5 Mbit/s" in shown


@pytest.mark.parametrize(
    "given",
    [
        {"link.up.loss": "2 %", "link.up.capacity": "0.5 Mbit/s"},
        {"link.up.loss": "2%", "link.up.capacity": "500 kbit/s"},
        {"link.up.loss": 0.02, "link.up.capacity": 500_000},
        {"link.up.loss": "0.02", "link.up.capacity": "500000 bit/s"},
    ],
)
def test_conditions_are_chosen_by_quantities(given: dict[str, object], grid: rtclab.Results) -> None:
    assert grid.where(given).conditions == ["link.up.loss = 2 %, link.up.capacity = 0.5 Mbit/s"]
    assert grid.where(**given).conditions == grid.where(given).conditions


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"link.up.loss": 2}, "where: link.up.loss = `2` was not run; expected 0 %, 2 %"),
        ({"link.up.loss": "2 ms"}, "where: link.up.loss: unknown"),
        ({"link.up.los": "2 %"}, "where: `link.up.los` is not varied; expected link.up.loss or"),
        ("link.up.loss", "where: got `link.up.loss`; expected a value of each field"),
    ],
)
def test_values_that_no_condition_has_are_refused(given: Any, message: str, grid: rtclab.Results) -> None:
    with pytest.raises(BadInput, match=f"^{re.escape(message)}"):
        grid.where(given)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> rtclab.Results:
    vary = {"link.up.loss": "0 %, 2 %", "link.up.capacity": "0.5 Mbit/s, 1 Mbit/s"}
    place = tmp_path_factory.mktemp("grid")
    return rtclab.sweep("first-call", vary, duration="2 s", repeats=1, out=place, progress=False)


def test_names_of_earlier_versions_say_the_present_ones() -> None:
    with pytest.raises(BadInput, match=r"Experiment\.product: .*\n  hint: write Experiment\(scenario, vary="):
        _ = rtclab.Experiment.product


def test_old_names_of_results_say_the_present_ones(run: rtclab.Results) -> None:
    with pytest.raises(BadInput, match=r"Results\.is_run: .*\n  hint: write Results\.drawn_over_time"):
        _ = run.is_run


def test_an_experiment_takes_names_and_changes(tmp_path: Path) -> None:
    planned = rtclab.Experiment(["first-call", "jansen2017/mesh-4"], set={"duration": "2 s"}, repeats=1)
    assert planned.conditions.label(1) == "jansen2017-mesh-4"
    assert [planned.conditions.scenario(number).duration.s for number in (0, 1)] == [2, 2]
    with pytest.raises(BadInput, match=r"vary: .*expected one scenario"):
        rtclab.Experiment(["first-call"], vary={"link.up.loss": ["0 %"]})


def test_what_a_sweep_cannot_have_is_refused(tmp_path: Path) -> None:
    vary = {"link.up.loss": ["0 %"]}
    with pytest.raises(BadInput, match="capture: a capture lies beside a trace"):
        rtclab.run("first-call", vary=vary, capture=True, out=tmp_path)
    with pytest.raises(BadInput, match="vary: no field"):
        rtclab.sweep("first-call", out=tmp_path)
    with pytest.raises(BadInput, match=r"invite: .*expected no `vary`"):
        rtclab.run("first-call", vary=vary, backend="live", invite={"alice": "127.0.0.1"}, out=tmp_path)


def test_the_error_for_a_missing_run_names_it(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no run `first-call-sim-9`"):
        rtclab.open("first-call-sim-9", out=tmp_path)


def test_a_notebook_shows_runs_and_comparisons_as_tables(run: rtclab.Results) -> None:
    assert "2 of 3 repeats finished" in run._repr_html_()
    assert "receiving_rate" in run._repr_html_()
    assert "difference" in rtclab.compare(run, run)._repr_html_()


def test_a_comparison_of_a_part_of_the_time_has_that_part_on_its_page(
    run: rtclab.Results, tmp_path: Path
) -> None:
    whole, part = (
        rtclab.compare(run, run, **window).report(tmp_path / f"{name}.html").read_text()
        for name, window in (("whole", {}), ("part", {"begin": "1 s", "end": "3 s"}))
    )
    assert "from 1 s to 3 s" in part
    assert "the charts show the whole runs" not in whole


def test_the_overview_has_only_essential_metrics_in_their_order(run: rtclab.Results) -> None:
    names = run.overview()["metric"].unique(maintain_order=True).to_list()
    assert names == [name for name in ESSENTIAL if name in names]
    assert isinstance(run.overview(), pl.DataFrame)


def test_a_metric_that_fails_costs_no_repeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(trace: rtclab.Trace, flow: str, window: object = None) -> float:
        raise ZeroDivisionError

    one = replace(METRICS["rtt"], name="broken", function=broken, samples=None)
    monkeypatch.setitem(METRICS, "broken", one)
    made = rtclab.run("first-call", duration="2 s", repeats=3, out=tmp_path)
    assert [repeat.status for repeat in made.repeats] == ["finished"] * 3
    assert made.outcomes()["note"].to_list() == ["not measured: ZeroDivisionError: "] * 3
    with pytest.raises(ZeroDivisionError):
        made.between(begin="1 s").summary()


def test_a_resumed_run_captures_as_it_began(tmp_path: Path) -> None:
    made = rtclab.run("first-call", duration="2 s", repeats=2, capture=True, out=tmp_path, progress=False)
    with closing(sqlite3.connect(made.path / "results.sqlite")) as store, store:
        store.execute("DELETE FROM outcomes WHERE repeat = 1")  # as if it had been killed
        store.execute("DELETE FROM numbers WHERE outcome NOT IN (SELECT outcome FROM outcomes)")
    shutil.rmtree(made.repeat_path(1))
    resumed = rtclab.run(resume=made.path, out=tmp_path, progress=False)
    assert [(resumed.repeat_path(one) / "capture.pcapng").is_file() for one in (0, 1)] == [True, True]


def test_an_unknown_table_is_refused_also_without_finished_repeats(tmp_path: Path, stub: StubBackend) -> None:
    stub.failing = {0}
    run = rtclab.run("first-call", duration="2 s", repeats=1, out=tmp_path, progress=False)
    with pytest.raises(TraceError, match="nope"):
        run.table("nope")
    assert run.table("host").columns[:2] == ["repeat", "at_ns"]
    assert run.table("host").is_empty()
