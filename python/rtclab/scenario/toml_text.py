"""Values as a user writes them in TOML: on the command line, and in errors (``true``, not ``True``)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping

LONGEST = 60
"""Maximum number of characters of a value in an error."""
OPENING, CLOSING, QUOTES = "{[", "}]", "\"'"
_KEY_AND_VALUE = re.compile(r"([\w-]+)(?:\s*=\s*|\s+)(.+)", re.DOTALL)


def read_value(text: str) -> object:
    """Reads a value of the command line: as TOML or, if it is not TOML, as plain text.

    The values in a table may be plain text, too, and need no equals sign: ``{aqm = codel, target 5 ms}``.
    """
    text = text.strip()
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        pass
    if text.startswith("{") and text.endswith("}"):
        pairs = [_KEY_AND_VALUE.fullmatch(part) for part in split_at_commas(text[1:-1])]
        found = {pair[1]: read_value(pair[2]) for pair in pairs if pair is not None}
        if len(found) == len(pairs):  # neither a part that is no pair, nor a key twice
            return found
    return text


def split_at_commas(text: str) -> list[str]:
    """Splits a text at the commas outside braces, brackets and quotes."""
    parts, depth, quote = [""], 0, ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in QUOTES:
            quote = character
        elif character in OPENING or character in CLOSING:
            depth += 1 if character in OPENING else -1
        elif character == "," and depth == 0:
            parts.append("")
            continue
        parts[-1] += character
    return [part.strip() for part in parts]


def toml_text(value: object) -> str:
    """A value as written in TOML, but text without quotes. Long values are truncated."""
    text = value if isinstance(value, str) else _written(value)
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def _written(value: object) -> str:
    match value:
        case bool():
            return str(value).lower()
        case str():
            return f'"{value}"'
        case Mapping():
            return "{" + ", ".join(f"{key} = {_written(inner)}" for key, inner in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_written, value)) + "]"
        case None:
            return "nothing"
    return str(value)
