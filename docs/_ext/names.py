"""Lists of names that pages mention: the quantities that published numbers may be."""

from __future__ import annotations

from collections.abc import Iterable

from markdown import code

from rtclab_papers.reproduce.measures import MEASURES, MEDIA


def measures() -> str:
    """The quantities of papers, indented as a part of a list."""
    return f"  {_list(name for name in MEASURES if name != MEDIA)}"


def _list(names: Iterable[str]) -> str:
    return ", ".join(map(code, names))
