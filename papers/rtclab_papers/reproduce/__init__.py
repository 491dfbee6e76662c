"""Compares published results with ours: tables, trends and figures.

A paper has two files in ``published/``, a CSV file with its numbers and a TOML file with everything else, and
a folder with a scenario for each condition.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from functools import cache

from rtclab.errors import BadInput
from rtclab.scenario import closest
from rtclab_papers.reproduce.measures import MEDIA
from rtclab_papers.reproduce.paper import Paper, read_paper
from rtclab_papers.reproduce.runner import Plan
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


def plan_of(scenario: str, repeats: int, *, traced: int | None = None) -> Plan:
    """The plan that runs a scenario and measures everything that any paper needs from it.

    ``traced`` is the number of repeats whose full trace is kept; by default as many as the figures need.
    """
    needs = [need for one in map(paper, NAMES) for need in (*one.needs, *one.extra_needs)]
    measures = {name for of, name in needs if of == scenario}
    if traced is None:
        traced = max(paper(name).traced(scenario) for name in NAMES)
    variants = variants_of(scenario)
    return Plan(scenario, repeats, min(traced, repeats), (MEDIA, *sorted(measures)), variants=variants)


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
