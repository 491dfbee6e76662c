"""The plan of a session crosses into the lab as JSON, arrives as it was, and is followed."""

from __future__ import annotations

import asyncio
import json
import math
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
from scenario_text import scenario

from rtclab.backend.live import session
from rtclab.backend.live.lab.namespaces import Node
from rtclab.backend.live.plan import SessionPlan, session_plan
from rtclab.backend.live.user.invitations import InvitedPlace
from rtclab.errors import CallFailed
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
[servers.app]
command = "npm start"
port = 8080
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
            "cpu_cores": {"bob": 0.5},
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


@pytest.mark.usefixtures("_no_browser")
def test_browsers_are_started_as_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without namespaces: ``true`` runs in place of each browser."""
    started: dict[str, list[str]] = {}

    def spawn(node: str, command: list[str], **options: Any) -> subprocess.Popen[bytes]:
        started[node] = command
        return subprocess.Popen(["true"], **options)

    def listen(node: str, address: str, port: int = 0) -> socket.socket:
        return socket.create_server(("127.0.0.1", 0))

    for name, stand_in in (
        ("spawn_in_node", spawn),
        ("listen_in_node", listen),
        ("HOMES", tmp_path / "homes"),
    ):
        monkeypatch.setattr(session, name, stand_in)
    asked = scenario(tmp_path, USER_PAGE, "browser.field_trials=My-Trial/Enabled/")
    made = session_plan(asked, seed=7, repeat=1, out=tmp_path)
    made = made.model_copy(update={"cpu_groups": {"bob": "/sys/group"}})

    async def start() -> session.Session:
        app = Node("app", "10.77.0.9", "02:77:00:00:00:01", "port0")
        running = session.Session(SessionPlan.from_json(made.to_json()), [app])
        running.fail = lambda reason, kind=CallFailed: None  # type: ignore[method-assign]
        for participant in made.call["participants"]:
            await running._add_participant(participant, "ws://core/signalling?")
        await asyncio.gather(*(runner.cleanup() for runner in running._runners))
        return running

    running = asyncio.run(start())
    assert list(running._participants) == list(started) == ["alice", "bob", "carol"]
    assert running._participants["carol"].address == "https://app/"
    assert started["alice"][:4] == ["nice", "-n", "10", "/bin/echo"]
    assert started["bob"][:2] == ["sh", "-c"]
    assert {"/sys/group", "--force-fieldtrials=My-Trial/Enabled/"} < set(started["bob"])
    assert started["alice"][-1].startswith("http://127.0.0.1:")
    assert "--use-file-for-fake-video-capture=/clip.y4m" in started["alice"]
    assert started["carol"][-1] == "about:blank"
    secure = "--unsafely-treat-insecure-origin-as-secure=http://app:8080,http://10.77.0.9:8080"
    assert secure in started["carol"]
    assert "--remote-debugging-port=0" in started["carol"]
    server = running._participants["alice"].server
    assert server is not None
    assert server._configuration["signalling"] == "ws://core/signalling?"
    assert {"ice", "rooms", "resources", "video", "connections"} < server._configuration.keys()
