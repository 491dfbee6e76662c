"""What would help a call: its scenario is simulated with one thing changed at a time, each compared in pairs.

A change removes a cause, which tells how much it matters, or is a remedy that somebody could apply. Nothing
is guessed: every row of the table is simulated, with the seeds of the unchanged scenario.

The scenario of a live run is known exactly, also of meetings and of causes that packets do not show, such as
a weak processor. It is used as it is; only the scenario of an import, which is a call of two, is estimated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import Any

import polars as pl

from rtclab.errors import BadInput
from rtclab.experiment import Experiment, Results, check_names, find_store, open_store
from rtclab.experiment.comparison import null
from rtclab.experiment.flows import Flows, chosen_flows, scenario_flows
from rtclab.experiment.window import Moment, open_window
from rtclab.lab import RUNS, open_results, scenario_from
from rtclab.metrics import METRICS, holm, prediction_interval, summarise
from rtclab.metrics.statistics import paired
from rtclab.remedy.changes import ChangedScenario, changes_of, own_changes
from rtclab.report import number
from rtclab.scenario import Scenario
from rtclab.scenario.ignored import LIVE, SIM
from rtclab.scenario.load import Changes
from rtclab.trace import OpenWindow

REPEATS = 20
GOAL = "freeze_duration"
SHOWN = ("freeze_duration", "picture_delay", "receiving_rate", "audio_concealed")
"""Metrics that the table has beside the goal."""
MARGIN = 0.1
"""The interval of one simulated call has its chance, not what a model leaves out. A call that lies outside by
this part of the bound is still shown: nobody would act on such a difference."""
UNCHANGED = "unchanged"
LEAST_PART = 0.1
"""A change that can be applied is worth a word if it does this part of what the best one does."""


@dataclass(frozen=True)
class Remedies:
    """What each change does to a call. Its ``repr``, which a notebook shows, is the answer in a sentence.

    Attributes:
        goal: name of the metric by which the changes are ranked.
        rows: one for each change and metric; see :meth:`table`.
        trust: for each metric of a real call, its value in ``call``, the interval in which one simulated call
            lies in ``low`` and ``high``, and whether the simulation shows it in ``shown``: it is inside, or
            outside by at most 10 % of the bound.
        repeats: number of simulated calls of each change.
        real: whether the call is a real one: live or imported.
        unchanged: the goal in those unchanged calls that have a value of it.
        window: begin and end of the measured time, in s; None for the whole call.
    """

    goal: str
    rows: pl.DataFrame
    trust: pl.DataFrame
    repeats: int
    real: bool
    unchanged: Sequence[float]
    window: OpenWindow | None

    @property
    def shows_the_goal(self) -> bool:
        """Whether simulated calls show the goal as the real call has it; true for simulated calls."""
        return self._shows(self.goal)

    @property
    def refusal(self) -> str | None:
        """Why the changes are not ranked; None if they are."""
        if not self.unchanged:
            return f"no simulated call has a value of {self.goal}, so nothing is ranked by it"
        if self.real and self.goal not in self.trust["metric"]:
            return f"the call has no value of {self.goal}, so it is not known whether the simulation shows it"
        if not self.shows_the_goal:
            return f"the simulation does not show {self.goal} as the call has it, so nothing is ranked by it"
        if self.cannot_improve:
            what = "no freezes to remove" if self.goal.startswith("freeze") else "nothing to improve"
            return f"{what}: {self.goal} is {self._best:g} in every unchanged call"
        return None

    @property
    def cannot_improve(self) -> bool:
        """Whether the goal has its best value in every unchanged call, such as no freezes."""
        return bool(self.unchanged) and all(value == self._best for value in self.unchanged)

    @property
    def other_goals(self) -> list[str]:
        """Further metrics of the table that the simulation shows, and that some change improves."""
        helped = self.rows.filter(pl.col("verdict") == "helps")["metric"].unique(maintain_order=True)
        return [name for name in helped if name != self.goal and self._shows(name)]

    @property
    def sentence(self) -> str:
        """What would help most, and what of that can be applied; else why nothing is ranked."""
        if self.refusal is not None:
            return f"{self.refusal[0].upper()}{self.refusal[1:]}."
        helping = self.rows.filter(metric=self.goal, verdict="helps").to_dicts()
        if not helping:
            return (
                f"No change helps: {self.goal} is {number(fmean(self.unchanged))} {self._unit}".strip() + "."
            )
        best, least = helping[0], LEAST_PART * abs(helping[0]["difference"])
        applicable = [row for row in helping if row["kind"] != "cause" and abs(row["difference"]) >= least]
        told = f"Most would help: {self._in_words(best)}"
        if best["kind"] == "cause":
            told += "; of what you can apply: " + (
                self._in_words(applicable[0]) if applicable else "nothing that was tried"
            )
        return f"{told}."

    def table(self) -> pl.DataFrame:
        """A row for each change and metric, the most helpful change first.

        Columns: ``change``, ``kind``, ``metric``, ``unit``, ``base`` and ``new`` (the means over repeats of
        the unchanged and of the changed scenario; of several flows of media, their mean), ``difference`` with
        ``difference_low`` and ``difference_high`` (95 % interval of pairs with the same seed), ``p`` (of the
        t-test of these pairs), and ``verdict``: ``helps``, ``harms``, ``no difference`` or ``not known``.
        Holm's method keeps the risk that any of the verdicts about a metric is chance at 5 %. If there is a
        :attr:`refusal`, the order means nothing.
        """
        return self.rows

    def __repr__(self) -> str:
        return self.sentence

    @property
    def _best(self) -> float:
        metric = METRICS[self.goal]
        return metric.bounds[metric.better == "higher"]

    @property
    def _unit(self) -> str:
        return METRICS[self.goal].unit

    def _shows(self, metric: str) -> bool:
        known = self.trust.filter(pl.col("metric") == metric)
        return not self.real or (not known.is_empty() and bool(known["shown"].all()))

    def _in_words(self, row: Mapping[str, Any]) -> str:
        values = f"{self.goal} {number(row['base'])} → {number(row['new'], row['base'])} {self._unit}"
        return f"{row['change']} ({row['kind']}): {values.strip()}"


@dataclass(frozen=True)
class _Subject:
    """A scenario, the real call that it stands for if there is one, and the measured time."""

    scenario: Scenario
    real: Results | None
    window: OpenWindow | None


def remedies(
    call: str | Path | Scenario | Results,
    *,
    goal: str = GOAL,
    begin: Moment | None = None,
    end: Moment | None = None,
    flows: Flows = None,
    own: str | Path | Mapping[str, Changes] | None = None,
    repeats: int = REPEATS,
    jobs: int | None = None,
    trust: bool = False,
    out: str | Path = RUNS,
) -> Remedies:
    """Simulates a call with one thing changed at a time, and says what each change does.

    Args:
        call: a scenario, its name or file, or a run, its name or path. A live run is simulated with the
            scenario that it was made with; the scenario of an import is estimated as by
            :func:`rtclab.scenario_from`.
        goal: metric by which the changes are ranked.
        begin: measure from this time on, in seconds or as text such as ``"10s"``; by default the whole call,
            or the time that results are about.
        end: measure up to this time.
        flows: flows whose mean counts, such as ``"alice->bob"``, ``"*->bob"`` or a list; by default all flows
            of media from one participant to another.
        own: changes of one's own: fields and their values, by name; or a TOML file with such tables.
        repeats: number of simulated calls of each change. The table is about changes with an effect.
        jobs: number of calls to simulate in parallel, by default one per core.
        trust: as in :func:`rtclab.run`.
        out: directory in which to look for runs by name.

    Raises:
        BadInput: there is no such scenario, run, time or metric, no scenario can be estimated from an
            import, or a change cannot be made.

    Example:
        >>> found = rtclab.remedies("first-call", goal="receiving_rate", repeats=4)
        >>> found.table().filter(change="twice the capacity", metric="receiving_rate")["verdict"].item()
        'helps'
    """
    check_names([goal])
    if not METRICS[goal].better:
        raise BadInput(
            f"goal: no value of `{goal}` is better than another", hint="for example freeze_duration"
        )
    about = _subject(call, Path(out), open_window(begin, end), trust=trust)
    about.scenario.check_trusted(live=False)
    changes = [*changes_of(about.scenario), *own_changes(about.scenario, own)]
    _check_names_differ(changes)
    metrics = list(dict.fromkeys((goal, *SHOWN)))
    counted = _media_flows(about.scenario) if flows is None else chosen_flows(flows, _carried(about.scenario))
    values = _simulated(about, changes, metrics, counted, repeats=repeats, jobs=jobs, trust=trust)
    base = values.pop(UNCHANGED, {})
    # Such as FEC where the browser's default has it: the same calls again.
    changes = [change for change in changes if values.get(change.name) != base]
    rows = _ranked(changes, metrics, base, values)
    return Remedies(
        goal=goal,
        rows=pl.DataFrame(rows, schema=SCHEMA),
        trust=_trust(about.real, metrics, counted, base),
        repeats=repeats,
        real=about.real is not None,
        unchanged=[*base.get(goal, {}).values()],
        window=about.window,
    )


SCHEMA = {
    **dict.fromkeys(("change", "kind", "metric", "unit"), pl.String()),
    **dict.fromkeys(("base", "new", "difference", "difference_low", "difference_high", "p"), pl.Float64()),
    "verdict": pl.String(),
}

Values = dict[str, dict[int, float]]
"""By metric and repeat, the mean over flows of media."""


def _subject(
    call: str | Path | Scenario | Results, out: Path, window: OpenWindow | None, *, trust: bool
) -> _Subject:
    """What the remedies of a call are tried with."""
    if isinstance(call, Scenario):
        return _Subject(call, None, window)
    if not isinstance(call, Results) and find_store(str(call), out) is None:
        if Path(call).is_file() and Path(call).suffix != ".toml":
            raise BadInput(
                f"{call}: neither a run nor a scenario; expected a run, or a TOML file",
                hint="`rtclab import FILE` makes a run of a capture or log",
            )
        return _Subject(Scenario.load(call, trust=trust), None, window)
    results = call if isinstance(call, Results) else open_results(call, out=out)
    if window is not None:
        results = results.between(*window)
    real = None if results.run.backend == SIM else results
    if results.run.backend not in (SIM, LIVE):
        return _Subject(scenario_from(results).scenario, real, results.window)
    conditions = open_store(results.path, out, trust=trust).conditions
    known = {conditions.label(number): number for number in range(len(conditions))}
    return _Subject(conditions.scenario(known[results.conditions[0]]), real, results.window)


def _simulated(
    about: _Subject,
    changes: Sequence[ChangedScenario],
    metrics: Sequence[str],
    flows: Sequence[str],
    *,
    repeats: int,
    jobs: int | None,
    trust: bool,
) -> dict[str, Values]:
    """The values of the unchanged and of all changed scenarios, by name."""
    conditions = {UNCHANGED: about.scenario} | {change.name: change.scenario for change in changes}
    begin_s, end_s = about.window or (None, None)
    with TemporaryDirectory() as directory:
        experiment = Experiment(
            conditions, repeats=repeats, metrics=metrics, begin=begin_s, end=end_s, traces=False, trust=trust
        )
        ran = experiment.run(out=directory, jobs=jobs)
        return _values(ran.metrics(metrics=metrics, flows=flows))


def _ranked(
    changes: Sequence[ChangedScenario], metrics: Sequence[str], base: Values, values: Mapping[str, Values]
) -> list[dict[str, Any]]:
    """A row for each change and metric, with verdicts; the changes are ranked by the first metric."""
    rows = [
        _row(change, metric, base, values.get(change.name, {})) for change in changes for metric in metrics
    ]
    for metric in metrics:
        of_metric = [row for row in rows if row["metric"] == metric]
        for row, significant in zip(of_metric, holm([row["p"] for row in of_metric]), strict=True):
            row |= {"verdict": _verdict(row, significant), "p": null(row["p"])}
    ranked = sorted(dict.fromkeys(change.name for change in changes), key=_by(rows, metrics[0]))
    order = {name: place for place, name in enumerate(ranked)}
    return sorted(rows, key=lambda row: order[row["change"]])


def _values(rows: pl.DataFrame) -> dict[str, Values]:
    """By condition, metric and repeat, the mean over flows."""
    known = rows.filter(pl.col("value").is_not_nan())
    means = (
        known.sort("repeat")
        .group_by("condition", "metric", "repeat", maintain_order=True)
        .agg(pl.col("value").mean())
    )
    found: dict[str, Values] = {}
    for condition, metric, repeat, value in means.iter_rows():
        found.setdefault(condition, {}).setdefault(metric, {})[repeat] = value
    return found


def _carried(scenario: Scenario) -> list[str]:
    """The flows that carry media."""
    beside = {flow.name for flow in scenario.traffic_flows()}
    return [name for name, carries in scenario_flows(scenario).items() if carries and name not in beside]


def _media_flows(scenario: Scenario) -> list[str]:
    """The flows of media from one participant to another; of a call over an MCU, its legs."""
    people, flows = scenario.participants.keys(), _carried(scenario)
    between = [name for name in flows if {*name.partition("#")[0].split("->")} <= people]
    return between or flows


def _check_names_differ(changes: Sequence[ChangedScenario]) -> None:
    """Refuses a change of the caller's with the name of another change.

    Raises:
        BadInput: two changes have the same name.
    """
    known = {UNCHANGED}
    for change in changes:
        if change.name in known:
            raise BadInput(f"own: {change.name}: there is such a change already; expected another name")
        known.add(change.name)


def _row(change: ChangedScenario, metric: str, base: Values, changed: Values) -> dict[str, Any]:
    """What a change does to a metric, without a verdict."""
    ours, theirs = base.get(metric, {}), changed.get(metric, {})
    both = [repeat for repeat in ours if repeat in theirs]
    found = paired([ours[repeat] for repeat in both], [theirs[repeat] for repeat in both])
    half = 0.0 if found.constant else found.ci95
    return {
        "change": change.name,
        "kind": change.kind,
        "metric": metric,
        "unit": METRICS[metric].unit,
        "base": null(summarise([*ours.values()]).mean),
        "new": null(summarise([*theirs.values()]).mean),
        "difference": null(found.value),
        "difference_low": null(found.value - half),
        "difference_high": null(found.value + half),
        "p": found.p,
    }


def _verdict(row: Mapping[str, Any], significant: bool | None) -> str:
    """Whether a change helps or harms; ``significant`` is None if nothing varies or too little is known."""
    difference, low, high = (row[name] for name in ("difference", "difference_low", "difference_high"))
    better = METRICS[row["metric"]].better
    if low is None:
        return "not known"
    if not difference or not better or not (low == high if significant is None else significant):
        return "no difference"
    return "helps" if (difference > 0) == (better == "higher") else "harms"


def _by(rows: Sequence[Mapping[str, Any]], goal: str) -> Callable[[str], tuple[int, float]]:
    """Ranks changes: those that help by how much, then those without difference, then those that harm."""
    of_goal = {row["change"]: row for row in rows if row["metric"] == goal}
    sign = -1 if METRICS[goal].better == "higher" else 1
    places = {"helps": 0, "no difference": 1, "not known": 2, "harms": 3}

    def key(name: str) -> tuple[int, float]:
        row = of_goal[name]
        return places[row["verdict"]], sign * (row["difference"] or 0.0)

    return key


def _trust(
    real: Results | None, metrics: Sequence[str], flows: Sequence[str], simulated: Values
) -> pl.DataFrame:
    """For each metric of a real call, whether simulated calls show it; see :attr:`Remedies.trust`."""
    schema = {
        "metric": pl.String(),
        **dict.fromkeys(("call", "low", "high"), pl.Float64()),
        "shown": pl.Boolean(),
    }
    rows = []
    if real is not None:
        called = real.without_feedback(real.metrics(metrics=metrics))
        if {*flows} <= {*called["flow"]}:
            called = called.filter(pl.col("flow").is_in(list(flows)))
        for metric in metrics:
            values = called.filter(pl.col("metric") == metric)["value"].drop_nulls().drop_nans()
            known = list(simulated.get(metric, {}).values())
            low, high = prediction_interval(known, METRICS[metric].bounds)
            if len(values) and not isnan(low):
                value = float(values.to_numpy().mean())
                shown = low - MARGIN * abs(low) <= value <= high + MARGIN * abs(high)
                rows.append((metric, value, low, high, shown))
    return pl.DataFrame(rows, schema=schema, orient="row")
