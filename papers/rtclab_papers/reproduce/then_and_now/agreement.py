"""How closely the simulation of Chromium of 2026 agrees with live calls over all conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan
from statistics import median

from rtclab.report import number
from rtclab_papers.markdown import folded, table
from rtclab_papers.reproduce.measures import MEASURES
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, SIM
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers, MeasurePair
from rtclab_papers.reproduce.then_and_now.row_values import COMPARED, FAIRNESS, ONE_WAY_DELAY, TCP_SHARE

FAR = 0.3
"""Share of the live value above which an error is listed."""
FAIRNESS_BOUND = 0.05
"""Largest difference that is accepted between two of Jain's indices."""
SHARE_BOUND = 0.15
"""Largest difference that is accepted between two shares of TCP, as a share of the live one."""
ABOUT = """\
Errors are simulated minus live, in per cent of live. Values are means over all media flows and repeats.
The column "twice the one-way delay" is the mean over all flows, simulated and live, with the time in
coturn. The two hosts add the rest of the round trip."""
RATES = "rate_kbps"
NAMES = {RATES: "mean rate", "rtt_ms": "round trip"}


def section(numbers: CampaignNumbers) -> Iterator[str]:
    """The section of the page."""
    yield "## Simulated against live over these conditions"
    pairs = numbers.pairs()
    if not pairs:
        yield "No condition has been run both simulated and live yet."
        return
    rows, told = [], []
    for measure in COMPARED:
        if errors := _errors(pairs, measure):
            far = sum(abs(error) > FAR for error in errors)
            size = _percent(median(abs(error) for error in errors))
            rows.append([NAMES[measure], str(len(errors)), size, _percent(median(errors)), str(far)])
            told.append(
                f"The simulated {NAMES[measure]} is {size} off the live one in the median over\n"
                f"{len(errors)} conditions, and more than {100 * FAR:g} % in {far} of them."
            )
    if told:
        yield "\n".join(told)
    yield ABOUT
    heads = ["quantity", "conditions", "median absolute error", "median error", "above 30 %"]
    yield folded("Errors of each quantity", table(heads, rows, "lr"))
    yield _far(pairs, numbers)
    yield from _shares(numbers)


def in_words(numbers: CampaignNumbers) -> str:
    """The median absolute error of the rate, as a part of a sentence; empty without errors."""
    errors = _errors(numbers.pairs(), RATES)
    if not errors:
        return ""
    size = median(abs(error) for error in errors)
    return f", and the simulation of 2026 is {_percent(size)} off the live {NAMES[RATES]} in the median"


def _errors(pairs: Sequence[MeasurePair], measure: str) -> list[float]:
    return [pair.error for pair in pairs if pair.measure == measure and not isnan(pair.error)]


def _far(pairs: list[MeasurePair], numbers: CampaignNumbers) -> str:
    """The table of the large errors, with their causes."""
    far = sorted((pair for pair in pairs if abs(pair.error) > FAR), key=lambda pair: -abs(pair.error))
    if not far:
        return "No error is above 30 %."
    causes = numbers.plan.conditions.causes
    rows = []
    for pair in far:
        unit = MEASURES[pair.measure].label.rpartition("(")[2].rstrip(")")
        values = (f"{number(pair.simulated)} {unit}", f"{number(pair.live)} {unit}")
        delays = (2 * numbers.of_repeats(ONE_WAY_DELAY, pair.scenario, one) for one in (SIM, LIVE))
        network = f"{' and '.join(map(number, delays))} ms"
        cause = causes.get(pair.measure, {}).get(pair.scenario, "not known")
        what = (f"`{pair.scenario}`", NAMES[pair.measure])
        rows.append([*what, *values, _percent(pair.error), network, cause])
    heads = ["above 30 %", "quantity", "simulated", "live", "error", "twice the one-way delay", "cause"]
    return folded(f"{len(rows)} errors above 30 %, and their causes", table(heads, rows))


def _shares(numbers: CampaignNumbers) -> Iterator[str]:
    """Jain's index of conditions with several calls, and TCP's share of conditions with cross traffic."""
    today = {name: one.scenario for name, one in numbers.plan.today.items()}
    several = [name for name, one in today.items() if len(one.calls) > 1]
    with_tcp = [name for name, one in today.items() if one.traffic]
    within_share = f"{100 * SHARE_BOUND:g} % of the live share"
    for title, metric, names, within, bound, is_share in (
        ("Jain's index", FAIRNESS, several, f"{FAIRNESS_BOUND:g}", FAIRNESS_BOUND, False),
        ("TCP's share (%)", TCP_SHARE, with_tcp, within_share, SHARE_BOUND, True),
    ):
        rows, close = [], 0
        for name in names:
            simulated, live = (numbers.of_repeats(metric, name, one) for one in (SIM, LIVE))
            if not isnan(simulated + live):
                rows.append([f"`{name}`", *map(number, (simulated, live, simulated - live))])
                close += abs(simulated - live) <= bound * (live if is_share else 1)
        if rows:
            yield f"{title}: {close} of {len(rows)} differences are within {within}."
            yield folded(title, table([title, "simulated", "live", "difference"], rows, "lr"))


def _percent(ratio: float) -> str:
    return f"{100 * ratio:.1f} %".replace("-", "−")
