"""``rtclab measure``, ``report``, ``export`` and ``compare``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from rtclab.cli import tables
from rtclab.cli.running import (
    EXIT_FAILED,
    checks_of,
    pairs,
    print_broken,
    print_cautions,
    print_checks,
    show_summary,
)
from rtclab.comparing import compare
from rtclab.errors import BadInput
from rtclab.experiment import Results, check_names, essential
from rtclab.experiment.export import values_of_repeats
from rtclab.experiment.flows import Flows
from rtclab.lab import open_results
from rtclab.progress import busy

Texts = Sequence[str] | None
"""The texts of an option that may be given several times; None if it was not given."""


def measure_and_show(
    *,
    name: str,
    begin: str | None,
    end: str | None,
    metrics: Texts,
    by: Texts,
    where: Texts,
    flows: Flows,
    limits: Texts,
    all_metrics: bool,
    out: Path,
    quiet: bool,
    as_csv: bool,
    as_json: bool,
) -> int:
    """Measures results, prints the summary of their metrics, and returns the exit status."""
    from rtclab.gates.checks import checks_table
    from rtclab.gates.limits import parse_options

    wanted = parse_options(limits or (), "--assert", None)
    results = chosen_results(name, out, begin, end, where)
    with busy("measuring"):
        measured = results.summary(metrics=metrics or None, by=by or None)
        for limit in wanted:
            results.rows_of_flows(measured, limit.flow)  # refuses a flow that there is not
        checks = checks_of(wanted, results)
    tables.print_incomplete(results)
    rows = results.rows_of_flows(measured, flows)
    about: dict[str, object] = {"run": str(results.path), "window": results.window}
    if checks:
        about["limits"] = checks_table(checks).to_dicts()
    if tables.print_rows(rows, as_csv=as_csv, as_json=as_json, **about) or quiet:
        if not as_json:
            print_broken(checks, sys.stderr)
    else:
        show_summary(
            results, measured, metrics=metrics or (), flows=flows, by=by or (), all_metrics=all_metrics
        )
        print_checks(checks)
    return EXIT_FAILED if any(check.fails for check in checks) else 0


def chosen_results(name: str, out: Path, begin: str | None, end: str | None, where: Texts = None) -> Results:
    """Results by their name, over a part of their time and with some of their conditions, if asked.

    Raises:
        TraceError: there are no such results.
        BadInput: a time or a condition is invalid.
    """
    results = open_results(name, out=out)
    if where:
        results = results.where(**pairs("--where", where, "FIELD=VALUE"))
    return results if begin is None and end is None else results.between(begin, end)


def export_and_show(
    *,
    name: str,
    file: Path | None,
    begin: str | None,
    end: str | None,
    metrics: Texts,
    where: Texts,
    flows: Flows,
    out: Path,
    as_json: bool,
) -> None:
    """Writes the values of all repeats to a file and prints its path, or prints them."""
    if file is not None and as_json:
        raise BadInput("--json: expected no FILE, or no --json")
    results = chosen_results(name, out, begin, end, where)
    with busy("measuring"):
        if file is not None:
            results.export(file, metrics=metrics, flows=flows)
        else:
            rows = values_of_repeats(results, metrics, flows)
    tables.print_incomplete(results)
    if file is not None:
        print(file)
    elif as_json:
        values = rows.to_dicts()
        tables.print_json({"run": str(results.path), "window": results.window, "values": values})
    else:
        tables.print_rows(rows, as_csv=True, as_json=False)


def report_and_show(
    *,
    name: str,
    plots: Path | None,
    suffix: Literal["svg", "png", "pdf", "html"] | None,
    metrics: Texts,
    x: str | None,
    by: str | None,
    average: Texts,
    where: Texts,
    flows: Flows,
    begin: str | None,
    end: str | None,
    out: Path,
    as_json: bool,
) -> None:
    """Writes the report of a run or a sweep, and its plots as files with a suffix if asked."""
    from rtclab.report import Chosen, run_plots, sweep_plots, write_report, write_sweep_report

    if suffix is not None and plots is None:
        raise BadInput("--format: expected --plots with it")
    check_names(metrics or ())
    results = chosen_results(name, out, begin, end, where)
    chosen = Chosen(metrics=tuple(metrics or ()), x=x, by=by, flow=flows, average=tuple(average or ()))
    with busy("drawing the report"):
        summary = results.summary()
        for sentence in results.without_value(metrics or (), summary):
            print(f"{results.name}: {sentence}", file=sys.stderr)
        alone = results.is_run
        if alone and chosen != Chosen(flow=flows):
            raise BadInput(
                f"{results.name} has one condition; --flow chooses what is drawn, and the other options are "
                "for sweeps"
            )
        if alone:
            page = write_report(
                results.run, summary, results.path / f"report{results.page_suffix}.html", flows
            )
        else:
            page = write_sweep_report(results, summary, chosen)
        files = []
        if plots is not None:
            drawings = run_plots(results.run, flows) if alone else sweep_plots(results, summary, chosen)
            files = [plot.save(plots / f"{plot.name}.{suffix or 'svg'}") for plot in drawings]
    tables.print_incomplete(results)
    if as_json:
        tables.print_json({"run": str(results.path), "page": str(page), "plots": [*map(str, files)]})
    else:
        print(page)


def compare_and_show(
    *,
    runs: Sequence[str],
    labels: Texts,
    page: Path | None,
    begin: str | None,
    end: str | None,
    unpaired: bool,
    metrics: Texts,
    flows: Flows,
    all_metrics: bool,
    out: Path,
    as_csv: bool,
    as_json: bool,
) -> None:
    """Compares runs, writes the page if asked, and prints what differs, the verdicts and the differences."""
    check_names(metrics or ())
    if len(runs) < 2:
        raise BadInput(
            f"{runs[0]} alone: expected two runs or more", hint="the first is what others are compared with"
        )
    compared = compare(
        *runs,
        labels=labels,
        begin=begin,
        end=end,
        paired=not unpaired,
        metrics=metrics,
        flows=flows,
        out=out,
    )
    with busy("comparing"):
        table = compared.table()
        if page is not None:
            compared.report(page)
    for one in compared.runs:
        print_cautions(one.run)
        tables.print_incomplete(one)
    measured = table.with_columns(mean=pl.coalesce("mean_a", "mean_b"))
    for one in {one.path: one for one in compared.runs}.values():
        for sentence in one.without_value(metrics or (), measured):
            print(f"{one.name}: {sentence}", file=sys.stderr)
    about = {
        "runs": [str(one.path) for one in compared.runs],
        "window": compared.window,
        "page": page and str(page),
    }
    printed = tables.print_rows(table, as_csv=as_csv, as_json=as_json, **about)
    if printed or (metrics and table.is_empty()):
        return
    every = all_metrics or bool(metrics)
    tables.show_comparison(compared, table, table if every else essential(table))
    if not every:
        print(f"all {table['metric'].n_unique()} metrics: --all; what they mean: `rtclab metrics`")
    if page is not None:
        print(f"page: {page}")
