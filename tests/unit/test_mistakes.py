"""Mistakes that users make: what is wrong, with which value, what to do, and the exit status."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Rtclab

import rtclab as lab
from rtclab.scenario import Duration, Scenario


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "first-call", "--out", "file"], "file: no directory can be made there: Not a directory"),
        (["run", "first-call", "--out", "file/x"], "file/x: no directory can be made there: Not a directory"),
        (["sweep", "first-call", "--vary", "link.up.loss=1 %", "--out", "/proc/x"], "/proc/x: no directory"),
        (["arena", "goog-cc", "--into", "file/x"], "file/x/sim: cannot be read or written: Not a dir"),
        (["run", "first-call", "--control", "none.py:Mine"], "--control: "),
        (["run", "first-call", "--control", "mine.py:Mine"], "congestion_control.name: "),
        (["run", "first-call", "--control", "wrong.py:Wrong"], "congestion_control.name: "),
    ],
)
def test_what_the_user_names_and_cannot_be_used_is_bad_input(
    arguments: list[str], message: str, rtclab: Rtclab
) -> None:
    Path("file").write_text("")
    Path("mine.py").write_text("class Another: pass\n")
    Path("wrong.py").write_text("syntax error\n")
    result = rtclab(*arguments)
    assert result.err.startswith(message), result.err
    assert result.status == 2


def test_fields_that_are_joined_get_the_same_value(rtclab: Rtclab) -> None:
    joined = "link.up.delay+link.down.delay"
    options = ["--duration", "5s", "--repeats", "1", "--no-report"]
    swept = rtclab("sweep", "first-call", "--vary", f"{joined}=10 ms,50 ms", *options, "--metric", "rtt")
    assert swept.status == 0, swept.err
    results = lab.open("latest")
    for delay, data in zip((10, 50), results.runs, strict=True):
        link = data.scenario["link"]
        assert link["up"]["delay"] == link["down"]["delay"] == f"{delay} ms"
    assert results.metrics()[f"{joined}_s"].unique().sort().to_list() == [0.01, 0.05]
    assert results.where(**{joined: "50 ms"}).planned == 1
    assert Scenario.load("first-call", {joined: "7 ms"}).link.down.delay == Duration.parse("7 ms")
    for vary in ([f"{joined}=1 ms", "link.up.delay=2 ms"], ["link.up.delay+link.up.delay=1 ms"]):
        chosen = [argument for one in vary for argument in ("--vary", one)]
        refused = rtclab("sweep", "first-call", *chosen, *options)
        assert refused.err.startswith("vary: link.up.delay is named more than once")
    refused = rtclab("show", "first-call", "--set", "link.both.delay=10 ms")
    assert joined in refused.err
