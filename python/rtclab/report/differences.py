"""What differs between the scenarios of runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rtclab.phrases import value_in_words
from rtclab.report.words import MISSING
from rtclab.scenario.ignored import is_ignored
from rtclab.trace import Run

NAMES = ("name", "title", "source")
"""Fields that say what a scenario is called, and not what it does."""
WHOLE = ("steps", "trace", "ramp")
"""Keys of a table that is one value, such as a capacity that changes over time."""


def scenario_differences(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """The backend and the fields of the scenarios that differ, each with its value in every run, in words.

    Fields are paths such as ``link.up.queue``. A field that a run does not have is a dash. One that the
    backend of all runs ignores is marked with ``(no effect)``.
    """
    backends = {run.backend for run in runs}
    fields = [{"backend": run.backend, **dict(_fields(run.scenario))} for run in runs]
    paths = dict.fromkeys(path for of_run in fields for path in of_run)
    values = {path: [of_run.get(path) for of_run in fields] for path in paths if path not in NAMES}
    return [
        (
            f"{path} (no effect)" if all(is_ignored(path, backend) for backend in backends) else path,
            [MISSING if value is None else value_in_words(value) for value in of_runs],
        )
        for path, of_runs in values.items()
        if any(value != of_runs[0] for value in of_runs)
    ]


def _fields(value: object, path: str = "") -> Iterator[tuple[str, Any]]:
    """The fields of a table of JSON values with their paths; null and empty texts are left out."""
    match value:
        case Mapping() if not any(value.get(key) for key in WHOLE):
            for key, inner in value.items():
                yield from _fields(inner, f"{path}.{key}" if path else key)
        case [Mapping(), *_]:
            for index, inner in enumerate(value):
                yield from _fields(inner, f"{path}[{index}]")
        case None | "":
            return
        case _:
            yield path, value
