"""Runs controls x cases x repeats on one experiment store, and reads what came out."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any

import polars as pl

from rtclab.arenas.controls import choices, with_control
from rtclab.arenas.measure import measure
from rtclab.arenas.suite import FIRST, REPEATS, SECOND, TCP, ArenaSuite, load_suite, pair
from rtclab.arenas.values import ALL, CDF, KEYS, Values, of_repeat, table
from rtclab.arenas.weights import read_weights
from rtclab.backend import Backend
from rtclab.backend import backend as backend_of
from rtclab.errors import BadInput, UnsupportedScenario
from rtclab.experiment import STORE_FILE, Condition, Experiment, Results
from rtclab.processes import cores, process_pool
from rtclab.replays.settings import Choice
from rtclab.scenario import Change, Scenario
from rtclab.trace import write_text

SIM, LIVE = "sim", "live"
VERSION = "1"
"""Identifies what is measured; a change measures stored repeats again."""
MAX_THREADS = 1
"""With more jobs, each is a process: measuring takes as long as simulating and holds the lock of Python."""
PAIRS = pl.Schema(
    {
        "first": pl.String(),
        "second": pl.String(),
        "repeat": pl.Int64(),
        "seed": pl.Int64(),
        "status": pl.String(),
        "reason": pl.String(),
        "rate_first": pl.Float64(),
        "rate_second": pl.Float64(),
    }
)
"""The columns of the table of pairs."""


@dataclass(frozen=True)
class Arena:
    """What an arena found.

    Attributes:
        path: its directory, with ``arena.html``, tables as CSV, and a store per backend.
        suite: the suite.
        controls: the controls by the texts under which they appear.
        backend: the backend that just ran.
        repeats: number of repeats of each case with each control.
        results: by backend, what is in its store.
        weights: weights of a score, if they were asked for.
        traces: whether traces are kept.
        left_out: what the backend cannot run, with the reason.
    """

    path: Path
    suite: ArenaSuite
    controls: Mapping[str, Choice]
    backend: str
    repeats: int
    results: Mapping[str, Results]
    weights: Mapping[str, float]
    traces: bool = False
    left_out: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def values(self) -> Values:
        """The values of the backend that just ran."""
        return self.values_of(self.backend)

    def values_of(self, backend: str) -> Values:
        """The values of a backend, in the order of cases, controls and repeats."""
        found = _by_repeat(self.results[backend])
        rows = []
        for case in self.suite.cases:
            for control in self.controls:
                for outcome, numbers in found.get(_label(case.name, control), ()):
                    known = of_repeat(case, numbers) if outcome["status"] == "finished" else {}
                    rows.append({**outcome, "case": case.name, "control": control, **known})
        return Values(self.suite.cases, tuple(self.controls), table(rows, [*ALL, *CDF]))

    @cached_property
    def pairs(self) -> pl.DataFrame:
        """The rates in kbit/s of two flows at one bottleneck, over the second half of their time.

        Columns: ``first`` and ``second`` (a control, or TCP's), ``repeat``, ``seed``, ``status``, ``reason``,
        ``rate_first``, ``rate_second``. Empty if the suite has no pairings, or was not simulated.
        """
        found = _by_repeat(self.results[SIM]) if SIM in self.results else {}
        rows = []
        for first, second in _pairs(self.suite, self.controls):
            for outcome, numbers in found.get(_beside(first, second), ()):
                other = "tcp" if second in TCP else SECOND
                rates = [numbers.get(("late_rate", flow)) for flow in (FIRST, other)]
                told = (outcome[name] for name in ("repeat", "seed", "status", "reason"))
                rows.append((first, second, *told, *rates))
        return pl.DataFrame(rows, schema=PAIRS, orient="row")

    @property
    def failed(self) -> bool:
        """Whether a repeat failed, of a case or of a pairing."""
        pairs = self.pairs.filter(pl.col("status") != "finished")
        return bool(self.values.failures().height or pairs.height)

    @property
    def command(self) -> str:
        """The command that makes the same page again. The number of jobs and the directory change nothing."""
        parts = [
            "rtclab",
            "arena",
            *self.controls,
            "--suite",
            self.suite.name,
            "--repeats",
            str(self.repeats),
        ]
        parts += ["--backend", LIVE] if self.backend == LIVE else []
        parts += ["--traces"] if self.traces and self.backend == SIM else []
        if self.weights:
            parts += ["--weights", ",".join(f"{name}={weight:g}" for name, weight in self.weights.items())]
        return shlex.join(parts)

    @property
    def page(self) -> Path:
        """The page."""
        return self.path / "arena.html"

    def report(self) -> Path:
        """Writes ``arena.html``, ``arena.csv`` and ``arena-pairs.csv``; returns the path of the page.

        Raises:
            DiskFull: no disk space is left.
        """
        from rtclab.arenas.page import page

        for backend in self.results:
            name = "arena.csv" if backend == SIM else f"arena-{backend}.csv"
            write_text(self.path / name, self.values_of(backend).rows.write_csv())
        if self.pairs.height:
            write_text(self.path / "arena-pairs.csv", self.pairs.write_csv())
        write_text(self.page, page(self))
        return self.page


def arena(
    controls: Sequence[str] = (),
    *,
    suite: str | Path | ArenaSuite = "access",
    backend: str = SIM,
    repeats: int | None = None,
    jobs: int | None = None,
    into: str | Path | None = None,
    weights: str | Path | Mapping[str, float] | None = None,
    traces: bool = False,
    progress: bool = True,
) -> Arena:
    """Runs controls in the cases of a suite, and writes a page that compares them.

    All controls have the same seeds. What has finished in the directory does not run again, so the same call
    continues an arena that was stopped, and a further control runs alone. A control that fails in a case is
    shown with the reason, and all others stay.

    Args:
        controls: texts such as ``goog-cc`` or ``nada,kappa=0.4``; by default all that come with rtclab,
            without the historical ones.
        suite: ``access``, ``rfc8867``, ``rfc8869``, ``random``, a TOML file, or a loaded suite.
        backend: ``sim`` or ``live``. A page shows both if both have run in its directory.
        repeats: number of repeats of each case with each control; by default 10 simulated or 3 live.
        jobs: number of processes; by default one per core.
        into: the directory; by default ``runs/arena-SUITE``.
        weights: weights of a score by the names of values, as a mapping, as text ``k=v,…``, or a TOML file.
        traces: keep the trace of the first simulated repeat of each case with each control.
        progress: show a progress bar.

    Raises:
        BadInput: an argument is invalid; nothing was started.
        Interrupted: Ctrl-C was pressed. What has finished is kept.

    Example:
        >>> found = rtclab.arena(["goog-cc", "nada"], suite="rfc8867", repeats=2)
        >>> found.path.joinpath("arena.html").is_file()
        True
    """
    chosen = choices(controls)
    loaded = suite if isinstance(suite, ArenaSuite) else load_suite(suite)
    count = repeats or loaded.repeats or REPEATS.get(backend, 1)
    weighted = read_weights(weights)
    path = Path("runs") / f"arena-{loaded.stem}" if into is None else Path(into)
    made = backend_of(backend)
    live = made.name != SIM
    conditions = _conditions(loaded, chosen, count, traces=traces and not live, live=live)
    left_out = _unsupported(conditions, made) if live else {}
    if len(left_out) == len(conditions):
        label, reason = next(iter(left_out.items()))
        raise BadInput(f"backend: live calls can run no case with any of the controls; {label}: {reason}")
    conditions = {label: one for label, one in conditions.items() if label not in left_out}
    experiment = Experiment(
        conditions, repeats=1, backend=made, name=f"arena-{loaded.stem}", traces=live, measure=measure
    )
    processes = jobs or cores()
    in_processes = not live and processes > MAX_THREADS
    with process_pool(processes) if in_processes else nullcontext() as executor:
        results = experiment.run(
            into=path / made.name,
            executor=executor,
            jobs=1 if live else processes,
            order="paired" if live else "plain",
            renew=True,
            progress=progress,
        )
    found = {made.name: results}
    for other in (SIM, LIVE):
        if other != made.name and (path / other / STORE_FILE).is_file():
            found[other] = Results(path / other)
    arena = Arena(path, loaded, chosen, made.name, count, found, weighted, traces or live, left_out)
    arena.report()
    return arena


def _conditions(
    suite: ArenaSuite, controls: Mapping[str, Choice], repeats: int, *, traces: bool, live: bool
) -> dict[str, Condition]:
    """The conditions by label: each case with each control, and the pairings."""
    record = [] if traces or live else [Change("record", "seconds")]

    def condition(scenario: Scenario) -> Condition:
        kept = 1 if traces else None
        return Condition(Scenario.load(scenario, record), repeats=repeats, measures=(VERSION,), traces=kept)

    found = {}
    for case in suite.cases:
        for name, choice in controls.items():
            found[_label(case.name, name)] = condition(with_control(case.scenario, choice))
    for first, second in () if live else _pairs(suite, controls):
        other = second if second in TCP else controls[second]
        found[_beside(first, second)] = condition(pair(controls[first], other))
    return found


def _unsupported(conditions: Mapping[str, Condition], backend: Backend) -> dict[str, str]:
    """The conditions that a backend cannot run, with the reason."""
    found = {}
    for label, one in conditions.items():
        try:
            backend.check(one.scenario)
        except UnsupportedScenario as error:
            found[label] = error.message
    return found


def _label(case: str, control: str) -> str:
    return f"{case} with {control}"


def _beside(first: str, second: str) -> str:
    return f"{first} beside {second}"


def _pairs(suite: ArenaSuite, controls: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The pairs that compete: of controls, each once, and of a control and TCP."""
    if not suite.pairings:
        return []
    of_calls = list(combinations_with_replacement(sorted(controls), 2))
    return [*of_calls, *((name, tcp) for name in sorted(controls) for tcp in TCP)]


def _by_repeat(results: Results) -> dict[str, list[tuple[dict[str, Any], dict[tuple[str, str], float]]]]:
    """By label of a condition its repeats in order: the outcome, and the numbers by metric and flow."""
    numbers: dict[tuple[str, int], dict[tuple[str, str], float]] = {}
    rows = results.metrics().select("condition", "repeat", "metric", "flow", "value")
    for condition, repeat, metric, flow, value in rows.iter_rows():
        numbers.setdefault((condition, repeat), {})[metric, flow] = value
    found: dict[str, list[tuple[dict[str, Any], dict[tuple[str, str], float]]]] = {}
    names = [name for name in KEYS if name not in ("case", "control")]
    for row in results.outcomes().sort("condition", "repeat").iter_rows(named=True):
        outcome = {name: row[name] for name in names}
        found.setdefault(row["condition"], []).append(
            (outcome, numbers.get((row["condition"], row["repeat"]), {}))
        )
    return found
