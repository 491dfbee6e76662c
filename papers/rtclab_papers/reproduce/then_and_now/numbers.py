"""Numbers from rows: the counterpart of a published number in each campaign, with its interval."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import inf, isnan, nan
from statistics import fmean

from rtclab.metrics import Summary, summarise
from rtclab.report import number
from rtclab_papers.campaigns import Key, Record
from rtclab_papers.reproduce.measurements import EVERY_FLOW, Measurements
from rtclab_papers.reproduce.measures import MEASURES, MEDIA, Values
from rtclab_papers.reproduce.then_and_now.campaigns import LIVE, SIM, THEN
from rtclab_papers.reproduce.then_and_now.conditions import Plan, PublishedNumber
from rtclab_papers.reproduce.then_and_now.row_values import COMPARED, NOT_MEDIA
from rtclab_papers.reproduce.trends import Quantity

FEW = 3
"""With fewer repeats, Student's interval is much wider than the range, so the range is given."""


@dataclass(frozen=True)
class RepeatsMean:
    """A number from some repeats, one value each."""

    values: tuple[float, ...]

    @cached_property
    def _summary(self) -> Summary:
        return summarise(self.values, (0.0, inf))

    @property
    def mean(self) -> float:
        """Mean over the repeats; NaN if there are none."""
        return self._summary.mean

    @property
    def is_range(self) -> bool:
        """Whether ``ends`` are the smallest and largest value."""
        return len(self.values) < FEW

    @property
    def ends(self) -> tuple[float, float]:
        """Student's 95 % interval of the mean, or, with few repeats, the range; NaN for one value."""
        if not self.is_range:
            return self._summary.ci95_low, self._summary.ci95_high
        return (min(self.values), max(self.values)) if len(self.values) > 1 else (nan, nan)

    @property
    def words(self) -> str:
        """``1702 ± 13`` or ``1702 (1690 to 1714)``, whose spaces do not break; a dash without values."""
        low, high = self.ends
        if isnan(low):
            return number(self.mean)
        if self.is_range:
            words = f"{number(self.mean)} ({number(low, self.mean)} to {number(high, self.mean)})"
        else:
            words = f"{number(self.mean)} ± {number(self._summary.ci95, self.mean)}"
        return words.replace(" ", "\u00a0")


def as_values(record: Record) -> Values:
    """The papers' measures of a repeat by metric and flow, and which flows carry media."""
    found: Values = defaultdict(dict)
    for flow, metric, value in record.values:
        if isinstance(value, float) and metric.partition("@")[0] in MEASURES:
            found[metric][flow] = (value, None)
    others = record.by_flow(NOT_MEDIA)
    flows = dict.fromkeys(flow for of_flows in found.values() for flow in of_flows)
    found[MEDIA] = {flow: (float(flow not in others), None) for flow in flows}
    return dict(found)


@dataclass(frozen=True)
class MeasurePair:
    """A measure of a condition over all its flows: simulated with Chromium of 2026, and live."""

    scenario: str
    measure: str
    simulated: float
    live: float

    @property
    def error(self) -> float:
        """Simulated minus live, as a share of live; NaN if live is zero."""
        return (self.simulated - self.live) / self.live if self.live else nan


@dataclass(frozen=True)
class CampaignNumbers:
    """The rows of a plan. ``records`` may lack any repeat."""

    plan: Plan
    records: Mapping[Key, Record]

    @cached_property
    def _by_campaign(self) -> dict[tuple[str, str], dict[int, Record]]:
        found: dict[tuple[str, str], dict[int, Record]] = defaultdict(dict)
        for key, record in sorted(self.records.items()):
            found[key.backend, key.condition][key.repeat] = record
        return dict(found)

    def tries(self, campaign: str, scenario: str) -> list[Record]:
        """The last try of each repeat, failed ones included."""
        return list(self._by_campaign.get((campaign, scenario), {}).values())

    def measured(self, campaign: str, scenario: str) -> dict[int, Record]:
        """The repeats with values, by number, including disturbed ones."""
        known = self._by_campaign.get((campaign, scenario), {})
        return {repeat: record for repeat, record in known.items() if record.outcome != "failed"}

    def of_line(self, line: PublishedNumber, campaign: str) -> RepeatsMean:
        """The counterpart of a published number in a campaign, over its repeats."""
        quantity = line.quantity if campaign == THEN else self.plan.quantity_of_today(line)
        return self._estimate(quantity, campaign)

    def of_measure(self, measure: str, scenario: str, campaign: str) -> RepeatsMean:
        """Mean of a measure over all flows of media, over the repeats."""
        data = {"metric": measure, "scenario": scenario, "flows": EVERY_FLOW}
        return self._estimate(Quantity.read(data, scenario), campaign)

    def _estimate(self, quantity: Quantity, campaign: str) -> RepeatsMean:
        names = {name for name, _ in quantity.needs}
        known = {name: self.measured(campaign, name) for name in names}
        common = set.intersection(*(set(repeats) for repeats in known.values())) if known else set()
        found = [
            quantity.of(Measurements({name: {repeat: as_values(known[name][repeat])} for name in names}))
            for repeat in sorted(common)
        ]
        return RepeatsMean(tuple(value for value in found if not isnan(value)))

    def of_repeats(self, metric: str, scenario: str, campaign: str) -> float:
        """Mean of a metric over all repeats and flows that have it; NaN if none has."""
        found = [
            value
            for record in self.measured(campaign, scenario).values()
            for _, name, value in record.values
            if name == metric and isinstance(value, float)
        ]
        return fmean(found) if found else nan

    def pairs(self) -> list[MeasurePair]:
        """The measures by which the backends are compared, in every condition that has both."""
        found = [
            MeasurePair(
                name,
                measure,
                self.of_measure(measure, name, SIM).mean,
                self.of_measure(measure, name, LIVE).mean,
            )
            for name in self.plan.scenarios
            for measure in COMPARED
        ]
        return [pair for pair in found if not (isnan(pair.simulated) or isnan(pair.live))]
