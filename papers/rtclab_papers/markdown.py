"""Pages in Markdown, made of blocks: headings, paragraphs, lists and tables, with blank lines in between."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from rtclab.metrics import METRICS
from rtclab.report import Drawing, as_svg
from rtclab.trace import write_text

NOTES = "<!-- Everything below this line is kept when the page is made anew. -->"
"""Separates the generated page from notes written by hand."""


def notes_of(page: Path) -> str:
    """The line ``NOTES`` with the notes that were written below it in an earlier page, if any."""
    text = page.read_text(encoding="utf-8") if page.is_file() else ""
    return NOTES + (text.partition(NOTES)[2] or "\n")


def write_page(
    page: Path,
    blocks: Iterable[str],
    drawings: Iterable[Drawing] = (),
    pictures: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Writes a page of blocks, and beside it each picture as ``PAGE-NAME.svg``.

    The text below the line ``NOTES`` of an earlier page is kept.

    Args:
        page: the Markdown file.
        blocks: what it says.
        drawings: plots, which have their names.
        pictures: contents of SVG files, by name.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    for name, content in [*((one.name, as_svg(one)) for one in drawings), *pictures.items()]:
        write_text(page.with_name(f"{page.stem}-{name}.svg"), content)
    write_text(page, "\n\n".join([*blocks, notes_of(page)]))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], align: str = "l") -> str:
    """A table.

    Args:
        heads: the headings of the columns.
        rows: the cells of each row.
        align: ``l`` or ``r`` for each column; the last one is also for all further columns.
    """
    sides = align + align[-1] * (len(heads) - len(align))
    rule = "".join("---:|" if side == "r" else "---|" for side in sides[: len(heads)])
    head = _row(heads).replace("|  |", "| |")
    return "\n".join([head, f"|{rule}", *map(_row, rows)])


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def bullets(lines: Iterable[str]) -> list[str]:
    """One block with a bullet for each line; no block without lines."""
    block = "\n".join(f"- {line}" for line in lines)
    return [block] if block else []


def folded(summary: str, *blocks: str) -> str:
    """Blocks below a line that shows and hides them, as one block. They must not have headings."""
    return "\n\n".join([f"<details>\n<summary>{summary}</summary>", *blocks, "</details>"])


def names(quoted: Sequence[str]) -> str:
    """Names in a sentence: ```a`, `b` and `c```; ``nobody`` without any."""
    return listed([f"`{name}`" for name in quoted] or ["nobody"])


def listed(words: Sequence[str]) -> str:
    """At least one thing in a sentence: ``a, b and c``."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def in_sentence(label: str) -> str:
    """A label within a sentence: ``freeze count W3C``, ``RTT``."""
    return label if label[1:2].isupper() else label[:1].lower() + label[1:]


def with_unit(metric: str) -> str:
    """The label of a metric with its unit in parentheses."""
    known = METRICS[metric]
    return f"{known.label} ({known.unit})" if known.unit else known.label


def digits(value: float) -> str:
    """Three digits, or all before the point: ``0.123``, ``12.3``, ``1450``."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def with_ends(middle: float, low: float, high: float) -> str:
    """A value with the ends of its interval in brackets. Spaces in it do not break."""
    return f"{digits(middle)} [{digits(low)},\u00a0{digits(high)}]"
