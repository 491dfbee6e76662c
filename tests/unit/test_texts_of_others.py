"""Texts of others are shown as text: on pages as HTML's characters, on a terminal without control characters.

Results are made, and then every text in them that somebody could have chosen becomes hostile.
"""

from __future__ import annotations

import json
import shutil
import sqlite3
import tomllib
from collections.abc import Callable, Sequence
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import polars as pl
import pytest
from command_line import Result, Rtclab

import rtclab as lab
from rtclab import lab as functions
from rtclab.cli.tables import new_table, print_table
from rtclab.terminal import VisibleText, shown, visible
from rtclab.trace import write_text

HOSTILE = "e\"'></script><evil-tag evil=1></evil-tag><!--$\\frac$\x1b]0;title\x07\x1b[31m\r\x9b2J\x7f\u202e"
IN_TOML = f'"{visible(json.dumps(HOSTILE)[1:-1])}"'
SPOILED = ("alice", "Two participants", "Linux", "0.1.0", "5 %", "gap", "nobody came")
"""Words of results that become hostile: of a participant, title, machine, version, value, event, reason."""


def spoiled(value: Any, words: Sequence[str]) -> Any:
    """JSON values in which these words are hostile, also in keys. Varied fields keep their values."""
    match value:
        case str():
            for word in words:
                value = value.replace(word, HOSTILE)
            return value
        case dict():
            return {
                spoiled(key, words): inner if key == "values" else spoiled(inner, words)
                for key, inner in value.items()
            }
        case list():
            return [spoiled(inner, words) for inner in value]
    return value


def spoil(path: Path, words: Sequence[str]) -> None:
    """Makes the texts in a directory of results hostile: in the store, the traces and the watch file."""
    with closing(sqlite3.connect(path / "results.sqlite")) as database, database:
        database.execute(
            "UPDATE outcomes SET status = 'failed', reason = 'nobody came', note = 'nobody came' WHERE repeat"
        )
        database.execute("INSERT INTO events (at, what) VALUES ('nobody came', 'nobody came')")
        database.create_function("spoiled", 1, lambda text: spoiled(text, words))
        database.create_function("spoiled_json", 1, lambda text: json.dumps(spoiled(json.loads(text), words)))
        database.execute("UPDATE about SET value = spoiled_json(value)")
        for table, columns in (
            ("conditions", ["label"]),
            ("outcomes", ["reason", "note"]),
            ("events", ["at", "what"]),
            ("flows", ["name"]),
        ):
            for column in columns:
                database.execute(f"UPDATE {table} SET {column} = spoiled({column})")
    for file in path.rglob("manifest.json"):
        write_text(file, json.dumps(spoiled(json.loads(file.read_text()), words)))
    for file in path.rglob("*.jsonl"):
        lines = (json.loads(line) for line in file.read_text().splitlines())
        write_text(file, "".join(f"{json.dumps(spoiled(line, words))}\n" for line in lines))
    for file in path.rglob("*.parquet"):
        table = pl.read_parquet(file)
        texts = [name for name, dtype in table.schema.items() if dtype == pl.String]
        table.with_columns(pl.col(texts).str.replace_all("alice", HOSTILE, literal=True)).write_parquet(file)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a run and a sweep, whose texts are hostile."""
    place = tmp_path_factory.mktemp("made")
    how: dict[str, Any] = {"duration": "5 s", "repeats": 2, "progress": False, "out": place}
    lab.run("first-call", **how).path.rename(place / "run")
    lab.sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, **how).path.rename(place / "sweep")
    spoil(place / "run", SPOILED)
    spoil(place / "sweep", SPOILED[1:])  # its scenarios are read, and have no such participants
    return place


@pytest.fixture
def runs(rtclab: Rtclab, made: Path) -> Path:
    """A copy of them in the directory of runs. One has a hostile name."""
    out = Path("runs")
    shutil.copytree(made, out)
    (out / "run").rename(out / HOSTILE.replace("/", ""))
    (out / "run").symlink_to(HOSTILE.replace("/", ""))
    return out


class Tags(HTMLParser):
    """The names of the tags and attributes of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen |= {tag, *(name for name, _ in attrs)}


