"""Live values and simulated repeats of a condition: errors, what counts, and the files."""

from __future__ import annotations

import math
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pytest

from rtclab.errors import BadInput
from rtclab.metrics import METRICS, PredictionRange
from rtclab.metrics.registry import EXACT, OF_MODEL, UNKNOWN, Scope, Sources, sources
from rtclab.scenario import Scenario
from rtclab_papers.csv_files import beside
from rtclab_papers.validate import kinds, marks, meetings, recorded, twin
from rtclab_papers.validate.conditions import GROUPS, CallCondition, draw
from rtclab_papers.validate.outcome_files import (
    names_in,
    read_chances,
    read_outcomes,
    write_chances,
    write_outcomes,
)
from rtclab_papers.validate.outcomes import (
    COMPARED,
    FIRST,
    NOT_COMPARED,
    ConditionOutcome,
    ErrorByChance,
    Live,
    Simulated,
    compared,
    counted,
    errors_by_chance,
    median_errors_by_chance,
    not_compared,
)
from rtclab_papers.validate.scores import goal_words, score
from rtclab_papers.validate.twin import simulate, stored
from rtclab_papers.validate.twin_page import figures, section
from rtclab_papers.validate.twin_plots import drawings, steps

FLOWS = ("alice->bob", "bob->alice")
DATA = Path(__file__).parents[2] / "docs" / "data"


def outcome(
    seed: int,
    live: float,
    simulated: float,
    metric: str = "receiving_rate",
    *,
    slack: float = 10,
    live_connected: bool = True,
    connected: int = 39,
    condition: CallCondition | None = None,
) -> ConditionOutcome:
    """The outcome of a condition in which one metric of one direction is known."""
    key = (metric, FLOWS[0])
    said = PredictionRange(simulated, simulated - slack, simulated + slack, 39)
    return ConditionOutcome(
        condition or draw(seed),
        Live(1, int(live_connected), {key: [live]}),
        Simulated(39, connected, {key: said}),
    )


def test_every_live_call_of_a_condition_is_compared() -> None:
    one = outcome(1, 100, 110)
    several = replace(one, live=Live(2, 2, {("receiving_rate", FLOWS[0]): [100.0, 220.0]}))
    assert [pair.error for pair in several.pairs] == [pytest.approx(0.1), -0.5]
    assert score("receiving_rate", [several]).values == 2
    assert score("receiving_rate", [several]).conditions == 1


@pytest.mark.parametrize(
    ("live", "simulated", "alone"),
    [(True, 20, False), (True, 19, True), (False, 20, True), (False, 0, False)],
)
def test_a_call_connects_on_one_side_only_if_most_of_the_other_side_do_not(
    live: bool, simulated: int, alone: bool
) -> None:
    one = outcome(1, 1, 1, live_connected=live, connected=simulated)
    assert one.connects_on_one_side_only is alone


def test_rows_survive_the_files_with_six_digits_and_chances_with_four(tmp_path: Path) -> None:
    file = tmp_path / "data" / "twin.csv"
    values = {("rtt", "a->b"): [123.4567891, 2.0], ("nacks", "b->a"): [0.0], ("fairness", ""): [0.5]}
    live = Live(2, 1, values, 3, "late, twice", "2026-11-23", 5)
    simulated = Simulated(39, 38, {("rtt", "a->b"): PredictionRange(1.0, 0.5, 1234567.8, 38)})
    one, other = draw(1), replace(draw(2), name="x")
    write_outcomes(file, [ConditionOutcome(one, live, simulated), ConditionOutcome(other, Live(1, 1, {}))])
    found = read_outcomes(file, [one, other, draw(3)])
    assert [*found] == ["1", "x"]
    assert found["1"].live.values == values | {("rtt", "a->b"): [123.457, 2.0]}
    rounded = {("rtt", "a->b"): PredictionRange(1.0, 0.5, 1234570.0, 38)}
    assert found["1"].simulated == Simulated(39, 38, rounded)
    assert found["1"].live == replace(live, values=found["1"].live.values)
    assert found["x"].simulated.calls == 0
    assert stored([one, other], file) == [found["1"]]
    write_chances(file, {("odd", "rtt"): ErrorByChance(0.123456, 0.1, 0.2)})
    assert read_chances(file) == {("odd", "rtt"): ErrorByChance(0.1235, 0.1, 0.2)}
    none = tmp_path / "none.csv"
    assert read_outcomes(none, [one]) == read_chances(none) == {}


