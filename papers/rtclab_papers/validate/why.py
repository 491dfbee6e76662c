"""The blind test of reasons and remedies: bad calls are run and explained, and sentences are scored."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from rtclab import Results, Scenario, remedies
from rtclab.backend import backend
from rtclab.experiment import MAX_TRIES, Experiment, find_store
from rtclab_papers.campaigns import LIVE, SIM
from rtclab_papers.csv_files import read_table, schema_of, write_table
from rtclab_papers.markdown import table, write_page
from rtclab_papers.validate.bad_calls import (
    ASIDE,
    FLOW,
    FREEZES,
    HELD_OUT,
    OPEN,
    RATE,
    SEEDS,
    WAYS,
    BadCall,
    draw,
    half_of,
    way_of,
)

SCHEMA = schema_of("seed int, side text, measured text, sentence text, goal text, changes text")
SIDES = {SIM: "simulated", LIVE: "live"}
"""The sides, and how the page calls them."""
NOTHING = "none"
"""Stands for a sentence that names no way."""
BETWEEN = "; "
FIRST = 2
"""The right change has to be among this many that rank first."""
BOUNDS = {SIM: (0.9, 0.85), LIVE: (0.8, 0.85)}
"""The shares that sentences and remedies have to reach."""
Say = Callable[[str], None]


def named(sentence: str) -> str:
    """The way that a sentence names first; of two that begin at the same word, the one of more words."""
    found = [
        (match.start(), -len(match[0]), name)
        for name, way in WAYS.items()
        if (match := re.search(way.says, sentence))
    ]
    return min(found)[-1] if found else NOTHING


def run(seeds: Sequence[int], file: Path, folder: Path, side: str, *, run_missing: bool, say: Say) -> None:
    """Runs bad calls on one side, explains them, and keeps a row of each in ``file`` as soon as it has ended.

    A call that is in ``folder`` does not run again; it is explained anew. A live call that has only a row
    keeps it. A call that the laboratory failed to make gets no row.

    Args:
        seeds: the seeds of the calls.
        file: the rows.
        folder: directory of the calls.
        side: ``sim`` or ``live``.
        run_missing: whether to make calls that are missing.
        say: called with a line on each call.
    """
    for seed in seeds:
        one = draw(seed)
        name = one.scenario.name
        kept = find_store(folder, folder) and name in (stored := Results(folder))
        if kept and side == LIVE:
            results = stored[name]
        elif run_missing and (side == SIM or (seed, side) not in _keys(file)):
            results = _call(one, folder, side)
        else:
            continue
        row = _row(one, results, side)
        if row is None:
            say(f"{name}: the laboratory failed: {results.repeats[0].reason}")
            continue
        others = read_table(file, SCHEMA).filter((pl.col("seed") != seed) | (pl.col("side") != side))
        rows = pl.concat([others, pl.DataFrame([row], SCHEMA, orient="row")])
        write_table(file, rows.sort("side", "seed", descending=[True, False]), SCHEMA)
        say(f"{name}: {one.way}: {named(row[3])}: {row[3]} [{row[4]}: {row[5]}]")


def _keys(file: Path) -> set[tuple[Any, ...]]:
    return set(read_table(file, SCHEMA).select("seed", "side").iter_rows())


def _call(one: BadCall, folder: Path, side: str) -> Results:
    experiment = Experiment({one.scenario.name: one.scenario}, repeats=1, backend=backend(side), name="why")
    return experiment.run(into=folder, tries=MAX_TRIES, renew=side == SIM, progress=False)[one.scenario.name]


def _row(one: BadCall, results: Results, side: str) -> tuple[Any, ...] | None:
    """The row of a call; None if it says nothing about the call."""
    outcome = results.repeats[0]
    if not outcome.about_the_call:
        return None
    connected = outcome.status == "finished"
    sentence = results.why(FLOW).sentences[FLOW][0] if connected else f"no call: {outcome.reason}"
    call = one.scenario if side == SIM else results
    goal = _goal(one, results) if connected else ""
    changes = _first_changes(call, goal) if connected else []
    return one.seed, side, datetime.now(UTC).date().isoformat(), sentence, goal, BETWEEN.join(changes)


def _goal(one: BadCall, results: Results) -> str:
    """The metric of the way; the rate, if that is freezes and the video of the call did not freeze."""
    goal = WAYS[one.way].goal
    froze = results.metrics(metrics=[FREEZES], flows=FLOW)["value"].sum() > 0
    return RATE if goal == FREEZES and not froze else goal


def _first_changes(call: Scenario | Results, goal: str) -> list[str]:
    """The changes that help most, best first; none if nothing can be ranked."""
    found = remedies(call, goal=goal, flows=FLOW)
    helpful = found.table().filter(metric=goal, verdict="helps")["change"].to_list()
    return [] if found.refusal else helpful[:FIRST]


def score(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows with ``way``, ``half``, the way that is ``named``, and whether a sentence ``tells`` it and a
    change ``helps``."""
    of = [
        (
            way := way_of(seed),
            half_of(seed),
            said := named(sentence),
            said == way,
            _is_right(way, changes or ""),
        )
        for seed, sentence, changes in rows.select("seed", "sentence", "changes").iter_rows()
    ]
    schema = schema_of("way text, half text, named text, tells flag, helps flag")
    return rows.hstack(pl.DataFrame(of, schema, orient="row"))


