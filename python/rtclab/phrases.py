"""Phrases that both the command line and reports show: network paths, tests, and decimals of numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

FORCE = "--force-fieldtrials="
"""The argument with which Chromium is forced to use field trials."""
MOST_REPEATS = 1000
"""Larger numbers of repeats that would do are not given: the difference is tiny."""


def decimals(value: float) -> int:
    """Number of decimals to show of a value, so that it has three or four digits."""
    size = abs(value)
    return 0 if size >= 1000 else 1 if size >= 100 else 2 if size >= 1 else 3


def number(value: float | None) -> str:
    """Formats a number with three or four digits and no exponent; None becomes empty."""
    if value is None:
        return ""
    return f"{value:.{decimals(value)}f}" if value else "0"


def count(number_of: int, what: str) -> str:
    """A number and its noun, in the plural unless it is one: ``1 repeat``, ``2 repeats``."""
    return f"{number_of} {what}{'' if number_of == 1 else 's'}"


def tests_in_words(tests: int, pairs: Sequence[int], *, asked: bool, stated: int) -> str:
    """How differences were tested: ``84 paired tests, Holm, 5 %``.

    ``pairs`` has, for each run beyond the first, the number of repeats that were compared in pairs. ``asked``
    says that metrics or flows were chosen, so that there were no further tests. ``stated`` of the tests are
    of a hypothesis, and are corrected apart from the others.
    """
    if not tests:
        return "not tested: fewer than two repeats"
    how = "paired" if all(pairs) else "partly paired" if any(pairs) else "unpaired"
    of = " of what was asked for" if asked else ""
    if stated:
        others = f"; {count(tests - stated, 'other test')}{of}, Holm, 5 %" if tests > stated else ""
        return f"{count(stated, f'{how} test')} of what was stated beforehand, Holm, 5 %{others}"
    return f"{count(tests, f'{how} test')}{of}, Holm, 5 %"


def repeats_in_words(needed: int | None) -> str:
    """How many repeats would do to tell whether there is a difference; empty if unknown."""
    if needed is None:
        return ""
    return f"{needed} would do" if needed <= MOST_REPEATS else f"more than {MOST_REPEATS} would do"


def field_trials(scenario: Mapping[str, Any]) -> dict[str, list[str]]:
    """The field trials that a scenario, given as JSON values, forces on browsers, each with its participants.

    They are as written. Chromium ignores a trial whose name it does not know.
    """
    found: dict[str, list[str]] = {}
    for name, participant in scenario.get("participants", {}).items():
        browser = participant.get("browser") or scenario.get("browser") or {}
        given = [browser.get("field_trials") or ""]
        given += [one.removeprefix(FORCE) for one in browser.get("args") or [] if one.startswith(FORCE)]
        for trials in filter(None, given):
            found.setdefault(trials, []).append(name)
    return found


def name_for_commands(path: Path) -> str:
    """What results are called in commands: their name below ``runs``, or else their path."""
    below = Path("runs").resolve()
    resolved = path.resolve()
    return resolved.relative_to(below).as_posix() if resolved.is_relative_to(below) else str(path)


def names_in_words(names: Sequence[str], most: int) -> str:
    """Names as in a sentence: ``alice, bob and carol``; of more than ``most`` the last ones are counted."""
    shown = list(names)
    if len(shown) > most:
        shown = [*names[: most - 1], f"{len(names) - most + 1} others"]
    return " and ".join(filter(None, [", ".join(shown[:-1]), shown[-1]]))


def path_in_words(path: Mapping[str, Any]) -> str:
    """Describes a network path, given as JSON values: ``capacity 1 Mbit/s, delay 25 ms, queue 300 ms``."""
    order = ["wifi", "capacity", "delay", "queue", "jitter", "loss"]
    usual = {"loss_position": "wire", "ecn": "keep"}
    shown = {key: value for key, value in path.items() if usual.get(key) != value}
    if path.get("loss") is None:
        shown.pop("loss_position", None)
    order += [key for key in shown if key not in order]
    keys = [key for key in order if shown.get(key) is not None]
    if "capacity" not in keys and "wifi" not in keys:
        return ", ".join(["unlimited", *(f"{key} {value_in_words(path[key])}" for key in keys)])
    return ", ".join(f"{key} {value_in_words(path[key])}" for key in keys)


def value_in_words(value: object) -> str:
    """A value of a scenario, given as a JSON value: ``1 Mbit/s from 0 s; 500 kbit/s from 10 s``."""
    match value:
        case {"steps": list(steps)}:
            return "; ".join(f"{amount} from {at}" for at, amount in steps)
        case {"trace": file}:
            return f"as recorded in {file}"
        case {"ramp": shape, "from": before, "to": after, "start": start, "end": end}:
            return f"{before} to {after} ({shape}, {start} to {end})"
        case {"aqm": str(discipline), **parameters}:
            words = ", ".join(f"{key} {value_in_words(inner)}" for key, inner in parameters.items())
            return f"{discipline} ({words})" if words else discipline
        case Mapping():
            return " ".join(f"{key} = {value_in_words(inner)}" for key, inner in value.items())
        case list():
            return " ".join(map(str, value))
        case bool():
            return "yes" if value else "no"
    return str(value)
