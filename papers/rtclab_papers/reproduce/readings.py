"""Readings of a paper that change the model, such as its printed equations, compared cell by cell.

A set of readings is written as ``[[readings_of_cells]]`` in ``published/<paper>.toml``; docs/add-a-paper.md
shows how.
"""

from __future__ import annotations

from collections.abc import Sequence
from fnmatch import fnmatchcase
from math import isnan

from pydantic import Field

from rtclab.scenario import Table
from rtclab_papers.reproduce.published_cells import OVERALL, Cell
from rtclab_papers.reproduce.trends import Need


class CellReadings(Table):
    """Readings of a paper, each with the cells of some tables.

    Attributes:
        title: what is read in different ways.
        source: the place in the paper.
        first: the reading of the tables, trends and figures, in words.
        others: the other readings in words, each with the suffix of its scenarios, such as ``+printed``.
        tables: numbers of the tables to compare.
        scenarios: patterns of the scenarios to compare; by default all of the tables.
        conclusion: what follows, in a sentence or two.
    """

    title: str
    source: str
    first: str
    others: dict[str, str] = Field(min_length=1)
    tables: tuple[str, ...] = Field(min_length=1)
    scenarios: tuple[str, ...] = ("*",)
    conclusion: str = ""

    def cells(self, cells: Sequence[Cell]) -> list[Cell]:
        """The cells to compare: with a published number, over all machines if the table has such rows."""
        chosen = [
            cell
            for cell in cells
            if cell.table in self.tables
            and cell.scenario
            and not isnan(cell.mean)
            and any(fnmatchcase(cell.scenario, pattern) for pattern in self.scenarios)
        ]
        overall = {(cell.table, cell.row, cell.column) for cell in chosen if cell.machine == OVERALL}
        return [
            cell
            for cell in chosen
            if cell.machine == OVERALL or (cell.table, cell.row, cell.column) not in overall
        ]

    def needs(self, cells: Sequence[Cell]) -> list[Need]:
        """What must be measured for the other readings."""
        return [
            (cell.scenario + suffix, cell.metric)
            for suffix in self.others.values()
            for cell in self.cells(cells)
        ]
