"""The page that compares simulated and live calls behind queues that mark, and its plots."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from rtclab.report import as_svg
from rtclab.trace import write_text
from rtclab_papers.validate import marks, notes_of
from rtclab_papers.validate.chance import chance_file, read_chances
from rtclab_papers.validate.outcomes import SIMULATED_REPEATS, Outcome
from rtclab_papers.validate.sections import by_condition
from rtclab_papers.validate.tables import goal_words, table, table_words
from rtclab_papers.validate.twin_page import plots
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


def write_marks(page: Path, outcomes: Sequence[Outcome], rows: Path) -> None:
    """Writes the page, and its plots beside it as ``NAME-METRIC.svg``.

    Args:
        page: the Markdown file. Text below its line ``NOTES`` is kept.
        outcomes: the conditions.
        rows: the file of their rows, beside which the errors by chance are.
    """
    page.parent.mkdir(parents=True, exist_ok=True)
    for drawing in drawings(outcomes, marks.GROUPS) if outcomes else []:
        write_text(page.with_name(f"{page.stem}-{drawing.name}.svg"), as_svg(drawing))
    write_text(page, "\n".join(_page(page.stem, outcomes, rows)) + "\n" + notes_of(page))


def _page(stem: str, outcomes: Sequence[Outcome], rows: Path) -> Iterator[str]:
    yield "# SCReAM, and queues that mark: simulated against live"
    yield ""
    yield "How well does a simulation predict Chromium's own SCReAM, with feedback as in RFC 8888, behind"
    yield "queues that mark packets, and goog-cc behind current queues?"
    yield ""
    count = SIMULATED_REPEATS
    yield "Made by `rtclab validate --marks`. Each condition is a call of two people, drawn from the"
    yield f"distribution below, run once with two real Chromiums for {marks.DURATION_S} s and simulated"
    yield f"{count} times. The models were improved on the odd seeds of SCReAM; its even seeds, and all seeds"
    yield "of goog-cc, were compared afterwards."
    yield ""
    chances = read_chances(chance_file(rows))
    for group in marks.GROUPS:
        own = [one for one in outcomes if one.condition.group == group]
        if not own:
            continue
        goals = group if group in AIMED else ""
        yield f"## {marks.GROUPS[group]}"
        yield ""
        yield from table(own, {group: "all"}, goals=goals, aims=AIMS, chances=chances)
        yield ""
        if goals:
            lucky = {metric: one for (name, metric), one in chances.items() if name == group}
            yield from goal_words(own, "these conditions", chances=lucky, aims=AIMS)
            yield ""
        yield "Median errors over the flows of each condition:"
        yield ""
        yield from by_condition(own, SHOWN)
        yield ""
    yield "## How to read the tables"
    yield ""
    yield from table_words()
    yield ""
    yield from plots(stem, outcomes)
    yield "## Distribution of the conditions"
    yield ""
    yield "| property | distribution |"
    yield "|---|---|"
    for what, distribution in marks.DISTRIBUTION:
        yield f"| {what} | {distribution} |"
    yield ""
