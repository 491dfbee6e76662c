"""The Python interface: run scenarios, open finished runs and compare them. The command line uses it too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import polars as pl

from rtclab import __version__, trace
from rtclab.backend import Backend
from rtclab.backend import backend as backend_of
from rtclab.campaign import run_scenario
from rtclab.errors import BackendUnavailable, BadInput, FieldError, TraceError
from rtclab.importers import Imported, Names, read_files
from rtclab.metrics import METRICS, compare_runs, essentials, measure_repeats, measure_run, prepare
from rtclab.metrics.series import Window
from rtclab.processes import cores
from rtclab.progress import progress as progress_bar
from rtclab.scenario import Change, PathSpec, Scenario, shipped
from rtclab.scenario.load import as_changes, as_time
from rtclab.scenario.units import Bitrate, Duration
from rtclab.sweeps import SWEEP_FILE, Grid, open_sweep
from rtclab.trace import NS_PER_S, Repeat, RunManifest, Trace, write_json
from rtclab.trace_methods import Moment, window

if TYPE_CHECKING:
    from rtclab.replays import ArrivalReplay, LogReplay
    from rtclab.report import Plot

Changes = Mapping[str, object] | Sequence[str | Change]
"""Changes of fields: ``{"link.up.capacity": "2 Mbit/s"}`` or ``["link.up.capacity=2 Mbit/s"]``."""
DEFAULT_BACKEND = "sim"
RUNS = Path("runs")
IMPORT = "import"
"""The name of the scenario of imported runs, with which their names begin."""
METRICS_FILE = "metrics.json"


class Run(trace.Run):
    """All repeats of a scenario: a directory with ``run.json``, one trace per repeat, metrics and a report.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> run.overview()["metric"][0]
        'receiving_rate'
    """

    def metrics(self, *, begin: Moment | None = None, end: Moment | None = None) -> pl.DataFrame:
        """The value of every metric for every flow and finished repeat.

        Returns the columns ``metric``, ``unit``, ``better``, ``flow``, ``repeat`` and ``value``. ``flow`` is
        empty for a metric of the whole repeat, and ``repeat`` is null for one of all repeats together.
        ``value`` is null where nothing could be measured.

        Args:
            begin: measure from this time on; by default from the beginning.
            end: measure up to this time; by default to the end.

        Raises:
            BadInput: a time cannot be read, or ``end`` is not after ``begin``.
            TraceError: a trace cannot be read.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.metrics(begin="5 s").filter(metric="rtt", flow="alice->bob")["repeat"].to_list()
            [0, 1]
        """
        return measure_repeats(self, self._window(begin, end))

    def summary(self, *, begin: Moment | None = None, end: Moment | None = None) -> pl.DataFrame:
        """Mean, standard deviation and 95 % confidence interval over repeats, for every metric and flow.

        Arguments and errors are the same as for :meth:`metrics`; :func:`rtclab.metrics.measure_run` describes
        the columns.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.summary().filter(metric="utilisation")["unit"].unique().to_list()
            ['%']
        """
        return measure_run(self, self._window(begin, end))

    def overview(self) -> pl.DataFrame:
        """The most important rows of :meth:`summary`: rate, delay, loss, video and set-up time.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.overview().height < run.summary().height
            True
        """
        return essential(self.summary())

    def table(self, name: str, *, repeat: int | None = None) -> pl.DataFrame:
        """A table of one repeat, or of all finished repeats with the additional first column ``repeat``.

        Raises:
            BadInput: there is no finished repeat with that number.
            TraceError: there is no such table, or it was not recorded.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.table("packets", repeat=0).columns[:2]
            ['sent_ns', 'delivered_ns']
        """
        if name not in trace.SCHEMAS:
            raise TraceError(f"no table `{name}`; expected {', '.join(trace.SCHEMAS)}")
        finished = [entry.repeat for entry in self.repeats if entry.status == "finished"]
        if repeat is not None and repeat not in finished:
            known = ", ".join(map(str, finished)) or "none"
            raise BadInput(f"repeat: {self.name} has no finished repeat {repeat}; finished: {known}")
        traces = dict(zip(finished, self.traces, strict=True))
        if repeat is not None:
            return traces[repeat].table(name)
        tables = [
            one.table(name).select(pl.lit(number, pl.Int64).alias("repeat"), pl.all())
            for number, one in traces.items()
        ]
        empty = pl.Schema({"repeat": pl.Int64(), **trace.SCHEMAS[name]}).to_frame()
        return pl.concat([empty, *tables])

    def report(self, measured: pl.DataFrame | None = None) -> Path:
        """Writes ``report.html`` into the run's directory; returns its path.

        Args:
            measured: the result of :meth:`summary`, if the caller already has it.

        Raises:
            DiskFull: a file could not be written.

        Example:
            >>> rtclab.run("first-call", duration="10 s", repeats=2).report().name
            'report.html'
        """
        from rtclab.report import write_report

        return write_report(self, measured)

    def write_metrics(self) -> pl.DataFrame:
        """Writes :meth:`summary` as ``metrics.json`` into the run's directory, and returns it.

        Raises:
            DiskFull: the file could not be written; an earlier one is unchanged.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.write_metrics().height == run.summary().height
            True
        """
        measured = self.summary()
        write_json(self.path / METRICS_FILE, measured.to_dicts())
        return measured

    def plot(self, name: str = "rate", flow: str | None = None) -> Plot:
        """A plot of the report. A notebook displays it; ``save`` writes it as SVG, PNG, PDF or HTML.

        Args:
            name: the plot's name, such as "rate" or "delay".
            flow: the only flow to draw, such as "alice->bob"; by default all flows of the report.

        Raises:
            BadInput: there is no such plot or flow, or this run has no data for it.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> run.plot("rate").save("rate.svg").name
            'rate.svg'
        """
        from rtclab.report import run_plot

        return run_plot(self, name, flow)

    def _window(self, begin: Moment | None, end: Moment | None) -> Window | None:
        return window(begin, end, run_end_s=Duration.parse(self.scenario["duration"]).s)

    def _repr_html_(self) -> str:
        heading = f"{self.name}: {self.finished} of {self.planned} repeats finished"
        rows = self.overview().select("metric", "flow", "mean", "ci95_low", "ci95_high", "unit")
        return f"<p>{escape(heading)}</p>{_html(rows)}"


class Comparison:
    """Two runs side by side; see :func:`compare`."""

    def __init__(self, a: Run, b: Run, window: Window | None = None) -> None:
        self.a, self.b = a, b
        self.window = window

    def table(self) -> pl.DataFrame:
        """Means and differences with 95 % confidence intervals; see :func:`rtclab.metrics.compare_runs`.

        Example:
            >>> slow, fast = (
            ...     rtclab.run("first-call", duration="10 s", repeats=2, changes={"link.up.capacity": rate})
            ...     for rate in ("0.5 Mbit/s", "2 Mbit/s")
            ... )
            >>> compared = rtclab.compare(slow, fast).table()
            >>> compared.filter(metric="receiving_rate")["difference"].min() > 0
            True
        """
        return compare_runs(self.a, self.b, self.window)

    def report(self, path: str | Path | None = None) -> Path:
        """Writes a page that compares the runs, by default next to the first run; returns its path.

        Raises:
            DiskFull: the page could not be written.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> rtclab.compare(run, run).report("both.html").name
            'both.html'
        """
        from rtclab.report import write_comparison

        part = "" if self.window is None else "-from-{:g}s-to-{:g}s".format(*self.window)
        default = self.a.path.parent / f"{self.a.name}-and-{self.b.name}{part}.html"
        return write_comparison(self.a, self.b, Path(path or default), self.window)

    def plot(self, name: str = "rate", flow: str | None = None) -> Plot:
        """A plot that shows both runs.

        Args:
            name: the plot's name, such as "rate" or "delay".
            flow: the only flow to draw, such as "alice->bob"; by default all flows that both runs have.

        Raises:
            BadInput: there is no such plot or flow, or the runs have no data for it in common.

        Example:
            >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
            >>> rtclab.compare(run, run).plot("delay").title
            'One-way delay over time'
        """
        from rtclab.report import comparison_plot

        return comparison_plot(self.a, self.b, name, flow)

    def _repr_html_(self) -> str:
        columns = ("metric", "flow", "mean_a", "mean_b", "difference", "difference_percent", "significant")
        rows = essential(self.table()).select(*columns, "unit")
        return f"<p>a: {escape(self.a.name)}, b: {escape(self.b.name)}</p>{_html(rows)}"


def run(
    scenario: str | Path | Scenario | None = None,
    *,
    backend: str | None = None,
    duration: Moment | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    record: str | None = None,
    changes: Changes = (),
    jobs: int | None = None,
    capture: bool = False,
    out: str | Path = RUNS,
    resume: str | Path | None = None,
    progress: bool = True,
) -> Run:
    """Runs all repeats of a scenario, or the unfinished ones of an earlier run.

    A repeat that fails is marked with its reason, and the others go on.

    Args:
        scenario: a name from ``rtclab list``, the path of a TOML file, or a loaded scenario.
        backend: ``sim`` (virtual time) or ``live`` (real browsers); by default ``sim``.
        duration: length of the run, such as ``"20 s"`` or 20 (seconds), instead of the scenario's own.
        repeats: number of repeats, instead of the scenario's own.
        seed: seed from which the seed of each repeat is derived.
        record: ``packets`` records every packet, ``seconds`` only sums per second.
        changes: other fields to set, such as ``{"link.up.capacity": "2 Mbit/s"}``.
        jobs: number of repeats to run in parallel; by default one per core.
        capture: write ``capture.pcapng`` and ``capture.sdp`` next to each simulated trace; a resumed run
            that began so does it anyway.
        out: directory of runs, in which a new directory is made.
        resume: a run to continue with the same scenario and backend.
        progress: show a progress bar on a terminal or in a notebook.

    Raises:
        BadInput: an argument is invalid; nothing was started.
        BackendUnavailable: live calls need something that this machine lacks.
        Interrupted: Ctrl-C was pressed; the error's attribute ``run`` has the finished repeats.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> [repeat.status for repeat in run.repeats]
        ['finished', 'finished']
    """
    shorthands = {"duration": as_time(duration), "repeats": repeats, "seed": seed, "record": record}
    overrides = [
        *as_changes(changes),
        *(Change(field, value, field) for field, value in shorthands.items() if value is not None),
    ]
    resumed = None
    if resume is not None:
        if scenario is not None or overrides:
            raise BadInput(
                "resume: the scenario of a run cannot be changed",
                hint="leave out the scenario and its changes",
            )
        resumed = Run.open(resume, out=Path(out))
        if backend not in (None, resumed.backend):
            raise BadInput(
                f"backend: {resumed.name} was made by backend {resumed.backend}, not {backend}",
                hint="leave the backend out, or start a new run",
            )
        loaded, backend = Scenario.read(resumed.scenario, resumed.name), resumed.backend
    elif scenario is None:
        raise BadInput("no scenario given", hint="`rtclab list` shows them; for example first-call")
    else:
        loaded = Scenario.load(scenario, overrides)
    capture = capture or (resumed is not None and resumed.manifest.capture)
    made = _backend(backend or DEFAULT_BACKEND, capture=capture)
    return _run(loaded, made, jobs, Path(out), resumed, progress=progress)


def is_sweep(name: str | Path, out: str | Path) -> bool:
    """Whether there is a sweep of this path, or of this name below ``out``."""
    return any((place / SWEEP_FILE).is_file() for place in (Path(name), Path(out) / name))


def open_run(name: str | Path = "latest", *, out: str | Path = RUNS) -> Run:
    """Opens a run by its path or by its name below ``out``; ``latest`` is the newest run.

    Raises:
        TraceError: there is no such run.

    Example:
        >>> made = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.lab.open_run("latest").name == made.name
        True
    """
    if is_sweep(name, out):
        raise BadInput(
            f"{name} is a sweep, not a run",
            hint=f"`rtclab report {name}` writes its page; `rtclab.open` in Python has its tables",
        )
    return Run.open(name, out=Path(out))


def open_result(name: str | Path = "latest", *, out: str | Path = RUNS) -> Run | Grid:
    """Opens a run or a sweep by its path or by its name below ``out``; ``latest`` is the newest run.

    Raises:
        TraceError: there is no such run or sweep.

    Example:
        >>> made = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.open("latest").name == made.name
        True
    """
    return open_sweep(name, out=out) if is_sweep(name, out) else open_run(name, out=out)


def compare(
    a: Run | str | Path,
    b: Run | str | Path,
    *,
    begin: Moment | None = None,
    end: Moment | None = None,
    out: str | Path = RUNS,
) -> Comparison:
    """Compares two runs; differences are ``b`` minus ``a``.

    Args:
        a: a run, its path, its name below ``out``, or ``latest``.
        b: the other run.
        begin: compare from this time on, such as ``"10 s"``; by default from the beginning.
        end: compare up to this time; by default, if ``begin`` is given, to the end of the shorter run.
        out: directory in which to look for runs by name.

    Raises:
        TraceError: there is no such run.
        BadInput: a time cannot be read, or ``end`` is not after ``begin``.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.compare(run, "latest").table()["difference"].max()
        0.0
    """
    first, second = (one if isinstance(one, Run) else open_run(one, out=out) for one in (a, b))
    shorter_s = min(Duration.parse(one.scenario["duration"]).s for one in (first, second))
    return Comparison(first, second, window(begin, end, run_end_s=shorter_s))


def link(
    command: Sequence[str],
    *,
    up: str = "",
    down: str = "",
    server: str = "",
    pcap: str | Path | None = None,
    seed: int = 1,
    output_to_stderr: bool = False,
) -> dict[str, Any]:
    """Runs a command behind an emulated link, without root.

    Returns the command's exit ``status``, its ``directions``, the emulator's ``lateness`` in ns and its
    ``counters``. For ``up`` and ``down``, ``directions`` has the ``packets`` that went in, which are
    ``delivered``, dropped (``queue``, ``loss``) or ``on_the_way`` at the end, with their ``bytes``, the rate
    that arrived in bit/s and the delay in ms; ``protocols`` has the same by
    protocol.

    Args:
        command: program and arguments. The environment variables ``RTCLAB_CLIENT`` and ``RTCLAB_SERVER`` have
            the addresses of the command and of the far end.
        up: path from the command to the far end, such as ``"capacity 1 Mbit/s, delay 25 ms, queue 300 ms"``.
        down: path from the far end to the command.
        server: command to run at the far end.
        pcap: pcapng file to write, with all packets at both ends.
        seed: seed for jitter and loss.
        output_to_stderr: send the command's standard output to standard error.

    Raises:
        BadInput: a path is invalid, or a command does not exist.
        BackendUnavailable: this machine lacks what an emulated link needs.

    Example:
        >>> passed = rtclab.link(["ping", "-c", "1", "10.77.0.1"], up="delay 25 ms")  # doctest: +SKIP
        >>> passed["directions"]["up"]["delivered"]  # doctest: +SKIP
        1
    """
    outwards, back = PathSpec.parse(up, origin="up"), PathSpec.parse(down, origin="down")
    from rtclab.backend.live.doctor import missing_python_packages
    from rtclab.backend.live.link import run_link

    if "pyroute2" in missing_python_packages():
        raise BackendUnavailable(
            "an emulated link needs the Python module `pyroute2`", hint="`make setup-live` installs it"
        )
    return run_link(
        outwards.native("up"),
        back.native("down"),
        list(command),
        server=server,
        pcap=None if pcap is None else Path(pcap),
        seed=seed,
        output_to_stderr=output_to_stderr,
    )


def replay(
    recording: str | Path,
    *,
    controller: str | None = None,
    estimator: str | None = None,
    start: str | None = None,
    least: str | None = None,
    most: str | None = None,
) -> LogReplay | ArrivalReplay:
    """Replays recorded packets into a congestion control, to compare its decisions with the browser's.

    Args:
        recording: an RTC event log of Chromium for ``controller``, or a capture for ``estimator``.
        controller: a control, such as ``"goog-cc"`` or ``"rrtcc-2013,decrease=0.9"``. If it estimates at the
            receiver, that half is fed with the arrivals that the log's feedback reports.
        estimator: a control that estimates at the receiver, such as ``"gcc-2016"``.
        start: rate before any feedback, by default ``"300 kbit/s"``.
        least: lower bound, by default ``"30 kbit/s"``.
        most: maximum bitrate of the video encoder, by default ``"1.7 Mbit/s"``.

    Returns the targets, the internal values and the agreement with the browser; with ``estimator`` the
    REMBs of every flow. ``plot()`` draws them.

    Raises:
        BadInput: the recording cannot be read or replayed, or an argument is invalid.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=1, capture=True)
        >>> replayed = rtclab.replay(run.path / "repeat-0/capture.pcapng", estimator="gcc-2016")
        >>> replayed.rembs["rate_bps"].min() > 0
        True
    """
    from rtclab.replays import Bounds, Choice, replay_capture, replay_event_log

    rates = {"start": start, "least": least, "most": most}
    given = {name: _rate(name, value) for name, value in rates.items() if value is not None}
    bounds = Bounds(**given)
    if controller is not None and estimator is None:
        return replay_event_log(Path(recording), Choice.parse(controller), bounds)
    if estimator is not None and controller is None:
        return replay_capture(Path(recording), Choice.parse(estimator), bounds)
    raise BadInput("replay: expected either a controller or an estimator")


def import_files(
    files: str | Path | Sequence[str | Path],
    *,
    names: Names | None = None,
    sdp: str | None = None,
    corrected: bool = False,
    out: str | Path = RUNS,
) -> Run:
    """Makes a run with one repeat of captures or logs of a call that rtclab did not run.

    The kind of a file is recognised by its content: captures are pcap or pcapng, logs are RTC event logs of
    Chromium, dumps of ``chrome://webrtc-internals`` and files of rtcstats. The run is called
    ``import-capture-<n>`` or ``import-log-<n>``. Metrics that the files do not know are null.

    Args:
        files: a capture or a log; or two captures of one call, the first near the sender and the second near
            the receiver; or the event logs of both ends of a connection.
        names: two names of participants. In captures, the first is the sender of the first RTP packet, and
            the second its receiver; of two captures, of the first RTP packet from the first to the second. Of
            event logs, the first is the participant that wrote the first log. For captures also names by
            address (``{"10.0.0.1": "alice"}``), or by address and port (``10.0.0.1:5004``).
        sdp: text of the session descriptions of a captured call, for its codecs.
        corrected: subtract the estimated difference of the clocks of two captures from the delays.
        out: directory of runs, in which a new directory is made.

    Raises:
        BadInput: a file cannot be read or is of no known format, files are of different kinds, or an argument
            does not apply to them; nothing was written.
        TraceError: nothing was captured.

    Example:
        >>> call = rtclab.run("first-call", duration="10 s", repeats=1, capture=True)
        >>> run = rtclab.import_files(call.path / "repeat-0/capture.pcapng", names=["bob", "alice"])
        >>> run.name, run.traces[0].flows
        ('import-capture-1', ['bob->alice', 'alice->bob'])
    """
    paths = [Path(file) for file in ([files] if isinstance(files, (str, Path)) else files)]
    imported = read_files(paths, names=names, sdp=sdp, corrected=corrected)
    return _keep(imported, paths, Path(out))


def list_scenarios() -> pl.DataFrame:
    """The scenarios that come with rtclab: ``name``, ``title`` and ``source``.

    Example:
        >>> rtclab.list_scenarios()["name"][0]
        'first-call'
    """
    loaded = {name: Scenario.load(name) for name in shipped()}
    rows = [(name, scenario.title, scenario.source) for name, scenario in loaded.items()]
    return pl.DataFrame(rows, schema=["name", "title", "source"], orient="row")


def list_metrics() -> pl.DataFrame:
    """All metrics: ``metric``, ``unit``, ``better`` (higher, lower), ``scope``, ``definition``, ``source``.

    Example:
        >>> rtclab.list_metrics().filter(metric="rtt")["unit"].item()
        'ms'
    """
    rows = [
        (one.name, one.unit, one.better, one.scope, one.definition, one.source) for one in METRICS.values()
    ]
    columns = ["metric", "unit", "better", "scope", "definition", "source"]
    return pl.DataFrame(rows, schema=columns, orient="row")


def essential(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows of the most important metrics, in their order, without rows that have no value.

    A metric that the source of the traces does not know is replaced by the nearest that it knows.
    """
    mean = pl.col("mean") if "mean" in rows.columns else pl.coalesce("mean_a", "mean_b")
    known = rows.filter(mean.is_not_null())
    order = {name: index for index, name in enumerate(essentials(known["metric"].unique()))}
    chosen = known.filter(pl.col("metric").is_in(list(order)))
    place = pl.col("metric").replace_strict(order, return_dtype=pl.Int64)
    return chosen.sort(place, maintain_order=True)


