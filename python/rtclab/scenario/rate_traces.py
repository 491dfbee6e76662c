"""Names the formats of recorded capacities that are not read, and says how to write them in a scenario."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

MOST_STEPS = 2
"""Number of steps of a file that a hint has as an example."""
LEAST_BPS = 100_000
"""A trace of Mahimahi with a lower mean rate may be a list of rates. Of networks, GPRS is as slow."""
BITS_PER_OPPORTUNITY = 12_000
"""1500 bytes."""


def _write(steps: Sequence[tuple[float, str]]) -> str:
    """How to write a capacity that changes."""
    first = [f'["{at_s:g} s", "{rate}"]' for at_s, rate in steps] or [
        '["0 s", "1 Mbit/s"]',
        '["10 s", "500 kbit/s"]',
    ]
    return f"write `capacity = {{ steps = [{', '.join(first)}, …] }}`"


IF_RATES = f"if the lines are rates, {_write(())}"
"""A hint about numbers that are no times in ascending order."""

_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")


def other_format(text: str) -> str:
    """A sentence that says what a text is that is no trace of Mahimahi, and how to write it in a scenario."""
    lines = [line for line in map(str.strip, text.splitlines()) if line]
    if text.lstrip().startswith(("{", "[")):
        return _of_json(text)
    uncommented = [line for line in lines if not line.startswith(("#", "//"))]
    rows = [re.split(r"[\s,;]+", line) for line in uncommented[:100]]
    if not rows:
        return "the file has no numbers; expected a whole number of ms in each line"
    if all(_NUMBER.fullmatch(cell) for row in rows for cell in row):
        return _of_numbers(rows, commented=len(uncommented) < len(lines))
    if len(rows[0]) > 1 and not any(_NUMBER.fullmatch(cell) for cell in rows[0]):
        return f"the file is a table with the heading `{uncommented[0][:80]}`; {_write(())}"
    return "expected the time of an opportunity to send 1500 bytes in each line, as in Mahimahi's traces"


def doubts(scenario: Mapping[str, Any]) -> list[str]:
    """Sentences about recorded capacities, in a scenario given as JSON values, that may be lists of rates.

    A list of rates in ascending order is a valid trace of Mahimahi, but a very slow one: a packet is sent for
    each line, and rates in kbit/s are larger numbers than the times of packets at such rates.
    """
    return [
        f"{field}: `{trace}` is read as a trace of Mahimahi, and 1500 bytes for each of its lines are "
        f"{rate_bps / 1000:.3g} kbit/s; {IF_RATES}"
        for field, trace, times in _traces("", scenario)
        if (rate_bps := len(times) * BITS_PER_OPPORTUNITY * 1000 / times[-1]) < LEAST_BPS
    ]


def _traces(field: str, value: object) -> Iterator[tuple[str, str, Sequence[int]]]:
    """The field, the file and the times in ms of each recorded capacity."""
    if isinstance(value, Mapping):
        if value.get("opportunities_ms"):
            yield field, value["trace"], value["opportunities_ms"]
        for key, inner in value.items():
            yield from _traces(f"{field}.{key}" if field else key, inner)


def _of_json(text: str) -> str:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return f"the file begins as JSON; {_write(())}"
    directions = value if isinstance(value, dict) else {}
    for direction in ("uplink", "downlink"):
        pattern = directions.get(direction, {})
        pattern = pattern.get("trace_pattern") if isinstance(pattern, dict) else None
        if pattern:
            return (
                f"the file is a trace of OpenNetLab: `{direction}` lists how long, in ms, which capacity, in "
                f"kbit/s, lasts; {_write(_of_open_net_lab(pattern))}"
            )
    return f"the file is JSON; {_write(())}"


def _of_open_net_lab(pattern: object) -> list[tuple[float, str]]:
    steps, at_s = [], 0.0
    for one in pattern[:MOST_STEPS] if isinstance(pattern, list) else []:
        try:
            steps.append((at_s, f"{float(one['capacity']):g} kbit/s"))
            at_s += float(one["duration"]) / 1000
        except (KeyError, TypeError, ValueError):
            return []
    return steps


def _of_numbers(rows: list[list[str]], *, commented: bool) -> str:
    if len(rows[0]) > 1:
        times = [float(row[0]) for row in rows]
        if not all(a < b for a, b in pairwise(times)):
            return f"each line has {len(rows[0])} numbers; {_write(())}"
        steps = [(float(row[0]), f"{float(row[1]):g} Mbit/s") for row in rows[:MOST_STEPS] if len(row) > 1]
        return (
            "each line has a time and a number, as traces of Pensieve, FCC and HSDPA have a time in s and a "
            f"rate in Mbit/s; if so, {_write(steps)}"
        )
    if commented and all(row[0].isdecimal() for row in rows):
        return "the file has comments; Mahimahi's traces have none: remove these lines"
    return f"each line has one number; {IF_RATES}"
