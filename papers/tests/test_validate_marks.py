"""Random calls behind queues that mark: the conditions and their page."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from test_validate_outcomes import FLOWS

from rtclab.metrics import PredictionRange
from rtclab_papers.validate import marks
from rtclab_papers.validate.marks_page import AIMED, AIMS, SHOWN, write_marks
from rtclab_papers.validate.outcomes import COMPARED, ConditionOutcome, Live, Simulated


def test_a_seed_always_gives_the_same_condition_and_another_seed_another() -> None:
    assert marks.draw(7) == marks.draw(7)
    assert len({condition.words for condition in marks.conditions()}) == len(marks.conditions()) == 60


def test_half_of_each_half_of_scream_is_behind_queues_that_mark_and_goog_cc_behind_each_queue() -> None:
    queues = Counter()
    for condition in marks.conditions():
        for name in condition.scenario.participants:
            queue = condition.scenario.link_of(name).up.queue
            queues[condition.group, getattr(queue, "aqm", "droptail")] += 1
    by_group = {group: Counter() for group in marks.GROUPS}
    for (group, aqm), count in queues.items():
        by_group[group]["droptail" if aqm == "droptail" else "managed"] += count
    assert by_group[marks.LEARNED] == by_group[marks.HELD_OUT] == {"droptail": 20, "managed": 20}
    assert {aqm: queues[marks.GOOG_CC, aqm] for aqm in marks.MANAGED} == dict.fromkeys(marks.MANAGED, 10)


def test_every_condition_has_a_control_and_queues_as_its_words_say() -> None:
    for condition in marks.conditions():
        control = condition.scenario.congestion_control.name
        assert condition.words.startswith(f"{control};")
        assert (condition.group == marks.GOOG_CC) == (control == "goog-cc")


def outcome(name: str, group: str, live: float, simulated: float, metric: str) -> ConditionOutcome:
    condition = marks.draw(int(name))
    assert condition.group == group
    said = {(metric, flow): PredictionRange(simulated, simulated - 1, simulated + 1, 39) for flow in FLOWS}
    return ConditionOutcome(
        condition,
        Live(1, 1, {(metric, flow): [live] for flow in FLOWS}),
        Simulated(39, 39, said),
    )


def test_the_page_compares_the_held_out_half_with_its_goals_and_not_the_other(tmp_path: Path) -> None:
    page = tmp_path / "marks.md"
    found = [
        outcome("2", marks.HELD_OUT, 100, 104, "receiving_rate"),
        outcome("1", marks.LEARNED, 100, 104, "receiving_rate"),
        outcome("101", marks.GOOG_CC, 100, 102, "receiving_rate"),
    ]
    write_marks(page, found, tmp_path / "data" / "marks.csv")
    text = page.read_text().replace("\u00a0", " ")
    assert text.count("**4.0 > 3**") == 1
    assert text.count("| 4.0 |") == 1
    assert "2.0 ≤ 3" in text
    assert all(words in text for words in marks.GROUPS.values())
    assert (tmp_path / "marks-receiving_rate.svg").is_file()


@pytest.mark.parametrize("metric", [*AIMS, *SHOWN])
def test_what_the_page_aims_at_and_shows_is_compared(metric: str) -> None:
    assert metric in COMPARED
    assert set(AIMED) < set(marks.GROUPS)
