"""Gates: whether calls are still as good as they were, for a suite of scenarios."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby
from pathlib import Path

from rtclab.errors import BadInput
from rtclab.gates.baseline import Baseline, check_required
from rtclab.gates.judge import judge
from rtclab.gates.measured import Measured, run_conditions
from rtclab.gates.result import GateResult
from rtclab.gates.suite import Suite

__all__ = ["Baseline", "GateResult", "Suite", "gate", "judge"]


def gate(
    suite: str | Path | Suite,
    *,
    update_baseline: str | None = None,
    jobs: int | None = None,
    out: str | Path = "runs",
    progress: bool = True,
    trust: bool = False,
) -> GateResult:
    r"""Runs the scenarios of a suite, and checks their limits and what changed since the baseline.

    Args:
        suite: the TOML file of the suite, or a suite that is loaded.
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
    loaded = suite if isinstance(suite, Suite) else Suite.load(suite, trust=trust)
    if update_baseline is not None and not update_baseline.strip():
        raise BadInput("update_baseline: the reason is empty", hint="say why the figures have changed")
    if update_baseline is not None:
        if not loaded.compares:
            raise BadInput(f"{loaded.name}: nothing to keep in a baseline", hint="add `compare`")
        measured = _measure(loaded, jobs, Path(out), progress=progress)
        new = Baseline.of(loaded, measured, update_baseline)
        result = judge(loaded, measured, None)
        if not result.passed:
            return replace(result, notes=(f"{loaded.baseline} was not written, because a limit is broken.",))
        new.write(loaded.baseline)
        return replace(result, notes=(f"{loaded.baseline} is new; only limits were checked.",))
    baseline = Baseline.load(loaded.baseline) if loaded.compares else None
    check_required(loaded, baseline)
    if baseline is not None:
        baseline.check(loaded, loaded.baseline)
    measured = _measure(loaded, jobs, Path(out), progress=progress)
    return judge(loaded, measured, baseline, _notes(loaded, baseline))


def _measure(suite: Suite, jobs: int | None, out: Path, *, progress: bool) -> Measured:
    """Runs the conditions; those with the same backend and number of repeats at once."""
    parts = []
    by_run = sorted(suite.conditions.items(), key=lambda item: (item[1].backend, item[1].repeats))
    for (backend, repeats), items in groupby(by_run, key=lambda item: (item[1].backend, item[1].repeats)):
        conditions = dict(items)
        metrics = list(dict.fromkeys(name for one in conditions.values() for name in one.metrics))
        scenarios = {name: one.scenario for name, one in conditions.items()}
        parts.append(
            run_conditions(scenarios, repeats, backend, metrics, jobs=jobs, out=out, progress=progress)
        )
    return Measured.concat(parts)


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
