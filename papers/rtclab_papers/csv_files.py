"""CSV files of published values: one schema each, checked when they are read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.errors import BadInput
from rtclab.trace import write_text

TYPES = {"text": pl.String(), "int": pl.Int64(), "real": pl.Float64(), "flag": pl.Boolean()}


def schema_of(columns: str) -> pl.Schema:
    """The schema of columns with their types, such as ``name text, tries int``; see ``TYPES``."""
    return pl.Schema({name: TYPES[kind] for name, kind in map(str.split, columns.split(","))})


def beside(file: Path, what: str) -> Path:
    """The file ``NAME-WHAT.csv`` beside ``NAME.csv``."""
    return file.with_name(f"{file.stem}-{what}{file.suffix}")


def read_table(file: Path, schema: pl.Schema) -> pl.DataFrame:
    """The rows of a file; none if there is no such file.

    Raises:
        BadInput: the file has other columns.
    """
    if not file.is_file():
        return pl.DataFrame(schema=schema)
    with file.open(encoding="utf-8") as text:
        columns = text.readline().strip().split(",")
    if columns != [*schema]:
        raise BadInput(
            f"{file}: columns {', '.join(columns)}; expected {', '.join(schema)}", hint="name another file"
        )
    return pl.read_csv(file, schema=schema)


def write_table(
    file: Path, rows: pl.DataFrame | Iterable[tuple[Any, ...]], schema: pl.Schema, digits: int = 0
) -> None:
    """Writes rows in one step instead of what is in the file. NaN is written as a missing value.

    Args:
        file: the file.
        rows: the rows.
        schema: the columns of the file.
        digits: number of significant digits; by default all that there are.

    Raises:
        DiskFull: no space is left. The old file is unchanged.
    """
    table = rows if isinstance(rows, pl.DataFrame) else pl.DataFrame([*rows], schema, orient="row")
    numbers = pl.selectors.float().fill_nan(None)
    table = table.select(*schema).with_columns(numbers.round_sig_figs(digits) if digits else numbers)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_text(file, table.write_csv())
