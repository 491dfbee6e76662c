"""``rtclab run``: runs a scenario, prints its metrics and writes its report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.backend import backend as backend_of
from rtclab.campaign import Interrupted
from rtclab.cli import tables
from rtclab.errors import DiskFull
from rtclab.lab import Run, run
from rtclab.phrases import field_trials
from rtclab.progress import busy
from rtclab.scenario import Scenario, shipped

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class Output:
    """The output options of ``rtclab run``."""

    report: bool
    all_metrics: bool
    as_json: bool


def print_browser_arguments(backend: str | None, scenario: str | None, changes: Sequence[str]) -> None:
    """Says on standard error which arguments a scenario from elsewhere gives to the browsers of live calls.

    They can make a browser run any program.
    """
    if backend != "live" or scenario is None or scenario in shipped():
        return
    loaded = Scenario.load(scenario, changes)
    for name in loaded.participants:
        if given := loaded.browser_of(name).args:
            print(f"{scenario} starts the browser of {name} with {shlex.join(given)}", file=sys.stderr)


def run_and_report(output: Output, **arguments: Any) -> int:
    """Runs with the arguments of :func:`rtclab.lab.run`, measures, reports; returns the exit status."""
    print_browser_arguments(arguments["backend"], arguments["scenario"], arguments["changes"])
    interrupted = False
    try:
        made = run(**arguments)
    except Interrupted as stopped:
        made, interrupted = Run(stopped.run.path), True
    ended = [entry for entry in made.repeats if entry.status != "interrupted"]
    failed = [entry for entry in ended if entry.status != "finished"]
    try:
        measured, page = None, None
        if ended:
            with busy("measuring"):
                measured = made.write_metrics()
        if ended and output.report and not interrupted:
            with busy("drawing the report"):
                page = made.report(measured)
        _show(output, made, measured, page)
    except (KeyboardInterrupt, DiskFull) as error:
        print(f"all repeats are kept; `rtclab report {made.path}` measures and draws them", file=sys.stderr)
        if isinstance(error, DiskFull):
            raise
        interrupted = True
    finally:
        print_cautions(made)
        for entry in failed:
            what = " failed" if entry.status == "failed" else ": the laboratory failed"
            print(f"repeat {entry.repeat}{what}: {entry.reason}", file=sys.stderr)
        for entry in (entry for entry in made.repeats if entry.note):
            print(f"repeat {entry.repeat}: {entry.note}", file=sys.stderr)
        if not tables.print_incomplete(made) and failed and not backend_of(made.backend).deterministic:
            print(tables.how_to_continue(made), file=sys.stderr)
    return EXIT_INTERRUPTED if interrupted else EXIT_FAILED if failed else 0


def _show(output: Output, run: Run, measured: pl.DataFrame | None, page: Path | None) -> None:
    if output.as_json:
        answer = {
            "run": str(run.path),
            "repeats": [asdict(entry) for entry in run.repeats],
            "metrics": [] if measured is None else measured.to_dicts(),
            "report": page and str(page),
        }
        tables.print_json(answer)
        return
    if measured is not None:
        tables.show_measured(measured, run, all_metrics=output.all_metrics)
    print(f"run: {run.path} ({run.finished} of {run.planned} repeats finished)")
    if page is not None:
        print(f"report: {page}")


def print_cautions(run: Run) -> None:
    """Says on standard error what a reader must know of a run's results."""
    # Importing the report takes time, and most simulated runs need no caution.
    if run.backend == "live" or field_trials(run.scenario):
        from rtclab.report import words

        for caution in words.cautions(run):
            print(f"{run.name}: {caution}", file=sys.stderr)
