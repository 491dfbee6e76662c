"""Control groups of this machine limit the CPU use of processes inside a lab."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from rtclab.backend.live.lab.cgroups import in_group, limited
from rtclab.backend.live.lab.namespaces import UNSHARE

pytestmark = [pytest.mark.live, pytest.mark.needs("unshare", "user namespaces", "control groups")]

BUSY = """
import time
until = time.monotonic() + 2
while time.monotonic() < until: pass
print(time.process_time())
"""


def test_a_process_in_a_lab_gets_no_more_than_its_share_and_its_group_disappears() -> None:
    with limited({"alice": 0.25}) as joins:
        command = [*UNSHARE, *in_group(joins["alice"], ["python3", "-c", BUSY])]
        spent_s = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        group = Path(joins["alice"]).parent
        assert group.is_dir()
    # Of 2 s a quarter is 0.5 s; a process starts up before it measures, and a busy machine gives it less.
    assert 0.05 < spent_s < 0.8
    assert not group.exists()
