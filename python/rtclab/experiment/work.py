"""Simulates and measures repeats in memory, in this process or in a worker, without files."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import ceil
from typing import Any

import rtclab
from rtclab.backend.sim_batch import simulate_together
from rtclab.experiment.conditions import Conditions
from rtclab.experiment.definitions import Definitions, OtherVersion
from rtclab.experiment.draws import Draw, drawn
from rtclab.experiment.store import About, Result, build
from rtclab.experiment.targets import note_on_targets
from rtclab.own_controls import files_read
from rtclab.scenario import Scenario
from rtclab.trace import SCHEMA, Repeat, Status

TOGETHER_S = 4000
"""Simulated seconds, summed over flows, that are measured together: half a second of work, usually a task."""
TASKS_OF_JOB = 4
"""Fewest tasks of each thread: with fewer, threads wait for the last one at the end."""
MIN_TASKS, MAX_TASKS = 16, 4000
"""Limits of the number of tasks of an executor, the number of whose workers is not known: too few leave some
idle, and a scheduler takes about 1 ms for each."""

Item = tuple[int, int]
"""A condition and a repeat, by number."""


@dataclass(frozen=True)
class Task:
    """Repeats that are simulated in one process: their number, and what a worker needs to run them.

    ``text`` is JSON, so that any version of rtclab can read it and refuse.
    """

    size: int
    text: str


def versions() -> dict[str, object]:
    """Versions that must be the same at the caller and at every worker."""
    return {"rtclab": rtclab.__version__, "schema": SCHEMA, "code": build()}


def tasks_of(
    conditions: Conditions, items: Sequence[Item], about: About, fewest: int = MIN_TASKS
) -> Iterator[Task]:
    """The tasks that run the items, in their order; at least ``fewest`` if there are so many items.

    They are made one by one, because each may be large.
    """
    most = max(1, ceil(len(items) / fewest))
    least = ceil(len(items) / MAX_TASKS)
    head = {"versions": versions(), "measure": about.measure, "window": about.window}
    parts: list[dict[str, object]] = []
    size, long_s, known, flow_s, own = 0, 0.0, -1, 0.0, {}

    def finished() -> Task:
        return Task(size, json.dumps({**head, "parts": parts}))

    for condition, repeat in items:
        if condition != known:
            scenario, settings = conditions.scenario(condition), conditions.settings(condition)
            flow_s = _flow_s(scenario)
            own = {
                "condition": condition,
                "scenario": scenario.model_dump(mode="json"),
                "names": about.measures_of(settings),
                "draws": [draw.model_dump(mode="json") for draw in settings.draws],
            }
            known = condition
            if parts:
                parts.append({**own, "repeats": []})
        if parts and size >= least and (size >= most or long_s + flow_s > TOGETHER_S):
            parts = parts if parts[-1]["repeats"] else parts[:-1]
            yield finished()
            parts, size, long_s = [], 0, 0.0
        if not parts:
            parts.append({**own, "repeats": []})
        repeats = parts[-1]["repeats"]
        assert isinstance(repeats, list)
        repeats.append(repeat)
        size, long_s = size + 1, long_s + flow_s
    if parts:
        yield finished()


def run_task(text: str) -> list[Result]:
    """Simulates and measures the repeats of a task.

    The same text gives the same result on every machine.

    Raises:
        OtherVersion: this worker runs another build of rtclab than the caller, or lacks one of its metrics.
    """
    known = json.loads(text)
    own, callers = versions(), known["versions"]
    if own != callers:
        raise OtherVersion(
            f"the worker on {socket.gethostname()} runs {_in_words(own)}; "
            f"the caller runs {_in_words(callers)}",
            hint="install the same build of rtclab on all machines",
        )
    definitions = Definitions(known["measure"], known["window"] and tuple(known["window"]))
    parts = [_Part.read(part) for part in known["parts"]]
    for part in parts:
        definitions.check(part.names)
    results = []
    for some in _together(parts):
        results += _simulated(some, definitions)
    return results


@dataclass(frozen=True)
class _Part:
    """Repeats of a condition: its number and scenario, and what is measured and drawn in each."""

    condition: int
    scenario: Scenario
    names: tuple[str, ...]
    draws: tuple[Draw, ...]
    repeats: Sequence[int]

    @classmethod
    def read(cls, known: Mapping[str, Any]) -> _Part:
        """Reads a part of a task."""
        scenario = _scenario(json.dumps(known["scenario"]))
        draws = tuple(Draw.model_validate(draw) for draw in known["draws"])
        return cls(known["condition"], scenario, tuple(known["names"]), draws, known["repeats"])

    def runs(self) -> list[tuple[Scenario, list[int]]]:
        """The scenarios to simulate, and the seeds of each."""
        if not self.draws:
            return [(self.scenario, [self.scenario.seed_of(repeat) for repeat in self.repeats])]
        each = (drawn(self.scenario, self.draws, repeat) for repeat in self.repeats)
        return [
            (scenario, [scenario.seed_of(repeat)])
            for scenario, repeat in zip(each, self.repeats, strict=True)
        ]


def _simulated(parts: Sequence[_Part], definitions: Definitions) -> list[Result]:
    """Simulates parts into one trace, and measures each repeat."""
    with files_read() as read:
        traces = iter(simulate_together([run for part in parts for run in part.runs()]))
    results = []
    for part in parts:
        files = read.of(part.scenario.owned_controls())
        for repeat, trace in zip(part.repeats, traces, strict=False):
            failure = trace.manifest.failure
            # Without flows, not the call failed but the simulator.
            failed: Status = "failed" if trace.manifest.flows else "error"
            notes = [*map(str, trace.manifest.not_connected), note_on_targets(trace, part.scenario)]
            outcome = Repeat(
                repeat,
                trace.manifest.seed or 0,
                "finished" if failure is None else failed,
                failure or "",
                "; ".join(filter(None, notes)) if failure is None else "",
            )
            recorded = trace if trace.manifest.flows else None
            result = definitions.result(part.condition, outcome, recorded, part.names)
            results.append(replace(result, files=files))
    return results


def _together(parts: Sequence[_Part]) -> Iterator[list[_Part]]:
    """The repeats of a task, in groups that are simulated into one trace.

    What the repeats of a group record is the same, because they share their tables.
    """
    group: list[_Part] = []
    long_s = 0.0
    for part in parts:
        left, flow_s = part.repeats, _flow_s(part.scenario)
        if group and group[-1].scenario.record != part.scenario.record:
            yield group
            group, long_s = [], 0.0
        while left:
            room = int((TOGETHER_S - long_s) / flow_s) if flow_s else len(left)
            if room < 1 and group:
                yield group
                group, long_s = [], 0.0
                continue
            taken, left = left[: max(room, 1)], left[max(room, 1) :]
            group.append(replace(part, repeats=taken))
            long_s += flow_s * len(taken)
    if group:
        yield group


def _flow_s(scenario: Scenario) -> float:
    """Simulated seconds of a repeat, summed over flows."""
    return scenario.duration.s * max(len(scenario.flows()), 1)


@lru_cache(maxsize=8)
def _scenario(text: str) -> Scenario:
    return Scenario.read(json.loads(text), "scenario")


def _in_words(known: Mapping[str, object]) -> str:
    return f"rtclab {known.get('rtclab')} (schema {known.get('schema')}, build {known.get('code')})"