@pytest.mark.parametrize("scope", ["flow", "trace"])
@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (None, ""),
        (OF_MODEL, ""),
        (sources(EXACT, UNKNOWN, EXACT, EXACT, EXACT), "live calls do not know it"),
        (sources(UNKNOWN, EXACT, EXACT, EXACT, EXACT), "simulated calls do not know it"),
        (sources(UNKNOWN, UNKNOWN, EXACT, EXACT, EXACT), "simulated calls and live calls do not know it"),
    ],
)
def test_a_new_metric_is_compared_if_both_sides_know_it(
    scope: Scope, known: Sources | None, reason: str
) -> None:
    new = replace(METRICS["rtt"], name="new", scope=scope, known=known)
    registry = {"new": new, **METRICS}
    assert compared(registry) == (*FIRST, *["new"] * (not reason), *COMPARED[len(FIRST) :])
    assert not_compared(registry) == not_compared() | ({"new": reason} if reason else {})


def test_every_metric_is_either_compared_or_has_a_reason() -> None:
    assert {*COMPARED} | not_compared().keys() == METRICS.keys()
    assert {*COMPARED} & not_compared().keys() == set()
    assert NOT_COMPARED.items() <= not_compared().items()
    assert len(COMPARED) > len(FIRST)


@pytest.mark.parametrize(
    ("conditions", "disturbed", "counting"), [(6, 1, 5), (5, 1, 5), (12, 2, 10), (12, 3, 12)]
)
def test_at_most_one_in_six_conditions_of_a_group_is_left_out(
    conditions: int, disturbed: int, counting: int
) -> None:
    calm = [outcome(seed, 1, 1) for seed in range(1, 2 * conditions, 2)]
    found = [
        replace(one, live=replace(one.live, disturbed="late" if index < disturbed else ""))
        for index, one in enumerate(calm)
    ]
    other = outcome(2, 1, 1)
    assert counted([*found, other]) == [*found[conditions - counting :], other]


@pytest.mark.parametrize(
    ("disturbed", "told"),
    [
        (1, "left out of the table"),
        (2, "counted all the same, since more than one in six were disturbed"),
    ],
)
def test_a_disturbed_call_is_marked_in_its_row_and_told(disturbed: int, told: str) -> None:
    found = [outcome(0, 100, 110, condition=one) for one in meetings.known_conditions()]
    found[:disturbed] = [replace(one, live=Live(2, 1, {}, 3, "late")) for one in found[:disturbed]]
    text = "\n".join(section([], found, meetings.GROUPS))
    assert text.count("| 2 (1 not connected, disturbed) |") == disturbed
    assert text.count(f"at each of 3\ntries, the last time: late. It is {told}.\n") == disturbed


def test_the_error_by_chance_compares_each_repeat_with_the_median_of_the_others() -> None:
    # The others' medians are 4, 3, nothing, 2 and 2.
    found = errors_by_chance("nacks", [1.0, 2.0, nan, 4.0, 0.0])
    assert found[:2] == pytest.approx((1.0, 0.5))
    assert math.isnan(found[2])
    assert found[3] == pytest.approx(0.75)
    assert math.isnan(found[4])  # a value of zero has no relative error
    assert all(map(math.isnan, errors_by_chance("rtt", [1.0, nan])))


def test_chance_is_the_median_and_the_range_over_the_repeats_of_the_median_error_of_a_group() -> None:
    def lucky(seed: int, *by_chance: float) -> ConditionOutcome:
        one = outcome(seed, 100, 100)
        return replace(
            one, simulated=replace(one.simulated, errors=dict.fromkeys(one.live.values, by_chance))
        )

    # By repeat, the medians of seeds 1, 3 and 5 are 0.3, 0.2 and 0.25.
    found = median_errors_by_chance(
        [lucky(1, 0.1, 0.2, 0.1), lucky(3, 0.3, 0.1, nan), lucky(5, 0.5, 0.9, 0.4), outcome(7, 1, 1)]
    )
    assert found == {("odd", "receiving_rate"): ErrorByChance(0.25, 0.2, 0.3)}


