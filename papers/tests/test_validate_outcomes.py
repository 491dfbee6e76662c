"""Live values and simulated repeats of a condition: intervals, errors, files, tables and the page."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np
import pytest

from rtclab.errors import BadInput
from rtclab.experiment import Condition, Experiment
from rtclab.metrics import METRICS, PredictionRange, prediction_range
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
    SIMULATED_REPEATS,
    ConditionOutcome,
    ErrorByChance,
    Live,
    Simulated,
    compared,
    counted,
    errors_by_chance,
    live_of,
    median_errors_by_chance,
    not_compared,
)
from rtclab_papers.validate.scores import GOALS, goal_words, metric_words, score, score_table
from rtclab_papers.validate.twin import simulate, stored
from rtclab_papers.validate.twin_page import errors, figures, known_on_one_side, write_twin
from rtclab_papers.validate.twin_plots import drawings, steps, ticks

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
        Live(1, int(live_connected), {} if math.isnan(live) else {key: [live]}),
        Simulated(39, connected, {key: said}),
    )


def test_thirty_nine_repeats_are_the_fewest_for_95_per_cent() -> None:
    assert prediction_range([0.0] * SIMULATED_REPEATS).level == pytest.approx(0.95)
    assert prediction_range([0.0] * (SIMULATED_REPEATS - 1)).level < 0.95


def test_a_value_that_one_side_lacks_is_not_compared_but_counted() -> None:
    known = outcome(1, 100, 100)
    other = ("receiving_rate", FLOWS[1])
    lacking = replace(known, simulated=Simulated(39, 39, {other: prediction_range([1.0] * 39)}))
    assert outcome(1, nan, 100.0).pairs == lacking.pairs == ()
    assert known_on_one_side(known) == 0
    assert known_on_one_side(lacking) == 2
    # Half of the simulated calls lack it as well.
    rare = replace(
        known, simulated=Simulated(39, 39, {**known.simulated.values, other: prediction_range([1.0] * 19)})
    )
    assert known_on_one_side(rare) == 0


def test_a_live_value_is_covered_if_it_lies_in_the_interval() -> None:
    assert outcome(1, 100, 109).pairs[0].covered
    assert not outcome(1, 100, 111).pairs[0].covered


def test_every_live_call_of_a_condition_is_compared() -> None:
    one = outcome(1, 100, 110)
    several = replace(one, live=Live(2, 2, {("receiving_rate", FLOWS[0]): [100.0, 220.0]}))
    assert [pair.error for pair in several.pairs] == [pytest.approx(0.1), -0.5]
    assert score("receiving_rate", [several]).values == 2
    assert score("receiving_rate", [several]).conditions == 1


@pytest.mark.parametrize(
    ("metric", "live", "error"),
    [
        ("nacks", 0.0, nan),
        ("nacks", 1.0, 1.0),
        ("retransmission_share", 1.0, nan),
        ("retransmission_share", 1.6, 0.25),
    ],
)
def test_small_values_have_no_relative_error(metric: str, live: float, error: float) -> None:
    [pair] = outcome(1, live, 2.0, metric).pairs
    assert pair.error == pytest.approx(error, nan_ok=True)


@pytest.mark.parametrize(
    ("live", "simulated", "alone"),
    [(True, 20, False), (True, 19, True), (False, 20, True), (False, 0, False)],
)
def test_a_call_connects_on_one_side_only_if_most_of_the_other_side_do_not(
    live: bool, simulated: int, alone: bool
) -> None:
    one = outcome(1, 1, 1, live_connected=live, connected=simulated)
    assert one.connects_on_one_side_only is alone


def test_rows_survive_the_file_with_six_digits(tmp_path: Path) -> None:
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
    assert read_outcomes(tmp_path / "none.csv", [one]) == {}


def test_a_score_is_the_median_error_the_share_within_ten_per_cent_and_the_coverage() -> None:
    found = score("receiving_rate", [outcome(1, 100, 95), outcome(3, 100, 108), outcome(5, 100, 150)])
    assert (found.conditions, found.values, found.errors) == (3, 3, 3)
    assert found.error == pytest.approx(0.08)
    assert found.close == found.coverage == pytest.approx(2 / 3)
    assert found.level == pytest.approx(0.95)


def test_a_live_zero_counts_for_the_coverage_and_not_for_the_error() -> None:
    found = score("nacks", [outcome(1, 0, 5, "nacks"), outcome(3, 100, 150, "nacks")])
    assert (found.values, found.errors, found.error, found.coverage) == (2, 1, 0.5, 0.5)


def held_out(outcomes: Sequence[ConditionOutcome]) -> list[ConditionOutcome]:
    """The same outcomes as if their seeds were held out."""
    return [replace(one, condition=replace(one.condition, group="151-200")) for one in outcomes]


@pytest.mark.parametrize(
    ("simulated", "slack", "cells"),
    [
        (102, 10, "2.0 ≤ 2 | 100 | 100 ≥ 85"),
        (103, 10, "**3.0 > 2** | 100 | 100 ≥ 85"),
        (250, 1, "**150 > 2** | 0.0 | **0.0 < 85**"),
    ],
)
def test_goals_stand_beside_the_figures_of_the_conditions_that_are_held_out(
    simulated: float, slack: float, cells: str
) -> None:
    lines = score_table(
        held_out([outcome(1, 100, simulated, slack=slack)]), {"151-200": "new"}, goals="151-200"
    ).splitlines()
    assert lines[0] == "| metric | new: n | error | ≤ 10 | coverage |"
    assert [line.replace("\u00a0", " ") for line in lines[2:]] == [f"| Receiving rate | 1 (1) | {cells} |"]


def test_the_table_has_a_row_per_known_metric_and_columns_per_group_with_conditions() -> None:
    found = [outcome(1, 100, 103), outcome(3, 0, 1, "nacks"), outcome(2, 100, 105)]
    lines = score_table(found, {"151-200": "new", "odd": "odd", "even": "even"}, goals="151-200").splitlines()
    columns = "n | error | ≤ 10 | coverage"
    assert lines[0] == f"| metric | odd: {columns} | even: {columns} |"
    assert [line.replace("\u00a0", " ") for line in lines[2:]] == [
        "| Receiving rate | 1 (1) | 3.0 | 100 | 100 | 1 (1) | 5.0 | 100 | 100 |",
        "| NACKs | 0/1 (1) | – | – | 100 | – | – | – | – |",
    ]
    assert {line.count("|") for line in lines} == {10}


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


def test_every_compared_metric_has_a_row_and_only_the_new_ones_are_marked() -> None:
    lines = score_table([outcome(1, 100, 100, name) for name in COMPARED], {"odd": "odd"}).splitlines()
    labels = [line.split(" | ")[0].removeprefix("| ") for line in lines[2:]]
    assert labels == [METRICS[name].label + ("" if name in FIRST else "\u00a0†") for name in COMPARED]


def test_the_page_says_which_conditions_alone_know_a_metric_and_what_is_not_compared() -> None:
    _, told = metric_words([outcome(1, 1, 1), outcome(2, 1, 1), outcome(2, 1, 1, "goodput")], GROUPS)
    lines = told.replace("\u00a0", " ").splitlines()
    only = "- Compared only in even seeds of 1 to 100, where alone both sides have values: Goodput †."
    assert lines[0] == only
    assert lines[1].startswith("- No condition here has values of both sides: RTT, ")
    assert "- Not compared, since live calls do not know it: Residual loss." in lines
    assert "- Not compared, since simulated calls do not know it: Memory." in lines
    assert len(lines) == 2 + len(set(not_compared().values()))


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


def test_chances_survive_the_file_with_four_digits(tmp_path: Path) -> None:
    file = tmp_path / "twin.csv"
    write_chances(
        file,
        {("odd", "rtt"): ErrorByChance(0.123456, 0.1, 0.2), ("odd", "nacks"): ErrorByChance(1.0, 0.0, 2.0)},
    )
    assert read_chances(file) == {
        ("odd", "rtt"): ErrorByChance(0.1235, 0.1, 0.2),
        ("odd", "nacks"): ErrorByChance(1.0, 0.0, 2.0),
    }
    assert beside(file, "chance").is_file()
    assert read_chances(tmp_path / "none.csv") == {}


def test_chance_has_a_column_in_the_groups_that_have_some_and_is_told() -> None:
    known = {("odd", "rtt"): ErrorByChance(0.04, 0.01, 0.1)}
    found = [outcome(1, 100, 115, "rtt"), outcome(2, 100, 101, "rtt")]
    lines = score_table(found, {"odd": "odd", "even": "even"}, chances=known).splitlines()
    assert lines[0] == (
        "| metric | odd: n | error | chance | ≤ 10 | coverage | even: n | error | ≤ 10 | coverage |"
    )
    assert {line.count("|") for line in lines} == {11}
    assert "| 15.0 | 4.0 [1.0, 10.0] | 0.0 | 0.0 |" in lines[2].replace("\u00a0", " ")
    told = goal_words(found[:1], "these", chances={"rtt": ErrorByChance(0.04, 0.01, 0.1)})
    assert "Of 1 median errors, 1 are larger than any of chance (RTT)." in told
    assert "By chance alone, 1 of the 1 median errors miss their goal." in told


def test_the_number_of_goals_reached_is_told() -> None:
    found = [outcome(1, 100, 102), outcome(3, 100, 200, "rtt"), outcome(5, 100, 101, "frame_rate")]
    assert "1 of 2 median errors, 2 of 3 coverages." in goal_words(found, "these")
    # Nothing about the probability, because every repeat knows everything.
    assert len(goal_words(found, "these").splitlines()) == 2
    fewer = Simulated(39, 20, {("rtt", FLOWS[0]): PredictionRange(100, 90, 110, 19)})
    told = goal_words([*found, replace(outcome(7, 100, 100, "rtt"), simulated=fewer)], "these")
    # The mean of 38/40 and 18/20.
    assert "between 92.5 % and 95.0 %" in told


def test_every_goal_is_of_a_compared_metric_and_below_one() -> None:
    assert {score(name, [outcome(1, 100, 100, name)]).values for name in GOALS} == {1}
    assert all(0 < goal < 1 for goal in GOALS.values())


def test_the_rate_is_told_apart_by_loss_on_the_wire() -> None:
    found = dict(figures([outcome(1, 100, 95), outcome(3, 100, 108), outcome(5, 100, 150)]))
    # Of the three, only seed 1 has no loss.
    assert found["rate without loss on the wire, median error; within 10 %"] == "5.0 %; 100 %"
    assert found["rate with loss on the wire, median error; within 10 %"] == "29.0 %; 50.0 %"


def test_heights_of_neighbouring_steps_are_not_the_same_step() -> None:
    def same(live: float, simulated: float) -> str:
        return dict(figures([outcome(1, live, simulated, "frame_height")]))["same step of resolution"]

    assert same(480, 450) == "100 %"
    assert same(480, 360) == "0.0 %"
    assert same(360, 320) == "100 %"
    assert same(360, 240) == "0.0 %"


def test_ticks_are_one_two_and_five_of_each_decade_or_only_one_of_many() -> None:
    assert ticks(math.log10(90), math.log10(1500))[1] == ["100", "200", "500", "1000"]
    assert ticks(math.log10(0.9), math.log10(15000))[1] == ["1", "10", "100", "1000", "10000"]


def test_an_empirical_distribution_rises_at_each_value_by_its_share() -> None:
    places, shares = steps(np.array([1.0, 4.0]))
    assert places.tolist() == [1, 1, 4]
    assert shares.tolist() == [0, 50, 100]


def test_dots_and_bars_stay_inside_the_axes_and_zeros_are_counted() -> None:
    found = [
        outcome(1, 100, 100, "nacks", slack=1000),
        outcome(3, 0, 10, "nacks"),
        outcome(5, 10, 10, "nacks"),
    ]
    [rates, scatter, _] = drawings([*found, outcome(2, 100, 100)], GROUPS)
    assert [axes.title for axes in rates.axes] == ["even seeds of 1 to 100"]
    assert (rates.x.label, rates.y.label) == ("Receiving rate, live (kbit/s)", "simulated (kbit/s)")
    [axes] = scatter.axes
    _, dots = axes.marks
    for values in (dots.x, dots.y, dots.low, dots.high):  # type: ignore[union-attr]
        assert len(values) == 2
        assert all(scatter.y.begin <= value <= scatter.y.end for value in values)
    assert axes.note == "1 with a zero are not drawn"


def test_meetings_are_compared_by_the_same_functions(tmp_path: Path) -> None:
    """A call of three over an SFU has six flows of media and six of transport; both sides know the same."""
    scenario = Scenario.read(
        {
            "name": "meeting",
            "duration": "5 s",
            "participants": {"alice": {}, "bob": {}, "carol": {}},
            "calls": [{"kind": "sfu", "participants": ["alice", "bob", "carol"]}],
            "video": {"width": 320, "height": 180},
        },
        "meeting",
    )
    three = CallCondition("three", "three over an SFU", scenario, "meetings")
    simulated = simulate([three], tmp_path, 3)["three"]
    second = Experiment({"three": Condition(scenario, repeats=[1])}).run(out=tmp_path)
    live = live_of(second)
    one = ConditionOutcome(three, live, simulated)
    assert (live.connected, simulated.connected) == (1, 3)
    assert {pair.expected.known for pair in one.pairs} == {3}
    rates = [pair for pair in one.pairs if pair.metric == "receiving_rate"]
    frames = [pair for pair in one.pairs if pair.metric == "frame_rate"]
    ends = ("alice", "bob", "carol")
    between = {f"{a}->{b}" for a in ends for b in ends if a != b}
    assert {pair.flow for pair in frames} == between
    assert {pair.flow for pair in rates} - between == {f"{a}->core" for a in ends} | {
        f"core->{a}" for a in ends
    }
    # The live call is repeat 1 of the simulated ones.
    assert all(pair.covered for pair in one.pairs)
    # A metric of the whole call has no flow.
    assert [pair.metric for pair in one.pairs if not pair.flow] == ["fairness"]
    lines = "\n".join(errors([one], {"meetings": "meetings"})).splitlines()
    assert "| metric | meetings: n | error | ≤ 10 | coverage |" in lines
    assert drawings([one], {"meetings": "meetings"})[0].axes[0].title == "meetings"


def test_the_page_names_the_worst_with_their_reasons_and_keeps_notes(tmp_path: Path) -> None:
    (tmp_path / "twin-reasons.csv").write_text("name,reason\n5,the queue\n")
    page = tmp_path / "twin.md"
    outcomes = [outcome(seed, 100, 100 + seed) for seed in range(1, 13)]
    write_twin(page, outcomes, tmp_path / "twin.csv")
    page.write_text(page.read_text() + "\nA note.\n")
    write_twin(page, outcomes, tmp_path / "twin.csv")
    text = page.read_text()
    assert "+12%" in text
    # The simulated value is too large by its seed, and its interval is 10 below and above it.
    assert "8 of these 10 live values lie in the simulated interval." in text
    assert f"| 5 | {draw(5).words}. **the queue** | alice → bob | 100 | 105 [95,\u00a0115] | +5% |" in text
    assert "| +2% |" not in text
    assert "## The same conditions again" not in text
    assert text.endswith("A note.\n")
    for drawing in drawings(outcomes, GROUPS):
        assert f"(twin-{drawing.name}.svg)" in text
        assert page.with_name(f"twin-{drawing.name}.svg").is_file()


def test_a_page_of_no_conditions_can_be_written(tmp_path: Path) -> None:
    write_twin(tmp_path / "twin.md", [], tmp_path / "twin.csv")
    text = (tmp_path / "twin.md").read_text()
    assert text.startswith("# The twin")
    assert "![" not in text
    assert not list(tmp_path.glob("*.svg"))


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
