"""The page and its content."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from rtclab.report import load_template, looks_of, main_of
from rtclab.trace import FlowInfo, has_writer, watch_file, write_text

PAGE_FILE = "watch.html"
HERE = Path(__file__).parent
STYLE, SCRIPT = ((HERE / name).read_text(encoding="utf-8") for name in ("watch.css", "watch.js"))


def _hash(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


POLICY = (
    f"default-src 'none'; script-src {_hash(SCRIPT)}; style-src {_hash(STYLE)}; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'"
)
"""The Content-Security-Policy: the page's own script and style run, and nothing else is loaded."""


def messages(directory: Path, position: int = 0) -> Iterator[tuple[int, dict[str, Any]]]:
    """The lines of a run's watch file from a position on, each with the position after it.

    A line about a repeat also has ``looks``: how its flows are drawn, which is as in the run's report, and
    which of them lead from one participant to another.
    """
    for after, line in watch_file.lines_from(directory, position):
        if line["what"] == "repeat":
            flows = {name: FlowInfo.model_validate(flow) for name, flow in line["flows"].items()}
            looks = looks_of(main_of(flows, line["participants"]), flows)
            line["looks"] = {
                name: {"colour": look.colour, "dash": list(look.dash)} for name, look in looks.items()
            }
        yield after, line


def can_be_watched(directory: Path) -> bool:
    """Whether a run has a watch file, or is being made and may get one.

    Raises:
        OSError: the file cannot be read.
    """
    try:
        (directory / watch_file.WATCH_FILE).open("rb").close()
    except FileNotFoundError:
        return has_writer(directory)
    return True


def died(directory: Path, last: str | None) -> bool:
    """Whether the process that ran repeats died: no process writes, and the ``last`` line is not ``end``."""
    return last not in (None, "end") and not has_writer(directory)


def html(recorded: list[dict[str, Any]] | None = None) -> str:
    """The page: with what was recorded, or as it is served, which gets it from the server."""
    # In a script element, nothing but "<" has a meaning of its own.
    text = json.dumps(recorded, separators=(",", ":"), ensure_ascii=False).replace("<", "\\u003c")
    template = load_template("watch.html", HERE)
    return template.render(style=STYLE, script=SCRIPT, policy=POLICY, recorded=text)


def keep_page(directory: Path) -> None:
    """Writes the page with what was recorded into the directory of a run, if the run has ended.

    Raises:
        DiskFull: no space is left.
    """
    recorded = [message for _, message in messages(directory)]
    last = recorded[-1]["what"] if recorded else None
    if died(directory, last):
        recorded.append({"what": "died"})
    elif last != "end":
        return
    write_text(directory / PAGE_FILE, html(recorded))
