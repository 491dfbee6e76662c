"""A scenario of a call that is easy for two cores, to which tests add what they need."""

from __future__ import annotations

from pathlib import Path

from rtclab.scenario import Scenario

TEXT = """
name = "small"
duration = "{seconds} s"
[link]
up = {{ capacity = "3 Mbit/s", queue = "300 ms", delay = "20 ms" }}
down = {{ capacity = "5 Mbit/s", queue = "300 ms", delay = "20 ms" }}
[video]
width = 320
height = 240
max_bitrate = "300 kbit/s"
[audio]
[participants.alice]
[participants.bob]
"""
SFU = "[servers.sfu]\nkind = '{kind}'\n[[calls]]\nkind = 'sfu'\nserver = 'sfu'\n"
MIXING = """
[congestion_control]
name = "remb"
[servers.mcu]
[[calls]]
kind = "mixing-mcu"
server = "mcu"
"""


def small_call(file: Path, more: str = "", *, seconds: float = 8) -> Scenario:
    """A call of alice and bob, with ``more`` in its text, which is written to ``file``."""
    file.write_text(TEXT.format(seconds=seconds) + more)
    return Scenario.load(file, trust=True)
