"""Networks and calls that hardly work: the run ends, its metrics show it, and no table has a NaN."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from rtclab import _native
from rtclab.backend.sim import SimBackend
from rtclab.errors import CallFailed, UnsupportedScenario
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.trace import Trace

LINK = {"capacity": "1 Mbit/s", "delay": "25 ms", "queue": "300 ms"}
DEAD = {"capacity": {"steps": [["0 s", "1 Mbit/s"], ["4 s", "0 bit/s"]]}}
OUTAGE = {"capacity": {"steps": [["0 s", "1 Mbit/s"], ["4 s", "0 bit/s"], ["6 s", "1 Mbit/s"]]}}

PEOPLE = ("alice", "bob", "carol")
CALLS: dict[str, dict[str, Any]] = {
    "p2p": {"calls": [{"kind": "p2p"}]},
    "relay": {"calls": [{"kind": "p2p", "relay": "turn"}], "servers": {"turn": {}}},
    "sfu": {"calls": [{"kind": "sfu"}]},
    "mcu": {"calls": [{"kind": "mcu"}]},
    "mixing-mcu": {"calls": [{"kind": "mixing-mcu"}]},
    "star": {"calls": [{"kind": "star", "root": "alice"}]},
    "hub-and-spoke": {"calls": [{"kind": "hub-and-spoke", "root": "alice"}]},
    "tree": {"calls": [{"kind": "tree", "root": "alice"}]},
}
"""Every topology; alice sends in all of them."""

CONDITIONS: dict[str, dict[str, Any]] = {
    "zero capacity for 2 s": {"link": {"up": LINK | OUTAGE, "down": LINK | OUTAGE}},
    "zero capacity from the start": {"link": {"up": LINK | {"capacity": {"steps": [["0 s", "0 bit/s"]]}}}},
    "100 % loss": {"link": {"up": LINK | {"loss": "100 %"}, "down": LINK}},
    "1 bit/s": {"link": {"up": LINK | {"capacity": "1 bit/s"}, "down": LINK}},
    "a queue of one packet": {"link": {"up": LINK | {"queue": "1 packets"}, "down": LINK}},
    "a delay beyond the run": {"link": {"up": LINK | {"delay": "100 s"}, "down": LINK}},
    "bob's feedback stops": {"bob": {"link": {"up": LINK | DEAD, "down": LINK}}},
    "bob's feedback is lost": {"bob": {"link": {"up": LINK | {"loss": "100 %"}, "down": LINK}}},
    "bob never joins": {"bob": {"join": "100 s"}},
    "bob joins in the last moment": {"bob": {"join": "11.99 s"}},
    "bob leaves at once": {"bob": {"leave": "1 ms"}},
}
NOTHING_ARRIVES = ("zero capacity from the start", "100 % loss", "a delay beyond the run")


def scenario(call: str, condition: str, control: str) -> Scenario:
    changes = dict(CONDITIONS[condition])
    people: dict[str, Any] = {name: {} for name in PEOPLE} | {"bob": changes.pop("bob", {})}
    return Scenario.read(
        {
            "name": "bad-input",
            "duration": "12 s",
            "record": "seconds",
            "participants": people,
            "video": {},
            "link": {"up": LINK, "down": LINK},
            "congestion_control": {"name": control},
        }
        | CALLS[call]
        | changes,
        "bad-input.toml",
    )


def simulated(call: str, condition: str, control: str) -> Trace:
    chosen = scenario(call, condition, control)
    backend = SimBackend()
    backend.check(chosen)
    return backend.simulate(chosen, seed=1, repeat=0)


def assert_finite(trace: Trace) -> None:
    """Every number in a table is finite; unknown values are null."""
    for name in trace.tables:
        table = trace.table(name)
        for column in table.columns:
            if table[column].dtype.is_float():
                assert table[column].drop_nulls().is_finite().all(), f"{name}.{column}"


@pytest.mark.parametrize("control", _native.CONGESTION_CONTROLS)
@pytest.mark.parametrize("condition", CONDITIONS)
@pytest.mark.parametrize("call", CALLS)
def test_a_run_ends_with_numbers(call: str, condition: str, control: str) -> None:
    trace = simulated(call, condition, control)
    assert_finite(trace)
    delivered = int(trace.table("flow_seconds")["delivered_bytes"].sum())
    if condition in NOTHING_ARRIVES:
        assert delivered == 0
        assert trace.table("frames")["rendered_ns"].drop_nulls().is_empty()
    seconds = trace.table("flow_seconds")
    known = seconds["delivered_packets"].sum() + seconds["dropped_packets"].sum()
    assert 0 <= known <= seconds["sent_packets"].sum()


@pytest.mark.parametrize("call", CALLS)
def test_present_participants_call_without_one_who_never_joins(call: str) -> None:
    rows = simulated(call, "bob never joins", "goog-cc").table("flow_seconds")
    with_bob = pl.col("flow").str.contains("bob")
    assert int(rows.filter(with_bob)["sent_bytes"].sum()) == 0
    alice = rows.filter(~with_bob & pl.col("flow").str.starts_with("alice->"))
    # About 11 s, starting at 300 kbit/s over an uplink of 1 Mbit/s. With a server, the rows of the hop to the
    # server and of the whole route both count.
    kbps = int(alice["sent_bytes"].sum()) * 8 / 11e3
    assert 150 < kbps < 2200


def test_metrics_of_a_call_in_which_nothing_arrives_are_nan_or_zero() -> None:
    trace = simulated("p2p", "100 % loss", "goog-cc")
    for name, unknown in (("rtt", True), ("one_way_delay", True), ("receiving_rate", False)):
        value = METRICS[name].function(trace, "alice->bob")
        assert value != value if unknown else not value > 0, (name, value)


FLOWS_OF_FIFTY = {
    # From each participant to each of the others: directly, over a relay or over a participant.
    "p2p": 50 * 49,
    "relay": 50 * 49,
    "hub-and-spoke": 50 * 49,
    # Also between each participant and the server, both ways.
    "sfu": 50 * 49 + 2 * 50,
    "mcu": 50 * 49 + 2 * 50,
    # Between each participant and the server only.
    "mixing-mcu": 2 * 50,
    # Alice's media to each of the others, and back to the node from which each receives them.
    "star": 2 * 49,
    "tree": 2 * 49,
}


@pytest.mark.parametrize("call", CALLS)
def test_fifty_participants_call_each_other(call: str) -> None:
    people: dict[str, Any] = {"alice": {}} | {f"p{index}": {} for index in range(49)}
    chosen = Scenario.read(
        {
            "name": "fifty",
            "duration": "2 s",
            "record": "seconds",
            "participants": people,
            "video": {},
            "link": {"up": LINK, "down": LINK},
        }
        | CALLS[call],
        "fifty.toml",
    )
    trace = SimBackend().simulate(chosen, seed=1, repeat=0)
    assert_finite(trace)
    assert len(trace.manifest.flows) == FLOWS_OF_FIFTY[call]
    assert int(trace.table("flow_seconds")["delivered_bytes"].sum()) > 0


@pytest.mark.parametrize("call", CALLS)
def test_a_call_that_never_connects_is_a_failed_one_that_keeps_its_trace(call: str, tmp_path: Path) -> None:
    with pytest.raises(CallFailed) as failed:
        SimBackend().run(scenario(call, "100 % loss", "goog-cc"), seed=1, repeat=0, out=tmp_path)
    assert failed.value.message.endswith(" did not connect within 12 s")
    assert Trace(tmp_path).manifest.failure == failed.value.message


@pytest.mark.parametrize("call", CALLS)
def test_a_participant_who_never_joins_is_not_a_failure(call: str, tmp_path: Path) -> None:
    trace = SimBackend().run(scenario(call, "bob never joins", "goog-cc"), seed=1, repeat=0, out=tmp_path)
    assert trace.manifest.failure is None


@pytest.mark.parametrize(
    ("table", "field", "value", "said"),
    [
        (
            "network/paths/0",
            "capacity",
            {"kind": "steps", "steps": []},
            "network.paths.alice.up.capacity.steps",
        ),
        (
            "participants/0",
            "audio",
            {"bitrate_bps": 32_000, "frame_ns": 0},
            "participants.alice.audio.frame_ns",
        ),
        ("", "duration_ns", 2**64 - 1, "duration_ns"),
    ],
)
def test_a_configuration_that_no_scenario_made_is_refused_with_its_field(
    table: str, field: str, value: Any, said: str
) -> None:
    config: Any = Scenario.load("first-call").native(seed=1)
    place = config
    for key in table.split("/") if table else []:
        place = place[int(key) if key.isdigit() else key]
    place[field] = value
    with pytest.raises(ValueError, match=f"^{said}: .* is not possible; expected "):
        _native.simulate(json.dumps(config))


def test_what_only_the_native_code_refuses_is_named_by_the_check_of_a_scenario() -> None:
    """A clock has a reading for each millisecond of the delay that it measures."""
    link = LINK | {"delay": "120 min", "clock": {"wander": "2 %", "correlation": "1 s"}}
    scenario = Scenario.load("first-call", {"link": {"up": link, "down": LINK}})
    with pytest.raises(UnsupportedScenario) as caught:
        SimBackend().check(scenario)
    assert "network.paths.alice.up.clock.wander" in str(caught.value)
