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
from rtclab_papers.validate.again import (
    FIRST_LIVE,
    FIRST_SIMULATED,
    LIVE_REPEATS,
    distribution_tests,
    left_out,
    run_again,
    section,
)
from rtclab_papers.validate.conditions import CallCondition
from rtclab_papers.validate.outcomes import SIMULATED_REPEATS


def append(
    file: Path, condition: str, backend: str, repeat: int, outcome: str = "finished", **values: float
) -> None:
    """Adds a repeat with values of alice's direction; underlines in names are those of metrics."""
    found = tuple(("alice->bob", metric, value) for metric, value in values.items())
    key, reason = Key(condition, backend, repeat), "" if outcome == "finished" else "late"
    known = RowFile(file).read()
    known[key] = Record(key, 1, outcome, reason, "d", found)  # type: ignore[arg-type]
    RowFile(file).write(known.values())


def sample(file: Path, condition: str, shift: float) -> None:
    """Ten live and 39 simulated repeats, whose rates are apart by ``shift`` and whose freezes are equal."""
    for number in range(LIVE_REPEATS):
        append(file, condition, "live", number, receiving_rate=100.5 + 4 * number + shift, freeze_count_w3c=1)
    for number in range(SIMULATED_REPEATS):
        append(file, condition, "sim", number, receiving_rate=100.0 + number, freeze_count_w3c=1)


def test_only_distributions_that_differ_more_than_chance_are_marked(tmp_path: Path) -> None:
    file = tmp_path / "again.csv"
    sample(file, "9", 0.0)
    sample(file, "41", 1000.0)
    found = {(one.condition, one.metric): one for one in distribution_tests(file)}
    assert [*found] == [
        ("9", "receiving_rate"),
        ("9", "freeze_count_w3c"),
        ("41", "receiving_rate"),
        ("41", "freeze_count_w3c"),
    ]
    assert found["41", "receiving_rate"].differs
    assert not found["9", "receiving_rate"].differs
    assert found["9", "freeze_count_w3c"].p == 1.0
    lines = "\n".join(section([], file, "twin")).splitlines()
    [rate] = [line for line in lines if line.startswith("| 41 | Receiving rate (kbit/s) |")]
    assert rate.endswith("| 1118 [1100,\u00a01136] | 119 [100,\u00a0138] | **2.4e-10** |")
    assert any("Of 4 tests, 1 have p up to 0.05" in line for line in lines)
    assert sum(line.startswith("![") for line in lines) == len(again.drawings(file)) == 4


def test_repeats_that_failed_or_were_disturbed_have_no_values_and_are_named(tmp_path: Path) -> None:
    file = tmp_path / "again.csv"
    sample(file, "9", 0.0)
    append(file, "9", "live", 3, "disturbed", receiving_rate=1e6)
    append(file, "9", "sim", 5, "failed")
    [rate, _] = distribution_tests(file)
    assert (len(rate.live), len(rate.simulated)) == (9, 38)
    assert max(rate.live) < 200
    assert left_out(file) == ["9, live repeat 3: disturbed (late)", "9, simulated repeat 5: failed (late)"]


def test_without_rows_there_is_no_section(tmp_path: Path) -> None:
    assert list(section([], tmp_path / "none.csv", "twin")) == []
    assert again.drawings(tmp_path / "none.csv") == []


def test_the_two_sides_have_no_seed_in_common_and_none_with_the_page() -> None:
    live = set(range(FIRST_LIVE, FIRST_LIVE + LIVE_REPEATS))
    simulated = set(range(FIRST_SIMULATED, FIRST_SIMULATED + SIMULATED_REPEATS))
    assert 0 not in live
    assert not live & simulated


def test_simulated_repeats_are_run_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(again, "SIMULATED_REPEATS", 3)
    file = tmp_path / "data" / "again.csv"
    one = CallCondition("7", "", Scenario.load("first-call", ["duration=2 s"]), "odd")
    said: list[str] = []
    for _ in range(2):
        [tally] = run_again([one], file, tmp_path / "traces", run_live=False, say=said.append)
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
    run_again([one], tmp_path / "again.csv", tmp_path / "runs", run_live=True, say=said.append)
    numbers = [int(line.partition("repeat ")[2].partition(":")[0]) for line in said]
    assert sorted(numbers) == [1, 2]
    live_results, simulated = (Results(tmp_path / "runs" / name) for name in ("live", "sim"))
    assert [trace.manifest.repeat for trace in live_results.traces] == [1, 2]
    assert simulated.finished == 2
    assert not [*simulated.path.rglob("manifest.json")]
