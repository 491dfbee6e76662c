"""``rtclab replay``: replays recorded packets into rtclab's congestion controls."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rtclab.cli import tables
from rtclab.errors import BadInput
from rtclab.replays import ArrivalReplay, LogReplay
from rtclab.replays.log import SETTLED_S
from rtclab.report.page import write_plot_page

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


def write_plots(out: Path, replays: Sequence[LogReplay | ArrivalReplay]) -> None:
    """Writes all plots into one page, or a single one as an image."""
    if out.suffix == ".html":
        write_plot_page(out, "Replay", [one.plot() for one in replays])
        return
    if len(replays) > 1:
        raise BadInput(f"--plot {out}: {len(replays)} plots do not fit into an image", hint="name it .html")
    replays[0].plot().save(out)
