"""No condition is tuned: it differs from its testbed only in what the paper varied."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest

from rtclab.backend.sim import SimBackend
from rtclab.scenario import PathSpec, Scenario, layers, shipped
from rtclab_papers import scenarios
from rtclab_papers.reproduce import NAMES, paper
from rtclab_papers.reproduce.variants import split

DESCRIPTION = ("extends", "profile", "name", "title", "source")
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
    "link.*.jitter",
    "participants.*.link.*.jitter",
    "participants.*.link.*.wifi.fading.*",
    "participants.*.video.*bitrate",
    "video.*bitrate",
    "video.camera",
    "video.repair",
)
"""Parameters of models: one set per testbed."""

OPTIONAL = (
    "participants.*",
    "servers.*",
    "traffic.*",
    "link.*.wifi.*",
    "link.*.queue",
    "bottlenecks.*",
)
"""Fields that only some conditions of a testbed have, such as further participants, servers and TCP."""


def leaves(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Every value by its dotted field; an array or an empty table is one value."""
    for key, value in table.items():
        if isinstance(value, dict) and value:
            yield from leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def parsed(file: Path) -> dict[str, Any]:
    return layers.parsed(file, str(file))


SCENARIOS = Path(scenarios.__path__[0])
FILES = [file for name in NAMES for file in sorted((SCENARIOS / name).glob("*.toml"))]
NAMED = [file for file in FILES if "profile" not in parsed(file)]
READINGS = [
    (first, other, reading.changes)
    for name in NAMES
    for reading in paper(name).ambiguities
    for first, other in reading.scenarios
]
OTHERS = {other for _, other, _ in READINGS}
"""Scenarios of other readings: they change what the paper leaves open, which may be a model's parameter."""
OPTIONS = "congestion_control.options"
RULES = [file for file in NAMED if any(field.startswith(OPTIONS) for field, _ in leaves(parsed(file)))]
"""Conditions with another rule of congestion control: one that a paper prints and browsers did not have."""
COMPARED = {split(scenario)[0] for name in NAMES for scenario in paper(name).scenarios} - OTHERS
"""Scenarios from which there are published numbers or figures; the others of a paper's folder are ours."""
CONDITIONS = [file for file in NAMED if file not in RULES and f"{file.parent.name}/{file.stem}" in COMPARED]


@pytest.mark.parametrize("file", CONDITIONS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_condition_differs_from_its_testbed_only_in_fields_that_the_paper_varied(file: Path) -> None:
    data = parsed(file)
    assert "extends" in data, "a condition without testbed"
    profile = dict(leaves(parsed(file.parent / f"{data['extends']}.toml")))
    varied = paper(file.parent.name).varies
    for field, value in leaves(data):
        if field not in DESCRIPTION and profile.get(field) != value:
            assert any(fnmatchcase(field, pattern) for pattern in varied), field


def root_profile(file: Path) -> Path:
    """The profile at the root of the chain that a condition extends."""
    while base := parsed(file).get("extends"):
        file = (file.parent / f"{base}.toml").resolve()
    return file


TESTBEDS = sorted({root_profile(file) for file in CONDITIONS})


@pytest.mark.parametrize("profile", TESTBEDS, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_conditions_of_a_testbed_agree_in_everything_that_the_paper_did_not_vary(
    profile: Path,
) -> None:
    # Compares the scenarios with all defaults filled in, whatever profiles lie between.
    conditions = [file for file in CONDITIONS if root_profile(file) == profile]
    resolved = [dict(leaves(Scenario.load(file).model_dump(mode="json"))) for file in conditions]
    varied = {pattern for file in conditions for pattern in paper(file.parent.name).varies}
    values = defaultdict(set)
    for fields in resolved:
        for field, value in fields.items():
            if field not in DESCRIPTION and value not in (None, {}):
                values[field].add(str(value))
    for field, found in values.items():
        if any(fnmatchcase(field, pattern) for pattern in varied):
            continue
        assert len(found) == 1, (field, found)
        everywhere = all(fields.get(field) is not None for fields in resolved)
        assert everywhere or any(fnmatchcase(field, pattern) for pattern in OPTIONAL), field


@pytest.mark.parametrize("file", RULES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_another_rule_of_congestion_control_changes_nothing_else_in_a_condition(file: Path) -> None:
    data = parsed(file)
    assert file.parent / f"{data['extends']}.toml" in NAMED
    changed = {field for field, _ in leaves(data)} - {*DESCRIPTION, "repeats"}
    assert all(field.startswith(f"{OPTIONS}.") for field in changed), changed
    SimBackend().check(Scenario.load(file))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("parameter", NEVER)
def test_no_paper_may_vary_a_parameter_of_a_model(name: str, parameter: str) -> None:
    field = parameter.replace("*", "x")
    assert not [pattern for pattern in paper(name).varies if fnmatchcase(field, pattern)]


@pytest.mark.parametrize(("first", "other", "changes"), READINGS, ids=[other for _, other, _ in READINGS])
def test_another_reading_differs_from_the_first_only_in_the_open_fields(
    first: str, other: str, changes: tuple[str, ...]
) -> None:
    # Compares both with all defaults filled in, and the fields of the file.
    file = SCENARIOS / f"{other}.toml"
    data = parsed(file)
    assert (file.parent / f"{data['extends']}.toml").resolve() == SCENARIOS / f"{first}.toml"
    ours, theirs = (
        {field: value for field, value in leaves(scenario.model_dump(mode="json")) if value not in (None, {})}
        for scenario in map(Scenario.load, (first, other))
    )
    found = {field for field in {*ours, *theirs} if ours.get(field) != theirs.get(field)}
    found |= {field for field, _ in leaves(data)}
    open_fields = [pattern for change in changes for pattern in (change, f"{change}.*")]
    for field in found - {*DESCRIPTION, "repeats"}:
        assert any(fnmatchcase(field, pattern) for pattern in open_fields), field


@pytest.mark.parametrize("name", NAMES)
def test_no_number_and_no_statement_is_taken_from_another_reading(name: str) -> None:
    one = paper(name)
    used = {cell.scenario for cell in one.cells}
    used |= {scenario for trend in one.trends for scenario, _ in trend.needs}
    assert not used & OTHERS


@pytest.mark.parametrize("file", NAMED, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_a_condition_says_which_table_or_figure_it_is_from(file: Path) -> None:
    scenario = Scenario.load(file)
    assert any(word in scenario.source for word in ("table", "figure", "section")), scenario.source
    assert scenario.record == "seconds"


def test_the_topologies_to_be_compared_differ_in_nothing_but_people_calls_and_servers() -> None:
    names = [name for name in shipped() if name.startswith("abello2013/topology-")]
    assert len(names) == 15
    base = Scenario.load("abello2013/topology-p2p")
    for name in names:
        own = Scenario.load(name)
        assert set(own.differences(base)) <= {
            "name",
            "title",
            "source",
            "participants",
            "calls",
            "servers",
        }, name
        people = len(own.participants)
        assert people == (2 if name.endswith("p2p") else int(name[-1]))


def test_the_comparison_scenarios_put_their_whole_limit_on_the_uplink() -> None:
    for name in ("1mbit", "500kbit", "100mbit", "loss"):
        link = Scenario.load(f"sim-vs-live/{name}").link
        assert link.down == PathSpec()
        assert link.up.capacity is not None
