"""The plan of a session crosses into the lab as JSON, and arrives as it was."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
from scenario_text import scenario

from rtclab.backend.live.plan import SessionPlan, session_plan
from rtclab.backend.live.user.invitations import InvitedPlace
from rtclab.trace import TraceManifest

TABLES = """
[servers.sfu]
kind = "str0m"
signalling = "whip"
token = "secret"
[[calls]]
kind = "sfu"
server = "sfu"
"""
USER_PAGE = """
[participants.carol]
page = "https://app/"
steps = [{ at = "2 s", click = "#join" }, { at = "3 s", type = "hi", into = "#name" }]
"""


@pytest.fixture
def _no_browser(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "rtclab.backend.live.browsers.launch_options"
    monkeypatch.setattr(f"{module}.find_chromium", lambda: "/bin/echo")
    monkeypatch.setattr(f"{module}.prepare", lambda *_: {"camera": "/clip.y4m", "microphone": None})


@pytest.mark.usefixtures("_no_browser")
@pytest.mark.parametrize("tables", [TABLES, USER_PAGE])
def test_a_plan_is_the_same_behind_the_json_that_crosses_into_the_lab(tmp_path: Path, tables: str) -> None:
    asked = scenario(
        tmp_path, tables, "participants.alice.nat=udp-blocked", "congestion_control.name=goog-cc"
    )
    made = session_plan(asked, seed=7, repeat=1, out=tmp_path).model_copy(
        update={
            "cpu_groups": {"bob": "/sys/group"},
            "invited": {"dan": InvitedPlace("10.0.0.1", 1, 3, 4, 9.5)},
        }
    )
    made.paths["limit"] = [math.inf]
    crossed = SessionPlan.from_json(json.loads(json.dumps(made.to_json())))
    assert crossed == made
    assert isinstance(crossed.manifest, TraceManifest)
    assert (crossed.out, crossed.call["seed"]) == (tmp_path, 7)
    assert crossed.tcp_to_relay == {"alice"}
    assert [one.number for one in crossed.connections] == list(range(len(crossed.connections)))
