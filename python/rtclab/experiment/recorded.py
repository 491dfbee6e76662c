"""What repeats record for the metrics that are asked for, and why a metric has no value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rtclab.errors import BadInput
from rtclab.experiment.conditions import Conditions, Listed
from rtclab.metrics import METRICS
from rtclab.metrics.series import Window


def packets_needed(metrics: Sequence[str], *, limited: bool) -> list[str]:
    """The metrics that have a value only if packets are recorded; ``limited`` says whether in a window."""
    return [name for name in metrics if METRICS[name].needs_packets((0.0, 1.0) if limited else None)]


def recording_for(metrics: Sequence[str], conditions: Listed, *, limited: bool) -> Listed:
    """The conditions, with packets recorded if a metric needs them. They are measured and not kept."""
    if not packets_needed(metrics, limited=limited):
        return conditions
    scenarios = {label: {**data, "record": "packets"} for label, data in conditions.scenarios.items()}
    return replace(conditions, scenarios=scenarios)


def check_known(metrics: Sequence[str], backend: str, conditions: Conditions, window: Window | None) -> None:
    """Checks that the metrics that are asked for will have values, as far as that is known beforehand.

    Raises:
        BadInput: calls of the backend do not know a metric, or what it needs is not recorded.
    """
    record = conditions.scenario(0).record
    for name in metrics:
        metric = METRICS[name]
        if not metric.known_by(backend):
            raise BadInput(f"metrics: {name}: {metric.no_value(backend, record, window)}")
        if metric.needs_packets(window) and record != "packets":
            raise BadInput(
                f"metrics: {name} needs recorded packets; got record = `{record}`",
                hint='set record to "packets"',
            )


def no_value(metric: str, backend: str, scenario: Mapping[str, Any], window: Window | None) -> str:
    """A sentence that says why runs have no value of a metric."""
    reason = METRICS[metric].no_value(backend, str(scenario.get("record", "packets")), window)
    return f"{metric} has no value: {reason}"
