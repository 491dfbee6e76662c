"""The conditions of an experiment: labelled scenarios, given one by one or as a product of varied fields."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import isclose, prod
from pathlib import Path
from types import MappingProxyType
from typing import Any

import polars as pl
from pydantic import TypeAdapter

from rtclab.arguments import items, table
from rtclab.backend import Backend
from rtclab.errors import BackendUnavailable, BadInput, FieldError, RtclabError, ScenarioError
from rtclab.experiment.draws import Draw
from rtclab.experiment.fields import MAX_REPEATS, Field, number_of, read_field, value_at
from rtclab.scenario import Change, Scenario
from rtclab.scenario.files import located
from rtclab.scenario.ignored import SIM as SIM
from rtclab.scenario.layers import split_fields
from rtclab.scenario.load import Changes, changed, load
from rtclab.scenario.path import self_contained
from rtclab.scenario.toml_text import read_value, toml_text
from rtclab.scenario.trust import CALLER, ReadFrom

VARY = "vary"
"""Origin, in errors, of the values of varied fields."""
NOT_VARIED = {
    "name": "the experiment's directory is named after it",
    "repeats": "all conditions have the same number of repeats; use --repeats",
    "seed": "repeats differ in their seeds, which all conditions share; use --repeats",
}
RESERVED = (
    *("condition", "number", "label", "digest", "repeat", "seed", "status", "reason", "metric", "flow"),
    *("value",),
)
"""Names that fields of the user's own cannot have, because tables of results have such columns."""
UNRELATED = {"name", "title", "source", "repeats"}
"""Fields of a scenario that do not change what happens in a repeat."""


def digest_of(
    scenario: Scenario | Mapping[str, Any], without: Mapping[str, Any] = MappingProxyType({})
) -> str:
    """Identifies what a scenario does. Fields with default values do not count, so new fields change nothing.

    Of an imported capture or log there are only JSON values. ``without`` has further fields that do not
    count: True for all of a field, or the fields in it.
    """
    if isinstance(scenario, Scenario):
        exclude = {**dict.fromkeys(UNRELATED, True), **without}
        text = scenario.model_dump_json(exclude=exclude, exclude_defaults=True)
    else:
        text = json.dumps(scenario)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


@dataclass(frozen=True)
class Settings:
    """What holds for one condition alone, as in :class:`Condition`; None as the experiment says."""

    repeats: tuple[int, ...] | None = None
    measures: tuple[str, ...] | None = None
    traces: int | None = None
    draws: tuple[Draw, ...] = ()
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)


DEFAULT = Settings()
SETTINGS = TypeAdapter(Settings)
"""Reads and writes settings as JSON values."""


@dataclass(frozen=True)
class Condition:
    """A scenario of an experiment, with what holds for it alone.

    Attributes:
        scenario: the scenario.
        repeats: the number of its repeats, or their numbers; by default as many as the experiment has.
        measures: what the experiment's function ``measure`` measures in it, by name.
        traces: number of repeats, from the first on, whose traces are kept in an experiment that keeps no
            others.
        draws: fields that have another value in every repeat.
        fields: what tells it apart from other conditions, such as ``{"case": "dsl", "control": "nada"}``.
            Results have a column for each, as for the varied fields of a sweep. All conditions of an
            experiment have the same names.
    """

    scenario: Scenario
    repeats: int | Sequence[int] | None = None
    measures: str | Sequence[str] | None = None
    traces: int | None = None
    draws: Draw | Sequence[Draw] = ()
    fields: Mapping[str, str] = dataclasses.field(default_factory=dict)

    @property
    def settings(self) -> Settings:
        """What holds for this condition alone.

        Raises:
            BadInput: an attribute is something else than the list that it should be.
        """
        repeats = range(self.repeats) if isinstance(self.repeats, int) else self.repeats
        return Settings(
            None
            if repeats is None
            else _all("repeats", repeats, int, "a number of repeats, or their numbers"),
            None if self.measures is None else _all("measures", self.measures, str, "names of measures"),
            self.traces,
            _all("draws", self.draws, Draw, "fields that are drawn"),
            dict(table("fields", self.fields, "a value for each field")),
        )


def _all(name: str, given: object, kind: type, expected: str) -> tuple[Any, ...]:
    return tuple(items(name, given, kind, expected, may_be_empty=True))


