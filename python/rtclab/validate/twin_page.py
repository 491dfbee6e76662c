"""The page that compares simulated and live calls in random conditions, and its plots."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from math import nan
from pathlib import Path
from statistics import median

import numpy as np
import polars as pl

from rtclab.metrics import METRICS
from rtclab.metrics.series import Array
from rtclab.report.drawing import Axes, Axis, Dots, Drawing, Line, Look
from rtclab.report.picture import as_svg
from rtclab.trace import write_text
from rtclab.validate import notes_of
from rtclab.validate.conditions import DISTRIBUTION, DURATION_S
from rtclab.validate.twin import COMPARED, SIMULATED_REPEATS, Outcome, Pair

HALVES = {"odd": "odd seeds", "even": "even seeds"}
SCATTERED = tuple(name for name in COMPARED if not name.startswith("setup_") or name == "setup_time")
LOGARITHMIC = frozenset(
    {"receiving_rate", "rtt", "delay_variation_p50", "delay_variation_p95", "setup_time", "packet_loss"}
)
WORST = 10
FREEZES_APART = 1.0
"""Freezes, or seconds of freeze, that may differ."""
FREEZES_RATIO = 0.3
"""Share of the live value by which freezes may differ."""
LADDER_STEP = math.sqrt(3 / 4)
"""Neighbouring heights of libwebrtc's resolutions are 3/4 or 2/3 of each other."""


def write_twin(page: Path, outcomes: Sequence[Outcome], reasons: Path) -> None:
    """Writes the page, and its plots beside it as ``NAME-METRIC.svg``.

    Args:
        page: the Markdown file. Text below its line ``NOTES`` is kept.
        outcomes: the conditions.
        reasons: CSV file with columns ``seed`` and ``reason``, written by hand.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    for drawing in drawings(outcomes):
        write_text(page.with_name(f"{page.stem}-{drawing.name}.svg"), as_svg(drawing))
    write_text(page, "\n".join(_page(page.stem, outcomes, read_reasons(reasons))) + "\n" + notes_of(page))


def read_reasons(file: Path) -> dict[int, str]:
    """The reasons for the worst conditions, by seed."""
    if not file.is_file():
        return {}
    return dict(pl.read_csv(file).select("seed", "reason").iter_rows())


def _page(stem: str, outcomes: Sequence[Outcome], reasons: dict[int, str]) -> Iterator[str]:
    yield from introduction()
    yield from _figures(outcomes)
    yield from _coverage(outcomes)
    yield "## Simulated against live"
    yield ""
    yield "Each dot is one direction of a condition. Its bar is the interval in which 95 % of further"
    yield "simulated repeats are expected. On the line, both values are equal."
    yield ""
    for name in SCATTERED:
        yield f"![{METRICS[name].label}: simulated against live]({stem}-{name}.svg)"
        yield ""
    yield f"![Errors of the metrics]({stem}-errors.svg)"
    yield ""
    yield from _worst(outcomes, reasons)
    yield from _failures(outcomes)
    yield "## Distribution of the conditions"
    yield ""
    yield "| property | distribution |"
    yield "|---|---|"
    for what, distribution in DISTRIBUTION:
        yield f"| {what} | {distribution} |"
    yield ""


def introduction() -> Iterator[str]:
    """The lines of the page above its figures."""
    yield "# The twin: random conditions, simulated against live"
    yield ""
    yield "How well does a simulation predict a live call in a network that is drawn at random? Each live"
    yield "call here has a twin, which is simulated in the same condition."
    yield ""
    yield "Made by `rtclab validate --random`. Each condition is a call of two people, drawn from the"
    yield f"distribution below, run once with two real Chromiums for {DURATION_S} s and simulated"
    yield f"{SIMULATED_REPEATS} times. Values are over the whole call, per direction."
    yield ""
    yield "The models were improved on the conditions with odd seeds. The conditions with even seeds were"
    yield "held out until they were first compared. The models have changed since, so neither half is held"
    yield "out now."
    yield ""


def _figures(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "## Errors"
    yield ""
    yield "Errors are simulated minus live, in per cent of live, without sign. Freezes are compared where"
    yield "live had any."
    yield ""
    halves = [[one for one in outcomes if one.condition.half == half] for half in HALVES]
    yield "| figure | " + " | ".join(f"{words}" for words in HALVES.values()) + " |"
    yield "|---|---|---|"
    counted = [f"{len(half)} conditions" for half in halves]
    yield f"| number | {' | '.join(counted)} |"
    table = [dict(figures(half)) for half in halves]
    for label in table[0]:
        yield f"| {label} | {' | '.join(one[label] for one in table)} |"
    yield ""


def figures(outcomes: Sequence[Outcome]) -> Iterator[tuple[str, str]]:
    """The figures of one half: a label and a text each."""
    pairs = [pair for one in outcomes for pair in one.pairs]

    def errors(name: str) -> list[float]:
        known = (abs(pair.error) for pair in pairs if pair.metric == name)
        return [error for error in known if not math.isnan(error)]

    def center(name: str) -> str:
        return _percent(_median(errors(name)))

    rate = errors("receiving_rate")
    yield "mean rate, median error", _percent(_median(rate))
    yield "mean rate, within 10 %", _percent(_share([error <= 0.1 for error in rate]))
    for words, loses in (("without loss on the wire", False), ("with loss on the wire", True)):
        seeds = {one.condition.seed for one in outcomes if one.condition.loses is loses}
        own = [pair for pair in pairs if pair.metric == "receiving_rate" and pair.seed in seeds]
        apart = [abs(pair.error) for pair in own if not math.isnan(pair.error)]
        within = _percent(_share([error <= 0.1 for error in apart]))
        yield f"mean rate {words}, median error; within 10 %", f"{_percent(_median(apart))}; {within}"
    yield "round trip, median error", center("rtt")
    yield "delay variation p50, median error", center("delay_variation_p50")
    yield "delay variation p95, median error", center("delay_variation_p95")
    yield "frame rate, median error", center("frame_rate")
    heights = [_same_step(pair) for pair in pairs if pair.metric == "frame_height"]
    yield "same step of resolution", _percent(_share(heights))
    for name, label, unit in (("freeze_count", "freezes", ""), ("freeze_duration", "time frozen", " s")):
        some = [pair for pair in pairs if pair.metric == name and pair.live > 0]
        differences = [abs(pair.simulated - pair.live) for pair in some]
        good = [
            difference <= max(FREEZES_APART, FREEZES_RATIO * pair.live)
            for difference, pair in zip(differences, some, strict=True)
        ]
        yield (
            f"{label}, median error",
            f"{_median(differences):.1f}{unit}, {_percent(_median([abs(pair.error) for pair in some]))}"
            if some
            else "–",
        )
        yield f"{label}, within 1{unit} or 30 %", _percent(_share(good))
    setup = [_stages(one, flow) for one in outcomes for flow in {pair.flow for pair in one.pairs}]
    stages = [abs(simulated - live) / live for live, simulated in setup if live > 0]
    yield "set-up until DTLS, median error", _percent(_median(stages))
    yield "set-up until the first frame, median error", center("setup_time")
    one_side = sum(one.connects_on_one_side_only for one in outcomes)
    yield "calls that connect on one side only", f"{one_side} of {len(outcomes)}"
    yield "disturbed by the machine three times", str(sum(bool(one.disturbed) for one in outcomes))


def _stages(outcome: Outcome, flow: str) -> tuple[float, float]:
    """Live and simulated time from joining to the end of DTLS; NaN if a stage is missing."""
    names = ("setup_signalling", "setup_ice", "setup_dtls")
    found = [pair for pair in outcome.pairs if pair.flow == flow and pair.metric in names]
    if len(found) < len(names):
        return nan, nan
    return sum(pair.live for pair in found), sum(pair.simulated for pair in found)


def _same_step(pair: Pair) -> bool:
    """Whether two mean heights are less than half a step of libwebrtc's resolutions apart."""
    return LADDER_STEP < pair.simulated / pair.live < 1 / LADDER_STEP


