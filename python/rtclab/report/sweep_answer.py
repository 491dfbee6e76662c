"""What the page of a sweep answers first: how its metrics go along each field, and their extremes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from rtclab.experiment.fields import Field
from rtclab.metrics import METRICS
from rtclab.phrases import names_in_words
from rtclab.report.answer import Answer, Figure, NextStep
from rtclab.report.field_names import field_in_words, in_order, short_values
from rtclab.report.quality import SCALES
from rtclab.report.sweep_values import (
    DELAYS,
    FREEZES,
    LIMITS,
    LOSS,
    RATE,
    Interval,
    amount,
    best,
    interval,
    worst,
)
from rtclab.report.words import flow_in_words

MOST_NAMED = 4
"""Maximum number of values or reasons that a sentence names."""
MORE = 5.0
"""A cost in percent is named as the largest one if it is this much above the average."""
LEAST_LOST = 0.5
"""Changes of the packet loss that end below this percentage are not mentioned."""
REPEATS = 5
"""Number of repeats that are recommended where there is one."""
CONDITION = "condition"
"""The field of conditions that have no varied fields."""
THINGS = {
    RATE: "the rate",
    FREEZES: "the time that video is frozen",
    "picture_delay": "the delay of pictures",
    "sound_delay": "the delay of sound",
    "queuing_delay_p95": "the 95th percentile of the queuing delay",
    LOSS: "packet loss",
}
"""The metrics that decide, as subjects of a sentence."""
TOOK = {"picture_delay": "pictures take", "sound_delay": "sound takes"}

Key = TypeVar("Key")
Values = Mapping[str, Interval]
"""The worst flow's estimate by the value of a field, as it was written."""


@dataclass(frozen=True)
class Facts:
    """What the answer is made of.

    Attributes:
        fields: the varied fields with more than one value, or the only field.
        along: by field and metric, the estimates at each value, averaged over all other fields.
        points: by metric, the estimates at each condition, whose key has the values of all fields.
        seconds: the measured time of a repeat in s; None if it differs between conditions.
        failed: the number of repeats that failed.
        planned: the number of all planned repeats.
        empty: the conditions without any value, by their label.
        flows: the number of flows, whose worst one counts.
        example: the command that simulates an example, by the values of the condition.
        path: the directory of the sweep, for commands; empty if no field is varied.
    """

    fields: Sequence[Field]
    along: Mapping[str, Mapping[str, Values]]
    points: Mapping[str, Mapping[tuple[str, ...], Interval]]
    seconds: float | None = None
    failed: int = 0
    planned: int = 0
    empty: Sequence[str] = ()
    flows: int = 1
    example: Mapping[tuple[str, ...], str] = field(default_factory=dict)
    path: str = ""

    def effect(self, one: Field) -> tuple[float, ...]:
        """How much each metric changes along a field, relative to its largest value; 0 within intervals."""
        of_field = self.along[one.name]
        return tuple(_effect(name, of_field.get(name, {})) for name in self.points)


def answer(found: Facts) -> Answer:
    """The first screen: the sentences, the figures that decide, and the commands."""
    return Answer(verdict(found), steps=_steps(found), figures=_figures(found))


def verdict(found: Facts) -> str:
    """The sentences: along each field, what differs by more than the intervals; then what is missing."""
    conditions = {key for of_metric in found.points.values() for key in of_metric}
    if not conditions:
        return "No repeat finished, so there are no results."
    if len(conditions) == 1:
        return " ".join([_one_condition(found, next(iter(conditions))), *_missing(found)])
    if _are_single(found):
        return " ".join([_single_repeats(found), *_missing(found)])
    fields = sorted((one for one in found.fields if one.count > 1), key=found.effect, reverse=True)
    clauses = [_along(found, fields[0]), *(_beside(found, one, fields) for one in fields[1:])]
    same = [field_in_words(one.name) for one, text in zip(fields, clauses, strict=True) if not text]
    sentences = [text for text in clauses if text]
    if same == [CONDITION]:
        sentences.append("The conditions do not differ beyond the 95 % intervals")
    elif same:
        none = f"Different values of the {names_in_words(same, MOST_NAMED)}"
        sentences.append(f"{none} make no difference beyond the 95 % intervals")
    return " ".join([*(f"{text[0].upper()}{text[1:]}." for text in sentences), *_missing(found)])


