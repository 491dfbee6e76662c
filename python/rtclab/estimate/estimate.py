"""From a call to a scenario: estimates both paths and what was sent, and simulates the result."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.backend.sim import simulate
from rtclab.errors import BadInput
from rtclab.estimate.counters import path_of_counters
from rtclab.estimate.findings import Finding, Parameters, time_text
from rtclab.estimate.media import media_of
from rtclab.estimate.path import path_of
from rtclab.estimate.recorded_call import GETSTATS, ONE_POINT, CallOfTwo, Direction
from rtclab.estimate.scenario_text import scenario_text
from rtclab.scenario import Scenario
from rtclab.trace import Trace, write_text

NOT_KNOWN = "one capture does not tell when packets that were sent there arrived"
SIMULATIONS = 10
"""Number of simulations that a call is compared with."""


@dataclass(frozen=True)
class Estimate:
    """A scenario that was estimated from a call, with how sure its numbers are.

    Attributes:
        call: the call.
        paths: the path of each participant's packets, by the participant's name.
        media: what each participant sends.
        text: the scenario in TOML, with comments on each number.
    """

    call: CallOfTwo
    paths: Mapping[str, Parameters]
    media: Mapping[str, Parameters]
    text: str

    @cached_property
    def scenario(self) -> Scenario:
        """The estimated scenario, read from ``text``."""
        return Scenario.read(tomllib.loads(self.text), self.call.origin)

    @property
    def findings(self) -> list[Finding]:
        """All numbers: of both paths, and then of what was sent."""
        parts = [*self.paths.values(), *self.media.values()]
        return [one for part in parts for one in part.findings]

    @property
    def loaded(self) -> bool:
        """Whether the call came to the capacity of at least one direction."""
        return any(path.loaded for path in self.paths.values())

    def table(self) -> pl.DataFrame:
        """A row for each number.

        Columns: ``of`` (a flow or a participant), ``name``, ``value``, ``low`` and ``high`` (95 % interval;
        null where there is no bound), ``unit``, ``grade`` (how it is known) and ``note``.
        """
        columns = ("of", "name", "value", "low", "high", "unit", "grade", "note")
        rows = [[getattr(one, column) for column in columns] for one in self.findings]
        schema = {name: pl.Float64 if name in ("value", "low", "high") else pl.String for name in columns}
        return pl.DataFrame(rows, schema=schema, orient="row")

    def save(self, path: str | Path) -> Path:
        """Writes the scenario to a TOML file; returns its path.

        Raises:
            BadInput: there is such a file already.
        """
        file = Path(path)
        check_new(file)
        file.parent.mkdir(parents=True, exist_ok=True)
        write_text(file, self.text)
        return file

    def simulated(self, repeats: int = SIMULATIONS) -> list[Trace]:
        """Simulates the scenario; returns the trace of each repeat."""
        return [simulate(self.scenario, repeat) for repeat in range(repeats)]

    def report(
        self, path: str | Path, repeats: int = SIMULATIONS, scenario: str | Path | None = None
    ) -> Path:
        """Writes a page that shows the call beside its simulation; returns its path.

        Args:
            path: the page.
            repeats: number of simulations.
            scenario: the file of the scenario, which the page's commands name; by default the name of the
                page with ``.toml``.

        Raises:
            BadInput: there is such a file already; nothing was simulated.
            DiskFull: the page could not be written.
        """
        from rtclab.estimate.page import write_page

        check_new(Path(path))
        simulated = self.simulated(repeats)
        file = str(scenario or Path(path).with_suffix(".toml"))
        return write_page(Path(path), self.call, self.scenario, self.text, self.findings, simulated, file)

    def as_dict(self) -> dict[str, Any]:
        """The numbers and the scenario as JSON values."""
        return {
            "source": self.call.origin,
            "participants": dict(self.call.names),
            "directions": [
                {"flow": one.flow, "known_from": one.source, "loaded": self.paths[_sender(one)].loaded}
                for one in self.call.directions
            ],
            "findings": self.table().to_dicts(),
            "scenario": self.scenario.model_dump(mode="json"),
            "notes": list(self.call.notes),
        }


def check_new(file: Path, option: str = "") -> None:
    """Checks that a file, which an option may have named, can be written without overwriting anything.

    Raises:
        BadInput: there is such a file already.
    """
    if file.exists() or file.is_symlink():
        raise BadInput(
            f"{option} {file}: exists already".lstrip(), hint="give another name, or remove it first"
        )


def estimate(call: CallOfTwo) -> Estimate:
    """Estimates the scenario of a call.

    Raises:
        BadInput: the call has numbers that no scenario can have.
    """
    paths = {_sender(one): _path(call, one) for one in call.directions}
    for name in call.ends:
        if name not in paths:
            paths[name] = _silent(call, name, paths)
    media = {_sender(one): media_of(call.trace, one.flow) for one in call.directions}
    ordered = {name: paths[name] for name in call.ends}
    made = Estimate(call, ordered, media, scenario_text(call, ordered, media))
    _ = made.scenario  # it can be read
    return made


def _sender(direction: Direction) -> str:
    return direction.flow.partition("->")[0]


def _path(call: CallOfTwo, one: Direction) -> Parameters:
    if one.packets is not None:
        return path_of(one)
    if one.source == GETSTATS:
        return path_of_counters(call.trace, one.flow)
    path = Parameters(one.flow)
    path.unknown("capacity", NOT_KNOWN)
    if one.source == ONE_POINT and one.round_trip_s is not None:
        half_s = one.round_trip_s / 2
        note, value = "the smallest round trip of connectivity checks (STUN)", time_text(half_s)
        path.add(
            "delay", 1e3 * half_s, 0.0, 2e3 * half_s, grade="half of the round trip", note=note, value=value
        )
    else:
        path.unknown("delay", NOT_KNOWN)
    path.unknown("loss", NOT_KNOWN)
    return path


def _silent(call: CallOfTwo, name: str, paths: Mapping[str, Parameters]) -> Parameters:
    """The path of a participant that sends no media: it is assumed to have the delay of the other path."""
    other = next(one for one in call.ends if one != name)
    path, note = Parameters(f"{name}->{other}"), "no media in this direction"
    path.unknown("capacity", note)
    delay = next((one for one in paths[other].findings if one.name == "delay"), None)
    if delay is not None and delay.value is not None:
        note, value = f"{note}; as in the other one", paths[other].values["delay"]
        path.add("delay", delay.value, grade="assumed", note=note, value=value)
    return path
