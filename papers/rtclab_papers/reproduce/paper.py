"""Reads publications: numbers from a CSV file, and text, trends and figures from a TOML file."""

from __future__ import annotations

import csv
import re
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from pydantic import InstanceOf

from rtclab.errors import BadInput
from rtclab.scenario import Table, closest
from rtclab_papers.reproduce.ambiguities import Ambiguity, ambiguity_of
from rtclab_papers.reproduce.changes import Changes
from rtclab_papers.reproduce.figures import Figure, figures_of
from rtclab_papers.reproduce.measurements import EVERY_FLOW
from rtclab_papers.reproduce.null_model import NullConstant
from rtclab_papers.reproduce.published_cells import UNUSABLE, Cell, Metric
from rtclab_papers.reproduce.readings import CellReadings
from rtclab_papers.reproduce.trends import Check, Need, Numbers, Quantity, Trend
from rtclab_papers.reproduce.variants import Variant

PUBLISHED = Path(__file__).parent / "published"
NUMBER_IN_TEXT = r"\{([a-z0-9_]+)\}"
"""The name of one of a paper's numbers, in a text."""
TESTBED = ("varies", "machines", "null", "fitted", "numbers", "variants")
"""Keys that a paper inherits from the paper it extends, unless it has its own. Reasons are merged."""


class Hypothesis(Table):
    """An explanation that was tried: its text, its result in figures, and whether it was adopted."""

    says: str
    gave: str
    verdict: Literal["adopted", "refuted", "open"]


class Paper(Table):
    """A publication: the keys of its TOML file, and the cells of its CSV file.

    Attributes:
        title: title of the publication.
        source: authors, place and year.
        tables: titles of tables by number.
        transposed: numbers of the tables that have machines in columns.
        varies: fields in which the scenarios may differ from their testbed, with ``*`` as a wildcard. The
            paper varied these fields; parameters of models are not among them.
        machines: pattern of the flows of each machine in the tables; the key ``14/A`` is machine A of table
            14 only. A machine without a pattern, such as ``overall``, stands for all flows of media.
        reasons: why our numbers differ, by the keys in ``Cell.status``.
        fitted: metrics that were used to choose the model or a parameter of it, by pattern of scenarios.
        calls: how many calls to simulate, by pattern of scenarios, where a call takes long.
        null: the constants of the null model.
        done: description of the simulations, and of conditions that were not simulated.
        hypotheses: explanations of differences that were tried, with their results.
        decides: measurements that would decide the open questions.
        remarks: remarks at the end of the report.
        trends: statements of the paper, with checks.
        figures: figures of the paper.
        variants: variants of the scenarios by name.
        ambiguities: conditions that the paper leaves open, under two readings.
        numbers: quantities by the names that texts use in braces, such as ``{vp8_kbps}``.
        readings_of_cells: readings that change the model, with the cells of some tables.
        name: short name, and name of the files.
        cells: published numbers.
    """

    title: str
    source: str
    tables: dict[str, str]
    transposed: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    machines: dict[str, str] = {}
    reasons: dict[str, str] = {}
    fitted: dict[str, tuple[Metric, ...]] = {}
    calls: dict[str, int] = {}
    null: tuple[NullConstant, ...] = ()
    done: str = ""
    hypotheses: tuple[Hypothesis, ...] = ()
    decides: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    trends: tuple[InstanceOf[Trend], ...] = ()
    figures: tuple[InstanceOf[Figure], ...] = ()
    variants: dict[str, Variant] = {}
    ambiguities: tuple[InstanceOf[Ambiguity], ...] = ()
    numbers: dict[str, InstanceOf[Quantity]] = {}
    readings_of_cells: tuple[CellReadings, ...] = ()
    name: str
    cells: tuple[InstanceOf[Cell], ...]

    @property
    def needs(self) -> list[Need]:
        """What must be measured: pairs of a scenario and the name of a measure."""
        printed = [(cell.scenario, cell.metric) for cell in self.cells if cell.scenario]
        drawn = [need for figure in self.figures for need in figure.needs]
        stated = [need for trend in self.trends for need in trend.needs]
        quoted = [need for number in self.numbers.values() for need in number.needs]
        return [*printed, *drawn, *stated, *quoted, *(need for one in self.ambiguities for need in one.needs)]

    @property
    def extra_needs(self) -> list[Need]:
        """What must be measured for the readings that run only on request."""
        changes = [check for trend in self.trends for check in trend.checks if isinstance(check, Changes)]
        of_cells = [need for one in self.readings_of_cells for need in one.needs(self.cells)]
        return [*of_cells, *(need for check in changes for need in check.extra_needs)]

    @property
    def scenarios(self) -> list[str]:
        """All scenarios of the paper, each once."""
        needed = [scenario for scenario, _ in self.needs]
        return list(dict.fromkeys([*needed, *(name for figure in self.figures for name in figure.scenarios)]))

    def traced(self, scenario: str) -> int:
        """Number of full traces that the figures need of a scenario."""
        return max((figure.traced for figure in self.figures if scenario in figure.scenarios), default=0)

    def is_fitted(self, cell: Cell) -> bool:
        """Whether a cell was used to choose the model or a parameter of it."""
        return any(
            cell.metric in metrics and fnmatchcase(cell.scenario, pattern)
            for pattern, metrics in self.fitted.items()
        )

    def flows(self, cell: Cell) -> str:
        """The pattern of the flows of a cell's machine."""
        everywhere = self.machines.get(cell.machine, EVERY_FLOW)
        return self.machines.get(f"{cell.table}/{cell.machine}", everywhere)


