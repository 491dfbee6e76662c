"""Gates: whether calls are still as good as they were, for a suite of scenarios."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from rtclab.errors import BadInput
from rtclab.experiment import Condition, Experiment, Moment
from rtclab.experiment.comparison import Side
from rtclab.gates.baseline import Baseline, check_required
from rtclab.gates.causes import with_causes
from rtclab.gates.judge import judge
from rtclab.gates.result import GateResult
from rtclab.gates.suite import Suite
from rtclab.scenario.ignored import SIM

EXPLAINED_REPEATS = 3
"""Number of repeats in which the cause of a failing check is looked for."""

__all__ = ["Baseline", "GateResult", "Suite", "gate", "judge"]


def gate(
    suite: str | Path | Suite,
    *,
    begin: Moment | None = None,
    end: Moment | None = None,
    update_baseline: str | None = None,
    jobs: int | None = None,
    out: str | Path = "runs",
    progress: bool = True,
    trust: bool = False,
) -> GateResult:
    r"""Runs the scenarios of a suite, and checks their limits and what changed since the baseline.

    Args:
        suite: the TOML file of the suite, or a suite that is loaded.
        begin: check and compare from this time of each repeat on, such as ``"10 s"``; by default the suite's
            own begin.
        end: check and compare up to this time; by default the suite's own end.
        update_baseline: the reason for a new baseline, which is then written instead of compared with,
            unless a limit is broken.
        jobs: number of simulations at the same time; by default one per core.
        out: directory of live runs. Simulated repeats leave no traces.
        progress: show a progress bar on a terminal or in a notebook.
        trust: run what a suite or scenarios from outside of the current project name: Python code, programs,
            pages, the network.

    Raises:
        BadInput: the suite or the baseline is invalid, the baseline is of other scenarios, or strangers'
            files are not trusted; nothing ran.
        BackendUnavailable: live calls need something that this machine lacks.
        RtclabError: a new baseline was wanted and a repeat failed; the old one is unchanged.

    Example:
        >>> import pathlib
        >>> scenario = '[scenarios.call]\nscenario = "first-call"\nduration = "10 s"\nrepeats = 2'
        >>> size = pathlib.Path("suite.toml").write_text(f'limits = ["rtt < 1 s"]\n{scenario}')
        >>> rtclab.gate("suite.toml").passed
        True
    """
    if isinstance(suite, Suite) and (begin is not None or end is not None):
        raise BadInput("begin and end: a loaded suite has its own", hint="pass them to Suite.load")
    loaded = suite if isinstance(suite, Suite) else Suite.load(suite, begin=begin, end=end, trust=trust)
    if update_baseline is not None and not update_baseline.strip():
        raise BadInput("update_baseline: the reason is empty", hint="say why the figures have changed")
    if update_baseline is not None:
        if not loaded.compares:
            raise BadInput(f"{loaded.name}: nothing to keep in a baseline", hint="add `compare`")
        measured = _measure(loaded, jobs, Path(out), progress=progress)
        new = Baseline.of(loaded, measured, update_baseline)
        result = _explained(loaded, judge(loaded, measured, None))
        if not result.passed:
            return replace(result, notes=(f"{loaded.baseline} was not written, because a limit is broken.",))
        new.write(loaded.baseline)
        return replace(result, notes=(f"{loaded.baseline} is new; only limits were checked.",))
    baseline = Baseline.load(loaded.baseline) if loaded.compares else None
    check_required(loaded, baseline)
    if baseline is not None:
        baseline.check(loaded, loaded.baseline)
    measured = _measure(loaded, jobs, Path(out), progress=progress)
    return _explained(loaded, judge(loaded, measured, baseline, _notes(loaded, baseline)))


def _explained(suite: Suite, result: GateResult) -> GateResult:
    """The result with the causes of what fails.

    Simulated repeats left no traces, so the first ones of each scenario that fails are simulated once more.
    """
    failing = {check.scenario for check in result.checks if check.fails}
    begin, end = suite.window or (None, None)
    again = {
        name: Condition(one.scenario, repeats=min(one.repeats, EXPLAINED_REPEATS))
        for name, one in suite.conditions.items()
        if name in failing and one.backend == SIM
    }
    with TemporaryDirectory(prefix="rtclab-gate-") as temporary:
        runs = {name: result.measured[name].run for name in failing - again.keys()}
        if again:
            experiment = Experiment(again, backend=SIM, name="gate", begin=begin, end=end, traces=True)
            sides = experiment.run(out=Path(temporary), progress=False).sides(totals_per_minute=False)
            runs |= {name: side.run for name, side in sides.items()}
        return replace(result, checks=tuple(with_causes(result.checks, runs.get)))


def _measure(suite: Suite, jobs: int | None, out: Path, *, progress: bool) -> Mapping[str, Side]:
    """Runs the conditions, those with the same backend at once; the result is in the order of the suite.

    Simulated repeats are measured in memory and leave no traces. Live ones are kept as runs below ``out``.
    """
    measured: dict[str, Side] = {}
    begin, end = suite.window or (None, None)
    for backend in dict.fromkeys(one.backend for one in suite.conditions.values()):
        chosen = {name: one for name, one in suite.conditions.items() if one.backend == backend}
        experiment = Experiment(
            {name: Condition(one.scenario, repeats=one.repeats) for name, one in chosen.items()},
            backend=backend,
            name="gate",
            metrics=list(dict.fromkeys(name for one in chosen.values() for name in one.metrics)),
            begin=begin,
            end=end,
            traces=backend != SIM,
        )
        with TemporaryDirectory(prefix="rtclab-gate-") as temporary:
            place = Path(temporary) if backend == SIM else out
            made = experiment.run(out=place, jobs=jobs, progress=progress)
            measured |= made.sides(totals_per_minute=False)
    return {name: measured[name] for name in suite.conditions}


def _notes(suite: Suite, baseline: Baseline | None) -> tuple[str, ...]:
    if not suite.compares:
        return ()
    how = "--update-baseline --reason TEXT writes it"
    if baseline is None:
        return (f"{suite.baseline} does not exist, so only limits were checked; {how}.",)
    missing = [
        name
        for name, condition in suite.conditions.items()
        if condition.margins and name not in baseline.scenarios
    ]
    notes = [f"Baseline of rtclab {baseline.rtclab}: {baseline.reason}"]
    if missing:
        notes.append(
            f"{suite.baseline} lacks {', '.join(missing)}, so only limits were checked there; {how}."
        )
    return tuple(notes)