@dataclass(frozen=True)
class Listed:
    """Conditions that are given one by one: the scenario's JSON values, and its settings if any, by label."""

    scenarios: Mapping[str, dict[str, Any]]
    own: Mapping[str, Settings] = dataclasses.field(default_factory=dict)
    read_from: ReadFrom = CALLER

    def __len__(self) -> int:
        return len(self.scenarios)

    @cached_property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the user's own, each with its values in the order of the conditions."""
        values: dict[str, dict[str, None]] = {}
        for label in self.scenarios:
            for name, value in self.own.get(label, DEFAULT).fields.items():
                values.setdefault(name, {})[value] = None
        return tuple(Field(name, tuple(of), tuple(of)) for name, of in values.items())

    @cached_property
    def _labels(self) -> list[str]:
        return list(self.scenarios)

    def label(self, number: int) -> str:
        """The label of a condition."""
        return self._labels[number]

    def scenario(self, number: int) -> Scenario:
        """The scenario of a condition. A field that rtclab did not have when it was kept has its default.

        Raises:
            ScenarioError: rtclab has no such scenario any more.
        """
        label = self._labels[number]
        return Scenario.read(self.scenarios[label], label, self.read_from)

    def data(self, number: int) -> dict[str, Any]:
        """The scenario of a condition as it was given."""
        return self.scenarios[self._labels[number]]

    def settings(self, number: int) -> Settings:
        """What holds for one condition alone."""
        return self.own.get(self._labels[number], DEFAULT)

    def number(self, label: str) -> int:
        """The number of the condition with a label."""
        return self._labels.index(label)

    def with_more(self, more: Listed) -> Listed:
        """These conditions and further ones, which replace those with the same label.

        Repeats of replaced ones stay planned.
        """
        own = {**self.own, **more.own}
        for label in self.own.keys() & more.own.keys():
            had, has = self.own[label].repeats, more.own[label].repeats
            if had is not None and has is not None:
                own[label] = replace(more.own[label], repeats=tuple(sorted({*had, *has})))
        return Listed({**self.scenarios, **more.scenarios}, own, read_from=self.read_from)

    def as_json(self) -> dict[str, Any]:
        """The conditions as JSON values."""
        own = {label: SETTINGS.dump_python(one, exclude_defaults=True) for label, one in self.own.items()}
        return {"scenarios": dict(self.scenarios)} | ({"settings": own} if own else {})


@dataclass(frozen=True)
class Product:
    """Every combination of the values of some fields of one scenario; the last field changes fastest.

    ``base`` has the scenario's tables as JSON values, without the varied fields. ``origin`` is its name in
    errors.
    """

    name: str
    origin: str
    base: dict[str, Any]
    fields: tuple[Field, ...]
    read_from: ReadFrom = CALLER

    def __len__(self) -> int:
        return prod(field.count for field in self.fields)

    def indices(self, number: int) -> list[int]:
        """For each field, the index of its value in a condition."""
        found = []
        for field in reversed(self.fields):
            number, index = divmod(number, field.count)
            found.append(index)
        return found[::-1]

    def label(self, number: int) -> str:
        """The values of a condition as text: ``link.up.capacity = 1 Mbit/s, link.up.loss = 2 %``."""
        chosen = zip(self.fields, self.indices(number), strict=True)
        return ", ".join(f"{field.name} = {field.texts[index]}" for field, index in chosen)

    def scenario(self, number: int) -> Scenario:
        """The scenario of a condition.

        Raises:
            BadInput: its values do not make a valid scenario.
        """
        chosen = zip(self.fields, self.indices(number), strict=True)
        values = [Change(field.name, field.values[index], VARY) for field, index in chosen]
        layered = changed(json.loads(self._text), self.origin, values)
        try:
            return Scenario.read(layered.data, self.origin, self.read_from)
        except ScenarioError as error:
            raise layered.attributed(error) from None

    def data(self, number: int) -> dict[str, Any]:
        """The scenario of a condition with all its defaults."""
        return self.scenario(number).model_dump(mode="json")

    def settings(self, number: int) -> Settings:
        """Nothing: all conditions of a product have the same repeats and metrics."""
        return DEFAULT

    def as_json(self) -> dict[str, Any]:
        """The conditions as JSON values."""
        return {name: value for name, value in asdict(self).items() if name != "read_from"}

    @cached_property
    def _text(self) -> str:
        return json.dumps(self.base)


