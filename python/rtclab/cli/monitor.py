"""``rtclab monitor``: prints, writes and plots the streams in captures or on an interface."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import polars as pl

from rtclab import monitor
from rtclab.cli import monitor_tables, tables
from rtclab.cli.sdp import sdp_text
from rtclab.errors import BadInput, DiskFull, FieldError, is_disk_full
from rtclab.monitor import Tables
from rtclab.progress import busy
from rtclab.report.plot import SUFFIXES
from rtclab.trace import replace_file

REFRESH_S = 0.5


@dataclass(frozen=True)
class MonitorRequest:
    """The options of ``rtclab monitor``."""

    captures: list[Path]
    live: str | None
    duration: str | None
    sdp: Path | None
    max_streams: int
    as_json: bool
    as_csv: bool
    parquet: Path | None
    plot: Path | None


def run_monitor(request: MonitorRequest) -> None:
    """Monitors one capture or one interface, or compares two captures.

    Raises:
        BadInput: options contradict each other, or a capture cannot be read.
    """
    _check(request)
    if request.live is not None:
        _watch_interface(request.live, request)
    elif len(request.captures) == 2:
        _compare(request)
    else:
        _watch(request)


def _check(request: MonitorRequest) -> None:
    """Rejects options that contradict each other, before a large file is read."""
    if request.live is not None and request.captures:
        raise BadInput("--live monitors an interface; expected no capture with it")
    if request.live is None and not 1 <= len(request.captures) <= 2:
        raise BadInput(
            f"expected one capture, or two of the same streams; got {len(request.captures)}",
            hint="rtclab monitor call.pcapng",
        )
    if request.live is None and request.duration is not None:
        raise BadInput("--duration: a capture is read to its end; expected --live with it")
    if request.plot is not None and request.plot.suffix not in SUFFIXES:
        raise BadInput(f"--plot: `{request.plot}`: expected a name that ends in {', '.join(SUFFIXES)}")
    if request.as_json and request.as_csv:
        raise BadInput("--json and --csv: expected one of them")


def _watch(request: MonitorRequest) -> None:
    (capture,) = request.captures
    with busy(f"reading {capture}"):
        seen = monitor.watch(
            capture,
            sdp=sdp_text(request.sdp),
            packets=request.parquet is not None,
            seconds=request.parquet is not None or request.plot is not None,
            max_streams=request.max_streams,
        )
    _finish(request, seen, str(capture))


def _watch_interface(interface: str, request: MonitorRequest) -> None:
    """Shows a live table of the streams on an interface, and the summary at the end or on Ctrl-C."""
    length_s = None if request.duration is None else _seconds(request.duration)
    live = monitor.LiveMonitor(
        interface,
        sdp=sdp_text(request.sdp),
        packets=request.parquet is not None,
        seconds=request.parquet is not None or request.plot is not None,
        max_streams=request.max_streams,
    )
    _finish(request, _follow(live, length_s), interface)


def _finish(request: MonitorRequest, seen: Tables, source: str) -> None:
    """Writes, plots and prints the tables of one point."""
    _write_tables(request, seen, source)
    if request.plot is not None:
        from rtclab.report.captures import write_capture_plots

        write_capture_plots(request.plot, source, seen)
    _show(request, seen, monitor_tables.show_capture)


def _seconds(duration: str) -> float:
    from rtclab.scenario.units import Duration

    try:
        return Duration.parse(duration).s
    except FieldError as error:
        raise BadInput(f"--duration: {error.message}", hint=error.hint) from None


def _follow(live: monitor.LiveMonitor, length_s: float | None) -> Tables:
    """Polls until the time is over or the user presses Ctrl-C. The table is shown only on a terminal."""
    end_s = None if length_s is None else time.monotonic() + length_s
    packets = []
    with monitor_tables.refreshing() as refresh, _ctrl_c() as pressed:
        left_s = 0.0
        while left_s >= 0 and not pressed.is_set():
            seen = live.poll(min(left_s, REFRESH_S))
            packets += [seen["packets"]] if "packets" in seen else []
            refresh(seen)
            left_s = REFRESH_S if end_s is None else end_s - time.monotonic()
    return seen | ({"packets": pl.concat(packets)} if packets else {})


@contextmanager
def _ctrl_c() -> Iterator[Event]:
    """Yields an event that Ctrl-C sets. A KeyboardInterrupt would lose the packets of an unfinished poll."""
    pressed = Event()
    before = signal.signal(signal.SIGINT, lambda *_: pressed.set())
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _show(request: MonitorRequest, seen: Tables, show_tables: Callable[[Tables], None]) -> None:
    """Prints the tables in the requested format; ``show_tables`` prints them for people."""
    if request.as_json:
        tables.print_json(_rows(seen))
    elif request.as_csv:
        sys.stdout.write(seen["streams"].write_csv())
    else:
        show_tables(seen)
        if request.parquet is not None:
            print(f"tables: {request.parquet}")
        if request.plot is not None:
            print(f"plot: {request.plot}")


def _compare(request: MonitorRequest) -> None:
    a, b = request.captures
    with busy(f"comparing {a} and {b}"):
        compared = monitor.compare(
            a,
            b,
            sdp=sdp_text(request.sdp),
            packets=request.parquet is not None or request.plot is not None,
            max_streams=request.max_streams,
        )
    _write_tables(request, compared, f"{a} and {b}")
    if request.plot is not None:
        from rtclab.report.captures import write_comparison_plots

        write_comparison_plots(request.plot, f"{a} and {b}", compared)
    _show(request, compared, monitor_tables.show_comparison)


def _write_tables(request: MonitorRequest, seen: Tables, source: str) -> None:
    """Writes every table as a Parquet file into the directory of ``--parquet``."""
    if request.parquet is None:
        return
    try:
        request.parquet.mkdir(parents=True, exist_ok=True)
        with busy(f"writing the tables of {source}"):
            for name, table in seen.items():
                replace_file(request.parquet / f"{name}.parquet", table.write_parquet)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(request.parquet) from error
        raise BadInput(f"--parquet: {request.parquet}: {error.strerror or error}") from None


def _rows(seen: Tables) -> dict[str, list[dict[str, Any]]]:
    """All tables as JSON values, except packets and seconds, which are only written as files."""
    return {name: table.to_dicts() for name, table in seen.items() if name not in ("packets", "seconds")}
