"""The site builds without a warning, its links lead somewhere, and its references lack nothing."""

from __future__ import annotations

import html
import importlib
import re
import shlex
import sqlite3
import subprocess
import sys
from contextlib import closing
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest
import typer
from pydantic import BaseModel

import rtclab
from rtclab import _native
from rtclab.backend.live.browsers.launch_options import find_chromium
from rtclab.cli.app import app
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.table import Table
from rtclab.trace import SCHEMAS, FlowInfo, TraceManifest

ROOT = Path(__file__).parents[2]
GROUP: Any = typer.main.get_command(app)
COMMANDS: dict[str, Any] = {name: GROUP.get_command(None, name) for name in GROUP.list_commands(None)}


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the built site."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", "-d", f"{folder}/doctrees"]
    built = subprocess.run(
        [*command, str(ROOT / "docs"), f"{folder}/html"], capture_output=True, text=True, check=False
    )
    assert built.returncode == 0, built.stderr
    return folder / "html"


def text_of(page: Path) -> str:
    """What a page shows, on one line."""
    body = page.read_text(encoding="utf-8").partition("<article")[2].partition("</article>")[0]
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", body)).split())


class Page(HTMLParser):
    """The targets and the links of a page."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id" and value:
                self.ids.add(value)
            elif name in ("href", "src") and value:
                self.links.append(value)


def test_every_link_within_the_site_leads_somewhere(site: Path) -> None:
    pages = {file: Page(file) for file in site.rglob("*.html")}
    for file, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme:
                continue
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            assert target.exists(), f"{file.name}: {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, f"{file.name}: {link}"


def test_nothing_of_a_page_comes_from_elsewhere(site: Path) -> None:
    for file in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=\"(https?:[^\"]*)", file.read_text())
        assert not loaded, file.name


def test_every_field_of_a_scenario_is_on_its_page_with_a_sentence(site: Path) -> None:
    shown = text_of(site / "scenario-reference.html")
    models = [Scenario, *_tables_below(Table)]
    for model in models:
        for name, field in model.model_fields.items():
            sentence = " ".join(descriptions(model)[name].replace("`", "").split())
            assert sentence.endswith("."), sentence
            assert f" {field.alias or name} " in shown
            assert sentence in shown, f"{model.__name__}.{name}"


def _tables_below(model: type[BaseModel]) -> list[type[BaseModel]]:
    own = [one for one in model.__subclasses__() if one.__module__.startswith("rtclab.scenario")]
    return [*own, *(below for one in own for below in _tables_below(one))]


def test_every_metric_is_on_its_page_with_its_definition(site: Path) -> None:
    page = Page(site / "metrics.html")
    shown = text_of(site / "metrics.html")
    for metric in METRICS.values():
        assert metric.name.replace("_", "-") in page.ids
        assert metric.definition.replace("`", "") in shown, metric.name


def test_every_column_and_every_field_of_a_manifest_is_on_the_page_of_the_trace(site: Path) -> None:
    shown = text_of(site / "trace.html")
    for table, schema in SCHEMAS.items():
        after = shown.partition(f"{table}¶ A row is ")[2]
        for column, dtype in schema.items():
            assert f" {column} {dtype}" in after.partition("¶")[0], f"{table}.{column}"
    for model in (TraceManifest, FlowInfo):
        for name, field in model.model_fields.items():
            assert f" {field.alias or name} " in shown, f"{model.__name__}.{name}"


def test_every_column_of_the_store_is_on_the_page_of_the_trace(site: Path, tmp_path: Path) -> None:
    shown = text_of(site / "trace.html").partition("The store¶")[2].partition("¶")[0]
    made = rtclab.sweep("first-call", {"link.up.loss": ["1 %"]}, duration="1 s", repeats=1, out=tmp_path)
    with closing(sqlite3.connect(made.path / "results.sqlite")) as store:
        columns = store.execute(
            "SELECT s.name, t.name FROM sqlite_schema s, pragma_table_info(s.name) t "
            "WHERE s.type IN ('table', 'view') AND NOT (s.name = 'latest' AND t.name LIKE 'max%')"
        ).fetchall()
    assert {"about", "conditions", "outcomes", "numbers", "events", "latest", "results"} <= {
        table for table, _ in columns
    }
    for table, column in columns:
        assert f" {table}" in shown, table
        assert re.search(rf"\b{re.escape(column)}\b", shown), f"{table}.{column}"


def test_every_command_and_every_option_is_on_its_page(site: Path) -> None:
    shown = text_of(site / "commands.html")
    for name, command in COMMANDS.items():
        section = shown.partition(f"rtclab {name}¶")[2].partition("¶")[0]
        assert section, name
        for option in (option for parameter in command.params for option in parameter.opts if "--" in option):
            assert option in section, f"{name} {option}"


@pytest.mark.parametrize("name", COMMANDS)
def test_the_example_of_a_command_is_a_command_line_that_it_takes(name: str) -> None:
    example = COMMANDS[name].epilog.removeprefix("Example: ").partition(" > ")[0]
    program, command, *arguments = shlex.split(example)
    assert (program, command) == ("rtclab", name)
    assert COMMANDS[name].make_context(name, arguments)


def test_every_option_of_a_congestion_control_is_on_its_page(site: Path) -> None:
    shown = text_of(site / "congestion-control.html")
    for algorithm, option, meaning, *_ in _native.CONGESTION_CONTROL_OPTIONS:
        assert f"{algorithm} {option} " in shown
        assert meaning in shown


def test_every_public_name_of_python_is_on_its_page(site: Path) -> None:
    page = Page(site / "python.html")
    names = {f"rtclab.{name}" for name in rtclab.__all__ if not name.startswith("_")}
    assert names <= page.ids


def test_the_page_of_troubles_quotes_messages_of_rtclab() -> None:
    sources = "".join(file.read_text(encoding="utf-8") for file in (ROOT / "python").rglob("*.py"))
    sources = re.sub(r"\"\s*\n\s*f?\"", "", sources)  # texts over several lines
    page = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    quotes = re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", page)
    assert len(quotes) >= 8
    for part in (part.strip() for quote in quotes for part in " ".join(quote.split()).split("…")):
        assert part in sources, part


MARKED = re.compile(r"^<!-- generated: [\w-]+ -->\n(.*)$", re.MULTILINE)
"""A part of a page that only the site has, and the line after it."""


@pytest.mark.parametrize("file", sorted((ROOT / "docs").glob("*.md")), ids=lambda file: file.name)
def test_a_page_read_as_a_file_says_where_its_generated_parts_are(file: Path) -> None:
    for line in MARKED.findall(file.read_text(encoding="utf-8")):
        assert line.startswith(f"*Made by `make docs`, for the site: `target/doc/site/{file.stem}.html`. "), (
            line
        )
        _, _, *named = re.findall(r"`([^`]+)`", line)
        assert named, line
        for name in named:
            command = name.removeprefix("rtclab ").split()[0]
            assert command in {*COMMANDS, "--help", "COMMAND"} or (ROOT / name).is_file(), name


def test_the_site_has_the_generated_parts_instead_of_the_lines_about_them(site: Path) -> None:
    for page in site.glob("*.html"):
        assert "Made by make docs" not in text_of(page), page.name


def test_no_page_is_empty(site: Path) -> None:
    for file in (ROOT / "docs").glob("*.md"):
        assert len(text_of(site / f"{file.stem}.html")) > 300, file.name


@pytest.fixture
def gallery(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The extension that makes the pages of the gallery."""
    monkeypatch.syspath_prepend(ROOT / "docs" / "_ext")
    return importlib.import_module("gallery")