Conditions = Listed | Product
"""Labelled scenarios, numbered from 0, and the fields in which they were varied, if any."""


def from_json(known: Mapping[str, Any], read_from: ReadFrom = CALLER) -> Conditions:
    """The conditions from the result of ``as_json``, which come from ``read_from``."""
    if "scenarios" in known:
        own = {label: SETTINGS.validate_python(one) for label, one in known.get("settings", {}).items()}
        return Listed(known["scenarios"], own, read_from=read_from)
    fields = tuple(Field.from_json(field) for field in known["fields"])
    return Product(**{**known, "fields": fields, "read_from": read_from})


def by_label(given: object, changes: Changes = (), *, trust: bool = False) -> dict[str, Scenario | Condition]:
    """Scenarios by label, or with the names of their scenarios as labels; with changes of all of them.

    A scenario may be given by its name, or by the path of its file, which ``trust`` allows to run programs.

    Raises:
        BadInput: there is none, one is no scenario, or two have the same name.
    """
    kinds = (str, Path, Scenario, Condition)
    expected = "scenarios, such as {'label': rtclab.Scenario.load('first-call')}"
    if isinstance(given, Mapping):
        items("conditions", given.values(), kinds, expected)
        return {label: _loaded(one, changes, trust=trust) for label, one in given.items()}
    loaded = [_loaded(one, changes, trust=trust) for one in items("conditions", given, kinds, expected)]
    names = [scenario_of(one).name for one in loaded]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise BadInput(
            f"conditions: two scenarios are named `{twice}`",
            hint="give each a label: {'label': scenario}",
        )
    return dict(zip(names, loaded, strict=True))


def _loaded(one: str | Path | Scenario | Condition, changes: Changes, *, trust: bool) -> Scenario | Condition:
    if isinstance(one, Condition):
        return replace(one, scenario=scenario_of(_loaded(one.scenario, changes, trust=trust)))
    if isinstance(one, Scenario) and not changes and not trust:
        return one
    return Scenario.load(one, changes, trust=trust)


def listed(given: Mapping[str, Scenario | Condition], record: str | None = None) -> Listed:
    """Scenarios by label as conditions; with ``record``, all record this.

    Raises:
        BadInput: a condition has other fields than the first.
    """
    own = {label: one.settings for label, one in given.items() if isinstance(one, Condition)}
    names = [sorted(own.get(label, DEFAULT).fields) for label in given]
    for label, of_label in zip(given, names, strict=True):
        if of_label != names[0]:
            raise BadInput(
                f"conditions: {label}: got the fields `{', '.join(of_label)}`; expected those of the first "
                f"condition, `{', '.join(names[0])}`"
            )
        if reserved := set(of_label) & set(RESERVED):
            raise BadInput(f"conditions: {label}: a field cannot be named `{reserved.pop()}`")
    data = {label: scenario_of(one).model_dump(mode="json") for label, one in given.items()}
    return Listed(
        data if record is None else {label: {**data[label], "record": record} for label in data}, own
    )


def scenario_of(given: Scenario | Condition) -> Scenario:
    """The scenario of a condition."""
    return given.scenario if isinstance(given, Condition) else given


def product(
    scenario: object,
    vary: Mapping[str, object],
    changes: Sequence[Change],
    repeats: int | None,
    *,
    trust: bool = False,
) -> Product:
    """Every combination of the values of some fields of a scenario, or of the one with this name or path.

    Raises:
        BadInput: it is no scenario, a field or value is invalid, or there are too many repeats.
    """
    if not isinstance(scenario, (str, Path, Scenario)):
        raise BadInput(f"vary: got `{scenario}`; expected one scenario, whose fields are varied")
    fields = _fields(vary)
    points = prod(field.count for field in fields)
    _check_size(points, repeats or 1)
    first = _first(scenario, changes, fields, trust=trust)
    _check_size(points, repeats or first.repeats)
    if isinstance(scenario, Scenario):
        layered = changed(scenario.model_dump(mode="json"), scenario.name, changes)
    else:
        layered = load(scenario, changes)
    base = self_contained(layered.data)
    return _with_numbers(Product(first.name, layered.origin, base, fields, first.read_from))


