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

    With ``overall_only`` only what stands for all machines, where there is such a thing; metrics in columns.
    """
    transposed = table.transposed
    if overall_only and any(one.cell.machine == OVERALL for one in cells):
        cells = [one for one in cells if one.cell.machine == OVERALL]
        transposed = False
    conditions, machines = (len({key(one) for one in cells}) for key in (_row, _machine))
    keyed = {}
    for one in cells:
        parts = [(_row(one), conditions > 1), (one.cell.column, transposed), (_machine(one), not transposed)]
        shown = [text for text, wanted in parts if wanted and (text != _machine(one) or machines > 1)]
        column = _machine(one) if transposed else one.cell.column
        keyed[", ".join(shown) or _row(one), column] = one
    rows, columns = _unique(row for row, _ in keyed), _unique(column for _, column in keyed)
    return Grid(columns, [(row, [keyed.get((row, column)) for column in columns]) for row in rows])


def _row(one: Compared) -> str:
    return one.cell.row


def _machine(one: Compared) -> str:
    return "overall" if one.cell.machine == OVERALL else f"machine {one.cell.machine}"


def _unique(values: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(values))
