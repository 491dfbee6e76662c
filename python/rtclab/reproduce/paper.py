"""A publication: its tables, its figures, and its trends in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from rtclab.reproduce.measure import EVERY_FLOW
from rtclab.reproduce.tables import Cell, Table

if TYPE_CHECKING:
    from rtclab.report.plot import Plot
    from rtclab.reproduce.measure import MeasureMore
    from rtclab.reproduce.results import Results
    from rtclab.reproduce.trends import Trend


@dataclass(frozen=True)
class Figure:
    """A published figure. We draw it from results of ``scenarios`` and ``repeats`` whole traces of each."""

    number: str
    scenarios: Sequence[str]
    draw: Callable[[Results], Plot]
    repeats: int = 1


@dataclass(frozen=True)
class Paper:
    """One publication.

    ``machines`` says which flows stand for a machine of the tables, or, as ``14/A``, for that of one table; a
    machine that is not in it (``overall``) stands for all flows of media. ``varies`` are the fields (``*`` is
    anything) in which its scenarios may differ from their testbed: what the paper varied, and nothing that
    would tune a model. ``reasons`` explains the keys of ``Cell.status``. ``measure`` adds values of one trace
    to the standard ones; ``packets`` are the scenarios of which it needs every packet.
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
    remarks: Sequence[str] = ()

    @cached_property
    def cells(self) -> list[Cell]:
        """All printed numbers."""
        return [cell for table in self.tables for cell in table.cells]

    @cached_property
    def scenarios(self) -> list[str]:
        """All scenarios that this paper needs, each once."""
        named = [cell.scenario for cell in self.cells if cell.scenario]
        drawn = [name for figure in self.figures for name in figure.scenarios]
        stated = [name for trend in self.trends for name in trend.scenarios]
        return list(dict.fromkeys([*named, *drawn, *stated]))

    @cached_property
    def traced(self) -> dict[str, int]:
        """How many whole traces figures need, by scenario."""
        wanted: dict[str, int] = {}
        for figure in self.figures:
            for name in figure.scenarios:
                wanted[name] = max(figure.repeats, wanted.get(name, 0))
        return wanted

    def flows(self, cell: Cell) -> str:
        """The pattern of the flows that a cell's machine stands for."""
        everywhere = self.machines.get(cell.machine, EVERY_FLOW)
        return self.machines.get(f"{cell.table}/{cell.machine}", everywhere)
