"""Runs controls x cases x repeats on one experiment store, and writes the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from rtclab.arenas.controls import choices, with_control
from rtclab.arenas.found import LIVE, SIM, Arena, label_of, label_of_pair, pairs_of
from rtclab.arenas.measure import measure
from rtclab.arenas.page import write_page
from rtclab.arenas.suite import REPEATS, TCP, ArenaSuite, load_suite, pair
from rtclab.arenas.weights import read_weights
from rtclab.backend import Backend
from rtclab.backend import backend as backend_of
from rtclab.errors import BadInput, UnsupportedScenario
from rtclab.experiment import STORE_FILE, Condition, Experiment, Results
from rtclab.processes import cores, process_pool, unguarded_script
from rtclab.replays.settings import Choice
from rtclab.scenario import Change, Scenario

VERSION = "1"
"""Identifies what is measured; a change measures stored repeats again."""
MAX_THREADS = 1
"""With more jobs, each is a process: measuring takes as long as simulating and holds the lock of Python."""


def arena(
    controls: str | Sequence[str] = (),
    *,
    suite: str | Path | ArenaSuite = "access",
    backend: str = SIM,
    repeats: int | None = None,
    jobs: int | None = None,
    into: str | Path | None = None,
    weights: str | Path | Mapping[str, float] | None = None,
    traces: bool = False,
    progress: bool = True,
    trust: bool = False,
) -> Arena:
    """Runs controls in the cases of a suite, and writes a page that compares them.

    All controls have the same seeds. What has finished in the directory does not run again, so the same call
    continues an arena that was stopped, and a further control runs alone. A control that fails in a case is
    shown with the reason, and all others stay.

    Args:
        controls: one text or several, such as ``goog-cc`` or ``nada,kappa=0.4``; by default all that come
            with rtclab, without the historical ones.
        suite: ``access``, ``rfc8867``, ``rfc8869``, ``random``, a TOML file, or a loaded suite.
        backend: ``sim`` or ``live``. A page shows both if both have run in its directory.
        repeats: number of repeats of each case with each control; by default 10 simulated or 3 live.
        jobs: number of processes; by default one per core.
        into: the directory; by default ``runs/arena-SUITE``.
        weights: weights of a score by the names of values, as a mapping, as text ``k=v,…``, or a TOML file.
        traces: keep the trace of the first simulated repeat of each case with each control.
        progress: show a progress bar.
        trust: run what a suite or scenarios from outside of the current project name: Python code, programs,
            pages, the network. ``controls`` are trusted.

    Raises:
        BadInput: an argument is invalid, or strangers' files are not trusted; nothing was started.
        Interrupted: Ctrl-C was pressed. What has finished is kept.

    Example:
        >>> found = rtclab.arena(["goog-cc", "nada"], suite="rfc8867", repeats=2)
        >>> found.path.joinpath("arena.html").is_file()
        True
    """
    chosen = choices(controls)
    loaded = suite if isinstance(suite, ArenaSuite) else load_suite(suite, trust=trust)
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
    in_processes = not live and processes > MAX_THREADS and unguarded_script() is None
    with process_pool(processes) if in_processes else nullcontext() as executor:
        results = experiment.run(
            into=path / made.name,
            executor=executor,
            jobs=jobs if live else processes,
            order="paired" if live else "plain",
            renew=True,
            progress=progress,
        )
    found = {made.name: results}
    for other in (SIM, LIVE):
        if other != made.name and (path / other / STORE_FILE).is_file():
            found[other] = Results(path / other)
    arena = Arena(path, loaded, chosen, made.name, count, found, weighted, traces or live, left_out)
    write_page(arena)
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
            found[label_of(case.name, name)] = condition(with_control(case.scenario, choice))
    for first, second in () if live else pairs_of(suite, controls):
        other = second if second in TCP else controls[second]
        found[label_of_pair(first, second)] = condition(pair(controls[first], other))
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
