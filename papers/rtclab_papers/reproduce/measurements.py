"""The values measured in all repeats, for cells, trends and figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from typing import Self

import numpy as np
import polars as pl

from rtclab.experiment import Condition, Results
from rtclab.metrics import Jackknife, Summary, summarise
from rtclab.trace import Run, Trace
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


@dataclass(frozen=True)
class Measurements:
    """The values of every scenario.

    Attributes:
        values: the values of each measured repeat, by scenario and number.
        results: the results of the simulations, which have traces and times; None for other values.
    """

    values: Mapping[str, Mapping[int, Values]]
    results: Results | None = None

    @classmethod
    def of(cls, results: Results, conditions: Mapping[str, Condition]) -> Self:
        """The values of the repeats of conditions. An earlier run may have left results of more repeats."""
        wanted = [(name, repeat) for name, one in conditions.items() for repeat in one.settings.repeats or ()]
        planned = pl.DataFrame(wanted, {"condition": pl.String, "repeat": pl.Int64}, orient="row")
        # Flows have no order of their own in the results.
        rows = results.metrics().sort("repeat", "flow")
        rows = rows.join(planned, on=["condition", "repeat"], how="semi", maintain_order="left")
        values: dict[str, dict[int, Values]] = {name: {} for name in conditions}
        columns = ("condition", "repeat", "metric", "flow", "value", "deviation")
        for name, repeat, metric, flow, value, deviation in rows.select(columns).iter_rows():
            of_metric = values[name].setdefault(repeat, {}).setdefault(metric, {})
            of_metric[flow] = (value, deviation)
        return cls(values, results)

    def repeats_of(self, scenario: str) -> int:
        """Number of measured repeats of a scenario."""
        return len(self.values.get(scenario, {}))

    def measured(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> Measured:
        """A metric over all repeats; flows that match the pattern ``flows`` have equal weights."""
        per_repeat = self.per_repeat(scenario, metric, flows)
        means = [nan if value is None else value for value, _ in per_repeat]
        return Measured(summarise(means), mean_of_known(sd for _, sd in per_repeat))

    def mean(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> float:
        """Mean of a metric over flows and repeats; NaN if nothing was measured."""
        return self.measured(scenario, metric, flows).mean

    def statistic(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> Jackknife:
        """Mean of a metric over flows and repeats, with its values without each repeat."""
        return Jackknife.mean(
            [nan if value is None else value for value, _ in self.per_repeat(scenario, metric, flows)]
        )

    def per_repeat(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> list[Value]:
        """Mean value and mean standard deviation of the flows that match the pattern, for each repeat."""
        return list(self.numbered(scenario, metric, flows).values())

    def numbered(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> dict[int, Value]:
        """Mean value and mean standard deviation of the matching flows, by number of the repeat."""
        repeats = self.values.get(scenario, {})
        return {repeat: _selected(values, metric, flows) for repeat, values in repeats.items()}

    def calls(self, scenario: str, metric: str, flows: str = EVERY_FLOW) -> list[float]:
        """The values that :meth:`measured` averages: of each matching flow in each repeat."""
        repeats = self.values.get(scenario, {}).values()
        chosen = [value for values in repeats for value, _ in _chosen(values, metric, flows)]
        return [value for value in chosen if value is not None]

    def flows(self, scenario: str, patterns: Iterable[str]) -> list[str]:
        """The flows of a scenario that match one of the patterns; empty if nothing was measured."""
        values = self.values.get(scenario)
        flows = next(iter(values.values()))[MEDIA] if values else ()
        return [flow for flow in flows if any(fnmatchcase(flow, pattern) for pattern in patterns)]

    def traces(self, scenario: str, repeats: int = 1) -> list[Trace]:
        """Full traces of the first repeats, for figures; fewer or none if repeats failed."""
        run = self._runs.get(scenario)
        known = [repeat for repeat in self.values.get(scenario, ()) if repeat < repeats]
        return [run.trace(repeat) for repeat in known if run.has_trace(repeat)] if run else []

    @cached_property
    def _runs(self) -> dict[str, Run]:
        found = self.results
        return {} if found is None else dict(zip(found.conditions, found.runs, strict=True))


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
