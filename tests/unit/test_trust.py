"""Nobody's code runs unasked: every command and function that is given files of a stranger.

The stranger's scenarios, suites and results name ``evil.py``, which leaves a mark when it is imported.
"""

from __future__ import annotations

import inspect
import os
import shutil
import sqlite3
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import typer
from command_line import Rtclab

import rtclab as lab
from rtclab import lab as functions
from rtclab.cli.app import app
from rtclab.errors import BadInput
from rtclab.experiment import Condition, Draw, Experiment, Results, definitions
from rtclab.scenario import Scenario
from rtclab.scenario.trust import HINT, is_stranger, project_root

EVIL = """
from pathlib import Path

Path(__file__).with_name("imported").touch()


class Control:
    def __init__(self, bounds):
        self.rate = bounds.start

    def on_feedback(self, now, feedback):
        return self.rate


def measure(trace, names):
    return []
"""
CALL = 'name = "call"\nduration = "1 s"\nrepeats = 1\n[audio]\n[participants.a]\n[participants.b]\n'
SHORT = {"duration": "1 s", "repeats": 1, "progress": False}


@dataclass(frozen=True)
class Elsewhere:
    """Files of a stranger, and whether the user trusts them."""

    place: Path
    trust: bool = False

    @property
    def evil(self) -> Path:
        return self.place / "evil.py"

    @property
    def imported(self) -> bool:
        """Whether the stranger's code ran."""
        return (self.place / "imported").exists()

    def __getitem__(self, name: str) -> Path:
        return self.place / name


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Elsewhere:
    """The stranger's files, made where the stranger works."""
    theirs = Elsewhere(tmp_path_factory.mktemp("downloads"))
    theirs.evil.write_text(EVIL)
    own = f'control = "{theirs.evil}:Control"\n'
    theirs["call.toml"].write_text(own + CALL)
    theirs["plain.toml"].write_text(CALL)
    only_b = f'congestion_control.name = "{theirs.evil}:Control"\n[video]\n'
    theirs["one.toml"].write_text(CALL + only_b)
    named = f'set = {{ "congestion_control.name" = "{theirs.evil}:Control", duration = "1 s" }}\n'
    for kind, table, limits in (
        ("gate", "scenarios", 'limits = ["rtt < 9 s"]\nrepeats = 1\n'),
        ("arena", "cases", "pairings = false\n"),
    ):
        for name, rest in (
            ("file", 'scenario = "call.toml"\n'),
            ("participant", 'scenario = "one.toml"\n'),
            ("set", 'scenario = "first-call"\n' + named),
        ):
            theirs[f"{kind}-{name}.toml"].write_text(f"{limits}[{table}.x]\n{rest}")
    here, path = Path.cwd(), list(sys.path)
    os.chdir(theirs.place)
    sys.path.insert(0, str(theirs.place))
    try:
        import evil  # type: ignore[import-not-found]

        call, plain = Scenario.load("call.toml"), Scenario.load("plain.toml")
        draw = Draw(field="congestion_control.name", words="control", one_of=(f"{theirs.evil}:Control",))
        for name, one, how in (
            ("run", call, {}),
            ("measured", plain, {"measure": evil.measure}),
            ("drawn", Condition(plain, draws=[draw]), {"traces": False}),
        ):
            found = Experiment([one], repeats=1, **how).run(out="made", progress=False)
            found.path.rename(name)
        lab.sweep("call.toml", {"link.up.loss": ["0 %", "1 %"]}, out="made", **SHORT).path.rename("sweep")  # type: ignore[arg-type]
    finally:
        os.chdir(here)
        sys.path[:] = path
        sys.modules.pop("evil", None)
        definitions._PASSED.discard("evil:measure")
    # Other definitions measured it, so a reader would measure it again.
    with closing(sqlite3.connect(theirs["measured"] / "results.sqlite")) as database, database:
        database.execute("UPDATE outcomes SET definitions = 'other'")
    return theirs


