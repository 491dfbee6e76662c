"""Live calls know in which queue each packet waited, over all legs of its route."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from parts import CALL
from small_call import SFU, small_call

from rtclab.backend.live import LiveBackend
from rtclab.metrics.accounts.packets import packets_in_order
from rtclab.metrics.accounts.queues import bottleneck_of, waited_by_path

pytestmark = [pytest.mark.live, pytest.mark.needs(*CALL)]

FLOW = "alice->bob"
NARROW = """
[participants.bob.link]
up = { capacity = "3 Mbit/s", queue = "300 ms", delay = "20 ms" }
down = { capacity = "200 kbit/s", queue = "500 ms", delay = "20 ms" }
"""
TOPOLOGIES = [
    "",
    pytest.param("[[calls]]\nrelay = 'core'\n", marks=pytest.mark.needs("turnserver")),
    pytest.param(SFU.format(kind="str0m"), marks=pytest.mark.needs("rtclab-sfu")),
]


@pytest.mark.parametrize("topology", TOPOLOGIES, ids=["direct", "relay", "sfu"])
def test_the_waits_of_live_packets_add_up_and_name_the_narrow_path(tmp_path: Path, topology: str) -> None:
    scenario = small_call(tmp_path / "call.toml", NARROW + topology, seconds=10.5)
    trace = LiveBackend().run(scenario, seed=1, repeat=0, out=tmp_path)
    packets = packets_in_order(trace, FLOW).filter(pl.col("queued_ns") > 0)
    waits = waited_by_path(trace, FLOW)
    sums = waits.group_by("packet").agg(pl.col("queued_ns").sum()).sort("packet")
    assert sums.equals(packets.select("packet", "queued_ns").sort("packet"))
    assert waits["queued_ns"].min() > 0
    places = set(waits["path"])
    # At 3 Mbit/s, a packet of a picture waits behind those before it.
    assert places == {"alice.up", "bob.down"}
    at = bottleneck_of(trace, FLOW)
    assert at is not None
    assert (at.path, at.grade) == ("bob.down", "known")
    assert at.waited_ms > 50
