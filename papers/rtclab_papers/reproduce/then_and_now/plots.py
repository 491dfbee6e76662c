"""Bar charts: the published number, then, and 2026, in the same colours everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, nan

import numpy as np

from rtclab.metrics import Array
from rtclab.report import COLOURS, QUIET, Axes, Axis, Columns, Dots, Drawing, Line, Mark, Style, largest
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, SIM, THEN
from rtclab_papers.reproduce.then_and_now.conditions import PublishedNumber, Section
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers

PUBLISHED = "published"
LOOKS = {
    PUBLISHED: Style("published", QUIET),
    THEN: Style("simulated, control of its time", COLOURS[4]),
    SIM: Style("simulated, 2026", COLOURS[0]),
    LIVE: Style("live, 2026", COLOURS[1]),
}
"""How each source is drawn, in the order of the bars."""
WIDTH = 0.2
"""Width of a bar; the places of two rows are 1 apart."""


def drawing(section: Section, column: str, numbers: CampaignNumbers, name: str) -> Drawing | None:
    """The bars of a column of a table; None if nothing was measured yet."""
    lines = [line for line in section.lines if line.column == column]
    bars = {source: _bars(lines, source, numbers) for source in LOOKS}
    measured = [bars[source][0] for source in (THEN, SIM, LIVE)]
    if all(np.isnan(values).all() for values in measured):
        return None
    marks = []
    for index, (source, (values, low, high)) in enumerate(bars.items()):
        places = np.arange(len(lines), dtype=np.float64) + (index - (len(bars) - 1) / 2) * WIDTH
        if not np.isnan(values).all():
            marks.append(Columns(LOOKS[source], places, WIDTH, values, low, high))
    top = largest([array for values in bars.values() for array in values])
    title = f"{section.paper.source}, {section.title}"
    x = Axis("", -0.5, len(lines) - 0.5, [line.row for line in lines])
    return Drawing(name, title, title, x, Axis.from_zero(column, top), [Axes("", marks)])


def rates(
    numbers: CampaignNumbers, lines: Sequence[tuple[str, PublishedNumber]], name: str
) -> Drawing | None:
    """Each published rate and the live rate of 2026 beside it; None if nothing was measured live yet.

    Args:
        numbers: the rows.
        lines: the rates, in kbit/s, each with the short name of its paper.
        name: the name of the drawing.
    """
    found = [(paper, line.published, numbers.of_line(line, LIVE).mean) for paper, line in lines]
    known = [(paper, published, live) for paper, published, live in found if published > 0 and live > 0]
    if not known:
        return None
    values = [value for _, *both in known for value in both]
    x = Axis.logarithmic("published rate (kbit/s)", min(values), max(values))
    y = Axis.logarithmic("live, 2026 (kbit/s)", min(values), max(values))
    ends = np.array([x.begin, x.end])
    marks: list[Mark] = [Line(Style("equal", QUIET), ends, ends)]
    for index, paper in enumerate(dict.fromkeys(paper for paper, *_ in known)):
        then, now = np.log10([both for of, *both in known if of == paper]).T
        marks.append(Dots(Style.numbered(index, paper), then, now, now, now))
    title = "Rates of 2026 against the published ones"
    return Drawing(name, title, title, x, y, [Axes("", marks)])


def _bars(
    lines: Sequence[PublishedNumber], source: str, numbers: CampaignNumbers
) -> tuple[Array, Array, Array]:
    """Values, and the ends of their intervals: published ± sd, otherwise the ends of ``RepeatsMean``."""
    rows = [_bar(line, source, numbers) for line in lines]
    values, low, high = (np.array(column, dtype=float) for column in zip(*rows, strict=True))
    return values, low, high


def _bar(line: PublishedNumber, source: str, numbers: CampaignNumbers) -> tuple[float, float, float]:
    if source != PUBLISHED:
        estimate = numbers.of_line(line, source)
        return estimate.mean, *estimate.ends
    if isnan(line.sd):
        return line.published, nan, nan
    return line.published, max(line.published - line.sd, 0.0), line.published + line.sd
