"""The quantities that published numbers may be, from the table of measures."""

from __future__ import annotations

from markdown import code

from rtclab.reproduce.measures import MEASURES, MEDIA


def markdown() -> str:
    """Their names."""
    return "  " + ", ".join(code(name) for name in MEASURES if name != MEDIA)
