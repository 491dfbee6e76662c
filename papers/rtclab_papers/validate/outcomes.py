"""A condition on both backends: what was measured live, what was simulated, and the errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import nan
from warnings import catch_warnings, simplefilter

import numpy as np

from rtclab import Results
from rtclab.metrics import METRICS, Metric, PredictionRange, prediction_range
from rtclab_papers.validate.conditions import CallCondition

SIMULATED_REPEATS = 39
"""The smallest number of repeats between whose extremes a further one lies with 95 %."""

FIRST = (
    "receiving_rate",
    "rtt",
    "queuing_delay_p50",
    "queuing_delay_p95",
    "delay_variation_p50",
    "delay_variation_p95",
    "packet_loss",
    "unseen_loss",
    "ce_share",
    "aqm_drop_share",
    "nacks",
    "retransmission_share",
    "fec_share",
    "frame_rate",
    "frame_height",
    "freeze_count_w3c",
    "freeze_duration_w3c",
    "jitter_buffer_delay",
    "audio_concealed",
    "concealment_events",
    "audio_buffer_delay",
    "audio_target_delay",
    "setup_signalling",
    "setup_ice",
    "setup_dtls",
    "setup_first_frame",
    "setup_time",
)
"""The metrics that were compared from the beginning, in the order of the tables. Tables mark all others."""

SIDES = {"sim": "simulated calls", "live": "live calls"}
NOT_COMPARED = {
    "call_failures": "each page lists the calls that connect on one side only",
    "cpu": "simulated calls know it only of a `host`, which these conditions do not have",
}
"""Metrics that both sides know and that are not compared, with the reasons."""


def not_compared(metrics: Mapping[str, Metric] = METRICS) -> dict[str, str]:
    """The metrics that are not compared, with the reasons."""
    found = {}
    for name, metric in metrics.items():
        lacking = [words for side, words in SIDES.items() if not metric.known_by(side)]
        if lacking:
            found[name] = f"{' and '.join(lacking)} do not know it"
        elif name in NOT_COMPARED:
            found[name] = NOT_COMPARED[name]
    return found


def compared(metrics: Mapping[str, Metric] = METRICS) -> tuple[str, ...]:
    """Every metric that both simulated and live calls know, except for ``NOT_COMPARED``; ``FIRST`` first."""
    left_out = not_compared(metrics)
    known = [name for name in metrics if name not in left_out]
    earlier = [name for name in FIRST if name in known]
    return (*earlier, *(name for name in known if name not in FIRST))


COMPARED = compared()
"""The metrics that are compared."""

MEANINGFUL_ABOVE = {"retransmission_share": 1.0}
"""The live value from which on a relative error says something, in the metric's unit; otherwise zero."""

Key = tuple[str, str]
"""Metric and flow, which is empty for a metric of the whole call."""


def relative_error(metric: str, simulated: float, live: float) -> float:
    """Simulated minus live, as a share of live; NaN if live is too small for that to say something."""
    return (simulated - live) / live if live > MEANINGFUL_ABOVE.get(metric, 0.0) else nan


def errors_by_chance(metric: str, values: Sequence[float]) -> tuple[float, ...]:
    """The error of each repeat if it were the live call, without sign, against the median of the others.

    ``values`` has NaN where a repeat does not know the metric; such a repeat has no error.
    """
    array = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(array)
    if known.sum() < 2:
        return (nan,) * len(array)
    others = (np.delete(array, index) for index in range(len(array)))
    return tuple(
        abs(relative_error(metric, float(np.nanmedian(rest)), value))
        for value, rest in zip(array.tolist(), others, strict=True)
    )


@dataclass(frozen=True)
class Live:
    """The live calls of a condition.

    Attributes:
        calls: number of calls, those that failed included.
        connected: number of calls in which everybody connected.
        values: by metric and flow one value per call in which it could be measured.
        tries: how often the condition was run, because the machine disturbed the earlier tries.
        disturbed: how the machine disturbed the last try; empty if it did not.
        measured: the day on which the run was written, as ``2026-11-23`` (UTC).
        schema: number of the trace schema of that time. Metrics that are newer are missing.
    """

    calls: int
    connected: int
    values: Mapping[Key, Sequence[float]]
    tries: int = 1
    disturbed: str = ""
    measured: str = ""
    schema: int | None = None


@dataclass(frozen=True)
class Simulated:
    """The simulated repeats of a condition.

    Attributes:
        calls: number of repeats; 0 if the condition was not simulated.
        connected: number of repeats in which everybody connected.
        values: by metric and flow what the repeats predict of a further one.
        errors: by metric and flow the error of each repeat by chance (``errors_by_chance``). Files do not
            keep these.
    """

    calls: int
    connected: int
    values: Mapping[Key, PredictionRange]
    errors: Mapping[Key, Sequence[float]] = field(default_factory=dict, compare=False, repr=False)


NOT_SIMULATED = Simulated(0, 0, {})