def _keep(imported: Imported, files: Sequence[Path], out: Path) -> Run:
    """Writes a run with the imported trace as its only repeat."""
    about = imported.manifest
    scenario = {
        "name": IMPORT,
        "title": f"Imported from {' and '.join(file.name for file in files)}",
        "duration": f"{about.duration_ns / NS_PER_S:.3f} s",
        "participants": {name: {} for name in about.participants},
    }
    versions = {"rtclab": __version__}
    run = Run.create(
        out,
        scenario=IMPORT,
        manifest=RunManifest(backend=about.backend, scenario=scenario, versions=versions),
    )
    with run.writing():
        full = about.model_copy(update={"scenario": scenario, "versions": versions, "repeat": 0})
        Trace.write(run.repeat_path(0), imported.tables, full)
        run.record(Repeat(repeat=0, seed=0, status="finished"))
    return run


def _html(rows: pl.DataFrame) -> str:
    """A table as HTML for a notebook, with all rows and columns."""
    with pl.Config(tbl_rows=-1, tbl_cols=-1, tbl_hide_dataframe_shape=True, tbl_hide_column_data_types=True):
        return rows._repr_html_()


def _rate(name: str, text: str) -> int:
    try:
        return Bitrate.parse(text).bps
    except FieldError as error:
        raise BadInput(f"{name}: {error.message}", hint=error.hint) from None


