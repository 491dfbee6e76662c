"""Congestion controls and their options, from a scenario to the native table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rtclab import _native
from rtclab.backend.sim import SimBackend
from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.trace import Trace


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        (["congestion_control.name=gcc-2016", "congestion_control.options.beta=0.85"], "beta", "`k_up`"),
        (
            ["congestion_control.options.draft=true"],
            "draft",
            "`goog-cc` has no such option; expected one of `branded`",
        ),
        (
            ["congestion_control.name=rrtcc-2013", "congestion_control.options.decrease=1.5"],
            "decrease",
            "1.5 is out of bounds; expected 0.5 to 1",
        ),
    ],
)
def test_an_invalid_option_is_refused_before_anything_runs(changes: list[str], field: str, text: str) -> None:
    with pytest.raises(UnsupportedScenario, match="congestion_control") as refused:
        SimBackend().check(Scenario.load("first-call", changes))
    assert refused.value.field == f"congestion_control.options.{field}"
    assert text in str(refused.value)


def test_every_algorithm_passes_the_check_without_options() -> None:
    for name in _native.CONGESTION_CONTROLS:
        SimBackend().check(Scenario.load("first-call", [f"congestion_control.name={name}"]))


def test_a_trace_of_a_receive_side_algorithm_has_the_values_of_both_halves(tmp_path: Path) -> None:
    changes = ["congestion_control.name=rrtcc-2013", "duration=20 s"]
    trace = SimBackend().run(Scenario.load("first-call", changes), seed=1, repeat=0, out=tmp_path / "run")
    rows = trace.table("controller").filter(pl.col("flow") == "alice->bob")
    by = {who: set(rows.filter(pl.col("participant") == who)["name"]) for who in ("alice", "bob")}
    assert {"target_bps", "loss_based_rate_bps", "remb_bps"} <= by["alice"]
    receiver = {"offset_ms", "threshold_ms", "detector_state", "rate_control_region", "delay_based_rate_bps"}
    assert receiver <= by["bob"]
    assert not receiver & by["alice"]


FREE = {"link": {}, "duration": "60 s", "video.max_bitrate": "2 Mbit/s"}
"""A network that does not limit 2 Mbit/s."""


def free_call(name: str) -> Trace:
    """A minute of a call over a network without limits."""
    scenario = Scenario.load("first-call", FREE | {"congestion_control.name": name})
    return SimBackend().simulate(scenario, seed=1, repeat=0)


def test_audio_takes_nothing_of_a_rate_that_counts_only_video() -> None:
    for name in ("gcc-2016", "fixed-alpha"):
        sent = (
            free_call(name)
            .table("outbound_rtp")
            .filter((pl.col("kind") == "video") & (pl.col("at_ns") > 50e9))
        )
        assert sent["targetBitrate"].unique().to_list() == [2_000_000]


def test_report_blocks_leave_once_a_second_in_2016_and_with_every_sender_report_in_2013() -> None:
    sizes = {}
    for name in ("gcc-2016", "rrtcc-2013"):
        packets = free_call(name).table("packets")
        rtcp = packets.filter((pl.col("protocol") == "rtcp") & (pl.col("flow") == "alice->bob"))
        sizes[name] = rtcp["size_bytes"]
    # IP, UDP and SRTCP are 42 bytes, a name 20, a sender report 28, a receiver report 8, a block 24, REMB 24.
    assert set(sizes["gcc-2016"]) == {42 + 20 + 28, 42 + 20 + 8 + 24, 42 + 20 + 28 + 24}
    assert set(sizes["rrtcc-2013"]) == {42 + 20 + 28 + 24, 42 + 20 + 28 + 24 + 24}
    # They are 0.5 to 1.5 s apart: 59 in 59 s, with a standard deviation of 2.2.
    assert 52 <= (sizes["gcc-2016"] == 42 + 20 + 8 + 24).sum() <= 66
