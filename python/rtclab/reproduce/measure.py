"""What is kept of one repeat: every metric that tables ask for, of every flow.

The papers measured at the receiver with a capture tool: IP total length of what arrived, in samples of one
second; their "±" is the standard deviation of such samples within a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isnan, nan

from rtclab.metrics import METRICS
from rtclab.metrics.statistics import mean_within_sd
from rtclab.trace import Trace

Value = tuple[float | None, float | None]
"""Mean over the repeat and standard deviation of its one-second samples; null where there is none."""
Values = dict[str, dict[str, Value]]
"""By metric and flow; what describes the whole repeat has the flow ``""``."""
More = Callable[[Trace], Mapping[str, Mapping[str, float]]]
"""Values of a trace that only one paper needs, by name and flow."""

STANDARD = {
    "rate_kbps": "receiving_rate",
    "rtt_ms": "rtt",
    "owd_ms": "one_way_delay",
    "packet_loss_pct": "packet_loss",
    # The papers' monitor saw sequence numbers on the wire, not what FEC recovered.
    "residual_loss_pct": "unseen_loss",
    "framerate_fps": "frame_rate",
    "width_px": "frame_width",
    "height_px": "frame_height",
    "setup_ms": "setup_time",
}
"""Names in tables of papers, and the metrics that they are."""


def measure(trace: Trace, more: More | None = None) -> Values:
    """The standard values of every flow, and those of ``more``."""
    flows = list(trace.manifest["flows"])
    values: Values = {
        name: {flow: _value(trace, flow, metric) for flow in flows} for name, metric in STANDARD.items()
    }
    for name, of_flows in (more(trace) if more else {}).items():
        values[name] = {flow: (_null(value), None) for flow, value in of_flows.items()}
    return values


def _value(trace: Trace, flow: str, name: str) -> Value:
    metric = METRICS[name]
    sd = mean_within_sd([metric.samples(trace, flow).values]) if metric.samples else nan
    return _null(metric.function(trace, flow)), _null(sd)


def _null(value: float) -> float | None:
    return None if isnan(value) else value
