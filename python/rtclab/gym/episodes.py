"""Which call an episode is: a scenario, with fields drawn at random, and the sender whose rate is decided."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator

from rtclab import _native
from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput
from rtclab.experiment import Draw
from rtclab.experiment.draws import drawn
from rtclab.experiment.fields import read_field
from rtclab.scenario import Scenario
from rtclab.scenario.topology import named_connections

World = str | Path | Scenario | Sequence[str | Path | Scenario] | Callable[[int], Scenario]
"""A scenario, a list from which each episode takes one, or a function from a number to a scenario."""

Vary = Mapping[str, str | Sequence[Any] | Draw]
"""Fields of the scenario, each with what is drawn for it in every episode."""

REPEATS = 2**31
"""Episodes are repeats from 0 up to this, without it."""

_RANGE = re.compile(r"\s*([0-9.]+)\s*\.\.\s*([0-9.]+)\s*(\D*?)\s*")


@dataclass(frozen=True)
class Episode:
    """A call: a repeat of a scenario whose fields are drawn.

    Attributes:
        scenario: what is run; a run of rtclab with this scenario and repeat has the same call.
        repeat: number of the repeat, from which the seed is derived.
        participant: whose sender is decided.
        flow: the flow that it sends.
    """

    scenario: Scenario
    repeat: int
    participant: str
    flow: str

    @property
    def seed(self) -> int:
        """Seed of everything random in the call."""
        return self.scenario.seed_of(self.repeat)

    def native(self) -> str:
        """The configuration for the native module, as JSON."""
        config: dict[str, Any] = self.scenario.native(seed=self.seed) | {"record": "seconds"}
        for one in config["participants"]:
            if one["name"] == self.participant:
                one["congestion_control"] = {"name": _native.ENVIRONMENT_CONTROL, "options": {}}
        return json.dumps(config)


class Episodes:
    """The distribution that episodes are drawn from."""

    def __init__(self, scenario: World, vary: Vary | None = None, participant: str | None = None) -> None:
        """Reads and checks the scenarios and what is drawn.

        Raises:
            ScenarioError: a scenario is invalid, also with one of the values that may be drawn.
            UnsupportedScenario: the simulator cannot run a scenario.
            BadInput: there is no scenario or no such participant, it sends no media or over several
                connections, or what is drawn cannot be read.
        """
        self._participant = participant
        self._make = scenario if callable(scenario) else None
        self._draws = [_draw(field, given) for field, given in (vary or {}).items()]
        given: Iterable[Any] = (
            []
            if callable(scenario)
            else [scenario]
            if isinstance(scenario, str | Path | Scenario)
            else scenario
        )
        self._scenarios = [one if isinstance(one, Scenario) else Scenario.load(one) for one in given]
        if self._make is None and not self._scenarios:
            raise BadInput("scenario: an empty list; expected at least one scenario")
        for one in self._scenarios or [self._made(0)]:
            SimBackend().check(one)
            sender_of(one, participant)
            for draw in self._draws:
                for value in draw.ends:
                    Scenario.load(one, {draw.field: value})

    @property
    def scenarios(self) -> int:
        """Number of scenarios that an episode may have; 1 if a function makes them."""
        return len(self._scenarios) or 1

    def numbers(self, source: Generator) -> tuple[int, int]:
        """A repeat and the index of a scenario at random."""
        return int(source.integers(REPEATS)), int(source.integers(self.scenarios))

    def episode(self, repeat: int, scenario: int = 0) -> Episode:
        """The episode of a repeat of the scenario with an index.

        The same numbers always give the same episode.

        Raises:
            BadInput: there is no such scenario or repeat.
        """
        for name, value, end in (("scenario", scenario, self.scenarios), ("repeat", repeat, REPEATS)):
            if not isinstance(value, int | np.integer) or not 0 <= value < end:
                raise BadInput(f"{name} {value!r}; expected a whole number from 0 to {end - 1}")
        repeat, scenario = int(repeat), int(scenario)
        chosen = self._scenarios[scenario] if self._scenarios else self._made(repeat)
        chosen = drawn(chosen, self._draws, repeat)
        return Episode(chosen, repeat, *sender_of(chosen, self._participant))

    def _made(self, number: int) -> Scenario:
        assert self._make is not None
        made = self._make(number)
        if not isinstance(made, Scenario):
            raise BadInput(f"scenario: the function returned {made!r} for {number}; expected a Scenario")
        return made


def sender_of(scenario: Scenario, participant: str | None) -> tuple[str, str]:
    """A participant that sends media over one connection, and its flow; with None, the first one that does.

    Raises:
        BadInput: there is none, or the participant does not exist or does not send so.
    """
    flows: dict[str, list[str]] = {name: [] for name in scenario.participants}
    for connection, (there, back) in named_connections(scenario):
        ways = [(connection.a, there)] if connection.forwards is None else []
        ways += [] if connection.one_way else [(connection.b, back)]
        for sender, flow in ways:
            if sender in flows and (scenario.video_of(sender) or scenario.audio_of(sender)):
                flows[sender].append(flow)
    single = [name for name, own in flows.items() if len(own) == 1]
    if participant is None:
        if not single:
            raise BadInput(
                f"scenario {scenario.name}: nobody sends media over exactly one connection",
                hint="a call of two, or over a server, has one",
            )
        participant = single[0]
    if participant not in flows:
        known = ", ".join(f"`{name}`" for name in flows)
        raise BadInput(f"participant `{participant}` is not in scenario {scenario.name}; expected {known}")
    if participant not in single:
        sent = ", ".join(flows[participant]) or "nothing"
        known = ", ".join(f"`{name}`" for name in single) or "a scenario with such a sender"
        raise BadInput(
            f"participant `{participant}` sends {sent} in scenario {scenario.name}; "
            f"expected one that sends media over exactly one connection: {known}"
        )
    return participant, flows[participant][0]


def _draw(field: str, given: object) -> Draw:
    """What is drawn for a field.

    Raises:
        BadInput: it cannot be read.
    """
    if isinstance(given, Draw):
        return given
    match = _RANGE.fullmatch(given) if isinstance(given, str) else None
    if match is None:
        return Draw(field=field, words=field, one_of=read_field(field, given).values)
    low, high, unit = match.groups()
    try:
        bounds = float(low), float(high)
    except ValueError:
        raise BadInput(f"vary: {field}: cannot read `{given}`; expected two numbers and a unit") from None
    if not 0 < bounds[0] < bounds[1]:
        raise BadInput(
            f"vary: {field}: `{given}`; expected a positive number and a larger one",
            hint="write a list, or `0..2 % x5`, to draw zero as well",
        )
    if unit:
        return Draw(field=field, words=field, log_uniform=bounds, unit=unit)
    if not (low.isdecimal() and high.isdecimal()):
        raise BadInput(f"vary: {field}: `{given}` has no unit; expected one, or whole numbers")
    return Draw(field=field, words=field, whole=(int(low), int(high)))
