"""Scenarios from text, and their errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtclab.errors import BadInput
from rtclab.scenario import Scenario

TWO_PEOPLE = """
name = "two"
duration = "60 s"
[participants.alice]
[participants.bob]
[video]
"""


def scenario(tmp_path: Path, text: str = "", *changes: str, base: str = TWO_PEOPLE) -> Scenario:
    (tmp_path / "my.toml").write_text(base + text)
    return Scenario.load(tmp_path / "my.toml", changes)


def error(tmp_path: Path, text: str = "", *changes: str, base: str = TWO_PEOPLE) -> str:
    """The error message, without the directory of the test."""
    with pytest.raises(BadInput) as caught:
        scenario(tmp_path, text, *changes, base=base)
    return str(caught.value).replace(f"{tmp_path}/", "")
