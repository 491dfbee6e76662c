"""What would help a call: changes are simulated in pairs, ranked, and compared with the real call."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import polars as pl
import pytest

import rtclab
from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.remedy import changes_of
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
    with pytest.raises(BadInput, match="no value of `sending_rate` is better than another"):
        rtclab.remedies(scenario, goal="sending_rate", repeats=2)


def test_a_real_call_is_compared_with_its_simulation_first(tmp_path: Path) -> None:
    made = rtclab.run("first-call", duration="15 s", repeats=1, capture=True, out=tmp_path)
    imported = rtclab.import_files(made.path / "repeat-0" / "capture.pcapng", out=tmp_path)
    found = rtclab.remedies(imported, goal="receiving_rate", repeats=4, out=tmp_path)
    known = found.trust.filter(metric="receiving_rate").to_dicts()[0]
    assert known["inside"] == (known["low"] <= known["call"] <= known["high"]) == found.shows_the_goal


def test_the_command_ranks_changes_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = rtclab.run("first-call", set=LOSSY, repeats=1, out=tmp_path)

    def printed_by(*options: str) -> str:
        with pytest.raises(SystemExit) as ended:
            main(["remedy", str(made.path), "--repeats", "2", *options])
        assert ended.value.code == 0
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
