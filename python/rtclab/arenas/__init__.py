"""The arena: congestion controls in the same cases, with the same seeds, on one page."""

from rtclab.arenas import controls, findings, plots, random_calls, suite
from rtclab.arenas.cases import Case
from rtclab.arenas.page import write_page
from rtclab.arenas.ranking import Ranking
from rtclab.arenas.results import PAIRS, Arena
from rtclab.arenas.running import arena
from rtclab.arenas.suite import ArenaSuite, load_suite
from rtclab.arenas.values import CRITERIA, KEYS, Criterion, Values

__all__ = [
    "CRITERIA",
    "KEYS",
    "PAIRS",
    "Arena",
    "ArenaSuite",
    "Case",
    "Criterion",
    "Ranking",
    "Values",
    "arena",
    "controls",
    "findings",
    "load_suite",
    "plots",
    "random_calls",
    "suite",
    "write_page",
]
