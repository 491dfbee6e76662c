"""The result of every importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from rtclab.arguments import items
from rtclab.errors import BadInput
from rtclab.trace import TraceManifest

Names = Sequence[str] | Mapping[str, str]
"""Names of participants: of the two ends of a connection or, for captures, by address."""


@dataclass(frozen=True)
class Imported:
    """The tables and the manifest of a trace, and notes on data that were skipped or are missing."""

    tables: dict[str, pl.DataFrame]
    manifest: TraceManifest
    notes: tuple[str, ...] = ()


def two_names(names: Names) -> tuple[str, str]:
    """The names of both ends.

    Raises:
        BadInput: they are not two different names.
    """
    expected = "two different names, such as alice,bob"
    both = items("names", names, str, expected)
    if len(both) != 2 or not all(both) or both[0] == both[1]:
        raise BadInput(f"names: got {names!r}; expected {expected}")
    if any("->" in name for name in both):
        raise BadInput(f"names: got {names!r}; expected names without `->`, which stands in names of flows")
    return both[0], both[1]
