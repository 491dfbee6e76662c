"""Every example on the pages of the site and in the README does what it shows."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from parts import CALL, check_part

from examples import Example, Reader, examples_of, matches
from rtclab.cli.app import app
from rtclab.metrics import METRICS

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
RUN = {"console", "python", "pycon", "toml"}
NOT_RUN = {"rust", "text", "yaml"}
"""Rust is compiled by `cargo test`; text is for reading; YAML is for a hosted CI."""
MOST_TEXTS = 18
GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}
EXAMPLES = {file: examples_of(file) for file in PAGES}
LIVE = [file for file in PAGES if any(example.live for example in EXAMPLES[file])]
PARTS = (*CALL, "iperf3")
"""What live examples need."""
WHOLE = LIVE if all(check_part(name).ok for name in PARTS) else []
"""Pages whose examples all run, so that none need run without its live ones."""


@pytest.fixture
def reader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Reader]:
    for name in ("work", "bin"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("RTCLAB", str(ROOT))
    # What cargo builds for a page stays for the next time.
    monkeypatch.setenv("CARGO_BUILD_BUILD_DIR", str(ROOT / "target" / "rust-control"))
    monkeypatch.setenv("CARGO_PROFILE_RELEASE_OPT_LEVEL", "0")
    monkeypatch.setenv("CARGO_PROFILE_RELEASE_DEBUG", "false")
    monkeypatch.setenv("CARGO_NET_OFFLINE", "true")
    for name in ("CARGO_TARGET_DIR", "RTCLAB_NATIVE"):
        monkeypatch.delenv(name, raising=False)
    own = dict(METRICS)
    yield Reader(capsys, tmp_path / "bin", monkeypatch)
    # Metrics that an example has added to the registry must not reach other tests.
    for name in METRICS.keys() - own.keys():
        del METRICS[name]


@pytest.mark.parametrize(
    "file", [file for file in PAGES if EXAMPLES[file] and file not in WHOLE], ids=lambda file: file.name
)
def test_the_examples_of_a_page_run_in_their_order(file: Path, reader: Reader) -> None:
    for example in EXAMPLES[file]:
        if not example.live:
            reader.follow(example)


@pytest.mark.live
@pytest.mark.needs(*PARTS)
@pytest.mark.parametrize("file", LIVE, ids=lambda file: file.name)
def test_the_live_examples_of_a_page_run_among_the_others(file: Path, reader: Reader) -> None:
    for example in EXAMPLES[file]:
        reader.follow(example)


def test_every_example_has_a_language_that_says_how_it_is_tested() -> None:
    for example in (example for examples in EXAMPLES.values() for example in examples):
        assert example.language in RUN | NOT_RUN, str(example)


def test_a_page_can_write_files_and_change_directory_and_environment(reader: Reader, tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "```python src/one.py\nraise SystemExit\n```\n\n"
        "```console\n$ cd src\n$ export ONE=$PWD/1\n$ ls; echo $ONE | tail -c 6\none.py\nsrc/1\n```\n"
    )
    for example in examples_of(page):
        reader.follow(example)
    assert (tmp_path / "work" / "src" / "one.py").read_text() == "raise SystemExit\n"
    assert Path.cwd() == tmp_path / "work" / "src"


def test_few_commands_are_only_for_reading() -> None:
    texts = [example for examples in EXAMPLES.values() for example in examples if example.language == "text"]
    assert len(texts) <= MOST_TEXTS, [*map(str, texts)]


def test_commands_that_are_only_for_reading_could_be_typed() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for example in (one for examples in EXAMPLES.values() for one in examples if one.language in NOT_RUN):
        for line in map(str.strip, example.text.splitlines()):
            if re.match(r"rtclab \w", line):
                _, name, *arguments = shlex.split(line)
                assert COMMANDS[name].make_context(name, arguments), str(example)
            elif line.startswith("make "):
                assert f"\n{line.split()[1]}:" in makefile, str(example)


@pytest.mark.parametrize(
    ("shown", "printed", "alike"),
    [
        ("rate 12.5 kbit/s", "rate    9 kbit/s\n", True),
        ("rate 12.5 kbit/s", "rate 12.5 Mbit/s\n", False),
        ("first\n…\nlast", "first\nsecond\nthird\nlast\n", True),
        ("first\nlast", "first\nsecond\nlast\n", False),
        ("", "anything", True),
        ("last", "last\nrun-live-1: The emulator was late in 1 of 1 repeats: 99th percentile 9 ms.\n", True),
    ],
)
def test_an_output_may_differ_in_its_figures_alone(shown: str, printed: str, alike: bool) -> None:
    assert matches(shown, printed) is alike


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("console", "$ rtclab show first-call --set 'link.up.capacity=1 Mbps'\n"),
        ("console", "$ echo one\ntwo\n"),
        ("console", "$ rtclab run frist-call\n…\n"),
        ("pycon", ">>> 'a' * 2\n'ab'\n"),
    ],
)
def test_an_example_whose_output_differs_fails(language: str, text: str, reader: Reader) -> None:
    with pytest.raises(AssertionError, match=r"page\.md:7"):
        reader.follow(Example("page.md", 7, language, text))
