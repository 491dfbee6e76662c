"""A plot as data: axes and the marks on them, such as lines and bars, without a drawing library.

Three modules draw it. ``chart.py`` makes the charts of pages, in which readers zoom, hide flows and read
values. ``static_svg.py`` draws for paper and browsers without JavaScript, without matplotlib, because
importing it takes longer than writing the page. ``picture.py`` draws files with legends and exact sizes, as
papers need them, and plots in notebooks.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, log10

import numpy as np

from rtclab.metrics.series import Array
from rtclab.terminal import visible

# After Okabe and Ito 2008: distinguishable with any colour vision. In greyscale, dashes and markers differ.
# No divisor is common to the numbers of colours and dashes, so that 28 lines differ.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#AA5A96", "#B8860B", "#3A9BDC", "#332288")
INK = "#222222"
QUIET = "#6b6b6b"
GRID = "#e3e3e3"
LIGHTEST = np.array([240, 245, 250])
"""Red, green and blue of the cell with the lowest value in a heat map."""
BLACK_FROM = 0.179
"""Relative luminance from which on black has more contrast than white: at least 4.5 (WCAG 2.2, 1.4.3)."""
RANGE_OPACITY = 0.2

Dash = tuple[float, ...]
"""Lengths of dashes and gaps in multiples of the line width; empty for a solid line."""
SOLID: Dash = ()
DASHED: Dash = (5, 2)
DOTTED: Dash = (1, 1.2)
DASHES: tuple[Dash, ...] = (SOLID, (6, 1.5), (3, 1, 1, 1), (1, 1))
MARKERS = ("circle", "square", "triangle", "diamond", "inverted_triangle", "plus")

ROOM_ABOVE = 1.05
"""Top of the vertical axis as a multiple of the largest value."""


@dataclass(frozen=True)
class Style:
    """How a flow, a run or anything else with a label is drawn in every plot."""

    label: str
    colour: str
    dash: Dash = SOLID
    marker: str = MARKERS[0]

    def __post_init__(self) -> None:
        """Shows control characters."""
        object.__setattr__(self, "label", visible(self.label))

    @classmethod
    def numbered(cls, index: int, label: str) -> Style:
        """The look with this index; colours, dashes and markers repeat."""
        colour, marker = COLOURS[index % len(COLOURS)], MARKERS[index % len(MARKERS)]
        return cls(label, colour, DASHES[index % len(DASHES)], marker)


@dataclass(frozen=True)
class Axis:
    """An axis from ``begin`` to ``end``. Its label ends with the unit in parentheses, if it has one.

    On an axis of categories, ``names`` are the tick labels at the positions ``places``, by default 0, 1, 2
    and so on. If ``every`` is n, only every n-th name is written. Beyond ``last_tick`` there are no ticks,
    only marks that have no place on the axis.
    """

    label: str
    begin: float
    end: float
    names: Sequence[str] = ()
    places: Sequence[float] = ()
    every: int = 1
    last_tick: float = inf
    log: bool = False
    """Whether positions are decimal logarithms of what they stand for."""

    def __post_init__(self) -> None:
        """Shows control characters."""
        object.__setattr__(self, "label", visible(self.label))
        object.__setattr__(self, "names", [visible(name) for name in self.names])

    @property
    def named(self) -> list[tuple[float, str]]:
        """Position and name of each category."""
        places = self.places if len(self.places) else range(len(self.names))
        return list(zip(places, self.names, strict=True))

    @property
    def unit(self) -> str:
        """The unit in the label; empty if there is none."""
        return self.label.rpartition("(")[2].removesuffix(")") if self.label.endswith(")") else ""

    @classmethod
    def logarithmic(cls, label: str, smallest: float, largest: float) -> Axis:
        """An axis whose positions are decimal logarithms, with ticks at 1, 3, 10, 30 and so on."""
        ticks = [digit * 10.0**power for power in range(-6, 10) for digit in (1, 3)]
        inside = [tick for tick in ticks if smallest <= tick <= largest]
        ends = log10(smallest) - 0.05, log10(largest) + 0.05
        return cls(label, *ends, [f"{tick:g}" for tick in inside], [log10(tick) for tick in inside], log=True)

    @classmethod
    def from_zero(cls, label: str, largest: float, smallest: float = 0.0) -> Axis:
        """An axis from 0, or a little below a negative ``smallest``, to a little above ``largest``."""
        if smallest < 0:
            return cls(label, ROOM_ABOVE * smallest, ROOM_ABOVE * max(largest, 0.0))
        return cls(label, 0.0, ROOM_ABOVE * largest if largest > 0 else 1.0)


@dataclass(frozen=True)
class Range:
    """Lowest and highest values around a line, both of shape (points,).

    ``label`` is the entry of the range in the legend. With ``whiskers``, the range is drawn as an error bar
    at each point, without an entry in the legend, so that the ranges of several lines can be told apart.
    """

    label: str
    low: Array
    high: Array
    whiskers: bool = False


@dataclass(frozen=True)
class Line:
    """A line through points; ``x`` and ``y`` have shape (points,).

    With ``steps``, each value holds until the next point. With ``marked``, some points carry a marker.
    """

    look: Style
    x: Array
    y: Array
    range: Range | None = None
    steps: bool = False
    marked: bool = False


@dataclass(frozen=True)
class Dots:
    """Markers with error bars from ``low`` to ``high``; all arrays of shape (points,)."""

    look: Style
    x: Array
    y: Array
    low: Array
    high: Array
    hollow: bool = False
    size: float = 1.0
    """Diameter of the markers as a multiple of the usual one."""


@dataclass(frozen=True)
class Columns:
    """Vertical bars from zero with error bars from ``low`` to ``high``; of shape (bars,), NaN for no bar."""

    look: Style
    x: Array
    width: float
    y: Array
    low: Array
    high: Array
    opacity: float = 1.0


@dataclass(frozen=True)
class Cells:
    """Squares of a heat map, one per value, each with an interval from ``low`` to ``high``.

    All arrays have shape (cells,). ``between`` has the values of the lightest colour and of the look's
    colour. ``unit`` is the unit of the values, and ``texts`` are written into the squares.
    """

    look: Style
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
        """The colour of the text in each cell: black or white, whichever has more contrast."""
        return [ink_on(colour) for colour in self.colours]

    def _heights(self) -> Array:
        """Each value relative to ``between``: 0 for the first number, 1 for the second."""
        lowest, highest = self.between
        return (self.values - lowest) / ((highest - lowest) or 1.0)


@dataclass(frozen=True)
class Boxes:
    """Rectangles from ``x`` to ``end`` and from ``low`` to ``high``; all arrays of shape (boxes,).

    ``texts`` are what each box says when it is touched. Without them, it says its height. ``labels`` are
    written into the boxes of a page; empty ones are not.
    """

    look: Style
    x: Array
    end: Array
    low: Array
    high: Array
    texts: Sequence[str] = ()
    opacity: float = 1.0
    labels: Sequence[str] = ()

    def __post_init__(self) -> None:
        """Shows control characters."""
        object.__setattr__(self, "texts", [visible(text) for text in self.texts])

    @property
    def ink(self) -> str:
        """The colour of labels: black or white, whichever has more contrast."""
        return ink_on(self.look.colour)

    @property
    def y(self) -> Array:
        """The top of each box."""
        return self.high


@dataclass(frozen=True)
class Intervals:
    """Markers with horizontal error bars from ``low`` to ``high``; all arrays of shape (points,).

    ``texts`` are what each says when its row is touched.
    """

    look: Style
    x: Array
    y: Array
    low: Array
    high: Array
    texts: Sequence[str]
    hollow: bool = False

    def __post_init__(self) -> None:
        """Shows control characters."""
        object.__setattr__(self, "texts", [visible(text) for text in self.texts])


Mark = Line | Dots | Columns | Cells | Boxes | Intervals


@dataclass(frozen=True)
class Axes:
    """One pair of axes: a title, the marks from back to front, and a note on values that are not drawn."""

    title: str
    marks: Sequence[Mark]
    note: str = ""

    def __post_init__(self) -> None:
        """Shows control characters."""
        object.__setattr__(self, "title", visible(self.title))
        object.__setattr__(self, "note", visible(self.note))


@dataclass(frozen=True)
class Drawing:
    """One or several pairs of axes side by side, which share their ranges and one legend.

    ``over_time`` says whether the horizontal axis is time.
    """

    name: str
    title: str
    caption: str
    x: Axis
    y: Axis
    axes: Sequence[Axes]
    over_time: bool = False
    height_px: int = 260
    """Height of each pair of axes on a page."""
    compact: bool = False
    """Whether it is a row of a timeline: low, and without ticks on an axis that has no label."""
    events: Sequence[tuple[float, str]] = ()
    """Moments that are marked on the axis of time, and what happened then."""

    @property
    def marks(self) -> Iterator[Mark]:
        """The marks of all axes, one pair of axes after another."""
        return (mark for axes in self.axes for mark in axes.marks)


def ink_on(colour: str) -> str:
    """Black or white, whichever has more contrast on ``#rrggbb``."""
    return "#ffffff" if luminance(colour) < BLACK_FROM else "#000000"


def luminance(colour: str) -> float:
    """The relative luminance of ``#rrggbb``, from 0 (black) to 1 (white), after WCAG 2.2."""
    shares = np.array([int(colour[at : at + 2], 16) for at in (1, 3, 5)]) / 255
    linear = np.where(shares <= 0.04045, shares / 12.92, ((shares + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def largest(values: Sequence[Array]) -> float:
    """The largest number in the arrays, ignoring NaN; 0 if there is none."""
    known = [array[~np.isnan(array)] for array in values]
    return max((float(array.max()) for array in known if array.size), default=0.0)


def shared_labels(plot: Drawing) -> dict[str, Style]:
    """The labels that marks of several colours share, with the look of the first of these marks.

    The mark of a value that belongs to a line has the line's colour, but all of them have one label.
    """
    looks: dict[str, list[Style]] = {}
    for mark in plot.marks:
        looks.setdefault(mark.look.label, []).append(mark.look)
    return {label: of[0] for label, of in looks.items() if len({look.colour for look in of}) > 1}
