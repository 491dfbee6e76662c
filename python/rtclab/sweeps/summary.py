"""Statistics over the repeats of every point, computed on whole columns because a sweep has many points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import polars as pl

from rtclab.metrics import METRICS
from rtclab.metrics.statistics import t_quantile


def summary_of(rows: pl.LazyFrame, columns: Sequence[str]) -> pl.DataFrame:
    """Mean, standard deviation and 95 % interval per point, metric and flow; see ``metrics.statistics``.

    ``columns`` are further columns that are the same in all rows of a point.
    """
    return _statistics(rows, ["point"], columns)


def marginal_of(rows: pl.LazyFrame, fields: Sequence[str]) -> pl.DataFrame:
    """As :func:`summary_of`, for every combination of some fields, averaged over the other fields.

    A repeat has the same seed at all points, so the values of points are not independent. Each repeat is
    first averaged over its points, and the interval is computed from these averages.
    """
    keys = [*fields, "repeat", "metric", "unit", "flow"]
    averages = rows.group_by(keys, maintain_order=True).agg(pl.col("value").mean())
    return _statistics(averages, fields, ())


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
