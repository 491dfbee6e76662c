"""The figures of papers as pictures for the documentation."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from rtclab.report import NARROW, Plot, as_svg
from rtclab.trace import write_text
from rtclab_papers.reproduce.comparison import Comparison
from rtclab_papers.reproduce.figures import Figure
from rtclab_papers.reproduce.stated import with_published


@dataclass(frozen=True)
class Picture:
    """A written picture: name of its file, title and caption."""

    file: str
    title: str
    caption: str


def plots(one: Comparison) -> list[Plot]:
    """The figures of a paper, with published values, for which everything was measured."""
    return [plot for _, plot in _drawn(one)]


def _drawn(one: Comparison) -> Iterator[tuple[Figure, Plot]]:
    printed = [(cell, one.paper.flows(cell)) for cell in one.paper.cells]
    for figure in one.paper.figures:
        if figure.is_known(one.results):
            yield figure, with_published(figure.draw(one.results), figure, printed)


def file_name(stem: str, paper: str, number: str) -> str:
    """The name of the file of a figure: ``reproduction-abello2013-figure-17-and-19.svg``."""
    return f"{stem}-{paper}-figure-{re.sub('[^a-z0-9]+', '-', number.lower())}.svg"


def write_figures(one: Comparison, page: Path) -> list[Picture]:
    """Writes the figures of a paper as SVG beside ``page`` and deletes its other figures there.

    The names of the files begin with the stem of ``page``.
    """
    pictures = []
    for figure, plot in _drawn(one):
        file = page.with_name(file_name(page.stem, one.paper.name, figure.number))
        write_text(file, as_svg(plot, NARROW))
        pictures.append(Picture(file.name, plot.title, plot.caption))
    written = {picture.file for picture in pictures}
    for file in page.parent.glob(file_name(page.stem, one.paper.name, "").removesuffix(".svg") + "*.svg"):
        if file.name not in written:
            file.unlink()
    return pictures
