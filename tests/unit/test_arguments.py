"""Arguments that are lists or paths, of every public function: a text is not taken letter by letter."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rtclab
from rtclab.errors import BadInput, RtclabError
from rtclab.experiment import Condition

LIST = re.compile(r"\b(Sequence|Mapping|Iterable|Collection|list|dict|tuple|Names|Changes)\b")
LETTERS = "rtt"
"""A text whose letters are no items of anything."""


def public_functions() -> Iterator[tuple[str, Callable[..., object]]]:
    """The functions of ``rtclab``, and the methods of its classes, with their names.

    Most data classes have no entry for their constructor, because rtclab alone calls it.
    """
    public = {name: getattr(rtclab, name) for name in [*rtclab.__all__, "open"]} | {"Condition": Condition}
    for name, one in public.items():
        if inspect.isfunction(one):
            yield name, one
        for method in dir(one) if inspect.isclass(one) else ():
            made_by_rtclab = method == "__init__" and dataclasses.is_dataclass(one) and one is not Condition
            if made_by_rtclab or (method.startswith("_") and method not in ("__init__", "__getitem__")):
                continue
            value = inspect.getattr_static(one, method)
            function = getattr(value, "__func__", value)
            if inspect.isfunction(function) and function.__module__.startswith("rtclab"):
                yield f"{name}.{method}", function


ARGUMENTS = {
    f"{name}({argument})": str(annotation)
    for name, function in public_functions()
    for argument, annotation in function.__annotations__.items()
    if argument != "return"
}
"""The annotation of every argument of every public function."""


@dataclasses.dataclass(frozen=True)
class Case:
    """How an argument is passed, and what it takes.

    Attributes:
        call: calls the function with the argument; what it returns can be compared.
        one: a text that is taken as a list with this one item; None if texts are refused.
        path: a path that is taken as a list with this one item; None if paths are refused.
        empty: what an empty list means; None if it is refused.
    """

    call: Callable[[Any], object]
    one: str | None = None
    path: Path | None = None
    empty: str | None = None


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("arguments")


@pytest.fixture(scope="module")
def run(place: Path) -> rtclab.Results:
    """A short call with a capture."""
    return rtclab.run("first-call", duration="4 s", repeats=1, capture=True, out=place, progress=False)


@pytest.fixture(scope="module")
def swept(place: Path) -> rtclab.Results:
    """A sweep of two fields."""
    vary = {"link.up.loss": ["0 %", "2 %"], "link.up.delay": ["10 ms"]}
    return rtclab.sweep("first-call", vary, duration="4 s", repeats=1, out=place, progress=False)


@pytest.fixture(scope="module")
def cases(run: rtclab.Results, swept: rtclab.Results, place: Path) -> dict[str, Case]:
    capture = run.repeat_path(0) / "capture.pcapng"
    short = {"duration": "4 s", "repeats": 1, "progress": False, "out": place}
    change = "link.up.delay=10 ms"
    loaded = rtclab.Scenario.load("first-call", {"duration": "4 s", "repeats": 1})
    nothing_changes, all_of_them = "nothing is changed", "all that come with rtclab"

    def stepped(changes: Any) -> object:
        simulation = rtclab.Simulation(loaded)
        simulation.change(changes)
        return simulation.scenario

    def imported(**given: Any) -> list[str]:
        return rtclab.import_files(**{"files": capture} | given, out=place).traces[0].flows

    def written(tables: Any) -> list[str]:
        return rtclab.Trace.write(place / "written", tables, run.traces[0].manifest).tables

    def in_arena(controls: Any) -> list[str]:
        from rtclab.arenas.controls import choices  # `arena` itself takes minutes

        return [*choices(controls)]

    return {
        "run(set)": Case(
            lambda given: rtclab.run("first-call", set=given, **short).scenario, change, None, nothing_changes
        ),
        "run(invite)": Case(
            lambda given: rtclab.run("first-call", backend="live", invite=given or LETTERS, **short)
        ),
        "sweep(vary)": Case(lambda given: rtclab.sweep("first-call", given, **short)),
        "run(vary)": Case(lambda given: rtclab.run("first-call", vary=given, **short)),
        "run(metrics)": Case(lambda given: rtclab.run("first-call", metrics=given, **short).metrics(), "rtt"),
        "compare(labels)": Case(lambda given: rtclab.compare(run, run, labels=given)),
        "import_files(files)": Case(lambda given: imported(files=given), str(capture), capture),
        "import_files(names)": Case(lambda given: imported(names=given)),
        "scenario_from(call)": Case(
            lambda given: rtclab.scenario_from(given, out=place).text, str(capture), capture
        ),
        "scenario_from(names)": Case(lambda given: rtclab.scenario_from(capture, names=given)),
        "link(command)": Case(rtclab.link),
        "remedies(own)": Case(lambda given: rtclab.remedies(loaded, own=given, repeats=1)),
        "arena(controls)": Case(in_arena, "goog-cc", None, all_of_them),
        "simulate_together(scenarios)": Case(rtclab.simulate_together),
        "Comparison.__init__(runs)": Case(rtclab.Comparison),
        "Comparison.__init__(metrics)": Case(
            lambda given: rtclab.Comparison([run, run], metrics=given).table(), "rtt"
        ),
        "compare(metrics)": Case(lambda given: rtclab.compare(run, run, metrics=given).table(), "rtt"),
        "Comparison.__init__(hypothesis)": Case(
            lambda given: rtclab.Comparison([run, run], hypothesis=given).table(), "rtt"
        ),
        "compare(hypothesis)": Case(lambda given: rtclab.compare(run, run, hypothesis=given).table(), "rtt"),
        "Results.rows_of_flows(metrics)": Case(
            lambda given: run.rows_of_flows(run.summary(), "*->bob", given),
            "fairness",
            None,
            "none was named",
        ),
        "Results.without_value(metrics)": Case(
            lambda given: run.without_value(given, run.summary()), "tcp_rtt", None, "nothing is asked"
        ),
        "Comparison.__init__(labels)": Case(lambda given: rtclab.Comparison([run, run], given)),
        "Experiment.__init__(conditions)": Case(
            lambda given: rtclab.Experiment(given).conditions, "first-call", Path("first-call")
        ),
        "Condition.__init__(repeats)": Case(
            lambda given: Condition(loaded, given).settings, None, None, "no repeat"
        ),
        "Condition.__init__(measures)": Case(
            lambda given: Condition(loaded, measures=given).settings, "rate", None, "nothing is measured"
        ),
        "Condition.__init__(draws)": Case(
            lambda given: Condition(loaded, draws=given).settings, None, None, "nothing is drawn"
        ),
        "Condition.__init__(fields)": Case(lambda given: Condition(loaded, fields=given).settings),
        "Experiment.__init__(vary)": Case(lambda given: rtclab.Experiment(loaded, vary=given)),
        "Experiment.__init__(set)": Case(
            lambda given: rtclab.Experiment(loaded, set=given).conditions.scenario(0),
            change,
            None,
            nothing_changes,
        ),
        "Experiment.__init__(metrics)": Case(
            lambda given: rtclab.Experiment([loaded], metrics=given).about.metrics, "rtt"
        ),
        "Results.where(values)": Case(lambda given: swept.where(given)),
        "Results.__init__(traces)": Case(
            lambda given: rtclab.Results(run.path, given).finished, None, None, "none is opened"
        ),
        "Results.__init__(chosen)": Case(
            lambda given: rtclab.Results(run.path, None, given).planned, None, None, "no condition"
        ),
        "Results.__getitem__(labels)": Case(
            lambda given: swept[given].conditions, "link.up.loss = 0 %, link.up.delay = 10 ms"
        ),
        "Results.metrics(metrics)": Case(lambda given: run.metrics(metrics=given), "rtt"),
        "Results.values_of_repeats(metrics)": Case(lambda given: run.values_of_repeats(metrics=given), "rtt"),
        "Results.export(metrics)": Case(
            lambda given: pl.read_csv(run.export(place / "values.csv", metrics=given)), "rtt"
        ),
        "Results.summary(metrics)": Case(lambda given: run.summary(metrics=given), "rtt"),
        "Results.summary(by)": Case(lambda given: swept.summary(by=given), "link.up.loss"),
        "Results.plot(average)": Case(
            lambda given: swept.plot("rtt", average=given).caption, "link.up.loss", None, "of no field"
        ),
        "Scenario.load(set)": Case(
            lambda given: rtclab.Scenario.load(loaded, given), change, None, nothing_changes
        ),
        "Simulation.change(set)": Case(stepped, change, None, nothing_changes),
        "Trace.from_pcap(names)": Case(lambda given: rtclab.Trace.from_pcap(capture, names=given)),
        "Trace.in_memory(tables)": Case(
            lambda given: rtclab.Trace.in_memory(given or LETTERS, run.traces[0].manifest)
        ),
        "Trace.write(tables)": Case(written),
    }


def outcome(call: Callable[[Any], object], given: object) -> object:
    """What a call returns or raises, in a form that can be compared."""
    try:
        made = call(given)
    except RtclabError as error:
        return type(error), str(error)
    return made.to_dicts() if isinstance(made, pl.DataFrame) else made


def refusal(call: Callable[[Any], object], given: object) -> str:
    with pytest.raises(BadInput) as refused:
        call(given)
    return str(refused.value)


LISTS = [name for name, annotation in ARGUMENTS.items() if LIST.search(annotation)]


@pytest.mark.parametrize("argument", LISTS)
def test_a_text_is_one_item_or_refused(argument: str, cases: dict[str, Case]) -> None:
    case = cases[argument]
    if case.one is None:
        assert "expected" in refusal(case.call, LETTERS)
    else:
        assert outcome(case.call, case.one) == outcome(case.call, [case.one])


@pytest.mark.parametrize("argument", LISTS)
def test_a_path_is_one_item_or_refused(argument: str, cases: dict[str, Case]) -> None:
    case = cases[argument]
    if case.path is None:
        assert "expected" in refusal(case.call, Path(LETTERS))
    else:
        assert outcome(case.call, case.path) == outcome(case.call, [case.path])


@pytest.mark.parametrize("argument", LISTS)
def test_an_empty_list_is_refused_unless_it_means_something(argument: str, cases: dict[str, Case]) -> None:
    case = cases[argument]
    if case.empty is None:
        assert "expected" in refusal(case.call, [])
    else:
        case.call([])


def test_every_list_has_a_case_and_no_case_is_left_over(cases: dict[str, Case]) -> None:
    assert cases.keys() == set(LISTS)


@pytest.mark.parametrize("argument", [name for name, of in ARGUMENTS.items() if "Path" in of])
def test_every_path_may_be_a_text(argument: str) -> None:
    assert re.search(r"\bstr\b", ARGUMENTS[argument])


def test_traces_are_opened_and_saved_by_texts(run: rtclab.Results, tmp_path: Path) -> None:
    opened = rtclab.Trace(str(run.repeat_path(0)))
    assert opened.save(str(tmp_path / "copy")).flows == opened.flows
    assert rtclab.Results(str(run.path)).finished == 1
    capture = str(run.repeat_path(0) / "capture.pcapng")
    assert rtclab.Trace.from_pcap(capture, out=str(tmp_path / "captured")).path.is_dir()


def test_an_experiment_takes_one_scenario(run: rtclab.Results) -> None:
    assert len(rtclab.Experiment(rtclab.Scenario.load("first-call")).conditions) == 1
