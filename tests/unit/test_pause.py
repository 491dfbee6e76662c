"""Pauses of a participant's media: in scenarios, on both backends, and what of the flow remains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pytest
from scenario_text import scenario

from rtclab.backend.live.scenario_checks import check_participant
from rtclab.backend.sim import SimBackend
from rtclab.errors import ScenarioError, UnsupportedScenario

PAUSE = 'participants.bob.pause={ start = "4 s", end = "7 s" }'
S = 10**9


def test_a_pause_is_handed_over_in_nanoseconds(tmp_path: Path) -> None:
    native: Any = scenario(tmp_path, "", PAUSE).native(seed=1)
    pauses = {one["name"]: one["pause"] for one in native["participants"]}
    assert pauses == {"alice": None, "bob": {"start_ns": 4 * S, "end_ns": 7 * S}}


@pytest.mark.parametrize("end", ["4 s", "3 s"])
def test_a_pause_ends_after_it_began(tmp_path: Path, end: str) -> None:
    with pytest.raises(ScenarioError, match=rf"participants\.bob\.pause\.end: `{end}` is not after start"):
        scenario(tmp_path, "", f'participants.bob.pause={{ start = "4 s", end = "{end}" }}')


def test_pages_of_live_calls_do_not_pause(tmp_path: Path) -> None:
    paused = scenario(tmp_path, "", PAUSE)
    check_participant(paused, "alice")
    with pytest.raises(UnsupportedScenario) as refused:
        check_participant(paused, "bob")
    assert refused.value.field == "participants.bob.pause"


def test_in_a_pause_the_flow_has_feedback_alone_and_the_other_direction_goes_on(tmp_path: Path) -> None:
    paused = scenario(tmp_path, "[audio]", PAUSE, "duration=10 s")
    trace = SimBackend().run(paused, seed=1, repeat=0, out=tmp_path / "trace")
    packets = trace.table("packets").with_columns(second=pl.col("sent_ns") // S)
    media = packets.filter(pl.col("kind").is_in(["audio", "video"]))
    seconds = {flow: set(of["second"]) for (flow,), of in media.group_by("flow")}
    # What was in the pacer when the pause began may leave in its first second.
    assert seconds["bob->alice"] - {4} == {0, 1, 2, 3, 7, 8, 9}
    assert seconds["alice->bob"] == set(range(10))
    feedback = packets.filter(flow="bob->alice", protocol="rtcp")
    assert {5, 6} <= set(feedback["second"])
