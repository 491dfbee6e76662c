"""Conditions that are run several times on both backends."""

from __future__ import annotations

from pathlib import Path

import pytest
from stub_backend import StubBackend

from rtclab.backend import backend, taking_turns
from rtclab.experiment import Results, runner
from rtclab.scenario import Scenario
from rtclab_papers.campaigns import campaign
from rtclab_papers.campaigns.rows import Key, Record, RowFile
from rtclab_papers.validate import again
from rtclab_papers.validate.conditions import CallCondition


def test_repeats_that_failed_or_were_disturbed_have_no_values_and_are_named(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "again.csv")
    outcomes = {"live": ("finished", "disturbed", "finished"), "sim": ("finished", "finished", "failed")}
    rows.write(
        Record(Key("9", side, repeat), 1, outcome, "late", "d", [("alice->bob", "receiving_rate", repeat)])
        for side, own in outcomes.items()
        for repeat, outcome in enumerate(own)
    )
    [rate] = again.distribution_tests(rows.path)
    assert (list(rate.live), list(rate.simulated)) == ([0, 2], [0, 1])
    expected = ["9, live repeat 1: disturbed (late)", "9, simulated repeat 2: failed (late)"]
    assert again.left_out(rows.path) == expected


def test_simulated_repeats_are_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "SIMULATED_REPEATS", 3)
    file = tmp_path / "data" / "again.csv"
    one = CallCondition("7", "", Scenario.load("first-call", ["duration=2 s"]), "odd")
    said: list[str] = []
    for _ in range(2):
        [tally] = again.run_again([one], file, tmp_path / "traces", run_live=False, say=said.append)
        assert tally.outcomes == {"finished": 3}
    assert said == []  # only live calls are told
    known = RowFile(file).read()
    assert {key.repeat for key in known} == {11, 12, 13}
    assert all(record.number("receiving_rate", "alice->bob") > 0 for record in known.values())


def test_live_repeats_come_first_and_keep_their_traces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stub without browsers stands for the live side."""
    live = StubBackend()
    live.parallel = False
    monkeypatch.setattr(taking_turns, "LOCK", tmp_path / "live-calls.lock")
    monkeypatch.setattr(runner, "disturbances", lambda trace: [])
    monkeypatch.setattr(campaign, "backend", lambda name: live if name == "live" else backend(name))
    monkeypatch.setattr(again, "LIVE_REPEATS", 2)
    monkeypatch.setattr(again, "SIMULATED_REPEATS", 2)
    one = CallCondition("7", "", Scenario.load("first-call", ["duration=2 s"]), "odd")
    said: list[str] = []
    again.run_again([one], tmp_path / "again.csv", tmp_path / "runs", run_live=True, say=said.append)
    numbers = [int(line.partition("repeat ")[2].partition(":")[0]) for line in said]
    assert sorted(numbers) == [1, 2]
    live_results, simulated = (Results(tmp_path / "runs" / name) for name in ("live", "sim"))
    assert [trace.manifest.repeat for trace in live_results.traces] == [1, 2]
    assert simulated.finished == 2
    assert not [*simulated.path.rglob("manifest.json")]
