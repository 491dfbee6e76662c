"""The sections on recorded networks and meetings: which conditions they have, and which calls they mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from rtclab.metrics import METRICS, prediction_range
from rtclab_papers.validate import meetings
from rtclab_papers.validate.outcomes import ConditionOutcome, Live, Simulated
from rtclab_papers.validate.scores import condition_table
from rtclab_papers.validate.twin_page import SHOWN, section

RATE = ("receiving_rate", "alice->bob")


def outcome(
    rates: Sequence[float], simulated: float, *, connected: int, disturbed: str = ""
) -> ConditionOutcome:
    """A meeting of three with these live rates and a simulated one."""
    live = Live(2, connected, {RATE: list(rates)}, disturbed=disturbed)
    return ConditionOutcome(
        meetings.meeting(3, "mesh"), live, Simulated(39, 39, {RATE: prediction_range([simulated] * 39)})
    )


def lines_of(outcomes: Sequence[ConditionOutcome]) -> list[str]:
    """The lines of the section on meetings."""
    return "\n".join(section(["## Meetings"], outcomes, meetings.GROUPS)).splitlines()


def row(one: ConditionOutcome) -> list[str]:
    """The cells of the condition's row."""
    [line] = [line for line in lines_of([one]) if line.startswith("| meeting-3-mesh")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_condition_has_the_median_of_its_errors() -> None:
    """110 against 100 is 10 %, against 125 it is 12 %: 11 % in the middle."""
    assert row(outcome([100.0, 125.0], 110.0, connected=2)) == ["meeting-3-mesh", "2", "11.0 %"]


def test_the_rows_have_the_metrics_that_some_condition_knows() -> None:
    one = outcome([100.0], 110.0, connected=2)
    rtt = {("rtt", "alice->bob"): [1.0]}
    other = replace(
        one,
        live=replace(one.live, values=rtt),
        simulated=Simulated(1, 1, {key: prediction_range([1.5]) for key in rtt}),
    )
    lines = condition_table([one, other], SHOWN).splitlines()
    assert lines[0] == "| condition | live calls | Receiving rate | RTT |"
    assert lines[2:] == ["| meeting-3-mesh | 2 | 10.0 % | – |", "| meeting-3-mesh | 2 | – | 50.0 % |"]


@pytest.mark.parametrize(
    ("disturbed", "values", "told"),
    [
        (0, 6, ""),
        (1, 5, "It is left out of the table."),
        (2, 6, "It is counted all the same, since more than one in six were disturbed."),
    ],
)
def test_at_most_one_in_six_disturbed_conditions_is_left_out_and_its_row_stays(
    disturbed: int, values: int, told: str
) -> None:
    known = Simulated(39, 39, {RATE: prediction_range([110.0] * 39)})
    calls = [Live(1, 1, {RATE: [100.0]}, tries=3, disturbed="emulator late") for _ in range(disturbed)] + [
        Live(1, 1, {RATE: [100.0]})
    ] * (6 - disturbed)
    found = [
        ConditionOutcome(condition, live, known)
        for condition, live in zip(meetings.known_conditions(), calls, strict=True)
    ]
    lines = [line.replace("\u00a0", " ") for line in lines_of(found)]
    assert f"| Receiving rate | {values} ({values}) | 10.0 | 100 | 0.0 |" in lines
    assert sum("1 (disturbed) | 10.0 %" in line for line in lines) == disturbed
    assert sum(line.endswith("at each of 3") for line in lines) == disturbed
    assert [line.partition(". ")[2] for line in lines if line.startswith("tries, ")] == [told] * disturbed


def test_calls_that_did_not_connect_or_were_disturbed_are_told() -> None:
    assert row(outcome([100.0], 110.0, connected=1))[1] == "2 (1 not connected)"
    assert row(outcome([100.0], 110.0, connected=1, disturbed="late"))[1] == "2 (1 not connected, disturbed)"
    assert row(outcome([100.0], 110.0, connected=2, disturbed="late"))[1] == "2 (disturbed)"


def test_the_shown_metrics_exist() -> None:
    assert set(SHOWN) <= METRICS.keys()
