"""The methods of ``rtclab.Trace`` that need importers, metrics and reports, which a trace does not know."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import polars as pl

from rtclab.experiment import Moment, metrics_of, summary_of_run
from rtclab.experiment.flows import Flows
from rtclab.experiment.window import check_reached, open_window
from rtclab.importers import Names
from rtclab.importers.captures import read_captures
from rtclab.renamed import BETWEEN, renamed
from rtclab.trace import Repeat, Run, Trace, closed

if TYPE_CHECKING:
    from rtclab.report import Plot

__all__ = ["Trace"]


def from_pcap(
    sender: Path | str,
    receiver: Path | str | None = None,
    *,
    out: str | Path | None = None,
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


def between(trace: Trace, begin: Moment | None = None, end: Moment | None = None) -> Trace:
    """The trace over a part of its time: its tables, metrics, plots and report are of that time.

    Times count from the begin of the repeat, whatever part the trace is about. Without arguments, it is about
    all of the time.

    Args:
        begin: the begin, such as ``"10 s"`` or 10 (seconds); by default the begin of the repeat.
        end: the end, which is excluded; by default the end of the repeat.

    Raises:
        BadInput: a time cannot be read, ``end`` is not after ``begin``, or the repeat ends before ``begin``.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.between("5 s").table("packets")["sent_ns"].min() >= 5e9
        True
    """
    window = open_window(begin, end)
    check_reached(window, [trace.end_s])
    return trace.within(window and closed(window, trace.end_s))


@renamed(begin=BETWEEN, end=BETWEEN)
def metrics(trace: Trace) -> pl.DataFrame:
    """The value of every metric for every flow, with the columns of :meth:`rtclab.Results.metrics`.

    A metric that could not be measured has no row.

    Raises:
        TraceError: a table cannot be read.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.between("5 s").metrics().filter(metric="packet_loss")["value"].max() <= 100
        True
    """
    return metrics_of(run_of(trace))


@renamed(begin=BETWEEN, end=BETWEEN)
def summary(trace: Trace) -> pl.DataFrame:
    """As :meth:`rtclab.Results.summary`, for one repeat: ``mean`` is the value, and there are no intervals.

    ``within_run_sd`` is the standard deviation of one-second samples.

    Raises:
        TraceError: a table cannot be read.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.summary().filter(metric="receiving_rate")["repeats"].to_list()
        [1, 1]
    """
    return summary_of_run(run_of(trace))


def plot(trace: Trace, name: str = "rate", flow: Flows = None, *, flows: Flows = None) -> Plot:
    """A plot of the trace. A notebook displays it; ``save`` writes it as SVG, PNG, PDF or HTML.

    Args:
        name: the plot's name, such as "rate" or "delay".
        flow: the flows to draw, such as ``"alice->bob"``, ``"*->bob"`` or a list; by default all
            flows of the report.
        flows: another name of ``flow``.

    Raises:
        BadInput: there is no such plot or flow, or the trace has no data for it.

    Example:
        >>> trace = rtclab.run("first-call", duration="10 s", repeats=1).traces[0]
        >>> trace.plot("delay").save("delay.svg").name
        'delay.svg'
    """
    from rtclab.report import run_plot

    return run_plot(run_of(trace), name, flow if flows is None else flows)


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


def run_of(trace: Trace) -> Run:
    """The trace as a run with one repeat, for functions that measure and show runs."""
    about = trace.manifest
    return Run(
        trace.path,
        str(trace.path) if about.capture is None else about.capture.files_in_words,
        about.backend,
        about.scenario,
        [_outcome(trace)],
        1,
        about.versions,
        about.machine,
        None,
        trace.window,
        {about.repeat or 0: trace.whole},
    )


def _outcome(trace: Trace) -> Repeat:
    return Repeat(trace.manifest.repeat or 0, trace.manifest.seed or 0, "finished")


Trace.from_pcap = staticmethod(from_pcap)
Trace.between = between
Trace.metrics = metrics
Trace.summary = summary
Trace.plot = plot
Trace.report = report
