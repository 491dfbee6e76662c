"""``rtclab validate``: compares the simulation with real browsers, or simulated TCP with the kernel's."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from rtclab.cli import print_json

if TYPE_CHECKING:
    from rtclab_papers.validate.outcomes import Outcome


def validate_and_show(
    out: Path | None, runs: Path, repeats: int | None, *, keep_live: bool, tcp: bool, as_json: bool
) -> None:
    """Runs the comparison, writes its page, and prints the path of the page or all numbers as JSON."""
    if tcp:
        from rtclab_papers.validate.tcp import DURATION_S, write_tcp_validation

        page = out or Path("docs/tcp-vs-kernel.md")
        compared = write_tcp_validation(page, duration_s=DURATION_S, say=_say)
        numbers: list[dict[str, object]] = [asdict(one) for one in compared]
    else:
        from rtclab_papers.validate import write_validation

        page = out or Path("docs/sim-vs-live.md")
        pairs = write_validation(page, runs=runs, repeats=repeats, keep_live=keep_live, say=_say)
        numbers = [pair.as_dict() for pair in pairs]
    if as_json:
        print_json({"page": str(page), "compared": numbers})
    else:
        print(page)


def validate_random_and_show(
    out: Path | None, runs: Path, seeds: list[int], *, keep_live: bool, as_json: bool
) -> None:
    """Compares random conditions, writes their rows and page, and prints the page's path or all as JSON.

    With ``keep_live`` conditions without a live run are left out instead of run.
    """
    from rtclab_papers.validate.conditions import draw
    from rtclab_papers.validate.twin import outcomes

    page = _twin_page(out)
    conditions = [draw(seed) for seed in seeds]
    found = outcomes(conditions, _data(page, ""), runs / "twin", run_missing=not keep_live, say=_say)
    _write_twin(page, found, as_json=as_json)


def validate_again_and_show(
    out: Path | None, runs: Path, seeds: list[int], *, keep_live: bool, as_json: bool
) -> None:
    """Runs random conditions several times on both backends and writes the page with what is kept of all.

    With ``keep_live`` only missing simulations are run.
    """
    from rtclab_papers.validate.again import run_again
    from rtclab_papers.validate.conditions import draw

    page = _twin_page(out)
    chosen = [draw(seed) for seed in seeds]
    run_again(chosen, _data(page, "-repeats"), runs / "twin" / "again", run_live=not keep_live, say=_say)
    _write_twin(page, _stored(page), as_json=as_json)


def validate_chosen_and_show(
    out: Path | None,
    runs: Path,
    recordings: Path | None,
    *,
    meet: bool,
    draw_kinds: bool,
    keep_live: bool,
    as_json: bool,
) -> None:
    """Compares recorded networks, meetings or kinds of calls, and writes the page with all that is kept.

    With ``keep_live`` conditions without a live run are left out instead of run.

    Args:
        out: the page.
        runs: directory of runs.
        recordings: directory of the recorded networks' files, if they are wanted.
        meet: whether meetings are wanted.
        draw_kinds: whether random kinds of calls are wanted.
        keep_live: run no live calls.
        as_json: print numbers instead of the page's path.
    """
    from rtclab_papers.validate import kinds, meetings, recorded
    from rtclab_papers.validate.twin import outcomes

    page = _twin_page(out)
    wanted = []
    if recordings is not None:
        wanted.append((recorded.GROUP, recorded.conditions(recordings, _say)))
    if meet:
        wanted.append((meetings.GROUP, meetings.conditions()))
    if draw_kinds:
        wanted.append((kinds.GROUP, kinds.conditions()))
    for group, conditions in wanted:
        rows, folder = _data(page, f"-{group}"), runs / "twin" / group
        outcomes(conditions, rows, folder, run_missing=not keep_live, say=_say, leave_out=True)
    _write_twin(page, _stored(page), as_json=as_json)


def validate_marks_and_show(out: Path | None, runs: Path, *, keep_live: bool, as_json: bool) -> None:
    """Compares calls behind queues that mark, writes their rows and page, and prints its path or all as JSON.

    With ``keep_live`` conditions without a live run are left out instead of run.
    """
    from rtclab_papers.validate import marks
    from rtclab_papers.validate.marks_page import write_marks
    from rtclab_papers.validate.twin import outcomes

    page = out or Path("docs/marks.md")
    rows = _data(page, "")
    found = outcomes(marks.conditions(), rows, runs / "marks", run_missing=not keep_live, say=_say)
    write_marks(page, found, rows)
    if as_json:
        print_json({"page": str(page), "compared": [asdict(pair) for one in found for pair in one.pairs]})
    else:
        print(page)


def validate_l4s_and_show(out: Path | None, runs: Path, *, keep_live: bool, as_json: bool) -> None:
    """Runs what says what L4S buys a video call, writes rows and page, and prints its path or all as JSON.

    With ``keep_live`` only missing simulations are run.
    """
    from rtclab_papers.validate import l4s
    from rtclab_papers.validate.l4s_page import write_l4s

    page = out or Path("docs/l4s.md")
    rows = _data(page, "")
    l4s.run(rows, runs / "l4s", run_live=not keep_live, say=_say)
    found = l4s.read(rows)
    write_l4s(page, found)
    if as_json:
        print_json({"page": str(page), "repeats": [asdict(one) for one in found.records.values()]})
    else:
        print(page)


def validate_arena_and_show(out: Path | None, runs: Path, *, keep_live: bool, as_json: bool) -> None:
    """Runs all built-in controls, writes rows and page, and prints the page's path or all rows as JSON.

    With ``keep_live``, the live rows beside the page are used as they are.
    """
    from rtclab_papers.validate import arena

    page = out or Path("docs/arena.md")
    rows = _data(page, "")
    arena.run(rows, runs, say=_say)
    if not keep_live:
        arena.run_live(rows, runs, say=_say)
    found, pairs = arena.read(rows)
    arena.write_arena(page, found, pairs, arena.read_live(rows))
    if as_json:
        own = {suite: values.rows.to_dicts() for suite, values in found.items()}
        print_json({"page": str(page), "repeats": own, "pairs": pairs.to_dicts()})
    else:
        print(page)


def validate_from_calls_and_show(out: Path | None, which: str, *, as_json: bool) -> None:
    """Estimates random paths from simulated calls, keeps their rows beside a page, and prints its tables.

    Args:
        out: the page whose text quotes the tables; its rows are in ``data/`` beside it.
        which: ``tuned-on``, ``held-out`` or ``both``.
        as_json: print the rows instead.
    """
    from rtclab.processes import cores, process_pool
    from rtclab_papers.validate.from_calls import GROUPS, evaluate, tables

    groups = [name for name in GROUPS if which in ("both", name.replace(" ", "-"))]
    with process_pool(cores()) as pool:
        rows = evaluate(_data(out or Path("docs/from-a-call.md"), ""), groups, pool, _say)
    if as_json:
        print_json(rows.to_dicts())
    else:
        print("\n".join(tables(rows)))


def _stored(page: Path) -> list[Outcome]:
    """What is kept of the random conditions of a page."""
    from rtclab_papers.validate.conditions import draw
    from rtclab_papers.validate.kept import read_kept
    from rtclab_papers.validate.twin import stored

    rows = _data(page, "")
    return stored([draw(int(name)) for name in read_kept(rows)], rows)


def _twin_page(out: Path | None) -> Path:
    return out or Path("docs/twin.md")


def _data(page: Path, what: str) -> Path:
    """A CSV file of a page."""
    return page.parent / "data" / f"{page.stem}{what}.csv"


def _write_twin(page: Path, found: Sequence[Outcome], *, as_json: bool) -> None:
    """Writes the page of random conditions, and prints its path or all numbers as JSON."""
    from rtclab_papers.validate.conditions import GROUPS
    from rtclab_papers.validate.outcomes import COMPARED
    from rtclab_papers.validate.tables import score
    from rtclab_papers.validate.twin_page import write_twin

    write_twin(page, found, page.parent / "data")
    if not as_json:
        print(page)
        return
    by_group = {name: [one for one in found if one.condition.group == name] for name in GROUPS}
    scores = {
        name: [asdict(score(metric, own)) for metric in COMPARED] for name, own in by_group.items() if own
    }
    pairs = [asdict(pair) for one in found for pair in one.pairs]
    print_json({"page": str(page), "scores": scores, "compared": pairs})


def _say(text: str) -> None:
    typer.echo(text, err=True)
    sys.stderr.flush()
