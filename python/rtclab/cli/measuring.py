"""``rtclab measure`` and ``rtclab compare``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rtclab.cli import tables
from rtclab.cli.running import print_cautions
from rtclab.errors import BadInput
from rtclab.lab import compare, essential, open_run
from rtclab.metrics import METRICS
from rtclab.progress import busy
from rtclab.scenario.table import closest


@dataclass(frozen=True)
class Output:
    """The output options of ``rtclab measure`` and ``rtclab compare``."""

    all_metrics: bool
    as_csv: bool
    as_json: bool


def measure_and_show(
    name: str, out: Path, begin: str | None, end: str | None, metrics: Sequence[str], output: Output
) -> None:
    """Measures a run and prints the metrics; writes ``metrics.json`` if the whole run is measured."""
    _check(metrics, output)
    run = open_run(name, out=out)
    with busy("measuring"):
        whole = begin is None and end is None
        measured = run.write_metrics() if whole else run.summary(begin=begin, end=end)
    tables.print_incomplete(run)
    rows = chosen(measured, metrics)
    if not _print_for_programs(rows.drop("values") if output.as_csv else rows, output):
        tables.show_measured(rows, run, begin, end, all_metrics=output.all_metrics or bool(metrics))


@dataclass(frozen=True)
class CompareRequest:
    """The options of ``rtclab compare``, except for the output's."""

    runs: Sequence[str]
    labels: Sequence[str] | None
    out: Path
    begin: str | None
    end: str | None
    paired: bool
    metrics: Sequence[str]
    html: Path | None


def compare_and_show(request: CompareRequest, output: Output) -> None:
    """Compares runs, writes the page and prints what differs, the verdicts and the differences."""
    _check(request.metrics, output)
    if len(request.runs) < 2:
        raise BadInput(
            f"{request.runs[0]} alone: expected two runs or more",
            hint="the first is what others are compared with",
        )
    compared = compare(
        *request.runs,
        labels=request.labels,
        begin=request.begin,
        end=request.end,
        paired=request.paired,
        out=request.out,
    )
    with busy("comparing"):
        table = compared.table()
        rows = chosen(table, request.metrics)
        page = compared.report(request.html)
    for one in compared.runs:
        print_cautions(one)
        tables.print_incomplete(one)
    if _print_for_programs(rows, output):
        return
    all_metrics = output.all_metrics or bool(request.metrics)
    tables.show_comparison(compared, table, rows if all_metrics else essential(rows))
    if not all_metrics:
        print(f"all {rows['metric'].n_unique()} metrics: --all; what they mean: `rtclab metrics`")
    print(f"page: {page}")


def _check(metrics: Sequence[str], output: Output) -> None:
    """Raises BadInput for a metric that does not exist, and for two formats at once."""
    if output.as_csv and output.as_json:
        raise BadInput("--json and --csv: expected one of them")
    check_names(metrics)


def check_names(metrics: Sequence[str]) -> None:
    """Raises BadInput for a metric that does not exist."""
    for name in metrics:
        if name not in METRICS:
            raise BadInput(
                f"no metric `{name}`", hint=closest(name, METRICS) or "`rtclab metrics` lists them"
            )


def chosen(rows: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """The rows of the given metrics, or all rows if none is given."""
    return rows.filter(pl.col("metric").is_in(list(metrics))) if metrics else rows


def _print_for_programs(rows: pl.DataFrame, output: Output) -> bool:
    """Prints JSON or CSV if that was requested; returns whether it was."""
    if output.as_json:
        tables.print_json(rows.to_dicts())
    elif output.as_csv:
        sys.stdout.write(rows.write_csv())
    return output.as_json or output.as_csv
