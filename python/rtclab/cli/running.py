"""``rtclab run`` and ``rtclab sweep``: run, print the most important metrics, and write a report."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import polars as pl

from rtclab.backend import backend as backend_of
from rtclab.cli import tables
from rtclab.errors import BadInput, DiskFull
from rtclab.experiment import Interrupted, Results, essential, parse_vary
from rtclab.experiment.flows import Flows, chosen_flows, scenario_flows
from rtclab.lab import open_results
from rtclab.metrics import ESSENTIAL, METRICS
from rtclab.processes import cores, process_pool
from rtclab.progress import busy
from rtclab.scenario import Scenario
from rtclab.scenario.ignored import ignored_fields, is_ignored
from rtclab.scenario.layers import Change, split_fields
from rtclab.scenario.rate_traces import doubts
from rtclab.trace import Run

if TYPE_CHECKING:  # imported where a limit was given, so that runs without one start quickly
    from rtclab.gates.checks import Check
    from rtclab.gates.limits import Limit

EXIT_FAILED = 1
EXIT_INTERRUPTED = 130
MAX_THREADS = 4
"""Maximum number of threads. More jobs run in processes, because threads would wait for Python's GIL."""
MAX_ROWS = 60
"""Maximum number of printed rows of a sweep."""


@dataclass(frozen=True)
class RunOutput:
    """The output options of the commands that run something."""

    report: bool
    all_metrics: bool = False
    as_json: bool = False
    metrics: Sequence[str] = ()
    quiet: bool = False
    flows: Flows = None

    def __post_init__(self) -> None:
        """Refuses options that contradict each other.

        Raises:
            BadInput: two do.
        """
        for option, given in (("--json", self.as_json), ("--all", self.all_metrics)):
            if self.quiet and given:
                raise BadInput(f"--quiet and {option}: expected one of them")


@dataclass(frozen=True)
class Shown:
    """What a table shows.

    Attributes:
        metrics: the metrics; by default the most important ones.
        flows: the flows; by default all that do not carry feedback alone.
        keys: the columns that tell rows apart, by default the varied fields or the label.
        all_metrics: all metrics with standard deviations.
    """

    metrics: Sequence[str] = ()
    flows: Flows = None
    keys: Sequence[str] = ()
    all_metrics: bool = False


def changes_of(changes: Sequence[str] | None, control: str | None) -> list[Change]:
    """The changes of ``--control`` and ``--set``, in this order.

    Raises:
        BadInput: a change cannot be read.
    """
    chosen = [] if control is None else [Change("control", control, "--control")]
    return [*chosen, *map(Change.parse, changes or ())]


def sweep_in_processes(sweep: Callable[..., Results], jobs: int | None, *, simulated: bool) -> Results:
    """Runs a sweep in processes if there are more jobs than threads can do, otherwise in threads."""
    jobs = jobs or (cores() if simulated else 1)
    if not simulated or jobs <= MAX_THREADS:
        return sweep(jobs=jobs)
    with process_pool(jobs) as executor:
        return sweep(executor=executor)


def fields_of(vary: Sequence[str]) -> dict[str, str]:
    """The varied fields and their values, from the options ``--vary``.

    Raises:
        BadInput: a field is given twice, or a text has no field.
    """
    fields: dict[str, str] = {}
    for text in vary:
        name, values = parse_vary(text)
        if name in fields:
            raise BadInput(f"--vary: {name} is given twice", hint="give all values at once, as A,B,C")
        fields[name] = values
    return fields


def seats_of(invite: Sequence[str]) -> dict[str, str]:
    """The address of each invited participant, empty if there is none, from the options ``--invite``.

    Raises:
        BadInput: a participant is given twice, or has no name.
    """
    seats: dict[str, str] = {}
    for text in invite:
        name, _, address = text.partition("=")
        if not name:
            raise BadInput(f"--invite: cannot read `{text}`; expected NAME=ADDRESS")
        if name in seats:
            raise BadInput(f"--invite: {name} is given twice")
        seats[name] = address
    return seats