def read_paper(name: str, directory: Path = PUBLISHED) -> Paper:
    """Reads the paper with this name from its CSV and TOML files in ``directory``.

    Raises:
        BadInput: a file is invalid; the error names the file and the line or key.
    """
    file, numbers = directory / f"{name}.toml", directory / f"{name}.csv"
    data = _with_testbed(file)
    pairs, trends, figures = data.pop("pairs", {}), data.pop("trends", []), data.pop("figures", [])
    readings = [{"label": label} | one for label, one in data.pop("readings", {}).items()]
    with numbers.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, restkey="beyond the last column"))
    read = {
        "name": name,
        "cells": [_cell(row, f"{numbers.name}:{line}") for line, row in enumerate(rows, start=2)],
        "trends": [_trend(row, file.name, pairs, readings) for row in trends],
        "figures": [figure for row in figures for figure in figures_of(row, file.name)],
        "numbers": {
            key: Quantity.read(row, f"{file.name}: numbers.{key}")
            for key, row in data.pop("numbers", {}).items()
        },
        "ambiguities": [ambiguity_of(row, file.name) for row in data.pop("ambiguities", [])],
    }
    paper = Paper.read(data | read, file.name)
    paper = paper.model_copy(
        update={"remarks": (*paper.remarks, *(variant.remark for variant in paper.variants.values()))}
    )
    for name in re.findall(NUMBER_IN_TEXT, file.read_text(encoding="utf-8")):
        _known(name, paper.numbers, f"{file.name}: number in a text")
    for line, cell in enumerate(paper.cells, start=2):
        _known(cell.table, paper.tables, f"{numbers.name}:{line}: table")
        _known(cell.status, ["", UNUSABLE, *paper.reasons], f"{numbers.name}:{line}: status")
    return paper


def _with_testbed(file: Path) -> dict[str, Any]:
    data = _toml(file)
    if "extends" in data:
        base = _toml(file.parent / f"{data.pop('extends')}.toml")
        reasons = base.get("reasons", {}) | data.get("reasons", {})
        data = {key: base[key] for key in TESTBED if key in base} | data | {"reasons": reasons}
    return data


def _toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file.name}: {error}") from None


def _trend(
    data: dict[str, Any], origin: str, pairs: dict[str, Any], readings: Sequence[dict[str, Any]]
) -> Trend:
    place = f"{origin}: trend `{data.get('statement', '')}`"
    if isinstance(data.get("checks"), list):
        rows = enumerate(data["checks"], start=1)
        data = data | {"checks": [_check(row, f"{place}: check {i}", pairs, readings) for i, row in rows]}
    return Trend.read(data, place)


def _check(
    row: dict[str, Any], place: str, pairs: dict[str, Any], readings: Sequence[dict[str, Any]]
) -> Check:
    if "pairs" not in row:
        return Numbers.read(row, place)
    for label in row["pairs"]:
        _known(label, pairs, f"{place}: pairs")
    named = {"pairs": [{"label": label} | pairs[label] for label in row["pairs"]]}
    return Changes.read(row | named | ({"readings": readings} if readings else {}), place)


def _cell(row: dict[str, str], place: str) -> Cell:
    if None in row.values():
        raise BadInput(f"{place}: fewer columns than the first line has")
    return Cell.read(row, place)


def _known(value: str, known: Iterable[str], place: str) -> None:
    if value not in known:
        expected = ", ".join(filter(None, known))
        raise BadInput(f"{place}: unknown value `{value}`; expected {expected}", hint=closest(value, known))
