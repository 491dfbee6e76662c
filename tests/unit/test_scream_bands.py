"""SCReAM v2 in calls: the rates that libwebrtc's own tests of whole calls print and expect.

The bands are from libwebrtc f3ae3eb, ``test/peer_scenario/bwe_integration_tests/scream_test.cc``, where
they are checked only with a flag: they say what is plausible. Each call has 1280x720 video at 30
frames/s and audio, over links that are alike in both directions. With ECN the queue is DualPI2 as in
these tests: with a target of 10 ms, and a step at twice the target in place of the 1 ms of the standard.
Without it the queue is drop-tail. Where libwebrtc's test names no time, the band holds from 5 s on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl
import pytest

import rtclab
from rtclab import Scenario, Trace
from rtclab.trace import NS_PER_S

DUALPI2 = {"aqm": "dualpi2", "target": "10 ms", "step_min": "20 ms", "step_max": "20 ms"}
DROP_TAIL = "300 ms"
MEAN_OF = 5
"""The bands hold for means over this many seconds."""
LONG = 10**9
Band = tuple[float, float, int, int]
"""Lowest and highest target rate in kbit/s, from one second to another; both seconds are included."""


@dataclass(frozen=True)
class Call:
    """A call over links of ``capacity`` with a round trip of ``rtt_ms``, and the bands of its target rate."""

    name: str
    capacity: Any
    rtt_ms: float
    queue: Any
    bands: tuple[Band, ...]
    link: tuple[tuple[str, Any], ...] = ()

    def scenario(self) -> Scenario:
        """The scenario."""
        up = {"capacity": self.capacity, "delay": f"{self.rtt_ms / 2} ms", "queue": self.queue} | dict(
            self.link
        )
        data = {
            "name": "scream-band",
            "duration": "40 s",
            "congestion_control": {"name": "scream"},
            "participants": {name: {"link": {"up": up}} for name in ("alice", "bob")},
            "video": {"width": 1280, "height": 720, "frame_rate": 30, "max_bitrate": "2500 kbit/s"},
            "audio": {"bitrate": "32 kbit/s"},
        }
        return Scenario.read(data, self.name)


def steps(*of: tuple[int, str]) -> dict[str, Any]:
    """A value that changes."""
    return {"steps": [[f"{at} s", value] for at, value in of]}


CALLS = (
    Call("600, 100 ms, ECN", "600 kbit/s", 100, DUALPI2, ((350, 660, 3, 40),)),
    Call("600, 100 ms", "600 kbit/s", 100, DROP_TAIL, ((250, 700, 1, 40),)),
    Call("600, 20 ms", "600 kbit/s", 20, DROP_TAIL, ((200, 900, 1, 40),)),
    Call("1000, 100 ms, ECN", "1 Mbit/s", 100, DUALPI2, ((600, 1000, 2, 40),)),
    Call("1500, 30 ms", "1500 kbit/s", 30, DROP_TAIL, ((800, 2200, 5, 40),)),
    Call("2000, 50 ms, ECN", "2 Mbit/s", 50, DUALPI2, ((1300, 2300, 5, 40),)),
    Call("2000, 50 ms", "2 Mbit/s", 50, DROP_TAIL, ((1300, 2500, 5, 40),)),
    Call("4000, 50 ms, jitter", "4 Mbit/s", 50, DROP_TAIL, ((700, 4100, 5, 40),), (("jitter", "10 ms"),)),
    Call("100, 50 ms", "100 kbit/s", 50, DROP_TAIL, ((10, 150, 5, 40),)),
    Call(
        "500 to 5000 at 5 s",
        steps((0, "500 kbit/s"), (5, "5 Mbit/s")),
        50,
        DROP_TAIL,
        ((200, 600, 3, 5), (1200, LONG, 9, 40)),
    ),
    Call("1000, 50 ms, loss 10 %", "1 Mbit/s", 50, DROP_TAIL, ((100, 1100, 5, 40),), (("loss", "10 %"),)),
    Call("3000, 80 ms, loss 5 %", "3 Mbit/s", 80, DROP_TAIL, ((100, 1500, 5, 40),), (("loss", "5 %"),)),
    Call("3000, 80 ms, loss 1 %", "3 Mbit/s", 80, DROP_TAIL, ((1000, 3000, 5, 40),), (("loss", "1 %"),)),
    Call("1000, 50 ms, three packets", "1 Mbit/s", 50, "3 packets", ((200, 1100, 5, 40),)),
)


def targets(trace: Trace, participant: str) -> dict[int, float]:
    """The rate in kbit/s that the control of a participant allows, by the second of the call."""
    rows = trace.table("candidate_pair").filter(pl.col("participant") == participant)
    rows = rows.select("at_ns", kbps=pl.col("availableOutgoingBitrate") / 1e3).drop_nulls()
    return {at_ns // NS_PER_S: kbps for at_ns, kbps in rows.iter_rows()}


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_target_rates_are_in_the_bands_of_libwebrtcs_tests(call: Call) -> None:
    trace = rtclab.simulate(call.scenario())
    for participant in ("alice", "bob"):
        found = targets(trace, participant)
        assert len(found) > 30
        for low, high, begin, end in call.bands:
            within = {second: rate for second, rate in found.items() if begin <= second <= end}
            rates = pl.Series([within[second] for second in sorted(within)])
            means = rates.rolling_mean(min(MEAN_OF, len(rates))).drop_nulls()
            assert means.is_between(low, high).all(), (call.name, means.to_list())
