"""Accounts of calls: limits, losses, freezes and waits add up, and name what was done to a call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rtclab
from rtclab import Results, Trace
from rtclab._native import CONGESTION_CONTROLS
from rtclab.metrics import METRICS
from rtclab.metrics.accounts.limits import LIMITS, course_of, limits_table
from rtclab.metrics.accounts.losses import losses_table
from rtclab.metrics.accounts.stalls import stalls_table
from rtclab.metrics.accounts.waits import STAGES, mean_waits_ms, waits_table
from rtclab.metrics.series import span_ns

FLOW = "alice->bob"
WIDE = {"link.up.capacity": "20 Mbit/s", "link.down.capacity": "20 Mbit/s"}
UP = "participants.alice.link.up."


def run(tmp_path: Path, changes: dict[str, Any], scenario: str = "first-call", **options: Any) -> Results:
    given = {"duration": "40 s", "repeats": 1} | options
    return rtclab.run(scenario, set=changes, out=tmp_path, **given)


def shares(trace: Trace, flow: str = FLOW) -> dict[str, float]:
    course = course_of(trace, flow)
    assert course is not None
    return course.shares(span_ns(trace, flow))


@pytest.mark.parametrize("control", CONGESTION_CONTROLS)
def test_limits_cover_the_time_of_a_flow_once(tmp_path: Path, control: str) -> None:
    trace = run(tmp_path, {"control": control, f"{UP}loss": "2 %"}, duration="15 s").traces[0]
    rows = limits_table(trace).filter(pl.col("flow") == FLOW)
    begin_ns, end_ns = span_ns(trace, FLOW)
    assert (rows["begin_ns"][0], rows["end_ns"][-1]) == (begin_ns, end_ns)
    assert (rows["begin_ns"][1:] == rows["end_ns"][:-1]).all()
    assert set(rows["limit"]) <= set(LIMITS)
    assert sum(shares(trace).values()) == pytest.approx(1)
    part = trace.between("3 s", "7 s")
    assert limits_table(part)["begin_ns"].min() == 3e9
    assert sum(shares(part).values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("limit", "changes"),
    [
        ("maximum", WIDE),
        ("maximum", WIDE | {"control": "gcc-2016"}),
        ("maximum", WIDE | {"control": "fixed"}),
        ("start", WIDE | {"control": "rrtcc-2013"}),  # which needs more than 40 s for 1.7 Mbit/s
        ("delay", {}),
        ("delay", {"control": "gcc-2016"}),
        ("delay", {"control": "nada"}),
        ("loss", {"link.up.loss": "10 %"}),
        ("loss", {"link.up.loss": "10 %", "control": "gcc-2016"}),
        ("loss", {"link.up.loss": "10 %", "control": "nada"}),
        ("loss", {"link.up.loss": "10 %", "control": "scream"}),
        ("processor", WIDE | {"host.encoder_capacity": "2.5 Mpixel/s"}),
        ("feedback", WIDE | {"participants.bob.link.up.loss": "55 %"}),
    ],
)
def test_what_held_the_rate_is_the_limit_of_most_of_the_time(
    tmp_path: Path, limit: str, changes: dict[str, Any]
) -> None:
    found = shares(run(tmp_path, changes).traces[0])
    assert max(found, key=lambda name: found[name]) == limit, found


def test_a_pause_of_the_sender_is_its_limit(tmp_path: Path) -> None:
    pause = {"participants.alice.pause": {"start": "10 s", "end": "20 s"}}
    assert shares(run(tmp_path, WIDE | pause).traces[0])["pause"] == pytest.approx(10 / 40, abs=0.02)


def test_a_control_of_ones_own_may_say_what_limits_it(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    own.write_text(
        "class Steady:\n"
        "    def __init__(self, bounds):\n        pass\n"
        "    def on_feedback(self, now, feedback):\n        return 600_000\n"
        "    def observe(self):\n        return {'limited_by_delay': 1, 'limited_by_loss': 0}\n"
    )
    trace = run(tmp_path, {"control": f"{own}:Steady"}, duration="30 s").traces[0]
    course = course_of(trace, FLOW)
    assert course is not None
    assert course.grade == "known"
    assert shares(trace)["delay"] > 0.8


@pytest.mark.parametrize(
    ("cause", "changes"),
    [
        ("random", {f"{UP}loss": "4 %"}),
        ("burst", {f"{UP}loss": {"mean": "4 %", "burst": 6}}),
        ("queue", {f"{UP}queue": "6 packets"}),
        ("aqm", {f"{UP}queue": {"aqm": "codel"}, f"{UP}capacity": "500 kbit/s"}),
    ],
)
def test_losses_add_up_and_have_the_cause_that_the_scenario_gave_them(
    tmp_path: Path, cause: str, changes: dict[str, Any]
) -> None:
    trace = run(tmp_path, changes).traces[0]
    rows = losses_table(trace).filter(pl.col("flow") == FLOW)
    packets = trace.table("packets").filter(pl.col("flow") == FLOW)
    assert rows["packets"].sum() == packets["dropped_ns"].drop_nulls().len()
    assert rows["share_percent"].sum() == pytest.approx(100)
    assert (rows["cause"][0], rows["path"][0]) == (cause, "alice.up")
    assert rows["share_percent"][0] > 80


def outage(begin: int, end: int) -> dict[str, Any]:
    steps = [["0 s", "3 Mbit/s"], [f"{begin} s", "0 bit/s"], [f"{end} s", "3 Mbit/s"]]
    return WIDE | {f"{UP}capacity": {"steps": steps}}


FREEZES = [
    ("loss", {f"{UP}loss": {"mean": "8 %", "burst": 10}}),
    ("outage", outage(10, 13)),
    (
        "queue",
        {f"{UP}capacity": {"steps": [["0 s", "2 Mbit/s"], ["10 s", "80 kbit/s"]]}, f"{UP}queue": "9 s"},
    ),
]


@pytest.mark.parametrize(("cause", "changes"), FREEZES, ids=[cause for cause, _ in FREEZES])
def test_freezes_add_up_to_the_metric_and_have_their_cause(
    tmp_path: Path, cause: str, changes: dict[str, Any]
) -> None:
    trace = run(tmp_path, changes).traces[0]
    rows = stalls_table(trace).filter(pl.col("flow") == FLOW)
    lengths_s = (rows["end_ns"] - rows["begin_ns"]) / 1e9
    assert rows.height == METRICS["freeze_count"].function(trace, FLOW)
    assert lengths_s.sum() == pytest.approx(METRICS["freeze_duration"].function(trace, FLOW))
    by_cause = rows.with_columns(s=lengths_s).group_by("cause").agg(pl.col("s").sum()).sort("s")
    assert by_cause["cause"][-1] == cause, by_cause


def test_a_viewer_who_never_saw_a_picture_has_one_freeze(tmp_path: Path) -> None:
    changes = {
        f"{UP}loss": {"steps": [["0 s", "0 %"], ["1 s", "100 %"]]},
        "participants.alice.join": "500 ms",
    }
    trace = run(tmp_path, changes, duration="20 s").traces[0]
    (stall,) = stalls_table(trace).filter(pl.col("flow") == FLOW).iter_rows(named=True)
    assert stall["end_ns"] == span_ns(trace, FLOW)[1]
    assert (stall["cause"], stall["where"]) == ("outage", "alice.up")


@pytest.mark.parametrize(
    "changes", [{}, {f"{UP}loss": "10 %"}, {f"{UP}queue": "2 s", "control": "fixed"}], ids=str
)
def test_waits_of_a_picture_add_up_to_its_delay(tmp_path: Path, changes: dict[str, Any]) -> None:
    trace = run(tmp_path, changes).traces[0]
    rows = waits_table(trace)
    whole = sum(
        (rows[f"{stage}_ns"] for stage in STAGES), start=pl.zeros(rows.height, eager=True, dtype=pl.Int64)
    )
    assert (whole == rows["rendered_ns"] - rows["captured_ns"]).all()
    assert all((rows[f"{stage}_ns"] >= 0).all() for stage in STAGES)
    shown = trace.table("frames").filter(pl.col("flow") == FLOW).height
    assert rows.filter(pl.col("flow") == FLOW).height == shown
    total_ms = sum(mean_waits_ms(trace, FLOW).values())
    assert total_ms == pytest.approx(METRICS["picture_delay"].function(trace, FLOW), abs=1e-6)
    part = trace.between("10 s", "20 s")
    assert np.isclose(
        sum(mean_waits_ms(part, FLOW).values()), METRICS["picture_delay"].function(part, FLOW), atol=1e-6
    )