def _coverage(outcomes: Sequence[Outcome]) -> Iterator[str]:
    yield "## Coverage"
    yield ""
    yield "Share of the live values in the interval in which 95 % of further simulated repeats are expected."
    yield ""
    yield "| metric | " + " | ".join(HALVES.values()) + " |"
    yield "|---|---|---|"
    for name in COMPARED:
        shares = []
        for half in HALVES:
            pairs = [p for one in outcomes for p in one.pairs if (p.metric, p.half) == (name, half)]
            shares.append(_percent(_share([pair.covered for pair in pairs if not math.isnan(pair.low)])))
        yield f"| {METRICS[name].label} | {' | '.join(shares)} |"
    yield ""


def _worst(outcomes: Sequence[Outcome], reasons: dict[int, str]) -> Iterator[str]:
    yield f"## The {WORST} largest errors of the rate"
    yield ""
    yield "| seed | condition | direction | live, kbit/s | simulated | interval | error | reason |"
    yield "|---|---|---|---|---|---|---|---|"
    by_seed = {one.condition.seed: one for one in outcomes}
    rates = [pair for one in outcomes for pair in one.pairs if pair.metric == "receiving_rate"]
    worst = sorted((pair for pair in rates if pair.live > 0), key=lambda pair: -abs(pair.error))
    for pair in worst[:WORST]:
        yield (
            f"| {pair.seed} | {by_seed[pair.seed].condition.words} | {pair.flow.replace('->', ' → ')} "
            f"| {pair.live:.0f} | {pair.simulated:.0f} | {pair.low:.0f} to {pair.high:.0f} "
            f"| {pair.error:+.0%} | {reasons.get(pair.seed, '')} |"
        )
    yield ""
    covered = sum(pair.covered for pair in worst[:WORST])
    yield f"{covered} of these {len(worst[:WORST])} live values lie in the simulated interval."
    yield ""


