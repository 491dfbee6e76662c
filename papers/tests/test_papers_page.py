"""docs/papers.md names what exists, and leaves out no table, no figure and no scenario of the papers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import typer

from rtclab._native import CONGESTION_CONTROL_OPTIONS, CONGESTION_CONTROLS
from rtclab.cli.app import app
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.scenario.load import shipped
from rtclab.trace import SCHEMAS
from rtclab_papers.reproduce import NAMES, paper
from rtclab_papers.reproduce.measures import MEASURES
from rtclab_papers.reproduce.then_and_now.conditions import read_plan


def field_names(schema: object) -> set[str]:
    """The names of all fields in a JSON Schema."""
    if isinstance(schema, list):
        return {name for part in schema for name in field_names(part)}
    if not isinstance(schema, dict):
        return set()
    own = set(schema.get("properties", {}))
    return own | {name for part in schema.values() for name in field_names(part)}


TEXT = (Path(__file__).parents[2] / "docs" / "papers.md").read_text(encoding="utf-8")
FOLDERS = (*NAMES, "examples")
WORDS = re.findall(r"`([^`]+)`", TEXT.partition("\n## ")[2])
SCENARIOS = [word for word in WORDS if word.split("/")[0] in FOLDERS and "/" in word]
FIELDS = field_names(Scenario.model_json_schema())
GROUP: Any = typer.main.get_command(app)
COMMANDS: set[str] = set(GROUP.list_commands(None))
WHERE, SIMULATED, LIVE, MISSING = 0, 2, 3, 4
"""Columns of the tables: the section, the scenarios of each backend, and what is not there."""
ROMAN = {"I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7}
NUMBER = r"(?:\d+|[IV]+)[a-e]?"


def rows_of(title: str) -> list[list[str]]:
    """The cells of the table under a heading."""
    section = TEXT.partition(f"\n## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ") and line.endswith("|")]
    return [[cell.strip() for cell in line[1:-1].split("|")] for line in lines[1:]]


def every_row() -> list[list[str]]:
    titles = re.findall(r"^## (.+)$", TEXT, re.MULTILINE)
    return [row for title in titles for row in rows_of(title)]


def numbers(what: str, text: str) -> set[int]:
    """The numbers after a word such as `figure`: `figures 2, 3 and 8 to 11` are 2, 3, 8, 9, 10 and 11."""
    found: set[int] = set()
    for listed in re.findall(rf"\b{what}s? ({NUMBER}(?:(?:, | and | to ){NUMBER})*)\b", text):
        for part in re.split(r", | and ", listed):
            first, _, last = (re.sub("[a-e]", "", end) for end in part.partition(" to "))
            found |= set(range(value(first), value(last or first) + 1))
    return found


def value(number: str) -> int:
    return ROMAN[number] if number in ROMAN else int(number)


def drawn(name: str) -> set[int]:
    """The numbers of the drawn figures: 17 and 19 of `17 and 19`, 43 of `43-2`, 4 of `4b`."""
    printed = [figure.number.partition("-")[0] for figure in paper(name).figures]
    return {int(number) for text in printed for number in re.findall(r"\d+", text)}


def not_drawn(name: str) -> set[int]:
    after = [row[MISSING].lower().partition("not drawn: ")[2] for row in rows_of(name)]
    return {number for text in after for number in numbers("figure", text.partition(".")[0])}


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def live_patterns() -> list[str]:
    return [word for row in every_row() for word in re.findall(r"`([^`]+)`", row[LIVE]) if word in SCENARIOS]


def test_numbers_are_read_from_lists_and_ranges() -> None:
    assert numbers("figure", "figures 2, 3a and 8 to 11, the second figure 44") == {2, 3, 8, 9, 10, 11, 44}
    assert numbers("table", "IV-B, tables I to III, equation 5") == {1, 2, 3}


@pytest.mark.parametrize("row", every_row(), ids=lambda row: row[1])
def test_a_row_has_a_cell_in_each_column(row: list[str]) -> None:
    assert len(row) == 1 + MISSING
    assert all(row[:MISSING])


@pytest.mark.parametrize("pattern", sorted(set(SCENARIOS)))
def test_a_scenario_that_the_page_names_is_shipped(pattern: str) -> None:
    assert any(fnmatchcase(name, pattern) for name in shipped())


@pytest.mark.parametrize("name", [name for name in shipped() if name.split("/")[0] in NAMES])
def test_a_scenario_of_a_paper_is_on_the_page(name: str) -> None:
    assert matches(name, SCENARIOS)


@pytest.mark.parametrize("word", sorted(set(WORDS) - set(SCENARIOS)))
def test_any_other_word_in_monospace_exists(word: str) -> None:
    if word.startswith("rtclab "):
        assert word.split()[1] in COMMANDS
    elif "." in word.partition(" = ")[0] or " = " in word:
        assert set(word.partition(" = ")[0].replace("NAME.", "").split(".")) <= FIELDS
    else:
        options = {option for _, option, *_ in CONGESTION_CONTROL_OPTIONS}
        assert word in {*METRICS, *MEASURES, *CONGESTION_CONTROLS, *options, *SCHEMAS}


CATALOGUE = {name.lower() for name in (*CONGESTION_CONTROLS, *METRICS, *MEASURES, *FIELDS)}
NOWHERE = [row for row in every_row() if row[SIMULATED] == row[LIVE] == "–"]


@pytest.mark.parametrize("row", NOWHERE, ids=lambda row: row[1])
def test_what_is_neither_simulated_nor_live_is_in_no_catalogue(row: list[str]) -> None:
    assert not set(re.findall(r"[\w-]+", row[1].lower())) & CATALOGUE


@pytest.mark.parametrize("name", NAMES)
def test_every_table_with_numbers_is_in_the_rows_of_its_paper(name: str) -> None:
    where = {number for row in rows_of(name) for number in numbers("table", row[WHERE])}
    assert {value(number) for number in paper(name).tables} <= where
    assert where == set(range(1, max(where) + 1))


@pytest.mark.parametrize("name", NAMES)
def test_every_drawn_figure_is_in_the_rows_of_its_paper(name: str) -> None:
    where = {number for row in rows_of(name) for number in numbers("figure", row[WHERE])}
    assert drawn(name) <= where


@pytest.mark.parametrize(
    ("name", "last"), [("singh2013", 11), ("abello2013", 51), ("jansen2017", 23), ("iqbal", 16)]
)
def test_a_figure_is_drawn_or_the_page_says_that_it_is_not(name: str, last: int) -> None:
    assert not drawn(name) & not_drawn(name)
    assert drawn(name) | not_drawn(name) == set(range(1, last + 1))


@pytest.mark.parametrize("name", read_plan(NAMES).scenarios)
def test_a_live_condition_is_in_a_cell_of_live_calls(name: str) -> None:
    assert matches(name, live_patterns())


def test_cells_of_live_calls_name_nothing_else() -> None:
    conditions = read_plan(NAMES).scenarios
    for name in shipped():
        assert not matches(name, live_patterns()) or name in conditions, name


def test_a_figure_over_time_of_both_is_in_a_cell_of_live_calls() -> None:
    for name, series in read_plan(NAMES).conditions.series.items():
        rows = [row for row in rows_of(name) if "over time" in row[LIVE]]
        shown = {number for row in rows for number in numbers("figure", row[WHERE])}
        assert {int(re.sub("[a-e]", "", number)) for number in series} <= shown, name
