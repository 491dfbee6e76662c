"""Mistakes that users make: what is wrong, with which value, what to do, and the exit status."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_line import Rtclab


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