def check(conditions: Conditions, backend: Backend) -> None:
    """Checks that the backend can run every condition, because valid values may conflict with each other.

    Raises:
        BadInput: strangers made them and the user does not trust them, or the backend cannot run one. The
            message says what they would do, or names the condition.
        BackendUnavailable: this machine lacks something that the backend needs.
    """
    check_trusted(conditions, live=backend.name != SIM)
    for number in range(len(conditions)):
        try:
            scenario = conditions.scenario(number)
            backend.check(scenario)
            for draw in conditions.settings(number).draws:
                for value in draw.ends:
                    Scenario.load(scenario, {draw.field: value})
        except BackendUnavailable:
            raise
        except RtclabError as error:
            if len(conditions) == 1 and not conditions.fields:
                raise
            raise BadInput(f"{conditions.label(number)}: {error.message}", hint=error.hint) from None


def check_trusted(conditions: Conditions, *, live: bool, measure: str = "") -> None:
    """Checks that the user trusts what the conditions do, and the function ``measure`` if there is one.

    Raises:
        BadInput: strangers made them, and the user does not trust them. The message lists what they would do.
    """
    read_from = conditions.read_from
    if read_from.strangers:
        numbers = range(len(conditions))
        found = (power for number in numbers for power in _powers(conditions, number, live=live))
        read_from.check(dict.fromkeys([*([f"measure: {measure}"] if measure else []), *found]))


def _powers(conditions: Conditions, number: int, *, live: bool) -> Iterator[str]:
    """What a condition does that needs trust, with each value that may be drawn."""
    scenario = conditions.scenario(number)
    yield from scenario.powers(live=live)
    for draw in conditions.settings(number).draws:
        for value in draw.one_of or ():
            changed = Scenario.load(scenario, {draw.field: value}, by=scenario.read_from)
            yield from changed.powers(live=live)


def with_controls_of_now(conditions: Conditions) -> tuple[Conditions, Listed | None]:
    """The conditions with the congestion controls of the user's own as their files are now.

    The second result has those that have another digest than before, if there are any. Conditions of a
    product are read anew every time, so they are as their files are now already.

    Raises:
        ScenarioError: the file of a control cannot be read.
    """
    if not isinstance(conditions, Listed):
        return conditions, None
    changed = {}
    for label, had in conditions.scenarios.items():
        now = _without_digests(had)
        if now != had:
            read = Scenario.read(now, label)
            if read.own_controls() != Scenario.read(had, label).own_controls():
                changed[label] = read.model_dump(mode="json")
    more = Listed(changed)
    return (conditions.with_more(more), more) if changed else (conditions, None)


def controls_in_words(conditions: Conditions) -> str:
    """The congestion controls of the user's own in some conditions, such as ``pol.py:P``."""
    scenarios = map(conditions.scenario, range(len(conditions)))
    controls = (control.label for scenario in scenarios for control in scenario.own_controls())
    return " or ".join(dict.fromkeys(controls))


def _without_digests(data: Any, key: str = "") -> Any:
    """JSON values of a scenario without the digests of controls, so that they are computed anew."""
    if isinstance(data, list):
        return [_without_digests(one) for one in data]
    if not isinstance(data, dict):
        return data
    without = key == "congestion_control" and data.get("digest")
    kept = {name: one for name, one in data.items() if not (without and name == "digest")}
    return {name: _without_digests(one, name) for name, one in kept.items()}


def equal_text(conditions: Conditions, field: Field, given: object) -> str:
    """The value of a varied field, as it was given, that equals another: ``2 %`` for ``2%`` and ``0.02``.

    Numbers without a unit are in bit/s, seconds, bytes or, for ``%``, shares. Values of fields of the user's
    own are texts.

    Raises:
        BadInput: no value equals it, or it is no value of the field.
    """
    text = given if isinstance(given, str) else toml_text(given)
    if text in field.texts:
        return text
    value = read_value(text)
    equal: list[str] = []
    if isinstance(value, (int, float)) and field.unit:
        number = 100 * value if field.unit == "%" else value
        equal = [text for text, of in zip(field.texts, field.numbers, strict=True) if isclose(number, of)]
    elif isinstance(conditions, Product):
        scenario = conditions.scenario(0)
        try:
            wanted = value_at(Scenario.load(scenario, {field.name: value}), field.name)
        except RtclabError as error:
            raise BadInput(f"where: {error.message.removeprefix('set: ')}", hint=error.hint) from None
        of_each = (value_at(Scenario.load(scenario, {field.name: one}), field.name) for one in field.values)
        equal = [text for text, one in zip(field.texts, of_each, strict=True) if one == wanted]
    if not equal:
        expected = ", ".join(field.texts)
        raise BadInput(f"where: {field.name} = `{text}` was not run; expected {expected}")
    return equal[0]


