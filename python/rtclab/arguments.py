"""Checks arguments that are lists or tables, because a text is also a list of letters in Python."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from rtclab.errors import BadInput


def items(
    name: str, given: object, kind: type | tuple[type, ...], expected: str, *, may_be_empty: bool = False
) -> list[Any]:
    """The items of an argument that is a list. A single item is a list of one.

    Args:
        name: the name of the argument.
        given: its value.
        kind: the type of an item, or several types.
        expected: what was expected, for the message.
        may_be_empty: whether a list without items means something.

    Raises:
        BadInput: the value is something else, such as a path in place of a text, or an empty list.
    """
    if isinstance(given, kind):
        return [given]
    if isinstance(given, (str, bytes, PurePath, Mapping)) or not isinstance(given, Iterable):
        raise BadInput(f"{name}: got `{given}`; expected {expected}")
    found = list(given)
    for one in found:
        if not isinstance(one, kind):
            raise BadInput(f"{name}: got `{one}` in the list; expected {expected}")
    if not (found or may_be_empty):
        raise BadInput(f"{name}: got an empty list; expected {expected}")
    return found


def table(name: str, given: object, expected: str) -> Mapping[Any, Any]:
    """An argument that is a table from names to values.

    Raises:
        BadInput: the value is something else, such as a text.
    """
    if not isinstance(given, Mapping):
        raise BadInput(f"{name}: got `{given}`; expected {expected}")
    return given
