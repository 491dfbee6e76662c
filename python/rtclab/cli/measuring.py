"""``rtclab measure`` and ``rtclab compare``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rtclab.cli import tables
from rtclab.errors import BadInput
from rtclab.lab import compare, essential, open_run
from rtclab.metrics import METRICS
from rtclab.progress import busy
from rtclab.scenario.table import closest


@dataclass(frozen=True)
class Shown:
    """What is printed of a table, and as what; see the options of the same names."""

    everything: bool
    as_csv: bool
    as_json: bool


def measure_and_show(
    name: str, out: Path, begin: str | None, end: str | None, metrics: Sequence[str], shown: Shown
) -> None:
    """Measures a run; writes ``metrics.json`` if all of it was measured."""
    check(metrics, shown)
    run = open_run(name, out=out)
    with busy("measuring"):
        whole = begin is None and end is None
        measured = run.write_metrics() if whole else run.summary(begin=begin, end=end)
    rows = chosen(measured, metrics)
    if not _print_for_programs(rows.drop("values") if shown.as_csv else rows, shown):
        tables.show_measured(rows, run.name, everything=shown.everything or bool(metrics))


def compare_and_show(
    names: tuple[str, str],
    out: Path,
    begin: str | None,
    end: str | None,
    metrics: Sequence[str],
    html: Path | None,
    shown: Shown,
) -> None:
    """Compares two runs, writes the page and prints the differences."""
    check(metrics, shown)
    compared = compare(*names, begin=begin, end=end, out=out)
    with busy("comparing"):
        rows = chosen(compared.table(), metrics)
        page = compared.report(html or out / f"{compared.a.name}-and-{compared.b.name}.html")
    if _print_for_programs(rows, shown):
        return
    everything = shown.everything or bool(metrics)
    tables.show_comparison(rows if everything else essential(rows), compared.a.name, compared.b.name)
    if not everything:
        print(f"all {rows['metric'].n_unique()} metrics: --all; what they mean: `rtclab metrics`")
    print(f"page: {page}")


def check(metrics: Sequence[str], shown: Shown) -> None:
    """Raises BadInput for a metric that does not exist, and for two formats at once."""
    if shown.as_csv and shown.as_json:
        raise BadInput("--json and --csv: expected one of them")
    for name in metrics:
        if name not in METRICS:
            raise BadInput(
                f"--metric: no metric `{name}`", hint=closest(name, METRICS) or "`rtclab metrics` lists them"
            )


def chosen(rows: pl.DataFrame, metrics: Sequence[str]) -> pl.DataFrame:
    """The rows of some metrics, or all of them if none is named."""
    return rows.filter(pl.col("metric").is_in(list(metrics))) if metrics else rows


def _print_for_programs(rows: pl.DataFrame, shown: Shown) -> bool:
    if shown.as_json:
        tables.print_json(rows.to_dicts())
    elif shown.as_csv:
        sys.stdout.write(rows.write_csv())
    return shown.as_json or shown.as_csv
