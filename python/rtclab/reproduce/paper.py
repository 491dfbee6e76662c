"""What a paper published, as data: tables with their cells, figures, and trends in words."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from rtclab.errors import BadInput

if TYPE_CHECKING:
    from rtclab.report.figure import Plot
    from rtclab.reproduce.measure import MeasureMore
    from rtclab.reproduce.results import Results

PUBLISHED = Path(__file__).parent / "published"
EVERY_FLOW = "*->*"

UNUSABLE = "unusable"
"""Status of a cell that the paper itself contradicts, so that there is nothing to compare with."""


@dataclass(frozen=True)
class Cell:
    """One printed number and what it is.

    ``metric`` is the quantity it really is, ``column`` the heading it stands under; they differ where a paper
    mislabels. ``mean`` (NaN: no number was published) and ``sd`` are what to compare with; ``printed`` is
    what the paper has where that is something else, and ``note`` says why. ``status`` is empty, ``unusable``,
    or the key of a reason why a model of network and congestion control cannot explain the number.
    """

    table: str
    row: str
    machine: str
    column: str
    scenario: str
    metric: str
    mean: float
    sd: float | None
    printed: str
    status: str
    note: str
    within: float | None = None
    """How far ours may be from it, where that is not the rule for its kind."""
    computed: float | None = None
    """Ours, where it follows from an equation rather than from runs of a scenario."""


@dataclass(frozen=True)
class Table:
    """A published table. ``transposed``: machines stand in columns and metrics in rows."""

    number: str
    title: str
    cells: Sequence[Cell]
    transposed: bool = False


@dataclass(frozen=True)
class Finding:
    """What became of a trend: whether it holds, and our numbers that say so."""

    keeps: bool
    figures: str


@dataclass(frozen=True)
class Trend:
    """A statement of a paper, in our words, that our results keep or break.

    ``how`` says what is computed and between which bounds; ``reason`` why it breaks, where that is known.
    """

    statement: str
    source: str
    how: str
    check: Callable[[Results], Finding]
    reason: str = ""


@dataclass(frozen=True)
class Figure:
    """A published figure, drawn from our traces of ``scenarios`` (the first ``repeats`` of each)."""

    number: str
    scenarios: Sequence[str]
    draw: Callable[[Results], Plot]
    repeats: int = 1


@dataclass(frozen=True)
class Paper:
    """One publication.

    ``machines`` says which flows stand for a machine of the tables, or, as ``14/A``, for that of one table; a
    machine that is not in it (``overall``) stands for all flows of media. ``reasons`` explains the keys of
    ``Cell.status``. ``measure`` adds values of one trace to the standard ones; ``packets`` are the
    scenarios of which it needs every packet. ``also`` are scenarios that
    only trends and figures need. ``varies`` are the fields (``*`` is anything) in which its scenarios may
    differ from their testbed: what the paper varied, and nothing that would tune a model.
    """

    name: str
    title: str
    source: str
    tables: Sequence[Table]
    trends: Sequence[Trend] = ()
    figures: Sequence[Figure] = ()
    varies: Sequence[str] = ()
    machines: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    measure: MeasureMore | None = None
    packets: Sequence[str] = ()
    also: Sequence[str] = ()
    remarks: Sequence[str] = ()

    @cached_property
    def cells(self) -> list[Cell]:
        """All printed numbers."""
        return [cell for table in self.tables for cell in table.cells]

    @cached_property
    def scenarios(self) -> list[str]:
        """Names of all scenarios that are run for this paper, each once."""
        named = [cell.scenario for cell in self.cells if cell.scenario]
        drawn = [name for figure in self.figures for name in figure.scenarios]
        return list(dict.fromkeys([*named, *drawn, *self.also]))

    @cached_property
    def traced(self) -> dict[str, int]:
        """For scenarios that figures are drawn from: of how many repeats the whole trace is kept."""
        wanted: dict[str, int] = {}
        for figure in self.figures:
            for name in figure.scenarios:
                wanted[name] = max(figure.repeats, wanted.get(name, 0))
        return wanted

    def flows(self, cell: Cell) -> str:
        """The pattern of the flows that the machine of a cell stands for."""
        everywhere = self.machines.get(cell.machine, EVERY_FLOW)
        return self.machines.get(f"{cell.table}/{cell.machine}", everywhere)

    def reason(self, cell: Cell) -> str:
        """Why a cell cannot be explained; empty if it can."""
        return self.reasons[cell.status] if cell.status not in ("", UNUSABLE) else ""


def published(paper: str, titles: Mapping[str, str], transposed: Sequence[str] = ()) -> list[Table]:
    """The tables of a paper from ``published/<paper>.csv``, in the order of ``titles`` (by number).

    Raises:
        BadInput: a row is not what it should be.
    """
    file = PUBLISHED / f"{paper}.csv"
    with file.open(encoding="utf-8", newline="") as text:
        cells = [_cell(row, f"{file.name}:{line}") for line, row in enumerate(csv.DictReader(text), start=2)]
    return [
        Table(number, title, [cell for cell in cells if cell.table == number], number in transposed)
        for number, title in titles.items()
    ]


@dataclass(frozen=True)
class Words:
    """What a report says beside the numbers; see ``Paper.reasons`` and ``Paper.remarks``."""

    reasons: dict[str, str]
    remarks: list[str]


def words(paper: str) -> Words:
    """The words of a paper from ``published/<paper>.toml``."""
    data = tomllib.loads((PUBLISHED / f"{paper}.toml").read_text(encoding="utf-8"))
    return Words(data.get("reasons", {}), data.get("remarks", []))


def _cell(row: dict[str, str], place: str) -> Cell:
    try:
        numbers = {"mean": float(row.pop("mean")), "sd": _optional(row.pop("sd"))}
        return Cell(**row, **numbers)  # type: ignore[arg-type]  # mypy cannot see the keys
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{place}: {error}") from None


def _optional(text: str) -> float | None:
    return float(text) if text else None
