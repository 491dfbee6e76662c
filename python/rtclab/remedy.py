"""What would help a call: its scenario is simulated with one thing changed at a time, each compared in pairs.

A change removes a cause, which tells how much it matters, or is a remedy that somebody could apply. Nothing
is guessed: every row of the table is simulated, with the seeds of the unchanged scenario.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import polars as pl

from rtclab.errors import BadInput, RtclabError
from rtclab.experiment import Experiment, Results, check_names, find_store, open_store
from rtclab.experiment.comparison import null
from rtclab.experiment.flows import scenario_flows
from rtclab.lab import RUNS, open_results, scenario_from
from rtclab.metrics import METRICS, holm, prediction_interval, summarise
from rtclab.metrics.statistics import paired
from rtclab.scenario import Scenario
from rtclab.scenario.network import paths
from rtclab.scenario.units import Bitrate

REPEATS = 20
GOAL = "freeze_duration"
SHOWN = ("freeze_duration", "picture_delay", "receiving_rate", "audio_concealed")
"""Metrics that the table has beside the goal."""
UNCHANGED = "unchanged"
CONTROLS = ("goog-cc", "scream", "nada")
"""Congestion controls that are tried in place of the one of the scenario."""
REPAIRS = {"rtx": "retransmissions alone", "rtx-and-ulpfec": "retransmissions and FEC", "none": "no repair"}
SHORT_QUEUE = "50 ms"
LONG_SOUND = "60 ms"

Kind = Literal["cause", "remedy", "own"]
Data = dict[str, Any]


@dataclass(frozen=True)
class ChangedScenario:
    """One thing changed in a scenario.

    Attributes:
        name: what it is, in words.
        kind: ``cause`` if it removes a cause of trouble, ``remedy`` if somebody could apply it, ``own`` if it
            comes from the caller's file.
        scenario: the changed scenario.
    """

    name: str
    kind: Kind
    scenario: Scenario


@dataclass(frozen=True)
class Remedies:
    """What each change does to a call.

    Attributes:
        goal: name of the metric by which the changes are ranked.
        rows: one for each change and metric; see :meth:`table`.
        trust: for each metric of a real call, its value and the interval in which one simulated call lies.
        repeats: number of simulated calls of each change.
    """

    goal: str
    rows: pl.DataFrame
    trust: pl.DataFrame
    repeats: int

    @property
    def shows_the_goal(self) -> bool:
        """Whether the goal of the real call lies in its simulated interval; true for simulated calls."""
        known = self.trust.filter(pl.col("metric") == self.goal)
        return known.is_empty() or bool(known["inside"].all())

    def table(self) -> pl.DataFrame:
        """A row for each change and metric, the most helpful change first.

        Columns: ``change``, ``kind``, ``metric``, ``unit``, ``base`` and ``new`` (the means over repeats of
        the unchanged and of the changed scenario; of several flows of media, their mean), ``difference`` with
        ``difference_low`` and ``difference_high`` (95 % interval of pairs with the same seed), ``p`` (of the
        t-test of these pairs), and ``verdict``: ``helps``, ``harms``, ``no difference`` or ``not known``.
        Holm's method keeps the risk that any of the verdicts is chance at 5 %.
        """
        return self.rows


def remedies(
    call: str | Path | Scenario | Results,
    *,
    goal: str = GOAL,
    own: str | Path | None = None,
    repeats: int = REPEATS,
    jobs: int | None = None,
    trust: bool = False,
    out: str | Path = RUNS,
) -> Remedies:
    """Simulates a call with one thing changed at a time, and says what each change does.

    Args:
        call: a scenario, its name or file, or a run, its name or path. Of a live call or an import, the
            scenario is estimated as by :func:`rtclab.scenario_from`.
        goal: metric by which the changes are ranked.
        own: TOML file with changes of one's own: tables of fields, by name.
        repeats: number of simulated calls of each change. The table is about changes with an effect.
        jobs: number of calls to simulate in parallel, by default one per core.
        trust: as in :func:`rtclab.run`.
        out: directory in which to look for runs by name.

    Raises:
        BadInput: there is no such scenario, run or metric, or a change cannot be made.

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
    scenario, real = _scenario(call, Path(out), trust=trust)
    scenario.check_trusted(live=False)
    changes = [*changes_of(scenario), *_own(scenario, own)]
    _check_names_differ(changes, own)
    metrics = list(dict.fromkeys((goal, *SHOWN)))
    conditions = {UNCHANGED: scenario} | {change.name: change.scenario for change in changes}
    with TemporaryDirectory() as directory:
        experiment = Experiment(conditions, repeats=repeats, metrics=metrics, traces=False, trust=trust)
        ran = experiment.run(out=directory, jobs=jobs)
        values = _values(ran.metrics(metrics=metrics, flows=_media_flows(scenario)))
    base = values.pop(UNCHANGED, {})
    # Such as FEC where the browser's default has it: the same calls again.
    changes = [change for change in changes if values.get(change.name) != base]
    rows = [
        _row(change, metric, base, values.get(change.name, {})) for change in changes for metric in metrics
    ]
    for row, significant in zip(rows, holm([row["p"] for row in rows]), strict=True):
        row |= {"verdict": _verdict(row, significant), "p": null(row["p"])}
    ranked = sorted(dict.fromkeys(change.name for change in changes), key=_by(rows, goal))
    order = {name: place for place, name in enumerate(ranked)}
    rows.sort(key=lambda row: order[row["change"]])
    return Remedies(goal, pl.DataFrame(rows, schema=SCHEMA), _trust(real, metrics, base), repeats)


