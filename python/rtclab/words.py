"""Text that both the command line and reports show: network paths, and decimals of numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def decimals(value: float) -> int:
    """Number of decimals to show of a value, so that it has three or four digits."""
    size = abs(value)
    return 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 3


def path_in_words(path: Mapping[str, Any]) -> str:
    """Describes a network path, given as JSON values: ``capacity 1 Mbit/s, delay 25 ms, queue 300 ms``."""
    order = ["capacity", "delay", "queue", "jitter", "loss"]
    # The default position of losses is not worth a word.
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