def test_a_simulation_says_what_chance_makes_of_its_own_repeats(tmp_path: Path) -> None:
    said = simulate([draw(1)], tmp_path, 3)["1"]
    rate = said.errors["receiving_rate", FLOWS[0]]
    assert len(rate) == 3
    # The repeat in the middle has a smaller error than the farther one of the others.
    assert 0 < min(rate) < max(rate) < 1


def test_what_was_simulated_before_a_metric_was_compared_is_simulated_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packets are recorded if the new metric needs them."""
    scenario = Scenario.load("first-call", ["duration=3 s"])
    one = CallCondition("1", "a short call", scenario, "odd")
    for names in ("sending_rate",), ("sending_rate", "fairness", "jitter"):
        monkeypatch.setattr(twin, "COMPARED", names)
        values = simulate([one], tmp_path, 2)["1"].values
        assert {metric for metric, _ in values} == {*names}
        assert {said.known for said in values.values()} == {2}


def test_the_number_of_goals_reached_is_told() -> None:
    found = [outcome(1, 100, 102), outcome(3, 100, 200, "rtt"), outcome(5, 100, 101, "frame_rate")]
    assert "1 of 2 median errors, 2 of 3 coverages." in goal_words(found, "these")
    # Nothing about the probability, because every repeat knows everything.
    assert len(goal_words(found, "these").splitlines()) == 2
    fewer = Simulated(39, 20, {("rtt", FLOWS[0]): PredictionRange(100, 90, 110, 19)})
    told = goal_words([*found, replace(outcome(7, 100, 100, "rtt"), simulated=fewer)], "these")
    # The mean of 38/40 and 18/20.
    assert "between 92.5 % and 95.0 %" in told


def test_figures_without_values_are_dashes() -> None:
    found = dict(figures([outcome(1, 100, 110)]))
    assert found["live calls measured"] == found["set-up until DTLS, median error"] == "–"


def test_an_empirical_distribution_rises_at_each_value_by_its_share() -> None:
    places, shares = steps(np.array([1.0, 4.0]))
    assert places.tolist() == [1, 1, 4]
    assert shares.tolist() == [0, 50, 100]


def test_dots_and_bars_stay_inside_the_axes() -> None:
    found = [outcome(1, 100, 120, "nacks", slack=1000), outcome(3, 0, 10, "nacks")]
    scatter, _ = drawings(found, GROUPS)
    _, dots = scatter.axes[0].marks
    assert (dots.x.tolist(), dots.y.tolist()) == ([2], [pytest.approx(math.log10(120))])  # type: ignore[union-attr]
    assert (dots.low.tolist(), dots.high.tolist()) == ([scatter.y.begin], [scatter.y.end])  # type: ignore[union-attr]


def test_a_damaged_or_missing_file_of_rows_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "twin.csv"
    write_outcomes(file, [ConditionOutcome(draw(1), Live(1, 1, {}))])
    beside(file, "values").unlink()
    with pytest.raises(BadInput, match=r"twin-values\.csv: no such file"):
        read_outcomes(file, [])
    write_outcomes(file, [])
    file.write_text("seed,half\n1,odd\n")
    with pytest.raises(BadInput, match=r"twin\.csv: "):
        read_outcomes(file, [])


KEPT = {
    "twin": lambda: [draw(int(name)) for name in names_in(DATA / "twin.csv")],
    "twin-kinds": kinds.known_conditions,
    "twin-recorded": recorded.known_conditions,
    "twin-meetings": meetings.known_conditions,
    "marks": marks.conditions,
}
"""The published files of outcomes, with their conditions."""


@pytest.mark.parametrize("name", KEPT)
def test_published_files_stay_the_same_when_their_outcomes_are_written_again(
    name: str, tmp_path: Path
) -> None:
    file, copy = DATA / f"{name}.csv", tmp_path / f"{name}.csv"
    kept = read_outcomes(file, KEPT[name]())
    write_outcomes(copy, [*kept.values()])
    write_chances(copy, read_chances(file))
    assert len(kept) == len(names_in(file)) > 0
    for one in (copy, beside(copy, "values"), beside(copy, "chance")):
        assert one.read_bytes() == (DATA / one.name).read_bytes()
