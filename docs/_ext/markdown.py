"""Pieces of Markdown that several generated parts need."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; cells are Markdown on one line."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", r"\|") for cell in line) + " |" for line in lines)


def paragraphs(docstring: str | None) -> str:
    """A docstring as Markdown: double backticks become single ones, lines of a paragraph are joined."""
    text = (docstring or "").strip()
    text = re.sub(r"``([^`]*)``", r"`\1`", text)
    return "\n".join(line.strip() for line in text.splitlines())


def one_line(text: str | None) -> str:
    """The same on one line."""
    return " ".join(paragraphs(text).split())


def code(text: object) -> str:
    """A value as code."""
    return f"`{text}`"
