"""Options of the congestion controls, from the native module."""

from __future__ import annotations


def markdown() -> str:
    """A table of all options."""
    return ""
