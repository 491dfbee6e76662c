"""The rooms of ``backend/live`` import only what is below them; the session alone knows them all."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

LIVE = Path(__file__).parents[2] / "python" / "rtclab" / "backend" / "live"

MAY_IMPORT: dict[str, set[str]] = {
    # The vocabulary of all rooms.
    "messages": set(),
    "connections": set(),
    "lab": {"messages", "connections"},
    "records": {"messages", "connections"},
    "browsers": {"messages", "connections", "lab"},  # their processes and sockets are in nodes
    "servers": {"messages", "connections", "lab"},  # so are those of servers
    # A page of the user's own is driven in a browser. An invited browser gets rtclab's page, and a TURN
    # server at its node. The reports of both are checked.
    "user": {"messages", "connections", "lab", "records", "browsers", "servers"},
    # What a scenario may ask for, whether this machine can do it, and what crosses into the lab.
    "scenario_checks": {"lab", "browsers", "servers", "user"},
    "doctor": {"connections", "lab", "browsers", "servers"},
    "plan": {"messages", "connections", "lab", "records", "browsers", "servers", "user"},
    "session": {"messages", "connections", "lab", "records", "browsers", "servers", "user", "plan"},
    "live_backend": {
        *("lab", "records", "browsers", "user"),
        *("plan", "scenario_checks", "doctor"),
    },
    "__init__": {"live_backend"},
}
"""For each room and module of ``backend/live``, in order, the others that it may import."""


def room_of(file: Path) -> str:
    return file.relative_to(LIVE).parts[0].removesuffix(".py")


def imported_rooms(file: Path) -> set[str]:
    names = [
        f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    ]
    return {name.split(".")[3] for name in names if name.startswith("rtclab.backend.live.")}


@pytest.mark.parametrize("room", sorted({room_of(file) for file in LIVE.rglob("*.py")}))
def test_a_room_imports_only_rooms_listed_before_it(room: str) -> None:
    for file in (file for file in LIVE.rglob("*.py") if room_of(file) == room):
        others = imported_rooms(file) - {room} - MAY_IMPORT[room]
        assert not others, f"{file.relative_to(LIVE)} imports {', '.join(sorted(others))}"


def test_the_table_of_rooms_allows_no_circle() -> None:
    reached: set[str] = set()
    for room, others in MAY_IMPORT.items():
        assert others <= reached, room
        reached.add(room)
