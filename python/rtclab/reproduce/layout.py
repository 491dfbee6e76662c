"""A published table as rows and columns, with our number in every cell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtclab.reproduce.comparison import OVERALL, Compared
from rtclab.reproduce.tables import Table


@dataclass(frozen=True)
class Row:
    """A row of a table: its group if it has one, its heading, and a cell or None per column."""

    group: str
    heading: str
    cells: Sequence[Compared | None]

    @property
    def name(self) -> str:
        """Group and heading together."""
        return f"{self.group}, {self.heading}" if self.group else self.heading


@dataclass(frozen=True)
class Grid:
    """A table: the headings of its columns, and its rows."""

    columns: Sequence[str]
    rows: Sequence[Row]


def grid(table: Table, cells: Sequence[Compared], *, overall_only: bool = False) -> Grid:
    """The table in the form in which it was published.

    Conditions are rows and metrics columns; in a transposed table machines are columns and metrics rows. With
    ``overall_only`` a table that has rows over all machines shows only these, and is not transposed.
    """
    transposed = table.transposed
    if overall_only and any(one.cell.machine == OVERALL for one in cells):
        cells = [one for one in cells if one.cell.machine == OVERALL]
        transposed = False
    place = _transposed if transposed else _upright
    conditions = {one.cell.row for one in cells}
    several = len(conditions) > 1, len({(one.cell.row, one.cell.machine) for one in cells}) > len(conditions)
    placed = {place(one, *several): one for one in cells}
    columns = list(dict.fromkeys(column for _, _, column in placed))
    rows = dict.fromkeys((group, heading) for group, heading, _ in placed)
    return Grid(columns, [Row(*row, [placed.get((*row, column)) for column in columns]) for row in rows])


def _upright(one: Compared, conditions: bool, machines: bool) -> tuple[str, str, str]:
    if machines:
        return one.cell.row if conditions else "", _machine(one), one.cell.column
    return "", one.cell.row, one.cell.column


def _transposed(one: Compared, conditions: bool, machines: bool) -> tuple[str, str, str]:
    return one.cell.row if conditions else "", one.cell.column, _machine(one)


def _machine(one: Compared) -> str:
    return OVERALL if one.cell.machine == OVERALL else f"machine {one.cell.machine}"
