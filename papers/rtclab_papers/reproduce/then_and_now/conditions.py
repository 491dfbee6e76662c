"""The conditions that run with Chromium of 2026, and the published numbers to compare them with."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from typing import Any

from pydantic import InstanceOf

from rtclab.errors import BadInput
from rtclab.scenario import Duration, Scenario, Table
from rtclab_papers.reproduce import paper
from rtclab_papers.reproduce.measures import WINDOW_S
from rtclab_papers.reproduce.paper import Paper
from rtclab_papers.reproduce.published_cells import OVERALL, UNUSABLE, Cell
from rtclab_papers.reproduce.then_and_now.row_values import COMPARED, Need
from rtclab_papers.reproduce.then_and_now.translate import Translated, as_today
from rtclab_papers.reproduce.trends import Quantity

ONE_WAY = "One-way delay (ms)"
FILE = Path(__file__).with_name("conditions.toml")


class StatedNumber(Quantity):
    """A number that a paper states in its text or shows in a figure."""

    row: str
    """Condition, as in the figure."""
    column: str
    """Quantity with its unit."""
    published: float = nan
    """The number; NaN if there is only a statement."""
    note: str = ""
    """The statement, in our words."""


class TableChoice(Table):
    """A table of the page: numbers of a published table, or numbers that a paper states."""

    paper: str
    """Short name of the paper."""
    table: str = ""
    """Number of the published table; empty for stated numbers."""
    title: str = ""
    """Title, for stated numbers."""
    machine: str = OVERALL
    """Machine whose numbers to take; empty for all."""
    rows: tuple[str, ...] = ()
    """Rows to take; by default all."""
    metrics: tuple[str, ...] = ()
    """Metrics to take, instead of the metrics of the whole file."""
    values: tuple[InstanceOf[StatedNumber], ...] = ()
    """Stated numbers."""
    today: str = ""
    """The sentence above the table, with placeholders."""
    plot: str = ""
    """Column to draw; by default none."""
    matrix: bool = False
    """Whether conditions are rows and quantities are columns, each simulated as it is, and live."""
    leads: bool = False
    """Whether its sentence also stands at the top of the page."""


class Conditions(Table):
    """The content of ``conditions.toml``."""

    duration: Duration
    """Length of each run in 2026."""
    repeats: int
    """Live repeats of each scenario."""
    simulated_repeats: int
    """Simulated repeats of each scenario with Chromium of 2026."""
    then_repeats: int
    """Simulated repeats of each scenario with the control of its time."""
    metrics: tuple[str, ...]
    """Metrics to take of published tables."""
    durations: dict[str, Duration] = {}
    """Lengths of the runs of scenarios that need another one than ``duration``."""
    boxes: dict[str, tuple[int, int]] = {}
    """By scenario, the largest picture in 2026, in pixels: one of ``translate.SIZES``."""
    tables: tuple[InstanceOf[TableChoice], ...]
    """The tables of the page."""
    series: dict[str, tuple[str, ...]] = {}
    """By paper, the numbers of figures over time to draw for the past and for 2026."""
    causes: dict[str, dict[str, str]] = {}
    """Why simulated and live calls differ much, as an experiment has shown: by measure and scenario."""


@dataclass(frozen=True)
class PublishedNumber:
    """A published number, and its counterpart in our results.

    Attributes:
        row: the condition, with the name in the paper.
        column: the quantity, with its unit.
        quantity: the quantity to compute from results of its time.
        published: the number; NaN if none was published.
        sd: published standard deviation; NaN if none was.
        note: further words of the paper.
        status: why the number cannot be compared: a key of ``Paper.reasons``, or empty.
    """

    row: str
    column: str
    quantity: Quantity
    published: float
    sd: float = nan
    note: str = ""
    status: str = ""

    @property
    def key(self) -> str:
        """Row and column, as placeholders name them."""
        return f"{self.row}|{self.column}"


@dataclass(frozen=True)
class Section:
    """A table of the page."""

    paper: Paper
    title: str
    lines: Sequence[PublishedNumber]
    today: str
    plot: str
    matrix: bool = False
    leads: bool = False

    @property
    def scenarios(self) -> list[str]:
        """The scenarios that its lines need."""
        return list(dict.fromkeys(name for line in self.lines for name, _ in line.quantity.needs))


@dataclass(frozen=True)
class Plan:
    """Everything that the page compares."""

    conditions: Conditions
    sections: Sequence[Section]
    others: Sequence[Section] = ()
    """Tables of other papers, which may need more measures of the same scenarios."""

    @cached_property
    def scenarios(self) -> list[str]:
        """The scenarios to run, each once: the conditions."""
        return list(dict.fromkeys(name for section in self.sections for name in section.scenarios))

    @cached_property
    def today(self) -> Mapping[str, Translated]:
        """Each scenario with Chromium of 2026."""
        return {
            name: as_today(Scenario.load(name), self.duration_of(name), self.conditions.boxes.get(name))
            for name in self.scenarios
        }

    def duration_of(self, scenario: str) -> str:
        """The length of the run of a scenario in 2026."""
        return str(self.conditions.durations.get(scenario, self.conditions.duration))

    def need(self, scenario: str, *, today: bool) -> Need:
        """What to measure in a scenario; windows of 2026 shrink with the run.

        For 2026 this includes the measures by which backends are compared.
        """
        measures = dict.fromkeys(COMPARED if today else ())
        flows: dict[str, None] = {}
        for line in (line for section in (*self.sections, *self.others) for line in section.lines):
            quantity = self.quantity_of_today(line) if today else line.quantity
            if names := [name for of, name in quantity.needs if of == scenario]:
                measures |= dict.fromkeys(names)
                flows |= dict.fromkeys(_flows(quantity))
        return Need(tuple(sorted(measures)), tuple(sorted(flows)))

    def quantity_of_today(self, line: PublishedNumber) -> Quantity:
        """The quantity to compute from results of 2026: the same, in a window that shrinks with the run.

        Raises:
            BadInput: the shorter window has no whole tens of seconds.
        """
        window = line.quantity.window_s
        if window is None:
            return line.quantity
        name = line.quantity.scenario
        factor = Duration.parse(self.duration_of(name)).ns / Scenario.load(name).duration.ns
        begin, end = (second * factor for second in window)
        if begin % WINDOW_S or end % WINDOW_S:
            raise BadInput(
                f"{FILE.name}: {line.key}: the window of {window[0]} to {window[1]} s becomes {begin:g} to "
                f"{end:g} s; expected whole tens of seconds",
                hint=f"choose another length of {name} in [durations]",
            )
        return line.quantity.model_copy(update={"window_s": (int(begin), int(end))})


def read_plan(papers: Iterable[str], file: Path = FILE) -> Plan:
    """The tables of these papers.

    Raises:
        BadInput: the file is invalid, or names something that a paper does not have.
    """
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    wanted = set(papers)
    tables = [
        _chosen({"paper": name} | table, f"{file.name}: table {index} of {name}")
        for name, of_paper in data["tables"].items()
        for index, table in enumerate(of_paper, start=1)
    ]
    conditions = Conditions.read(data | {"tables": tables}, file.name)
    sections = [_section(table, conditions, file.name) for table in tables]
    return Plan(
        conditions,
        [section for section in sections if section.paper.name in wanted],
        [section for section in sections if section.paper.name not in wanted],
    )


def _chosen(data: dict[str, Any], place: str) -> TableChoice:
    stated = [*data.get("values", ()), *_grid(data.pop("conditions", ()), data.pop("columns", {}))]
    values = [StatedNumber.read(value, f"{place}: value {index}") for index, value in enumerate(stated, 1)]
    return TableChoice.read(data | {"values": values}, place)


def _grid(conditions: Iterable[dict[str, Any]], columns: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """A number for each condition and column.

    Where a condition differs from a column, it has the other keys under the column's name, or false.
    """
    for condition in conditions:
        shared = {key: value for key, value in condition.items() if key not in columns}
        for column, keys in columns.items():
            if (own := condition.get(column, {})) is not False:
                yield shared | {"column": column} | keys | own


def _section(table: TableChoice, conditions: Conditions, origin: str) -> Section:
    source = paper(table.paper)
    if table.values:
        lines = [
            PublishedNumber(value.row, value.column, value, value.published, nan, value.note)
            for value in table.values
        ]
        return Section(source, table.title, lines, table.today, table.plot, table.matrix, table.leads)
    metrics = table.metrics or conditions.metrics
    cells = [cell for cell in source.cells if _wanted(cell, table, metrics)]
    missing = set(table.rows) - {cell.row for cell in cells}
    if missing or not cells:
        what = f"row `{min(missing)}`" if missing else "numbers"
        raise BadInput(f"{origin}: {table.paper}, table {table.table}: no {what} with these metrics")
    title = f"Table {table.table}: {source.tables[table.table]}"
    if table.machine not in ("", OVERALL):
        title += f" (machine {table.machine})"
    lines = [_line(source, cell) for cell in cells]
    return Section(source, title, lines, table.today, table.plot, leads=table.leads)


def _wanted(cell: Cell, table: TableChoice, metrics: Sequence[str]) -> bool:
    return (
        cell.table == table.table
        and table.machine in ("", cell.machine)
        and (not table.rows or cell.row in table.rows)
        and cell.metric in metrics
        and bool(cell.scenario)
    )


def _line(source: Paper, cell: Cell) -> PublishedNumber:
    data = {"metric": cell.metric, "scenario": cell.scenario, "flows": source.flows(cell)}
    quantity = Quantity.read(data, f"table {cell.table}: {cell.row}")
    note = "the paper contradicts this number" if cell.status == UNUSABLE else ""
    sd = nan if cell.sd is None else cell.sd
    # Some columns are mislabelled in the paper.
    column = ONE_WAY if cell.metric == "owd_ms" else cell.column
    return PublishedNumber(cell.row, column, quantity, cell.mean, sd, note, cell.status)


def _flows(quantity: Quantity) -> list[str]:
    """The patterns of flows of a quantity and of the quantities that it is related to."""
    related = [one for one in (quantity.percent_of, quantity.percent_below, quantity.ratio_to) if one]
    return [*quantity.flows, *(flow for one in (*quantity.mean_of, *related) for flow in _flows(one))]


def is_published(line: PublishedNumber) -> bool:
    """Whether there is a number to compare with."""
    return not isnan(line.published)
