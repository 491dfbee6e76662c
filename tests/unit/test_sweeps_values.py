"""Varied fields: lists, ranges, and what is refused before anything starts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rtclab.cli.running import pairs
from rtclab.errors import BadInput
from rtclab.experiment import Experiment, Product
from rtclab.experiment.conditions import from_json
from rtclab.experiment.fields import number_of, read_field
from rtclab.lab import sweep
from rtclab.scenario import Scenario

FIELD = "link.up.capacity"


def plan(vary: dict[str, object], *, repeats: int | None = 2) -> Product:
    conditions = Experiment.product("first-call", vary, repeats=repeats).conditions
    assert isinstance(conditions, Product)
    return conditions


@pytest.mark.parametrize(
    ("given", "texts"),
    [
        ("0.5 Mbit/s, 1 Mbit/s", ["0.5 Mbit/s", "1 Mbit/s"]),
        (["0.5 Mbit/s", "1 Mbit/s"], ["0.5 Mbit/s", "1 Mbit/s"]),
        # Commas inside tables, arrays and quotes do not separate values.
        ("{p = 0.01, r = 0.3}, 2 %", ["{p = 0.01, r = 0.3}", "2 %"]),
        ("[1, 2], [3, 4]", ["[1, 2]", "[3, 4]"]),
        ("'a,b', c", ["'a,b'", "c"]),
        # Equal differences; with `log`, equal ratios: 1, 10, 100.
        ("0..5 % x6", ["0 %", "1 %", "2 %", "3 %", "4 %", "5 %"]),
        ("1..100 ms x3 log", ["1 ms", "10 ms", "100 ms"]),
        ("5..1 s x2", ["5 s", "1 s"]),
        ("10..30 x3", ["10", "20", "30"]),
        # The ends as written, the others with four digits: 0.2 * 25^(1/3) = 0.58480.
        ("0.2..5 Mbit/s x4 log", ["0.2 Mbit/s", "0.5848 Mbit/s", "1.71 Mbit/s", "5 Mbit/s"]),
        ("0..1 x4", ["0", "0.3333", "0.6667", "1"]),
    ],
)
def test_lists_and_ranges_are_expanded(given: object, texts: list[str]) -> None:
    assert list(read_field(FIELD, given).texts) == texts


def test_values_that_are_not_toml_are_text() -> None:
    read = read_field(FIELD, "10, 0.5, true, {p = 0.01, r = 0.3}, 2 Mbit/s")
    assert read.values == (10, 0.5, True, {"p": 0.01, "r": 0.3}, "2 Mbit/s")
    assert read_field(FIELD, "10..30 x3").values == (10, 20, 30)


def test_the_field_is_the_text_before_the_first_equals_sign() -> None:
    given = ["link.up.loss={p = 0.01, r = 0.3}, 0 %", "seed = 1"]
    assert pairs("--vary", given, "A=B") == {"link.up.loss": "{p = 0.01, r = 0.3}, 0 %", "seed": "1"}


@pytest.mark.parametrize("text", ["link.up.loss", "=1 %", "link.up.loss="])
def test_a_missing_field_or_value_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=re.escape(f"--vary: cannot read `{text}`; expected A=B")):
        pairs("--vary", [text], "A=B")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("0.2..5 Mbit/s", "number of values missing in `0.2..5 Mbit/s`; expected xN"),
        ("0.2..5 Mbit/s x1", "x1 in `0.2..5 Mbit/s x1`; expected x2 to x1000000"),
        ("0.2..5 Mbit/s x10000000", "expected x2 to x1000000"),
        ("0..5 Mbit/s x3 log", "both ends of a logarithmic range must be positive; got `0..5 Mbit/s x3 log`"),
        ("1..1 Mbit/s x3", "both ends of `1..1 Mbit/s x3` are equal"),
        ("1..1.0001 Mbit/s x9", "the 9 values of `1..1.0001 Mbit/s x9` are not all different at 4 digits"),
        ("0.2 Mbit/s..5 Mbit/s x3", "expected FROM..TO UNIT xN"),
        ("1..2 Mbit/s x3, 5 Mbit/s", "expected FROM..TO UNIT xN"),
        ("1 Mbit/s,,2 Mbit/s", "empty value in `1 Mbit/s,,2 Mbit/s`"),
        ("1 Mbit/s, 1 Mbit/s", "`1 Mbit/s` is given twice"),
        ([], "empty value in `[]`"),
        (5, "expected a list of values or a range; got `5`"),
    ],
)
def test_a_list_or_range_that_cannot_be_read_is_refused(given: object, message: str) -> None:
    with pytest.raises(BadInput, match=f"^vary: {re.escape(FIELD)}: .*{re.escape(message)}"):
        read_field(FIELD, given)


@pytest.mark.parametrize(
    ("vary", "message"),
    [
        ({FIELD: "0.2..5 x4 log"}, f"vary: {FIELD}: no unit in the range `0.2..5 x4 log`"),
        ({"link.up.capcity": ["1 Mbit/s"]}, "vary: link.up.capcity: unknown key"),
        ({FIELD: ["1 Mbit/s", "2 Mbps"]}, f"vary: {FIELD}: unknown rate unit in `2 Mbps`"),
        ({"congestion_control.name": ["goog-cc", "bbr"]}, "the simulator has no `bbr`"),
        ({"participants.carol.join": ["1 s"]}, "no `carol` in participants"),
        ({"repeats": [1, 2]}, "vary: repeats: cannot be varied"),
        ({}, "vary: no field"),
    ],
)
def test_a_sweep_with_an_invalid_field_or_value_does_not_start(
    tmp_path: Path, vary: dict[str, object], message: str
) -> None:
    with pytest.raises(BadInput, match=re.escape(message)):
        sweep("first-call", vary, out=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_an_invalid_combination_of_valid_values_is_named() -> None:
    vary: dict[str, object] = {"duration": ["60 s", "20 s"], "participants.alice.join": ["0 s", "30 s"]}
    # Each value is valid with the first value of the other field, but nobody can join a 20 s call at 30 s.
    with pytest.raises(
        BadInput, match=r"^duration = 20 s, participants\.alice\.join = 30 s: .*only bob joins"
    ):
        plan(vary)


def test_too_many_combinations_are_refused_before_they_are_made() -> None:
    ten = {f"link.up.{name}": f"1..10 {unit} x10" for name, unit in (("capacity", "Mbit/s"), ("delay", "ms"))}
    many = ten | {"link.down.capacity": "1..10 Mbit/s x10", "link.down.delay": "1..100 ms x1000"}
    with pytest.raises(BadInput, match=r"1000000 combinations x 10 repeats are 10000000; expected at most"):
        plan(dict(many), repeats=10)


def test_every_combination_is_a_condition_and_the_last_field_changes_fastest() -> None:
    made = plan({FIELD: ["0.5 Mbit/s", "1 Mbit/s"], "link.up.loss": "0..2 % x3"})
    assert [made.indices(point) for point in range(len(made))] == [
        [0, 0],
        [0, 1],
        [0, 2],
        [1, 0],
        [1, 1],
        [1, 2],
    ]
    assert made.label(5) == "link.up.capacity = 1 Mbit/s, link.up.loss = 2 %"
    scenario = made.scenario(5)
    assert (str(scenario.link.up.capacity), str(scenario.link.up.loss)) == ("1 Mbit/s", "2 %")
    # A field of the scenario applies to every participant, as with `--set`.
    assert str(scenario.link_of("bob").up.capacity) == "1 Mbit/s"


def test_conditions_are_the_same_after_a_round_trip_through_json() -> None:
    made = plan({FIELD: "0.2..5 Mbit/s x4 log", "link.up.loss": ["0 %", {"p": 0.01, "r": 0.3}]})
    assert from_json(json.loads(json.dumps(made.as_json()))) == made


@pytest.mark.parametrize(
    ("field", "value", "number"),
    [
        ("link.up.capacity", "2 Mbit/s", (2e6, "bit/s")),
        ("link.up.delay", "25 ms", (0.025, "s")),
        ("link.up.loss", "2 %", (2.0, "%")),
        ("link.up.queue", "300 ms", (0.3, "s")),
        ("link.up.queue", "20 packets", (20.0, "packets")),
        ("link.up.queue", "30 kB", (30e3, "B")),
        ("video.frame_rate", 15, (15.0, "")),
        ("participants.alice.join", "1 s", (1.0, "s")),
        ("congestion_control.name", "fixed", None),
        ("link.up.loss", {"p": 0.01, "r": 0.3}, None),
    ],
)
def test_values_with_units_become_numbers_in_base_units(
    field: str, value: object, number: tuple[float, str] | None
) -> None:
    assert number_of(Scenario.load("first-call", {field: value}), field) == number


def test_a_field_has_numbers_only_if_all_its_values_have_the_same_unit() -> None:
    assert plan({"link.up.queue": ["300 ms", "1 s"]}).fields[0].numbers == (0.3, 1.0)
    assert plan({"link.up.queue": ["300 ms", "20 packets"]}).fields[0].numbers == ()
