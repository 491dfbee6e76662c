"""The sections on recorded networks and meetings: which conditions they have, and which calls they mark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from rtclab.metrics import METRICS
from rtclab_papers.validate import meetings
from rtclab_papers.validate.kept import Kept, write_kept
from rtclab_papers.validate.outcomes import Live, Outcome, Simulated, expected
from rtclab_papers.validate.sections import SHOWN, by_condition, chosen, section

RATE = ("receiving_rate", "alice->bob")


def outcome(rates: Sequence[float], simulated: float, *, connected: int, disturbed: str = "") -> Outcome:
    """A meeting of three with these live rates and a simulated one."""
    live = Live(2, connected, {RATE: list(rates)}, disturbed=disturbed)
    return Outcome(meetings.meeting(3, "mesh"), live, Simulated(39, 39, {RATE: expected([simulated] * 39)}))


def row(one: Outcome) -> list[str]:
    """The cells of the condition's row."""
    [line] = [
        line
        for line in section(["## Meetings"], [one], meetings.GROUPS)
        if line.startswith("| meeting-3-mesh")
    ]
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
        simulated=Simulated(1, 1, {key: expected([1.5]) for key in rtt}),
    )
    lines = [*by_condition([one, other], SHOWN)]
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
    known = Simulated(39, 39, {RATE: expected([110.0] * 39)})
    calls = [Live(1, 1, {RATE: [100.0]}, tries=3, disturbed="emulator late") for _ in range(disturbed)] + [
        Live(1, 1, {RATE: [100.0]})
    ] * (6 - disturbed)
    found = [
        Outcome(condition, live, known) for condition, live in zip(meetings.conditions(), calls, strict=True)
    ]
    lines = [line.replace("\u00a0", " ") for line in section(["## Meetings"], found, meetings.GROUPS)]
    assert f"| Receiving rate | {values} ({values}) | 10.0 | 100 | 0.0 |" in lines
    assert sum("1 (disturbed) | 10.0 %" in line for line in lines) == disturbed
    assert sum(line.endswith("at each of 3") for line in lines) == disturbed
    assert [line.partition(". ")[2] for line in lines if line.startswith("tries, ")] == [told] * disturbed


def test_calls_that_did_not_connect_or_were_disturbed_are_told() -> None:
    assert row(outcome([100.0], 110.0, connected=1))[1] == "2 (1 not connected)"
    assert row(outcome([100.0], 110.0, connected=1, disturbed="late"))[1] == "2 (1 not connected, disturbed)"
    assert row(outcome([100.0], 110.0, connected=2, disturbed="late"))[1] == "2 (disturbed)"


def test_only_what_is_kept_has_a_section(tmp_path: Path) -> None:
    assert [*chosen(tmp_path, "twin")] == []
    one = outcome([100.0], 110.0, connected=2)
    kept = Kept(one.condition.words, one.condition.group, one.live, one.simulated)
    write_kept(tmp_path / "twin-meetings.csv", {one.condition.name: kept})
    lines = [*chosen(tmp_path, "twin")]
    assert [line for line in lines if line.startswith("#")] == ["## Meetings"]
    assert lines == [*section(meetings.introduction(), [one], meetings.GROUPS)]


def test_the_shown_metrics_exist() -> None:
    assert set(SHOWN) <= METRICS.keys()
