"""Random calls behind queues that mark: the conditions and their page."""

from __future__ import annotations

from collections import Counter

from rtclab_papers.validate import marks


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