def run_and_report(output: RunOutput, start: Callable[[], Results], limits: Sequence[Limit] = ()) -> int:
    """Runs, measures and reports; returns the exit status. ``start`` runs and returns the results.

    If a limit does not hold, the status is the one of a failed run.
    """
    interrupted = False
    checks: list[Check] = []
    try:
        made = start()
    except Interrupted as stopped:
        made, interrupted = stopped.results, True
    try:
        measured, page = None, None
        if made.outcomes().filter(pl.col("status") != "interrupted").height:
            with busy("measuring"):
                measured = made.summary()
            if not interrupted:
                checks = [check for limit in limits for check in _checks(limit, made)]
            if output.report and not interrupted:
                with busy("drawing the report"):
                    page = made.report(measured)
        _show(output, made, measured, page, checks)
    except (KeyboardInterrupt, DiskFull) as error:
        print(f"all repeats are kept; `rtclab report {made.path}` measures and draws them", file=sys.stderr)
        if isinstance(error, DiskFull):
            raise
        interrupted = True
    finally:
        _print_outcomes(made)
    if interrupted:
        return EXIT_INTERRUPTED
    return EXIT_FAILED if made.failures().height or any(check.fails for check in checks) else 0


def limits_of(
    texts: Sequence[str],
    flows: Sequence[str],
    name: str | None,
    changes: Sequence[str | Change],
    resume: str | None,
    out: Path,
) -> list[Limit]:
    """The limits given with ``--assert``, which like ``--flow`` are for flows of the scenario that will run.

    Raises:
        BadInput: a limit cannot be read, or its metric, unit or flow is unknown, or there is no such flow.
    """
    if not (texts or flows) or (name is None and resume is None):
        return []  # without a scenario there is an error to come
    if resume is not None:
        resumed = open_results(resume, out=out).run
        scenario = Scenario.read(dict(resumed.scenario), resumed.name)
    else:
        scenario = Scenario.load(str(name), changes)
    if not scenario.pages():  # whose flows are known when they are there
        chosen_flows(flows, scenario_flows(scenario))
    from rtclab.gates.limits import parse_options

    return parse_options(texts, "--assert", scenario)


def _checks(limit: Limit, made: Results) -> list[Check]:
    values: dict[str, list[float | None]] = {}
    for flow, value in made.metrics(metrics=[limit.metric]).select("flow", "value").iter_rows():
        values.setdefault(flow, []).append(value)
    return limit.checks(str(made.scenario["name"]), values)


def _show(
    output: RunOutput,
    made: Results,
    measured: pl.DataFrame | None,
    page: Path | None,
    checks: Sequence[Check],
) -> None:
    if output.as_json:
        from rtclab.gates.checks import checks_table

        rows = None if measured is None else made.rows_of_flows(measured, output.flows, output.metrics)
        rows = None if rows is None else chosen(rows, output.metrics)
        answer = {
            "run": str(made.path),
            "window": made.window,
            "repeats": made.outcomes().to_dicts(),
            "metrics": [] if rows is None else rows.to_dicts(),
            "page": page and str(page),
            "limits": checks_table(checks).to_dicts(),
        }
        tables.print_json(answer)
        return
    if output.quiet:
        print(made.path)
        for check in checks:
            if check.fails:
                print(f"FAILED: {check.sentence()}", file=sys.stderr)
        return
    if measured is not None:
        shown = Shown(output.metrics, output.flows, all_metrics=output.all_metrics)
        show_summary(made, measured, shown)
    if checks:
        _print_checks(checks)
    print(f"run: {made.path} ({made.finished} of {made.planned} repeats finished)")
    if page is not None:
        print(f"report: {page}")


def _print_checks(checks: Sequence[Check]) -> None:
    from rtclab.gates.result import lines_of

    for line in lines_of(checks):
        for check in line.failing:
            print(f"FAILED: {check.sentence()}")
        if not line.failing:
            flows = len(line.checks)
            print(f"holds: {line.worst.sentence()}{f', the worst of {flows} flows' if flows > 1 else ''}")


