"""The forest plot of a comparison: a row per metric, with its differences and their intervals in %."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan

import numpy as np

from rtclab.experiment.comparison import MARGIN_PERCENT
from rtclab.metrics import METRICS
from rtclab.phrases import count, names_in_words
from rtclab.report.compared import (
    DIFFERS,
    MOST_NAMED,
    Cell,
    change_of,
    essential_first,
    essential_of,
    important,
    in_percent,
    inequality,
    place_of,
    placed,
)
from rtclab.report.drawing import COLOURS, INK, QUIET, Axes, Axis, Boxes, Intervals, Line, Mark, Style
from rtclab.report.plot import Plot
from rtclab.report.plots_of_runs import FIRST_COLOUR_OF_RUNS
from rtclab.report.words import flow_in_words, number

MOST_ROWS = 24
"""Maximum number of rows; the tables have all."""
MOST_SIDES = 6
"""Maximum number of compared sides that are drawn."""
MOST_PERCENT = 200.0
"""Larger differences are drawn beyond the last tick, and written out in the names of their rows."""
LEAST_PERCENT = 1.5 * MARGIN_PERCENT
"""The axis reaches at least this far to both sides of zero."""
MOST_LETTERS = 60
"""Longer names of rows are cut."""
SIDE, GAP = 0.42, 0.5
"""Height of a side, and of the gap between rows of several sides; a row of one side has the height 1."""

Key = tuple[str, str, str]


def forest(labels: Sequence[str], cells: Sequence[Cell], by: str | None = None) -> Plot | None:
    """The differences that are more than chance; None if nothing can be compared.

    On top are the hypothesis, whatever its test says, and essential metrics; then the largest differences.

    If none is more than chance, it shows the essential metrics. ``cells`` are the rows of the table of
    differences; ``labels`` begin with the baseline's, and are values of the field ``by`` if there is one.
    """
    first, *compared = labels
    base = f"{by} = {first}" if by not in (None, "condition") else first
    shown = compared[:MOST_SIDES]
    known = [cell for cell in essential_first(cells) if cell["label"] in shown]
    differing = [cell for cell in known if cell["verdict"] in DIFFERS]
    others = differing or important(known, essential_of(cells))
    keys = list(dict.fromkeys(map(_key, [*(cell for cell in known if cell["hypothesis"]), *others])))
    if not keys:
        return None
    rows = keys[:MOST_ROWS]
    of_rows = {key: [cell for cell in known if _key(cell) == key] for key in rows}
    height = max(1.0, SIDE * len(shown) + GAP)
    places = [height * (len(rows) - 1 - index) for index in range(len(rows))]
    x = _axis([cell for of in of_rows.values() for cell in of])
    one_place = len({(flow, condition) for _, flow, condition in rows}) == 1
    names = [_name(of_rows[key], one_place) for key in rows]
    y = Axis("", -height / 2, height * (len(rows) - 0.5), names, places)
    ends = np.array([y.begin, y.end])
    margin = Style(f"±{MARGIN_PERCENT} %", QUIET)
    within = np.array([float(MARGIN_PERCENT)])
    marks: list[Mark] = [
        Boxes(margin, -within, within, ends[:1], ends[1:], opacity=0.12),
        Line(Style("no difference", INK), np.zeros(2), ends),
    ]
    for index, label in enumerate(shown):
        shift = SIDE * ((len(shown) - 1) / 2 - index)
        of_side = [
            (cell, place + shift)
            for place, of in zip(places, of_rows.values(), strict=True)
            for cell in of
            if cell["label"] == label
        ]
        marks += _of_side(_look(1 + index, label), of_side, x)
    place = ", ".join(filter(None, [flow_in_words(rows[0][1]), rows[0][2]])) if one_place else ""
    title = f"Differences from {base}{f': {place}' if place else ''}"
    is_beyond = any(_is_beyond(cell) for of in of_rows.values() for cell in of)
    caption = _caption(base, differing, len(known), len(keys), len(compared))
    caption += " Values in the names of rows are beyond the axis." if is_beyond else ""
    return Plot("differences", title, caption, x, y, [Axes("", marks)])


def _key(cell: Cell) -> Key:
    return cell["metric"], cell["flow"], cell["condition"]


def _look(index: int, label: str) -> Style:
    """The look that the run has in plots over time."""
    colour = COLOURS[(FIRST_COLOUR_OF_RUNS + index) % len(COLOURS)]
    return replace(Style.numbered(index, label), colour=colour)


def _name(cells: Sequence[Cell], one_place: bool) -> str:
    """The metric of a row, its flow unless all rows have the same, and values that are beyond the axis."""
    largest = max(cells, key=inequality)
    where = "" if one_place else place_of(largest)
    name = ", ".join(filter(None, [METRICS[largest["metric"]].label, where]))
    if len(name) > MOST_LETTERS:
        name = name[: MOST_LETTERS - 1] + "…"
    if largest["hypothesis"]:
        name += " (stated)"
    off = [cell for cell in cells if _is_beyond(cell)]
    beyond = max(off, key=lambda cell: abs(cell["difference"]), default=None)
    if beyond is None:
        return name
    unit = f" {beyond['unit']}" if beyond["unit"] else ""
    return f"{name}: {number(beyond['base'])} → {number(beyond['new'])}{unit}"


def _is_beyond(cell: Cell) -> bool:
    """Whether a difference has no place on the axis."""
    percent = in_percent(cell)
    return bool(cell["difference"]) if percent is None else abs(percent[0]) > MOST_PERCENT


def _axis(cells: Sequence[Cell]) -> Axis:
    """The axis of differences, with room beyond its ends for those that have no place on it."""
    ends = [end for cell in cells if not _is_beyond(cell) for end in in_percent(cell) or () if not isnan(end)]
    low, high = min([-LEAST_PERCENT, *ends]), max([LEAST_PERCENT, *ends])
    low, high = 1.05 * max(low, -MOST_PERCENT), 1.05 * min(high, MOST_PERCENT)
    beyond = [cell["difference"] for cell in cells if _is_beyond(cell)]
    room = 0.08 * (high - low)
    begin = low - room * any(one < 0 for one in beyond)
    end = high + room * any(one > 0 for one in beyond)
    return Axis("Difference (%)", begin, end, last_tick=high)


def _of_side(look: Style, cells: Sequence[tuple[Cell, float]], axis: Axis) -> list[Mark]:
    """The intervals of one side: full markers for differences beyond chance, and hollow ones for others."""
    found: list[Mark] = []
    for hollow in (False, True):
        points = [
            (*_ends(cell, axis), place, f"{look.label}: {_text(cell)}")
            for cell, place in cells
            if (cell["verdict"] not in DIFFERS) == hollow
        ]
        if points:
            *numbers, texts = zip(*points, strict=True)
            x, low, high, y = (np.array(of, dtype=np.float64) for of in numbers)
            found.append(Intervals(look, x, y, low, high, texts, hollow))
    return found


def _ends(cell: Cell, axis: Axis) -> tuple[float, float, float]:
    """Where a difference and the ends of its interval are on the axis."""
    percent = in_percent(cell)
    if percent is None or _is_beyond(cell):
        upward = axis.end - (axis.end - axis.last_tick) / 2
        value = upward if cell["difference"] > 0 else axis.begin if cell["difference"] < 0 else 0.0
        return value, value, value
    value, low, high = (float(np.clip(one, axis.begin, axis.last_tick)) for one in percent)
    return value, value if isnan(low) else low, value if isnan(high) else high


def _text(cell: Cell) -> str:
    """What a difference says when its row is touched."""
    percent = in_percent(cell)
    told = change_of(cell)
    if percent is None:
        return told
    value, low, high = percent
    interval = "" if isnan(low) else f" ({number(low, value)} to {number(high, value)})"
    return f"{'+' if value > 0 else ''}{number(value)} %{interval}, {told}"


def _caption(base: str, differing: Sequence[Cell], known: int, rows: int, sides: int) -> str:
    """The result in words, and how to read the plot."""
    first = [placed(cell) for cell in differing[:MOST_NAMED]]
    result = (
        f"More than chance: {len(differing)} of {count(known, 'comparison')}; first "
        f"{names_in_words(first, MOST_NAMED)}."
        if differing
        else f"None of {count(known, 'comparison')} is more than chance; essential metrics are shown."
    )
    parts = [
        f"{result} Dots are differences in % of {base} with their 95 % intervals; hollow ones may be chance.",
        f"{count(rows - MOST_ROWS, 'more row')} in the tables." if rows > MOST_ROWS else "",
        f"{count(sides - MOST_SIDES, 'more side')} in the tables." if sides > MOST_SIDES else "",
    ]
    return " ".join(filter(None, parts))
