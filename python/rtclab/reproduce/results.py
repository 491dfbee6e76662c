"""What was measured in all repeats, for cells, trends and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from math import isnan, nan
from pathlib import Path

import numpy as np

from rtclab.metrics.statistics import Summary, summarise
from rtclab.reproduce.measure import EVERY_FLOW, MEDIA, WHOLE_RUN, Value, Values
from rtclab.reproduce.store import Store
from rtclab.trace import Trace


@dataclass(frozen=True)
class Measured:
    """One metric of one scenario.

    ``summary`` describes the means of the repeats, so ``summary.sd`` is the deviation between repeats.
    ``within_sd`` is the mean of the deviations within repeats, which the papers print behind a "±".
    """

    summary: Summary
    within_sd: float

    @property
    def mean(self) -> float:
        """Mean over the repeats; NaN without repeats."""
        return self.summary.mean


@dataclass(frozen=True)
class Results:
    """The finished repeats of every scenario."""

    stores: Mapping[str, Store]
    repeats: Mapping[str, int]
    """How many repeats of each scenario count. An earlier, longer run may have left more."""

    @cached_property
    def _values(self) -> dict[str, list[Values]]:
        return {
            name: [values for repeat, values in sorted(store.read().items()) if repeat < self.repeats[name]]
            for name, store in self.stores.items()
        }

    def repeats_of(self, scenario: str) -> int:
        """How many repeats are finished."""
        return len(self._values.get(scenario, []))

    def measured(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> Measured:
        """A metric over all repeats. Every flow that the pattern ``flows`` matches has the same weight."""
        per_repeat = [_selected(values, metric, flows) for values in self._values.get(scenario, [])]
        means = [mean_of_known(value for value, _ in chosen) for chosen in per_repeat]
        deviations = [mean_of_known(sd for _, sd in chosen) for chosen in per_repeat]
        return Measured(summarise(means), mean_of_known(deviations))

    def mean(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> float:
        """Mean of a metric over flows and repeats; NaN if nothing was measured."""
        return self.measured(scenario, metric, flows).mean

    def per_repeat(self, scenario: str, metric: str, flow: str) -> list[Value]:
        """Value and deviation of one flow in each repeat."""
        nothing: Value = (None, None)
        return [values.get(metric, {}).get(flow, nothing) for values in self._values.get(scenario, [])]

    def traces(self, scenario: str, repeats: int = 1) -> list[Trace]:
        """Whole traces of the first repeats, for figures; fewer or none if repeats failed."""
        store = self.stores.get(scenario)
        return store.traces(min(repeats, self.repeats[scenario])) if store else []

    def flows(self, scenario: str) -> list[str]:
        """The names of a scenario's flows; empty if nothing was measured."""
        values = self._values.get(scenario)
        return list(values[0]["rate_kbps"]) if values else []


def _selected(values: Values, metric: str, flows: str) -> list[Value]:
    """The values of the media flows that the pattern matches, or of the one flow that it names."""
    of_flows = values.get(metric, {})
    if flows in of_flows or list(of_flows) == [WHOLE_RUN]:
        return [of_flows.get(flows) or of_flows[WHOLE_RUN]]
    media = values.get(MEDIA, of_flows)
    return [value for flow, value in of_flows.items() if flow in media and fnmatchcase(flow, flows)]


def mean_of_known(values: Iterable[float | None]) -> float:
    """Mean of the values that are neither None nor NaN; NaN without any."""
    known = [value for value in values if value is not None and not isnan(value)]
    return float(np.mean(known)) if known else nan


def results_path(out: Path) -> Path:
    """Where finished repeats are kept below a directory of runs."""
    return out / "reproduce"
