"""Nothing is tuned for a condition: it differs from its testbed in what the paper varied."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from rtclab.reproduce import NAMES, paper
from rtclab.scenario import Scenario
from rtclab.scenario.load import SHIPPED

DESCRIPTION = ("extends", "name", "title", "source")
NEVER = (
    "seed",
    "congestion_control.options",
    "congestion_control.options.*",
    "host.*",
    "participants.*.host*",
    "bottlenecks.*.clock",
    "bottlenecks.*.clock.*",
    "bottlenecks.*.tick",
    "bottlenecks.*.loss_position",
    "video.*bitrate",
)
"""Parameters of models: one set per testbed."""

FILES = [file for name in NAMES for file in sorted((SHIPPED / name).glob("*.toml"))]
CONDITIONS = [file for file in FILES if "name" in tomllib.loads(file.read_text())]


def leaves(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value with its dotted field; an array or an empty table is one value."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@pytest.mark.parametrize("file", CONDITIONS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_condition_differs_from_its_testbed_only_in_what_the_paper_varied(file: Path) -> None:
    data = tomllib.loads(file.read_text())
    assert "extends" in data, "a condition without testbed"
    profile = dict(leaves(tomllib.loads((file.parent / f"{data['extends']}.toml").read_text())))
    varied = paper(file.parent.name).varies
    for field, value in leaves(data):
        if field not in DESCRIPTION and profile.get(field) != value:
            assert any(fnmatchcase(field, pattern) for pattern in varied), field


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parameter", NEVER)
def test_no_paper_may_vary_a_parameter_of_a_model(name: str, parameter: str) -> None:
    field = parameter.replace("*", "x")
    assert not [pattern for pattern in paper(name).varies if fnmatchcase(field, pattern)]


@pytest.mark.parametrize("file", CONDITIONS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_condition_says_which_table_or_figure_it_is_from(file: Path) -> None:
    scenario = Scenario.load(file)
    assert any(word in scenario.source for word in ("table", "figure", "section")), scenario.source
    assert scenario.record == "seconds"
