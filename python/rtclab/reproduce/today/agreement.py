"""How closely the simulation as of today agrees with live calls over all conditions."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from statistics import median

from rtclab.report.words import number
from rtclab.reproduce.measures import MEASURES
from rtclab.reproduce.today.measured import COMPARED, FAIRNESS, ONE_WAY_DELAY, TCP_SHARE
from rtclab.reproduce.today.numbers import Numbers, Pair
from rtclab.reproduce.today.run import LIVE, SIM

FAR = 0.3
"""Share of the live value above which an error is listed."""
ABOUT = """\
Errors are simulated minus live, in per cent of live. Values are means over all flows of media and all
repeats. The last column of the second table is twice the mean one-way delay, simulated and live: what the
emulated network adds to the round trip. The rest is spent in the two hosts and, over a relay, in coturn.
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
    yield from _far(pairs, numbers)
    yield from _shares(numbers)


def _far(pairs: list[Pair], numbers: Numbers) -> Iterator[str]:
    far = sorted((pair for pair in pairs if abs(pair.error) > FAR), key=lambda pair: -abs(pair.error))
    if not far:
        yield "No error is above 30 %."
        yield ""
        return
    yield "| above 30 % | quantity | simulated | live | error | there and back in the network |"
    yield "|---|---|---|---|---|---|"
    for pair in far:
        unit = MEASURES[pair.measure].label.rpartition("(")[2].rstrip(")")
        values = f"{number(pair.simulated)} {unit} | {number(pair.live)} {unit}"
        delays = (2 * numbers.of_repeats(ONE_WAY_DELAY, pair.scenario, one) for one in (SIM, LIVE))
        network = " and ".join(map(number, delays))
        name = f"`{pair.scenario}` | {NAMES[pair.measure]}"
        yield f"| {name} | {values} | {_percent(pair.error)} | {network} ms |"
    yield ""


def _shares(numbers: Numbers) -> Iterator[str]:
    """Jain's index of conditions with several calls, and TCP's share of those with cross traffic."""
    today = {name: one.scenario for name, one in numbers.plan.today.items()}
    for title, metric, chosen in (
        ("Jain's index", FAIRNESS, [name for name, one in today.items() if len(one.calls) > 1]),
        ("TCP's share (%)", TCP_SHARE, [name for name, one in today.items() if one.traffic]),
    ):
        yield f"| {title} | simulated | live | difference |"
        yield "|---|---|---|---|"
        for name in chosen:
            simulated, live = (numbers.of_repeats(metric, name, one) for one in (SIM, LIVE))
            if not (isnan(simulated) or isnan(live)):
                row = " | ".join(map(number, (simulated, live, simulated - live)))
                yield f"| `{name}` | {row} |"
        yield ""


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %".replace("-", "−")