SCHEMA = {
    **dict.fromkeys(("change", "kind", "metric", "unit"), pl.String()),
    **dict.fromkeys(("base", "new", "difference", "difference_low", "difference_high", "p"), pl.Float64()),
    "verdict": pl.String(),
}

Values = dict[str, dict[int, float]]
"""By metric and repeat, the mean over flows of media."""


def _scenario(
    call: str | Path | Scenario | Results, out: Path, *, trust: bool
) -> tuple[Scenario, Results | None]:
    """The scenario of a call, and the call itself if it was a real one."""
    if isinstance(call, Scenario):
        return call, None
    if isinstance(call, Results) or find_store(str(call), out) is not None:
        results = call if isinstance(call, Results) else open_results(call, out=out)
        if results.run.backend == "sim":
            conditions = open_store(results.path, out, trust=trust).conditions
            known = {conditions.label(number): number for number in range(len(conditions))}
            return conditions.scenario(known[results.conditions[0]]), None
        return scenario_from(results).scenario, results
    return Scenario.load(call, trust=trust), None


def changes_of(scenario: Scenario) -> list[ChangedScenario]:
    """The changes that make sense for a scenario: those that change something, and that it allows."""
    makers: list[tuple[str, Kind, Callable[[Data], object]]] = [
        ("no loss", "cause", _on_paths(scenario, _without_loss)),
        ("no cross traffic", "cause", lambda data: data.__setitem__("traffic", {})),
        (f"queues of {SHORT_QUEUE}", "cause", _on_paths(scenario, _with_short_queue)),
        ("twice the capacity", "cause", _on_paths(scenario, _with_twice_the_capacity)),
        ("processors without a limit", "cause", _everybody(lambda own: own.pop("host", None))),
        ("FQ-CoDel at every queue", "remedy", _on_paths(scenario, _with_fq_codel)),
        ("half the maximum bitrate", "remedy", _everybody(_with_half_the_maximum)),
        ("no video", "remedy", _everybody(lambda own: own.__setitem__("video", False))),
        (f"packets of sound of {LONG_SOUND}", "remedy", _everybody(_with_long_sound)),
        *((f"control {name}", "remedy", _everybody(_with_control(name))) for name in CONTROLS),
        *((words, "remedy", _everybody(_with_repair(name))) for name, words in REPAIRS.items()),
    ]
    unchanged = scenario.native(seed=0)
    found = []
    for name, kind, change in makers:
        data = scenario.model_dump(mode="json", exclude_none=True)
        change(data)
        try:
            changed = Scenario.read(data, name, scenario.read_from)
        except RtclabError:
            continue  # such as no video in a call without sound
        if changed.native(seed=0) != unchanged:
            found.append(ChangedScenario(name, kind, changed))
    return found


def _on_paths(scenario: Scenario, change: Callable[[Data], None]) -> Callable[[Data], None]:
    """Applies a change to every path of a scenario's data."""

    def apply(data: Data) -> None:
        for name in paths(scenario):
            node, _, way = name.rpartition(".")
            for table in ("participants", "servers"):
                if node in data.get(table, {}):
                    own = data[table][node]
                    own.setdefault("link", scenario.link_of(node).model_dump(mode="json", exclude_none=True))
                    change(own["link"][way])
            if name in data.get("bottlenecks", {}):
                change(data["bottlenecks"][name])

    return apply


def _everybody(change: Callable[[Data], object]) -> Callable[[Data], None]:
    """Applies a change to the scenario's own tables and to those of every participant that has some."""

    def apply(data: Data) -> None:
        change(data)
        for own in data["participants"].values():
            own_tables = {"host", "video", "audio", "congestion_control"} & own.keys()
            if own_tables:
                change(own)

    return apply


def _without_loss(path: Data) -> None:
    if "loss" in path:
        path["loss"] = "none"


