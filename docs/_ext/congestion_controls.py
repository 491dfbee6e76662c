"""Options of the congestion controls, from the native module."""

from __future__ import annotations

from markdown import code, one_line, table

from rtclab import _native


def markdown() -> str:
    """A table of all options."""
    return table(
        ["algorithm", "option", "value", "what it means"],
        [
            [code(algorithm), code(option), f"{least:g} to {most:g}", one_line(meaning)]
            for algorithm, option, meaning, least, most in _native.CONGESTION_CONTROL_OPTIONS
        ],
    )
