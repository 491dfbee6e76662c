"""The page that says what L4S buys a video call, and its plot."""

from __future__ import annotations

from collections.abc import Iterator
from math import isnan
from pathlib import Path

import numpy as np

from rtclab.metrics import METRICS, Difference, Summary, holm
from rtclab.report import Axes, Axis, Dots, Drawing, Look, as_svg
from rtclab.trace import write_text
from rtclab_papers.validate import l4s, notes_of
from rtclab_papers.validate.l4s import CASES, CELLS, CONTROLS, LIVE, QUEUES, SIM, Cell, Found

SIDES = {SIM: "simulated", LIVE: "live"}
CONTRASTS = (
    ("SCReAM behind DualPI2 against goog-cc behind a FIFO", ("fifo", "goog-cc"), ("dualpi2", "scream")),
    ("SCReAM behind DualPI2 against SCReAM behind a FIFO", ("fifo", "scream"), ("dualpi2", "scream")),
    ("SCReAM behind DualPI2 against goog-cc behind FQ-CoDel", ("fq_codel", "goog-cc"), ("dualpi2", "scream")),
    ("goog-cc behind DualPI2 against goog-cc behind a FIFO", ("fifo", "goog-cc"), ("dualpi2", "goog-cc")),
    ("SCReAM against goog-cc, both behind a FIFO", ("fifo", "goog-cc"), ("fifo", "scream")),
)
"""What is compared: words, and queue and control before and after."""
COMPARED = ("receiving_rate", "queuing_delay_p95", "freeze_duration_w3c")
"""The metrics whose differences are told."""


def write_l4s(page: Path, found: Found) -> None:
    """Writes the page, and its plot beside it. Text below the line ``NOTES`` of the page is kept."""
    page.parent.mkdir(parents=True, exist_ok=True)
    drawing = _drawing(found)
    write_text(page.with_name(f"{page.stem}-{drawing.name}.svg"), as_svg(drawing))
    write_text(page, "\n".join(_page(page.stem, found)) + "\n" + notes_of(page))


def _page(stem: str, found: Found) -> Iterator[str]:
    yield "# What does L4S buy a video call?"
    yield ""
    yield "Made by `rtclab validate --l4s`. Two people call each other over links with a one-way delay of"
    yield f"{l4s.DELAY} each, with 720p video of at most {l4s.VIDEO['max_bitrate']} and audio. The call uses"
    yield "goog-cc or Chromium's SCReAM, which sends ECT(1) and gets feedback as in RFC 8888. The queue is a"
    yield "FIFO, FQ-CoDel (RFC 8290, which marks ECN-capable packets) or DualPI2 (RFC 9332), each with its"
    yield "defaults. The call is alone, or beside one endless TCP connection in the same direction, which"
    yield f"starts after {l4s.TCP_START}."
    yield ""
    live, sim = l4s.LIVE_REPEATS, l4s.SIMULATED_REPEATS
    yield f"Each condition is simulated {sim} times, and run {live} times with two real Chromiums for"
    yield f"{l4s.DURATION_S} s. No stock kernel has Prague, so it is only simulated. Values are means over"
    yield "the whole call from alice to bob, and of TCP over its time, with the 95 % interval of the mean"
    yield "in brackets."
    yield ""
    yield "## The answer"
    yield ""
    yield "The mean difference, with its 95 % interval, simulated and live. In bold: more than chance, over"
    yield "all differences of the table together (Holm, 5 %)."
    yield ""
    yield from _contrasts(found)
    yield ""
    yield "Filled signs are simulated, hollow ones live, with the 95 % interval of the mean rate:"
    yield ""
    yield f"![Rate and queuing delay]({stem}-rate-and-delay.svg)"
    yield ""
    for case, (words, _, tcp) in CASES.items():
        yield f"## The call {words}"
        yield ""
        yield from _table(found, case, tcp=bool(tcp))
        yield ""


