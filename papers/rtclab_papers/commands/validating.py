"""The comparisons of ``rtclab validate``: each runs what is missing, keeps rows, and makes a page of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rtclab.cli import print_json
from rtclab.processes import cores, process_pool
from rtclab_papers.campaigns import LIVE, SIM
from rtclab_papers.commands import say
from rtclab_papers.csv_files import beside, read_table
from rtclab_papers.markdown import write_page
from rtclab_papers.validate import (
    again,
    bad_calls,
    from_calls,
    kinds,
    marks,
    meetings,
    recorded,
    sim_vs_live,
    tcp,
)
from rtclab_papers.validate import arena as arenas
from rtclab_papers.validate import field_reports as reported
from rtclab_papers.validate import l4s as low_latency
from rtclab_papers.validate import why as reasons
from rtclab_papers.validate.conditions import GROUPS, CallCondition, draw
from rtclab_papers.validate.l4s_page import write_l4s
from rtclab_papers.validate.marks_page import write_marks
from rtclab_papers.validate.outcome_files import names_in
from rtclab_papers.validate.outcomes import COMPARED, ConditionOutcome
from rtclab_papers.validate.scores import by_group, pairs_of, score
from rtclab_papers.validate.twin import outcomes, stored
from rtclab_papers.validate.twin_page import write_twin

Numbers = dict[str, Any]
"""What a comparison found, as JSON values."""


@dataclass(frozen=True)
class Place:
    """Where a comparison has its page and its calls.

    Attributes:
        page: the page. Its rows are in ``data/`` beside it.
        out: directory of runs.
        run_live: run live calls that are missing; otherwise conditions without one are left out.
    """

    page: Path
    out: Path
    run_live: bool

    @property
    def rows(self) -> Path:
        """The file of the rows of the page."""
        return self.page.parent / "data" / f"{self.page.stem}.csv"


def compare(
    name: str, page: Path | None, out: Path, *, keep_live: bool, as_json: bool, **options: Any
) -> None:
    """Makes a comparison, and prints the path of its page or its numbers as JSON.

    Args:
        name: a name of ``COMPARISONS``.
        page: the page; by default in ``validate/`` below ``out``.
        out: directory of runs.
        keep_live: make no live calls.
        as_json: print numbers.
        options: the arguments of the comparison.
    """
    made, stem = COMPARISONS[name]
    place = Place(page or out / "validate" / f"{stem}.md", out, not keep_live)
    numbers = made(place, **options)
    if as_json:
        print_json({"page": str(place.page), **numbers})
    else:
        print(numbers.get("tables", place.page))


def scenarios(place: Place, repeats: int | None) -> Numbers:
    """The four scenarios of ``sim-vs-live``, simulated and live."""
    keep_live = not place.run_live
    pairs = [*sim_vs_live.run_pairs(place.out, repeats=repeats, keep_live=keep_live, say=say)]
    write_page(place.page, sim_vs_live.page(pairs))
    return {"compared": [pair.as_dict() for pair in pairs]}


def kernel(place: Place) -> Numbers:
    """The simulator's TCP and the kernel's."""
    compared = tcp.compare(duration_s=tcp.DURATION_S, say=say)
    write_page(place.page, tcp.page(compared, tcp.DURATION_S))
    return {"compared": [asdict(one) for one in compared]}


def drawn(place: Place, seeds: Sequence[int]) -> Numbers:
    """Random conditions; the page is about these alone."""
    chosen = [draw(seed) for seed in seeds]
    return _twin(place, outcomes(chosen, place.rows, place.out / "twin", run_missing=place.run_live, say=say))


def drawn_again(place: Place, seeds: Sequence[int]) -> Numbers:
    """Random conditions, each several times on both backends."""
    chosen, rows = [draw(seed) for seed in seeds], beside(place.rows, "repeats")
    again.run_again(chosen, rows, place.out / "twin" / "again", run_live=place.run_live, say=say)
    return _twin(place)


def further(place: Place, group: str, conditions: Sequence[CallCondition]) -> Numbers:
    """Further conditions, which are a section of the page of random conditions."""
    rows, folder = beside(place.rows, group), place.out / "twin" / group
    outcomes(conditions, rows, folder, run_missing=place.run_live, say=say, leave_out=True)
    return _twin(place)


def _twin(place: Place, found: Sequence[ConditionOutcome] | None = None) -> Numbers:
    """Writes the page of random conditions: of those found, or else of all that are kept."""
    if found is None:
        found = stored([draw(int(name)) for name in names_in(place.rows)], place.rows)
    write_twin(place.page, found, place.rows)
    scores = {
        name: [asdict(score(metric, own)) for metric in COMPARED]
        for name, own in by_group(found, GROUPS).items()
    }
    return {"scores": scores, "compared": [*map(asdict, pairs_of(found))]}


def marking(place: Place) -> Numbers:
    """SCReAM and goog-cc behind queues that mark."""
    folder = place.out / "marks"
    found = outcomes(marks.conditions(), place.rows, folder, run_missing=place.run_live, say=say)
    write_marks(place.page, found, place.rows)
    return {"compared": [*map(asdict, pairs_of(found))]}


def l4s(place: Place) -> Numbers:
    """What L4S buys a video call."""
    low_latency.run(place.rows, place.out / "l4s", run_live=place.run_live, say=say)
    found = low_latency.read(place.rows)
    write_l4s(place.page, found)
    return {"repeats": [asdict(one) for one in found.records.values()]}


def arena(place: Place) -> Numbers:
    """All built-in congestion controls; without live calls, the live rows are used as they are."""
    arenas.run(place.rows, place.out, say=say)
    if place.run_live:
        arenas.run_live(place.rows, place.out, say=say)
    found, pairs = arenas.read(place.rows)
    arenas.write_arena(place.page, found, pairs, arenas.read_live(place.rows))
    own = {suite: values.rows.to_dicts() for suite, values in found.items()}
    return {"repeats": own, "pairs": pairs.to_dicts()}


def estimates(place: Place, which: str) -> Numbers:
    """Paths that are estimated from simulated calls, with the tables that a page written by hand quotes."""
    groups = [name for name in from_calls.GROUPS if which in ("both", name.replace(" ", "-"))]
    with process_pool(cores()) as pool:
        rows = from_calls.evaluate(place.rows, groups, pool, say)
    return {"rows": rows.to_dicts(), "tables": "\n\n".join(from_calls.tables(rows))}


def explaining(place: Place, seeds: Sequence[int] | None, half: str, *, live: bool) -> Numbers:
    """Calls that are bad in one known way, and whether their reasons and remedies find it."""
    chosen = seeds or (bad_calls.live_seeds() if live else bad_calls.seeds_of(half))
    side = LIVE if live else SIM
    reasons.run(
        chosen, place.rows, place.out / "why" / side, side, run_missing=not live or place.run_live, say=say
    )
    found = reasons.read(place.rows)
    reasons.write_why_test(place.page, found)
    return {"calls": found.to_dicts()}


def field_reports(place: Place, names: Sequence[str]) -> Numbers:
    """Reports of public threads as scenarios, with their reasons and remedies."""
    reported.run(place.rows, names, say)
    reported.write_field_reports(place.page, place.rows)
    return {"rows": read_table(place.rows, reported.ROWS).to_dicts()}


COMPARISONS: dict[str, tuple[Callable[..., Numbers], str]] = {
    "scenarios": (scenarios, "sim-vs-live"),
    "tcp": (kernel, "tcp-vs-kernel"),
    "random": (drawn, "twin"),
    "again": (drawn_again, "twin"),
    "kinds": (lambda place: further(place, kinds.GROUP, kinds.known_conditions()), "twin"),
    "meetings": (lambda place: further(place, meetings.GROUP, meetings.known_conditions()), "twin"),
    "recorded": (
        lambda place, files: further(place, recorded.GROUP, recorded.conditions(files, say)),
        "twin",
    ),
    "marks": (marking, "marks"),
    "l4s": (l4s, "l4s"),
    "arena": (arena, "arena"),
    "from-calls": (estimates, "from-a-call"),
    "why": (explaining, "why-test"),
    "field-reports": (field_reports, "field-reports"),
}
"""By the name of the command: what makes the comparison, and the name of its page."""
