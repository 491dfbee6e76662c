"""Reads what a paper published: its numbers from ``published/<paper>.csv``, its words from the TOML file."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from rtclab.errors import BadInput
from rtclab.reproduce.measure import MeasureMore
from rtclab.reproduce.paper import Figure, Paper
from rtclab.reproduce.tables import UNUSABLE, Cell, Table
from rtclab.reproduce.trends import Check, Numbers, Trend
from rtclab.scenario.table import Table as TomlTable
from rtclab.scenario.table import closest

PUBLISHED = Path(__file__).parent / "published"
TESTBED = ("varies", "machines")
"""Keys that a paper takes from the one that it extends, unless it has its own; it has all its reasons."""


class PaperFile(TomlTable):
    """The TOML file of a paper; see ``Paper`` for its keys.

    ``tables`` are titles by number, ``transposed`` the numbers of those that have machines in columns.
    """

    title: str
    source: str
    tables: dict[str, str]
    transposed: tuple[str, ...] = ()
    varies: tuple[str, ...] = ()
    machines: dict[str, str] = {}
    packets: tuple[str, ...] = ()
    reasons: dict[str, str] = {}
    remarks: tuple[str, ...] = ()
    trends: tuple[dict[str, Any], ...] = ()


def read_paper(
    name: str,
    *,
    figures: Sequence[Figure] = (),
    measure: MeasureMore | None = None,
    compute: Callable[[Cell], float] | None = None,
    check: type[Check] = Numbers,
    directory: Path = PUBLISHED,
) -> Paper:
    """The paper of this name.

    Args:
        figures: what is drawn.
        measure: what of a trace is measured for this paper alone; see ``Paper``.
        compute: our number for a cell that has no scenario, because it follows from an equation.
        check: what the checks of its trends are.
        directory: where its CSV and TOML files are.

    Raises:
        BadInput: one of them is not what it should be; names the file and the line or key.
    """
    file = directory / f"{name}.toml"
    text = PaperFile.read(_with_testbed(file), file.name)
    return Paper(
        name=name,
        title=text.title,
        source=text.source,
        tables=_tables(directory / f"{name}.csv", text, compute),
        trends=[_trend(data, file.name, check) for data in text.trends],
        figures=figures,
        varies=text.varies,
        machines=text.machines,
        reasons=text.reasons,
        measure=measure,
        packets=text.packets,
        remarks=text.remarks,
    )


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


def _trend(data: dict[str, Any], origin: str, check: type[Check]) -> Trend:
    place = f"{origin}: trend `{data.get('statement', '')}`"
    if isinstance(data.get("checks"), list):
        checks = [check.read(one, f"{place}: check {i}") for i, one in enumerate(data["checks"], start=1)]
        data = data | {"checks": checks}
    return Trend.read(data, place)


def _tables(file: Path, text: PaperFile, compute: Callable[[Cell], float] | None) -> list[Table]:
    with file.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines, restkey="beyond the last column"))
    cells = [_cell(row, f"{file.name}:{line}", text) for line, row in enumerate(rows, start=2)]
    if compute is not None:
        cells = [
            cell if cell.scenario else cell.model_copy(update={"computed": compute(cell)}) for cell in cells
        ]
    return [
        Table(number, title, [cell for cell in cells if cell.table == number], number in text.transposed)
        for number, title in text.tables.items()
    ]


def _cell(row: dict[str, str], place: str, text: PaperFile) -> Cell:
    if None in row.values():
        raise BadInput(f"{place}: fewer columns than the first line has")
    cell = Cell.read(row, place)
    _known(cell.table, text.tables, f"{place}: table")
    _known(cell.status, ["", UNUSABLE, *text.reasons], f"{place}: status")
    return cell


def _known(value: str, known: Sequence[str] | dict[str, str], place: str) -> None:
    if value not in known:
        expected = ", ".join(filter(None, known))
        raise BadInput(f"{place}: unknown value `{value}`; expected {expected}", hint=closest(value, known))
