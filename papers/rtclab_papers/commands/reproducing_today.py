"""``rtclab reproduce --backend live``: papers' conditions with Chromium 156 of 2026, beside the past."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import typer

from rtclab.cli import EXIT_FAILED, EXIT_INTERRUPTED, print_json
from rtclab.cli import count as number_of
from rtclab.trace import Repeat
from rtclab_papers.campaigns import Campaign, RowFile, Tally
from rtclab_papers.reproduce import EVERY_PAPER, NAMES, paper
from rtclab_papers.reproduce.measurements import results_path
from rtclab_papers.reproduce.today import series
from rtclab_papers.reproduce.today.conditions import read_plan
from rtclab_papers.reproduce.today.numbers import Numbers
from rtclab_papers.reproduce.today.page import write_page
from rtclab_papers.reproduce.today.run import FOLDERS, LIVE, campaigns, current, live_campaign

PAGE = "then-and-now.md"
TITLES = {"then": "simulating the past", "sim": "simulating today", "live": "calling live"}


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
    names = NAMES if EVERY_PAPER in wanted else list(dict.fromkeys(wanted))
    for name in names:
        paper(name)
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
        print("finished repeats are kept; run the same command again to continue", file=sys.stderr)
        return EXIT_INTERRUPTED
    known = rows.read()
    with_rows = {key.condition.partition("/")[0] for key in known}
    plan = read_plan(name for name in NAMES if name in names or name in with_rows)
    numbers = Numbers(plan, current(plan, known))
    write_page(page, numbers)
    _show(page, numbers, tallies, as_json=as_json)
    return EXIT_FAILED if any(tally.failed for tally in tallies.values()) else 0


def _run(campaign: Campaign) -> Tally:
    def ended(name: str, one: Repeat) -> None:
        if what := one.reason or one.disturbed:
            outcome = {"finished": "disturbed", "failed": "failed"}.get(one.status, "the laboratory failed")
            _say(f"{name}, repeat {one.repeat}: {outcome}: {what}")

    return campaign.run(ended, TITLES[campaign.name])


def _show(page: Path, numbers: Numbers, tallies: dict[str, Tally], *, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "page": str(page),
                "runs": {
                    name: {
                        "outcomes": dict(tally.outcomes),
                        "failed": {_words(key): why for key, why in tally.failed.items()},
                        "disturbed": {_words(key): why for key, why in tally.disturbed.items()},
                        "unsupported": tally.unsupported,
                        "outdated": {_words(key): why for key, why in tally.outdated.items()},
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
            _say(f"{condition}: not run: {why}")
        if outdated := tallies[LIVE].outdated:
            count = number_of(len(outdated), "kept call")
            _say(f"{count} of another rtclab cannot be measured again; earlier rows of them stay")
            _say(f"  the first: {next(iter(outdated.values()))}")
            _say("  hint: --retry-failed runs these calls again")
    print(f"page: {page}")


def _words(key: tuple[str, str, int]) -> str:
    condition, _, repeat = key
    return f"{condition}, repeat {repeat}"


def _say(text: str) -> None:
    typer.echo(text, err=True)
