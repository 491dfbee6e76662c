"""Values as a user writes them in TOML, for errors: ``true``, not ``True``."""

from __future__ import annotations

from collections.abc import Mapping

LONGEST = 60
"""Maximum number of characters of a value in an error."""


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
