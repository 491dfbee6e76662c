"""``rtclab monitor``: prints, writes and plots the streams in captures or on an interface."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event

import polars as pl

from rtclab import monitoring
from rtclab.cli import monitor_tables
from rtclab.errors import BadInput, DiskFull, is_disk_full
from rtclab.monitoring import Tables
from rtclab.progress import busy
from rtclab.report.plot import SUFFIXES
from rtclab.trace import replace_file

REFRESH_S = 0.5


def check_options(
    captures: Sequence[Path], live: str | None, duration: str | None, plot: Path | None
) -> None:
    """Rejects options that contradict each other, before a large file is read."""
    if live is not None and captures:
        raise BadInput("--live monitors an interface; expected no capture with it")
    if live is None and not 1 <= len(captures) <= 2:
        raise BadInput(
            f"expected one capture, or two of the same streams; got {len(captures)}",
            hint="rtclab monitor call.pcapng",
        )
    if live is None and duration is not None:
        raise BadInput("--duration: a capture is read to its end; expected --live with it")
    if plot is not None and plot.suffix not in SUFFIXES:
        raise BadInput(f"--plot: `{plot}`: expected a name that ends in {', '.join(SUFFIXES)}")


def tables_of(
    captures: Sequence[Path],
    interface: str | None,
    duration: str | None,
    *,
    sdp: str | None,
    packets: bool,
    seconds: bool,
    max_streams: int,
) -> Tables:
    """The tables of one capture, of two captures, or of an interface until its time is over or Ctrl-C."""
    if interface is not None:
        from rtclab.experiment.window import seconds_in

        length_s = None if duration is None else seconds_in("--duration", duration)
        live = monitoring.LiveMonitor(
            interface, sdp=sdp, packets=packets, seconds=seconds, max_streams=max_streams
        )
        return _follow(live, length_s)
    if len(captures) == 2:
        a, b = captures
        with busy(f"comparing {a} and {b}"):
            return monitoring.follow(a, b, sdp=sdp, packets=packets, max_streams=max_streams)
    (capture,) = captures
    with busy(f"reading {capture}"):
        return monitoring.monitor(capture, sdp=sdp, packets=packets, seconds=seconds, max_streams=max_streams)


def _follow(live: monitoring.LiveMonitor, length_s: float | None) -> Tables:
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


def write_tables(directory: Path, seen: Tables, source: str) -> None:
    """Writes every table as a Parquet file into a directory."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        with busy(f"writing the tables of {source}"):
            for name, table in seen.items():
                replace_file(directory / f"{name}.parquet", table.write_parquet)
    except OSError as error:
        if is_disk_full(error):
            raise DiskFull(directory) from error
        raise BadInput(f"--parquet: {directory}: {error.strerror or error}") from None
