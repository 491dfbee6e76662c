"""A call between pages in ``strangers/``, which know nothing of rtclab."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from rtclab.backend.live import LiveBackend
from rtclab.experiment import Experiment
from rtclab.scenario import Scenario
from rtclab.trace import Run

SERVER = Path(__file__).parent / "strangers" / "serve.py"
PORT = 3000
TEXT = """
name = "strangers"
duration = "{seconds} s"
[video]
width = 320
height = 240
frame_rate = 15
[app]
command = "{command}"
port = {port}
"""


def strange_call(folder: Path, more: str, *, seconds: int) -> Run:
    """One repeat with ``more`` in its scenario. What its pages log is in ``folder``."""
    command = f"{sys.executable} {SERVER} {PORT} {folder}"
    file = folder / "strangers.toml"
    file.write_text(TEXT.format(seconds=seconds, command=command, port=PORT) + more)
    experiment = Experiment([Scenario.load(file, trust=True)], backend=LiveBackend(), repeats=1)
    return experiment.run(out=folder / "runs").run


def page(name: str, path: str) -> str:
    """The table of a participant with a page."""
    return f'[participants.{name}]\npage = "http://app:{PORT}/{path}"\n'


def log(folder: Path, name: str) -> Any:
    """What a page has logged."""
    return json.loads((folder / f"{name}.json").read_text())
