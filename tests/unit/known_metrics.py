"""Which metrics the traces of a call have, beside what the registry says that their source knows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isnan

from rtclab.metrics import METRICS
from rtclab.metrics.registry import Metric
from rtclab.trace import Trace


def registered() -> Mapping[str, Metric]:
    """The metrics of traces that come with rtclab."""
    return {name: one for name, one in METRICS.items() if one.scope != "run" and one.shipped}


def with_values(traces: Iterable[Trace]) -> set[str]:
    """Names of the metrics that have a value in any of the traces, for any of its flows."""
    return {name for name, one in registered().items() for trace in traces if _has_value(one, trace)}


def _has_value(metric: Metric, trace: Trace) -> bool:
    if metric.scope == "trace":
        return not isnan(metric.function(trace))
    return any(not isnan(metric.function(trace, flow)) for flow in trace.flows)


def said_to_be_known(source: str) -> set[str]:
    """Names of the metrics that the source knows according to the registry."""
    known = {name: one.known for name, one in registered().items()}
    return {name for name, of in known.items() if of is not None and of[source].certainty != "not"}