def _missing(found: Facts) -> list[str]:
    """Sentences on the repeats that failed and on conditions without values."""
    parts = []
    if found.failed:
        parts.append(f"{found.failed} of {found.planned} repeats failed.")
    if found.empty:
        parts.append(f"Nothing was measured at {names_in_words(found.empty, MOST_NAMED)}.")
    return parts


def _one_condition(found: Facts, key: tuple[str, ...]) -> str:
    """What the only condition with values has."""
    parts = [
        f"{THINGS.get(name, METRICS[name].label)} is {_amount(name, of_metric[key])}"
        for name, of_metric in found.points.items()
        if key in of_metric
    ]
    which = "The only condition with results" if found.empty else "The only condition"
    return f"{which}, {_place(found.fields, key)}: {'; '.join(parts)}."


def _single_repeats(found: Facts) -> str:
    """The extremes of the first metric, without any claim, because nothing says what is chance."""
    name, of_metric = next((name, of) for name, of in found.points.items() if of)
    low, high = (_key_of(of_metric, choose(METRICS[name], of_metric.values())) for choose in (worst, best))
    thing = THINGS.get(name, METRICS[name].label)
    ends = (f"{_amount(name, of_metric[key])} ({_place(found.fields, key)})" for key in (low, high))
    span = f"From condition to condition {thing} goes from {' to '.join(ends)}."
    return f"{span} With one repeat of each, nothing says what is chance."


def _along(found: Facts, one: Field) -> str:
    """How the metrics go along the field that changes most; empty if nothing differs."""
    of_field = found.along[one.name]
    texts, shown = in_order(one), short_values(one)
    if not one.numbers:
        return _beside(found, one, [one])
    if _gets_better(of_field, texts):
        texts = texts[::-1]
    rates = _ends(of_field, RATE, texts)
    parts = []
    if rates and rates[0].apart(rates[1]):
        falls = "falls" if rates[1].mean < rates[0].mean else "rises"
        mean = "mean " if len(found.fields) > 1 else ""
        parts.append(f"the {mean}rate {falls} from {_amount(RATE, rates[0])} to {_amount(RATE, rates[1])}")
    parts += filter(None, [_freezes(of_field, texts, shown), _delays(of_field, texts, shown)])
    if not _is_loss(one):
        parts += filter(None, [_lost(of_field, texts)])
    if not parts:
        others = (_changes(name, of_field, texts) for name in of_field if name not in THINGS)
        parts = [text for text in others if text][:2]
    span = f"from {shown[texts[0]]} to {shown[texts[-1]]} ({field_in_words(one.name)})"
    return f"{span} {'; '.join(parts)}" if parts else ""


def _beside(found: Facts, one: Field, fields: Sequence[Field]) -> str:
    """What the worst value of a field costs, compared with the best one; empty if nothing differs."""
    of_field, shown = found.along[one.name], short_values(one)
    for name in (RATE, FREEZES, *DELAYS, LOSS, *of_field):
        values = of_field.get(name, {})
        if not values or (name == LOSS and _is_loss(one)):
            continue
        metric = METRICS[name]
        good, bad = (_key_of(values, choose(metric, values.values())) for choose in (best, worst))
        if not values[good].apart(values[bad]):
            continue
        instead = f"with {shown[bad]} instead of {shown[good]} ({field_in_words(one.name)})"
        if name == RATE:
            cost = _cost(values[good], values[bad])
            most = _most(found, one, fields, (good, bad), cost)
            texts = in_order(one) if one.numbers else []
            begin = _from(
                of_field.get(FREEZES, {}), texts[::-1] if _gets_better(of_field, texts) else texts, 0.0
            )
            freezes = f"; freezes begin at {shown[begin]}" if begin else ""
            return f"{instead} the rate is {cost:.0f} % lower{most}{freezes}"
        thing = THINGS.get(name, metric.label)
        verb = "rises" if values[bad].mean > values[good].mean else "falls"
        return f"{instead} {thing} {verb} from {_amount(name, values[good])} to {_amount(name, values[bad])}"
    return ""


