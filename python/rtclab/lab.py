"""The Python interface: run scenarios, open finished runs and compare them. The command line uses it too."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any

import polars as pl

from rtclab import __version__
from rtclab.arguments import items, table
from rtclab.backend import Backend
from rtclab.backend import backend as backend_of
from rtclab.errors import (
    BadInput,
    FieldError,
    RtclabError,
    TraceError,
)
from rtclab.experiment import (
    Execution,
    Experiment,
    Moment,
    Results,
    Store,
    find_store,
    keep_trace,
    name_below,
    open_store,
    resumed,
    stores,
)
from rtclab.metrics import METRICS
from rtclab.renamed import renamed
from rtclab.scenario import Change, Scenario, shipped
from rtclab.scenario.load import Changes, as_changes, as_time
from rtclab.scenario.units import Bitrate, Duration
from rtclab.trace import MANIFEST, NS_PER_S, Trace, only_writer

if TYPE_CHECKING:
    from rtclab.estimate import Estimate
    from rtclab.importers import Names
    from rtclab.replays import ArrivalReplay, LogReplay

DEFAULT_BACKEND = "sim"
RUNS = Path("runs")
INVITE_WAIT = "5 min"
IMPORT = "import"
"""The name of the scenario of imported runs, with which their names begin."""


def run(
    scenario: str | Path | Scenario | None = None,
    *,
    vary: Mapping[str, object] | None = None,
    backend: str | None = None,
    duration: Moment | None = None,
    repeats: int | None = None,
    seed: int | None = None,
    record: str | None = None,
    set: Changes = (),
    metrics: str | Sequence[str] | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
    traces: bool | None = None,
    capture: bool = False,
    executor: Executor | None = None,
    jobs: int | None = None,
    out: str | Path = RUNS,
    resume: str | Path | None = None,
    renew: bool = False,
    invite: Mapping[str, str] | None = None,
    invite_wait: Moment | None = None,
    progress: bool = True,
    watch: int | None = None,
    trust: bool = False,
) -> Results:
    """Runs a scenario, or a sweep: it with every combination of values of some fields, several times each.

    All conditions of a sweep use the same seeds, so two conditions differ only in the varied fields. Finished
    repeats are kept however a run ends, and ``resume`` continues it. A repeat that fails is marked with its
    reason, and the others go on; see :meth:`Results.failures`.

    Args:
        scenario: a name from ``rtclab list``, the path of a TOML file, or a loaded scenario.
        vary: for each field, a list of values or a text such as ``"0 %, 2 %"`` or ``"0.2..5 Mbit/s x8 log"``.
        backend: ``sim`` (virtual time) or ``live`` (real browsers); by default ``sim``.
        duration: length of the run, such as ``"20 s"`` or 20 (seconds), instead of the scenario's own.
        repeats: number of repeats of each condition, instead of the scenario's own. With ``resume``, the
            number that there should be in the end.
        seed: seed from which the seed of each repeat is derived.
        record: ``packets`` records every packet, ``seconds`` only sums per second. By default as the scenario
            says, or in a sweep without traces what the metrics need.
        set: other fields to set, in every condition, such as ``{"link.up.capacity": "2 Mbit/s"}``.
        metrics: metrics to measure, by default all.
        begin: measure from this time on, such as ``"10 s"``, to leave out the warm-up; by default from the
            beginning.
        end: measure up to this time.
        traces: keep the trace of each simulated repeat, so that other metrics and times can be measured
            later; by default unless fields are varied. Live calls always leave traces.
        capture: write ``capture.pcapng`` and ``capture.sdp`` next to each simulated trace. A resumed run does
            it if it began so.
        executor: runs the simulated repeats: any ``concurrent.futures`` executor, such as Dask's
            ``Client.get_executor()``. By default they run in threads of this process.
        jobs: number of threads, if no executor is given; by default one per core.
        out: directory of runs, in which a new directory is made.
        resume: a run or sweep to continue, with the same scenario, values and backend.
        renew: with ``resume``, run simulated repeats again that another build of rtclab ran.
        invite: by participant, the address of this machine at which a browser on the network, such as a
            phone's, can take the participant's seat in a live call: ``{"alice": "192.168.1.5:8443"}``.
            Without a port the kernel chooses one. Then there is one repeat unless ``repeats`` is given.
        invite_wait: how long each repeat waits until all these seats are taken; by default 5 min.
        progress: show a progress bar on a terminal or in a notebook.
        watch: serve a page that shows what happens, on this port of the loopback interface; 0 takes a free
            port. Its URL is printed on standard error. In the end the page is kept as ``watch.html``.
        trust: run what a scenario file, or a run to continue, from outside of the current project names:
            Python code, programs, pages, the network.

    Raises:
        BadInput: an argument is invalid, or strangers' files are not trusted; nothing was started.
        BackendUnavailable: live calls need something that this machine lacks.
        OtherVersion: a worker runs another build of rtclab.
        Stopped: a worker died, or the executor failed.
        DiskFull: no disk space is left for a result.
        Interrupted: Ctrl-C was pressed; the error's attribute ``results`` has the finished repeats.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> run.outcomes()["status"].to_list()
        ['finished', 'finished']
    """
    shorthands = {"duration": as_time(duration), "seed": seed, "record": record}
    given = {name: value for name, value in shorthands.items() if value is not None}
    changes = [*as_changes(set), *(Change(name, value, name) for name, value in given.items())]
    plan: dict[str, Any] = {"vary": vary, "metrics": metrics, "begin": begin, "end": end, "traces": traces}
    began = {"scenario": scenario, **plan, **given, "set": as_changes(set) or None}
    _check_resumed(resume, began | {"capture": capture or None}, renew=renew)
    if scenario is None and resume is None:
        raise BadInput("no scenario given", hint="`rtclab list` shows them; for example first-call")
    chosen = _with_invited(backend, invite, invite_wait, vary=vary, resumes=resume is not None)
    if invite and resume is None:
        repeats = repeats or 1
        invited = (f"participants.{name}.browser.name" for name in invite)
        changes += [Change(field, "invited", "--invite") for field in invited]
    pool: dict[str, Any] = {"executor": executor, "jobs": jobs, "progress": progress}
    if resume is not None:
        with _dashboard(watch) as observer:
            execution = Execution(renew=renew, observer=observer, **pool)
            return resumed(resume, execution, out=out, backend=chosen, repeats=repeats, trust=trust)
    if repeats is not None and vary is None:
        changes.append(Change("repeats", repeats, "repeats"))
    plan |= {"repeats": repeats, "backend": chosen or DEFAULT_BACKEND, "capture": capture, "trust": trust}
    assert scenario is not None
    experiment = Experiment(scenario, set=changes, **plan)
    with _dashboard(watch) as observer:
        return experiment.run(out=out, observer=observer, **pool)


def sweep(
    scenario: str | Path | Scenario | None = None,
    vary: Mapping[str, object] | None = None,
    **arguments: Any,
) -> Results:
    """:func:`run` with ``vary``, which it needs unless ``resume`` continues a sweep.

    It takes the same arguments and raises the same errors.

    Example:
        >>> swept = rtclab.sweep("first-call", {"link.up.loss": ["0 %", "5 %"]}, duration="10 s", repeats=2)
        >>> swept.summary().filter(metric="packet_loss", flow="alice->bob")["link.up.loss"].to_list()
        ['0 %', '5 %']
    """
    resumes = arguments.get("resume") is not None
    return run(scenario, vary=vary if resumes or vary is not None else {}, **arguments)


def _check_resumed(resume: str | Path | None, began: Mapping[str, object], *, renew: bool) -> None:
    """Refuses ``renew`` without ``resume``, and with it what holds since the run began.

    Raises:
        BadInput: an argument would have no effect.
    """
    if renew and resume is None:
        raise BadInput("renew: expected `resume` with it", hint="name the run or sweep whose repeats are old")
    given = [name for name, value in began.items() if value is not None]
    named = " and ".join(f"no `{name}`" for name in given)
    if given and resume is not None:
        raise BadInput(
            f"resume: a run goes on as it began; expected {named} with `resume`",
            hint="leave out the scenario, its changes, and what is measured and kept; `repeats` adds repeats",
        )


@contextmanager
def _dashboard(port: int | None) -> Iterator[Callable[[Path], AbstractContextManager[object]]]:
    """Yields what shows the results in a directory while repeats run; without a port it shows nothing."""
    if port is None:
        yield nullcontext
        return
    from rtclab.dashboard import Dashboard

    with Dashboard(port) as dashboard:
        yield dashboard.showing


def watch(name: str | Path = "latest", *, out: str | Path = RUNS, port: int = 0) -> None:
    """Serves a page that shows what happens in a run, until Ctrl-C. Another process may be running it.

    Args:
        name: path, name below ``out``, or ``latest``.
        out: directory of runs.
        port: port of the loopback interface; 0 takes a free one. The URL is printed on standard error.

    Raises:
        TraceError: there is no such run.
        BadInput: nothing was recorded for watching, or the port cannot be used.
        KeyboardInterrupt: Ctrl-C was pressed. If the run has ended, the page is kept as ``watch.html``.

    Example:
        >>> rtclab.watch("latest", port=8080)  # doctest: +SKIP
    """
    from rtclab.dashboard import Dashboard, can_be_watched

    path = open_store(name, Path(out)).path
    if not can_be_watched(path):
        raise BadInput(
            f"{path} has nothing to watch: it has no watch.jsonl",
            hint="runs and live sweeps have one; sweeps without traces and imports have none",
        )
    with Dashboard(port) as dashboard, dashboard.showing(path):
        while True:
            sleep(1)


def _with_invited(
    backend: str | None,
    invite: Mapping[str, str] | None,
    wait: Moment | None,
    *,
    vary: Mapping[str, object] | None,
    resumes: bool,
) -> str | Backend | None:
    """The given backend, or the one of live calls with invited browsers.

    Raises:
        BadInput: browsers cannot be invited to such calls, or an argument is invalid.
    """
    if not invite:
        if wait is not None:
            hint = "it says how long invited browsers may take"
            raise BadInput("invite_wait: expected `invite` with it", hint=hint)
        return backend
    if vary is not None:
        raise BadInput("invite: browsers are invited to calls of one condition; expected no `vary` with it")
    if backend != "live" and not resumes:
        raise BadInput(
            f"invite: browsers take part in live calls only; got backend {backend or DEFAULT_BACKEND}",
            hint="--backend live",
        )
    backend_of("live")  # says what is not installed
    from rtclab.backend.live import LiveBackend
    from rtclab.backend.live.user.invitations import Invitation

    seats = table("invite", invite, 'an address of each participant, such as {"alice": "192.168.1.5"}')
    invitations = [Invitation.parse(name, place) for name, place in seats.items()]
    try:
        return LiveBackend(invitations, wait_s=Duration.parse(as_time(wait or INVITE_WAIT)).s)
    except FieldError as error:
        raise BadInput(f"invite_wait: {error.message}") from None


def open_results(name: str | Path = "latest", *, out: str | Path = RUNS) -> Results:
    """Opens a run, a sweep or an import by its path or by its name below ``out``; ``latest`` is the newest.

    Raises:
        TraceError: there are no such results.

    Example:
        >>> made = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.open("latest").name == made.name
        True
    """
    if (file := Path(name)).is_file():
        from rtclab.importers.files import is_capture
        from rtclab.importers.kinds import kind_of
        from rtclab.importers.logs.text import read_log

        # Says what the file is, if rtclab cannot even make a run of it.
        kind = None if is_capture(file) else kind_of(read_log(file).content)
        if kind is not None:
            raise TraceError(f"{file}: {kind.name}; expected a run", hint=kind.instead)
    return Results(open_store(name, Path(out)))


@renamed(
    controller='control="goog-cc"',
    estimator='control="gcc-2016"; the file tells whether a log or a capture is replayed',
)
def replay(
    recording: str | Path,
    control: str,
    *,
    start: str | None = None,
    min: str | None = None,
    max: str | None = None,
) -> LogReplay | ArrivalReplay:
    """Replays recorded packets into a congestion control, to compare its decisions with the browser's.

    Args:
        recording: an RTC event log of Chromium, or a capture.
        control: a control, such as ``"goog-cc"`` or ``"rrtcc-2013,decrease=0.9"``. If it estimates at the
            receiver, as ``"gcc-2016"`` does, that half is fed with the arrivals that the log's feedback
            reports. Captures need such a control.
        start: rate before any feedback, by default ``"300 kbit/s"``.
        min: lower bound, by default ``"30 kbit/s"``.
        max: maximum bitrate of the video encoder, by default ``"1.7 Mbit/s"``.

    Returns the targets, the internal values and the agreement with the browser; for captures the REMBs of
    every flow. ``plot()`` draws them.

    Raises:
        BadInput: the recording cannot be read or replayed, or an argument is invalid.

    Example:
        >>> run = rtclab.run("first-call", duration="10 s", repeats=1, capture=True)
        >>> replayed = rtclab.replay(run.path / "repeat-0/capture.pcapng", "gcc-2016")
        >>> replayed.rembs["rate_bps"].min() > 0
        True
    """
    from rtclab.importers.files import is_capture
    from rtclab.replays import ControlChoice, RateBounds, replay_capture, replay_event_log

    rates = {"start": start, "min": min, "max": max}
    given = {name: _rate(name, value) for name, value in rates.items() if value is not None}
    bounds = RateBounds(**given)
    file = Path(recording)
    replayed = replay_capture if is_capture(file) else replay_event_log
    return replayed(file, ControlChoice.parse(control), bounds)


def list_runs(out: str | Path = RUNS) -> pl.DataFrame:
    """The runs, sweeps, imports and arenas in a directory, the newest last.

    Columns: ``name``, ``backend``, ``created`` (when it began, in ISO 8601, UTC), ``finished`` and
    ``planned`` (numbers of repeats over all conditions), ``conditions`` (their number), ``bytes`` (size of
    all its files), and ``problem``. If results cannot be read, ``problem`` says why, and what is unknown is
    null.

    Example:
        >>> made = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.list_runs().select("name", "finished", "planned").rows()[-1]
        ('first-call-sim-1', 2, 2)
    """
    schema: dict[str, type[pl.DataType]] = {
        **dict.fromkeys(("name", "backend", "created"), pl.String),
        **dict.fromkeys(("finished", "planned", "conditions", "bytes"), pl.Int64),
        "problem": pl.String,
    }
    rows = []
    for path in stores(Path(out)):
        row: dict[str, object] = {"name": name_below(path, Path(out)), "bytes": bytes_of(path)}
        try:
            store = Store(path)
            row |= {"backend": store.about.backend, "created": store.about.created}
            row["conditions"] = len(store.conditions)
            row |= {"finished": store.statuses().get("finished", 0), "planned": store.planned}
        except RtclabError as error:
            row["problem"] = error.message
        rows.append(row)
    return pl.DataFrame(rows, schema=schema)


def bytes_of(path: Path) -> int:
    """Size of all files in a directory and below."""
    return sum(file.lstat().st_size for file in path.rglob("*") if file.is_file())


def show(name: str | Path = "latest", *, out: str | Path = RUNS) -> dict[str, Any]:
    """How results were made: scenario, conditions, versions, machine, outcomes and events, as JSON values.

    Args:
        name: path, name below ``out``, or ``latest``.
        out: directory of runs.

    Raises:
        TraceError: there are no such results.

    Example:
        >>> made = rtclab.run("first-call", duration="10 s", repeats=2)
        >>> rtclab.show(made.path)["statuses"]
        {'finished': 2}
    """
    store = open_store(name, Path(out))
    about, results = store.about, Results(store)
    return {
        "run": str(store.path),
        "backend": about.backend,
        "scenario": store.conditions.data(0),
        "fields": {field.name: field.texts for field in store.conditions.fields},
        "conditions": results.conditions,
        "planned": results.planned,
        "statuses": store.statuses(),
        "window": about.window,
        "metrics": about.metrics,
        "traces": about.traces,
        "versions": about.versions,
        "builds": dict(store.outcomes().group_by("code", maintain_order=True).len().iter_rows()),
        "older": int(results.outcomes()["older"].sum()),
        "machine": about.machine and about.machine.model_dump(),
        "created": about.created,
        "bytes": bytes_of(store.path),
        "events": [{"at": at, "what": what} for at, what in store.events()],
    }


def delete(
    *names: str | Path,
    out: str | Path = RUNS,
    confirm: Callable[..., object] | None = None,
) -> list[Path]:
    """Deletes directories of results, all or none of them; returns their paths.

    Args:
        names: their paths, or names below ``out``.
        out: directory of runs.
        confirm: called with the paths when nobody can write there any more; an error keeps them.

    Raises:
        BadInput: a name does not belong to results, or another process writes there.

    Example:
        >>> made = rtclab.run("first-call", duration="10 s", repeats=1)
        >>> [path.name for path in rtclab.delete(made.name)]
        ['first-call-sim-1']
    """
    paths = list(dict.fromkeys(_results_of(name, Path(out)) for name in names))
    with ExitStack() as locked:
        for path in paths:
            locked.enter_context(only_writer(path))
        if confirm is not None:
            confirm(paths)
        for path in paths:
            shutil.rmtree(path)
    return paths


def _results_of(name: str | Path, out: Path) -> Path:
    """The directory to delete."""
    path = find_store(name, out)
    if path is None:
        raise BadInput(
            f"delete: `{name}` has no results of rtclab", hint=f"`rtclab runs --out {out}` lists them"
        )
    if path.is_symlink():
        raise BadInput(
            f"delete: {path} is a symbolic link; expected a directory", hint=f"it points to {path.resolve()}"
        )
    return path


def import_files(
    files: str | Path | Sequence[str | Path],
    *,
    names: Names | None = None,
    sdp: str | None = None,
    corrected: bool = False,
    out: str | Path = RUNS,
) -> Results:
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
    paths = [Path(file) for file in items("files", files, (str, Path), "a capture or log, or two")]
    from rtclab.importers import read_files

    imported = read_files(paths, names=names, sdp=sdp, corrected=corrected)
    about = imported.manifest
    scenario = {
        "name": IMPORT,
        "title": f"Imported from {' and '.join(file.name for file in paths)}",
        "duration": f"{about.duration_ns / NS_PER_S:.3f} s",
        "participants": {name: {} for name in about.participants},
    }
    known = {"scenario": scenario, "versions": {"rtclab": __version__}, "repeat": 0}
    trace = Trace.in_memory(imported.tables, about.model_copy(update=known))
    return keep_trace(trace, scenario, f"{IMPORT}-{about.backend}", Path(out))


def scenario_from(
    call: str | Path | Sequence[str | Path] | Trace | Results,
    *,
    flow: str | None = None,
    names: Names | None = None,
    sdp: str | None = None,
    same_clock: bool = False,
    repeat: int | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
    out: str | Path = RUNS,
) -> Estimate:
    """Estimates a scenario from a call: both paths, with how sure each number is, and what was sent.

    The result has the ``scenario``, its ``text`` in TOML, and a ``table()`` of its numbers. ``save(FILE)``
    writes the scenario, and ``report(FILE)`` a page that shows the call beside its simulation.

    Args:
        call: a capture or a log, two captures, or the event logs of both ends, as for :func:`import_files`;
            or a run, its path or name, or a trace.
        flow: the flow to take, with its opposite, if the call has several.
        names: names of the two ends of captures or event logs.
        sdp: text of the session descriptions of a captured call.
        same_clock: whether the machines of two captures had synchronised clocks. By default, their difference
            is estimated, and only the sum of the delays of both directions is known.
        repeat: number of the repeat of a run; by default the first that has a trace.
        begin: take the call from this time on, in seconds or as text such as ``"10s"``.
        end: take the call up to this time. A call that lasts more than an hour needs ``begin`` or ``end``.
        out: directory in which to look for runs by name.

    Raises:
        BadInput: the call cannot be read, is too large or too long, has no media, or has several flows and
            ``flow`` does not choose one.
        TraceError: nothing was captured, or there is no such run.

    Example:
        >>> call = rtclab.run("first-call", duration="20 s", repeats=1)
        >>> estimate = rtclab.scenario_from(call)
        >>> capacity = estimate.table().filter(of="alice->bob", name="capacity")
        >>> capacity["unit"].item(), 950 < capacity["value"].item() < 1050
        ('kbit/s', True)
    """
    from rtclab.estimate import call_of, estimate, read_call

    of_files = {"names": names is not None, "sdp": sdp is not None, "same_clock": same_clock}
    if isinstance(call, (Trace, Results)):
        _check_origin("captures and logs", "a run or trace", of_files)
        if isinstance(call, Trace):
            _check_origin("runs", "a trace", {"repeat": repeat is not None})
        trace = call if isinstance(call, Trace) else _trace_of(call, repeat)
        origin = trace.path.parent.name if call is not trace else "a trace"
        return estimate(call_of(trace, flow, origin, begin=begin, end=end))
    paths = items("call", call, (str, Path), "a capture, a log, a run or a trace")
    if len(paths) == 1 and not Path(paths[0]).is_file():
        _check_origin("captures and logs", "a run or trace", of_files)
        if (Path(paths[0]) / MANIFEST).is_file():
            _check_origin("runs", "a trace", {"repeat": repeat is not None})
            return estimate(call_of(Trace(paths[0]), flow, Path(paths[0]).name, begin=begin, end=end))
        if find_store(paths[0], Path(out)) is None:
            raise BadInput(
                f"{paths[0]}: no such file or run", hint="expected a capture, a log, or a run in --out"
            )
        run = open_results(paths[0], out=out)
        return estimate(call_of(_trace_of(run, repeat), flow, run.name, begin=begin, end=end))
    _check_origin("runs", "captures or logs", {"repeat": repeat is not None})
    files = [Path(path) for path in paths]
    return estimate(
        read_call(files, names=names, sdp=sdp, same_clock=same_clock, flow=flow, begin=begin, end=end)
    )


def _check_origin(wanted: str, got: str, arguments: Mapping[str, bool]) -> None:
    """Refuses arguments that were given and are for calls from elsewhere.

    Raises:
        BadInput: one was.
    """
    for name in (name for name, given in arguments.items() if given):
        raise BadInput(f"{name}: it is for {wanted}; got {got}, expected no `{name}` with it")


def _trace_of(run: Results, repeat: int | None) -> Trace:
    """The trace of a repeat of a run, by default of the first that has one."""
    if repeat is not None:
        return run.run.trace(repeat)
    if not run.run.traced or not run.traces:
        raise BadInput(f"{run.name} kept no traces", hint="run it again with traces=True")
    return run.traces[0]


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


def _rate(name: str, text: str) -> int:
    try:
        return Bitrate.parse(text).bps
    except FieldError as error:
        raise BadInput(f"{name}: {error.message}", hint=error.hint) from None
