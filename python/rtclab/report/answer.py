"""What a page answers first: how it went, why, what to do next, and the figures that decide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

GOOD, POOR, BAD = "good", "poor", "bad"
"""The marks, the best first."""
MARKS = (GOOD, POOR, BAD)


@dataclass(frozen=True)
class NextStep:
    """What a reader may do next, in words that a command follows, and the command."""

    what: str
    command: str


@dataclass(frozen=True)
class Figure:
    """A figure that decides.

    Attributes:
        label: what it is.
        value: the value in words, without its unit.
        unit: its unit.
        interval: its 95 % confidence interval in words; empty if there is none.
        about: whose value it is, and the values of others, in words.
        mark: one of ``MARKS``; empty if no standard says how good the value is.
        source: the standard that the mark is from, and what it says.
    """

    label: str
    value: str
    unit: str = ""
    interval: str = ""
    about: str = ""
    mark: str = ""
    source: str = ""


@dataclass(frozen=True)
class Answer:
    """The first screen of a page.

    Attributes:
        how: one or two sentences: how it went, when, and for whom.
        mark: the mark of the worst figure; empty if none has a mark.
        why: why it went so; empty if that is not known.
        steps: what to do next, the best first.
        figures: the four or five figures that decide.
    """

    how: str
    mark: str = ""
    why: str = ""
    steps: Sequence[NextStep] = ()
    figures: Sequence[Figure] = ()
