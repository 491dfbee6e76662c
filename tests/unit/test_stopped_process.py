"""A simulation does not notice that its process is stopped and continued."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

SIMULATION = """
import hashlib
import sys

from rtclab.backend.sim import SimBackend
from rtclab.scenario import Scenario

# Far below the capacity, and long enough to be stopped several times.
changes = ["duration=1000 s", "record=seconds", "link.up.capacity=5 Mbit/s"]
scenario = Scenario.load("first-call", changes)
print("starts", flush=True)
trace = SimBackend().simulate(scenario, seed=1, repeat=0)
digest = hashlib.sha256()
for name in ("flow_seconds", "events", "controller"):
    digest.update(trace.table(name).write_csv().encode())
print(digest.hexdigest())
"""


def digest(stops: int) -> str:
    """Digest of the tables of a simulation whose process is stopped this many times."""
    command = [sys.executable, "-c", SIMULATION]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "starts\n"
        for _ in range(stops):
            os.kill(process.pid, signal.SIGSTOP)
            assert process.poll() is None
            time.sleep(0.1)
            os.kill(process.pid, signal.SIGCONT)
            time.sleep(0.02)
        return process.stdout.read()


def test_a_process_that_is_stopped_and_continued_gives_the_same_bytes() -> None:
    undisturbed = digest(0)
    assert len(undisturbed.strip()) == 64
    assert digest(3) == undisturbed