def _failures(outcomes: Sequence[Outcome]) -> Iterator[str]:
    lonely = [one for one in outcomes if one.connects_on_one_side_only]
    if not lonely:
        return
    yield "## Calls that connect on one side only"
    yield ""
    for one in lonely:
        side = "live" if one.live_connected else "simulated"
        share = f"{one.simulated_connected} of {SIMULATED_REPEATS} simulated calls connect"
        yield f"- {one.condition.seed}: {one.condition.words}. Connects {side}; {share}."
    yield ""


def drawings(outcomes: Sequence[Outcome]) -> list[Drawing]:
    """A scatter per metric, with the halves side by side, and the distributions of the errors."""
    pairs = [pair for one in outcomes for pair in one.pairs]
    scatters = [_scatter(name, [pair for pair in pairs if pair.metric == name]) for name in SCATTERED]
    return [*scatters, _distributions(pairs)]


def _scatter(name: str, pairs: Sequence[Pair]) -> Drawing:
    metric = METRICS[name]
    unit = f" ({metric.unit})" if metric.unit else ""
    logarithmic = name in LOGARITHMIC
    shown = [pair for pair in pairs if not logarithmic or min(pair.live, pair.simulated) > 0]
    values = [value for pair in shown for value in (pair.live, pair.simulated)] or [1.0]
    smallest, biggest = min(values), max(values)
    if logarithmic:
        begin, end = math.log10(smallest) - 0.1, math.log10(biggest) + 0.1
        places, names = ticks(begin, end)
        x, y = (Axis(f"{side}{unit}", begin, end, names, places) for side in ("live", "simulated"))
    else:
        begin, end = 0.0, 1.05 * biggest or 1.0
        x, y = (Axis(f"{side}{unit}", begin, end) for side in ("live", "simulated"))

    def placed(values: Sequence[float]) -> Array:
        array = np.maximum(np.asarray(values, dtype=np.float64), 10**begin if logarithmic else begin)
        return np.asarray(np.log10(array)) if logarithmic else array

    axes = []
    for index, (half, words) in enumerate(HALVES.items()):
        own = [pair for pair in shown if pair.half == half]
        look = Look.numbered(index, words)
        low = [pair.simulated if math.isnan(pair.low) else pair.low for pair in own]
        high = [pair.simulated if math.isnan(pair.high) else min(pair.high, 2 * biggest) for pair in own]
        dots = Dots(
            look,
            placed([pair.live for pair in own]),
            placed([pair.simulated for pair in own]),
            placed(low),
            placed(high),
        )
        line = np.array([begin, end])
        axes.append(Axes(words, [Line(Look("equal", "#6b6b6b"), line, line), dots]))
    title = f"{metric.label}: simulated against live"
    return Drawing(name, title, title, x, y, axes)


def ticks(begin: float, end: float) -> tuple[list[float], list[str]]:
    """Places and names of the ticks 1, 2 and 5 of each decade. Places and ends are decimal logarithms."""
    found = []
    for decade in range(math.floor(begin), math.ceil(end) + 1):
        for digit in (1, 2, 5):
            place = math.log10(digit) + decade
            if begin <= place <= end:
                found.append((place, f"{digit * 10.0**decade:g}"))
    return [place for place, _ in found], [name for _, name in found]


def _distributions(pairs: Sequence[Pair]) -> Drawing:
    shown = (
        "receiving_rate",
        "rtt",
        "delay_variation_p50",
        "delay_variation_p95",
        "frame_rate",
        "frame_height",
        "setup_time",
    )
    axes = []
    for half, words in HALVES.items():
        lines = []
        for index, name in enumerate(shown):
            own = (abs(pair.error) for pair in pairs if (pair.metric, pair.half) == (name, half))
            errors = np.sort([100 * error for error in own if not math.isnan(error)])
            share = 100 * np.arange(1, errors.size + 1) / max(errors.size, 1)
            lines.append(Line(Look.numbered(index, METRICS[name].label), errors, share, steps=True))
        axes.append(Axes(words, lines))
    title = "Errors: share of the values whose error is at most this large"
    x, y = Axis("error (%)", 0, 50), Axis("share of values (%)", 0, 100)
    return Drawing("errors", title, title, x, y, axes)


def _median(values: Sequence[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return median(known) if known else nan


def _share(good: Sequence[bool]) -> float:
    return sum(good) / len(good) if good else nan


def _percent(ratio: float) -> str:
    return "–" if math.isnan(ratio) else f"{100 * ratio:.1f} %"
