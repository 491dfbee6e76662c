"""``rtclab sweep``: runs a sweep, prints its metrics and writes its report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.cli import tables
from rtclab.cli.running import EXIT_FAILED, EXIT_INTERRUPTED, print_browser_arguments
from rtclab.errors import BadInput, DiskFull
from rtclab.lab import essential
from rtclab.processes import cores, process_pool
from rtclab.progress import busy
from rtclab.sweeps import SIM, Grid, Interrupted, open_sweep, parse_vary, sweep

MAX_THREADS = 4
"""Maximum number of threads. More jobs run in processes, because threads would wait for Python's GIL."""
MAX_ROWS = 60
"""Maximum number of printed rows."""


@dataclass(frozen=True)
class Output:
    """The output options of ``rtclab sweep``."""

    report: bool
    as_json: bool


def sweep_and_report(
    output: Output, vary: Sequence[str], jobs: int | None, backend: str | None, **arguments: Any
) -> int:
    """Runs a sweep with the arguments of :func:`rtclab.sweeps.sweep`; returns the exit status."""
    print_browser_arguments(backend, arguments["scenario"], arguments["changes"])
    resume, interrupted = arguments["resume"], False
    started = None if resume is None else open_sweep(resume, out=arguments["out"])
    simulated = (backend or (SIM if started is None else started.backend)) == SIM
    jobs = jobs or (cores() if simulated else 1)
    workers = process_pool(jobs) if simulated and jobs > MAX_THREADS else nullcontext()
    try:
        with workers as executor:
            grid = sweep(
                vary=_fields(vary),
                backend=backend,
                executor=executor,
                jobs=None if executor else jobs,
                **arguments,
            )
    except Interrupted as stopped:
        grid, interrupted = stopped.grid, True
    failures = grid.failures()
    try:
        page = None
        if output.report and not interrupted:
            with busy("drawing the report"):
                page = grid.report()
        _show(output, grid, failures, page)
    except (KeyboardInterrupt, DiskFull) as error:
        print(f"all finished repeats are kept in {grid.path}", file=sys.stderr)
        if isinstance(error, DiskFull):
            raise
        interrupted = True
    _show_failures(grid, failures)
    return EXIT_INTERRUPTED if interrupted else EXIT_FAILED if failures.height else 0


def _fields(vary: Sequence[str]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for text in vary:
        name, values = parse_vary(text)
        if name in fields:
            raise BadInput(f"--vary: {name} is given twice", hint="give all values at once, as A,B,C")
        fields[name] = values
    return fields


def _show(output: Output, grid: Grid, failures: pl.DataFrame, page: Path | None) -> None:
    done, size = grid.progress()
    summary = grid.summary()
    if output.as_json:
        answer = {
            "sweep": str(grid.path),
            "finished": done,
            "repeats": size,
            "failures": failures.to_dicts(),
            "metrics": summary.to_dicts(),
            "report": page and str(page),
        }
        tables.print_json(answer)
        return
    tables.show_points(essential(summary), grid.fields, MAX_ROWS)
    print(f"sweep: {grid.path} ({done} of {size} repeats finished)")
    if page is not None:
        print(f"report: {page}")


def _show_failures(grid: Grid, failures: pl.DataFrame) -> None:
    for row in failures.head(tables.MOST_ROWS).iter_rows(named=True):
        point = ", ".join(f"{field} = {row[field]}" for field in grid.fields)
        print(f"{point}, repeat {row['repeat']} failed: {row['failure']}", file=sys.stderr)
    if failures.height > tables.MOST_ROWS:
        print(f"{failures.height - tables.MOST_ROWS} more repeats failed", file=sys.stderr)
    done, size = grid.progress()
    if done < size:
        print(f"interrupted: {size - done} of {size} repeats not finished", file=sys.stderr)
        print(f"  hint: continue with `rtclab sweep --resume {grid.path}`", file=sys.stderr)
