"""Runs what users run most, for the profile by which the native module of the wheels is optimized."""

from __future__ import annotations

import tempfile
from contextlib import suppress

import rtclab
from rtclab._native import CONGESTION_CONTROLS
from rtclab.errors import UnsupportedScenario

calls = [rtclab.Scenario.load(name) for name in rtclab.list_scenarios()["name"]]
calls += [
    rtclab.Scenario.load("first-call", {"congestion_control.name": name}) for name in CONGESTION_CONTROLS
]
for call in calls:
    with suppress(UnsupportedScenario):  # some have browsers only
        for repeat in range(2):
            rtclab.simulate(call, repeat)
with tempfile.TemporaryDirectory() as out:
    run = rtclab.run("first-call", repeats=1, capture=True, out=out)
    rtclab.Trace.from_pcap(run.path / "repeat-0" / "capture.pcapng")
