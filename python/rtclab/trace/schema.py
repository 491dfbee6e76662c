"""Columns and types of the tables, and the conversion of tables to them."""

from __future__ import annotations

import polars as pl

from rtclab.errors import TraceError
from rtclab.trace.columns import TABLES

SCHEMAS: dict[str, pl.Schema] = {
    name: pl.Schema({column: about.dtype for column, about in table.columns.items()})
    for name, table in TABLES.items()
}
"""Columns and types of every table."""

NULLABLE: dict[str, frozenset[str]] = {
    name: frozenset(column for column, about in table.columns.items() if about.nullable)
    for name, table in TABLES.items()
}
"""By table, the columns that may be null."""

OPTIONAL_TABLES = frozenset({"packets", "hops"})
"""Tables that are missing, rather than empty, if the scenario does not record them."""


def conform(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` with exactly the columns and types of the table ``name``.

    Raises:
        TraceError: the frame cannot be that table. The message names table and column.
    """
    if name not in SCHEMAS:
        raise TraceError(f"no table `{name}`; expected {', '.join(SCHEMAS)}")
    schema = SCHEMAS[name]
    if frame.columns != list(schema) or frame.dtypes != list(schema.values()):
        frame = _fitted(name, frame)
    for column, nulls in zip(frame.columns, frame.null_count().row(0), strict=True):
        if nulls and column not in NULLABLE[name]:
            raise TraceError(f"table `{name}`: column `{column}` must not have nulls")
    return frame


def _fitted(name: str, frame: pl.DataFrame) -> pl.DataFrame:
    """The columns of the table ``name`` in its order and types; missing nullable columns are added."""
    schema = SCHEMAS[name]
    for column in frame.columns:
        if column not in schema:
            raise TraceError(f"table `{name}`: unknown column `{column}`; expected {', '.join(schema)}")
    missing = [column for column in schema if column not in frame.columns]
    for column in missing:
        if column not in NULLABLE[name]:
            raise TraceError(f"table `{name}`: column `{column}` is missing")
    columns = (pl.lit(None).alias(column) if column in missing else pl.col(column) for column in schema)
    try:
        return frame.select(columns).cast(schema)
    except pl.exceptions.PolarsError as error:
        raise TraceError(f"table `{name}`: {error}") from None
