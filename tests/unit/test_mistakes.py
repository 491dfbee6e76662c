"""Mistakes that users make: what is wrong, with which value, what to do, and the exit status."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
from command_line import Rtclab

import rtclab as lab
from rtclab.errors import BadInput
from rtclab.scenario import Audio, Duration, PathSpec, Scenario, Traffic, Video, shipped
from rtclab.scenario.elsewhere import ELSEWHERE

FIRST = 'name = "call"\nduration = "60 s"\nvideo = {}\nparticipants = { alice = {}, bob = {} }\n'
SFU = Scenario.read(
    tomllib.loads(f'{FIRST}audio = {{}}\n[[calls]]\nkind = "sfu"\nserver = "sfu"\n[servers.sfu]\n'), "example"
)
WITH = {"policer": 'capacity = "1 Mbit/s"'}
"""What else a path needs, beside the example of an answer."""
DISCIPLINES = ("codel", "fq_codel", "pie", "dualpi2", "step")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "first-call", "--out", "file"], "file: no directory can be made there: Not a directory"),
        (["run", "first-call", "--out", "file/x"], "file/x: no directory can be made there: Not a directory"),
        (["sweep", "first-call", "--vary", "link.up.loss=1 %", "--out", "/proc/x"], "/proc/x: no directory"),
        (
            ["arena", "goog-cc", "--out", "file/x"],
            "file/x/arena-access: cannot be read or written: Not a dir",
        ),
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


@pytest.mark.parametrize("word", [*ELSEWHERE, "Content-Hint"])
def test_a_word_of_another_tool_is_answered_wherever_it_is_tried(word: str) -> None:
    hint = ELSEWHERE[word.lower().replace("-", "_")]
    for table in ("", "video.", "audio.", "link.up.", "participants.alice.", "calls.0.", "servers.sfu."):
        with pytest.raises(BadInput) as refused:
            Scenario.load(SFU, {f"{table}{word}": "1"})
        if table == "video." and word in ("simulcast", "fps"):
            continue  # the field itself, or one with a hint of its own
        if table == "audio." and word == "bitrate":
            continue
        assert hint in str(refused.value), table


def test_what_the_answers_name_exists() -> None:
    fields = Scenario.model_fields | Video.model_fields | Audio.model_fields | PathSpec.model_fields
    fields |= Traffic.model_fields
    for word, hint in ELSEWHERE.items():
        for name in re.findall(r"`([^`]+)`", hint):
            if "=" in name:
                Scenario.read(tomllib.loads(f"{FIRST}[link.up]\n{WITH.get(word, '')}\n{name}"), "example")
            elif name in shipped() or name in DISCIPLINES:
                continue
            else:
                assert {one.rpartition(".")[2] for one in name.split("+")} <= {*fields}, name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--control", "googcc"], "hint: did you mean `goog-cc`?"),
        (["--set", "congestion_control.name=googcc"], "hint: did you mean `goog-cc`?"),
        (["--from", "70s"], "hint: choose a time before 60 s"),
        (["--set", "link.up.loss=-1 %"], "`-1 %` is negative; expected a ratio of 0 or more"),
        (["--set", "link.up.delay=-5ms"], "`-5ms` is negative; expected a time of 0 or more"),
        (["--set", "link.up.queue={aqm = red}"], "rtclab has no RED"),
    ],
)
def test_a_value_that_cannot_be_has_a_hint(arguments: list[str], message: str, rtclab: Rtclab) -> None:
    result = rtclab("run", "first-call", *arguments)
    assert result.status == 2
    assert message in result.err


def test_a_scenario_without_a_duration_is_shown_one(rtclab: Rtclab) -> None:
    Path("call.toml").write_text('name = "call"\n[participants.alice]\n[participants.bob]\n[video]\n')
    assert rtclab("run", "call.toml").err == (
        'call.toml: duration: missing\n  hint: for example `duration = "60 s"`\n'
    )
    assert "did you mean `goog-cc`?" in rtclab("arena", "googcc").err
