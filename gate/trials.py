"""How often the gate finds a loss of 10 % of the rate, and how often it fails for nothing.

Each trial measures a baseline of the suite's scenarios, and a candidate. The seeds of each trial are its own.
"A loss" is in one of the scenarios, each in turn: its encoders' maximum bitrate is lowered until its flows
receive 10 % less on average. "No loss" is software that draws other random numbers and changes nothing else.
A loss counts as found only if the gate names the scenario and the rate.

    python gate/trials.py [--trials 100] [--duration '60 s'] [--repeats 20]
"""

from __future__ import annotations

import argparse
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory

from rtclab.experiment import Experiment
from rtclab.experiment.comparison import Side
from rtclab.gates import Baseline, Suite, judge
from rtclab.gates.checks import Check
from rtclab.scenario import Bitrate, Scenario

SUITE = Path(__file__).parent / "suite.toml"
LOSS = 0.1
RATE = "receiving_rate"
CALIBRATION_SEED = 1_000_000


Measured = Mapping[str, Side]
"""By scenario, the outcomes and values of its repeats."""


def measure(scenarios: Mapping[str, Scenario], repeats: int, metrics: list[str]) -> Measured:
    with TemporaryDirectory() as out:
        experiment = Experiment(dict(scenarios), repeats=repeats, metrics=metrics, traces=False)
        return experiment.run(out=out, progress=False).sides(totals_per_minute=False)


def rate_of(scenario: Scenario, repeats: int) -> float:
    """The mean rate of the flows between participants in kbit/s."""
    values = measure({"call": scenario}, repeats, [RATE])["call"].by_flow(RATE)
    ends = [
        flow.name for flow in scenario.flows() if {flow.sender, flow.receiver} <= {*scenario.participants}
    ]
    return fmean(value for flow in ends for value in values[flow].values())


def capped(scenario: Scenario, kbps: float) -> Scenario:
    return Scenario.load(scenario, {"video.max_bitrate": f"{kbps:.0f} kbit/s"})


def cap_for_loss(scenario: Scenario, repeats: int) -> float:
    """The maximum bitrate in kbit/s with which the flows receive 10 % less, by bisection."""
    scenario = Scenario.load(scenario, {"seed": CALIBRATION_SEED})
    wanted = (1 - LOSS) * rate_of(scenario, repeats)
    low, high = 100.0, Bitrate.parse(scenario.model_dump(mode="json")["video"]["max_bitrate"]).bps / 1000
    for _ in range(8):
        middle = (low + high) / 2
        if rate_of(capped(scenario, middle), repeats) < wanted:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def with_seeds_of(other: Measured, measured: Measured) -> Measured:
    """The values of one measurement under the seeds of another, as if the software drew other numbers."""
    return {
        name: replace(
            side,
            run=replace(
                side.run,
                repeats=[
                    replace(one, seed=of.seed)
                    for one, of in zip(side.run.repeats, other[name].run.repeats, strict=True)
                ],
            ),
        )
        for name, side in measured.items()
    }


def main() -> None:
    """Runs the trials and prints how often the gate failed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--duration", default="60 s")
    given = parser.parse_args()
    loaded = Suite.load(SUITE)
    conditions = {
        name: replace(
            one,
            scenario=Scenario.load(one.scenario, {"duration": given.duration}),
            limits=one.limits[:1],
            repeats=given.repeats,
        )
        for name, one in loaded.conditions.items()
    }
    suite = replace(loaded, conditions=conditions)
    names = list(conditions)
    metrics = list(dict.fromkeys(metric for one in conditions.values() for metric in one.metrics))
    caps = {name: cap_for_loss(one.scenario, 2 * given.repeats) for name, one in conditions.items()}
    for name, kbps in caps.items():
        print(f"{name}: 10 % less with a maximum of {kbps:.0f} kbit/s")

    failed: Counter[str] = Counter()
    missed: Counter[str] = Counter()
    alarms: Counter[str] = Counter()
    began = time.monotonic()
    for trial in range(given.trials):
        before, other = (
            {name: Scenario.load(one.scenario, {"seed": seed}) for name, one in conditions.items()}
            for seed in (2 * trial + 1, 2 * trial + 2)
        )
        lossy = names[trial % len(names)]
        kept, fresh = measure(before, given.repeats, metrics), measure(other, given.repeats, metrics)
        with_loss, fresh_with_loss = (
            measure({lossy: capped(scenarios[lossy], caps[lossy])}, given.repeats, metrics)
            for scenarios in (before, other)
        )
        baseline = Baseline.of(suite, kept, "a trial")

        def worse(measured: Measured, baseline: Baseline = baseline) -> list[Check]:
            return [check for check in judge(suite, measured, baseline).checks if check.fails]

        def found(measured: Measured, where: str = lossy) -> bool:
            return any(check.scenario == where and check.metric == RATE for check in worse(measured))

        none = {
            "no loss, other random numbers": with_seeds_of(kept, fresh),
            "no loss, other seeds": fresh,
        }
        loss = {
            "loss, the same random numbers": {**kept, **with_loss},
            "loss, other random numbers": with_seeds_of(kept, {**fresh, **fresh_with_loss}),
            "loss, other seeds": {**fresh, **fresh_with_loss},
        }
        for what, measured in none.items():
            checks = worse(measured)
            failed[what] += bool(checks)
            alarms.update(f"{check.metric} of {check.flow} in {check.scenario}" for check in checks)
        for what, measured in loss.items():
            failed[what] += (is_found := found(measured))
            missed[lossy] += not is_found
    for what in (*none, *loss):
        print(f"{what}: the gate failed in {failed[what]} of {given.trials} trials")
    print(f"missed: {dict(missed)}; false alarms: {dict(alarms)}")
    took_s = time.monotonic() - began
    print(f"{given.trials} trials of {given.repeats} calls of {given.duration}: {took_s:.0f} s")


if __name__ == "__main__":
    main()
