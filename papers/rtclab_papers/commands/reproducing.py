"""``rtclab reproduce``: runs the conditions of papers and compares our results with theirs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from rtclab.cli import EXIT_FAILED, EXIT_INTERRUPTED, new_table, print_json, print_table, right
from rtclab.progress import progress
from rtclab.scenario import shipped
from rtclab_papers.reproduce import EVERY_PAPER, NAMES, paper, plan_of, repeats_of
from rtclab_papers.reproduce.comparison import Comparison
from rtclab_papers.reproduce.pages import write_docs, write_pages
from rtclab_papers.reproduce.paper import Paper
from rtclab_papers.reproduce.results import Results, results_path
from rtclab_papers.reproduce.runner import Failure, Plan, run, unfinished
from rtclab_papers.reproduce.score import scores
from rtclab_papers.reproduce.variants import split


@dataclass(frozen=True)
class ReproduceRequest:
    """The options of ``rtclab reproduce``."""

    papers: Sequence[str]
    repeats: int | None
    jobs: int | None
    out: Path
    docs: Path | None
    as_json: bool
    every_reading: bool = False


def run_and_compare(request: ReproduceRequest) -> int:
    """Runs what is not finished, compares and writes the pages; returns the exit status."""
    names = NAMES if EVERY_PAPER in request.papers else list(dict.fromkeys(request.papers))
    papers = [paper(name) for name in names]
    plans = plans_of(papers, request.repeats, every_reading=request.every_reading)
    out = results_path(request.out)
    try:
        failures = _run(plans, out, request.jobs)
    except KeyboardInterrupt:
        print("finished repeats are kept; run the same command again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    results = Results(
        {plan.name: plan.store(out) for plan in plans},
        {plan.name: plan.repeats for plan in plans},
    )
    comparisons = [Comparison(one, results) for one in papers]
    pages = write_pages(comparisons, out)
    if request.docs is not None:
        write_docs(comparisons, request.docs)
    _show(request, comparisons, pages)
    _show_failures(failures)
    return EXIT_FAILED if failures else 0


def show_papers(*, as_json: bool) -> None:
    """Prints name, title, source and numbers of tables and scenarios of each paper."""
    papers = [paper(name) for name in NAMES]
    if as_json:
        print_json(
            [
                {"name": one.name, "title": one.title, "source": one.source, "scenarios": one.scenarios}
                for one in papers
            ]
        )
        return
    table = new_table("paper", "title", *right("tables", "scenarios"), "source")
    for one in papers:
        table.add_row(one.name, one.title, str(len(one.tables)), str(len(one.scenarios)), one.source)
    print_table(table)


def plans_of(papers: Sequence[Paper], repeats: int | None, *, every_reading: bool = False) -> list[Plan]:
    """The plans for the papers; a scenario that several papers need runs once."""
    known = shipped()
    names = [name for one in papers for name in one.scenarios]
    if every_reading:
        names += [name for one in papers for name, _ in one.extra_needs]
    names = [name for name in dict.fromkeys(names) if split(name)[0] in known]
    return [plan_of(name, repeats or repeats_of(name)) for name in names]


def _run(plans: Sequence[Plan], out: Path, jobs: int | None) -> list[Failure]:
    batches = [batch for plan in plans for batch in unfinished(plan, out)]
    if not batches:
        return []
    with progress("reproducing", sum(len(batch.repeats) for batch in batches), "repeats") as advance:

        def on_interrupt() -> None:
            print("interrupted; finishing the repeats that are running", file=sys.stderr)

        return run(batches, jobs=jobs, on_finished=advance, on_interrupt=on_interrupt)


def _show(request: ReproduceRequest, comparisons: Sequence[Comparison], pages: Sequence[Path]) -> None:
    if request.as_json:
        print_json(
            [one.as_dict() | {"report": str(page)} for one, page in zip(comparisons, pages, strict=True)]
        )
        return
    for one, page in zip(comparisons, pages, strict=True):
        _show_comparison(one)
        print(f"report: {page}\n")
    if request.docs is not None:
        print(f"docs: {request.docs}")


def _show_comparison(comparison: Comparison) -> None:
    print(f"{comparison.paper.name}: {comparison.paper.title}")
    table = new_table("measurements", *right("within", "of", "%", "null model"))
    for score in scores([comparison]):
        of = score.all
        table.add_row(score.kind, str(of.within), str(of.all), f"{of.percent:.0f}", str(of.null))
    print_table(table)
    trends = new_table("", "statement", "ours")
    for trend, finding in comparison.trends:
        trends.add_row(finding.outcome, trend.statement, finding.figures)
    print_table(trends)


def _show_failures(failures: Sequence[Failure]) -> None:
    for failure in failures:
        numbers = ", ".join(map(str, failure.repeats))
        typer.echo(f"{failure.scenario}, repeats {numbers}: {failure.reason}", err=True)