@pytest.fixture
def elsewhere(made: Elsewhere, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Elsewhere]:
    """The stranger's files, in a directory beside the project. Python would find ``evil`` there."""
    home = tmp_path / "project"
    home.mkdir()
    shutil.copytree(made.place, tmp_path / "downloads")
    (made.place / "imported").unlink(missing_ok=True)
    (tmp_path / "downloads" / "imported").unlink(missing_ok=True)
    monkeypatch.syspath_prepend(str(tmp_path / "downloads"))
    monkeypatch.chdir(home)
    theirs = Elsewhere(tmp_path / "downloads")
    # All name the copy of evil.py that lies beside them.
    for file in theirs.place.glob("*.toml"):
        file.write_text(file.read_text().replace(str(made.place), str(theirs.place)))
    for file in theirs.place.glob("*/results.sqlite"):
        with closing(sqlite3.connect(file)) as database, database:
            database.execute(
                "UPDATE about SET value = replace(value, ?, ?)", [str(made.place), str(theirs.place)]
            )
    yield theirs
    sys.modules.pop("evil", None)


def control(theirs: Elsewhere) -> str:
    return f"congestion_control.name: {theirs.evil}:Control"


REFUSED: dict[str, Sequence[str]] = {
    "run": ["run {call.toml}", "run --resume {run} --repeats 2", "run --resume {drawn} --repeats 2"],
    "sweep": ["sweep {call.toml} --vary link.up.loss=0%,1%", "sweep --resume {sweep} --repeats 2"],
    "remedy": ["remedy {call.toml} --repeats 2", "remedy {run} --repeats 2"],
    "gate": [f"gate {{gate-{name}.toml}}" for name in ("file", "participant", "set")],
    "arena": [
        f"arena goog-cc --suite {{arena-{name}.toml}} --repeats 1 --jobs 1"
        for name in ("file", "participant", "set")
    ],
}
"""Command lines that would run what a stranger's files name, by command."""
READING: dict[str, Sequence[str]] = {
    "show": ["show {call.toml}", "show {run}", "show {measured}", "show {sweep} --json"],
    "measure": ["measure {run}", "measure {measured}", "measure {sweep} --all"],
    "why": ["why {run}", "why {measured}"],
    "report": ["report {run}", "report {measured}", "report {sweep}"],
    "export": ["export {run}", "export {measured}", "export {sweep} --json"],
    "watch": ["watch {run}"],
    "runs": ["runs --out {}"],
    "compare": ["compare {run} {measured}"],
    "delete": ["delete {measured} --yes"],
    "scenario from": ["scenario from {run}", "scenario from {measured}"],
}
"""Command lines that only read a stranger's files, by command."""
OF_NEITHER = {
    **dict.fromkeys(("list", "metrics", "doctor", "schema"), "takes no files"),
    **dict.fromkeys(("import", "replay", "monitor"), "reads captures and logs"),
    "link": "runs the user's command",
    "reproduce": "runs the papers' own scenarios",
    **{
        f"validate {name}": "runs the papers' own scenarios"
        for name in (
            "scenarios",
            "random",
            "again",
            "recorded",
            "meetings",
            "kinds",
            "marks",
            "l4s",
            "arena",
            "why",
        )
    },
    **dict.fromkeys(
        ("validate tcp", "validate from-calls", "validate field-reports"), "runs the papers' own scenarios"
    ),
}


