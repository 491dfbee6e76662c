"""Texts of others on a terminal: their control characters are shown, and do nothing.

Labels, reasons and names come from files that anybody wrote. An escape sequence in one could move the cursor,
change the window's title or hide what was printed, and a bidirectional override could turn a name round.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import IO, Any

_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f"  # all control characters but the tabulator and the end of a line
    "\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"  # separators of lines, and directions of text
    "\ud800-\udfff]"  # halves of characters, which stand for bytes of file names
)


def visible(text: str) -> str:
    r"""The text with control characters written as in JSON: ``\u001b`` for ESC."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class VisibleText:
    """A text stream that shows control characters. Everything else is as in the stream below it."""

    def __init__(self, stream: IO[str]) -> None:
        self.rich_proxied_file = stream
        """The stream below it. By this name, rich finds where its own colours and cursor movements go."""

    def write(self, text: str) -> int:
        """Writes a text, with its control characters shown."""
        self.rich_proxied_file.write(visible(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        """Writes texts, with their control characters shown."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


def below(stream: Any) -> Any:
    """The stream that takes rtclab's own escape sequences, of colours for example."""
    return stream.rich_proxied_file if isinstance(stream, VisibleText) else stream


@contextmanager
def shown() -> Iterator[None]:
    """Standard output and standard error show control characters, except what is written to :func:`below`."""
    before = sys.stdout, sys.stderr
    now = [stream and VisibleText(stream) for stream in before]
    sys.stdout, sys.stderr = now
    try:
        yield
    finally:
        # A broken pipe may have taken standard output away.
        sys.stdout = before[0] if sys.stdout is now[0] else sys.stdout
        sys.stderr = before[1] if sys.stderr is now[1] else sys.stderr
