"""Conditions with repeats, measures and traces of their own, and stores to which conditions are added."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from math import nan
from pathlib import Path
from random import Random
from typing import Any

import pytest

from rtclab.errors import BadInput
from rtclab.experiment import Condition, Draw, Experiment, Number, Results
from rtclab.metrics import METRICS
from rtclab.processes import process_pool
from rtclab.scenario import Scenario
from rtclab.trace import Trace

CALLED: list[tuple[str, ...]] = []


def of_flows(trace: Trace, names: Sequence[str]) -> Iterator[Number]:
    """The seed, and the rate of every flow if it is asked for; an unknown value in every repeat."""
    CALLED.append(tuple(names))
    yield Number("seed", "", float(trace.manifest.seed or 0))
    yield Number("unknown", "", nan)
    for flow in trace.flows:
        if "rate" in names:
            yield Number("rate", flow, METRICS["receiving_rate"].function(trace, flow))


def scenario(**changes: Any) -> Scenario:
    return Scenario.load("first-call", {"duration": "3 s", "record": "seconds", **changes})


def measured(conditions: dict[str, Condition], **how: Any) -> Experiment:
    return Experiment(conditions, traces=False, measure=of_flows, name="own", **how)


def values(results: Results, metric: str) -> dict[tuple[str, int, str], float]:
    rows = results.metrics(metrics=[metric])
    return {
        (row["condition"], row["repeat"], row["flow"]): row["value"] for row in rows.iter_rows(named=True)
    }


def test_each_condition_has_its_own_repeats_measures_and_traces(tmp_path: Path) -> None:
    slow, fast = scenario(), scenario(**{"link.up.capacity": "2 Mbit/s"})
    results = measured(
        {
            "slow": Condition(slow, repeats=(1, 4), measures=("rate",)),
            "fast": Condition(fast, repeats=3, measures=(), traces=1),
        }
    ).run(into=tmp_path / "own")
    seeds = values(results, "seed")
    assert seeds == {("slow", repeat, ""): slow.seed_of(repeat) for repeat in (1, 4)} | {
        ("fast", repeat, ""): fast.seed_of(repeat) for repeat in range(3)
    }
    both = ("alice->bob", "bob->alice")
    assert set(values(results, "rate")) == {("slow", repeat, flow) for repeat in (1, 4) for flow in both}
    assert (results.planned, results.finished, results.unfinished) == (5, 5, 0)
    assert set(results.metrics()["metric"]) == {"seed", "rate"}  # what is unknown has no row
    with pytest.raises(BadInput, match=r"no metric `rates`\n  hint: did you mean `rate`\?"):
        results.metrics(metrics=["rates"])
    with pytest.raises(BadInput, match=r"was measured by .*of_flows, which has a time of its own"):
        results.between(begin=1).metrics()
    assert [len(run.traces) for run in results.runs] == [0, 1]
    assert results.runs[1].traces[0].manifest.seed == fast.seed_of(0)


def test_a_function_of_ones_own_gets_the_values_of_the_metric_in_any_process(tmp_path: Path) -> None:
    conditions = {"a": Condition(scenario(), repeats=3, measures=("rate",), traces=1)}
    here = measured(conditions).run(into=tmp_path / "here", jobs=1)
    with process_pool(2) as pool:
        there = measured(conditions).run(into=tmp_path / "there", executor=pool)
    plain = Experiment([scenario()], repeats=3, metrics=["receiving_rate"]).run(out=tmp_path)
    expected = [round(value, 6) for value in plain.metrics()["value"].to_list()]
    for results in (here, there):
        assert [round(value, 6) for value in values(results, "rate").values()] == expected
        assert len(results.traces) == 3 - 2
        assert results.processor_s is not None
        assert 0 < results.processor_s < 60


def test_conditions_are_added_and_what_has_finished_does_not_run_again(tmp_path: Path) -> None:
    a, place = Condition(scenario(), repeats=2, measures=()), tmp_path / "own"
    measured({"a": a}).run(into=place)
    CALLED.clear()
    b = Condition(scenario(**{"link.up.capacity": "2 Mbit/s"}), repeats=1, measures=())
    results = measured({"b": b, "a": a}).run(into=place, renew=True)
    assert len(CALLED) == 1
    assert (results.conditions, results.finished) == (["a", "b"], 3)
    more = measured({"a": Condition(a.scenario, repeats=3, measures=())}).run(into=place)
    assert (len(CALLED), more.conditions, more.finished) == (2, ["a"], 3)
    assert Results(place).planned == 4
    other = Condition(b.scenario, repeats=1, measures=())
    changed = measured({"a": other}).run(into=place)
    assert len(CALLED) == 3
    assert (changed.finished, changed.unfinished) == (1, 2)
    assert {event.partition(":")[0] for _, event in Results(place)._store.events()} == {
        "began",
        "continued",
        "ended",
    }


def test_other_measures_are_measured_if_renewed(tmp_path: Path) -> None:
    place = tmp_path / "own"
    measured({"a": Condition(scenario(), repeats=2, measures=())}).run(into=place)
    asked = {"a": Condition(scenario(), repeats=2, measures=("rate",))}
    assert set(measured(asked).run(into=place).metrics()["metric"]) == {"seed"}
    assert len(values(measured(asked).run(into=place, renew=True), "rate")) == 4


@pytest.mark.parametrize("traces", [0, 2])
def test_a_function_of_ones_own_measures_failed_calls_too(tmp_path: Path, traces: int) -> None:
    dead = {"dead": Condition(scenario(**{"link.up.loss": "100 %"}), 2, ("rate",), traces)}
    results = measured(dead).run(into=tmp_path / "own", jobs=1)
    assert results.outcomes()["status"].to_list() == ["failed", "failed"]
    assert values(results, "seed") == {
        ("dead", repeat, ""): dead["dead"].scenario.seed_of(repeat) for repeat in (0, 1)
    }
    assert len(values(results, "rate")) == 4
    assert 0 < (results.processor_s or 0) < 60
    # Metrics say of a failed call only that it failed.
    plain = Experiment([dead["dead"].scenario], repeats=2).run(out=tmp_path)
    assert plain.metrics()["metric"].to_list() == ["call_failures"] * 2


def test_a_repeat_whose_trace_is_asked_for_later_or_was_deleted_runs_again_if_renewed(tmp_path: Path) -> None:
    place = tmp_path / "own"

    def traces(**how: Any) -> int:
        asked = {"a": Condition(scenario(), repeats=2, measures=(), traces=1)}
        return len(measured(asked).run(into=place, jobs=1, **how).traces)

    measured({"a": Condition(scenario(), repeats=2, measures=())}).run(into=place, jobs=1)
    CALLED.clear()
    assert traces(renew=True) == 1
    assert traces(renew=True) == 1
    assert len(CALLED) == 1
    shutil.rmtree(Results(place).runs[0].repeat_path(0))
    assert traces(renew=True) == 1
    assert len(CALLED) == 2


def fails_once(trace: Trace, names: Sequence[str]) -> list[Number]:
    """An error in the repeat with an even seed, of two consecutive ones."""
    return [Number("odd", "", 1 / ((trace.manifest.seed or 0) % 2))]


@pytest.mark.parametrize("traces", [False, True])
def test_a_repeat_that_cannot_be_measured_says_why_and_the_others_are_kept(
    tmp_path: Path, traces: bool
) -> None:
    one = scenario(seed=1)
    expected = [
        "not measured: ZeroDivisionError: division by zero" if one.seed_of(n) % 2 == 0 else ""
        for n in range(4)
    ]
    made = Experiment({"a": Condition(one, repeats=4)}, traces=traces, measure=fails_once).run(out=tmp_path)
    assert 0 < expected.count("") < 4
    assert made.outcomes()["note"].to_list() == expected
    assert made.metrics()["value"].drop_nulls().to_list() == [1.0] * expected.count("")


def test_several_conditions_are_chosen_by_their_labels(tmp_path: Path) -> None:
    each = {label: Condition(scenario(), repeats=1, measures=()) for label in "abc"}
    results = measured(each).run(into=tmp_path / "own", jobs=1)
    assert results[["c", "a"]].conditions == ["a", "c"]
    of_each = [results[label].processor_s or 0 for label in "ac"]
    assert results[["c", "a"]].processor_s == pytest.approx(sum(of_each))
    with pytest.raises(BadInput, match="no condition `d` in own"):
        results[["a", "d"]]


def test_a_store_for_more_conditions_refuses_another_way_to_measure(tmp_path: Path) -> None:
    place = tmp_path / "own"
    measured({"a": Condition(scenario(), repeats=1)}).run(into=place)
    with pytest.raises(BadInput, match=r"was made with measure `.*of_flows`; got ``"):
        Experiment({"b": scenario()}, traces=False, metrics="rtt").run(into=place)
    alone = Experiment({"b": scenario()}, repeats=1).run(out=tmp_path)
    with pytest.raises(BadInput, match="was made by another command\n  hint: name another directory"):
        Experiment({"c": scenario()}, repeats=1).run(into=alone.path)
    with pytest.raises(BadInput, match="into: conditions that are a product"):
        Experiment.product("first-call", {"link.up.loss": ["0 %", "1 %"]}).run(into=tmp_path / "new")
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("function", [lambda trace, names: [], measured])
def test_a_function_that_no_worker_could_import_is_refused(function: Any) -> None:
    def inner(trace: Trace, names: Sequence[str]) -> list[Number]:
        return []

    chosen = inner if function is measured else function
    with pytest.raises(BadInput, match=r"measure: .* cannot be imported; expected a function of a module"):
        Experiment({"a": scenario()}, measure=chosen)


def test_fields_are_drawn_anew_for_every_repeat_and_the_seed_decides(tmp_path: Path) -> None:
    draw = Draw(field="link.up.capacity", words="capacity", one_of=("300 kbit/s", "3 Mbit/s"))
    condition = Condition(scenario(), repeats=8, measures=("rate",), draws=[draw], traces=2)
    results = measured({"a": condition}).run(into=tmp_path / "a")
    again = measured({"a": condition}).run(into=tmp_path / "b", jobs=1)
    assert values(results, "rate") == values(again, "rate")
    up = {key[1]: rate for key, rate in values(results, "rate").items() if key[2] == "alice->bob"}
    slow = sum(rate < 310 for rate in up.values())
    assert 0 < slow < 8  # with one value for all it would be 0 or 8
    assert [trace.manifest.scenario["link"]["up"]["capacity"] for trace in results.traces] == [
        "300 kbit/s" if up[repeat] < 310 else "3 Mbit/s" for repeat in (0, 1)
    ]
    CALLED.clear()
    other = Draw(field="link.up.capacity", words="capacity", one_of=("300 kbit/s", "2 Mbit/s"))
    measured({"a": Condition(scenario(), 8, ("rate",), 2, [other])}).run(into=tmp_path / "a")
    assert len(CALLED) == 8


@pytest.mark.parametrize(
    ("field", "low", "high", "unit"),
    [
        ("link.up.capacity", 0.0002, 0.002, "Gbit/s"),
        ("link.up.capacity", 200_000, 2_000_000, "bit/s"),
        ("link.up.delay", 0.002, 0.02, "s"),
        ("link.up.queue", 10_000, 100_000, "B"),
        ("link.up.loss", 0.01, 1, "%"),
    ],
)
def test_a_drawn_value_has_significant_digits_in_any_unit(
    field: str, low: float, high: float, unit: str
) -> None:
    draw = Draw(field=field, words="", log_uniform=(low, high), unit=unit)
    source = Random(1)
    texts = [*draw.ends, *(draw.value(source) for _ in range(100))]
    for text in texts:
        scenario(**{field: text})
    assert len(set(texts)) > 95
    numbers = [float(text.removesuffix(f" {unit}")) for text in texts]
    assert (min(numbers), max(numbers)) == (low, high)
    assert (
        min(numbers) < sum(numbers) / len(numbers) < (low + high) / 2
    )  # small values are as likely as large


def test_what_cannot_be_drawn_is_refused_before_anything_runs(tmp_path: Path) -> None:
    draw = Draw(field="link.up.loss", words="loss", log_uniform=(50, 200), unit="%")
    with pytest.raises(BadInput, match=r"`200 %` is more than 100 %"):
        measured({"a": Condition(scenario(), repeats=1, draws=[draw])})
    with pytest.raises(ValueError, match=r"log_uniform: got \(0.0, 2.0\); expected a positive number"):
        Draw(field="link.up.loss", words="loss", log_uniform=(0, 2), unit="%")


def test_a_store_of_schema_1_is_upgraded_and_keeps_its_values(tmp_path: Path) -> None:
    made = Experiment([scenario()], repeats=2, metrics=["receiving_rate"], traces=False).run(out=tmp_path)
    before = made.metrics()
    with closing(sqlite3.connect(made.path / "results.sqlite")) as database, database:
        database.execute("ALTER TABLE outcomes DROP COLUMN processor_s")
        database.execute("UPDATE about SET value = '1' WHERE key = 'schema'")
    os.utime(made.path / "results.sqlite", ns=(1, 1))
    opened = Results(made.path)
    assert opened.metrics().equals(before)
    assert opened.processor_s is None
    assert (made.path / "results.sqlite").stat().st_mtime_ns == 1  # it did not become the latest
    assert Results(made.path).finished == 2
