"""Limits of metrics, such as ``rtt_p95 of alice->bob < 150 ms``: how they are written and when they hold."""

from __future__ import annotations

import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Self

from rtclab.errors import BadInput, FieldError
from rtclab.experiment.flows import matching
from rtclab.gates.checks import Check
from rtclab.metrics import METRICS, Metric
from rtclab.metrics.registry import EARLIER
from rtclab.metrics.statistics import summarise
from rtclab.scenario import Scenario
from rtclab.scenario.table import closest, one_of
from rtclab.scenario.units import Bitrate, Duration, Quantity, Size

Values = Mapping[str, Sequence[float | None]]
"""The values of a metric by flow, one per repeat; null where nothing was measured."""

COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
QUANTITIES: tuple[type[Quantity], ...] = (Duration, Bitrate, Size)
"""The quantities that may be written in several units. Other metrics have one unit."""

# A flow's name contains `>`, so the operator is the last one in the text.
_LIMIT = re.compile(r"\s*(\w+)(?:\s+of\s+(\S|\S.*\S))?\s*(<=|>=|<|>)\s*([^<>=\s][^<>=]*?)\s*")
_NUMBER = re.compile(r"(-?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+))\s*(.*)")


@dataclass(frozen=True)
class Limit:
    """A limit of one metric.

    ``flow`` is the name of a flow, in which ``*`` stands for any text, such as ``*->erin``; None if the limit
    is for every flow. ``bound`` is in the unit of the metric. ``text`` is the limit as the user wrote it,
    with single spaces.
    """

    metric: str
    flow: str | None
    operator: str
    bound: float
    text: str = field(compare=False)

    @classmethod
    def parse(cls, text: object) -> Self:
        """Parses ``METRIC [of FLOW] OP NUMBER UNIT``, where OP is one of <, <=, > and >=.

        Raises:
            FieldError: the text has another form, or its metric or unit is unknown.
        """
        match = _LIMIT.fullmatch(text) if isinstance(text, str) else None
        if match is None:
            raise FieldError(
                f"cannot read `{text}` as a limit; expected METRIC [of FLOW] OP NUMBER UNIT, "
                "where OP is <, <=, > or >=",
                hint="for example `rtt_p95 < 150 ms` or `frame_rate of alice->bob >= 25 frame/s`",
            )
        name, flow, compared, quantity = match.groups()
        metric = metric_named(name)
        if flow is not None and metric.scope != "flow":
            raise FieldError(
                f"`{name}` has one value for the whole call, and none for `{flow}`",
                hint=f"leave out `of {flow}`",
            )
        bound = value_in_unit(quantity, metric)
        return cls(name, flow, compared, bound, " ".join(str(text).split()))

    def __str__(self) -> str:
        return self.text

    def check_flow(self, scenario: Scenario) -> None:
        """Checks that the scenario has the limit's flow.

        Raises:
            FieldError: there is no such flow.
        """
        flows = [flow.name for flow in (*scenario.flows(), *scenario.traffic_flows())]
        if self.flow is not None and not matching(self.flow, flows):
            known = one_of([f"`{name}`" for name in flows])
            raise FieldError(
                f"no flow `{self.flow}` in {scenario.name}; expected {known}",
                hint=closest(self.flow, flows),
            )

    def holds(self, value: float) -> bool:
        """Whether a value is within the limit."""
        return bool(COMPARE[self.operator](value, self.bound))

    def checks(self, scenario: str, values: Values) -> list[Check]:
        """The outcome for each flow: the mean over the repeats with a value must be within the limit.

        Without a flow of its own, the limit is for every flow that has a value in any repeat. If nothing was
        measured, there is one outcome, ``not measured``.
        """
        chosen = {flow: values[flow] for flow in matching(self.flow or "*", values)}
        known = {flow: [one for one in of if one is not None] for flow, of in chosen.items()}
        known = {flow: of for flow, of in known.items() if of}
        if not known:
            return [Check(scenario, self.text, self.metric, self.flow or "", "not measured", self.bound)]
        return [self._check(scenario, flow, of) for flow, of in known.items()]

    def _check(self, scenario: str, flow: str, values: Sequence[float]) -> Check:
        mean = summarise(values).mean
        return Check(
            scenario,
            self.text,
            self.metric,
            flow,
            "holds" if self.holds(mean) else "broken",
            self.bound,
            mean,
            broken=sum(not self.holds(value) for value in values),
            repeats=len(values),
        )


def parse_options(texts: Sequence[str], option: str, scenario: Scenario | None) -> list[Limit]:
    """The limits given with an option, for a scenario if it is known.

    Raises:
        BadInput: a limit cannot be read, or its metric, unit or flow is unknown.
    """
    limits = []
    for text in texts:
        try:
            limit = Limit.parse(text)
            if scenario is not None:
                limit.check_flow(scenario)
        except FieldError as error:
            raise BadInput(f"{option}: {error.message}", hint=error.hint) from None
        limits.append(limit)
    return limits


def metric_named(name: str) -> Metric:
    """The metric of this name.

    Raises:
        FieldError: there is no such metric.
    """
    if name not in METRICS:
        hint = EARLIER.get(name) or closest(name, METRICS) or "`rtclab metrics` lists them"
        raise FieldError(f"no metric `{name}`", hint=hint)
    return METRICS[name]


def value_in_unit(text: object, metric: Metric) -> float:
    """The value of a text such as ``0.15 s`` in the unit of the metric.

    Raises:
        FieldError: the text is not a number with a unit of the metric.
    """
    match = _NUMBER.fullmatch(text.strip()) if isinstance(text, str) else None
    if match is None:
        wanted = f"a number in {metric.unit}" if metric.unit else "a number"
        raise FieldError(f"cannot read `{text}` as a value of `{metric.name}`; expected {wanted}")
    number, unit = match.groups()
    quantity = next((one for one in QUANTITIES if metric.unit in one.units), None)
    known = [metric.unit] if quantity is None else [*quantity.units]
    if unit not in known:
        raise FieldError(_wrong_unit(number, unit, known, metric), hint=_right_unit(number, unit, metric))
    if quantity is None:
        return float(number)
    return float(Decimal(number) * quantity.units[unit] / quantity.units[metric.unit])


def _wrong_unit(number: str, unit: str, known: list[str], metric: Metric) -> str:
    if not metric.unit:
        return f"`{metric.name}` has no unit; got `{number} {unit}`"
    if not unit:
        return f"no unit in `{number}`, a value of `{metric.name}`; expected {one_of(known)}"
    return f"unknown unit `{unit}` of `{metric.name}`; expected {one_of(known)}"


def _right_unit(number: str, unit: str, metric: Metric) -> str:
    quantity = next((one for one in QUANTITIES if metric.unit in one.units), None)
    meant = None if quantity is None else quantity.spellings.get(unit.lower())
    if quantity is not None and not unit:
        likely = quantity.likely_units(Decimal(number))
        meant = metric.unit if metric.unit in likely else likely[0]
    return f"write `{number} {meant or metric.unit}`" if metric.unit else f"write `{number}`"
