"""Measures a repeat of a sweep: one row per metric and flow."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import isnan

import polars as pl

from rtclab.backend.sim_batch import own_name
from rtclab.metrics import Metric
from rtclab.metrics.setup import call_failures
from rtclab.trace import Repeat, Trace

Row = tuple[int, int, str, str, float | None, str | None]

PART = pl.Schema(
    {
        "point": pl.Int32(),
        "repeat": pl.Int32(),
        "metric": pl.String(),
        "flow": pl.String(),
        "value": pl.Float64(),
        "failure": pl.String(),
    }
)
"""The columns of a part, the result of one task. Its rows are sorted by point and repeat."""


@dataclass(frozen=True)
class Measurable:
    """One repeat in the form of a run, for metrics of a whole run. A failed repeat has no trace."""

    repeats: list[Repeat]
    traces: list[Trace]


def rows_of(point: int, outcome: Repeat, trace: Trace | None, metrics: Iterable[Metric]) -> Iterator[Row]:
    """The rows of one repeat, in the order of metrics and flows. Metrics without a value have no row.

    A failed repeat has a single row with the reason, whose value is null if the laboratory failed. The trace
    may share its tables with other repeats, because the metrics that come with rtclab read only the rows of
    their flow.
    """
    if not outcome.about_the_call:
        yield point, outcome.repeat, call_failures.__name__, "", None, outcome.reason or outcome.status
        return
    for metric in metrics:
        one = Measurable([outcome], [])
        if outcome.status == "finished" and trace is not None:
            one.traces.append(trace if metric.shipped else trace.alone())
        for flow, value in _values(metric, one):
            if not isnan(value):
                yield point, outcome.repeat, metric.name, own_name(flow), float(value), outcome.reason or None


def _values(metric: Metric, one: Measurable) -> Iterator[tuple[str, float]]:
    if metric.scope == "run":
        yield "", metric.function(one)
        return
    for trace in one.traces:
        if metric.scope == "trace":
            yield "", metric.function(trace, None)
        else:
            for flow in trace.flows:
                yield flow, metric.function(trace, flow, None)


def as_part(rows: Iterable[Row]) -> bytes:
    """The rows as the content of a Parquet file."""
    buffer = io.BytesIO()
    pl.DataFrame(list(rows), schema=PART, orient="row").write_parquet(buffer)
    return buffer.getvalue()
