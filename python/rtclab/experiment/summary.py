"""Statistics over the repeats of every condition, on whole columns because an experiment may have many."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import numpy as np
import polars as pl

from rtclab.experiment.measure import rows_of
from rtclab.metrics import METRICS
from rtclab.metrics.statistics import Proportion, t_quantile
from rtclab.scenario import Duration
from rtclab.trace import Run, closed

OF_METRIC = ("metric", "flow")
VALUES = ("repeat", "metric", "unit", "better", "flow", "value", "deviation", "measured_s")
"""The columns of values, beside the columns of their condition."""


def metrics_of(run: Run) -> pl.DataFrame:
    """The values of a run's repeats from their traces, with the columns of :meth:`Results.metrics`."""
    label = str(run.scenario.get("name") or run.name)
    constant = {"condition": pl.lit(label), "measured_s": pl.lit(measured_s(run))}
    table = rows_of(run, METRICS.values()).with_columns(**constant)
    about = table.join(of_metrics(), on="metric", how="left", maintain_order="left")
    return about.select("condition", *VALUES)


def summary_of_run(run: Run) -> pl.DataFrame:
    """Statistics over a run's repeats from their traces, with the columns of :meth:`Results.summary`."""
    return summary_of(metrics_of(run), ["condition"])


def measured_s(run: Run) -> float:
    """The time in s that is measured in a repeat: its duration, or the part of it in the window."""
    begin_s, end_s = closed(run.window or (0.0, None), duration_s(run))
    return end_s - begin_s


def duration_s(run: Run) -> float:
    """The duration of a repeat in s."""
    if "duration" in run.scenario:
        return Duration.parse(run.scenario["duration"]).s
    return max((trace.end_s for trace in run.traces), default=0.0)


def marginal_of(
    rows: pl.DataFrame, fields: Sequence[str], others: Sequence[str]
) -> tuple[pl.DataFrame, dict[tuple[str, str], Averaged]]:
    """As :func:`summary_of`, for every combination of some fields, averaged over the other fields.

    A repeat has the same seed at all points, so the values of points are not independent. Each repeat is
    first averaged over its points, and the interval is computed from these averages.

    Every combination is averaged over the same repeats of the same other points, because a repeat that failed
    would make the average look better. The second result says how many repeats remain, by metric and flow. A
    combination with too few values has no row.
    """
    if not others:
        return summary_of(rows, fields), {}
    parts, averaged = [], {}
    for (metric, flow), of_flow in rows.group_by("metric", "flow", maintain_order=True):
        part, averaged[str(metric), str(flow)] = _balanced(of_flow, fields, [*others, "repeat"])
        parts.append(part)
    balanced = pl.concat(parts) if parts else rows
    keys = [*fields, "repeat", *OF_METRIC]
    averages = balanced.group_by(keys, maintain_order=True).agg(
        pl.col("value", "deviation").mean(), pl.col("measured_s").max()
    )
    return summary_of(averages, fields), averaged


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


def summary_of(rows: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Mean, standard deviation and 95 % interval per condition, metric and flow; see ``metrics.statistics``.

    ``keys`` are the columns that tell conditions apart. The other columns of ``rows`` are ``repeat``,
    ``metric``, ``flow``, ``value``, ``deviation`` and ``measured_s``, the time that was measured.
    """
    value = pl.col("value")
    groups = (
        rows.lazy()
        .drop_nulls("value")
        .group_by(*keys, *OF_METRIC, maintain_order=True)
        .agg(
            value.mean().alias("mean"),
            # Rounding would give equal values a deviation of 1e-16.
            pl.when(value.max() == value.min()).then(value.std() * 0).otherwise(value.std()).alias("sd"),
            pl.col("deviation").mean().alias("within_run_sd"),
            value.len().cast(pl.Int64).alias("repeats"),
            pl.col("measured_s").max(),
        )
        .collect()
    )
    return (
        groups.with_columns(pl.col("metric", "flow").cast(pl.String))
        .with_row_index("first")
        .with_columns(pl.col("first").min().over(keys), *_interval(groups["repeats"]))
        .pipe(_with_shares)
        .join(of_metrics(), on="metric", how="left", maintain_order="left")
        .sort("first", "order", maintain_order=True, nulls_last=True)
        .select(*keys, "metric", "unit", "better", "flow", *STATISTICS)
    )


STATISTICS = ("mean", "sd", "ci95_low", "ci95_high", "within_run_sd", "repeats")


def of_metrics() -> pl.DataFrame:
    """Unit, better direction and place in the registry of every metric."""
    rows = [(name, order, one.unit, one.better) for order, (name, one) in enumerate(METRICS.items())]
    return pl.DataFrame(rows, schema=["metric", "order", "unit", "better"], orient="row")


def _with_shares(groups: pl.DataFrame) -> pl.DataFrame:
    """Replaces the interval of metrics that are shares of independent trials by Wilson's."""
    is_share = groups["metric"].is_in([name for name, metric in METRICS.items() if metric.share])
    shares = groups.filter(is_share)
    known = [Proportion(repeats, mean) for mean, repeats in shares.select("mean", "repeats").iter_rows()]
    wilson = shares.with_columns(
        pl.lit(None, pl.Float64).alias("sd"),
        pl.Series("ci95_low", [one.ci95_low for one in known], pl.Float64),
        pl.Series("ci95_high", [one.ci95_high for one in known], pl.Float64),
    )
    return pl.concat([groups.filter(~is_share), wilson])


def _interval(repeats: pl.Series) -> list[pl.Expr]:
    """Student's 95 % interval, limited to the metric's bounds; null if the values do not vary."""
    quantiles = {count: t_quantile(count - 1) for count in repeats.unique() if count > 1}
    mean, sd, count = pl.col("mean"), pl.col("sd"), pl.col("repeats")
    quantile = count.replace_strict(quantiles, default=None, return_dtype=pl.Float64)
    half = quantile * sd / count.sqrt()
    lowest = _of_metric({name: metric.bounds[0] for name, metric in METRICS.items()}, -inf)
    of_time = pl.col("metric").is_in([name for name, metric in METRICS.items() if metric.of_time])
    highest = _of_metric({name: metric.bounds[1] for name, metric in METRICS.items()}, inf)
    highest = pl.when(of_time).then("measured_s").otherwise(highest)
    low = pl.max_horizontal(mean - half, pl.min_horizontal(lowest, mean))
    high = pl.min_horizontal(mean + half, pl.max_horizontal(highest, mean))
    return [pl.when(sd > 0).then(low).alias("ci95_low"), pl.when(sd > 0).then(high).alias("ci95_high")]


def _of_metric(known: Mapping[str, str | float], default: str | float) -> pl.Expr:
    return pl.col("metric").replace_strict(known, default=default)