@dataclass(frozen=True)
class ValuePair:
    """A metric of one flow in one condition: the value of a live call, and what the simulation expects."""

    condition: str
    group: str
    metric: str
    flow: str
    live: float
    expected: PredictionRange

    @property
    def error(self) -> float:
        """Simulated minus live, as a share of live; NaN if live is too small for that to say something."""
        return relative_error(self.metric, self.expected.middle, self.live)

    @property
    def covered(self) -> bool:
        """Whether the live value lies in the interval, both rounded to a millionth of the live value."""
        slack = 1e-6 * abs(self.live)
        return self.expected.low - slack <= self.live <= self.expected.high + slack


@dataclass(frozen=True)
class ConditionOutcome:
    """The results of a condition on both backends."""

    condition: CallCondition
    live: Live
    simulated: Simulated = NOT_SIMULATED

    @cached_property
    def pairs(self) -> tuple[ValuePair, ...]:
        """Everything that is compared and known on both sides."""
        about, said = (self.condition.name, self.condition.group), self.simulated.values
        return tuple(
            ValuePair(*about, *key, value, said[key])
            for key, values in self.live.values.items()
            if key[0] in COMPARED and key in said
            for value in values
        )

    @property
    def connects_on_one_side_only(self) -> bool:
        """Whether most live calls connected and most simulated ones did not, or the other way round."""
        sides = (self.live, self.simulated)
        live, simulated = (2 * side.connected > side.calls for side in sides)
        return live != simulated


LEFT_OUT_OF = 6
"""Of this many conditions of a group, one may be left out because the machine disturbed its call."""


def counted(outcomes: Sequence[ConditionOutcome]) -> list[ConditionOutcome]:
    """The conditions whose values count: without those that the machine disturbed in every try.

    The load of the machine must not choose what is compared, so if they are more than one in
    ``LEFT_OUT_OF`` of their group, all of them count.
    """
    groups: dict[str, list[ConditionOutcome]] = {}
    for one in outcomes:
        groups.setdefault(one.condition.group, []).append(one)
    disturbed = {name: sum(bool(one.live.disturbed) for one in own) for name, own in groups.items()}
    all_count = {name for name, own in groups.items() if LEFT_OUT_OF * disturbed[name] > len(own)}
    return [one for one in outcomes if not one.live.disturbed or one.condition.group in all_count]


def live_of(results: Results) -> Live:
    """The live side of a condition, with all metrics that live calls know, from the results of its calls."""
    names = {metric.name for metric in METRICS.values() if metric.scope != "run"}
    [side] = results.sides(totals_per_minute=False).values()
    connected = sum(not trace.manifest.not_connected for trace in results.traces)
    values = {key: [*of.values()] for key, of in side.values.items() if key[0] in names}
    return Live(len(side.run.repeats), connected, values)


def simulated_of(results: Results) -> dict[str, Simulated]:
    """What was simulated of each condition, by its label."""
    found = {}
    for label, side in results.sides(totals_per_minute=False).items():
        # Of a finished simulation, the note names the pairs that did not connect.
        connected = sum(one.status == "finished" and not one.note for one in side.run.repeats)
        values = {key: prediction_range([*of.values()]) for key, of in side.values.items()}
        errors = {
            key: errors_by_chance(key[0], [of.get(one.repeat, nan) for one in side.run.repeats])
            for key, of in side.values.items()
        }
        found[label] = Simulated(len(side.run.repeats), connected, values, errors)
    return found


@dataclass(frozen=True)
class ErrorByChance:
    """The median error of a group of conditions by chance alone, as a share of the live value.

    Each repeat takes the place of the live calls in turn, with the others as its simulation. That gives as
    many median errors as there are repeats.

    Attributes:
        error: the median of these.
        low: the smallest of these.
        high: the largest of these. A live error is larger by chance once in 40 times, with 39 repeats.
    """

    error: float
    low: float
    high: float


ErrorsByChance = Mapping[tuple[str, str], ErrorByChance]
"""By group of conditions and metric."""


def median_errors_by_chance(outcomes: Iterable[ConditionOutcome]) -> dict[tuple[str, str], ErrorByChance]:
    """The errors by chance in conditions that were just simulated, for the values that live calls have."""
    errors: dict[tuple[str, str], list[Sequence[float]]] = {}
    for one in outcomes:
        for pair in one.pairs:
            if (pair.metric, pair.flow) in one.simulated.errors:
                own = one.simulated.errors[pair.metric, pair.flow]
                errors.setdefault((pair.group, pair.metric), []).append(own)
    found = {}
    for key, rows in errors.items():
        repeats = min(map(len, rows))
        with catch_warnings():
            simplefilter("ignore", RuntimeWarning)  # a repeat without any error is NaN
            medians = np.nanmedian([row[:repeats] for row in rows], axis=0)
        if (known := medians[~np.isnan(medians)]).size:
            found[key] = ErrorByChance(float(np.median(known)), float(known.min()), float(known.max()))
    return found
