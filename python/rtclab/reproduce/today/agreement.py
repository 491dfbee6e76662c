"""How closely the simulation as of today agrees with live calls over all conditions."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from statistics import median

from rtclab.report.words import number
from rtclab.reproduce.measures import MEASURES
from rtclab.reproduce.today.measured import COMPARED
from rtclab.reproduce.today.numbers import Numbers, Pair

FAR = 0.3
"""Share of the live value above which an error is listed."""
ABOUT = """\
Errors are simulated minus live, in per cent of live. Values are means over all flows of media and all
repeats.
"""
NAMES = {"rate_kbps": "mean rate", "rtt_ms": "round trip"}


def lines(numbers: Numbers) -> Iterator[str]:
    """The section of the page."""
    yield "## Simulated against live over these conditions"
    yield ""
    pairs = numbers.pairs()
    if not pairs:
        yield "No condition has been run both simulated and live yet."
        yield ""
        return
    yield ABOUT
    yield "| quantity | conditions | median error, without sign | median error | above 30 % |"
    yield "|---|---|---|---|---|"
    for measure in COMPARED:
        errors = [pair.error for pair in pairs if pair.measure == measure and not isnan(pair.error)]
        if errors:
            far = sum(abs(error) > FAR for error in errors)
            size = median(abs(error) for error in errors)
            middle = f"{_percent(size)} | {_percent(median(errors))}"
            yield f"| {NAMES[measure]} | {len(errors)} | {middle} | {far} |"
    yield ""
    yield from _far(pairs)


def _far(pairs: list[Pair]) -> Iterator[str]:
    far = sorted((pair for pair in pairs if abs(pair.error) > FAR), key=lambda pair: -abs(pair.error))
    if not far:
        yield "No error is above 30 %."
        yield ""
        return
    yield "| above 30 % | quantity | simulated | live | error |"
    yield "|---|---|---|---|---|"
    for pair in far:
        unit = MEASURES[pair.measure].label.rpartition("(")[2].rstrip(")")
        values = f"{number(pair.simulated)} {unit} | {number(pair.live)} {unit}"
        yield f"| `{pair.scenario}` | {NAMES[pair.measure]} | {values} | {_percent(pair.error)} |"
    yield ""


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %".replace("-", "−")
