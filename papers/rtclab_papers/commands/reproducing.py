"""``rtclab reproduce``: runs the conditions of papers and compares our results with theirs.

With the backend ``live`` they are run with Chromium 156 of 2026, too, beside the past.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rtclab.cli import EXIT_FAILED, EXIT_INTERRUPTED, new_table, print_json, print_table, right
from rtclab.cli import count as number_of
from rtclab.experiment import Condition
from rtclab.scenario import shipped
from rtclab.trace import Repeat
from rtclab_papers.campaigns import Campaign, RowFile, Tally
from rtclab_papers.commands import say
from rtclab_papers.reproduce import EVERY_PAPER, NAMES, condition_of, paper, repeats_of, simulate
from rtclab_papers.reproduce.comparison import Comparison
from rtclab_papers.reproduce.measurements import results_path
from rtclab_papers.reproduce.pages import write_docs, write_pages
from rtclab_papers.reproduce.paper import Paper
from rtclab_papers.reproduce.score import scores
from rtclab_papers.reproduce.then_and_now import series
from rtclab_papers.reproduce.then_and_now.campaigns import FOLDERS, LIVE, campaigns, current, live_campaign
from rtclab_papers.reproduce.then_and_now.conditions import read_plan
from rtclab_papers.reproduce.then_and_now.numbers import CampaignNumbers
from rtclab_papers.reproduce.then_and_now.page import write_page
from rtclab_papers.reproduce.variants import split

PAGE = "then-and-now.md"
TITLES = {"then": "simulating the past", "sim": "simulating today", "live": "calling live"}


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
    papers = _papers(wanted)
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
        return _interrupted()
    comparisons = [Comparison(one, results) for one in papers]
    pages = write_pages(comparisons, place)
    if docs is not None:
        write_docs(comparisons, docs)
    both = [*zip(comparisons, pages, strict=True)]
    if as_json:
        print_json([one.as_dict() | {"report": str(page)} for one, page in both])
    else:
        for one, page in both:
            _show_comparison(one)
            print(f"report: {page}\n")
        if docs is not None:
            print(f"page: {docs}")
    for (scenario, reason), repeats_of_it in failures.items():
        say(f"{scenario}, repeats {', '.join(map(str, repeats_of_it))}: {reason}")
    return EXIT_FAILED if failures else 0


def _papers(wanted: Sequence[str]) -> list[Paper]:
    """The wanted papers, each once."""
    return [paper(name) for name in (NAMES if EVERY_PAPER in wanted else dict.fromkeys(wanted))]


def _interrupted() -> int:
    say("finished repeats are kept; run the same command again to continue")
    return EXIT_INTERRUPTED


def show_papers(*, as_json: bool) -> None:
    """Prints name, title, source and numbers of tables and scenarios of each paper."""
    papers = [paper(name) for name in NAMES]
    if as_json:
        shown = ("name", "title", "source", "scenarios")
        print_json([{name: getattr(one, name) for name in shown} for one in papers])
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


def run_today(
    wanted: Sequence[str],
    out: Path,
    docs: Path | None,
    *,
    repeats: int | None,
    jobs: int | None,
    run_live: bool,
    simulate: bool,
    retry_failed: bool,
    as_json: bool,
) -> int:
    """Runs what is not finished and writes the page; returns the exit status.

    The page covers all papers that have rows, because one file has the rows of all papers.
    """
    names = [one.name for one in _papers(wanted)]
    folder = results_path(out)
    page = docs or folder / PAGE
    rows = RowFile(page.parent / "data" / f"{page.stem}.csv")
    tallies: dict[str, Tally] = {}
    try:
        if simulate:
            plan = read_plan(names)
            for campaign in campaigns(plan, rows, folder, jobs=jobs):
                tallies[campaign.name] = _run(campaign)
            if run_live:
                live = live_campaign(plan, rows, folder, repeats=repeats, retry_failed=retry_failed)
                tallies[live.name] = _run(live)
            series.renew(series.file_of(page), plan, rows.read(), folder / FOLDERS[LIVE])
    except KeyboardInterrupt:
        return _interrupted()
    known = rows.read()
    with_rows = {key.condition.partition("/")[0] for key in known}
    plan = read_plan(name for name in NAMES if name in names or name in with_rows)
    numbers = CampaignNumbers(plan, current(plan, known))
    write_page(page, numbers)
    _show_live(page, numbers, tallies, as_json=as_json)
    return EXIT_FAILED if any(tally.failed for tally in tallies.values()) else 0


def _run(campaign: Campaign) -> Tally:
    def ended(name: str, one: Repeat) -> None:
        if what := one.reason or one.disturbed:
            outcome = {"finished": "disturbed", "failed": "failed"}.get(one.status, "the laboratory failed")
            say(f"{name}, repeat {one.repeat}: {outcome}: {what}")

    return campaign.run(ended, TITLES[campaign.name])


def _show_live(page: Path, numbers: CampaignNumbers, tallies: dict[str, Tally], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "page": str(page),
                "runs": {
                    name: {
                        what: {str(key): why for key, why in of.items()} for what, of in vars(tally).items()
                    }
                    for name, tally in tallies.items()
                },
                "simulated_against_live": [asdict(pair) | {"error": pair.error} for pair in numbers.pairs()],
            }
        )
        return
    for name, tally in tallies.items():
        counted = ", ".join(f"{count} {outcome}" for outcome, count in sorted(tally.outcomes.items()))
        print(f"{TITLES[name]}: {counted or 'nothing'}")
    if LIVE in tallies:
        for condition, why in tallies[LIVE].unsupported.items():
            say(f"{condition}: not run: {why}")
        if outdated := tallies[LIVE].outdated:
            count = number_of(len(outdated), "kept call")
            say(f"{count} of another rtclab cannot be measured again; earlier rows of them stay")
            say(f"  the first: {next(iter(outdated.values()))}")
            say("  hint: --retry-failed runs these calls again")
    print(f"page: {page}")
