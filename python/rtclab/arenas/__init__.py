"""The arena: congestion controls in the same cases, with the same seeds, on one page."""

from rtclab.arenas import controls, findings, plots, random_calls, ranking, suite, values
from rtclab.arenas.cases import Case
from rtclab.arenas.page import write_page
from rtclab.arenas.results import PAIRS, Arena
from rtclab.arenas.running import arena
from rtclab.arenas.suite import ArenaSuite, load_suite

__all__ = [
    "PAIRS",
    "Arena",
    "ArenaSuite",
    "Case",
    "arena",
    "controls",
    "findings",
    "load_suite",
    "plots",
    "random_calls",
    "ranking",
    "suite",
    "values",
    "write_page",
]
