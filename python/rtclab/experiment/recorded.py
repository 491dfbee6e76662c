"""What repeats record for the metrics that are asked for, and why a metric has no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rtclab.errors import BadInput
from rtclab.experiment.conditions import Conditions
from rtclab.metrics import METRICS


def packets_needed(metrics: Sequence[str] | None, *, in_window: bool) -> bool:
    """Whether a metric that was asked for, or in a window any, has a value only if packets are recorded.

    Without a window, metrics that nobody asked for are not worth the time that recording takes.
    """
    names = metrics or (METRICS if in_window else ())
    return any(METRICS[name].needs_packets(in_window=in_window) for name in names)


def check_known(metrics: Sequence[str], backend: str, conditions: Conditions, *, in_window: bool) -> None:
    """Checks that the metrics that are asked for will have values, as far as that is known beforehand.

    Raises:
        BadInput: calls of the backend do not know a metric, or what it needs is not recorded.
    """
    record = conditions.scenario(0).record
    for name in metrics:
        metric = METRICS[name]
        if not metric.known_by(backend):
            raise BadInput(f"metrics: {name}: {metric.no_value(backend, record, in_window=in_window)}")
        if metric.needs_packets(in_window=in_window) and record != "packets":
            raise BadInput(
                f"metrics: {name} needs recorded packets; got record = `{record}`",
                hint='set record to "packets"',
            )


def no_value(metric: str, backend: str, scenario: Mapping[str, Any], *, in_window: bool) -> str:
    """A sentence that says why runs have no value of a metric."""
    record = str(scenario.get("record", "packets"))
    reason = METRICS[metric].no_value(backend, record, in_window=in_window)
    return f"{metric} has no value: {reason}"