def _backend(name: str, *, capture: bool) -> Backend:
    if not capture or name != "sim":
        return backend_of(name)  # live calls always write a capture
    from rtclab.backend.sim import SimBackend

    return SimBackend(capture=True)


def _run(
    scenario: Scenario,
    backend: Backend,
    jobs: int | None,
    out: Path,
    resumed: Run | None,
    *,
    progress: bool,
) -> Run:
    jobs = jobs or (cores() if backend.parallel else 1)
    if jobs > 1 and not backend.parallel:
        raise BadInput(f"jobs: the {backend.name} backend runs one repeat at a time")
    executor = ThreadPoolExecutor(jobs) if jobs > 1 and scenario.repeats > 1 else None
    title = f"{scenario.name} on {backend.name}"
    with (
        executor or nullcontext(),
        progress_bar(title, scenario.repeats, "repeats", show=progress) as advance,
    ):

        def on_progress(outcome: Repeat) -> None:
            advance(1)

        def on_trace(finished: Trace) -> None:
            # While other repeats are simulated. An error is raised again when the run is measured.
            with suppress(Exception):
                prepare(finished)

        made = run_scenario(
            scenario,
            backend,
            out=out,
            executor=executor,
            resume=resumed,
            create=Run.create,
            on_progress=on_progress,
            on_trace=on_trace,
        )
    assert isinstance(made, Run)
    return made