def check_page(page: Path) -> None:
    """Checks that nothing in a page comes from hostile texts but text, and that they are there."""
    text = page.read_text(encoding="utf-8")
    tags = Tags()
    tags.feed(text)
    tags.close()
    assert "main" in tags.seen
    assert not {name for name in tags.seen if "evil" in name}
    assert "&lt;evil-tag" in text or "\\u003cevil-tag" in text


def check_output(result: Result) -> None:
    """Checks that a command printed hostile texts, and no control characters."""
    for text in (result.out, result.err):
        assert visible(text) == text
        assert "Traceback" not in text


@pytest.mark.parametrize(
    "line",
    [
        "show {}",
        "show {} --json",
        "measure {}",
        "measure {} --all",
        "measure {} --csv",
        "measure {} --json",
        "compare {} {}",
        "compare {} {} --label HOSTILE --label b --all",
        "runs",
        "runs --csv",
        "run --resume {} --no-report",
        "sweep --resume {} --no-report",
        "run HOSTILE",
        "delete {}",
        "delete {} --yes",
        "measure {} --where link.up.loss=HOSTILE",
        "show {} --set link.up.loss=HOSTILE",
    ],
)
@pytest.mark.parametrize("name", ["run", "sweep"])
def test_a_command_prints_no_control_characters(rtclab: Rtclab, runs: Path, name: str, line: str) -> None:
    place = (runs / name).resolve() if name == "run" else runs / name
    words = [
        {"{}": str(place), "HOSTILE": HOSTILE}.get(word, word.replace("HOSTILE", HOSTILE))
        for word in line.split()
    ]
    if words[0] == "compare" and name == "sweep":
        pytest.skip("sweeps cannot be compared")
    result = rtclab(*words)
    check_output(result)
    if "--json" in words:
        assert any(HOSTILE in text for text in texts_of(json.loads(result.out)))


def texts_of(value: Any) -> list[str]:
    """All texts in JSON values."""
    match value:
        case str():
            return [value]
        case dict():
            return [text for pair in value.items() for one in pair for text in texts_of(one)]
        case list():
            return [text for one in value for text in texts_of(one)]
    return []


def reports(rtclab: Rtclab, out: Path) -> Path:
    check = rtclab("report", str(out / "run"), "--plots", "plots")
    assert check.status == 0, check.err
    for svg in Path("plots").glob("*.svg"):
        assert "<evil-tag" not in svg.read_text()
    return out / "run" / "report.html"


def swept(rtclab: Rtclab, out: Path) -> Path:
    assert rtclab("report", str(out / "sweep")).status == 0
    return out / "sweep" / "report.html"


def compared(rtclab: Rtclab, out: Path) -> Path:
    labels = ("--label", HOSTILE, "--label", "b")
    assert rtclab("compare", str(out / "run"), str(out / "run"), *labels, "--page", "both.html").status == 0
    return Path("both.html")


def estimated(rtclab: Rtclab, out: Path) -> Path:
    done = rtclab("scenario", "from", str(out / "run"), "--page", "estimate.html", "--toml", "a.toml")
    assert done.status == 0, done.err
    tomllib.loads(Path("a.toml").read_text())
    return Path("estimate.html")


def watched(rtclab: Rtclab, out: Path) -> Path:
    from rtclab.dashboard.page import PAGE_FILE, keep_page

    keep_page(out / "run")
    return out / "run" / PAGE_FILE


def gated(rtclab: Rtclab, out: Path) -> Path:
    Path("suite.toml").write_text(
        f'limits = ["rtt < 1 ms"]\nrepeats = 2\nduration = "5 s"\n[scenarios.{IN_TOML}]\n'
        'scenario = "first-call"\n'
    )
    files = ("--page", "gate.html", "--junit", "gate.xml", "--markdown", "gate.md")
    done = rtclab("gate", "suite.toml", *files)
    check_output(done)
    assert done.status == 1, done.err
    ElementTree.parse("gate.xml")
    assert "<evil-tag" not in Path("gate.xml").read_text() + Path("gate.md").read_text()
    return Path("gate.html")


