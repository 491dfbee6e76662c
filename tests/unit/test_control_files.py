"""Results of a control that reads files belong to what was in the files."""

from __future__ import annotations

import json
import os
import re
import shlex
import textwrap
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from command_line import Rtclab

import rtclab
from rtclab.errors import RtclabError
from rtclab.experiment import Results
from rtclab.own_controls import reading
from rtclab.scenario.own_control import OwnControl

HEAD = "import pathlib\nHERE = pathlib.Path(__file__).parent\n"
POLICY = """
    class Policy:
        def __init__(self, bounds, **options):
            self.rate = {rate}
        def on_feedback(self, now, feedback):
            return self.rate
"""


@dataclass(frozen=True)
class Way:
    """How a control gets its rate: an expression, the file that has it, and what else is needed."""

    rate: str
    file: str = "weights.txt"
    write: Callable[[Path, int], object] = lambda file, rate: file.write_text(str(rate))
    before: str = ""
    options: str = ""


def module(file: Path, rate: int) -> None:
    file.write_text(f"rate = {rate}\n")


WAYS = {
    "text beside it": Way("float((HERE / 'weights.txt').read_text())"),
    "text in a directory below": Way("float(open(HERE / 'a/b.txt').read())", "a/b.txt"),
    "text elsewhere": Way("float(open(HERE / '../weights.txt').read())", "../weights.txt"),
    "numpy": Way(
        "float(numpy.load(HERE / 'w.npy')[0])",
        "w.npy",
        lambda file, rate: np.save(file, np.array([float(rate)])),
        "import numpy",
    ),
    "mapped into memory": Way(
        "float(numpy.memmap(HERE / 'w.bin', dtype=numpy.float64)[0])",
        "w.bin",
        lambda file, rate: np.array([float(rate)]).tofile(file),
        "import numpy",
    ),
    "as an option": Way("float(open(options['file']).read())", options=",file=weights.txt"),
    "in a list of options": Way("float(open(options['files'][0]).read())", options=",files=['weights.txt']"),
    "when the module is loaded": Way("RATE", before="RATE = float((HERE / 'weights.txt').read_text())"),
    "a module beside it": Way("helper.rate", "helper.py", module, "import helper"),
    "the newest of a directory": Way(
        "float(max(HERE.glob('weights-*')).read_text())",
        "weights-0",
        lambda file, rate: file.with_name(f"weights-{rate}").write_text(str(rate)),
    ),
    "the last of a listing": Way(
        "float((HERE / 'w' / sorted(os.listdir(HERE / 'w'))[-1]).read_text())",
        "w/0",
        lambda file, rate: file.with_name(str(rate)).write_text(str(rate)),
        "import os",
    ),
    "a file that need not be there": Way(
        "float(given())",
        "given.txt",
        lambda file, rate: file.write_text(str(rate)) if rate > 400_000 else None,
        "def given():\n    try:\n        return (HERE / 'given.txt').read_text()\n"
        "    except FileNotFoundError:\n        return 4e5\n",
    ),
    "a relative import": Way("helper.rate", "helper.py", module, "from . import helper"),
    "from a relative module": Way("rate", "helper.py", module, "from .helper import rate"),
    "a relative import in a package": Way("parts.rate", "parts/inner.py", module, "import parts"),
    "a module elsewhere": Way(
        "afar.rate",
        "../lib/afar.py",
        module,
        "import sys; sys.path.append(str(HERE / '../lib')); import afar",
    ),
    "a module that is loaded late": Way("__import__('helper').rate", "helper.py", module),
    "in another thread": Way(
        "float(pool.submit((HERE / 'weights.txt').read_text).result())",
        before="from concurrent.futures import ThreadPoolExecutor\npool = ThreadPoolExecutor(1)",
    ),
    "by a file descriptor": Way("float(os.read(os.open(HERE / 'weights.txt', 0), 20))", before="import os"),
}


def written(place: Path, way: Way, rate: int) -> str:
    """Writes a control, and the file from which it reads its rate; returns its name."""
    (place / "parts").mkdir(exist_ok=True)
    (place / "parts" / "__init__.py").write_text("from .inner import rate\n" if "parts" in way.rate else "")
    file = place / way.file
    file.parent.mkdir(exist_ok=True)
    way.write(file, rate)
    code = HEAD + way.before + textwrap.dedent(POLICY).format(rate=way.rate)
    (place / "policy.py").write_text(code)
    return f"policy.py:Policy{way.options}"


def rates(results: Results) -> set[float]:
    """The last target of each repeat, in kbit/s."""
    rows = (trace.table("controller").filter(name="target_bps") for trace in results.run.traces)
    return {round(float(of["value"][-1]) / 1000) for of in rows}


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "mine"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