def _with_short_queue(path: Data) -> None:
    if "capacity" in path and "queue" in path:
        path["queue"] = SHORT_QUEUE


def _with_fq_codel(path: Data) -> None:
    if "capacity" in path and "queue" in path:
        path["queue"] = {"aqm": "fq_codel"}


def _with_twice_the_capacity(path: Data) -> None:
    match path.get("capacity"):
        case str() as rate:
            path["capacity"] = _twice(rate)
        case {"steps": steps}:
            path["capacity"] = {"steps": [[at, _twice(rate)] for at, rate in steps]}


def _twice(rate: str) -> str:
    return f"{2 * Bitrate.parse(rate).bps} bit/s"


def _with_half_the_maximum(own: Data) -> None:
    video = own.get("video")
    if isinstance(video, dict) and "max_bitrate" in video:
        half = Bitrate.parse(video["max_bitrate"]).bps // 2
        video["max_bitrate"] = f"{half} bit/s"
        for name in ("start_bitrate", "min_bitrate"):
            if name in video:
                video[name] = f"{min(Bitrate.parse(video[name]).bps, half)} bit/s"


def _with_long_sound(own: Data) -> None:
    if isinstance(own.get("audio"), dict):
        own["audio"]["frame"] = LONG_SOUND


def _with_control(name: str) -> Callable[[Data], None]:
    def apply(own: Data) -> None:
        if own.get("congestion_control", {}).get("name", name) != name:
            own["congestion_control"] = {"name": name}

    return apply


def _with_repair(name: str) -> Callable[[Data], None]:
    def apply(own: Data) -> None:
        if isinstance(own.get("video"), dict):
            own["video"]["repair"] = name

    return apply


def _own(scenario: Scenario, file: str | Path | None) -> Iterable[ChangedScenario]:
    """The changes of a TOML file: tables of fields, by name.

    Raises:
        BadInput: the file cannot be read, is not TOML, or a change cannot be made.
    """
    if file is None:
        return
    try:
        tables = tomllib.loads(Path(file).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(
            f"{file}: cannot be read: {getattr(error, 'strerror', None) or 'not a text file'}"
        ) from None
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{file}: not TOML: {error}") from None
    for name, fields in tables.items():
        if not isinstance(fields, Mapping):
            raise BadInput(
                f"{file}: {name}: expected a table of fields",
                hint='for example ["a short queue"] and below it "link.up.queue" = "50 ms"',
            )
        try:
            yield ChangedScenario(name, "own", Scenario.load(scenario, dict(fields)))
        except RtclabError as error:
            raise BadInput(f"{file}: {name}: {error.message}", hint=error.hint) from None


def _values(rows: pl.DataFrame) -> dict[str, Values]:
    """By condition, metric and repeat, the mean over flows."""
    means = rows.group_by("condition", "metric", "repeat").agg(pl.col("value").mean())
    found: dict[str, Values] = {}
    for condition, metric, repeat, value in means.iter_rows():
        found.setdefault(condition, {}).setdefault(metric, {})[repeat] = value
    return found


def _media_flows(scenario: Scenario) -> list[str]:
    """The flows of media from one participant to another; of a call over an MCU, its legs."""
    people = scenario.participants.keys()
    beside = {flow.name for flow in scenario.traffic_flows()}
    flows = [name for name, carries in scenario_flows(scenario).items() if carries and name not in beside]
    between = [name for name in flows if {*name.partition("#")[0].split("->")} <= people]
    return between or flows


def _check_names_differ(changes: Sequence[ChangedScenario], own: str | Path | None) -> None:
    """Refuses a change of the caller's with the name of another change.

    Raises:
        BadInput: two changes have the same name.
    """
    known = {UNCHANGED}
    for change in changes:
        if change.name in known:
            raise BadInput(f"{own}: {change.name}: there is such a change already; expected another name")
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


def _trust(real: Results | None, metrics: Sequence[str], simulated: Values) -> pl.DataFrame:
    """For each metric of a real call, whether it lies in the interval of one simulated call."""
    schema = {
        "metric": pl.String(),
        **dict.fromkeys(("call", "low", "high"), pl.Float64()),
        "inside": pl.Boolean(),
    }
    rows = []
    if real is not None:
        called = real.metrics(metrics=metrics)
        for metric in metrics:
            values = called.filter(pl.col("metric") == metric)["value"]
            known = list(simulated.get(metric, {}).values())
            low, high = prediction_interval(known, METRICS[metric].bounds)
            if len(values) and not isnan(low):
                value = float(values.to_numpy().mean())
                rows.append((metric, value, low, high, low <= value <= high))
    return pl.DataFrame(rows, schema=schema, orient="row")
