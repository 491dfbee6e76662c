"""Published results and ours side by side: tables, trends, figures.

A paper is a module in ``papers/`` with a ``PAPER``. Its numbers and words are a CSV and a TOML file in
``published/``, its conditions are scenarios in a folder of its name.
"""

from __future__ import annotations

import importlib

from rtclab.errors import BadInput
from rtclab.reproduce.paper import Paper
from rtclab.reproduce.runner import Plan
from rtclab.scenario.table import closest

NAMES = ("singh2013", "abello2013", "jansen2017", "iqbal")
EVERY_PAPER = "all"


def paper(name: str) -> Paper:
    """The paper of this name.

    Raises:
        BadInput: there is none.
    """
    if name not in NAMES:
        expected = ", ".join(NAMES)
        raise BadInput(f"no paper `{name}`; expected {expected} or {EVERY_PAPER}", hint=closest(name, NAMES))
    module = importlib.import_module(f"rtclab.reproduce.papers.{name}")
    found: Paper = module.PAPER
    return found


def plan_of(scenario: str, repeats: int, *, traced: int = 0) -> Plan:
    """What to run and measure of a scenario, as the paper asks whose folder it is in."""
    folder = scenario.partition("/")[0]
    if folder not in NAMES:
        return Plan(scenario, repeats, traced)
    of = paper(folder)
    return Plan(scenario, repeats, traced, of.measure, packets=scenario in of.packets)
