"""``rtclab measure`` and ``rtclab compare``."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rtclab.cli import tables
from rtclab.cli.running import Shown, print_cautions, show_summary
from rtclab.comparing import compare
from rtclab.errors import BadInput
from rtclab.experiment import Results, check_names, essential
from rtclab.experiment.flows import Flows
from rtclab.lab import open_results
from rtclab.progress import busy


@dataclass(frozen=True)
class TableOutput:
    """The output options of ``rtclab measure`` and ``rtclab compare``."""

    all_metrics: bool
    as_csv: bool
    as_json: bool


def measure_and_show(
    name: str,
    out: Path,
    begin: str | None,
    end: str | None,
    metrics: Sequence[str],
    by: Sequence[str],
    where: Sequence[str],
    flows: Flows,
    output: TableOutput,
) -> None:
    """Measures a run, a sweep or an import and prints the summary of its metrics."""
    _check_format(output)
    results = chosen_results(name, out, begin, end, where)
    with busy("measuring"):
        measured = results.summary(metrics=metrics or None, by=by or None)
    tables.print_incomplete(results)
    about = {"run": str(results.path), "window": results.window}
    if not _print_for_programs(about, results.rows_of_flows(measured, flows), output):
        show_summary(results, measured, Shown(metrics, flows, by, output.all_metrics))


@dataclass(frozen=True)
class Drawn:
    """What the report shows; see ``rtclab report``."""

    metrics: Sequence[str] = ()
    x: str | None = None
    lines: str | None = None
    flows: Flows = None
    average: Sequence[str] = ()
    where: Sequence[str] = ()
    begin: str | None = None
    end: str | None = None


def chosen_results(
    name: str, out: Path, begin: str | None, end: str | None, where: Sequence[str] = ()
) -> Results:
    """Results by their name, over a part of their time and with some of their conditions, if asked.

    Raises:
        TraceError: there are no such results.
        BadInput: a time or a condition is invalid.
    """
    results = open_results(name, out=out)
    if where:
        results = results.where(**conditions_of(where))
    return results if begin is None and end is None else results.between(begin, end)


def report_and_show(
    name: str, out: Path, plots: Path | None, suffix: str, drawn: Drawn, *, as_json: bool
) -> None:
    """Writes the report of a run or a sweep, and its plots as files with a suffix if asked."""
    from rtclab.report import Chosen, run_plots, sweep_plots, write_report, write_sweep_report

    check_names(drawn.metrics)
    results = chosen_results(name, out, drawn.begin, drawn.end, drawn.where)
    chosen = Chosen(tuple(drawn.metrics), drawn.x, drawn.lines, drawn.flows, tuple(drawn.average))
    with busy("drawing the report"):
        summary = results.summary()
        for sentence in results.without_value(drawn.metrics, summary):
            print(f"{results.name}: {sentence}", file=sys.stderr)
        alone = results.is_run
        if alone and chosen != Chosen(flow=drawn.flows):
            raise BadInput(
                f"{results.name} has one condition; --flow chooses what is drawn, and the other options are "
                "for sweeps"
            )
        if alone:
            page = write_report(
                results.run, summary, results.path / f"report{results.page_suffix}.html", drawn.flows
            )
        else:
            page = write_sweep_report(results, summary, chosen)
        files = []
        if plots is not None:
            drawings = run_plots(results.run, drawn.flows) if alone else sweep_plots(results, summary, chosen)
            files = [plot.save(plots / f"{plot.name}.{suffix}") for plot in drawings]
    tables.print_incomplete(results)
    if as_json:
        tables.print_json({"run": str(results.path), "page": str(page), "plots": [*map(str, files)]})
    else:
        print(page)


def conditions_of(where: Sequence[str]) -> dict[str, str]:
    """The values of fields in the options ``--where``.

    Raises:
        BadInput: an option has no field or no value.
    """
    found = {}
    for text in where:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value):
            raise BadInput(f"--where: cannot read `{text}`; expected FIELD=VALUE")
        found[name] = value
    return found


@dataclass(frozen=True)
class CompareRequest:
    """The options of ``rtclab compare``, except for the output's."""

    runs: Sequence[str]
    by: str | None
    labels: Sequence[str] | None
    out: Path
    begin: str | None
    end: str | None
    paired: bool
    metrics: Sequence[str] | None
    flows: Flows
    page: Path | None


def compare_and_show(request: CompareRequest, output: TableOutput) -> None:
    """Compares runs, writes the page if asked, and prints what differs, the verdicts and the differences."""
    _check_format(output)
    check_names(request.metrics or ())
    compared = compare(
        *request.runs,
        by=request.by,
        labels=request.labels,
        begin=request.begin,
        end=request.end,
        paired=request.paired,
        metrics=request.metrics,
        flows=request.flows,
        out=request.out,
    )
    with busy("comparing"):
        table = compared.table()
        if request.page is not None:
            compared.report(request.page)
    for one in compared.runs:
        print_cautions(one.runs[0])
        tables.print_incomplete(one)
    about = {
        "runs": [str(one.path) for one in compared.runs],
        "window": compared.window,
        "page": request.page and str(request.page),
    }
    measured = _either(table)
    for one in {one.path: one for one in compared.runs}.values():
        for sentence in one.without_value(request.metrics or (), measured):
            print(f"{one.name}: {sentence}", file=sys.stderr)
    if _print_for_programs(about, table, output) or (request.metrics and table.is_empty()):
        return
    all_metrics = output.all_metrics or bool(request.metrics)
    tables.show_comparison(compared, table, table if all_metrics else essential(table))
    if not all_metrics:
        print(f"all {table['metric'].n_unique()} metrics: --all; what they mean: `rtclab metrics`")
    if request.page is not None:
        print(f"page: {request.page}")


def _either(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a comparison with the mean of either run."""
    return table.with_columns(mean=pl.coalesce("base", "new"))


def _check_format(output: TableOutput) -> None:
    """Raises BadInput for two formats at once."""
    if output.as_csv and output.as_json:
        raise BadInput("--json and --csv: expected one of them")


def _print_for_programs(about: Mapping[str, object], rows: pl.DataFrame, output: TableOutput) -> bool:
    """Prints JSON or CSV if that was requested; returns whether it was. JSON has what ``about`` has, too."""
    if output.as_json:
        tables.print_json({**about, "metrics": rows.to_dicts()})
    elif output.as_csv:
        sys.stdout.write(rows.write_csv())
    return output.as_json or output.as_csv
