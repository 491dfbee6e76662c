"""What a report says about the captures or logs from which a run was imported."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rtclab.phrases import decimals
from rtclab.trace import CaptureInfo, Trace

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
ONE_CLOCK = "same clock"
"""The monitor's method of comparing clocks where both points have the same clock."""
UNKNOWN = "unknown, because packets were seen in one direction only"


def facts(traces: Sequence[Trace]) -> list[tuple[str, str]]:
    """Files, begin, clocks and notes of imported traces, as pairs of name and value."""
    found = []
    for about in _sources(traces):
        begin = EPOCH + timedelta(microseconds=about.begin_ns // 1000)
        found += [
            ("Files", about.files_in_words),
            ("Begin", f"{begin:%Y-%m-%d %H:%M:%S} UTC"),
            ("Clocks", "" if about.clock is None else _clocks(about.clock, corrected=about.corrected)),
            ("Notes", "; ".join(about.notes_in_words)),
        ]
    return found


def cautions(traces: Sequence[Trace]) -> list[str]:
    """A warning if the delays contain a difference between the clocks of two captures."""
    found = []
    for about in _sources(traces):
        if about.clock is None or about.clock["method"] == ONE_CLOCK:
            continue
        text = "The one-way delays contain the difference between the clocks of the two captures, which is"
        if about.clock["offset_ms"] is None:
            found.append(f"{text} {UNKNOWN}.")
        elif not about.corrected and abs(about.clock["offset_ms"]) > about.clock["offset_error_ms"]:
            found.append(f"{text} {_difference(about.clock)}. `rtclab import --corrected` subtracts it.")
    return found


def _sources(traces: Sequence[Trace]) -> list[CaptureInfo]:
    return [about for trace in traces if (about := trace.manifest.capture) is not None]


def _clocks(clock: Mapping[str, Any], *, corrected: bool) -> str:
    if clock["method"] == ONE_CLOCK:
        return "both points have the same clock"
    if clock["offset_ms"] is None:
        return f"the difference between the two clocks is {UNKNOWN}"
    outcome = "subtracted from the delays" if corrected else "not subtracted from the delays"
    return f"the difference between the two clocks is {_difference(clock)}; {outcome}"


def _difference(clock: Mapping[str, Any]) -> str:
    """The second clock less the first: ``12.3 ms, with an error of at most 0.400 ms``."""
    return f"{_ms(clock['offset_ms'])}, with an error of at most {_ms(clock['offset_error_ms'])}"


def _ms(value: float) -> str:
    return f"{value:.{decimals(value)}f} ms".replace("-", "−")