def arena(rtclab: Rtclab, out: Path) -> Path:
    Path("suite.toml").write_text(
        f"title = {IN_TOML}\npairings = false\nduration = '5 s'\n[cases.{IN_TOML}]\n"
        'scenario = "first-call"\n'
    )
    done = rtclab("arena", "goog-cc", "nada", "--suite", "suite.toml", "--repeats", "2", "--jobs", "1")
    assert done.status == 0, done.err
    assert visible(done.out + done.err) == done.out + done.err
    return Path(done.out.splitlines()[-1])


@pytest.mark.parametrize("write", [reports, swept, compared, estimated, watched, gated, arena])
def test_a_page_shows_texts_as_text(
    rtclab: Rtclab, runs: Path, write: Callable[[Rtclab, Path], Path]
) -> None:
    check_page(write(rtclab, runs))


def test_results_in_a_notebook_show_texts_as_text(runs: Path) -> None:
    pages = (
        lab.Results(runs / "run")._repr_html_(),
        lab.Results(runs / "sweep")._repr_html_(),
        lab.compare(runs / "run", runs / "run", labels=[HOSTILE, "b"])._repr_html_(),
    )
    for page in pages:
        tags = Tags()
        tags.feed(page)
        tags.close()
        assert not {name for name in tags.seen if "evil" in name}


def test_a_scenario_of_others_is_shown_without_control_characters(rtclab: Rtclab) -> None:
    title = name = IN_TOML
    call = '[audio]\n[participants.a]\n[participants.b]\nduration = "1 s"\n'
    for text in (
        f'name = "x"\ntitle = {title}\nduration = "1 s"\n[audio]\n[participants.a]\n[participants.b]\n',
        f'name = {name}\nduration = "1 s"\n[audio]\n[participants.a]\n[participants.b]\n',
        f'name = "x"\nduration = "1 s"\n[audio]\n[participants.{name}]\n[participants.b]\n',
        f'name = "x"\n{name} = 1\n{call}',
        f'name = "x"\nduration = {name}\n',
        f'name = "x"\nextends = {name}\n',
        "name = \x1b",
    ):
        Path("theirs.toml").write_text(text)
        shown = rtclab("show", "theirs.toml")
        assert visible(shown.out + shown.err) == shown.out + shown.err
        assert "Traceback" not in shown.err
        assert shown.out + shown.err


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain ä 漢 🎥\tand\n", "plain ä 漢 🎥\tand\n"),
        ("\x1b[31m", "\\u001b[31m"),
        ("a\rb\x07\x08\x00", "a\\u000db\\u0007\\u0008\\u0000"),
        ("\x9b2J\x7f", "\\u009b2J\\u007f"),
        ("\u202eabc\u2066\u200f", "\\u202eabc\\u2066\\u200f"),
        ("\udc80", "\\udc80"),
    ],
)
def test_control_characters_are_written_as_in_json(text: str, expected: str) -> None:
    assert visible(text) == expected
    assert json.loads(f'"{visible(text)}"', strict=False) == text


def test_what_rtclab_itself_draws_on_a_terminal_stays(capsys: pytest.CaptureFixture[str]) -> None:
    import sys

    from rich.console import Console

    with shown():
        assert isinstance(sys.stdout, VisibleText)
        Console(force_terminal=True, color_system="standard").print("[red]drawn[/red]")
        print("\x1b[31mprinted")
        table = new_table("heading\x1b")
        table.add_row("[red]\x1b[31mcell")
        print_table(table)
    out = capsys.readouterr().out
    assert "\x1b[31mdrawn\x1b[0m" in out
    assert "\\u001b[31mprinted" in out
    assert "heading\\u001b" in out
    assert "[red]\\u001b[31mcell" in out
    assert not isinstance(sys.stdout, VisibleText)


def test_the_watch_command_prints_no_control_characters(
    rtclab: Rtclab, runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(functions, "sleep", interrupt)
    done = rtclab("watch", str((runs / "run").resolve()))
    assert visible(done.out + done.err) == done.out + done.err
