"""The arena: congestion controls in the same cases, with the same seeds, on one page."""

from rtclab.arena.arena import Arena, arena
from rtclab.arena.cases import Case
from rtclab.arena.suite import Suite, load_suite

__all__ = ["Arena", "Case", "Suite", "arena", "load_suite"]
