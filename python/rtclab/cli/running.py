"""``rtclab run``: from a scenario's name to metrics and a report."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path

import polars as pl

from rtclab.backend import Backend
from rtclab.backend import backend as backend_of
from rtclab.campaign import Interrupted, run_scenario
from rtclab.cli import tables
from rtclab.errors import BadInput, DiskFull
from rtclab.metrics import measure_run
from rtclab.scenario import Change, Scenario
from rtclab.trace import Repeat, Run, write_json

USUAL_BACKEND = "sim"
EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class RunRequest:
    """What the command line asked for; see the options of ``rtclab run``."""

    scenario: str | None
    backend: str | None
    overrides: list[Change]
    jobs: int | None
    resume: str | None
    capture: bool
    out: Path
    report: bool
    as_json: bool


def run_and_report(request: RunRequest) -> int:
    """Runs, measures, reports; returns the exit status."""
    scenario, backend, resumed = _prepared(request)
    interrupted = False
    try:
        run = _run(scenario, backend, request, resumed)
    except Interrupted as stopped:
        run, interrupted = stopped.run, True
    ended = [entry for entry in run.repeats if not entry.interrupted]
    failed = [entry for entry in ended if entry.status == "failed"]
    try:
        measured = measure_and_keep(run) if ended else None
        page = draw(run, measured) if ended and request.report and not interrupted else None
        _tell(request, run, measured, page)
    except (KeyboardInterrupt, DiskFull) as error:
        print(f"all repeats are kept; `rtclab report {run.path}` measures and draws them", file=sys.stderr)
        if isinstance(error, DiskFull):
            raise
        interrupted = True
    finally:
        for entry in failed:
            print(f"repeat {entry.repeat} failed: {entry.reason}", file=sys.stderr)
        for entry in (entry for entry in run.repeats if entry.note):
            print(f"repeat {entry.repeat}: {entry.note}", file=sys.stderr)
        if len(ended) < len(run.repeats):
            unfinished = len(run.repeats) - len(ended)
            print(f"interrupted: {unfinished} of {len(run.repeats)} repeats not finished", file=sys.stderr)
        if len(ended) < len(run.repeats) or (failed and not backend.deterministic):
            print(f"  hint: continue with `rtclab run --resume {run.path}`", file=sys.stderr)
    return EXIT_INTERRUPTED if interrupted else EXIT_FAILED if failed else 0


def measure_and_keep(run: Run) -> pl.DataFrame:
    """Measures a run and keeps the result as ``metrics.json`` in it."""
    with tables.busy("measuring"):
        measured = measure_run(run)
        write_json(run.path / "metrics.json", measured.to_dicts())
    return measured


def draw(run: Run, measured: pl.DataFrame | None = None) -> Path:
    """Writes the report of a run; returns its page.

    Raises:
        DiskFull: what was drawn until then is left, and replaced next time.
    """
    from rtclab.report import write_report

    with tables.busy("drawing the report"):
        return write_report(run, measured)


def _prepared(request: RunRequest) -> tuple[Scenario, Backend, Run | None]:
    if request.resume is None:
        if request.scenario is None:
            raise BadInput("which scenario?", hint="`rtclab list` shows them; `rtclab run first-call`")
        scenario = Scenario.load(request.scenario, request.overrides)
        return scenario, _backend(request.backend or USUAL_BACKEND, request), None
    if request.scenario is not None or request.overrides:
        raise BadInput(
            "--resume goes on with the scenario as it was", hint="leave SCENARIO and changes to it out"
        )
    run = Run.open(request.resume, out=request.out)
    if request.backend not in (None, run.backend):
        raise BadInput(
            f"--backend: {run.name} was made by backend {run.backend}, not {request.backend}",
            hint="leave --backend out, or start a new run without --resume",
        )
    return Scenario.read(run.scenario, run.name), _backend(run.backend, request), run


def _backend(name: str, request: RunRequest) -> Backend:
    backend = backend_of(name)
    if not request.capture or backend.name != "sim":
        return backend  # a live call leaves a capture without being asked
    from rtclab.backend.sim import SimBackend

    return SimBackend(capture=True)


def _run(scenario: Scenario, backend: Backend, request: RunRequest, resumed: Run | None) -> Run:
    jobs = request.jobs or (len(os.sched_getaffinity(0)) if backend.parallel else 1)
    if jobs > 1 and not backend.parallel:
        raise BadInput(f"--jobs: the {backend.name} backend runs one repeat at a time")
    executor = ThreadPoolExecutor(jobs) if jobs > 1 and scenario.repeats > 1 else None
    title = f"{scenario.name} on {backend.name}"
    with executor or nullcontext(), tables.progress(title, scenario.repeats) as advance:

        def on_progress(outcome: Repeat) -> None:
            advance()

        return run_scenario(
            scenario,
            backend,
            out=request.out,
            executor=executor,
            resume=resumed,
            on_progress=on_progress,
        )


def _tell(request: RunRequest, run: Run, measured: pl.DataFrame | None, page: Path | None) -> None:
    if request.as_json:
        answer = {
            "run": str(run.path),
            "repeats": [asdict(entry) for entry in run.repeats],
            "metrics": [] if measured is None else measured.to_dicts(),
            "report": page and str(page),
        }
        tables.print_json(answer)
        return
    if measured is not None:
        tables.show_metrics(measured)
    print(f"run: {run.path} ({len(run.traces)} of {len(run.repeats)} repeats finished)")
    if page is not None:
        print(f"report: {page}")
