"""Errors keep their message, hint and fields when a worker process passes them on."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from rtclab.errors import (
    BadInput,
    CallFailed,
    DiskFull,
    Problem,
    RtclabError,
    ScenarioError,
    UnsupportedScenario,
)

ERRORS: list[RtclabError] = [
    BadInput("no such paper", hint="rtclab reproduce --papers"),
    CallFailed("the browser died"),
    DiskFull(Path("runs/trace")),
    ScenarioError("call.toml", [Problem("link.up", "must be a table", hint="see the reference")]),
    UnsupportedScenario("video.codec", "not in live calls", hint="use vp8"),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
def test_an_error_crosses_processes_whole(error: RtclabError) -> None:
    restored = pickle.loads(pickle.dumps(error))
    assert type(restored) is type(error)
    assert str(restored) == str(error)
    assert restored.args == error.args
    assert restored.__dict__ == error.__dict__
