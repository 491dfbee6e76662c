"""Compares published results with ours: tables, trends and figures.

A paper consists of two files in ``published/``, a CSV file with its numbers and a TOML file with everything
else, and of a folder with a scenario for each condition.
"""

from __future__ import annotations

from functools import cache

from rtclab.errors import BadInput
from rtclab.reproduce.measures import MEDIA
from rtclab.reproduce.paper import Paper, read_paper
from rtclab.reproduce.runner import Plan
from rtclab.scenario.table import closest

NAMES = ("singh2013", "abello2013", "jansen2017", "iqbal")
EVERY_PAPER = "all"


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
    measures = {name for one in map(paper, NAMES) for of, name in one.needs if of == scenario}
    if traced is None:
        traced = max(paper(name).traced(scenario) for name in NAMES)
    return Plan(scenario, repeats, min(traced, repeats), (MEDIA, *sorted(measures)))
