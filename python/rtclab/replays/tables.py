"""Tables of the native side with times in seconds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import polars as pl

from rtclab import native_tables


def frame(columns: Mapping[str, Any]) -> pl.DataFrame:
    """A table of the native side, with its times converted from nanoseconds to seconds (``at_s``)."""
    times = {"at_s": columns["at_ns"] / 1e9}
    return native_tables.table(times | {name: of for name, of in columns.items() if name != "at_ns"})