def commands(group: Any, above: str = "") -> Iterator[str]:
    """The names of all commands."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        one = group.get_command(context, name)
        if hasattr(one, "list_commands"):
            yield from commands(one, f"{above}{name} ")
        else:
            yield f"{above}{name}"


def test_no_command_is_forgotten() -> None:
    assert set(commands(typer.main.get_command(app))) == {*REFUSED, *READING, *OF_NEITHER}
    for one in typer.main.get_command(app).commands.values():  # type: ignore[attr-defined]
        assert ("--trust" in [name for given in one.params for name in given.opts]) == (one.name in REFUSED)


def arguments(line: str, theirs: Elsewhere) -> list[str]:
    """The words of a command line, in which ``{name}`` is a file of the stranger."""
    return [str(theirs[word[1:-1]]) if word.startswith("{") else word for word in line.split()]


@pytest.mark.parametrize("line", [line for lines in REFUSED.values() for line in lines])
def test_a_command_that_would_run_a_strangers_code_refuses_and_names_it(
    rtclab: Rtclab, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(elsewhere.place.parent / "project")
    words = arguments(line, elsewhere)
    words += ["--no-report"] if words[0] in ("run", "sweep") else []
    refused = rtclab(*words)
    assert refused.status == 2
    assert not elsewhere.imported
    assert f"{elsewhere.place}/" in refused.err.split(" outside of the current project")[0]
    assert (
        f"congestion_control.name: {elsewhere.evil}:Control\n" in refused.err.split("would do as you:\n")[1]
    )
    assert f"hint: {HINT}\n" in refused.err
    assert not list(Path.cwd().iterdir())
    trusted = rtclab(*words, "--trust")
    assert trusted.status != 2, trusted.err
    assert f"{elsewhere.evil}:Control\n" in trusted.err.split("as you:\n")[1]
    assert elsewhere.imported


@pytest.mark.parametrize("line", [line for lines in READING.values() for line in lines])
def test_a_command_that_reads_a_strangers_files_runs_none_of_it(
    rtclab: Rtclab, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    monkeypatch.chdir(elsewhere.place.parent / "project")

    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(functions, "sleep", interrupt)  # watch ends at once
    done = rtclab(*arguments(line, elsewhere))
    assert done.status in (0, 130), done.err
    assert not elsewhere.imported


Function = Callable[[Elsewhere], object]

RUNNING: dict[str, Sequence[Function]] = {
    "run": [
        lambda it: lab.run(it["call.toml"], **SHORT, trust=it.trust),  # type: ignore[arg-type]
        lambda it: lab.run(Scenario.load(it["call.toml"]), **SHORT, trust=it.trust),  # type: ignore[arg-type]
        lambda it: lab.run(resume=it["run"], repeats=2, progress=False, trust=it.trust),
    ],
    "sweep": [
        lambda it: lab.sweep(it["call.toml"], {"link.up.loss": ["0 %"]}, **SHORT, trust=it.trust),  # type: ignore[arg-type]
        lambda it: lab.sweep(resume=it["sweep"], repeats=2, progress=False, trust=it.trust),
    ],
    "gate": [lambda it: lab.gate(it["gate-file.toml"], progress=False, trust=it.trust)],
    "arena": [
        lambda it: lab.arena(
            ["goog-cc"], suite=it["arena-file.toml"], repeats=1, jobs=1, progress=False, trust=it.trust
        )
    ],
    "remedies": [
        lambda it: lab.remedies(it["call.toml"], repeats=2, trust=it.trust),
        lambda it: lab.remedies(it["run"], repeats=2, trust=it.trust),
    ],
    "simulate": [lambda it: lab.simulate(it["call.toml"], trust=it.trust)],
    "simulate_together": [
        lambda it: lab.simulate_together([(Scenario.load(it["call.toml"], trust=it.trust), [1])])
    ],
    "Simulation": [lambda it: lab.Simulation(it["call.toml"], trust=it.trust)],
    "Experiment": [
        lambda it: lab.Experiment([Scenario.load(it["call.toml"], trust=it.trust)]),
        lambda it: lab.Experiment({"x": Condition(Scenario.load(it["call.toml"], trust=it.trust))}),
        lambda it: lab.Experiment(it["call.toml"], vary={"link.up.loss": ["0 %"]}, trust=it.trust),
    ],
}
"""Calls that would run what a stranger's files name, by public function."""


def everything_of(results: lab.Results) -> None:
    """Calls all that results can do without arguments."""
    for name in sorted(set(dir(results)) - {"raise_for_failures"}):
        if not name.startswith("_") and hasattr(results, name):  # names of earlier versions raise errors
            value = getattr(results, name)
            needed = (
                [one for one in parameters(value) if one.default is one.empty] if callable(value) else [0]
            )
            if not needed:
                value()
    results._repr_html_()


