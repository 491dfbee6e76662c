"""What commands that run or measure calls share: options, limits, summaries and reports."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import polars as pl

from rtclab.backend import backend as backend_of
from rtclab.cli import tables
from rtclab.errors import BadInput, DiskFull
from rtclab.experiment import Interrupted, Results, essential
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


def changes_of(changes: Sequence[str] | None, control: str | None) -> list[Change]:
    """The changes of ``--control`` and ``--set``, in this order.

    Raises:
        BadInput: a change cannot be read.
    """
    chosen = [] if control is None else [Change("control", control, "--control")]
    return [*chosen, *map(Change.parse, changes or ())]


def chosen_results(
    name: str, out: Path, begin: str | None, end: str | None, where: Sequence[str] | None
) -> Results:
    """Results by their name, over a part of their time and with some of their conditions, if asked.

    Raises:
        TraceError: there are no such results.
        BadInput: a time or a condition is invalid.
    """
    results = open_results(name, out=out)
    if where:
        results = results.where(pairs("--where", where, "FIELD=VALUE"))
    return results if begin is None and end is None else results.between(begin, end)


def sweep_in_processes(sweep: Callable[..., Results], jobs: int | None, *, simulated: bool) -> Results:
    """Runs a sweep in processes if there are more jobs than threads can do, otherwise in threads."""
    jobs = jobs or (cores() if simulated else 1)
    if not simulated or jobs <= MAX_THREADS:
        return sweep(jobs=jobs)
    with process_pool(jobs) as executor:
        return sweep(executor=executor)


def pairs(option: str, texts: Sequence[str], expected: str) -> dict[str, str]:
    """Names and values in the texts of an option that is ``expected``, such as ``NAME=ADDRESS``.

    Raises:
        BadInput: a text has no name or no value, or a name is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not (name and value):
            raise BadInput(f"{option}: cannot read `{text}`; expected {expected}")
        if name in found:
            raise BadInput(f"{option}: {name} is given twice")
        found[name] = value
    return found


def run_and_report(
    start: Callable[[], Results],
    *,
    limits: Sequence[Limit],
    report: bool,
    quiet: bool,
    as_csv: bool,
    as_json: bool,
    metrics: Sequence[str] = (),
    flows: Flows = None,
    all_metrics: bool = False,
) -> int:
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
                checks = checks_of(limits, made)
            if report and not interrupted:
                with busy("drawing the report"):
                    page = made.report(measured)
        if as_json or as_csv:
            from rtclab.gates.checks import checks_table

            rows = pl.DataFrame() if measured is None else made.rows_of_flows(measured, flows, metrics)
            about = {
                "run": str(made.path),
                "window": made.window,
                "repeats": made.outcomes().to_dicts(),
                "page": page and str(page),
                "limits": checks_table(checks).to_dicts(),
            }
            tables.print_rows(chosen(rows, metrics), as_csv=as_csv, as_json=as_json, **about)
        elif quiet:
            print(made.path)
        else:
            if measured is not None:
                show_summary(made, measured, metrics=metrics, flows=flows, all_metrics=all_metrics)
            print_checks(checks, made)
            print(f"run: {made.path} ({made.finished} of {made.planned} repeats finished)")
            if page is not None:
                print(f"report: {page}")
        if as_csv or quiet:
            print_broken(checks, made, sys.stderr)
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
        resumed = open_results(resume, out=out).runs[0]
        scenario = Scenario.read(dict(resumed.scenario), resumed.name)
    else:
        scenario = Scenario.load(str(name), changes)
    if not scenario.pages():  # whose flows are known when they are there
        chosen_flows(flows, scenario_flows(scenario))
    from rtclab.gates.limits import parse_options

    return parse_options(texts, "--assert", scenario)


