"""Kinds of calls: what is drawn, that both backends can run it, and the section with both halves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from test_validate_outcomes import outcome

from rtclab.backend import backend
from rtclab.backend.live import check_participant
from rtclab.cli import main
from rtclab.errors import BackendUnavailable
from rtclab.scenario import Scenario
from rtclab.scenario.path import Jitter
from rtclab_papers.validate.conditions import CallCondition
from rtclab_papers.validate.kinds import GROUPS, draw, known_conditions
from rtclab_papers.validate.outcome_files import write_outcomes
from rtclab_papers.validate.outcomes import SIMULATED_REPEATS
from rtclab_papers.validate.twin import stored

ALL = known_conditions()
HALVES = {group: [one for one in ALL if one.group == group] for group in GROUPS}


def sends(scenario: Scenario) -> tuple[bool, ...]:
    """Whether alice and bob have a camera, and whether they have a microphone."""
    media = (scenario.video_of, scenario.audio_of)
    return tuple(of(name) is not None for of in media for name in ("alice", "bob"))


def size(scenario: Scenario) -> tuple[int, int] | None:
    video = scenario.video_of("alice")
    return None if video is None else (video.width, video.height)


def frame_rate(scenario: Scenario) -> float | None:
    video = scenario.video_of("alice")
    return None if video is None else video.frame_rate


def queues(scenario: Scenario) -> set[str]:
    """The disciplines of the uplinks."""
    ups = [scenario.link_of(name).up for name in scenario.participants]
    return {getattr(up.queue, "aqm", "droptail") for up in ups}


def reorders(scenario: Scenario) -> bool:
    jitters = [scenario.link_of(name).up.jitter for name in scenario.participants]
    return any(isinstance(one, Jitter) and one.reorder for one in jitters)


KINDS: dict[str, Callable[[Scenario], bool]] = {
    "both ways, no sound": lambda one: sends(one) == (True, True, False, False),
    "both ways, sound": lambda one: sends(one) == (True, True, True, True),
    "one way, no sound": lambda one: sends(one) == (True, False, False, False),
    "one way, sound": lambda one: sends(one) == (True, False, True, False),
    "sound alone": lambda one: sends(one) == (False, False, True, True),
    "320x180": lambda one: size(one) == (320, 180),
    "640x360": lambda one: size(one) == (640, 360),
    "640x480": lambda one: size(one) == (640, 480),
    "1280x720": lambda one: size(one) == (1280, 720),
    "15 frames/s": lambda one: frame_rate(one) == 15,
    "30 frames/s": lambda one: frame_rate(one) == 30,
    "relay": lambda one: [call.relay for call in one.calls] == ["turn"],
    "direct": lambda one: [call.relay for call in one.calls] == [None],
    "CUBIC": lambda one: [name.congestion_control for name in one.traffic.values()] == ["cubic"],
    "alone": lambda one: not one.traffic,
    "drop-tail": lambda one: "droptail" in queues(one),
    "CoDel": lambda one: "codel" in queues(one),
    "FQ-CoDel": lambda one: "fq_codel" in queues(one),
    "PIE": lambda one: "pie" in queues(one),
    "reordering": reorders,
    "no reordering": lambda one: not reorders(one),
}


def test_a_seed_always_gives_the_same_condition_and_another_seed_another() -> None:
    assert draw(7) == draw(7)
    assert len({one.words for one in ALL}) == len(ALL) == 30


@pytest.mark.parametrize("half", GROUPS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_half_has_every_kind(kind: str, half: str) -> None:
    assert [one.name for one in HALVES[half] if KINDS[kind](one.scenario)]


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_both_backends_can_run_every_condition(one: CallCondition) -> None:
    """A machine without browsers, iperf3 or a TURN server still says whether live calls know the fields."""
    backend("sim").check(one.scenario)
    for name in one.scenario.participants:
        check_participant(one.scenario, name)
    with suppress(BackendUnavailable):
        backend("live").check(one.scenario)


@pytest.mark.parametrize("one", ALL, ids=lambda one: one.name)
def test_packets_overtake_each_other_where_the_words_say_so(one: CallCondition) -> None:
    """Both backends read the network in this form."""
    paths: list[dict[str, dict[str, object] | None]] = one.scenario.network()["paths"]  # type: ignore[assignment]
    reordered = [path["jitter"]["reorder"] for path in paths if path["jitter"] is not None]
    assert any(reordered) == reorders(one.scenario) == ("with reordering" in one.words)


def test_beside_tcp_no_uplink_loses_packets_on_the_wire() -> None:
    assert not [one.name for one in ALL if one.scenario.traffic and one.loses]
    assert [one.name for one in ALL if one.loses]


def test_the_command_makes_the_page_of_what_is_kept(tmp_path: Path) -> None:
    """Nothing is kept in the first place. The live call is in the rows then; one of it is simulated."""
    page, rows = tmp_path / "twin.md", tmp_path / "data" / "twin-kinds.csv"
    command = ["validate", "kinds", "--keep-live", "--page", str(page), "--out", str(tmp_path / "runs")]

    def run() -> None:
        with pytest.raises(SystemExit, match="0"):
            main(command)

    run()
    assert "Kinds of calls" not in page.read_text()
    write_outcomes(rows, [outcome(0, 100, 110, condition=draw(13))])
    run()
    text = page.read_text()
    assert "## Kinds of calls" in text
    assert "| kind-13 | 1 |" in text
    [found] = stored([draw(13)], rows)
    assert found.simulated.calls == SIMULATED_REPEATS
