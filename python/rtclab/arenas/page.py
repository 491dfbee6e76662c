"""The page of an arena."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

from rtclab.arenas import findings, plots
from rtclab.arenas.cases import Case
from rtclab.arenas.found import LIVE, SIM, Arena, label_of
from rtclab.arenas.measure import BUDGET_MS
from rtclab.arenas.standing import DRAWS
from rtclab.arenas.suite import TCP
from rtclab.arenas.values import COMPARED, SHOWN, Values
from rtclab.report import render
from rtclab.report.words import machine as machine_in_words
from rtclab.trace import write_text

LIGHT, DARK = (253, 231, 220), (214, 236, 226)
"""Red, green and blue of the worst and of the best cell of the heat table."""


def write_page(arena: Arena) -> Path:
    """Writes ``arena.html``, ``arena.csv`` and ``arena-pairs.csv``; returns the path of the page.

    Raises:
        DiskFull: no disk space is left.
    """
    for backend in arena.results:
        name = "arena.csv" if backend == SIM else f"arena-{backend}.csv"
        write_text(arena.path / name, arena.values_of(backend).rows.write_csv())
    if arena.pairs.height:
        write_text(arena.path / "arena-pairs.csv", arena.pairs.write_csv())
    write_text(arena.page, page(arena))
    return arena.page


def page(arena: Arena) -> str:
    """The page as HTML, in the ten parts of the arena. What a suite has no data for is a sentence."""
    values = arena.values
    drawn = [plot for plot in (plots.pareto(values), plots.delays(values)) if plot is not None]
    controls, alike = list(values.controls), findings.alike_but_for_the_queue(values.cases)
    return render(
        "arena.html",
        drawn,
        title=arena.suite.title,
        suite=arena.suite.name,
        controls=controls,
        colours=plots.colours(controls),
        picks=[(pick, pick.sentence(controls)) for pick in findings.picks(values)],
        compared=COMPARED,
        failures=values.failures().rows(named=True),
        notes=arena.notes,
        ranks=[
            (
                value,
                plots.rank_diagram(found, controls, f"Mean rank: {value.label}"),
                findings.rank_sentence(value, found, controls),
            )
            for value, found in findings.rankings(values)
        ],
        heat=findings.heat_tables(values),
        shade=_shade,
        cell=lambda case, control: _cell(arena, case, control),
        queues=findings.by_queue(values, alike or values.cases),
        alike=[case.name for case in alike],
        queue_values=[(COMPARED | SHOWN)[name] for name in findings.QUEUE_VALUES],
        fairness=findings.fairness(arena.pairs, controls),
        columns=[*controls, *TCP],
        pair_failures=arena.pairs.filter(arena.pairs["status"] != "finished").rows(named=True),
        spreads=findings.spreads(values),
        weighted=findings.weighted(values, dict(arena.weights)) if arena.weights else [],
        weights=arena.weights,
        both=_both(arena, values),
        left_out=arena.left_out,
        facts=_facts(arena),
        cases=[(case, _rerun(case, "CONTROL")) for case in arena.suite.cases],
        measures=[*COMPARED.values(), *SHOWN.values()],
        seeds=_seeds(values),
        traces=arena.traces,
        budget=BUDGET_MS,
        draws=DRAWS,
        yardstick=findings.YARDSTICK,
    )


def _both(arena: Arena, values: Values) -> list[tuple[Any, ...]]:
    if not {SIM, LIVE} <= arena.results.keys():
        return []
    other = arena.values_of(LIVE if arena.backend == SIM else SIM)
    simulated, live = (values, other) if arena.backend == SIM else (other, values)
    return findings.beside(simulated, live)


def _shade(score: float | None) -> str:
    """The colour of a cell with a score between 0 and 1."""
    if score is None:
        return "#fff"
    height = min(max(score, 0.0), 1.0)
    mixed = (round(a + height * (b - a)) for a, b in zip(LIGHT, DARK, strict=True))
    return "#{:02x}{:02x}{:02x}".format(*mixed)


def _cell(arena: Arena, case: Case, control: str) -> tuple[str, str]:
    """Where the trace of a case with a control lies, if there is one, and the command that makes it."""
    place = ""
    if arena.traces:
        results = arena.results[arena.backend]
        label = label_of(case.name, control)
        if label in results.conditions:
            path = results[label].repeat_path(0)
            place = path.relative_to(arena.path).as_posix() if path.is_dir() else ""
    return place, _rerun(case, control) or f"{arena.command} --traces"


def _rerun(case: Case, control: str) -> str:
    """The command that runs a case with a control and leaves a trace; empty if the case has no file."""
    if not case.origin:
        return ""
    return shlex.join(["rtclab", "run", case.origin, "--control", control])


def _facts(arena: Arena) -> list[tuple[str, str]]:
    results = arena.results[arena.backend]
    about = results.runs[0]
    seconds = sum(case.scenario.duration.s for case in arena.suite.cases)
    return [
        ("Suite", arena.suite.name),
        ("Cases", f"{len(arena.suite.cases)}, {seconds:g} s together"),
        ("Controls", str(len(arena.controls))),
        ("Repeats", f"{arena.repeats} of each, with the same seeds for all controls"),
        ("Backend", "simulated (virtual time)" if arena.backend == SIM else "live"),
        ("Versions", ", ".join(f"{name} {version}" for name, version in about.versions.items())),
        *(
            []
            if arena.backend == SIM or about.machine is None
            else [("Machine", machine_in_words(about.machine))]
        ),
        ("Command", arena.command),
    ]


def _seeds(values: Values) -> str:
    """The seeds of the repeats, if all cases have the same ones."""
    rows = values.rows.select("repeat", "seed").unique().sort("repeat", "seed")
    if rows.height > rows["repeat"].n_unique():
        return "Each case has seeds of its own; arena.csv has them."
    return ", ".join(map(str, rows["seed"].to_list()))
