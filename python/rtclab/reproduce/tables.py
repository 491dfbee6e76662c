"""What a paper printed in its tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan
from typing import Annotated

from pydantic import BeforeValidator

from rtclab.scenario.table import Table as TomlTable

UNUSABLE = "unusable"
"""Status of a cell that the paper itself contradicts, so that there is nothing to compare with."""


def _empty_is(value: float | None) -> BeforeValidator:
    """What a column of numbers stands for where nothing is written in it."""
    return BeforeValidator(lambda text: value if text == "" else text)


class Cell(TomlTable):
    """One printed number and what it is: a line of ``published/<paper>.csv``.

    ``metric`` is the quantity it really is, ``column`` the heading it stands under; they differ where a paper
    mislabels. ``mean`` (NaN: no number was published) and ``sd`` are what to compare with; ``printed`` is
    what the paper has where that is something else, and ``note`` says why. ``status`` is empty, ``unusable``,
    or the key of a reason why a model of network and congestion control cannot explain the number. ``within``
    is how far ours may be from it, if that is not the rule for its kind. ``computed`` is ours, if it follows
    from an equation and not from runs of a scenario.
    """

    table: str
    row: str
    machine: str
    column: str
    scenario: str
    metric: str
    mean: Annotated[float, _empty_is(nan)]
    sd: Annotated[float | None, _empty_is(None)] = None
    printed: str = ""
    status: str = ""
    note: str = ""
    within: Annotated[float | None, _empty_is(None)] = None
    computed: float | None = None


@dataclass(frozen=True)
class Table:
    """A published table. If it is ``transposed``, machines are columns and metrics rows."""

    number: str
    title: str
    cells: Sequence[Cell]
    transposed: bool = False
