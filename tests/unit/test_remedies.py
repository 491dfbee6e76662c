"""What would help a call: changes are simulated in pairs, ranked, and compared with the real call."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from stats_dumps import dump, pair, video_sent

import rtclab
from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.remedy import Remedies, changes_of
from rtclab.remedy.trying import SCHEMA
from rtclab.scenario import Scenario

LOSSY = {"duration": "10 s", "link.up.loss": "8 %", "link.up.capacity": "3 Mbit/s"}


def names(changes: dict[str, Any], scenario: str = "first-call") -> set[str]:
    return {change.name for change in changes_of(Scenario.load(scenario, changes))}


def verdicts(found: rtclab.Remedies) -> dict[str, str]:
    rows = found.table().filter(pl.col("metric") == found.goal)
    return dict(zip(rows["change"].to_list(), rows["verdict"].to_list(), strict=True))


def test_only_changes_that_change_something_are_tried() -> None:
    plain = names({})
    assert {"twice the capacity", "FQ-CoDel at every queue", "control scream", "no repair"} <= plain
    assert not {"no loss", "no cross traffic", "processors without a limit", "control goog-cc"} & plain
    assert "no loss" in names({"link.up.loss": "1 %"})
    assert "processors without a limit" in names({"host.encoder_capacity": "9 Mpixel/s"})
    assert {"no cross traffic", "packets of sound of 60 ms", "no video"} <= names({}, "access/bufferbloat")
    assert "no video" not in plain  # nobody would send anything
    assert "control goog-cc" in names({"control": "nada"})
    assert {"L4S at every queue", "queues of 50 ms", "half the maximum bitrate"} <= plain
    assert not {"no fading", "no outage", "relay over UDP", "servers that estimate"} & plain
    assert "queues of 500 ms" in plain  # the queue of first-call is 300 ms
    assert "queues of 500 ms" not in names({"link.up.queue": "1 s", "link.down.queue": "1 s"})
    assert "queues of 500 ms" not in names({"link.up.queue": "100 kB", "link.down.queue": "1 s"})  # 0.8 s
    assert "no fading" in names({}, "examples/wifi")
    assert "relay over UDP" in names({}, "examples/nat-relay-over-tcp")
    assert "relay over UDP" not in names({}, "examples/relay")
    assert "servers that estimate" in names({}, "examples/sfu")


def one_change(name: str, changes: dict[str, Any], scenario: str = "first-call") -> Scenario:
    found = {change.name: change.scenario for change in changes_of(Scenario.load(scenario, changes))}
    return found[name]


def test_losses_and_outages_are_told_apart() -> None:
    steps = [["0 s", "2 %"], ["5 s", "100 %"], ["6 s", "3 %"]]
    changes = {"link.up.loss": {"steps": steps}}
    kept = one_change("no loss", changes).link_of("alice").up.loss
    assert [round(share.value, 2) for _, share in kept.steps] == [0, 1, 0]  # type: ignore[union-attr]
    kept = one_change("no outage", changes).link_of("alice").up.loss
    assert [round(share.value, 2) for _, share in kept.steps] == [0.02, 0.02, 0.03]  # type: ignore[union-attr]
    rates = [["0 s", "0 bit/s"], ["2 s", "2 Mbit/s"], ["5 s", "0 bit/s"], ["6 s", "1 Mbit/s"]]
    kept = one_change("no outage", {"link.up.capacity": {"steps": rates}}).link_of("alice").up.capacity
    assert [rate.bps for _, rate in kept.steps] == [2e6, 2e6, 2e6, 1e6]  # type: ignore[union-attr]


def test_l4s_is_a_queue_and_a_control_that_answers_it() -> None:
    changed = one_change("L4S at every queue", {})
    assert changed.link_of("alice").up.queue.aqm == "dualpi2"  # type: ignore[union-attr]
    assert changed.congestion_control_of("alice").name == "scream"


def test_servers_are_changed_too() -> None:
    slow = {"servers.mcu.host.encoder_capacity": "9 Mpixel/s"}
    changed = one_change("processors without a limit", slow, "examples/mixing-mcu")
    assert changed.servers["mcu"].host is None


def test_a_change_is_all_that_a_changed_scenario_differs_in() -> None:
    scenario = Scenario.load("first-call", {"link.up.loss": "1 %"})
    changed = {change.name: change.scenario for change in changes_of(scenario)}
    for name in scenario.participants:
        path = changed["no loss"].link_of(name).up
        assert (
            path.loss is None
            or path.loss == Scenario.load("first-call", {"link.up.loss": "none"}).link.up.loss
        )
        assert path.capacity == scenario.link_of(name).up.capacity
        assert changed["twice the capacity"].link_of(name).up.capacity.bps == 2_000_000  # type: ignore[union-attr]
        assert changed["twice the capacity"].link_of(name).up.loss == scenario.link_of(name).up.loss
    steps = {"link.up.capacity": {"steps": [["0 s", "1 Mbit/s"], ["5 s", "0 bit/s"]]}}
    twice = {one.name: one.scenario for one in changes_of(Scenario.load("first-call", steps))}[
        "twice the capacity"
    ]
    (_, first), (_, second) = twice.link_of("alice").up.capacity.steps  # type: ignore[union-attr]
    assert (first.bps, second.bps) == (2_000_000, 0)


def test_the_cause_that_was_put_in_helps_most_when_it_is_removed() -> None:
    found = rtclab.remedies(Scenario.load("first-call", LOSSY), goal="freeze_duration", repeats=12)
    told = verdicts(found)
    assert next(iter(told)) == "no loss"
    assert told["no loss"] == "helps"
    assert told["no repair"] == "harms"
    assert list(told.values()) == sorted(
        told.values(), key=["helps", "no difference", "not known", "harms"].index
    )
    row = found.table().filter(change="no loss", metric="freeze_duration").to_dicts()[0]
    assert row["difference"] == pytest.approx(row["new"] - row["base"])
    assert row["difference_low"] <= row["difference"] <= row["difference_high"] < 0
    assert found.shows_the_goal


def test_changes_of_ones_own_are_tried(tmp_path: Path) -> None:
    own = tmp_path / "own.toml"
    own.write_text('["much faster"]\n"link.up.capacity" = "9 Mbit/s"\n"link.down.capacity" = "9 Mbit/s"\n')
    scenario = Scenario.load("first-call", {"duration": "10 s"})
    found = rtclab.remedies(scenario, goal="receiving_rate", own=own, repeats=4)
    assert verdicts(found)["much faster"] == "helps"
    own.write_text('["wrong"]\n"link.up.capacitee" = "9 Mbit/s"\n')
    with pytest.raises(BadInput, match=r"own\.toml: wrong: .*capacitee"):
        rtclab.remedies(scenario, own=own, repeats=2)
    own.write_text('["no repair"]\n"link.up.capacity" = "9 Mbit/s"\n')
    with pytest.raises(BadInput, match="own: no repair: there is such a change already"):
        rtclab.remedies(scenario, own=own, repeats=2)
    own.write_text("wrong = 3")
    with pytest.raises(BadInput, match=r"own\.toml: wrong: expected a table of fields"):
        rtclab.remedies(scenario, own=own, repeats=2)
    with pytest.raises(BadInput, match=r"nowhere\.toml: cannot be read"):
        rtclab.remedies(scenario, own=tmp_path / "nowhere.toml", repeats=2)
    with pytest.raises(BadInput, match="own: wrong: expected a table of fields"):
        rtclab.remedies(scenario, own={"wrong": 3}, repeats=2)  # type: ignore[dict-item]
    with pytest.raises(BadInput, match="neither a run nor a scenario"):
        rtclab.remedies(own.rename(tmp_path / "call.pcap"), repeats=2)
    with pytest.raises(BadInput, match="no value of `sending_rate` is better than another"):
        rtclab.remedies(scenario, goal="sending_rate", repeats=2)


def test_a_real_call_is_compared_with_its_simulation_first(tmp_path: Path) -> None:
    made = rtclab.run("first-call", duration="15 s", repeats=1, capture=True, out=tmp_path)
    imported = rtclab.import_files(made.path / "repeat-0" / "capture.pcapng", out=tmp_path)
    found = rtclab.remedies(imported, goal="receiving_rate", repeats=4, out=tmp_path)
    known = found.trust.filter(metric="receiving_rate").to_dicts()[0]
    assert known["shown"] == (0.9 * known["low"] <= known["call"] <= 1.1 * known["high"])
    assert known["shown"] == found.shows_the_goal
    outside = found.trust.with_columns(shown=False)
    refused = replace(found, trust=outside)
    assert refused.refusal == (
        "the simulation does not show receiving_rate as the call has it, so nothing is ranked by it"
    )
    assert refused.sentence.startswith("The simulation does not show receiving_rate")
    assert refused.other_goals == []
    # A capture does not know freezes, so it is not known whether the simulation shows them.
    assert "the call has no value" in str(replace(found, goal="freeze_duration").refusal)


def test_nothing_is_ranked_where_nothing_can_improve() -> None:
    found = rtclab.remedies(Scenario.load("first-call", {"duration": "10 s"}), repeats=3)
    assert found.refusal == "no freezes to remove: freeze_duration is 0 in every unchanged call"
    assert "freeze_duration" not in found.other_goals
    blocked = {f"participants.{name}.nat": "udp-blocked" for name in ("alice", "bob", "carol")}
    never = Scenario.load("examples/nat-mesh", {"duration": "20 s", **blocked})
    assert "no simulated call has a value" in str(rtclab.remedies(never, repeats=2).refusal)


def row(change: str, kind: str, verdict: str, new: float) -> dict[str, Any]:
    about = {"change": change, "kind": kind, "metric": "freeze_duration", "unit": "s", "verdict": verdict}
    return about | {"base": 12.0, "new": new, "difference": new - 12.0}


def test_the_answer_names_the_best_change_and_the_best_that_can_be_applied() -> None:
    def answer(*rows: dict[str, Any]) -> str:
        table = pl.DataFrame(rows, schema=SCHEMA)
        trust = pl.DataFrame(schema={"metric": pl.String})
        return Remedies("freeze_duration", table, trust, 20, False, [12.0], None).sentence

    cause, remedy = row("no loss", "cause", "helps", 0.5), row("control x", "remedy", "helps", 3.0)
    assert answer(cause, remedy) == (
        "Most would help: no loss (cause): freeze_duration 12 → 0.50 s; "
        "of what you can apply: control x (remedy): freeze_duration 12 → 3.00 s."
    )
    assert answer(remedy, cause) == "Most would help: control x (remedy): freeze_duration 12 → 3.00 s."
    assert answer(cause, row("control x", "remedy", "no difference", 11.0)).endswith(
        "of what you can apply: nothing that was tried."
    )
    little = row("control x", "remedy", "helps", 11.9)
    assert answer(cause, little).endswith("of what you can apply: nothing that was tried.")
    assert answer(row("control x", "remedy", "harms", 14.0)) == "No change helps: freeze_duration is 12 s."


def test_a_part_of_the_time_and_some_flows_can_be_chosen(tmp_path: Path) -> None:
    scenario = Scenario.load(
        "first-call", {"duration": "20 s", "link.up.loss": {"steps": [["0 s", "0 %"], ["10 s", "30 %"]]}}
    )
    early = rtclab.remedies(scenario, end="8 s", repeats=2)
    late = rtclab.remedies(scenario, begin="10 s", repeats=2)
    assert (early.window, late.window) == ((0.0, 8.0), (10.0, None))
    assert sum(early.unchanged) < sum(late.unchanged)
    run = rtclab.run(scenario, repeats=1, out=tmp_path)
    assert run.between("10 s").remedies(repeats=2).unchanged == late.unchanged
    one_way = {"participants.bob.link.up.loss": "30 %", "duration": "10 s"}
    of_bob = rtclab.remedies(Scenario.load("first-call", one_way), flows="bob->alice", repeats=2)
    of_alice = rtclab.remedies(Scenario.load("first-call", one_way), flows="alice->bob", repeats=2)
    assert min(of_bob.unchanged) > max(of_alice.unchanged)


def test_the_control_of_a_run_may_be_gone(tmp_path: Path) -> None:
    control = tmp_path / "gone.py"
    control.write_text("class Control:\n    def on_feedback(self, now, feedback):\n        return 500_000\n")
    scenario = tmp_path / "call.toml"
    named = 'congestion_control.name = "gone.py:Control"'
    scenario.write_text(f'extends = "first-call"\nduration = "5 s"\n{named}\n')
    run = rtclab.run(scenario, repeats=1, out=tmp_path, trust=True)
    control.unlink()
    with pytest.raises(BadInput, match=r"cannot read .*gone\.py"):
        run.remedies(repeats=2, trust=True)


def test_a_dump_does_not_know_freezes_and_is_told_so(tmp_path: Path) -> None:
    file = tmp_path / "webrtc_internals_dump.txt"
    file.write_text(json.dumps(dump(video_sent(), pair("CP", 0.1))))
    imported = rtclab.import_files(file, out=tmp_path)
    assert "the call has no value of freeze_duration" in str(imported.remedies(repeats=2).refusal)


def test_the_command_ranks_changes_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = rtclab.run("first-call", set=LOSSY, repeats=1, out=tmp_path)

    def printed_by(*options: str, status: int = 0) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["remedy", str(made.path), "--repeats", "2", *options])
        assert ended.value.code == status
        return capsys.readouterr().out

    printed = printed_by("--for", "receiving_rate")
    assert "changes by receiving_rate, mean of 2 simulated calls [95 % interval]" in printed
    assert re.search(r"^unchanged +[\d.]+", printed, re.MULTILINE)
    answer = json.loads(printed_by("--json"))
    assert (answer["goal"], answer["repeats"], answer["trust"]) == ("freeze_duration", 2, [])
    assert {row["verdict"] for row in answer["changes"]} <= {"helps", "harms", "no difference", "not known"}
    assert printed_by("--csv").startswith("change,kind,metric,unit,base,new,difference")


def test_rates_are_of_media_and_not_of_the_traffic_beside_it(tmp_path: Path) -> None:
    scenario = Scenario.load("access/bufferbloat", {"duration": "20 s", "traffic.upload.end": "18 s"})
    found = rtclab.remedies(scenario, goal="receiving_rate", repeats=3)
    run = rtclab.Experiment(scenario, repeats=3).run(out=tmp_path)
    rates = run.metrics(metrics="receiving_rate", flows=["alice->bob", "bob->alice"])["value"]
    row = found.table().filter(change="no cross traffic", metric="receiving_rate").to_dicts()[0]
    assert row["base"] == pytest.approx(rates.to_numpy().mean())
