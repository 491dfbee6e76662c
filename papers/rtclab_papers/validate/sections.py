"""Sections of the twin's page on further conditions: kinds of calls, recorded networks, and meetings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from rtclab.metrics import METRICS
from rtclab_papers.validate import kinds, meetings, recorded
from rtclab_papers.validate.chance import Chances, chance_file, read_chances
from rtclab_papers.validate.outcomes import Outcome, counted
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
    "tcp_throughput",
)
"""The metrics whose errors are shown for each condition, where one of them knows the metric."""


def chosen(data: Path, stem: str) -> Iterator[str]:
    """The lines of the sections on what is kept of these conditions; a section without rows is left out.

    Args:
        data: directory of ``STEM-kinds.csv``, ``STEM-recorded.csv`` and ``STEM-meetings.csv``, each of which
            may be missing.
        stem: name of the page.
    """
    sets = (
        (kinds.GROUP, kinds.GROUPS, kinds.conditions(), kinds.introduction()),
        (recorded.GROUP, recorded.GROUPS, recorded.without_recordings(), recorded.introduction()),
        (meetings.GROUP, meetings.GROUPS, meetings.conditions(), meetings.introduction()),
    )
    for name, groups, conditions, introduction in sets:
        rows = data / f"{stem}-{name}.csv"
        found = stored(conditions, rows)
        if found:
            yield from section(introduction, found, groups, read_chances(chance_file(rows)))


def section(
    introduction: Iterable[str],
    outcomes: Sequence[Outcome],
    groups: Mapping[str, str],
    chances: Chances = NO_CHANCES,
) -> Iterator[str]:
    """The lines of a section: its introduction, the table of all metrics, and a row for each condition.

    Args:
        introduction: the lines above the tables, with the heading.
        outcomes: the conditions; others than those of the groups are left out.
        groups: the heading of each group of conditions, by its name.
        chances: the errors by chance.
    """
    own = [one for one in outcomes if one.condition.group in groups]
    yield from introduction
    yield ""
    yield from table(counted(own), groups, chances=chances)
    yield ""
    yield from _disturbed(own)
    yield "Median errors over the flows of each condition:"
    yield ""
    yield from by_condition(own, SHOWN)
    yield ""


def _disturbed(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Which conditions the machine disturbed in every try, how, and whether the table has them."""
    counting = {one.condition.name for one in counted(outcomes)}
    for one in outcomes:
        if one.live.disturbed:
            too_many = "counted all the same, since more than one in six were disturbed"
            what = too_many if one.condition.name in counting else "left out of the table"
            yield f"The machine disturbed the call of {one.condition.name} at each of {one.live.tries}"
            yield f"tries, the last time: {one.live.disturbed}. It is {what}."
            yield ""


def by_condition(outcomes: Sequence[Outcome], metrics: Sequence[str]) -> Iterator[str]:
    """The lines of a table with the median error of each known metric, and a row for each condition."""
    known = {pair.metric for one in outcomes for pair in one.pairs}
    metrics = [name for name in metrics if name in known]
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
