"""``rtclab replay``: replays recorded packets into rtclab's congestion controls."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rtclab.cli import tables
from rtclab.errors import BadInput
from rtclab.phrases import count, names_in_words
from rtclab.replays import ArrivalReplay, LogReplay
from rtclab.replays.log import SETTLED_S
from rtclab.report.answer import Answer, Figure
from rtclab.report.page import write_page

MOST_NAMES = 5
"""Of more logs, controls or figures, the others are left out or counted."""
_SHARES = ("within_5_percent", "within_10_percent")


def show_logs(replays: Sequence[LogReplay]) -> None:
    """One row for each log and control, and the state at each first divergence from the browser."""
    if not replays:
        return
    table = tables.new_table(
        *tables.whole("log", "control"),
        *tables.right("within 5 % (%)", "within 10 % (%)", "median error (%)", "first off at (s)"),
    )
    for one in replays:
        figures = one.figures()
        numbers = [figures[name] for name in (*_SHARES, "median_error_percent", "first_divergence_s")]
        table.add_row(one.log.name, str(one.choice), *(_number(value) for value in numbers))
    tables.print_table(table)
    for one in replays:
        figures = one.figures()
        if figures["first_divergence_s"] is not None:
            print(
                f"{one.log.name}, {one.choice}: off by more than 5 % at {figures['first_divergence_s']:.3f} s"
            )
            for side, values in figures["reasons"].items():
                print(f"  {side}: {', '.join(f'{name} {value:.6g}' for name, value in values.items())}")
        if one.rembs is not None:
            print(f"{one.log.name}, {one.choice}: fed with {one.fed}")
        for note in one.notes:
            print(f"{one.log.name}: {note}", file=sys.stderr)
    print(f"shares of the time from {SETTLED_S:g} s after the browser's control began")


def show_captures(replays: Sequence[ArrivalReplay]) -> None:
    """One row for each flow and control."""
    if not replays:
        return
    table = tables.new_table(
        *tables.whole("capture", "control", "flow"),
        *tables.right("REMBs", "mean (kbit/s)", "last (kbit/s)", "last in capture (kbit/s)"),
    )
    for one in replays:
        for flow in one.figures()["flows"]:
            rates = (flow["mean_bps"], flow["last_bps"], flow["last_in_capture_bps"])
            kbps = (_number(None if rate is None else rate / 1000) for rate in rates)
            table.add_row(one.capture.name, str(one.choice), flow["flow"], str(flow["rembs"]), *kbps)
    tables.print_table(table)


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f}"


def _title(replays: Sequence[LogReplay | ArrivalReplay]) -> str:
    """What was replayed into what: ``event.log replayed into goog-cc``."""
    sources = [one.log.name if isinstance(one, LogReplay) else one.capture.name for one in replays]
    names = (list(dict.fromkeys(of)) for of in (sources, [str(one.choice) for one in replays]))
    what, controls = (names_in_words(of, MOST_NAMES) for of in names)
    return f"{what} replayed into {controls}"


def _answer(replays: Sequence[LogReplay | ArrivalReplay]) -> Answer:
    """How near the targets are to the browser's, or which rates the controls ask for."""
    logs = [one for one in replays if isinstance(one, LogReplay)]
    known = [(one, one.figures()) for one in logs]
    judged = [(one, of) for one, of in known if of[_SHARES[0]] is not None]
    if not logs:
        how = "The rates that each control asks for, from the packets that arrived."
    elif not judged:
        how = "How near the targets are to the browser's own is not known."
    else:
        one, of = max(judged, key=lambda pair: pair[1][_SHARES[0]])
        most = f", the most of {count(len(judged), 'replay')}" if len(judged) > 1 else ""
        share = f"{_number(of[_SHARES[0]])} % of the time"
        of_log = f"{share} in {one.log.name}{most}"
        how = f"The target of {one.choice} is within 5 % of the browser's own for {of_log}."
    figures = [_of_log(one, of) for one, of in known]
    figures += [_of_flow(one, flow) for one in replays if one not in logs for flow in one.figures()["flows"]]
    return Answer(how, figures=figures[:MOST_NAMES])


def _of_log(one: LogReplay, known: Mapping[str, Any]) -> Figure:
    near, error = _number(known[_SHARES[1]]), _number(known["median_error_percent"])
    told = f"of the time; within 10 %: {near} %; median error {error} %"
    return Figure(f"Within 5 %, {one.choice}, {one.log.name}", _number(known[_SHARES[0]]), "%", about=told)


def _of_flow(one: LogReplay | ArrivalReplay, flow: Mapping[str, Any]) -> Figure:
    rate = None if flow["mean_bps"] is None else flow["mean_bps"] / 1000
    label = f"Mean rate asked for, {one.choice}, {flow['flow']}"
    return Figure(label, _number(rate), "kbit/s", about=count(flow["rembs"], "REMB"))


def write_plots(out: Path, replays: Sequence[LogReplay | ArrivalReplay]) -> None:
    """Writes all plots into one page, or a single one as an image."""
    if out.suffix == ".html":
        # A page finds the data of a plot by its name.
        named = enumerate((one.plot() for one in replays), 1)
        plots = [replace(plot, name=f"{plot.name}-{number}") for number, plot in named]
        write_page(out, "plots.html", plots, title=_title(replays), found=_answer(replays), rows=[])
        return
    if len(replays) > 1:
        raise BadInput(f"--plot {out}: {len(replays)} plots do not fit into an image", hint="name it .html")
    replays[0].plot().save(out)
