"""The sections on recorded networks and meetings: which conditions they have, and which calls they mark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rtclab.metrics import METRICS
from rtclab_papers.validate import meetings
from rtclab_papers.validate.kept import Kept, write_kept
from rtclab_papers.validate.outcomes import Live, Outcome, Simulated, expected
from rtclab_papers.validate.sections import SHOWN, chosen, section

RATE = ("receiving_rate", "alice->bob")


def outcome(rates: Sequence[float], simulated: float, *, connected: int, disturbed: str = "") -> Outcome:
    """A meeting of three with these live rates and a simulated one."""
    live = Live(2, connected, {RATE: list(rates)}, disturbed=disturbed)
    return Outcome(meetings.meeting(3, "mesh"), live, Simulated(39, 39, {RATE: expected([simulated] * 39)}))


def row(one: Outcome) -> list[str]:
    """The cells of the condition's row."""
    [line] = [
        line
        for line in section(["## Meetings"], [one], meetings.GROUP)
        if line.startswith("| meeting-3-mesh")
    ]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_condition_has_the_median_of_its_errors() -> None:
    """110 against 100 is 10 %, against 125 it is 12 %: 11 % in the middle."""
    cells = row(outcome([100.0, 125.0], 110.0, connected=2))
    assert cells[1] == "2"
    assert cells[2 + SHOWN.index("receiving_rate")] == "11.0 %"
    assert cells[2 + SHOWN.index("rtt")] == "–"
    assert len(cells) == 2 + len(SHOWN)


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
    assert lines == [*section(meetings.introduction(), [one], meetings.GROUP)]


def test_the_shown_metrics_exist() -> None:
    assert set(SHOWN) <= METRICS.keys()
