"""Values as a user writes them in TOML: in files, in arguments and in errors (``true``, not ``True``)."""

from __future__ import annotations

import json
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


def toml_document(data: Mapping[str, object]) -> str:
    """JSON values as the text of a TOML file: values first, then tables. Nulls are left out."""
    return "\n".join(_lines(data, ())).strip("\n") + "\n"


def _lines(data: Mapping[str, object], path: tuple[str, ...]) -> list[str]:
    tables = {key: value for key, value in data.items() if isinstance(value, Mapping)}
    plain = {key: value for key, value in data.items() if key not in tables and value is not None}
    lines = [f"{_key(key)} = {_document_value(value)}" for key, value in plain.items()]
    if path and (lines or not tables):
        lines = ["", f"[{'.'.join(map(_key, path))}]", *lines]
    for key, value in tables.items():
        lines += _lines(value, (*path, key))
    return lines


def _key(key: str) -> str:
    return key if re.fullmatch(r"[\w-]+", key, re.ASCII) else json.dumps(key, ensure_ascii=False)


def _document_value(value: object) -> str:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case Mapping():
            known = {key: inner for key, inner in value.items() if inner is not None}
            return f"{{ {', '.join(f'{_key(key)} = {_document_value(of)}' for key, of in known.items())} }}"
        case list() | tuple():
            return f"[{', '.join(map(_document_value, value))}]"
    return _written(value)