def _contrasts(found: Found) -> Iterator[str]:
    rows = [
        (words, case, Cell(case, *before), Cell(case, *after))
        for words, before, after in CONTRASTS
        for case in CASES
    ]
    differences = {
        (words, case, side, metric): found.difference(before, after, side, metric)
        for words, case, before, after in rows
        for side in SIDES
        for metric in COMPARED
    }
    marks = dict(zip(differences, holm([one.p for one in differences.values()]), strict=True))
    heads = [f"{_label(metric)}, {side}" for metric in COMPARED for side in SIDES.values()]
    yield f"| compared | case | {' | '.join(heads)} |"
    yield f"|---|---|{'---:|' * len(heads)}"
    for words, case, _, _ in rows:
        cells = [
            _difference(differences[key], bold=bool(marks[key]))
            for metric in COMPARED
            for side in SIDES
            for key in [(words, case, side, metric)]
        ]
        yield f"| {words} | {CASES[case][0]} | {' | '.join(cells)} |"


def _table(found: Found, case: str, *, tcp: bool) -> Iterator[str]:
    heads = [_label(metric) for metric in l4s.MEASURED] + ["TCP (kbit/s)"] * tcp
    yield f"| queue | control | | {' | '.join(heads)} |"
    yield f"|---|---|---|{'---:|' * len(heads)}"
    for cell in CELLS:
        if cell.case != case:
            continue
        for side, words in SIDES.items():
            values = [found.summary(cell, side, metric) for metric in l4s.MEASURED]
            values += [found.tcp(cell, side)] * tcp
            if any(one.repeats for one in values):
                told = " | ".join(map(_mean, values))
                yield f"| {QUEUES[cell.queue][0]} | {CONTROLS[cell.control]} | {words} | {told} |"


def _label(metric: str) -> str:
    known = METRICS[metric]
    return f"{known.label} ({known.unit})" if known.unit else known.label


def _mean(one: Summary) -> str:
    """A mean with its interval. Spaces in it do not break."""
    if not one.repeats:
        return "–"
    if isnan(one.ci95):
        return _digits(one.mean)
    return f"{_digits(one.mean)} [{_digits(one.ci95_low)}, {_digits(one.ci95_high)}]".replace(" ", "\u00a0")


def _difference(one: Difference, *, bold: bool) -> str:
    """A difference with its interval. Spaces in it do not break."""
    if isnan(one.value):
        return "–"
    told = f"{one.value:+.3g}"
    if not isnan(one.ci95):
        told += f" [{one.ci95_low:+.3g}, {one.ci95_high:+.3g}]".replace(" ", "\u00a0")
    return f"**{told}**" if bold else told


def _digits(value: float) -> str:
    """Three digits, or all before the point."""
    return f"{value:.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _drawing(found: Found) -> Drawing:
    """Rate against queuing delay: axes for each case, a look for each queue and control."""
    combinations = [(queue, control) for queue in QUEUES for control in CONTROLS]
    axes, largest = [], [1.0, 1.0]
    for case, (words, _, _) in CASES.items():
        dots = []
        for index, (queue, control) in enumerate(combinations):
            look = Look.numbered(index, f"{CONTROLS[control]}, {QUEUES[queue][0]}")
            for side in SIDES:
                cell = Cell(case, queue, control)
                delay = found.summary(cell, side, "queuing_delay_p95")
                rate = found.summary(cell, side, "receiving_rate")
                if not (delay.repeats and rate.repeats):
                    continue
                ends = [rate.mean if isnan(end) else end for end in (rate.ci95_low, rate.ci95_high)]
                largest = [max(largest[0], delay.mean), max(largest[1], *ends)]
                x, y, low, high = (np.array([value]) for value in (delay.mean, rate.mean, *ends))
                dots.append(Dots(look, x, y, low, high, hollow=side == LIVE))
        axes.append(Axes(words, dots))
    title = "Rate and queuing delay of the call: filled simulated, hollow live"
    return Drawing(
        "rate-and-delay",
        title,
        title,
        Axis.from_zero(_label("queuing_delay_p95"), largest[0]),
        Axis.from_zero(_label("receiving_rate"), largest[1]),
        axes,
    )