def show_summary(made: Results, measured: pl.DataFrame, shown: Shown) -> None:
    """Prints a summary: of one condition its metrics and a sentence, of several a row for each."""
    every = shown.all_metrics or bool(shown.metrics)
    rows = made.rows_of_flows(chosen(measured, shown.metrics), shown.flows, shown.metrics)
    known = rows["flow"].unique(maintain_order=True).to_list()
    for sentence in _without_value(made, rows, shown):
        print(f"{made.name}: {sentence}", file=sys.stderr)
    if rows["mean"].is_null().all():
        return
    if shown.flows is None:
        rows = made.without_feedback(rows)
    if len(made.conditions) == 1:
        most = tables.MOST_ROWS if shown.flows is None else tables.MOST_FLOWS
        tables.show_measured(rows, made.run, all_metrics=every, most=most)
    else:
        of_metrics = rows if every else essential(rows)
        keys = list(shown.keys) or made.fields or ["condition"]
        tables.show_points(of_metrics, made.window, keys, MAX_ROWS, all_metrics=every)
    tables.tell_feedback([flow for flow in known if flow not in set(rows["flow"])])
    if made.drawn_over_time and not shown.metrics:
        from rtclab.report.runs import run_verdict

        tables.print_text(run_verdict(made.run, measured))


def _without_value(made: Results, rows: pl.DataFrame, shown: Shown) -> list[str]:
    """Which of the wanted metrics have no value, and why; by default of the most important ones."""
    in_window = made.window is not None
    needy = [name for name in ESSENTIAL if METRICS[name].needs_packets(in_window=in_window)]
    return made.without_value(shown.metrics or needy, rows)


def chosen(rows: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """The rows of the given metrics, or all rows if none is given."""
    return rows.filter(pl.col("metric").is_in(list(metrics))) if metrics else rows


def _print_outcomes(made: Results) -> None:
    """Says on standard error which repeats failed or are missing, and how to continue."""
    alone = len(made.conditions) == 1
    print_cautions(made.runs[0])
    for field in made.fields:
        if all(is_ignored(name, made.backend) for name in split_fields(field)):
            print(f"{made.name}: {field} was varied, and has no effect in a simulated call.", file=sys.stderr)
    noted = made.outcomes().filter(pl.col("status").is_in(["failed", "error"]) | (pl.col("note") != ""))
    alike = noted.group_by("condition", "status", "reason", "note", maintain_order=True).agg("repeat")
    for row in alike.head(tables.MOST_ROWS).iter_rows(named=True):
        numbers = row["repeat"]
        repeat = f"repeat {numbers[0]}" if len(numbers) == 1 else f"{len(numbers)} repeats"
        repeat = repeat if alone else f"{row['condition']}, {repeat}"
        what = {"failed": " failed", "error": ": the laboratory failed"}.get(row["status"], "")
        if row["reason"].startswith("congestion control "):
            what = ""  # the control is to blame
        print(f"{repeat}{what}: {row['reason'] or row['note']}", file=sys.stderr)
    if alike.height > tables.MOST_ROWS:
        print(
            f"{alike.height - tables.MOST_ROWS} more; `results.outcomes()` in Python has all", file=sys.stderr
        )
    if (
        not tables.print_incomplete(made)
        and made.failures().height
        and not backend_of(made.backend).deterministic
    ):
        print(tables.how_to_continue(made), file=sys.stderr)


def print_cautions(run: Run) -> None:
    """Says on standard error what a reader must know of a run's results."""
    # Importing the report takes time, and most simulated runs need no caution.
    if run.backend == "live" or ignored_fields(run.scenario, run.backend) or doubts(run.scenario):
        from rtclab.report import words

        for caution in words.cautions(run):
            print(f"{run.name}: {caution}", file=sys.stderr)
