"""The arena: congestion controls in the same cases, with the same seeds, on one page."""

from rtclab.arenas.cases import Case
from rtclab.arenas.running import Arena, arena
from rtclab.arenas.suite import ArenaSuite, load_suite

__all__ = ["Arena", "ArenaSuite", "Case", "arena", "load_suite"]
