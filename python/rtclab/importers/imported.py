"""The result of every importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from rtclab.trace import TraceManifest

Names = Sequence[str] | Mapping[str, str]
"""Names of participants: of the two ends of a connection or, for captures, by address."""


@dataclass(frozen=True)
class Imported:
    """The tables and the manifest of a trace, and notes on data that were skipped or are missing."""

    tables: dict[str, pl.DataFrame]
    manifest: TraceManifest
    notes: tuple[str, ...] = ()
