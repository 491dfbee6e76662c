"""Judges what was measured: against the limits of a suite, and against its baseline."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import nan

from rtclab.experiment.comparison import Side, null
from rtclab.gates.baseline import Baseline, KeptScenario, failed_scenarios
from rtclab.gates.checks import Check
from rtclab.gates.limits import Limit
from rtclab.gates.result import GateResult
from rtclab.gates.suite import GatedScenario, Margin, Suite
from rtclab.metrics import METRICS
from rtclab.metrics.statistics import CONFIDENCE, Difference, holm, paired, summarise, welch
from rtclab.scenario.ignored import SIM

UNTESTED = Difference(nan, nan, nan)


def judge(
    suite: Suite, measured: Mapping[str, Side], baseline: Baseline | None, notes: tuple[str, ...] = ()
) -> GateResult:
    """Checks every limit and every comparison of a suite; ``measured`` has its scenarios by name.

    A metric is worse if its mean is worse than the baseline's by more than its margin, and if the one-sided
    t-test says that this is more than chance, over all comparisons of the suite (Holm, 5 %). Simulated
    repeats with the same seeds are tested in pairs, all others by Welch's test. A metric that was measured in
    fewer than two repeats (if they are paired: that the baseline has, too), or in less than half as many as
    in the baseline, is not measured.
    """
    checks: list[Check] = []
    pending: list[_Comparison] = []
    for name, condition in suite.conditions.items():
        kept = None if baseline is None else baseline.scenarios.get(name)
        for limit in condition.limits:
            flows = measured[name].by_flow(limit.metric)
            found = limit.checks(name, {flow: [*of.values()] for flow, of in flows.items()})
            checks += [_with_before(limit, check, kept) for check in found]
        if kept is not None:
            pending += _comparisons(name, condition, measured[name], kept)
    checks += _decided(pending)
    order = {name: place for place, name in enumerate(suite.conditions)}
    checks.sort(key=lambda check: order[check.scenario])
    failures = tuple(failed_scenarios(suite, measured))
    commands = {name: one.command for name, one in suite.conditions.items()}
    return GateResult(
        suite.name, tuple(checks), failures, notes, measured, suite.window, commands, suite.file
    )


def _with_before(limit: Limit, check: Check, kept: KeptScenario | None) -> Check:
    """The check of a limit with the baseline's mean, if the baseline has the metric and the flow."""
    values = kept.values(limit.metric).get(check.flow) if kept is not None else None
    if not values:
        return check
    mean = summarise([*values.values()]).mean
    return replace(check, before=mean, held_before=limit.holds(mean))


@dataclass(frozen=True)
class _Comparison:
    """A comparison before it is known what else is compared.

    ``worse`` is the difference in the direction that is worse. ``p_worse`` and ``p_better`` are one-sided
    p-values, NaN if nothing was tested.
    """

    check: Check
    difference: Difference = UNTESTED
    worse: float = nan
    p_worse: float = nan
    p_better: float = nan


def _comparisons(
    name: str, condition: GatedScenario, measured: Side, kept: KeptScenario
) -> Iterator[_Comparison]:
    seeds = {one.repeat: one.seed for one in measured.run.repeats}
    in_pairs = condition.backend == SIM and not set(kept.seeds).isdisjoint(seeds.values())
    for metric, margin in condition.margins.items():
        before = kept.values(metric)
        now = {
            flow: {seeds[repeat]: value for repeat, value in of.items()}
            for flow, of in measured.by_flow(metric).items()
        }
        for flow in dict.fromkeys([*before, *now]):
            known = Check(name, metric, metric, flow, "new")
            yield _compared(known, margin, before.get(flow, {}), now.get(flow, {}), in_pairs=in_pairs)


def _compared(
    check: Check, margin: Margin, before: Mapping[int, float], now: Mapping[int, float], *, in_pairs: bool
) -> _Comparison:
    """Compares values by seed."""
    metric = METRICS[check.metric]
    known = replace(check, new=summarise([*now.values()]).mean if now else None, repeats=len(now))
    if not before:
        return _Comparison(known)
    common = [seed for seed in before if seed in now] if in_pairs else list(now)
    if len(common) < 2 or 2 * len(common) < len(before):
        mean = summarise([*before.values()]).mean
        return _Comparison(replace(known, verdict="not measured", base=mean, new=None, held_before=True))
    if in_pairs:
        before, now = ({seed: side[seed] for seed in common} for side in (before, now))
        difference = paired([*before.values()], [*now.values()], metric.bounds)
    else:
        difference = welch(*(summarise([*side.values()], metric.bounds) for side in (before, now)))
    sign = 1 if metric.better == "lower" else -1
    mean = summarise([*before.values()]).mean
    known = replace(
        known,
        verdict="not worse",
        base=mean,
        new=summarise([*now.values()]).mean,
        difference_low=null(difference.ci95_low),
        difference_high=null(difference.ci95_high),
        margin=margin.in_unit(metric, mean),
        repeats=len(now),
        held_before=True,
    )
    p_worse, p_better = one_sided(difference, sign), one_sided(difference, -sign)
    return _Comparison(known, difference, sign * difference.value, p_worse, p_better)


def one_sided(difference: Difference, sign: int) -> float:
    """The p-value of the test that the difference, times ``sign``, is above 0; NaN if it was not tested.

    A difference that is the same in all repeats is certain: 0 or 1.
    """
    if difference.constant and difference.value:
        return 0.0 if sign * difference.value > 0 else 1.0
    return difference.p / 2 if sign * difference.value > 0 else 1 - difference.p / 2


def _decided(pending: list[_Comparison]) -> Iterator[Check]:
    """The comparisons with their verdicts, which depend on the number of all comparisons."""
    worse = holm([one.p_worse for one in pending])
    better = holm([one.p_better for one in pending])
    level = (1 - CONFIDENCE) / max(worse.count(False), 1)
    for one, is_worse, is_better in zip(pending, worse, better, strict=True):
        margin = one.check.margin
        if margin is None:
            yield one.check
            continue
        check = replace(one.check, p=null(one.p_worse))
        if one.worse > margin and not is_worse:
            needed = one.difference.repeats_needed(2 * level)
            yield replace(check, verdict="undecided", repeats_needed=needed)
        elif one.worse > margin:
            yield replace(check, verdict="worse")
        elif -one.worse > margin and is_better:
            yield replace(check, verdict="better")
        else:
            yield check
