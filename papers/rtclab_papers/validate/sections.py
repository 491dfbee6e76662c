"""Sections of the twin's page on conditions that were chosen: recorded networks, and meetings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from rtclab.metrics import METRICS
from rtclab_papers.validate import meetings, recorded
from rtclab_papers.validate.chance import Chances, chance_file, read_chances
from rtclab_papers.validate.outcomes import Outcome
from rtclab_papers.validate.tables import NO_CHANCES, percent, score, table
from rtclab_papers.validate.twin import stored

SHOWN = (
    "receiving_rate",
    "rtt",
    "queuing_delay_p95",
    "frame_rate",
    "freeze_count_w3c",
    "jitter_buffer_delay",
    "audio_concealed",
)
"""The metrics whose errors are shown for each condition."""


def chosen(data: Path, stem: str) -> Iterator[str]:
    """The lines of the sections on what is kept of recorded networks and of meetings; none without rows.

    Args:
        data: directory of ``STEM-recorded.csv`` and ``STEM-meetings.csv``, either of which may be missing.
        stem: name of the page.
    """
    sets = (
        (recorded.GROUP, recorded.without_recordings(), recorded.introduction()),
        (meetings.GROUP, meetings.conditions(), meetings.introduction()),
    )
    for group, conditions, introduction in sets:
        rows = data / f"{stem}-{group}.csv"
        found = stored(conditions, rows)
        if found:
            yield from section(introduction, found, group, read_chances(chance_file(rows)))


def section(
    introduction: Iterable[str], outcomes: Sequence[Outcome], group: str, chances: Chances = NO_CHANCES
) -> Iterator[str]:
    """The lines of a section: its introduction, the table of all metrics, and a row for each condition.

    Args:
        introduction: the lines above the tables, with the heading.
        outcomes: the conditions; others than those of the group are left out.
        group: the group of the conditions, which is also the heading of their columns.
        chances: the errors by chance.
    """
    own = [one for one in outcomes if one.condition.group == group]
    yield from introduction
    yield ""
    yield from table(own, {group: group}, chances=chances)
    yield ""
    yield "Median errors over the flows of each condition:"
    yield ""
    yield from by_condition(own, SHOWN)
    yield ""


def by_condition(outcomes: Sequence[Outcome], metrics: Sequence[str]) -> Iterator[str]:
    """The lines of a table with the median error of each of the metrics, and a row for each condition."""
    yield f"| condition | live calls | {' | '.join(METRICS[name].label for name in metrics)} |"
    yield f"|---|---:|{'---:|' * len(metrics)}"
    for one in outcomes:
        errors = [percent(score(name, [one]).error) for name in metrics]
        yield f"| {one.condition.name} | {_calls(one)} | {' | '.join(errors)} |"


def _calls(one: Outcome) -> str:
    """The number of live calls, and how many of them did not connect or whether the machine disturbed one."""
    lost = one.live.calls - one.live.connected
    notes = [f"{lost} not connected"] * (lost > 0) + ["disturbed"] * bool(one.live.disturbed)
    return f"{one.live.calls} ({', '.join(notes)})" if notes else str(one.live.calls)
