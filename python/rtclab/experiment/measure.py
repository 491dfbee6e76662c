"""Measures one repeat: a value for each metric and flow."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from math import isnan
from pathlib import Path
from types import SimpleNamespace

import polars as pl

import rtclab.metrics
from rtclab.backend.sim_batch import own_name
from rtclab.experiment.store import Number
from rtclab.metrics import METRICS, Metric
from rtclab.metrics.packets import group, were_recorded
from rtclab.trace import Repeat, Run, Trace

NOT_MEASURED = "not measured: "
"""Begin of the note of a finished repeat that could not be measured; the reason follows."""
MEASURED: dict[str, pl.DataType] = {
    "repeat": pl.Int64(),
    **dict.fromkeys(("metric", "flow"), pl.String()),
    **dict.fromkeys(("value", "deviation"), pl.Float64()),
}


def measured(
    outcome: Repeat, trace: Trace | None, metrics: Iterable[Metric], *, in_window: bool = False
) -> list[Number]:
    """The values of a repeat, in the order of metrics and flows. In a window, the trace is of that time.

    A metric that could not be measured has none. If the call failed there is only its share of failures, and
    if the laboratory failed there is nothing. The trace may share its tables with other repeats, because the
    metrics that come with rtclab read only the rows of their flow.
    """
    if not outcome.about_the_call:
        return []
    found, metrics = [], list(metrics)
    if trace is not None and any(metric.needs_packets(in_window=in_window) for metric in metrics):
        if were_recorded(trace):
            group(trace)
        else:
            metrics = [metric for metric in metrics if not metric.needs_packets(in_window=in_window)]
    for metric in metrics:
        of = None if trace is None else trace if metric.shipped else trace.alone()
        for flow, value in _values(metric, outcome, of, in_window=in_window):
            if isnan(value):
                continue
            deviation = None
            if metric.samples is not None and of is not None:
                deviation = metric.samples(of, flow).deviation()
                deviation = None if isnan(deviation) else deviation
            found.append(Number(metric.name, own_name(flow), float(value), deviation))
    return found


def _values(
    metric: Metric, outcome: Repeat, trace: Trace | None, *, in_window: bool
) -> Iterator[tuple[str, float]]:
    if metric.scope == "run":
        if not in_window:
            # In the form of a run. A failed repeat has no trace.
            one = SimpleNamespace(repeats=[outcome], traces=[] if trace is None else [trace])
            yield "", metric.function(one)
    elif trace is not None:
        for flow in [""] if metric.scope == "trace" else trace.flows:
            yield flow, metric.function(trace, *([flow] if flow else []))


def rows_of(run: Run, metrics: Iterable[Metric]) -> pl.DataFrame:
    """The values of a run's repeats from their traces, with the columns of ``MEASURED``."""
    metrics = list(metrics)
    traces = {one.repeat: run.trace(one.repeat) for one in run.repeats if one.status == "finished"}
    rows = [
        (one.repeat, *number)
        for one in run.repeats
        for number in measured(one, traces.get(one.repeat), metrics, in_window=run.window is not None)
    ]
    return pl.DataFrame(rows, schema=MEASURED, orient="row")


def metrics_digest(names: Sequence[str]) -> str:
    """Identifies the definitions of metrics: their names, and the code that computes them."""
    digest = hashlib.sha256(_shipped().encode())
    for name in names:
        digest.update(name.encode())
        if not METRICS[name].shipped:
            digest.update(_source(METRICS[name]).encode())
    return digest.hexdigest()[:12]


@cache
def _shipped() -> str:
    digest = hashlib.sha256()
    for file in sorted(Path(rtclab.metrics.__file__).parent.glob("*.py")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


def _source(metric: Metric) -> str:
    try:
        return inspect.getsource(metric.function)
    except (OSError, TypeError):  # defined in an interactive session
        return metric.definition
