"""The values measured in all repeats, for cells, trends and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from typing import Protocol

import numpy as np

from rtclab.metrics import Summary, summarise
from rtclab.trace import Trace
from rtclab_papers.reproduce.estimate import Statistic
from rtclab_papers.reproduce.measures import MEDIA, Value, Values, none_if_nan

EVERY_FLOW = "*->*"
"""Pattern that matches all flows."""


@dataclass(frozen=True)
class Measured:
    """A metric of a scenario.

    ``summary`` is over repeats, so ``summary.sd`` is the standard deviation between repeats. ``within_sd`` is
    the mean of the standard deviations within repeats, which the papers print after "±".
    """

    summary: Summary
    within_sd: float

    @property
    def mean(self) -> float:
        """Mean over the repeats; NaN if there are none."""
        return self.summary.mean


class Finished(Protocol):
    """Finished repeats of a scenario, wherever they are kept."""

    def read(self) -> dict[int, Values]:
        """The values of each repeat by number."""

    def processor_s(self) -> float:
        """Processor time in s that they took; NaN if it is not known."""

    def traces(self, repeats: int) -> list[Trace]:
        """The full traces of the first repeats that were kept."""


@dataclass(frozen=True)
class Results:
    """The finished repeats of every scenario.

    ``repeats`` is the number of repeats of each scenario to use. An earlier run may have left more.
    """

    stores: Mapping[str, Finished]
    repeats: Mapping[str, int]

    @cached_property
    def _values(self) -> dict[str, dict[int, Values]]:
        return {
            name: {repeat: values for repeat, values in store.read().items() if repeat < self.repeats[name]}
            for name, store in self.stores.items()
        }

    def repeats_of(self, scenario: str) -> int:
        """Number of finished repeats of a scenario."""
        return len(self._values.get(scenario, {}))

    def processor_s(self, scenarios: Iterable[str]) -> float:
        """Processor time in s that all repeats of scenarios took; NaN if it is not known of one of them."""
        return sum(self.stores[name].processor_s() for name in scenarios)

    def measured(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> Measured:
        """A metric over all repeats; flows that match the pattern ``flows`` have equal weights."""
        per_repeat = self.per_repeat(scenario, metric, flows)
        means = [nan if value is None else value for value, _ in per_repeat]
        return Measured(summarise(means), mean_of_known(sd for _, sd in per_repeat))

    def mean(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> float:
        """Mean of a metric over flows and repeats; NaN if nothing was measured."""
        return self.measured(scenario, metric, flows).mean

    def statistic(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> Statistic:
        """Mean of a metric over flows and repeats, with its values without each repeat."""
        return Statistic.mean(
            [nan if value is None else value for value, _ in self.per_repeat(scenario, metric, flows)]
        )

    def per_repeat(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> list[Value]:
        """Mean value and mean standard deviation of the flows that match the pattern, for each repeat."""
        return list(self.numbered(scenario, metric, flows).values())

    def numbered(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> dict[int, Value]:
        """As ``per_repeat``, by number of the repeat."""
        repeats = self._values.get(scenario, {})
        return {repeat: _selected(values, metric, flows) for repeat, values in repeats.items()}

    def calls(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> list[float]:
        """The values that :meth:`measured` averages: of each matching flow in each repeat."""
        repeats = self._values.get(scenario, {}).values()
        chosen = [value for values in repeats for value, _ in _chosen(values, metric, flows)]
        return [value for value in chosen if value is not None]

    def flows(self, scenario: str, patterns: Iterable[str]) -> list[str]:
        """The flows of a scenario that match one of the patterns; empty if nothing was measured."""
        values = self._values.get(scenario)
        flows = next(iter(values.values()))[MEDIA] if values else ()
        return [flow for flow in flows if any(fnmatchcase(flow, pattern) for pattern in patterns)]

    def traces(self, scenario: str, repeats: int = 1) -> list[Trace]:
        """Full traces of the first repeats, for figures; fewer or none if repeats failed."""
        store = self.stores.get(scenario)
        return store.traces(min(repeats, self.repeats[scenario])) if store else []


def _selected(values: Values, metric: str, flows: str) -> Value:
    """The value of the flow named ``flows``, or else the mean over the media flows that match it."""
    chosen = _chosen(values, metric, flows)
    if flows in values.get(metric, {}):
        return chosen[0]
    mean, sd = (mean_of_known(of) for of in zip(*chosen, strict=True)) if chosen else (nan, nan)
    return none_if_nan(mean), none_if_nan(sd)


def _chosen(values: Values, metric: str, flows: str) -> list[Value]:
    """The value of the flow named ``flows``, or else the values of the media flows that match it."""
    of_flows = values.get(metric, {})
    if flows in of_flows:
        return [of_flows[flows]]
    media = [flow for flow, (is_media, _) in values[MEDIA].items() if is_media and fnmatchcase(flow, flows)]
    return [of_flows[flow] for flow in media if flow in of_flows]


def mean_of_known(values: Iterable[float | None]) -> float:
    """Mean of the values that are neither None nor NaN; NaN if there are none."""
    known = [value for value in values if value is not None and not isnan(value)]
    return float(np.mean(known)) if known else nan


def results_path(out: Path) -> Path:
    """Directory of finished repeats below a directory of runs."""
    return out / "reproduce"
