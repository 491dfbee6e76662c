"""Flattens nested getStats values into columns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_DURATIONS = "qualityLimitationDurations"
_REASONS = ("cpu", "bandwidth", "other")


def flattened(report: Mapping[str, Any], mime_type: str | None = None) -> dict[str, Any]:
    """A report of a stream with one entry per value (W3C, Identifiers for WebRTC's Statistics API).

    ``qualityLimitationDurations`` (s, by reason) becomes ``qualityLimitationDurationCpu``, ``…Bandwidth`` and
    ``…Other``; a reason that is missing is left out. ``mime_type`` is the MIME type of the report's
    ``codecId``.
    """
    flat = {key: value for key, value in report.items() if key != _DURATIONS}
    durations = report.get(_DURATIONS)
    if isinstance(durations, Mapping):
        for reason in durations.keys() & _REASONS:
            flat[f"qualityLimitationDuration{reason.capitalize()}"] = durations[reason]
    return flat if mime_type is None else flat | {"mimeType": mime_type}
