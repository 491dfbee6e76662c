"""Who reads the pages as Markdown finds each list: on the page, or by a command that the page names."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from command_line import Rtclab

from rtclab.report import COMPARISON_PLOTS, RUN_PLOTS
from rtclab.scenario import Scenario

DOCS = Path(__file__).parents[2] / "docs"
PLACES = [
    (page.name, line)
    for page in sorted(DOCS.glob("*.md"))
    for line in re.findall(r"^\*Made by `make docs`.*\*$", page.read_text(), re.MULTILINE)
]


@pytest.mark.parametrize(("page", "line"), PLACES)
def test_a_place_that_is_filled_for_the_site_names_a_command_or_a_file(
    page: str, line: str, rtclab: Rtclab
) -> None:
    commands = re.findall(r"`(rtclab [^`]*)`", line)
    for command in commands:
        shown = rtclab(*shlex.split(command.replace("COMMAND", "run"))[1:])
        assert shown.status == 0, (page, command)
        assert len(shown.out.splitlines()) > 5, (page, command)
    files = [DOCS.parent / name for name in re.findall(r"`(python/[^`]*)`", line)]
    assert all(map(Path.is_file, files)), (page, line)
    assert commands or files, (page, line)


def test_the_list_of_fields_has_every_key_with_its_meaning(rtclab: Rtclab) -> None:
    text = rtclab("schema", "--fields", "scenario").out
    for field in (
        "link.up.capacity",
        "link.up.loss.mean",
        "participants.NAME.join",
        "servers.NAME.kind",
        *Scenario.key_names(),
    ):
        assert re.search(rf"^{re.escape(field)}: .+\n    \S", text, re.MULTILINE), field
    assert re.search(r"^duration: time; required$", text, re.MULTILINE)
    assert max(map(len, re.findall(r"^    .*$", text, re.MULTILINE))) <= 100
    assert "bit/s, kbit/s, Mbit/s" in rtclab("schema", "--fields", "units").out
    assert "compare.METRIC.relative" in rtclab("schema", "--fields", "suite").out
    assert "cases.NAME.scenario" in rtclab("schema", "--fields", "arena").out


def test_the_page_on_figures_names_all_plots() -> None:
    lists = [re.findall(r"`([a-z-]+)`", line) for line in (DOCS / "figures.md").read_text().splitlines()
             if line.startswith("`rate`, ")]  # fmt: skip
    assert [sorted(one) for one in lists] == [sorted(RUN_PLOTS), sorted(COMPARISON_PLOTS)]
