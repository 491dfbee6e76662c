"""``rtclab run``: runs a scenario, prints its metrics and writes its report."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.backend import backend as backend_of
from rtclab.campaign import Interrupted
from rtclab.cli import tables
from rtclab.errors import DiskFull
from rtclab.gates.checks import Check, checks_table
from rtclab.gates.limits import Limit, parse_options
from rtclab.gates.result import lines_of
from rtclab.lab import Run, open_run, run
from rtclab.progress import busy
from rtclab.scenario import Scenario, shipped
from rtclab.words import field_trials

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
    print_arguments_of(Scenario.load(scenario, changes), scenario)


def print_arguments_of(scenario: Scenario, origin: str) -> None:
    """Says on standard error which arguments a scenario gives to browsers; ``origin`` is its name or file."""
    for name in scenario.participants:
        if given := scenario.browser_of(name).args:
            print(f"{origin} starts the browser of {name} with {shlex.join(given)}", file=sys.stderr)


def run_and_report(output: Output, limits: Sequence[str], **arguments: Any) -> int:
    """Runs with the arguments of :func:`rtclab.lab.run`, measures, reports; returns the exit status.

    If a limit does not hold, the status is that of a failed run.
    """
    wanted = _limits(limits, arguments) if limits else []
    print_browser_arguments(arguments["backend"], arguments["scenario"], arguments["changes"])
    interrupted = False
    checks: list[Check] = []
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
        if not interrupted:
            checks = [check for limit in wanted for check in _checks(limit, made, measured)]
        if ended and output.report and not interrupted:
            with busy("drawing the report"):
                page = made.report(measured)
        _show(output, made, measured, page, checks)
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
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if failed or any(check.fails for check in checks) else 0


def _limits(texts: Sequence[str], arguments: Mapping[str, Any]) -> list[Limit]:
    """The limits given with ``--assert``, which are for flows of the scenario that will run."""
    if arguments["resume"] is not None:
        resumed = open_run(arguments["resume"], out=arguments["out"])
        scenario = Scenario.read(resumed.scenario, resumed.name)
    elif arguments["scenario"] is not None:
        scenario = Scenario.load(arguments["scenario"], arguments["changes"])
    else:
        return []  # there is an error to come
    return parse_options(texts, "--assert", scenario)


def _checks(limit: Limit, run: Run, measured: pl.DataFrame | None) -> list[Check]:
    rows = [] if measured is None else measured.filter(metric=limit.metric).select("flow", "values").rows()
    return limit.checks(run.scenario["name"], dict(rows))


def _show(
    output: Output, run: Run, measured: pl.DataFrame | None, page: Path | None, checks: Sequence[Check]
) -> None:
    if output.as_json:
        answer = {
            "run": str(run.path),
            "repeats": [asdict(entry) for entry in run.repeats],
            "metrics": [] if measured is None else measured.to_dicts(),
            "report": page and str(page),
            "limits": checks_table(checks).to_dicts(),
        }
        tables.print_json(answer)
        return
    if measured is not None:
        tables.show_measured(measured, run, all_metrics=output.all_metrics)
    for line in lines_of(checks):
        for check in line.failing:
            print(f"FAILED: {check.sentence()}")
        if not line.failing:
            flows = len(line.checks)
            print(f"holds: {line.worst.sentence()}{f', the worst of {flows} flows' if flows > 1 else ''}")
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
