"""The methods of ``rtclab.Trace`` that need importers, metrics and reports, which a trace does not know."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl

from rtclab.errors import BadInput, FieldError
from rtclab.importers import Names
from rtclab.importers.captures import read_captures
from rtclab.metrics import measure_repeats, measure_run
from rtclab.metrics.series import Window
from rtclab.scenario.units import Duration
from rtclab.trace import NS_PER_S, Repeat, Run, RunManifest, Trace

if TYPE_CHECKING:
    from rtclab.report import Plot

__all__ = ["Trace"]

Moment = str | float
"""A time as in a scenario (``"20 s"``), or in seconds."""


def from_pcap(
    sender: Path | str,
    receiver: Path | str | None = None,
    *,
    out: Path | None = None,
    names: Names | None = None,
    sdp: str | None = None,
    corrected: bool = False,
) -> Trace:
    """Makes a trace from captures (pcap or pcapng) for the metrics of rate, delay and loss.

    The tables ``packets``, ``flow_seconds`` and ``delay_histogram`` are filled; the others are empty. With
    two captures, the trace has only RTP packets. A single capture gives rates and losses, but delays only if
    it has packets both entering and leaving, as the emulator's capture does. A flow lasts from its first
    packet until one mean packet interval after its last.

    Args:
        sender: the capture nearer to the sender, or the only one.
        receiver: the capture nearer to the receiver.
        out: directory of the trace. By default a temporary one, which is deleted with the trace.
        names: participants by address (``10.0.0.1``) or by address and port (``10.0.0.1:5004``); or two
            names, of the sender and of the receiver of the first RTP packet. Flows are named after
            participants, and after addresses and ports where no name is given.
        sdp: text of the session descriptions, for the codecs.
        corrected: subtract the estimated difference of the two clocks from the delays.

    Raises:
        BadInput: a capture cannot be read.
        TraceError: nothing was captured.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=1, capture=True)
        >>> trace = rtclab.Trace.from_pcap(run.path / "repeat-0/capture.pcapng", names=["bob", "alice"])
        >>> trace.flows
        ['bob->alice', 'alice->bob']
    """
    captures = Path(sender), None if receiver is None else Path(receiver)
    named = {} if names is None else names
    imported = read_captures(*captures, named, sdp, corrected=corrected)
    if out is not None:
        return Trace.write(out, imported.tables, imported.manifest)
    temporary = TemporaryDirectory(prefix="rtclab-trace-")
    made = Trace.write(Path(temporary.name), imported.tables, imported.manifest)
    made.temporary = temporary
    return made


def metrics(trace: Trace, *, begin: Moment | None = None, end: Moment | None = None) -> pl.DataFrame:
    """The value of every metric for every flow.

    The columns are the columns of :meth:`Run.metrics`: ``metric``, ``unit``, ``better``, ``flow``, ``repeat``
    and ``value``. ``repeat`` is null for a trace that is not a repeat of a run. ``value`` is null where
    nothing could be measured.

    Args:
        begin: measure from this time on, such as ``"10 s"`` or 10; by default from the beginning.
        end: measure up to this time; by default to the end.

    Raises:
        BadInput: a time cannot be read, or ``end`` is not after ``begin``.
        TraceError: a table cannot be read.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.metrics(begin="5 s").filter(metric="packet_loss")["value"].max() <= 100
        True
    """
    return measure_repeats(run_of(trace), _window(trace, begin, end))


def summary(trace: Trace, *, begin: Moment | None = None, end: Moment | None = None) -> pl.DataFrame:
    """As :meth:`Run.summary`, for one repeat: ``mean`` is the value, and there are no intervals.

    ``within_run_sd`` is the standard deviation of one-second samples. Arguments and errors are the same as
    for :meth:`metrics`.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.summary().filter(metric="receiving_rate")["repeats"].to_list()
        [1, 1]
    """
    return measure_run(run_of(trace), _window(trace, begin, end))


def plot(trace: Trace, name: str = "rate", flow: str | None = None) -> Plot:
    """A plot of the trace. A notebook displays it; ``save`` writes it as SVG, PNG, PDF or HTML.

    Args:
        name: the plot's name, such as "rate" or "delay".
        flow: the only flow to draw, such as "alice->bob"; by default all flows of the report.

    Raises:
        BadInput: there is no such plot or flow, or the trace has no data for it.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.plot("delay").save("delay.svg").name
        'delay.svg'
    """
    from rtclab.report import run_plot

    return run_plot(run_of(trace), name, flow)


def report(trace: Trace, path: str | Path) -> Path:
    """Writes the report of the trace, an HTML page; returns its path.

    Raises:
        DiskFull: the page could not be written.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.report("trace.html").name
        'trace.html'
    """
    from rtclab.report import write_report

    return write_report(run_of(trace), page=Path(path))


class _OnlyRepeat(Run):
    """A trace as the only repeat of a run, which has no files of its own."""

    def __init__(self, trace: Trace) -> None:
        about = trace.manifest
        self.path = trace.path
        self.manifest = RunManifest(
            backend=about.backend,
            scenario=about.scenario | {"repeats": 1},
            versions=about.versions,
            machine=about.machine,
            repeats=(Repeat(about.repeat or 0, seed=about.seed or 0, status="finished"),),
        )
        self._opened = {about.repeat or 0: trace}

    @property
    def name(self) -> str:
        """The names of the captures or logs, or else the path."""
        about = self._opened[self.repeats[0].repeat].manifest.capture
        return str(self.path) if about is None else about.files_in_words


def run_of(trace: Trace) -> Run:
    """The trace as a run with one repeat, for functions that measure and show runs."""
    return _OnlyRepeat(trace)


def window(begin: Moment | None, end: Moment | None, *, run_end_s: float) -> Window | None:
    """Begin and end in seconds; None if neither is given.

    Raises:
        BadInput: a time cannot be read, or the end is not after the begin.
    """
    if begin is None and end is None:
        return None
    begin_s = 0.0 if begin is None else _seconds("begin", begin)
    end_s = run_end_s if end is None else min(_seconds("end", end), run_end_s)
    if begin_s >= run_end_s:
        raise BadInput(f"nothing to measure from {begin_s:g} s on: the run ends at {run_end_s:g} s")
    if not 0 <= begin_s < end_s:
        raise BadInput(f"cannot measure from {begin_s:g} s to {end_s:g} s; expected an end after the begin")
    return begin_s, end_s


def _window(trace: Trace, begin: Moment | None, end: Moment | None) -> Window | None:
    return window(begin, end, run_end_s=trace.manifest.duration_ns / NS_PER_S)


def _seconds(name: str, moment: Moment) -> float:
    if not isinstance(moment, str):
        return float(moment)
    try:
        return Duration.parse(moment).s
    except FieldError as error:
        raise BadInput(f"{name}: {error.message}", hint=error.hint) from None


Trace.from_pcap = staticmethod(from_pcap)
Trace.metrics = metrics
Trace.summary = summary
Trace.plot = plot
Trace.report = report
