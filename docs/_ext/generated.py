"""Sphinx extension: fills `<!-- generated: NAME -->` in a page with Markdown made from rtclab itself.

The mark is followed by a line for those who read the page as a file. The site does not show that line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import commands
import congestion_controls
import metrics_list
import names
import scenario_fields
import suite_fields
import trace_tables
from sphinx.application import Sphinx
from sphinx.util import logging

PARTS: dict[str, Callable[[], str]] = {
    "arena-fields": suite_fields.of_arenas,
    "commands": commands.markdown,
    "congestion-controls": congestion_controls.markdown,
    "manifests": trace_tables.manifests,
    "measures": names.measures,
    "known-metrics": metrics_list.known,
    "metrics": metrics_list.markdown,
    "scenario-fields": scenario_fields.markdown,
    "suite-fields": suite_fields.markdown,
    "trace-tables": trace_tables.tables,
    "units": scenario_fields.units,
}
MARK = re.compile(r"^<!-- generated: ([\w-]+) -->\n\*Made by `make docs`[^\n]*\*$", re.MULTILINE)


def fill(app: Sphinx, page: str, source: list[str]) -> None:
    """Puts the generated parts into a page before it is parsed."""

    def part(mark: re.Match[str]) -> str:
        if mark[1] not in PARTS:
            logging.getLogger(__name__).warning("%s: nothing generates `%s`", page, mark[1])
            return ""
        return PARTS[mark[1]]()

    source[0] = MARK.sub(part, source[0])


def setup(app: Sphinx) -> dict[str, Any]:
    """What Sphinx calls."""
    app.connect("source-read", fill)
    return {"parallel_read_safe": True}
