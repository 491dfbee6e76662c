"""Compares published results with ours: tables, trends and figures.

A paper has two files in ``published/``, a CSV file with its numbers and a TOML file with everything else, and
a folder with a scenario for each condition.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from rtclab.errors import BadInput
from rtclab.experiment import Condition, Experiment
from rtclab.processes import cores, process_pool
from rtclab.scenario import Scenario, closest
from rtclab.trace import Repeat
from rtclab_papers.reproduce.measurements import Measurements
from rtclab_papers.reproduce.measures import MEASURES, MEDIA, numbers
from rtclab_papers.reproduce.paper import Paper, read_paper
from rtclab_papers.reproduce.trends import Need
from rtclab_papers.reproduce.variants import Variant, split
from rtclab_papers.scenarios import PAPERS

NAMES = tuple(PAPERS)
EVERY_PAPER = "all"
CALLS = 50
"""Number of simulated calls of each condition."""


@cache
def paper(name: str) -> Paper:
    """The paper with this name.

    Raises:
        BadInput: there is no such paper.
    """
    if name not in NAMES:
        expected = ", ".join(NAMES)
        raise BadInput(f"no paper `{name}`; expected {expected} or {EVERY_PAPER}", hint=closest(name, NAMES))
    return read_paper(name)


def condition_of(scenario: str, repeats: int, *, traces: int | None = None) -> Condition:
    """A scenario with its variants, its fields that are drawn, and everything that any paper needs from it.

    It records every packet only if a measure needs that. ``traces`` is the number of repeats whose full
    trace is kept; by default the number that the figures need.
    """
    measures = {name for of, name in _needs() if of == scenario}
    if traces is None:
        traces = max(paper(name).traced(scenario) for name in NAMES)
    packets = any(MEASURES[name.partition("@")[0]].packets for name in measures)
    changes: dict[str, object] = {"record": "packets" if packets else "seconds"}
    variants = variants_of(scenario)
    for variant in variants:
        changes |= variant.sets
    draws = [draw for variant in variants for draw in variant.draws]
    loaded = Scenario.load(split(scenario)[0], changes)
    return Condition(loaded, repeats, (MEDIA, *sorted(measures)), traces, draws)


@cache
def _needs() -> frozenset[Need]:
    """What any paper needs: pairs of a scenario and the name of a measure."""
    return frozenset(need for one in map(paper, NAMES) for need in (*one.needs, *one.extra_needs))


def simulate(
    conditions: Mapping[str, Condition],
    out: Path,
    *,
    jobs: int | None = None,
    ended: Callable[[str, Repeat], None] = lambda scenario, outcome: None,
) -> Measurements:
    """Simulates and measures what is not finished; returns the values of all conditions.

    Args:
        conditions: the conditions by the name of their scenario.
        out: directory of the results, to which the conditions are added.
        jobs: number of processes, by default one per core. With 1, everything runs in this process.
        ended: called with the scenario and the outcome after each repeat has been kept.

    Raises:
        BadInput: another process writes to the same directory.
        KeyboardInterrupt: Ctrl-C was pressed; finished repeats are kept.
    """
    jobs = jobs or cores()
    experiment = Experiment(conditions, repeats=1, traces=False, measure=numbers, name="reproducing")
    with nullcontext() if jobs == 1 else process_pool(jobs) as pool:
        results = experiment.run(into=out, executor=pool, jobs=1, renew=True, ended=ended)
    return Measurements.of(results, conditions)


def variants_of(scenario: str) -> tuple[Variant, ...]:
    """The variants in the name of a scenario. They are defined by the paper that its folder names.

    Raises:
        BadInput: the paper has no such variant.
    """
    name, variants = split(scenario)
    known = paper(name.partition("/")[0]).variants if variants else {}
    for variant in variants:
        if variant not in known:
            raise BadInput(f"{scenario}: no variant `{variant}`", hint=closest(variant, known))
    return tuple(known[variant] for variant in variants)


def repeats_of(scenario: str) -> int:
    """How many calls of a scenario are simulated: fewer where a call takes long, or as its variant sets it.

    The number of calls that a paper measured does not matter: with more calls our interval is narrower.
    """
    of_variants = [one.repeats for one in variants_of(scenario) if one.repeats]
    of_patterns = [
        calls
        for name in NAMES
        for pattern, calls in paper(name).calls.items()
        if fnmatchcase(scenario, pattern)
    ]
    return next(iter([*of_variants[::-1], *of_patterns]), CALLS)
