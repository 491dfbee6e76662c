"""Random conditions: their distribution, and how they are run on both backends and kept."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rtclab.arenas.random_calls import DURATION_S
from rtclab.backend.sim import SimBackend
from rtclab.errors import BadInput
from rtclab.experiment import Experiment
from rtclab.scenario import Scenario
from rtclab.scenario.path import CapacitySteps, GilbertElliott, PathSpec
from rtclab.trace import only_writer
from rtclab.trace.manifest import SCHEMA
from rtclab_papers.csv_files import read_table
from rtclab_papers.validate.conditions import GROUPS, CallCondition, draw
from rtclab_papers.validate.outcome_files import CONDITIONS, names_in, read_outcomes, write_outcomes
from rtclab_papers.validate.outcomes import FIRST, ConditionOutcome, Live
from rtclab_papers.validate.twin import outcomes, stored

SEEDS = range(1, 401)


@pytest.fixture(scope="module")
def drawn() -> list[Scenario]:
    return [draw(seed).scenario for seed in SEEDS]


def uplinks(scenarios: list[Scenario]) -> list[PathSpec]:
    """The uplinks of all participants."""
    return [scenario.link_of(name).up for scenario in scenarios for name in scenario.participants]


def mean_loss(path: PathSpec) -> float:
    """The mean loss of a path as a ratio."""
    if path.loss is None:
        return 0.0
    if isinstance(path.loss, GilbertElliott):
        return path.loss.p.value / (path.loss.p.value + path.loss.r.value)
    return float(path.loss.value)


def test_the_same_seed_draws_the_same_condition_and_another_one_another() -> None:
    assert draw(7).scenario == draw(7).scenario
    assert draw(7).words != draw(9).words


def test_the_group_of_a_condition_follows_from_its_seed() -> None:
    groups = [draw(seed).group for seed in (1, 2, 99, 100, 101, 150, 151, 200, 201)]
    assert groups == [*["odd", "even"] * 2, *["101-150"] * 2, *["151-200"] * 2, "later"]
    assert {draw(seed).group for seed in SEEDS} == set(GROUPS)


def test_every_value_is_within_the_bounds_that_the_page_states(drawn: list[Scenario]) -> None:
    for scenario in drawn:
        assert scenario.duration.s == DURATION_S
    for up in uplinks(drawn):
        rates = (
            [rate for _, rate in up.capacity.steps]
            if isinstance(up.capacity, CapacitySteps)
            else [up.capacity]
        )
        assert all(150_000 <= rate.bps <= 10_000_000 for rate in rates)  # type: ignore[union-attr]
        assert 0 <= mean_loss(up) <= 0.15 + 1e-3


def test_capacities_are_log_uniform(drawn: list[Scenario]) -> None:
    """The mean logarithm of the first capacities is in the middle, within four standard errors."""
    firsts = [
        up.capacity.steps[0][1] if isinstance(up.capacity, CapacitySteps) else up.capacity
        for up in uplinks(drawn)
    ]
    logs = np.log([first.bps for first in firsts])  # type: ignore[union-attr]
    low, high = math.log(150e3), math.log(10e6)
    # In half of the conditions both uplinks are the same, so at least half of the values are independent.
    error = (high - low) / math.sqrt(12 * len(logs) / 2)
    assert abs(logs.mean() - (low + high) / 2) < 4 * error


def test_the_shares_of_lossy_paths_and_of_audio_agree_with_the_page(drawn: list[Scenario]) -> None:
    """60 % of the uplinks lose nothing, half of the conditions have audio; four standard errors."""
    lossless = np.mean([up.loss is None for up in uplinks(drawn)])
    assert abs(lossless - 0.6) < 4 * math.sqrt(0.6 * 0.4 / len(drawn))
    audio = np.mean([scenario.audio is not None for scenario in drawn])
    assert abs(audio - 0.5) < 4 * math.sqrt(0.25 / len(drawn))


@pytest.mark.parametrize("place", ["data/twin.csv", "live"])
def test_two_processes_do_not_write_the_same_conditions(tmp_path: Path, place: str) -> None:
    file, folder = tmp_path / "data" / "twin.csv", tmp_path / "live"
    assert outcomes([draw(1)], file, folder, run_missing=False, say=print) == []
    with only_writer(tmp_path / place), pytest.raises(BadInput, match=f"{place}: process .* is writing here"):
        outcomes([draw(1)], file, folder, run_missing=False, say=print)


def short(name: str) -> CallCondition:
    """A condition with a call of three seconds."""
    scenario = Scenario.load("first-call", ["duration=3 s"])
    return CallCondition(name, "a short call", scenario, "odd")


def test_a_condition_has_the_values_of_its_live_run_and_of_its_simulated_repeats(tmp_path: Path) -> None:
    """The live run here is simulated: repeat 0 of the condition. So its values are among the simulated."""
    one, file, said = short("1"), tmp_path / "data" / "twin.csv", list[str]()
    old = Live(
        1, 1, {("rtt", "alice->bob"): [1e6], ("rtt", "bob->alice"): [1e6]}, measured="2020-01-01", schema=3
    )
    unknown = replace(one, name="2", words="unknown since", group="even")
    write_outcomes(file, [ConditionOutcome(one, old), ConditionOutcome(unknown, old)])

    [without] = outcomes([one], file, tmp_path / "live", run_missing=False, say=said.append, repeats=3)
    assert [pair.covered for pair in without.pairs] == [False, False]
    assert without.live == old

    Experiment({"1": one.scenario}, repeats=1, backend=SimBackend()).run(into=tmp_path / "live" / "live")
    [found] = outcomes([one], file, tmp_path / "live", run_missing=False, say=said.append, repeats=3)
    assert found.simulated.calls == found.simulated.connected == 3
    assert {pair.expected.known for pair in found.pairs if pair.metric == "receiving_rate"} == {3}
    assert {"rtt", "receiving_rate", "setup_time"} <= {pair.metric for pair in found.pairs}
    assert all(pair.covered for pair in found.pairs)
    assert found.live.schema == SCHEMA
    assert found.live.measured > "2026"
    assert len(said) == 2
    assert said[1].startswith("first-call: simulated rate against live: ")
    assert stored([one], file) == [found]
    assert read_outcomes(file, [unknown])["2"].live == old


def test_the_kept_live_values_are_of_the_metrics_that_were_compared_first() -> None:
    data = Path(__file__).parents[2] / "docs" / "data"
    file = data / "twin.csv"
    kept = read_outcomes(file, [draw(int(name)) for name in names_in(file)])
    live = {metric for one in kept.values() for metric, _ in one.live.values}
    newer = {"queuing_delay_p50", "queuing_delay_p95", "nacks", "retransmission_share", "fec_share"}
    newer |= {"ce_share", "aqm_drop_share"}
    assert set(FIRST) - newer <= live
    # What they call queuing delay was never measured in calls of schema 3.
    old = {metric for one in kept.values() if one.live.schema == 3 for metric, _ in one.live.values}
    rows = pl.read_csv(data / "then-and-now.csv", infer_schema=False)
    assert not {name for name in old if name.startswith(("queuing_delay", "residual_loss"))}
    for names in (old, set(rows["metric"])):
        assert {"delay_variation_p50", "delay_variation_p95", "unseen_loss"} <= names


def test_the_kept_conditions_are_those_of_their_seeds() -> None:
    rows = read_table(Path(__file__).parents[2] / "docs" / "data" / "twin.csv", CONDITIONS)
    for name, group, words in rows.select("name", "group", "condition").iter_rows():
        condition = draw(int(name))
        assert (words, group) == (condition.words, condition.group)
