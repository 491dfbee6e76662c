"""A published table as rows and columns, with our side in every cell."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rtclab.reproduce.comparison import OVERALL, Compared
from rtclab.reproduce.paper import Table


@dataclass(frozen=True)
class Grid:
    """Headings of columns, and rows with their heading and one cell per column (or none)."""

    columns: Sequence[str]
    rows: Sequence[tuple[str, Sequence[Compared | None]]]


def grid(table: Table, cells: Sequence[Compared], *, overall_only: bool = False) -> Grid:
    """The table in the form in which it was published.

    With ``overall_only`` the rows of single machines are left out where there are rows over all of them.
    """
    if overall_only and any(one.cell.machine == OVERALL for one in cells):
        cells = [one for one in cells if one.cell.machine == OVERALL]
    machines = _unique(one.cell.machine for one in cells)
    keyed = {_key(one, machines=len(machines), transposed=table.transposed): one for one in cells}
    rows, columns = _unique(row for row, _ in keyed), _unique(column for _, column in keyed)
    return Grid(columns, [(row, [keyed.get((row, column)) for column in columns]) for row in rows])


def _key(one: Compared, *, machines: int, transposed: bool) -> tuple[str, str]:
    cell = one.cell
    if transposed:
        return cell.column, f"Peer {cell.machine}"
    return (f"{cell.row}, {cell.machine}" if machines > 1 else cell.row), cell.column


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