def parameters(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


LOOKING: dict[str, Sequence[Function]] = {
    "Scenario": [lambda it: Scenario.load(it["call.toml"]).native(seed=1)],
    "Results": [
        lambda it: everything_of(Results(it["measured"])),
        lambda it: everything_of(Results(it["run"])),
        lambda it: Results(it["drawn"]).summary(),
        lambda it: Results(it["sweep"]).report(),
    ],
    "open": [lambda it: everything_of(lab.open(it["measured"]))],
    "compare": [lambda it: lab.compare(it["run"], it["measured"]).report()],
    "Comparison": [lambda it: lab.compare(it["run"], it["measured"]).table()],
    "Trace": [lambda it: lab.Trace(it["measured"] / "repeat-0").metrics()],
    "list_runs": [lambda it: lab.list_runs(it.place)],
    "show": [lambda it: lab.show(it["measured"])],
    "scenario_from": [lambda it: lab.scenario_from(it["measured"])],
}
"""Calls that only read a stranger's files, by public function."""
WITHOUT = {
    "__version__": "is a text",
    **dict.fromkeys(("Arena", "GateResult", "Remedies"), "is made by a function"),
    **dict.fromkeys(("Condition", "Draw", "Number"), "is made of values"),
    **dict.fromkeys(("watch", "delete"), "reads no scenario"),
    "metric": "decorates the caller's function",
    **dict.fromkeys(("doctor", "list_metrics", "list_scenarios"), "takes no files"),
    **dict.fromkeys(("import_files", "monitor", "replay"), "reads captures and logs"),
    "link": "runs the caller's command",
}


def test_no_public_function_is_forgotten() -> None:
    assert set(dir(lab)) == {*RUNNING, *LOOKING, *WITHOUT}


def cases(table: dict[str, Sequence[Function]]) -> list[Any]:
    return [
        pytest.param(function, id=f"{name}-{number}")
        for name, calls in table.items()
        for number, function in enumerate(calls)
    ]


@pytest.mark.parametrize("call", cases(RUNNING))
def test_a_function_that_would_run_a_strangers_code_refuses_and_names_it(
    elsewhere: Elsewhere, call: Function
) -> None:
    with pytest.raises(BadInput) as refused:
        call(elsewhere)
    assert not elsewhere.imported
    assert f"{elsewhere.place}/" in refused.value.message
    assert control(elsewhere) in refused.value.message
    assert "trust=" in str(refused.value.hint)
    call(replace(elsewhere, trust=True))
    assert elsewhere.imported


@pytest.mark.parametrize("call", cases(LOOKING))
def test_a_function_that_reads_a_strangers_files_runs_none_of_it(
    elsewhere: Elsewhere, call: Function
) -> None:
    call(elsewhere)
    assert not elsewhere.imported


def test_an_environment_refuses_a_strangers_code(elsewhere: Elsewhere) -> None:
    gym = pytest.importorskip("rtclab.gym")
    with pytest.raises(BadInput, match="would do as you"):
        gym.CallEnv(elsewhere["call.toml"])
    assert not elsewhere.imported
    gym.CallEnv(Scenario.load(elsewhere["call.toml"], trust=True))
    assert elsewhere.imported


def test_resuming_a_strangers_results_asks_for_the_function_that_measures_them(elsewhere: Elsewhere) -> None:
    with pytest.raises(BadInput, match="and would do as you:\n  measure: evil:measure") as refused:
        lab.run(resume=elsewhere["measured"], repeats=2, progress=False)
    assert str(elsewhere["measured"]) in refused.value.message
    assert not elsewhere.imported
    lab.run(resume=elsewhere["measured"], repeats=2, progress=False, trust=True)
    assert elsewhere.imported


def test_values_are_measured_again_by_a_function_that_this_program_has_passed(elsewhere: Elsewhere) -> None:
    import evil

    def digests() -> list[str]:
        return Results(elsewhere["measured"])._store.outcomes()["definitions"].to_list()

    Results(elsewhere["measured"]).summary()
    assert digests() == ["other"]
    try:
        Experiment([Scenario.load(elsewhere["plain.toml"])], measure=evil.measure)
        Results(elsewhere["measured"]).summary()
        assert digests() != ["other"]
    finally:
        definitions._PASSED.discard("evil:measure")


def test_what_the_user_names_needs_no_trust(rtclab: Rtclab, elsewhere: Elsewhere) -> None:
    short = ("--duration", "1s", "--repeats", "1", "--no-report")
    for option in ("--control", "--set"):
        value = f"{elsewhere.evil}:Control"
        given = value if option == "--control" else f"control={value}"
        assert rtclab("run", str(elsewhere["plain.toml"]), option, given, *short).status == 0
    both = f"participants.a.control+participants.b.control={elsewhere.evil}:Control"
    assert rtclab("run", str(elsewhere["plain.toml"]), "--set", both, *short).status == 0
    # The stranger's control is not used then.
    assert rtclab("run", str(elsewhere["call.toml"]), "--control", "goog-cc", *short).status == 0
    assert elsewhere.imported
    (elsewhere.place / "imported").unlink()
    text = CALL + f'[congestion_control]\nname = "{elsewhere.evil}:Control"\n'
    Experiment([Scenario.read(tomllib.loads(text), "here")])
    assert elsewhere.imported


def test_another_field_of_a_strangers_control_is_no_permission(elsewhere: Elsewhere) -> None:
    changes = {"congestion_control.stack": "chrome-156", "participants.a.congestion_control.options.x": 1}
    with pytest.raises(BadInput, match="would do as you"):
        lab.run(elsewhere["call.toml"], set=changes, **SHORT)  # type: ignore[arg-type]
    assert not elsewhere.imported


def test_all_that_a_strangers_results_would_do_is_listed_at_once(elsewhere: Elsewhere) -> None:
    with closing(sqlite3.connect(elsewhere["run"] / "results.sqlite")) as database, database:
        database.execute(
            'UPDATE about SET value = replace(value, \'"measure": ""\', \'"measure": "os:system"\') '
            "WHERE key = 'about'"
        )
    with pytest.raises(BadInput) as refused:
        lab.run(resume=elsewhere["run"], repeats=2, progress=False)
    assert refused.value.message.endswith(f"as you:\n  measure: os:system\n  {control(elsewhere)}")


def test_a_file_is_judged_by_where_it_really_is(elsewhere: Elsewhere) -> None:
    Path("link.toml").symlink_to(elsewhere["call.toml"])
    Path("directory").symlink_to(elsewhere.place)
    Path("extends.toml").write_text('name = "x"\nextends = "directory/call"\n')
    for name in ("link.toml", "directory/call.toml", "extends.toml"):
        with pytest.raises(BadInput, match="would do as you"):
            lab.run(name, **SHORT)  # type: ignore[arg-type]
    Path("linked-run").symlink_to(elsewhere["run"])
    with pytest.raises(BadInput, match="would do as you"):
        lab.run(resume="linked-run", repeats=2, progress=False)
    assert not elsewhere.imported
    Path("copy.toml").write_text(elsewhere["call.toml"].read_text())
    assert not is_stranger(Path("copy.toml"))


def test_the_project_is_the_repository_around_the_current_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside = tmp_path / "repository" / "a" / "b"
    inside.mkdir(parents=True)
    monkeypatch.chdir(inside)
    assert project_root() == inside
    (tmp_path / "repository" / ".git").mkdir()
    assert project_root() == tmp_path / "repository"
    assert not is_stranger(tmp_path / "repository" / "x.toml")
    assert is_stranger(tmp_path / "x.toml")
    (inside / ".jj").mkdir()
    assert project_root() == inside


def test_a_home_directory_under_version_control_is_no_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = tmp_path / "home" / "work"
    work.mkdir(parents=True)
    for place in (tmp_path, tmp_path / "home"):
        (place / ".git").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.chdir(work)
    assert project_root() == work
    assert is_stranger(tmp_path / "home" / "Downloads" / "x.toml")
    assert not is_stranger(work / "x.toml")
    monkeypatch.chdir(tmp_path / "home")
    assert is_stranger(tmp_path / "home" / "Downloads" / "x.toml")
    assert not is_stranger(tmp_path / "home" / "x.toml")


@pytest.mark.parametrize("foreign", [".git", ".", "a"])
def test_a_repository_of_another_user_is_no_project(
    elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch, foreign: str
) -> None:
    """In a shared directory, another user makes a repository, in which this user then works."""
    shared = elsewhere.place.parent
    (shared / ".git").mkdir()
    (shared / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(shared / "a" / "b")
    assert project_root() == shared
    if os.geteuid() != 0:
        pytest.skip("only root can give a directory to another user")
    os.chown(shared / foreign, 65534, 65534)
    assert project_root() == shared / "a" / "b"
    with pytest.raises(BadInput, match="would do as you"):
        lab.run(elsewhere["call.toml"], **SHORT)  # type: ignore[arg-type]
    assert not elsewhere.imported
