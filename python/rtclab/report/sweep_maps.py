"""Heat maps of a page: tables with a value in each cell, and thick lines where a metric passes a limit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rtclab.experiment.fields import Field
from rtclab.metrics import Metric
from rtclab.report.drawing import COLOURS, LIGHTEST, Cells, Style
from rtclab.report.field_names import heading, in_order, short_numbers, short_values, unit_of
from rtclab.report.plots_of_sweeps import MAX_PRINTED_CELLS
from rtclab.report.sweep_values import LIMITS, DrawnLimit, Interval, amount, interval, three_digits
from rtclab.report.words import MISSING, flow_in_words

LONG = 24
"""Values with more letters are in the first column rather than above the columns."""
KINDS = ("dashed", "solid")
"""How the lines of a metric's limits are drawn, the largest limit last."""


@dataclass(frozen=True)
class Cell:
    """A condition in a heat map.

    Attributes:
        text: the value; empty if there are too many cells for texts.
        about: the condition, the value with its interval, and the flow that has it.
        colour: the colour of the cell; empty without a value.
        ink: the colour of the text.
        edges: the classes of the sides at which a limit is passed.
        at: the number of the command that simulates an example; None if there is none.
    """

    text: str
    about: str
    colour: str = ""
    ink: str = ""
    edges: str = ""
    at: int | None = None


@dataclass(frozen=True)
class Map:
    """A heat map of one metric.

    Attributes:
        title: the metric, its unit and whose values they are.
        result: the highest and the lowest value, and where they are.
        x: what the columns are.
        y: what the rows are.
        columns: the values above the columns.
        rows: the value of each row, and its cells.
        scale: the value of the lightest and of the darkest cell, in words.
        colours: the lightest and the darkest colour.
        limits: how each limit that a line shows is drawn, and the limit in words.
        printed: whether the cells have texts.
    """

    title: str
    result: str
    x: str
    y: str
    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Cell]]]
    scale: tuple[str, str]
    colours: tuple[str, str]
    limits: Sequence[tuple[str, DrawnLimit]]
    printed: bool


def oriented(first: Field, second: Field) -> tuple[Field, Field]:
    """The fields of the columns and of the rows: rows have the long texts, or else the fewer values."""
    by_width = sorted([first, second], key=lambda one: (max(map(len, one.texts)) > LONG, -one.count))
    return by_width[0], by_width[1]


def heat_map(
    metric: Metric,
    fields: tuple[Field, Field],
    found: Mapping[tuple[str, str], Interval],
    whose: str,
    between: tuple[float, float],
    commands: Mapping[tuple[str, str], int],
) -> Map:
    """A heat map of a metric.

    Args:
        metric: the metric.
        fields: both fields.
        found: the estimates by the values of both fields, as they were written.
        whose: whose values they are, such as ``worst of both directions``.
        between: the values of the lightest and of the darkest cell.
        commands: the numbers of the commands, by the values of both fields.
    """
    x, y = oriented(*fields)
    columns, rows = in_order(x), in_order(y)
    if y.numbers:
        rows = rows[::-1]  # large values are at the top, as on an axis

    def key_of(column: str, row: str) -> tuple[str, str]:
        return (column, row) if x == fields[0] else (row, column)

    printed = x.count * y.count <= MAX_PRINTED_CELLS
    size = 1000.0 if metric.unit == "kbit/s" and between[1] >= 1000 else 1.0
    unit = "Mbit/s" if size == 1000.0 else metric.unit
    known = list(found)
    values = np.array([found[key].mean for key in known])
    nothing = np.empty(0)
    look = Cells(Style("", COLOURS[0]), nothing, nothing, values, values, values, between)
    looks = dict(zip(known, zip(look.colours, look.inks, strict=True), strict=True))
    edges = _edges(metric, found, [[key_of(column, row) for column in columns] for row in rows])
    shown = [short_values(field) for field in fields]

    def cell(column: str, row: str) -> Cell:
        key = key_of(column, row)
        place = ", ".join(of[text] for of, text in zip(shown, key, strict=True))
        if key not in found:
            return Cell(MISSING if printed else "", f"{place}: no value", at=commands.get(key))
        one = found[key]
        told = [f"{place}: {amount(one.mean, metric.unit)} {interval(one, metric.unit)}".rstrip()]
        told.append(flow_in_words(one.flow))
        text = three_digits(one.mean / size) if printed else ""
        return Cell(text, ", ".join(filter(None, told)), *looks[key], edges.get(key, ""), commands.get(key))

    of_x, of_y = _without_unit(x), _without_unit(y)
    lightest = "#{:02x}{:02x}{:02x}".format(*LIGHTEST.astype(int).tolist())
    return Map(
        ", ".join(filter(None, [f"{metric.label} ({unit})" if unit else metric.label, whose])),
        _result(metric, fields, found),
        heading(x.name, unit_of(x)[1] if x.numbers else ""),
        heading(y.name, unit_of(y)[1] if y.numbers else ""),
        [of_x[text] for text in columns],
        [(of_y[row], [cell(column, row) for column in columns]) for row in rows],
        (three_digits(between[0] / size), f"{three_digits(between[1] / size)} {unit}".strip()),
        (lightest, COLOURS[0]),
        _drawn_limits(metric, found),
        printed,
    )


def _without_unit(field: Field) -> dict[str, str]:
    """The values without the unit, which the title of the axis has, by how they were written."""
    return dict(zip(field.texts, short_numbers(field), strict=True))


def _drawn_limits(metric: Metric, found: Mapping[tuple[str, str], Interval]) -> list[tuple[str, DrawnLimit]]:
    """The limits that some values exceed and others do not, with the kind of their line."""
    limits = LIMITS.get(metric.name, ())
    kinds = KINDS[-len(limits) :] if limits else ()
    means = [one.mean for one in found.values()]
    return [
        (kind, limit)
        for kind, limit in zip(kinds, limits, strict=True)
        if means and min(means) <= limit.value < max(means)
    ]


def _edges(
    metric: Metric, found: Mapping[tuple[str, str], Interval], keys: Sequence[Sequence[tuple[str, str]]]
) -> dict[tuple[str, str], str]:
    """By cell, classes for its left and upper edge, if a limit is between it and its neighbour there.

    ``keys`` are the cells of each row.
    """
    classes: dict[tuple[str, str], str] = {}
    limits = _drawn_limits(metric, found)
    for down, row in enumerate(keys):
        for across, key in enumerate(row):
            beside = {"left": row[across - 1]} if across else {}
            beside |= {"top": keys[down - 1][across]} if down else {}
            sides = []
            for side, other in beside.items():
                if key in found and other in found:
                    low, high = sorted((found[key].mean, found[other].mean))
                    sides += [f"{side}-{kind}" for kind, limit in limits if low <= limit.value < high][-1:]
            classes[key] = " ".join(sides)
    return classes


def _result(metric: Metric, fields: tuple[Field, Field], found: Mapping[tuple[str, str], Interval]) -> str:
    """The highest and the lowest value, and where they are."""
    shown = [short_values(one) for one in fields]
    ends = []
    for word, choose in (("highest", max), ("lowest", min)):
        key = choose(found, key=lambda one: found[one].mean)
        place = ", ".join(of[text] for of, text in zip(shown, key, strict=True))
        ends.append(f"{word} {amount(found[key].mean, metric.unit)} at {place}")
    return f"{metric.label}: {'; '.join(ends)}."
