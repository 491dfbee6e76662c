"""The page that compares simulated and live calls behind queues that mark, and its plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rtclab_papers.markdown import folded, write_page
from rtclab_papers.validate import marks
from rtclab_papers.validate.outcome_files import read_chances
from rtclab_papers.validate.outcomes import SIMULATED_REPEATS, ConditionOutcome, ErrorsByChance
from rtclab_papers.validate.scores import (
    COLUMNS,
    by_group,
    condition_table,
    goal_words,
    of_group,
    score_table,
)
from rtclab_papers.validate.twin_page import distribution, plots
from rtclab_papers.validate.twin_plots import drawings

AIMS = {
    "receiving_rate": 0.03,
    "rtt": 0.03,
    "queuing_delay_p50": 0.1,
    "queuing_delay_p95": 0.1,
    "ce_share": 0.15,
}
"""The largest median error that is aimed at, as a share of live."""
AIMED = (marks.HELD_OUT, marks.GOOG_CC)
"""The groups whose figures are compared with these goals."""
SHOWN = ("receiving_rate", "rtt", "queuing_delay_p50", "queuing_delay_p95", "ce_share", "packet_loss")
"""The metrics whose errors are shown for each condition."""


def write_marks(page: Path, outcomes: Sequence[ConditionOutcome], rows: Path) -> None:
    """Writes the page, and its plots beside it.

    Args:
        page: the Markdown file. Text below its line ``NOTES`` is kept.
        outcomes: the conditions.
        rows: the file of their rows, beside which the errors by chance are.
    """
    write_page(page, _page(page.stem, outcomes, read_chances(rows)), drawings(outcomes, marks.GROUPS))


def _page(stem: str, outcomes: Sequence[ConditionOutcome], chances: ErrorsByChance) -> Iterator[str]:
    yield "# SCReAM, and queues that mark: simulated against live"
    yield """\
How well does a simulation predict Chromium's own SCReAM, with feedback as in RFC 8888, behind
queues that mark packets, and goog-cc behind current queues?"""
    yield f"""\
Made by `rtclab validate marks`. Each condition is a call of two people, drawn from the
distribution below, run once with two real Chromiums for {marks.DURATION_S} s and simulated
{SIMULATED_REPEATS} times. The models were improved on the odd seeds of SCReAM; its even seeds, and all seeds
of goog-cc, were compared afterwards."""
    for group, own in by_group(outcomes, marks.GROUPS).items():
        lucky, aimed = of_group(chances, group), group in AIMED
        yield f"## {marks.GROUPS[group]}"
        if aimed:
            yield goal_words(own, "these conditions", chances=lucky, aims=AIMS)
        yield folded("Errors and coverage of all metrics", score_table(own, AIMS if aimed else None, lucky))
        yield folded("Median errors over the flows of each condition", condition_table(own, SHOWN))
    yield "## How to read the tables"
    yield COLUMNS
    yield from plots(stem, outcomes, marks.GROUPS)
    yield from distribution(marks.DISTRIBUTION)
