"""The table of fields that a backend ignores is true: they change nothing, and the others do."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import Rtclab

import rtclab as lab
from rtclab.scenario import Scenario
from rtclab.scenario.descriptions import descriptions
from rtclab.scenario.ignored import IGNORED, SIM, ignored_fields, is_ignored
from rtclab.scenario.model import ScenarioTables
from rtclab.scenario.participant import Audio, Browser, Server, Video

CALL = """
name = "call"
duration = "4 s"
[participants.alice]
video.start_bitrate = "400 kbit/s"
[participants.bob]
[[calls]]
kind = "KIND"
server = "box"
[servers.box]
[video]
width = 960
height = 540
[audio]
[link]
up = { capacity = "700 kbit/s", delay = "10 ms", queue = "100 ms", loss = "3 %" }
"""
WHIP = {"kind": "whip", "whip": "http://box:8080/whip/{name}", "whep": "http://box:8080/whep/{sender}"}
IGNORED_VALUES: dict[str, dict[str, Any]] = {
    "internet": {"internet": True},
    "browser.name": {"browser.name": "firefox"},
    "browser.field_trials": {"browser.field_trials": "A/B/"},
    "browser.encryption": {"browser.encryption": False},
    "browser.args": {"participants.alice.browser.args": ["--mute-audio"]},
    "video.file": {"participants.alice.video.file": "camera.mp4"},
    "audio.file": {"audio.file": "sound.wav"},
    "servers.box.signalling": {"servers.box": {"kind": "str0m", "signalling": "whip"}},
    "servers.box.whip": {"servers.box": WHIP},
    "servers.box.whep": {"servers.box": WHIP},
    "servers.box.token": {"servers.box": WHIP | {"token": "abc"}},
    "servers.box.command": {"servers.box.command": "npm start"},
    "servers.box.port": {"servers.box": {"command": "npm start", "port": 3000}},
    "servers.box.directory": {"servers.box": {"command": "npm start", "directory": "/tmp"}},
}
"""For each field that the simulator ignores, changes that set it."""
USED_VALUES = {
    "duration": "5 s",
    "seed": 2,
    "record": "seconds",
    "congestion_control.name": "scream",
    "link.up.delay": "20 ms",
    "host.encoder_capacity": "1 Mpixel/s",
    "bottlenecks": {"shared": {"routes": ["*->*"], "capacity": "500 kbit/s"}},
    "traffic": {"web": {"sender": "alice", "receiver": "bob"}},
    "participants.bob.join": "1 s",
    "video.width": 320,
    "video.height": 240,
    "video.frame_rate": 15,
    "video.camera": "steady",
    "video.codec": "vp8-2013",
    "video.device": "android-2016",
    "video.repair": "none",
    "video.max_bitrate": "500 kbit/s",
    "video.min_bitrate": "290 kbit/s",
    "video.start_bitrate": "200 kbit/s",
    "audio.bitrate": "64 kbit/s",
    "audio.frame": "60 ms",
    "servers.box.kind": "str0m",
    "servers.box.link.up.delay": "20 ms",
    "servers.box.congestion_control.name": "scream",
    "servers.box.host.encoder_capacity": "1 Mpixel/s",
    "servers.box.video.frame_rate": 10,
    "servers.box.audio.bitrate": "64 kbit/s",
}
"""Fields that the simulator uses, each with another value."""
OTHERS = {
    ScenarioTables: {"name", "title", "source", "repeats", "participants", "calls", "servers", "app"},
    Video: {"adapt", "simulcast"},
    Server: set[str](),
    Audio: set[str](),
    Browser: set[str](),
}
"""Fields that only name a scenario or contain others, and fields that the simulator refuses."""
OF_MIXERS = ("host", "video", "audio")


def results(tmp_path: Path, kind: str, changes: dict[str, Any]) -> str:
    file = tmp_path / "call.toml"
    file.write_text(CALL.replace("KIND", kind))
    trace = lab.simulate(Scenario.load(file, changes))
    return json.dumps([trace.table(name).write_json() for name in trace.tables if name != "paths"])


def kind_for(path: str) -> str:
    """The kind of call in which a server uses a field."""
    return "mixing-mcu" if path.startswith("servers.") and path.split(".")[2] in OF_MIXERS else "sfu"


@pytest.mark.parametrize("path", IGNORED_VALUES)
def test_a_field_that_the_simulator_ignores_changes_no_result(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    changes = IGNORED_VALUES[path]
    # Servers of WHIP are simulated like rtclab's own.
    server = changes.get("servers.box")
    base = {"servers.box.kind": "str0m"} if isinstance(server, dict) and "kind" in server else {}
    # Texts of megabytes are compared here, because pytest would take minutes to show how they differ.
    is_same = results(tmp_path, "sfu", changes) == results(tmp_path, "sfu", base)
    assert is_same
    changed = Scenario.load(tmp_path / "call.toml", changes).model_dump(mode="json")
    assert is_ignored(path, SIM)
    assert path.endswith("directory") or any(name.endswith(path) for name in ignored_fields(changed, SIM))
    assert ignored_fields(Scenario.load(tmp_path / "call.toml").model_dump(mode="json"), SIM) == {}


@pytest.mark.parametrize("path", USED_VALUES)
def test_a_field_that_is_not_in_the_table_changes_the_result(path: str, tmp_path: Path) -> None:
    kind = kind_for(path)
    assert not is_ignored(path, SIM)
    changed = results(tmp_path, kind, {path: USED_VALUES[path]})
    assert changed != results(tmp_path, kind, {})


@pytest.mark.parametrize("table", OTHERS)
def test_every_field_of_these_tables_is_tried(table: type) -> None:
    prefix = {ScenarioTables: "", Server: "servers.box."}.get(table, f"{table.__name__.lower()}.")
    tried = {path.removeprefix(prefix).partition(".")[0] for path in (*IGNORED_VALUES, *USED_VALUES)
             if path.startswith(prefix)}  # fmt: skip
    assert set(table.model_fields) - OTHERS[table] <= tried  # type: ignore[attr-defined]


def test_what_describes_the_fields_says_which_are_ignored() -> None:
    for backend, tables in IGNORED.items():
        told = f"{'Simulated' if backend == SIM else 'Live'} calls ignore it."
        for table, fields in tables.items():
            ignored = {name for name, text in descriptions(table).items() if told in text}
            assert ignored == {*fields}


def test_runs_and_comparisons_say_what_has_no_effect(tmp_path: Path, rtclab: Rtclab) -> None:
    Path("call.toml").write_text(CALL.replace("KIND", "sfu"))
    told = "No effect in a simulated call: browser.name = firefox."
    command = ["run", "call.toml", "--no-report"]
    assert told in rtclab(*command, "--set", "browser.name=firefox", "--set", "video.width=320").err
    assert "effect" not in rtclab(*command).err
    differing = rtclab("compare", "call-sim-1", "call-sim-2").out
    assert re.search(r"^browser\.name \(no effect\) +\S* *firefox", differing, re.MULTILINE)
    assert re.search(r"^video\.width +320", differing, re.MULTILINE)
    swept = rtclab("sweep", "call.toml", "--vary", "browser.name=chromium,firefox", "--no-report")
    assert "browser.name was varied, and has no effect in a simulated call." in swept.err
