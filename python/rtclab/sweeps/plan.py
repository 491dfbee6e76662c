"""The plan of a sweep: its points, their repeats, and the tasks that run them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from math import ceil, prod
from pathlib import Path
from typing import Any, Self

from rtclab.backend import Backend
from rtclab.errors import BackendUnavailable, BadInput, FieldError, RtclabError, ScenarioError
from rtclab.scenario import Change, Scenario
from rtclab.scenario.files import located
from rtclab.scenario.load import changed, load
from rtclab.scenario.path import self_contained
from rtclab.sweeps.values import MAX_REPEATS, Field, number_of, read_field

VARY = "vary"
"""Origin, in errors, of the values of varied fields."""
NOT_VARIED = {
    "name": "the sweep's directory is named after it",
    "repeats": "all points have the same number of repeats; use --repeats",
    "record": "simulated sweeps record seconds, so they lack the metrics of single packets",
}
TOGETHER_S = 4000
"""Simulated seconds, summed over flows, that are measured together: half a second of work, usually a task."""
MIN_TASKS, MAX_TASKS = 16, 4000
"""Limits of the number of tasks: too few leave cores idle, and a scheduler takes about 1 ms for each."""


@dataclass(frozen=True)
class Plan:
    """All points of a sweep and their repeats.

    A point is a combination of values; the last field changes fastest. Repeats are numbered from 0 to
    ``size`` - 1, point by point. ``scenario`` has the scenario's tables as JSON values, without the varied
    fields. ``origin`` is its name in errors. A task runs ``per_task`` repeats and measures ``together`` of
    them at a time. A live task runs one point.
    """

    name: str
    origin: str
    scenario: dict[str, Any]
    fields: tuple[Field, ...]
    repeats: int
    backend: str
    per_task: int
    together: int

    @property
    def points(self) -> int:
        """Number of points."""
        return prod(field.count for field in self.fields)

    @property
    def size(self) -> int:
        """Number of repeats of all points together."""
        return self.points * self.repeats

    @property
    def tasks(self) -> int:
        """Number of tasks."""
        return ceil(self.size / self.per_task)

    def numbers(self, task: int) -> range:
        """Numbers of the repeats that a task runs."""
        return range(task * self.per_task, min((task + 1) * self.per_task, self.size))

    def indices(self, point: int) -> list[int]:
        """For each field, the index of its value at a point."""
        found = []
        for field in reversed(self.fields):
            point, index = divmod(point, field.count)
            found.append(index)
        return found[::-1]

    def label(self, indices: Sequence[int]) -> str:
        """The values of a point as text: ``link.up.capacity = 1 Mbit/s, link.up.loss = 2 %``."""
        chosen = zip(self.fields, indices, strict=True)
        return ", ".join(f"{field.name} = {field.texts[index]}" for field, index in chosen)

    def scenario_at(self, indices: Sequence[int]) -> Scenario:
        """The scenario of a point.

        Raises:
            BadInput: its values do not make a valid scenario.
        """
        chosen = zip(self.fields, indices, strict=True)
        values = [Change(field.name, field.values[index], VARY) for field, index in chosen]
        layered = changed(json.loads(self._scenario_text), self.origin, values)
        try:
            return Scenario.read(layered.data, self.origin)
        except ScenarioError as error:
            raise layered.attributed(error) from None

    def scenarios(self, numbers: range) -> Iterator[tuple[int, Scenario, range]]:
        """The points to which the repeats ``numbers`` belong: number, scenario and repeats of each point."""
        for point in range(numbers.start // self.repeats, ceil(numbers.stop / self.repeats)):
            first = point * self.repeats
            repeats = range(max(numbers.start - first, 0), min(numbers.stop - first, self.repeats))
            yield point, self.scenario_at(self.indices(point)), repeats

    def as_json(self) -> dict[str, Any]:
        """The plan as JSON values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Makes a plan from the result of :meth:`as_json`."""
        fields = tuple(Field.from_json(field) for field in values["fields"])
        return cls(**{**values, "fields": fields})

    @cached_property
    def _scenario_text(self) -> str:
        return json.dumps(self.scenario)


def make_plan(
    scenario: str | Path | Scenario,
    vary: Mapping[str, object],
    changes: Iterable[Change],
    backend: Backend,
    repeats: int | None,
) -> Plan:
    """Plans a sweep, and checks that the backend can run every point.

    Raises:
        BadInput: a field or value is invalid, or there are too many repeats.
        BackendUnavailable: this machine lacks something that the backend needs.
    """
    fields = _fields(vary)
    points = prod(field.count for field in fields)
    _check_size(points, repeats or 1)
    changes = list(changes)
    if backend.name == "sim":
        changes.append(Change("record", "seconds"))
    first = _first(scenario, changes, fields)
    repeats = repeats or first.repeats
    _check_size(points, repeats)
    if isinstance(scenario, Scenario):
        layered = changed(scenario.model_dump(mode="json"), scenario.name, changes)
    else:
        layered = load(scenario, changes)
    flow_s = first.duration.s * max(len(first.flows()), 1)
    together = max(1, int(TOGETHER_S / flow_s))
    size = points * repeats
    per_task = max(1, min(together, ceil(size / MIN_TASKS)), ceil(size / MAX_TASKS))
    if backend.name != "sim":
        per_task = repeats
    data = self_contained(layered.data)
    together = min(together, per_task)
    plan = Plan(first.name, layered.origin, data, fields, repeats, backend.name, per_task, together)
    plan = _with_numbers(plan)
    _check_points(plan, backend)
    return plan


def _first(scenario: str | Path | Scenario, changes: Sequence[Change], fields: Sequence[Field]) -> Scenario:
    """The scenario of the first point."""
    values = [Change(field.name, field.values[0], VARY) for field in fields]
    try:
        return Scenario.load(scenario, [*changes, *values])
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
    if not vary:
        raise BadInput(
            "vary: no field; expected at least one", hint="for example --vary 'link.up.loss=0 %,2 %,5 %'"
        )
    for name in vary:
        if name in NOT_VARIED:
            raise BadInput(f"vary: {name}: cannot be varied: {NOT_VARIED[name]}")
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


def _with_numbers(plan: Plan) -> Plan:
    """The plan with ``numbers`` and ``unit`` of each field filled in."""
    fields = []
    for position, field in enumerate(plan.fields):
        numbers = []
        for index in range(field.count):
            indices = [0] * len(plan.fields)
            indices[position] = index
            numbers.append(number_of(plan.scenario_at(indices), field.name))
        known = [number for number in numbers if number is not None]
        units = {unit for _, unit in known}
        if len(known) == field.count and len(units) == 1:
            field = replace(field, numbers=tuple(number for number, _ in known), unit=units.pop())
        fields.append(field)
    return replace(plan, fields=tuple(fields))


def _check_points(plan: Plan, backend: Backend) -> None:
    """Checks the scenario of every point, because valid values may conflict with each other."""
    for point in range(plan.points):
        indices = plan.indices(point)
        try:
            backend.check(plan.scenario_at(indices))
        except BackendUnavailable:
            raise
        except RtclabError as error:
            raise BadInput(f"{plan.label(indices)}: {error.message}", hint=error.hint) from None
