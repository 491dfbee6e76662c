"""Congestion controls and their options, from a scenario to the native table."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest

from rtclab import _native
from rtclab.backend.sim import SimBackend
from rtclab.errors import UnsupportedScenario
from rtclab.scenario import Scenario


@pytest.mark.parametrize(
    ("changes", "field", "text"),
    [
        (["congestion_control.name=gcc-2016", "congestion_control.options.beta=0.85"], "beta", "`k_up`"),
        (["congestion_control.options.draft=true"], "draft", "`goog-cc` has no such option; expected none"),
        (
            ["congestion_control.name=rrtcc-2013", "congestion_control.options.decrease=1.5"],
            "decrease",
            "1.5 is out of bounds; expected 0.5 to 1",
        ),
    ],
)
def test_an_option_that_cannot_be_met_is_refused_before_anything_runs(
    changes: list[str], field: str, text: str
) -> None:
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
