"""Statistics over the repeats of every point, computed on whole columns because a sweep has many points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import polars as pl

from rtclab.metrics import METRICS
from rtclab.metrics.statistics import t_quantile


def summary_of(rows: pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Mean, standard deviation and 95 % interval per point, metric and flow; see ``metrics.statistics``.

    ``columns`` are further columns that are the same in all rows of a point.
    """
    return _statistics(rows, ["point"], columns)


def marginal_of(
    rows: pl.LazyFrame, fields: Sequence[str], others: Sequence[str]
) -> tuple[pl.DataFrame, dict[str, Averaged]]:
    """As :func:`summary_of`, for every combination of some fields, averaged over the other fields.

    A repeat has the same seed at all points, so the values of points are not independent. Each repeat is
    first averaged over its points, and the interval is computed from these averages.

    Every combination is averaged over the same repeats of the same other points, because a repeat that failed
    would make the average look better. How many repeats that leaves is told for each flow. A combination
    with too few values has no row.
    """
    if not others:
        return _statistics(rows, fields, ()), {}
    known = rows.collect()
    parts, averaged = [], {}
    for (flow,), of_flow in known.group_by("flow", maintain_order=True):
        part, averaged[str(flow)] = _balanced(of_flow, fields, [*others, "repeat"])
        parts.append(part)
    keys = [*fields, "repeat", "metric", "unit", "flow"]
    balanced = pl.concat(parts).lazy() if parts else rows
    averages = balanced.group_by(keys, maintain_order=True).agg(pl.col("value").mean())
    return _statistics(averages, fields, ()), averaged


@dataclass(frozen=True)
class Averaged:
    """Of how many repeats, over all values of the other fields, an average is made.

    Attributes:
        repeats: the repeats behind every average.
        of: those that have a value in some combination.
    """

    repeats: int
    of: int


def _balanced(
    rows: pl.DataFrame, drawn: Sequence[str], averaged: Sequence[str]
) -> tuple[pl.DataFrame, Averaged]:
    """The rows that have a value for every combination of ``drawn``, by the values of ``averaged``.

    Combinations with the fewest values are dropped until at least half of the rest can be averaged.
    """
    rows = rows.with_columns(
        drawn=pl.struct(drawn).rank("dense") - 1, averaged=pl.struct(averaged).rank("dense") - 1
    )
    present = np.zeros((rows["drawn"].n_unique(), rows["averaged"].n_unique()), dtype=bool)
    present[rows["drawn"].to_numpy(), rows["averaged"].to_numpy()] = True
    order = np.argsort(-present.sum(axis=1), kind="stable")
    in_all = np.logical_and.accumulate(present[order], axis=0)
    kept = max(1, int((2 * in_all.sum(axis=1) >= present.shape[1]).sum()))
    complete = np.flatnonzero(in_all[kept - 1])
    chosen = rows.filter(
        pl.col("drawn").is_in(order[:kept].tolist()), pl.col("averaged").is_in(complete.tolist())
    )
    return chosen.drop("drawn", "averaged"), Averaged(complete.size, present.shape[1])


def _statistics(rows: pl.LazyFrame, keys: Sequence[str], columns: Sequence[str]) -> pl.DataFrame:
    value = pl.col("value")
    groups = (
        rows.drop_nulls("value")
        .group_by(*keys, "metric", "unit", "flow", maintain_order=True)
        .agg(
            pl.col(columns).first(),
            value.mean().alias("mean"),
            # Rounding would give equal values a deviation of 1e-16.
            pl.when(value.max() == value.min()).then(value.std() * 0).otherwise(value.std()).alias("sd"),
            value.len().cast(pl.Int64).alias("repeats"),
        )
        .collect(engine="streaming")
    )
    order = {name: index for index, name in enumerate(METRICS)}
    better = {name: metric.better for name, metric in METRICS.items()}
    return (
        groups.sort(*keys, _of_metric(order, len(order)), maintain_order=True)
        .with_columns(_of_metric(better, "").alias("better"), *_interval(groups["repeats"]))
        .select(
            *keys,
            *columns,
            *("metric", "unit", "better", "flow", "mean", "sd", "ci95_low", "ci95_high", "repeats"),
        )
    )


def _interval(repeats: pl.Series) -> list[pl.Expr]:
    """Student's 95 % interval, limited to the metric's bounds; null if the values do not vary."""
    quantiles = {count: t_quantile(count - 1) for count in repeats.unique() if count > 1}
    mean, sd, count = pl.col("mean"), pl.col("sd"), pl.col("repeats")
    quantile = count.replace_strict(quantiles, default=None, return_dtype=pl.Float64)
    half = quantile * sd / count.sqrt()
    lowest = _of_metric({name: metric.bounds[0] for name, metric in METRICS.items()}, -inf)
    highest = _of_metric({name: metric.bounds[1] for name, metric in METRICS.items()}, inf)
    low = pl.max_horizontal(mean - half, pl.min_horizontal(lowest, mean))
    high = pl.min_horizontal(mean + half, pl.max_horizontal(highest, mean))
    return [pl.when(sd > 0).then(low).alias("ci95_low"), pl.when(sd > 0).then(high).alias("ci95_high")]


def _of_metric(known: Mapping[str, str | float], default: str | float) -> pl.Expr:
    return pl.col("metric").replace_strict(known, default=default)
