"""Merges a table over the table that it inherits from, and keeps track of who sets each value."""

from __future__ import annotations

from typing import Any

NAMED = ("participants", "bottlenecks", "servers", "traffic")
"""Tables whose keys are chosen by the user. Unknown keys of all other tables are found by validation."""
AS_WHOLE = ("capacity", "queue", "delay", "jitter", "loss")
"""Fields of a path. A table there is one value in several forms, so it is replaced as a whole."""
DEFAULT_CONTROL = "goog-cc"
"""Congestion control if none is named."""

Owners = dict[str, Any]
"""The file or option that sets each key. For a table set by several, the owners of its keys."""


def over(below: dict[str, Any], above: dict[str, Any], table: str) -> dict[str, Any]:
    """``above`` merged over ``below`` as in :func:`merged`, without owners."""
    return merged(below, "", above, "", table)[0]


def merged(
    below: dict[str, Any], owners: Owners | str, above: dict[str, Any], origin: str, table: str = ""
) -> tuple[dict[str, Any], Owners]:
    """``above``, which ``origin`` owns, merged over ``below``: the data and their owners.

    Tables are merged key by key. Other values, arrays included, are replaced, and so are the values of
    ``AS_WHOLE``. ``table`` is the key of both tables, or empty if the user chose it.
    """
    data = _inherited(below, above, table)
    known = owners_of_parts(owners, below)
    whose = {key: known[key] for key in data}
    for key, value in above.items():
        lower = data.get(key)
        is_name = table in NAMED
        if isinstance(lower, dict) and isinstance(value, dict) and (is_name or key not in AS_WHOLE):
            data[key], whose[key] = merged(lower, whose[key], value, origin, "" if is_name else key)
        else:
            data[key], whose[key] = value, origin
    return data, whose


def _inherited(below: dict[str, Any], above: dict[str, Any], table: str) -> dict[str, Any]:
    """The part of a table that another one over it inherits."""
    dropped: set[str] = set()
    if table == "link":
        # A shared path replaces two separate ones, and the other way round.
        dropped = {"up", "down"} if "both" in above else {"both"} if above.keys() & {"up", "down"} else set()
    if table == "congestion_control":
        # Options and digest belong to the control that they were written for.
        first = below.get("name", DEFAULT_CONTROL)
        dropped = {"options", "digest"} if above.get("name", first) != first else set()
    return {key: value for key, value in below.items() if key not in dropped}


def owners_of_parts(owners: Owners | str, whole: dict[str, Any] | list[Any]) -> Owners:
    """The owner of each part of a table or array. If the whole has one owner, it owns every part."""
    if isinstance(owners, dict):
        return owners
    parts = whole if isinstance(whole, dict) else map(str, range(len(whole)))
    return dict.fromkeys(parts, owners)