def _most(found: Facts, one: Field, fields: Sequence[Field], ends: tuple[str, str], average: float) -> str:
    """Where the cost in rate is largest along the other field of two, if it is above the average."""
    others = [other for other in fields if other != one]
    if len(found.fields) != 2 or len(others) != 1:
        return ""
    other, places = others[0], [one.name for one in found.fields]
    costs = {}
    for text in other.texts:
        keys = [tuple({one.name: end, other.name: text}[place] for place in places) for end in ends]
        values = [found.points[RATE].get(key) for key in keys]
        if values[0] and values[1] and values[0].apart(values[1]):
            costs[text] = _cost(values[0], values[1])
    most = max(costs, key=costs.__getitem__, default="")
    if not most or costs[most] < average + MORE:
        return ""
    return f", most at {short_values(other)[most]} ({costs[most]:.0f} %)"


def _cost(good: Interval, bad: Interval) -> float:
    """By how many percent a value is lower than the better one."""
    return 100 * (1 - bad.mean / good.mean) if good.mean else 0.0


def _freezes(of_field: Mapping[str, Values], texts: Sequence[str], shown: Mapping[str, str]) -> str:
    """From which value on video freezes, or how much longer it does; ``texts`` are from good to bad."""
    values = of_field.get(FREEZES, {})
    if begin := _from(values, texts, 0.0):
        return f"freezes begin at {shown[begin]}"
    return _changes(FREEZES, of_field, texts)


def _delays(of_field: Mapping[str, Values], texts: Sequence[str], shown: Mapping[str, str]) -> str:
    """From which value on pictures or sound surely take longer than a limit, or how their delay changes."""
    for name in TOOK:
        for limit in reversed(LIMITS[name]):
            if begin := _from(of_field.get(name, {}), texts, limit.value):
                return f"{TOOK[name]} over {limit.words} from {shown[begin]} on"
    return next((text for name in DELAYS if (text := _changes(name, of_field, texts))), "")


def _lost(of_field: Mapping[str, Values], texts: Sequence[str]) -> str:
    ends = _ends(of_field, LOSS, texts)
    return _changes(LOSS, of_field, texts) if ends and ends[1].mean >= LEAST_LOST else ""


def _changes(name: str, of_field: Mapping[str, Values], texts: Sequence[str]) -> str:
    """How a metric goes from the first to the last value; empty if the intervals overlap."""
    ends = _ends(of_field, name, texts)
    if not ends or not ends[0].apart(ends[1]):
        return ""
    verb = "rises" if ends[1].mean > ends[0].mean else "falls"
    thing = THINGS.get(name, METRICS[name].label)
    return f"{thing} {verb} from {_amount(name, ends[0])} to {_amount(name, ends[1])}"


def _from(values: Values, texts: Sequence[str], limit: float) -> str:
    """The value from which on all intervals are above a limit, and before which no mean is; or empty."""
    known = [values[text] for text in texts if text in values]
    begin = next((place for place, one in enumerate(known) if one.mean > limit), 0)
    if not begin or not all(one.low > limit for one in known[begin:]):
        return ""
    return [text for text in texts if text in values][begin]


def _ends(of_field: Mapping[str, Values], name: str, texts: Sequence[str]) -> tuple[Interval, ...]:
    """The estimates of a metric at the first and the last value that have one; empty if there are fewer."""
    known = [of_field.get(name, {})[text] for text in texts if text in of_field.get(name, {})]
    return (known[0], known[-1]) if len(known) > 1 else ()


def _gets_better(of_field: Mapping[str, Values], texts: Sequence[str]) -> bool:
    """Whether the first metric whose ends differ is better at the last value."""
    for name in of_field:
        ends = _ends(of_field, name, texts)
        if ends and ends[0].apart(ends[1]):
            return best(METRICS[name], ends) is ends[1]
    return False


