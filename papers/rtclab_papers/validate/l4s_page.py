"""The page that says what L4S buys a video call, and its plot."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import isnan
from pathlib import Path

import numpy as np

from rtclab.metrics import Difference, Summary, holm
from rtclab.report import Axes, Axis, Dots, Drawing, Style
from rtclab_papers.campaigns import LIVE, SIM
from rtclab_papers.markdown import digits, table, with_ends, with_unit, write_page
from rtclab_papers.validate import l4s
from rtclab_papers.validate.l4s import CASES, CELLS, CONTROLS, QUEUES, Cell, Repeats

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


def write_l4s(page: Path, found: Repeats) -> None:
    """Writes the page, and its plot beside it. Text below the line ``NOTES`` of the page is kept."""
    write_page(page, _page(page.stem, found), [_drawing(found)])


def _page(stem: str, found: Repeats) -> Iterator[str]:
    yield "# What does L4S buy a video call?"
    yield f"""\
Made by `rtclab validate l4s`. Two people call each other over links with a one-way delay of
{l4s.DELAY} each, with 720p video of at most {l4s.VIDEO["max_bitrate"]} and audio. The call uses
goog-cc or Chromium's SCReAM, which sends ECT(1) and gets feedback as in RFC 8888. The queue is a
FIFO, FQ-CoDel (RFC 8290, which marks ECN-capable packets) or DualPI2 (RFC 9332), each with its
defaults. The call is alone, or beside one endless TCP connection in the same direction, which
starts after {l4s.TCP_START}."""
    live, sim = l4s.LIVE_REPEATS, l4s.SIMULATED_REPEATS
    yield f"""\
Each condition is simulated {sim} times, and run {live} times with two real Chromiums for
{l4s.DURATION_S} s. No stock kernel has Prague, so it is only simulated. Values are means over
the whole call from alice to bob, and of TCP over its time, with the 95 % interval of the mean
in brackets."""
    yield "## The answer"
    yield """\
The mean difference, with its 95 % interval, simulated and live. In bold: more than chance, over
all differences of the table together (Holm, 5 %)."""
    yield _contrasts(found)
    yield "Filled signs are simulated, hollow ones live, with the 95 % interval of the mean rate:"
    yield f"![Rate and queuing delay]({stem}-rate-and-delay.svg)"
    for case, (words, _, tcp) in CASES.items():
        yield f"## The call {words}"
        yield _table(found, case, tcp=bool(tcp))


def _contrasts(found: Repeats) -> str:
    keys = [*product(CONTRASTS, CASES, COMPARED, SIDES)]
    differences = [
        found.difference(Cell(case, *before), Cell(case, *after), side, metric)
        for (_, before, after), case, metric, side in keys
    ]
    rows: dict[tuple[str, str], list[str]] = {}
    marks = holm([one.p for one in differences])
    for ((words, *_), case, *_), one, mark in zip(keys, differences, marks, strict=True):
        rows.setdefault((words, CASES[case][0]), []).append(_difference(one, bold=bool(mark)))
    heads = [f"{with_unit(metric)}, {words}" for metric, words in product(COMPARED, SIDES.values())]
    return table(["compared", "case", *heads], ([*key, *cells] for key, cells in rows.items()), "llr")


def _table(found: Repeats, case: str, *, tcp: bool) -> str:
    heads = [with_unit(metric) for metric in l4s.MEASURED] + ["TCP (kbit/s)"] * tcp
    rows = []
    for cell in CELLS:
        for side, words in SIDES.items() if cell.case == case else ():
            values = [found.summary(cell, side, metric) for metric in l4s.MEASURED]
            values += [found.tcp(cell, side)] * tcp
            if any(one.repeats for one in values):
                what = (QUEUES[cell.queue][0], CONTROLS[cell.control], words)
                rows.append([*what, *map(_mean, values)])
    return table(["queue", "control", "", *heads], rows, "lllr")


def _mean(one: Summary) -> str:
    """A mean with its interval. Spaces in it do not break."""
    if not one.repeats:
        return "–"
    if isnan(one.ci95):
        return digits(one.mean)
    return with_ends(one.mean, one.ci95_low, one.ci95_high).replace(" ", "\u00a0")


def _difference(one: Difference, *, bold: bool) -> str:
    """A difference with its interval. Spaces in it do not break."""
    if isnan(one.value):
        return "–"
    told = f"{one.value:+.3g}"
    if not isnan(one.ci95):
        told += f" [{one.ci95_low:+.3g}, {one.ci95_high:+.3g}]".replace(" ", "\u00a0")
    return f"**{told}**" if bold else told


def _drawing(found: Repeats) -> Drawing:
    """Rate against queuing delay: axes for each case, a look for each queue and control."""
    axes, largest = [], [1.0, 1.0]
    for case, (words, _, _) in CASES.items():
        dots = []
        for index, (queue, control) in enumerate(product(QUEUES, CONTROLS)):
            look = Style.numbered(index, f"{CONTROLS[control]}, {QUEUES[queue][0]}")
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
    delays = Axis.from_zero(with_unit("queuing_delay_p95"), largest[0])
    rates = Axis.from_zero(with_unit("receiving_rate"), largest[1])
    return Drawing("rate-and-delay", title, title, delays, rates, axes)
