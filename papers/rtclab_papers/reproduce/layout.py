"""Arranges the cells of a published table in rows and columns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rtclab_papers.reproduce.cells import OVERALL
from rtclab_papers.reproduce.comparison import Compared


@dataclass(frozen=True)
class Row:
    """A row of a table: its group (empty for none), its heading, and a cell or None for each column."""

    group: str
    heading: str
    cells: Sequence[Compared | None]

    @property
    def name(self) -> str:
        """Group and heading together."""
        return f"{self.group}, {self.heading}" if self.group else self.heading


@dataclass(frozen=True)
class Grid:
    """A table: its rows, and the headings of its columns."""

    columns: Sequence[str]
    rows: Sequence[Row]


def grid(cells: Sequence[Compared], *, transposed: bool = False, overall_only: bool = False) -> Grid:
    """Arranges a table as it was published.

    Conditions are rows and metrics are columns. In a ``transposed`` table, metrics are rows and machines are
    columns. With ``overall_only``, a table with rows over all machines has only these rows and is not
    transposed.
    """
    if overall_only and any(one.cell.machine == OVERALL for one in cells):
        cells = [one for one in cells if one.cell.machine == OVERALL]
        transposed = False
    conditions = {one.cell.row for one in cells}
    several_conditions = len(conditions) > 1
    several_machines = len({(one.cell.row, one.cell.machine) for one in cells}) > len(conditions)

    def place(one: Compared) -> tuple[str, str, str]:
        """Group, heading and column."""
        cell, group = one.cell, one.cell.row if several_conditions else ""
        machine = OVERALL if cell.machine == OVERALL else f"machine {cell.machine}"
        if transposed:
            return group, cell.column, machine
        return (group, machine, cell.column) if several_machines else ("", cell.row, cell.column)

    placed = {place(one): one for one in cells}
    columns = list(dict.fromkeys(column for _, _, column in placed))
    rows = dict.fromkeys((group, heading) for group, heading, _ in placed)
    return Grid(columns, [Row(*row, [placed.get((*row, column)) for column in columns]) for row in rows])
