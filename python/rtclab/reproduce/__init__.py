"""Published results and ours side by side: tables, trends, figures.

A paper is two files of data in ``published/``, a CSV file of its numbers and a TOML file of its words, and
the scenarios of its conditions in a folder of its name.
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
    """The paper of this name.

    Raises:
        BadInput: there is none.
    """
    if name not in NAMES:
        expected = ", ".join(NAMES)
        raise BadInput(f"no paper `{name}`; expected {expected} or {EVERY_PAPER}", hint=closest(name, NAMES))
    return read_paper(name)


def plan_of(scenario: str, repeats: int, *, traced: int | None = None) -> Plan:
    """What to run and measure of a scenario, for all papers together.

    ``traced`` is of how many repeats the whole trace is kept; as many as figures need if None.
    """
    measures = {name for one in map(paper, NAMES) for of, name in one.needs if of == scenario}
    if traced is None:
        traced = max(paper(name).traced(scenario) for name in NAMES)
    return Plan(scenario, repeats, min(traced, repeats), (MEDIA, *sorted(measures)))