@pytest.mark.parametrize("way", WAYS)
def test_a_file_that_has_changed_makes_another_control(
    way: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = written(place, WAYS[way], 400_000)
    made = rtclab.run("first-call", duration="3 s", repeats=1, set={"control": name}, progress=False)
    assert rates(made) == {400}
    before = made._store.events()
    assert rates(rtclab.run(resume=made.path, progress=False)) == {400}
    assert made._store.events() == before  # nothing ran
    assert capsys.readouterr().err == ""
    written(place, WAYS[way], 600_000)
    assert rates(rtclab.run(resume=made.path, progress=False)) == {600}
    told = capsys.readouterr().err
    code = way in ("a module beside it", "a relative import", "from a relative module")
    code |= way == "a relative import in a package"
    assert ("policy.py:Policy has other code than before" if code else "which policy.py:Policy reads") in told
    assert "run again" in told


def test_a_declared_file_counts_and_must_be_there(place: Path) -> None:
    """For libraries that open files without Python."""
    way = Way("8e5", before="class Reads: reads = ['weights.txt']")
    written(place, way, 1)
    code = (place / "policy.py").read_text().replace("class Policy:", "class Policy(Reads):")
    (place / "policy.py").write_text(code)
    set_ = {"control": "policy.py:Policy"}
    made = rtclab.run("first-call", duration="3 s", repeats=1, set=set_, progress=False)
    before = made._store.events()
    rtclab.run(resume=made.path, progress=False)
    assert made._store.events() == before
    (place / "weights.txt").write_text("2")
    rtclab.run(resume=made.path, progress=False)
    assert len(made._store.events()) > len(before)
    (place / "weights.txt").unlink()
    with pytest.raises(RtclabError, match=r"reads: no file `weights\.txt`"):
        rtclab.run(resume=made.path, progress=False)


def test_what_a_control_writes_and_what_is_installed_does_not_count(place: Path) -> None:
    """A log would be other than before after every run."""
    way = Way(
        "float((HERE / 'weights.txt').read_text())",
        before="import json, numpy, random, tempfile\n"
        "open(HERE / 'log.txt', 'w').write(str(id(json)))\nopen(HERE / 'log.txt').read()\n"
        "tempfile.TemporaryFile().read()\nopen('/proc/self/stat').read()\n"
        "import importlib.metadata\nimportlib.metadata.entry_points()",
    )
    name = written(place, way, 300_000)
    made = rtclab.run("first-call", duration="3 s", repeats=2, set={"control": name}, progress=False)
    files = {Path(file) for of in made._store.files().values() for file in of}
    assert files == {place / "policy.py", place / "weights.txt"}


def test_which_files_count(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is nearest decides: an environment in the directory of a control has packages, not weights."""
    packages = place / ".venv" / "site-packages"
    for file in ("weights.txt", "../up.txt", ".cache/x.txt", "__pycache__/x.pyc", ".venv/site-packages/x.py"):
        (place / file).parent.mkdir(parents=True, exist_ok=True)
        (place / file).write_text(file)
    monkeypatch.setattr(reading, "_PACKAGES", [*reading._PACKAGES, str(packages)])
    control = OwnControl("class", str(place / "policy.py"), "Policy")
    with reading.recording([control]) as found:
        for file in place.parent.rglob("*.*"):
            if file.is_file():
                file.read_text()
        for gone in ("absent.txt", "made.txt"):
            with suppress(FileNotFoundError):
                (place / gone).read_text()
        (place / "made.txt").write_text("it was not there, and the control makes it")
        (place / "log.txt").write_text("written before it is read")
        (place / "log.txt").read_text()
        Path(json.__file__).read_text()
        Path("/proc/self/stat").read_text()
    expected = {place / "weights.txt", place.parent / "up.txt", place / "absent.txt", place / "policy.py"}
    assert {Path(file) for file in found.files if not file.endswith(os.sep)} == expected
    assert found.files[str(place / "absent.txt")] == ""
    assert str(place / "") + os.sep in found.files  # this test lists it
    inside = OwnControl("class", str(packages / "x.py"), "Policy")
    with reading.recording([inside]) as found:
        (packages / "x.py").read_text()
    assert [Path(file) for file in found.files] == [packages / "x.py"]


SUITE = """
duration = "5 s"
repeats = 2
pairings = false
[cases.only]
scenario = "access/dsl"
"""
GATE = """
repeats = 2
[scenarios.call]
scenario = "first-call"
set = { duration = "5 s", control = "policy.py:Policy" }
[compare]
receiving_rate = { absolute = "50 kbit/s" }
"""


def test_new_weights_give_new_results_by_every_door(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """An arena, a sweep that is resumed, and a gate. Only repeats of this control run again."""
    way = WAYS["text beside it"]
    name = written(place, way, 300_000)
    (place / "suite.toml").write_text(SUITE)
    (place / "gate.toml").write_text(GATE)
    rtclab.gate("gate.toml", update_baseline="the first", progress=False)

    def arena() -> pl.DataFrame:
        found = rtclab.arena([name, "goog-cc"], suite="suite.toml", out="a", jobs=1, progress=False)
        return found.values.rows

    before = arena()
    swept = rtclab.sweep(
        "first-call", {"control": ["goog-cc", name]}, duration="5 s", repeats=2, progress=False
    )
    was = swept.metrics(metrics=["receiving_rate"])
    assert arena().equals(before)
    rtclab.sweep(resume=swept.path, progress=False)
    assert "run again" not in capsys.readouterr().err
    assert rtclab.gate("gate.toml", progress=False).passed
    written(place, way, 500_000)
    after = arena()
    assert f"weights.txt, which {name} reads, has changed: 2 repeats are run again" in capsys.readouterr().err
    rtclab.sweep(resume=swept.path, progress=False)
    assert f"weights.txt, which {name} reads, has changed: 2 repeats are run again" in capsys.readouterr().err
    now = swept.metrics(metrics=["receiving_rate"])
    for old, new, column in ((before, after, "control"), (was, now, "condition")):
        own = pl.col(column).str.ends_with(name)
        assert old.filter(~own).equals(new.filter(~own))
        rate = "rate_attained" if column == "control" else "value"
        assert (new.filter(own)[rate] > old.filter(own)[rate] * 1.2).all()
    judged = rtclab.gate("gate.toml", progress=False)
    assert {check.verdict for check in judged.checks} == {"better"}


def test_a_model_and_the_file_of_its_factors_count(place: Path) -> None:
    from test_python_controls import model

    model(place / "policy.onnx")
    (place / "scale.txt").write_text("\n".join(["0"] * 150))
    made = rtclab.run(
        "first-call",
        duration="5 s",
        repeats=1,
        set={"control": "onnx:policy.onnx,scale=scale.txt"},
        progress=False,
    )
    known = [len(made._store.events())]
    for change in (
        lambda: None,
        lambda: (place / "scale.txt").write_text("\n".join(["1"] * 150)),
        lambda: model(place / "policy.onnx", width=4),
        lambda: (place / "policy.onnx.data").write_text("weights beside a model"),
    ):
        change()
        rtclab.run(resume=made.path, progress=False)
        known.append(len(made._store.events()))
    assert known[0] == known[1]
    # The file beside the model was not there before, so the last change is seen only from the next run on.
    assert known[1] < known[2] < known[3] == known[4]


BROKEN = "class Policy:\n    def on_feedback(self, now, feedback): return 1 / (now < 1)\n"
MENDED = "class Policy:\n    def on_feedback(self, now, feedback): return 3e5\n"
COMMANDS = {
    "run": ["run", "first-call", "--control", "policy.py:Policy", "--duration", "3s", "--repeats", "1"],
    "sweep": [
        *("sweep", "first-call", "--vary", "control=goog-cc,policy.py:Policy"),
        *("--duration", "3s", "--repeats", "1"),
    ],
    "arena": ["arena", "policy.py:Policy", "goog-cc", "--suite", "suite.toml", "--out", "a", "--jobs", "1"],
}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_hint_after_a_failure_works_when_the_control_is_mended(
    command: str, rtclab: Rtclab, place: Path
) -> None:
    (place / "suite.toml").write_text(SUITE)
    (place / "policy.py").write_text(BROKEN)
    failed = rtclab(*COMMANDS[command])
    assert failed.status == 1
    hint = re.search(r"hint: mend policy\.py:Policy, and (.*)", failed.err)
    assert hint is not None
    again = re.search(r"`rtclab (.*)`", hint[1])
    assert again or hint[1] == "give the same command again"
    arguments = shlex.split(again[1]) if again else COMMANDS[command]
    assert rtclab(*arguments).status == 1  # it is not mended yet
    (place / "policy.py").write_text(MENDED)
    mended = rtclab(*arguments)
    assert mended.status == 0, mended.err
    assert "hint:" not in mended.err


def test_a_gate_compares_a_control_whose_code_has_changed(place: Path) -> None:
    written(place, WAYS["text beside it"], 300_000)
    (place / "gate.toml").write_text(GATE)
    rtclab.gate("gate.toml", update_baseline="the first", progress=False)
    code = place / "policy.py"
    code.write_text(code.read_text() + "\n# A comment changes the code, and not what it does.\n")
    judged = rtclab.gate("gate.toml", progress=False)
    assert {check.verdict for check in judged.checks} == {"not worse"}
