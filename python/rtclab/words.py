"""A path of a network in words, for tables and reports, from the JSON values of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def path_in_words(path: Mapping[str, Any]) -> str:
    """Describes a path, given as JSON values: ``capacity 1 Mbit/s, delay 25 ms, queue 300 ms``."""
    order = ["capacity", "delay", "queue", "jitter", "loss"]
    # The default position of losses is left out.
    shown = {key: value for key, value in path.items() if (key, value) != ("loss_position", "wire")}
    order += [key for key in shown if key not in order]
    keys = [key for key in order if shown.get(key) is not None]
    if "capacity" not in keys:
        return ", ".join(["unlimited", *(f"{key} {_in_words(path[key])}" for key in keys)])
    return ", ".join(f"{key} {_in_words(path[key])}" for key in keys)


def _in_words(value: object) -> str:
    match value:
        case {"steps": list(steps)}:
            return "; ".join(f"{amount} from {at}" for at, amount in steps)
        case {"trace": file}:
            return f"as recorded in {file}"
        case {"ramp": shape, "from": before, "to": after, "start": start, "end": end}:
            return f"{before} to {after} ({shape}, {start} to {end})"
        case Mapping():
            return " ".join(f"{key} = {_in_words(inner)}" for key, inner in value.items())
        case list():
            return " ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
    return str(value)
