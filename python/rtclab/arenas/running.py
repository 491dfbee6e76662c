"""Runs controls x cases x repeats on one experiment store, and writes the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

from rtclab.arenas.controls import choices, with_control
from rtclab.arenas.page import write_page
from rtclab.arenas.results import LIVE, SIM, Arena, pairs_of
from rtclab.arenas.suite import REPEATS, TCP, ArenaSuite, beside, label_of, load_suite, pair
from rtclab.arenas.values import MEASURED
from rtclab.backend import Backend
from rtclab.backend import backend as backend_of
from rtclab.errors import BadInput, UnsupportedScenario
from rtclab.experiment import STORE_FILE, Condition, Experiment, Moment, Results
from rtclab.experiment.window import check_reached, open_window
from rtclab.processes import cores, process_pool, unguarded_script
from rtclab.renamed import renamed
from rtclab.replays.settings import ControlChoice
from rtclab.scenario import Change, Scenario
from rtclab.trace import OpenWindow, window_in_names

MAX_THREADS = 1
"""With more jobs, each is a process: measuring takes as long as simulating and holds the lock of Python."""
NO_WEIGHTS = "scores with weights are gone; multiply the columns of arena.csv by your own"


@renamed(into="name the directory of all runs: out", weights=NO_WEIGHTS)
def arena(
    controls: str | Sequence[str] = (),
    *,
    suite: str | Path | ArenaSuite = "access",
    backend: str = SIM,
    repeats: int | None = None,
    jobs: int | None = None,
    begin: Moment | None = None,
    end: Moment | None = None,
    out: str | Path = "runs",
    traces: bool = False,
    progress: bool = True,
    trust: bool = False,
) -> Arena:
    """Runs controls in the cases of a suite, and writes a page that compares them.

    All controls have the same seeds. The results are an experiment with the fields ``case`` and ``control``,
    in the directory ``arena-SUITE`` below ``out``; of live calls in ``arena-SUITE-live``, and of a part of
    the time for example in ``arena-SUITE-from-10s``. What has finished there does not run again, so the same
    call continues an arena that was stopped, and a further control runs alone. A control that fails in a case
    is shown with the reason, and all others stay.

    Args:
        controls: one text or several, such as ``goog-cc`` or ``nada,kappa=0.4``; by default all that come
            with rtclab, without the historical ones.
        suite: ``access``, ``rfc8867``, ``rfc8869``, ``random``, a TOML file, or a loaded suite.
        backend: ``sim`` or ``live``. A page shows both if both have run below ``out``.
        repeats: number of repeats of each case with each control; by default 10 simulated or 3 live.
        jobs: number of processes; by default one per core.
        begin: measure from this time on, such as ``"10 s"`` or 10 (seconds).
        end: measure up to this time.
        out: the directory of all runs.
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
    chosen, window = choices(controls), open_window(begin, end)
    loaded = suite if isinstance(suite, ArenaSuite) else load_suite(suite, trust=trust)
    count = repeats or loaded.repeats or REPEATS.get(backend, 1)
    check_reached(window, (case.scenario.duration.s for case in loaded.cases))
    made = backend_of(backend)
    live = made.name != SIM
    conditions = _conditions(loaded, chosen, count, traces=traces and not live, live=live)
    left_out = _unsupported(conditions, made) if live else {}
    if len(left_out) == len(conditions):
        label, reason = next(iter(left_out.items()))
        raise BadInput(f"backend: live calls can run no case with any of the controls; {label}: {reason}")
    experiment = Experiment(
        {label: one for label, one in conditions.items() if label not in left_out},
        repeats=1,
        backend=made,
        name=_name(loaded, made.name, window),
        metrics=MEASURED,
        begin=begin,
        end=end,
        traces=live,
    )
    processes = jobs or cores()
    in_processes = not live and processes > MAX_THREADS and unguarded_script() is None
    with process_pool(processes) if in_processes else nullcontext() as executor:
        results = experiment.run(
            into=Path(out) / experiment.about.name,
            executor=executor,
            jobs=jobs if live else processes,
            order="paired" if live else "plain",
            renew=True,
            progress=progress,
        )
    beside_it = Path(out) / _name(loaded, LIVE if made.name == SIM else SIM, window)
    other = Results(beside_it) if (beside_it / STORE_FILE).is_file() else None
    arena = Arena(loaded, chosen, count, results, other, traces or live, left_out)
    write_page(arena)
    return arena


def _name(suite: ArenaSuite, backend: str, window: OpenWindow | None) -> str:
    """The name of the directory."""
    return f"arena-{suite.stem}{'' if backend == SIM else f'-{backend}'}{window_in_names(window)}"


def _conditions(
    suite: ArenaSuite, controls: Mapping[str, ControlChoice], repeats: int, *, traces: bool, live: bool
) -> dict[str, Condition]:
    """The conditions by label: each case with each control, and the pairings."""
    record = [] if traces or live else [Change("record", "seconds")]

    def condition(case: str, control: str, scenario: Scenario) -> Condition:
        kept = 1 if traces else None
        fields = {"case": case, "control": control}
        return Condition(Scenario.load(scenario, record), repeats=repeats, traces=kept, fields=fields)

    found = {}
    for case in suite.cases:
        for name, choice in controls.items():
            found[label_of(case.name, name)] = condition(case.name, name, with_control(case.scenario, choice))
    for first, second in () if live else pairs_of(suite, controls):
        scenario = pair(controls[first], second if second in TCP else controls[second])
        found[f"{first} {beside(second)}"] = condition(beside(second), first, scenario)
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
