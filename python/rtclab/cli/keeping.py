"""``rtclab runs``, ``rtclab show RUN`` and ``rtclab delete``: which results there are, and how they came."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import polars as pl
import typer
from rich.filesize import decimal

from rtclab.cli import tables
from rtclab.errors import BadInput
from rtclab.experiment import Results, Store
from rtclab.lab import bytes_of, show
from rtclab.phrases import count, names_in_words
from rtclab.trace import window_in_words

MOST_LABELS = 5
"""Conditions that were given one by one are named if they are at most this many."""


def print_runs(runs: pl.DataFrame, out: Path) -> None:
    """Prints a row for each of the results in a directory."""
    if runs.is_empty():
        print(f"no runs in {out}/", file=sys.stderr)
        return
    headings = tables.right("finished", "conditions", "size")
    table = tables.new_table(*tables.whole("run", "backend", "began"), *headings)
    for row in runs.iter_rows(named=True):
        known = row["problem"] is None
        table.add_row(
            row["name"],
            row["backend"] or "",
            _time(row["created"] or ""),
            f"{row['finished']} of {row['planned']}" if known else "unknown",
            str(row["conditions"]) if known else "",
            decimal(row["bytes"]),
        )
    tables.print_table(table)
    for name, problem in runs.drop_nulls("problem").select("name", "problem").iter_rows():
        print(f"{name}: {problem}", file=sys.stderr)


def show_run(path: Path, *, as_json: bool) -> None:
    """Prints how results were made: scenario, conditions, versions, machine, outcomes and events."""
    known = show(path)
    if as_json:
        tables.print_json(known)
        return
    store = Store(path)
    results, first, older = Results(store), known["scenario"], known["older"]
    print(f"{results.name}: {first.get('title') or first['name']}")
    table = tables.new_table(*tables.whole(""), "")
    table.show_header = False
    for name, value in _facts(results, store, first).items():
        table.add_row(name, value)
    tables.print_table(table)
    if older:
        again = f"`rtclab run --resume {path} --renew` runs simulated ones again"
        print(f"{count(older, 'repeat')} of another build of rtclab; {again}\n")
    events = tables.new_table(*tables.whole("time (UTC)"), "what happened")
    for at, what in store.events():
        events.add_row(_time(at), what)
    tables.print_table(events)


def _facts(results: Results, store: Store, scenario: dict[str, Any]) -> dict[str, str]:
    """What holds for all repeats, by heading."""
    from rtclab.report.words import kind_in_words

    about, machine = store.about, store.about.machine
    facts = {
        "directory": f"{results.path}, {decimal(bytes_of(results.path))}",
        "backend": kind_in_words(about.backend),
        "scenario": f"{scenario['name']}, {scenario['duration']}",
        "source": scenario.get("source") or "",
        "conditions": _conditions(results),
        "repeats": _repeats(results, store),
        "measured": f"by {about.measure}"
        if about.measure
        else f"{count(len(about.metrics), 'metric')}, "
        + ("whole repeats" if about.window is None else window_in_words(about.window)),
        "traces": _traces(store),
        "versions": ", ".join(f"{name} {version}" for name, version in about.versions.items()),
        "machine": "",
    }
    if machine is not None:
        known = [f"{machine.system} {machine.kernel}", machine.processor]
        known += [count(machine.cores, "core")] if machine.cores else []
        known += [decimal(machine.memory_bytes)] if machine.memory_bytes else []
        facts["machine"] = ", ".join(known)
    return {name: value for name, value in facts.items() if value}


def _traces(store: Store) -> str:
    if store.about.traces:
        return "kept"
    some = any(store.conditions.settings(number).traces for number in range(len(store.conditions)))
    return "kept of the first repeats of some conditions" if some else "not kept"


def _conditions(results: Results) -> str:
    there = len(results.conditions)
    if results.fields:
        return f"{there}: " + ", ".join(f"{one.name} ({one.count} values)" for one in results.varied)
    return "" if there == 1 else f"{there}: {names_in_words(results.conditions, MOST_LABELS)}"


def _repeats(results: Results, store: Store) -> str:
    """How the repeats ended: ``5 planned: 3 finished, 1 failed, 1 not run``."""
    statuses = store.statuses()
    missing = results.planned - sum(statuses.values())
    ended = [f"{number} {status}" for status, number in sorted(statuses.items(), key=lambda one: -one[1])]
    return f"{results.planned} planned: {', '.join([*ended, *([f'{missing} not run'] if missing else [])])}"


def ask(paths: Sequence[Path]) -> None:
    """Asks whether to delete directories of results.

    Raises:
        BadInput: nobody can be asked.
    """
    what = [f"{path} ({decimal(bytes_of(path))})" for path in paths]
    if not sys.stdin.isatty():
        raise BadInput(f"delete: {', '.join(what)}: nobody can be asked without a terminal", hint="add --yes")
    typer.confirm(f"delete {names_in_words(what, len(what))}?", abort=True)


def _time(text: str) -> str:
    """A time in ISO 8601 without its zone, for reading."""
    return text.partition("+")[0].replace("T", " ")
