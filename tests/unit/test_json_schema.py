"""The JSON Schema of scenarios: it accepts whatever runs, and refuses what it can."""

from __future__ import annotations

import tomllib
from copy import deepcopy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from rtclab.errors import ScenarioError
from rtclab.scenario import Scenario
from rtclab.scenario.layers import SHIPPED

SCHEMA: Any = Scenario.json_schema()
FILES = sorted(file.relative_to(SHIPPED) for file in SHIPPED.rglob("*.toml"))


def accepted_by_schema(data: object) -> bool:
    return bool(jsonschema.Draft202012Validator(SCHEMA).is_valid(data))


def accepted_by_loader(data: object) -> bool:
    try:
        Scenario.read(data, "my.toml")
    except ScenarioError:
        return False
    return True


def test_quantities_are_texts_with_units() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    video = SCHEMA["$defs"]["Video"]["properties"]["max_bitrate"]
    assert (video["type"], video["default"]) == ("string", "1.7 Mbit/s")
    assert SCHEMA["$defs"]["Scenario"]["required"] == ["duration", "participants"]


@pytest.mark.parametrize("file", FILES, ids=str)
def test_it_accepts_every_shipped_scenario_and_every_extended_profile(file: Path) -> None:
    assert accepted_by_schema(tomllib.loads((SHIPPED / file).read_text()))


def test_a_scenario_that_extends_nothing_must_be_complete() -> None:
    whole = first_call()
    assert accepted_by_schema(whole)
    for key in ("duration", "participants"):
        part = {name: value for name, value in whole.items() if name != key}
        assert not accepted_by_schema(part)
        assert accepted_by_schema(part | {"extends": "testbed"})


VALUES: list[object] = [
    "1 Mbit/s", "1 Mbps", "25 ms", "25", 25, 0.3, -1, True, False, "2 %", "3 packets", "", [], {},
    {"steps": [["0 s", "1 Mbit/s"]]}, {"steps": []}, {"step": []}, {"steps": [["0 s", "2 %"]]},
    {"p": 0.1, "r": "20 %"}, {"p": 0.1}, {"p": 2, "r": 1}, "unlimited", "none",
    {"mean": "2 %", "burst": 3}, {"mean": "2 %", "burst": 0.5}, {"mean": 0.02, "burst": 3}, {"mean": "2 %"},
    {"decoder_capacity": "9 Mpixel/s"},
    {"aqm": "droptail", "limit": "3 packets"}, {"aqm": "dualpi2", "c_share": 0.2}, {"aqm": "red"}, "bleach",
    {"aqm": "codel", "target": "5 ms", "ecn": 1},
    {"sd": "2 ms", "reorder": True}, {"sd": "2 ms", "reorder": "yes"},
    {"name": "fixed", "options": {"rate": 3, "switch": True}}, {"name": "fixed", "options": {"rate": "3"}},
    {"alice": {}, "bob": {}}, {"Alice": {}, "bob": {}}, {"core": {}, "bob": {}},
    {"alice": {"video": False}, "bob": {}}, [{"kind": "sfu"}], [{"kind": "zoom"}],
]  # fmt: skip
FIELDS = (
    "name", "duration", "repeats", "seed", "record", "participants", "calls", "audio", "congestion_control",
    "video.width", "video.frame_rate", "link.up.capacity", "link.up.queue", "link.up.delay", "link.up.jitter",
    "link.up.loss", "link.up.loss_position", "link.up.ecn", "link.up.tick", "link.up.clock",
    "participants.alice.join", "participants.alice.link", "participants.alice.host", "colour",
)  # fmt: skip


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", VALUES, ids=str)
def test_it_accepts_a_value_where_a_run_does_and_nowhere_else(field: str, value: object) -> None:
    data = first_call()
    del data["link"]["up"]["queue"]  # which needs a capacity
    data["host"] = {"encoder_capacity": "50 Mpixel/s"}
    *tables, key = field.split(".")
    place = data
    for table in tables:
        place = place[table]
    place[key] = deepcopy(value)
    assert accepted_by_schema(data) == accepted_by_loader(data)


def first_call() -> dict[str, Any]:
    return {"name": "first-call"} | tomllib.loads((SHIPPED / "first-call.toml").read_text())