GALLERY = (ROOT / "docs" / "gallery.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")


def test_every_section_of_the_gallery_shows_a_page_that_its_commands_left(
    site: Path, gallery: ModuleType
) -> None:
    examples = gallery.examples_of(GALLERY)
    assert [one.title for one in examples] == re.findall("^## (.*)$", GALLERY, re.MULTILINE)
    page = Page(site / "gallery.html")
    for example in examples:
        made = site / "_static" / "gallery" / f"{example.name}.html"
        assert made.read_text(encoding="utf-8").lower().startswith("<!doctype html>"), example.title
        assert example.name in page.ids
        assert f"_static/gallery/{example.name}.html" in page.links
    assert "The page is" not in text_of(site / "gallery.html")


def test_with_chromium_the_site_has_a_picture_of_each_page_in_each_colour_scheme(
    site: Path, gallery: ModuleType
) -> None:
    taken = {file.name: file.stat().st_size for file in (site / "_static" / "gallery").glob("*.png")}
    wanted = [
        f"{one.name}-{scheme}.png" for one in gallery.examples_of(GALLERY) for scheme in gallery.SCHEMES
    ]
    assert sorted(taken) == (sorted(wanted) if find_chromium() else [])
    assert all(5_000 < size < 150_000 for size in taken.values()), taken


def test_each_line_about_what_one_wants_to_do_is_a_card_about_a_page_of_the_gallery(
    site: Path, gallery: ModuleType
) -> None:
    lines = re.findall(r"^- \*\*\[.*$", INDEX, re.MULTILINE)
    assert 6 <= len(lines) <= 8
    page = (site / "index.html").read_text(encoding="utf-8")
    assert len(re.findall(r'class="card ', page)) == len(lines)
    names = {example.name for example in gallery.examples_of(GALLERY)}
    for line in lines:
        assert (name := line.partition("gallery.md#")[2].rstrip(")")) in names, line
        assert f'href="_static/gallery/{name}.html"' in page


def test_without_pictures_cards_and_sections_link_to_the_pages(gallery: ModuleType, tmp_path: Path) -> None:
    gallery.take_pictures(None, [tmp_path / "a-run.html"])
    assert [*tmp_path.iterdir()] == []
    builder = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(format="html"))
    for name, text in {"gallery": GALLERY, "index": INDEX}.items():
        source = [text]
        gallery.show(builder, name, source)
        assert "<img" not in source[0]
        assert '<p class="picture"><a href="_static/gallery/a-run.html">the page</a></p>' in source[0]
