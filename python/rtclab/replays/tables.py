"""Tables of the native side as data frames."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl

NO_INTEGER = -1


def frame(columns: dict[str, Any]) -> pl.DataFrame:
    """A table of the native side, with its times converted from nanoseconds to seconds (``at_s``)."""
    series = []
    for name, values in columns.items():
        if isinstance(values, tuple):
            codes, texts = values
            series.append(pl.Series(texts, dtype=pl.String).gather(codes.astype(np.int64)).alias(name))
        elif name == "at_ns":
            series.append(pl.Series("at_s", values / 1e9))
        else:
            column = pl.Series(name, values)
            series.append(column.set(column == NO_INTEGER, None) if column.dtype == pl.Int64 else column)
    return pl.DataFrame(series)
