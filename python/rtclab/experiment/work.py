"""Simulates and measures repeats in memory, in this process or in a worker, without files."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import ceil

import rtclab
from rtclab.backend.sim_batch import simulate_together
from rtclab.errors import RtclabError
from rtclab.experiment.conditions import Conditions
from rtclab.experiment.measure import measured
from rtclab.experiment.store import About, Result, build
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.trace import SCHEMA, Repeat, Status

TOGETHER_S = 4000
"""Simulated seconds, summed over flows, that are measured together: half a second of work, usually a task."""
MIN_TASKS, MAX_TASKS = 16, 4000
"""Limits of the number of tasks: too few leave cores idle, and a scheduler takes about 1 ms for each."""

Item = tuple[int, int]
"""A condition and a repeat, by number."""


class OtherVersion(RtclabError):
    """A worker runs another build of rtclab than the caller, so its results may differ."""


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


def tasks_of(conditions: Conditions, items: Sequence[Item], about: About) -> Iterator[Task]:
    """The tasks that run the items, in their order. They are made one by one, because each may be large."""
    most = max(1, ceil(len(items) / MIN_TASKS))
    least = ceil(len(items) / MAX_TASKS)
    head = {"versions": versions(), "metrics": about.metrics, "window": about.window}
    parts: list[dict[str, object]] = []
    size, long_s, known, flow_s, text = 0, 0.0, -1, 0.0, {}

    def finished() -> Task:
        return Task(size, json.dumps({**head, "parts": parts}))

    for condition, repeat in items:
        if condition != known:
            scenario = conditions.scenario(condition)
            flow_s = scenario.duration.s * max(len(scenario.flows()), 1)
            text, known = scenario.model_dump(mode="json"), condition
            if parts:
                parts.append({"condition": condition, "scenario": text, "repeats": []})
        if parts and size >= least and (size >= most or long_s + flow_s > TOGETHER_S):
            parts = parts if parts[-1]["repeats"] else parts[:-1]
            yield finished()
            parts, size, long_s = [], 0, 0.0
        if not parts:
            parts.append({"condition": condition, "scenario": text, "repeats": []})
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
    _check_versions(known["versions"])
    for name in known["metrics"]:
        if name not in METRICS:
            raise OtherVersion(
                f"the worker on {socket.gethostname()} has no metric `{name}`, which the caller has",
                hint="have every worker import the module that defines it",
            )
    metrics = [METRICS[name] for name in known["metrics"]]
    window = known["window"] and tuple(known["window"])
    results = []
    for some in _together(known["parts"]):
        scenarios = [
            (scenario, [scenario.seed_of(repeat) for repeat in repeats]) for _, scenario, repeats in some
        ]
        traces = iter(simulate_together(scenarios))
        for condition, _, repeats in some:
            for repeat, trace in zip(repeats, traces, strict=False):
                failure = trace.manifest.failure
                # Without flows, not the call failed but the simulator.
                failed: Status = "failed" if trace.manifest.flows else "error"
                outcome = Repeat(
                    repeat,
                    trace.manifest.seed or 0,
                    "finished" if failure is None else failed,
                    failure or "",
                    "; ".join(map(str, trace.manifest.not_connected)) if failure is None else "",
                )
                numbers = measured(outcome, None if failure else trace, metrics, window)
                results.append(Result(condition, outcome, numbers))
    return results


Part = tuple[int, Scenario, list[int]]
"""A condition's number, its scenario, and the numbers of its repeats."""


def _together(parts: Sequence[Mapping[str, object]]) -> Iterator[list[Part]]:
    """The repeats of a task, in groups that are simulated into one trace."""
    group: list[Part] = []
    long_s = 0.0
    for part in parts:
        scenario = _scenario(json.dumps(part["scenario"]))
        flow_s = scenario.duration.s * max(len(scenario.flows()), 1)
        repeats, condition = part["repeats"], part["condition"]
        assert isinstance(repeats, list)
        assert isinstance(condition, int)
        while repeats:
            room = int((TOGETHER_S - long_s) / flow_s) if flow_s else len(repeats)
            if room < 1 and group:
                yield group
                group, long_s = [], 0.0
                continue
            taken, repeats = repeats[: max(room, 1)], repeats[max(room, 1) :]
            group.append((condition, scenario, taken))
            long_s += flow_s * len(taken)
    if group:
        yield group


@lru_cache(maxsize=8)
def _scenario(text: str) -> Scenario:
    return Scenario.read(json.loads(text), "scenario")


def _check_versions(wanted: Mapping[str, object]) -> None:
    own = versions()
    if own != wanted:
        raise OtherVersion(
            f"the worker on {socket.gethostname()} runs {_in_words(own)}; "
            f"the caller runs {_in_words(wanted)}",
            hint="install the same build of rtclab on all machines",
        )


def _in_words(known: Mapping[str, object]) -> str:
    return f"rtclab {known.get('rtclab')} (schema {known.get('schema')}, build {known.get('code')})"