def checks_of(limits: Sequence[Limit], made: Results) -> list[Check]:
    """Whether each limit holds in each condition, for each flow. Checks are named after the conditions."""
    if not limits:
        return []
    values = made.metrics(metrics=list({limit.metric for limit in limits}))
    checks: list[Check] = []
    for condition in made.conditions:
        for limit in limits:
            rows = values.filter(condition=condition, metric=limit.metric)
            by_flow = rows.group_by("flow", maintain_order=True).agg("value")
            checks += limit.checks(condition, dict(by_flow.iter_rows()))
    if not any(check.fails for check in checks):
        return checks
    from rtclab.gates.causes import with_causes

    runs = dict(zip(made.conditions, made.runs, strict=True))
    return with_causes(checks, runs.get)


def print_broken(checks: Sequence[Check], made: Results, file: TextIO | None = None) -> None:
    """Prints a sentence for each limit that does not hold, with its condition if there are several."""
    in_words = {
        row["condition"]: ", ".join(f"{field} = {row[field]}" for field in made.fields) or row["condition"]
        for row in made.outcomes().iter_rows(named=True)
    }
    for check in checks:
        if check.fails:
            condition = f"{in_words[check.scenario]}: " if len(made.conditions) > 1 else ""
            print(f"FAILED: {condition}{check.sentence()}", file=file)


def print_checks(checks: Sequence[Check], made: Results) -> None:
    """Prints for each limit a sentence where it does not hold, and one if it holds somewhere."""
    if not checks:
        return
    from rtclab.gates.outcome import lines_of

    for text in dict.fromkeys(check.check for check in checks):
        of_limit = [check for check in checks if check.check == text]
        print_broken(of_limit, made)
        holding = [line for line in lines_of(of_limit) if not line.failing]
        if holding and len(made.conditions) > 1:
            print(f"holds: {text}, in {len(holding)} of {len(made.conditions)} conditions")
        for line in holding if len(made.conditions) == 1 else ():
            flows = len(line.checks)
            more = f", the worst of {flows} flows" if flows > 1 else ""
            print(f"holds: {line.worst.sentence()}{more}")


def show_summary(
    made: Results,
    measured: pl.DataFrame,
    *,
    metrics: Sequence[str] = (),
    flows: Flows = None,
    by: Sequence[str] = (),
    all_metrics: bool = False,
) -> None:
    """Prints a summary: of one condition its metrics and a sentence, of several a row for each.

    Args:
        made: the results.
        measured: their summary.
        metrics: the metrics; by default the most important ones.
        flows: the flows; by default all that do not carry feedback alone.
        by: the fields that the summary is by, if not each condition has a row.
        all_metrics: all metrics with standard deviations.
    """
    every = all_metrics or bool(metrics)
    rows = made.rows_of_flows(chosen(measured, metrics), flows, metrics)
    known = rows["flow"].unique(maintain_order=True).to_list()
    in_window = made.window is not None
    needy = [name for name in ESSENTIAL if METRICS[name].needs_packets(in_window=in_window)]
    for sentence in made.without_value(metrics or needy, rows):
        print(f"{made.name}: {sentence}", file=sys.stderr)
    if rows["mean"].is_null().all():
        return
    if flows is None:
        rows = made.without_feedback(rows)
    if len(made.conditions) == 1:
        most = tables.MOST_ROWS if flows is None else tables.MOST_FLOWS
        tables.show_measured(rows, made.run, all_metrics=every, most=most)
    else:
        of_metrics = rows if every else essential(rows)
        keys = list(by) or made.fields or ["condition"]
        tables.show_points(of_metrics, made.window, keys, all_metrics=every)
    if len(made.conditions) > 1 and not (metrics or by):
        from rtclab.report.sweeps import sweep_verdict

        tables.print_text(sweep_verdict(made, measured, flows))
    shown = set(rows["flow"])
    tables.tell_feedback([flow for flow in known if flow not in shown])
    if made.drawn_over_time and not metrics:
        from rtclab.report.runs import findings_of
        from rtclab.report.verdict import verdict

        found = findings_of(made.run, measured)
        tables.print_text(verdict(found))
        if not every:
            tables.show_people(made.run, found)


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
