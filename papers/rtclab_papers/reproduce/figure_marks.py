"""Published values in figures, from the tables and from the text of a paper.

A value of a whole call is a diamond at the right of the axes, a value of a part of it a line between two
diamonds, and a value of a bar a diamond on it. They have the colour of their curve, or the colour of text if
they belong to several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from math import isnan

import numpy as np

from rtclab.report import DASHED, INK, ROOM_ABOVE, Columns, Dots, Line, Mark, Plot, Style
from rtclab_papers.reproduce.figures import Figure, FigureLine
from rtclab_papers.reproduce.measurements import EVERY_FLOW
from rtclab_papers.reproduce.published_cells import UNUSABLE, Cell

PUBLISHED = "published"
"""The label of all published values in a legend."""
DIAMOND = "diamond"
APART = 0.03
"""Distance of the diamonds from the end of the axis and from each other, in widths of a figure."""
ASIDE = 0.3
"""Distance of a diamond from the middle of its bar, where our error bar is, in widths of the bar."""

Printed = tuple[Cell, str]
"""A cell of a published table, and the pattern of its flows."""


@dataclass(frozen=True)
class Value:
    """A published value of one or several lines of a group.

    ``sd`` is None if none was published, ``window_s`` if the value is about the whole call.
    """

    mean: float
    sd: float | None
    source: str
    window_s: tuple[float, float] | None = None
    lines: tuple[str, ...] = ()

    @property
    def ends(self) -> tuple[float, float]:
        """The ends of the error bar."""
        return self.mean - (self.sd or 0.0), self.mean + (self.sd or 0.0)


def cell_of(line: FigureLine, metric: str, printed: Sequence[Printed]) -> Cell | None:
    """The cell of the paper's tables with a metric of a line; None if there is none, or more than one.

    A cell of the line's flows comes before a cell of all machines.
    """
    cells = [
        (cell, flows)
        for cell, flows in printed
        if (cell.scenario, cell.metric) == (line.condition, metric)
        and cell.status != UNUSABLE
        and not isnan(cell.mean)
    ]
    own = [cell for cell, flows in cells if flows != EVERY_FLOW and _covers(flows, line.flow)]
    chosen = own or [cell for cell, flows in cells if flows == EVERY_FLOW]
    return chosen[0] if len({(cell.mean, cell.sd) for cell in chosen}) == 1 else None


def _covers(pattern: str, flow: str) -> bool:
    """Whether a pattern matches a flow, or is the pattern of the line itself."""
    return pattern == flow or ("*" not in flow and fnmatchcase(flow, pattern))


def values_of(figure: Figure, lines: Sequence[FigureLine], printed: Sequence[Printed]) -> list[Value]:
    """The published values of the lines of a group; a value that several lines share comes once."""
    found: dict[Value, list[str]] = {}
    for line in lines:
        cell = cell_of(line, figure.cells or line.metric, printed)
        if cell is not None:
            found.setdefault(Value(cell.mean, cell.sd, f"table {cell.table}"), []).append(line.name)
        for one in figure.published:
            if one.value is not None and one.concerns(line):
                value = Value(one.value, one.sd, one.source, one.window_s)
                found.setdefault(value, []).append(line.name)
    return [replace(value, lines=tuple(names)) for value, names in found.items()]


def with_published(plot: Plot, figure: Figure, printed: Sequence[Printed]) -> Plot:
    """The plot of a figure with the published values, and with a sentence about them in its caption."""
    groups = {name: values_of(figure, lines, printed) for name, lines in figure.groups.items()}
    marks: list[list[Mark]]
    match figure.form:
        case "over time":
            marks, plot = _beside_curves(plot, groups)
        case "per repeat":
            marks, plot = _beside_means(plot, figure, groups)
        case "bars" | "means" | "bars per repeat":
            marks = [[*_on_bars(plot, figure, groups), *_changes(plot, figure)]]
        case _:
            return plot
    if not any(marks):
        return plot
    axes = [replace(one, marks=[*one.marks, *more]) for one, more in zip(plot.axes, marks, strict=True)]
    top = max([plot.y.end, *(ROOM_ABOVE * end for more in marks for mark in more for end in _highest(mark))])
    return replace(
        plot,
        axes=axes,
        y=replace(plot.y, end=top),
        caption=f"{plot.caption} {_sentence(figure, groups)}",
    )


def _sentence(figure: Figure, groups: dict[str, list[Value]]) -> str:
    """Says where the published values are from, and what their error bars are."""
    values = [value for of_group in groups.values() for value in of_group]
    changes = dict.fromkeys(one.source for one in figure.published if one.change)
    if changes:
        return f"Published: our value of “{figure.names[0]}” with the printed change ({', '.join(changes)})."
    spread = " (mean ± standard deviation)"
    sources = dict.fromkeys(value.source + (spread if value.sd else "") for value in values)
    return f"Published: {'; '.join(sources)}."


def _highest(mark: Mark) -> Iterator[float]:
    yield float(np.max(mark.high if isinstance(mark, Dots) else mark.y))


def _diamonds(colour: str, x: Sequence[float], values: Sequence[Value]) -> Dots:
    low, high = (np.array([value.ends[side] for value in values]) for side in (0, 1))
    look = Style(PUBLISHED, colour, marker=DIAMOND)
    return Dots(look, np.array(x, float), np.array([value.mean for value in values]), low, high)


def _colours(plot: Plot) -> dict[str, str]:
    """The colour of each line by name."""
    return {mark.look.label: mark.look.colour for mark in plot.marks}


def _colour(colours: dict[str, str], value: Value) -> str:
    return colours[value.lines[0]] if len(value.lines) == 1 else INK


def _beside_curves(plot: Plot, groups: dict[str, list[Value]]) -> tuple[list[list[Mark]], Plot]:
    """Diamonds at the right, for which the axis becomes longer, and lines over parts of the call."""
    colours, apart_s = _colours(plot), APART * min(len(groups), 2) * (plot.x.end - plot.x.begin)
    marks: list[list[Mark]] = []
    most = 0
    for values in groups.values():
        whole = [value for value in values if value.window_s is None]
        most = max(most, len(whole))
        marks.append(
            [
                _diamonds(_colour(colours, value), [plot.x.end + place * apart_s], [value])
                for place, value in enumerate(whole, start=1)
            ]
        )
        marks[-1] += [
            _over_window(_colour(colours, value), value.mean, value.window_s)
            for value in values
            if value.window_s is not None
        ]
    end_s = plot.x.end + (most + 1) * apart_s if most else plot.x.end
    return marks, replace(plot, x=replace(plot.x, end=end_s, last_tick=plot.x.end))


def _over_window(colour: str, value: float, window_s: tuple[float, float]) -> Line:
    x = np.array(sorted(set(window_s)))
    return Line(Style(PUBLISHED, colour, DASHED, DIAMOND), x, np.full(x.size, value), marked=True)


def _beside_means(
    plot: Plot, figure: Figure, groups: dict[str, list[Value]]
) -> tuple[list[list[Mark]], Plot]:
    """Diamonds at the right of the means over repeats, for which the axis becomes longer."""
    colours = _colours(plot)
    # The hollow marks are the means, in the order of the lines.
    means = [mark for mark in plot.marks if isinstance(mark, Dots) and mark.hollow]
    at = {name: float(mark.x[0]) + 1 for name, mark in zip(figure.names, means, strict=True)}
    values = [value for of_group in groups.values() for value in of_group]
    marks: list[Mark] = [
        _diamonds(_colour(colours, value), [float(np.mean([at[name] for name in value.lines]))], [value])
        for value in values
    ]
    return [marks], replace(plot, x=replace(plot.x, end=plot.x.end + bool(values)))


def _bars_by_name(plot: Plot) -> dict[str, Columns]:
    return {mark.look.label: mark for mark in plot.marks if isinstance(mark, Columns)}


def _on(bars: Columns, index: int) -> float:
    """Where the diamond of a bar is."""
    return float(bars.x[index]) + ASIDE * bars.width


def _on_bars(plot: Plot, figure: Figure, groups: dict[str, list[Value]]) -> list[Mark]:
    """Diamonds on the bars of the figure; bars of single repeats have no published values."""
    if figure.form == "bars per repeat":
        return []
    bars = _bars_by_name(plot)
    places = [
        (_on(bars[name], index), value)
        for index, values in enumerate(groups.values())
        for value in values
        for name in value.lines
    ]
    return [_diamonds(INK, [x for x, _ in places], [value for _, value in places])] if places else []


def _changes(plot: Plot, figure: Figure) -> list[Mark]:
    """Diamonds at the height of the first bar of a group, changed by the published per cent.

    Smallest and largest change are two diamonds with a line between them.
    """
    bars = _bars_by_name(plot)
    base = bars[figure.names[0]]
    marks: list[Mark] = []
    for one in figure.published:
        for index, name in enumerate(plot.x.names):
            if one.change and one.group in ("", name):
                ends = float(base.y[index]) * (1 + np.array(sorted(one.change)) / 100)
                x = np.full(ends.size, _on(bars[one.label], index))
                look = Style(PUBLISHED, INK, marker=DIAMOND)
                marks.append(Dots(look, x, ends, np.full(ends.size, ends.min()), ends))
    return marks
