"""The errors that chance alone makes: those of a simulation that is right about everything but the seed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from warnings import catch_warnings, simplefilter

import numpy as np
import polars as pl

from rtclab.trace import write_text
from rtclab_papers.validate.outcomes import COMPARED, Outcome

COLUMNS = pl.Schema(
    {
        "group": pl.String(),
        "metric": pl.String(),
        "error": pl.Float64(),
        "low": pl.Float64(),
        "high": pl.Float64(),
    }
)
DIGITS = 4
"""Significant digits of errors in the file."""


@dataclass(frozen=True)
class Chance:
    """The median error of a group of conditions by chance alone, as a share of the live value.

    Each repeat takes the place of the live calls in turn, with the others as its simulation. That gives as
    many median errors as there are repeats.

    Attributes:
        error: the median of these.
        low: the smallest of these.
        high: the largest of these. A live error is larger by chance once in 40 times, with 39 repeats.
    """

    error: float
    low: float
    high: float


Chances = Mapping[tuple[str, str], Chance]
"""By group of conditions and metric."""


def chances(outcomes: Iterable[Outcome]) -> dict[tuple[str, str], Chance]:
    """The errors by chance in conditions that were just simulated, of the values that live calls have."""
    errors: dict[tuple[str, str], list[Sequence[float]]] = {}
    for one in outcomes:
        for pair in one.pairs:
            if pair.expected.by_chance:
                errors.setdefault((pair.group, pair.metric), []).append(pair.expected.by_chance)
    return {key: found for key, own in errors.items() if (found := _chance(own)) is not None}


def _chance(errors: Sequence[Sequence[float]]) -> Chance | None:
    """The chance of one metric, whose errors have a row per value and a column per repeat."""
    repeats = min(map(len, errors))
    table = np.asarray([row[:repeats] for row in errors])
    with catch_warnings():
        simplefilter("ignore", RuntimeWarning)  # a repeat without any error is NaN
        medians = np.nanmedian(table, axis=0)
    medians = medians[~np.isnan(medians)]
    if not medians.size:
        return None
    return Chance(float(np.median(medians)), float(medians.min()), float(medians.max()))


def chance_file(file: Path) -> Path:
    """The file of the chances beside the file of the conditions."""
    return file.with_name(f"{file.stem}-chance{file.suffix}")


def write_chances(file: Path, found: Chances) -> None:
    """Writes the chances by group and metric."""
    rows = [
        (group, metric, *(float(f"{value:.{DIGITS}g}") for value in (one.error, one.low, one.high)))
        for (group, metric), one in sorted(found.items(), key=lambda item: _order(item[0]))
    ]
    write_text(file, pl.DataFrame(rows, schema=COLUMNS, orient="row").write_csv())


def _order(key: tuple[str, str]) -> tuple[str, int]:
    group, metric = key
    return group, COMPARED.index(metric)


def read_chances(file: Path) -> dict[tuple[str, str], Chance]:
    """The chances of a file; none without the file."""
    if not file.is_file():
        return {}
    rows = pl.read_csv(file, schema=COLUMNS).iter_rows()
    return {(group, metric): Chance(error, low, high) for group, metric, error, low, high in rows}
