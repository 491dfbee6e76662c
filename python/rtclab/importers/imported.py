"""The result of every importer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rtclab.arguments import items
from rtclab.errors import BadInput
from rtclab.trace import NS_PER_S, TraceManifest

MOST_SECONDS = 7 * 24 * 3600
"""A longer trace can only mean that a time is wrong, or that the clocks of two captures are unrelated."""

Names = Sequence[str] | Mapping[str, str]
"""Names of participants: of the two ends of a connection or, for captures, by address."""


@dataclass(frozen=True)
class Imported:
    """The tables and the manifest of a trace."""

    tables: dict[str, pl.DataFrame]
    manifest: TraceManifest

    @property
    def notes(self) -> tuple[str, ...]:
        """What was skipped or is missing, as sentences."""
        about = self.manifest.capture
        return () if about is None else about.notes_in_words


def check_span(path: Path, span_ns: int) -> None:
    """Checks that a log does not span more than :data:`MOST_SECONDS`.

    Raises:
        BadInput: it spans more.
    """
    if span_ns > MOST_SECONDS * NS_PER_S:
        raise BadInput(
            f"{path}: its first and last time are {span_ns / NS_PER_S:.0f} s apart; "
            f"expected at most {MOST_SECONDS} s"
        )


def with_gaps(seconds: pl.DataFrame, missing: pl.DataFrame) -> pl.DataFrame:
    """Counts gaps in sequence numbers as packets sent and dropped.

    Args:
        seconds: the table ``flow_seconds``.
        missing: the number of packets that are ``missing``, by ``at_ns`` and ``flow``.
    """
    gaps = pl.col("missing").fill_null(0)
    joined = seconds.join(missing, on=["at_ns", "flow"], how="left", maintain_order="left")
    dropped = pl.col("dropped_packets") + gaps
    return joined.with_columns(pl.col("sent_packets") + gaps, dropped).drop("missing")


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