def _is_right(way: str, changes: str) -> bool:
    return bool({*changes.split(BETWEEN)} & {*WAYS[way].remedies})


def read(file: Path) -> pl.DataFrame:
    """The scored rows of a file."""
    return score(read_table(file, SCHEMA))


def write_why_test(page: Path, rows: pl.DataFrame) -> None:
    """Writes the page of scored rows. Text below the line ``NOTES`` of the page is kept."""
    write_page(page, _page(rows))


def _page(rows: pl.DataFrame) -> Iterator[str]:
    yield "# Do reasons and remedies find what was done to a call?"
    yield f"""\
Made by `rtclab validate why`. {len(SEEDS)} random calls of two people are each made bad in one known
way of ten. The first sentence of [`rtclab why`](why.md) on `{FLOW}` names the way whose words
come first in it. One of the first {FIRST} changes of `rtclab remedy` that help has to be right for the
way. The changes are ranked by a metric that is stated for each way; freezes are replaced by the rate
if the video of the call did not freeze. Accounts and sentences may be improved on odd seeds; even
seeds are held out. Two held-out calls of each way are also made live, and their remedies are tried in
the scenario that they were made with."""
    yield _shares(rows)
    for side, half in ((SIM, HELD_OUT), (SIM, OPEN), (LIVE, HELD_OUT), (LIVE, OPEN)):
        own = rows.filter(side=side, half=half)
        if own.height:
            yield f"## {SIDES[side].capitalize()}, {half} seeds"
            yield "Rows are the ways that calls were made bad in, columns the ways that the sentences name."
            yield _confusion(own)
            yield from _misses(own)
    yield "## How calls are made bad"
    heads = ["way", "distribution", "words that name it", "metric of the remedies", "right changes"]
    yield table(
        heads,
        (
            (
                name,
                way.words,
                f"`{way.says.replace('|', chr(92) + '|')}`",
                f"`{way.goal}`",
                ", ".join(way.remedies),
            )
            for name, way in WAYS.items()
        ),
    )
    yield """\
The remedies of long queues are ranked by the share of time with late packets, because the delay of
pictures is that of those alone that were shown, and freezes hide the late ones. Of the feedback so
much is lost because a call that has grown does without half of it."""
    yield "Without a word on the distribution, values are drawn uniformly. What is drawn beside the way:"
    yield table(["property", "distribution"], ASIDE)


def _shares(rows: pl.DataFrame) -> str:
    lines = []
    for side, half in ((SIM, HELD_OUT), (SIM, OPEN), (LIVE, HELD_OUT), (LIVE, OPEN)):
        own = rows.filter(side=side, half=half)
        if own.height:
            cells = [
                _of(own[name], bound) for name, bound in zip(("tells", "helps"), BOUNDS[side], strict=True)
            ]
            lines.append((f"{SIDES[side]}, {half}", *cells))
    held_out = rows.filter(half=HELD_OUT)
    if held_out["side"].n_unique() > 1:
        lines.append(("all, held out", *(_of(held_out[name]) for name in ("tells", "helps"))))
    return table(
        ["calls", "the first sentence names the way", f"one of the first {FIRST} changes is right"],
        lines,
        "lr",
    )


def _of(right: pl.Series, bound: float | None = None) -> str:
    count = int(right.sum())
    wanted = "" if bound is None else f" (wanted {bound:.0%})"
    return f"{count} of {len(right)}, {count / len(right):.0%}{wanted}"


def _confusion(own: pl.DataFrame) -> str:
    counts = dict.fromkeys(((way, said) for way in WAYS for said in (*WAYS, NOTHING)), 0)
    for key in own.select("way", "named").iter_rows():
        counts[key] += 1
    lines = ([way, *(str(counts[way, said] or "") for said in (*WAYS, NOTHING))] for way in WAYS)
    return table(["", *WAYS, NOTHING], lines, "lr")


def _misses(own: pl.DataFrame) -> Iterator[str]:
    """Tables of the calls whose sentence or changes are wrong."""
    wrong = own.filter(~pl.col("tells"))
    if wrong.height:
        yield "Sentences that name another way:"
        yield table(
            ["seed", "way", "sentence"],
            ((str(s), w, t) for s, w, t in wrong.select("seed", "way", "sentence").iter_rows()),
        )
    wrong = own.filter(~pl.col("helps"))
    if wrong.height:
        yield f"Calls without a right change among the first {FIRST}:"
        lines = (
            (str(s), w, c or "none helps") for s, w, c in wrong.select("seed", "way", "changes").iter_rows()
        )
        yield table(["seed", "way", "first changes"], lines)
