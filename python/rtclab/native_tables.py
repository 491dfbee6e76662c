"""Tables of the native side as polars data frames.

A column of numbers is an array. A column of text is an array of codes and the list of the texts. Null is the
highest code of the codes' type, NaN in floats, and a number that no value has in integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

NO_INTEGER = -1
"""The integer that usually stands for null."""


def table(columns: Mapping[str, Any], no_integer: int = NO_INTEGER) -> pl.DataFrame:
    """A table with real nulls. ``no_integer`` stands for null in its integers."""
    return pl.DataFrame(
        [
            texts(name, *values) if isinstance(values, tuple) else numbers(name, values, no_integer)
            for name, values in columns.items()
        ]
    )


def table_in_seconds(columns: Mapping[str, Any]) -> pl.DataFrame:
    """A table with real nulls, whose times in ns (``at_ns``) are converted to seconds (``at_s``)."""
    times = {"at_s": columns["at_ns"] / 1e9}
    return table(times | {name: of for name, of in columns.items() if name != "at_ns"})


def numbers(name: str, values: NDArray[Any], no_integer: int = NO_INTEGER) -> pl.Series:
    """A column of numbers with real nulls."""
    series = pl.Series(name, values, nan_to_null=True)
    if values.dtype.kind == "f":
        return series
    absent = values == no_integer
    return series.set(pl.Series(absent), None) if absent.any() else series


def texts(name: str, codes: NDArray[Any], categories: list[str]) -> pl.Series:
    """A column of text with real nulls.

    Raises:
        ValueError: a code has no text.
    """
    null = np.iinfo(codes.dtype).max
    index = np.where(codes == null, len(categories), codes)
    if index.size and index.max() > len(categories):
        raise ValueError(f"code {index.max()} of text; there are {len(categories)} texts")
    # One more entry, null. A Series as index takes a fifth of the time of an array.
    return pl.Series(name, [*categories, None], dtype=pl.String)[pl.Series(index)]
