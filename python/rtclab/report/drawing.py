"""A plot as data: axes, and the lines, dots and columns on them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from rtclab.metrics.series import Array

# After Okabe and Ito 2008: told apart with every kind of colour vision; in grey by dashes and markers.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA5A96", "#B8860B", "#3A9BDC")
INK = "#222222"
QUIET = "#6b6b6b"

Dash = tuple[float, ...]
"""Lengths of strokes and gaps in multiples of the line's width; empty for a solid line."""
SOLID: Dash = ()
DASHED: Dash = (5, 2)
DOTTED: Dash = (1, 1.2)
DASHES: tuple[Dash, ...] = (SOLID, (6, 1.5), (3, 1, 1, 1), (1, 1))
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "plus")

ROOM_ABOVE = 1.05
"""Top of the vertical axis as a multiple of the largest value."""


@dataclass(frozen=True)
class Look:
    """How one thing, such as a flow or a run, is drawn in every plot."""

    label: str
    colour: str
    dash: Dash = SOLID
    marker: str = MARKERS[0]

    @classmethod
    def numbered(cls, index: int, label: str) -> Look:
        """The ``index``-th look; colours, dashes and markers each start again at their end."""
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        return cls(label, colour, DASHES[index % len(DASHES)], marker)


@dataclass(frozen=True)
class Axis:
    """An axis from ``begin`` to ``end``. Its label ends with the unit in parentheses, if it has one.

    ``names`` are those of the places 0, 1, 2 and so on, where the axis counts things, or of ``places``.
    Only every ``every``-th of them is written at the axis.
    """

    label: str
    begin: float
    end: float
    names: Sequence[str] = ()
    places: Sequence[float] = ()
    every: int = 1

    @property
    def named(self) -> list[tuple[float, str]]:
        """The places that have a name, with their names."""
        places = self.places if len(self.places) else range(len(self.names))
        return list(zip(places, self.names, strict=True))

    @property
    def unit(self) -> str:
        """The unit in the label, empty if there is none."""
        return self.label.rpartition("(")[2].removesuffix(")") if self.label.endswith(")") else ""

    @classmethod
    def from_zero(cls, label: str, largest: float) -> Axis:
        """An axis from 0 to a little above the largest value."""
        return cls(label, 0.0, ROOM_ABOVE * largest if largest > 0 else 1.0)


@dataclass(frozen=True)
class Range:
    """Lowest and highest values around a line, both of shape (points,). ``label`` says of what."""

    label: str
    low: Array
    high: Array


@dataclass(frozen=True)
class Line:
    """A line through points, both arrays of shape (points,), or steps that hold from one point to the next.

    ``marked`` lines carry some of their look's markers.
    """

    look: Look
    x: Array
    y: Array
    range: Range | None = None
    steps: bool = False
    marked: bool = False


@dataclass(frozen=True)
class Dots:
    """Markers with error bars from ``low`` to ``high``; all arrays of shape (points,)."""

    look: Look
    x: Array
    y: Array
    low: Array
    high: Array
    hollow: bool = False


@dataclass(frozen=True)
class Columns:
    """Bars from zero up with error bars from ``low`` to ``high``; all of shape (bars,), NaN for no bar."""

    look: Look
    x: Array
    width: float
    y: Array
    low: Array
    high: Array
    opacity: float = 1.0


@dataclass(frozen=True)
class Cells:
    """A square of side 1 for each value, with its interval from ``low`` to ``high``; of shape (cells,).

    Colours go from light for the first number of ``between`` to the look's for the second. ``unit`` is that
    of the values, and ``texts`` are written into the squares.
    """

    look: Look
    x: Array
    y: Array
    values: Array
    low: Array
    high: Array
    between: tuple[float, float]
    unit: str = ""
    texts: Sequence[str] = ()

    @property
    def colours(self) -> list[str]:
        """The colour of each cell, as ``#rrggbb``."""
        dark = np.array([int(self.look.colour[at : at + 2], 16) for at in (1, 3, 5)])
        mixed = LIGHTEST + np.outer(self._heights(), dark - LIGHTEST)
        return [f"#{red:02x}{green:02x}{blue:02x}" for red, green, blue in mixed.round().astype(int).tolist()]

    @property
    def inks(self) -> list[str]:
        """A colour for the text in each cell that can be read there."""
        return ["#ffffff" if height > 0.6 else INK for height in self._heights()]

    def _heights(self) -> Array:
        """Where each value is between the smallest (0) and the largest (1)."""
        lowest, highest = self.between
        return (self.values - lowest) / ((highest - lowest) or 1.0)


LIGHTEST = np.array([240, 245, 250])

Mark = Line | Dots | Columns | Cells


@dataclass(frozen=True)
class Axes:
    """One pair of axes with a title, a note on what is not drawn, and the marks, the first at the back."""

    title: str
    marks: Sequence[Mark]
    note: str = ""


@dataclass(frozen=True)
class Drawing:
    """One or several pairs of axes side by side, which share their ranges and one legend.

    ``over_time`` is whether the horizontal axis is that of time.
    """

    name: str
    title: str
    caption: str
    x: Axis
    y: Axis
    axes: Sequence[Axes]
    over_time: bool = False

    @property
    def marks(self) -> Iterator[Mark]:
        """All marks of all axes."""
        return (mark for axes in self.axes for mark in axes.marks)


def largest(values: Sequence[Array]) -> float:
    """The largest of all numbers that are not NaN, 0 if there is none."""
    known = [array[~np.isnan(array)] for array in values]
    return max((float(array.max()) for array in known if array.size), default=0.0)
