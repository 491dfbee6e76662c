"""``rtclab reproduce``: runs the conditions of papers and compares our results with theirs."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer

from rtclab.cli import EXIT_FAILED, EXIT_INTERRUPTED, new_table, print_json, print_table, right
from rtclab.experiment import Condition
from rtclab.scenario import shipped
from rtclab.trace import Repeat
from rtclab_papers.reproduce import EVERY_PAPER, NAMES, condition_of, paper, repeats_of, simulate
from rtclab_papers.reproduce.comparison import Comparison
from rtclab_papers.reproduce.measurements import results_path
from rtclab_papers.reproduce.pages import write_docs, write_pages
from rtclab_papers.reproduce.paper import Paper
from rtclab_papers.reproduce.score import scores
from rtclab_papers.reproduce.variants import split


def run_and_compare(
    wanted: Sequence[str],
    out: Path,
    docs: Path | None,
    *,
    repeats: int | None,
    jobs: int | None,
    every_reading: bool,
    as_json: bool,
) -> int:
    """Runs what is not finished, compares and writes the pages; returns the exit status."""
    names = NAMES if EVERY_PAPER in wanted else list(dict.fromkeys(wanted))
    papers = [paper(name) for name in names]
    conditions = conditions_of(papers, repeats, every_reading=every_reading)
    place = results_path(out)
    failures: dict[tuple[str, str], list[int]] = {}

    def ended(scenario: str, outcome: Repeat) -> None:
        # A call that does not connect is a result.
        if outcome.status == "error":
            failures.setdefault((scenario, outcome.reason), []).append(outcome.repeat)

    try:
        results = simulate(conditions, place, jobs=jobs, ended=ended)
    except KeyboardInterrupt:
        print("finished repeats are kept; run the same command again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    comparisons = [Comparison(one, results) for one in papers]
    pages = write_pages(comparisons, place)
    if docs is not None:
        write_docs(comparisons, docs)
    if as_json:
        both = zip(comparisons, pages, strict=True)
        print_json([one.as_dict() | {"report": str(page)} for one, page in both])
    else:
        for one, page in zip(comparisons, pages, strict=True):
            _show_comparison(one)
            print(f"report: {page}\n")
        if docs is not None:
            print(f"page: {docs}")
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


def conditions_of(
    papers: Sequence[Paper], repeats: int | None, *, every_reading: bool = False
) -> dict[str, Condition]:
    """The conditions of the papers; a scenario that several papers need runs once."""
    known = shipped()
    names = [name for one in papers for name in one.scenarios]
    if every_reading:
        names += [name for one in papers for name, _ in one.extra_needs]
    return {
        name: condition_of(name, repeats or repeats_of(name)) for name in names if split(name)[0] in known
    }


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


def _show_failures(failures: Mapping[tuple[str, str], Sequence[int]]) -> None:
    for (scenario, reason), repeats in failures.items():
        typer.echo(f"{scenario}, repeats {', '.join(map(str, repeats))}: {reason}", err=True)