def _effect(name: str, values: Values) -> float:
    """How much a metric changes, relative to its largest value; 0 if the intervals of its ends overlap."""
    if not values:
        return 0.0
    good, bad = (choose(METRICS[name], values.values()) for choose in (best, worst))
    largest = max(abs(one.mean) for one in values.values())
    return abs(good.mean - bad.mean) / largest if largest and good.apart(bad) else 0.0


def _is_loss(one: Field) -> bool:
    return one.name.endswith("loss")


def _amount(name: str, found: Interval) -> str:
    return amount(found.mean, METRICS[name].unit)


def _key_of(values: Mapping[Key, Interval], wanted: Interval) -> Key:
    return next(key for key, one in values.items() if one is wanted)


def _place(fields: Sequence[Field], key: Sequence[str]) -> str:
    """The values of a condition in words: ``2 Mbit/s, 10 %``."""
    return ", ".join(short_values(one)[text] for one, text in zip(fields, key, strict=True))


def _figures(found: Facts) -> list[Figure]:
    """The best and the worst rate, the longest freezes and delays, and how many conditions have freezes."""
    figures = []
    several = len({key for of in found.points.values() for key in of}) > 1
    for name, of_metric in found.points.items():
        if not of_metric:
            continue
        metric = METRICS[name]
        ends = (best, worst) if name == next(iter(found.points)) and several else (worst,)
        for choose in ends:
            one = choose(metric, of_metric.values())
            figures.append(_figure(found, name, one, _key_of(of_metric, one), several=several, choose=choose))
    return figures[:5]


def _figure(
    found: Facts, name: str, one: Interval, key: tuple[str, ...], *, several: bool, choose: object
) -> Figure:
    """The extreme value of a metric, and where it is."""
    metric = METRICS[name]
    value, _, unit = _amount(name, one).partition(" ")
    which = ("best" if choose is best else "worst") if several else ""
    label = f"{metric.label}, {which}" if which else metric.label
    if name == FREEZES and found.seconds is not None:
        unit = f"s of {found.seconds:g} s"
    if several and choose is worst and not one.mean and metric.better == "lower":
        return Figure(label, value, unit, about="in every condition")
    of_flow = flow_in_words(one.flow) if found.flows > 1 else ""
    where = _place(found.fields, key) if several else ""
    mark, source = (SCALES[name].mark(one.mean), SCALES[name].source) if name in SCALES else ("", "")
    return Figure(
        label,
        value,
        unit,
        interval(one, metric.unit),
        ", ".join(filter(None, [where, of_flow])),
        mark,
        source,
    )


def _steps(found: Facts) -> list[NextStep]:
    """The commands that show the worst condition over time, and which differences are more than chance."""
    steps = []
    conditions = {key for of in found.points.values() for key in of}
    key = worst_condition(found)
    if key in found.example:
        which = "worst condition" if len(conditions) > 1 else "condition"
        place = _place(found.fields, key)
        steps.append(NextStep(f"see the {which} ({place}) over time, simulated:", found.example[key]))
    if not found.path or not conditions:
        return steps
    if _are_single(found):
        more = f"rtclab sweep --resume {found.path} --repeats {REPEATS}"
        return [*steps, NextStep("add repeats, so that differences can be told from chance:", more)]
    if len(conditions) > 1:
        one = max((one for one in found.fields if one.count > 1), key=found.effect)
        what = f"see which differences along the {field_in_words(one.name)} are more than chance:"
        steps.append(NextStep(what, f"rtclab compare {found.path} --by {one.name}"))
    return steps


def _are_single(found: Facts) -> bool:
    """Whether no value is of more than one repeat."""
    return all(one.repeats < 2 for of in found.points.values() for one in of.values())


def worst_condition(found: Facts) -> tuple[str, ...]:
    """The condition with the largest sum of distances from the best value, each relative to its range."""
    scores: dict[tuple[str, ...], float] = {}
    for name, of_metric in found.points.items():
        means = [one.mean for one in of_metric.values()]
        if not means or not METRICS[name].better:
            continue
        ideal, span = best(METRICS[name], of_metric.values()).mean, max(means) - min(means)
        for key, one in of_metric.items():
            scores[key] = scores.get(key, 0.0) + (abs(one.mean - ideal) / span if span else 0.0)
    return max(scores, key=scores.__getitem__, default=())