def field_columns(fields: Sequence[Field]) -> list[str]:
    """The columns of varied fields: first the values as given, then the numbers."""
    numbers = [field.number_column for field in fields if field.numbers]
    return [*(field.name for field in fields), *numbers]


def table_of(conditions: Conditions) -> pl.DataFrame:
    """The label of each condition, and the values of its varied fields as given and as numbers.

    Texts sort in the order in which they were given.
    """
    count = len(conditions)
    labels = pl.Series("condition", [conditions.label(number) for number in range(count)], dtype=pl.String)
    number = pl.Series("number", range(count), dtype=pl.Int64)
    texts, numbers, stride = [], [], count
    for field in conditions.fields:
        if isinstance(conditions, Listed):
            given = [conditions.settings(index).fields[field.name] for index in range(count)]
            texts.append(pl.Series(field.name, given, dtype=pl.Enum(field.texts)))
            continue
        stride //= field.count
        index = number // stride % field.count
        texts.append(pl.Series(field.name, field.texts, dtype=pl.Enum(field.texts))[index])
        if field.numbers:
            numbers.append(pl.Series(field.number_column, field.numbers, dtype=pl.Float64)[index])
    return pl.DataFrame([number, labels, *texts, *numbers])


def _first(
    scenario: str | Path | Scenario, changes: Sequence[Change], fields: Sequence[Field], *, trust: bool
) -> Scenario:
    """The scenario of the first condition."""
    values = [Change(field.name, field.values[0], VARY) for field in fields]
    try:
        return Scenario.load(scenario, [*changes, *values], trust=trust)
    except ScenarioError as error:
        ranges = {field.name: field.range for field in fields if field.range}
        without = {problem.field for problem in error.problems if problem.message.startswith("no unit")}
        for name in without & ranges.keys():
            raise BadInput(
                f"{VARY}: {name}: no unit in the range `{ranges[name]}`; expected one after its end",
                hint="for example `0.2..5 Mbit/s x8`",
            ) from None
        raise


def _fields(vary: Mapping[str, object]) -> tuple[Field, ...]:
    vary = table(VARY, vary, 'the values of each field, such as {"link.up.loss": ["0 %", "2 %"]}')
    if not vary:
        raise BadInput(
            "vary: no field; expected at least one", hint="for example --vary 'link.up.loss=0 %,2 %,5 %'"
        )
    named = [name for text in vary for name in split_fields(text)]
    for name in named:
        if name in NOT_VARIED:
            raise BadInput(f"vary: {name}: cannot be varied: {NOT_VARIED[name]}")
        if named.count(name) > 1:
            raise BadInput(f"vary: {name} is named more than once")
    return tuple(_self_contained(read_field(name, given)) for name, given in vary.items())


def _self_contained(field: Field) -> Field:
    """The field with the content of all files that its values name, because workers may not have them."""
    try:
        key = field.name.rpartition(".")[2]
        values = tuple(self_contained(located(value, Path()), key) for value in field.values)
    except FieldError as error:
        raise BadInput(f"{VARY}: {field.name}: {error.message}", hint=error.hint) from None
    return replace(field, values=values)


def _check_size(points: int, repeats: int) -> None:
    if points * repeats > MAX_REPEATS:
        raise BadInput(
            f"vary: {points} combinations x {repeats} repeats are {points * repeats}; "
            f"expected at most {MAX_REPEATS} in one sweep",
            hint="use fewer values, or split the sweep",
        )


def _with_numbers(made: Product) -> Product:
    """The conditions with ``numbers`` and ``unit`` of each field filled in."""
    fields, stride = [], len(made)
    for field in made.fields:
        stride //= field.count
        numbers = [number_of(made.scenario(index * stride), field.name) for index in range(field.count)]
        known = [number for number in numbers if number is not None]
        units = {unit for _, unit in known}
        if len(known) == field.count and len(units) == 1:
            field = replace(field, numbers=tuple(number for number, _ in known), unit=units.pop())
        fields.append(field)
    return replace(made, fields=tuple(fields))
