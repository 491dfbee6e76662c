"""Campaigns: the rows of experiments, and what runs again after an interruption, a failure or a change."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from stub_backend import StubBackend

from rtclab.backend import backend, taking_turns
from rtclab.errors import BackendUnavailable, BadInput, UnsupportedScenario
from rtclab.experiment import MAX_TRIES, Condition, Number, Results, runner
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario
from rtclab.trace import Trace, only_writer
from rtclab.trace.manifest import OLDEST_SCHEMA
from rtclab_papers.campaigns import Campaign, Key, Record, RowFile

CALL = Scenario.load("first-call", {"duration": "2 s", "record": "seconds"})
SUNG = Scenario.load(CALL, {"audio": {"bitrate": "32 kbit/s"}})
"""A call that the stub does not support."""
DATA = Path(__file__).parents[2] / "docs" / "data"
RATE = 800.0
"""Of the stub, in kbit/s."""


def sent(trace: Trace, names: Sequence[str]) -> Iterator[Number]:
    """The rate of every flow, a text, and the number of names."""
    for flow in trace.flows:
        yield Number("rate", flow, METRICS["sending_rate"].function(trace, flow))
    yield Number("encoder=libvpx", "alice", 1.0)
    yield Number("names", "", float(len(names)))


def conditions(repeats: int = 2, *names: str, scenario: Scenario = CALL) -> dict[str, Condition]:
    return {name: Condition(scenario, range(repeats), ("rate",)) for name in names or ("a/one", "a/two", "b")}


class Live:
    """Campaigns on a stub that runs one call at a time; tries with numbers in ``disturbed`` are disturbed."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.stub = StubBackend()
        self.stub.parallel = False
        self.disturbed: set[int] = set()
        self.rows = RowFile(folder / "data" / "rows.csv")

    @property
    def ran(self) -> list[int]:
        return [repeat for repeat, _ in self.stub.ran]

    def campaign(self, chosen: dict[str, Condition], **options: Any) -> Campaign:
        self.stub.ran.clear()
        return Campaign(chosen, self.stub, self.rows, self.folder / "live", sent, **options)


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    made = Live(tmp_path)
    monkeypatch.setattr(taking_turns, "LOCK", tmp_path / "live-calls.lock")
    monkeypatch.setattr(runner, "disturbances", lambda trace: ["late"] * (len(made.ran) in made.disturbed))
    return made


def simulated(folder: Path, chosen: dict[str, Condition], **options: Any) -> Campaign:
    rows, place = RowFile(folder / "rows.csv"), folder / "sim"
    return Campaign(chosen, backend("sim"), rows, place, sent, **{"jobs": 1, **options})


def test_values_and_texts_of_a_repeat_become_rows(live: Live) -> None:
    assert live.campaign(conditions()).run().outcomes == {"finished": 6}
    record = live.rows.read()[Key("a/two", "stub", 1)]
    assert record.number("rate", "alice->bob") == RATE
    assert record.texts("encoder") == {"alice": "libvpx"}
    assert (record.attempt, record.reason) == (1, "")
    assert live.ran != [0, 1] * 3  # the order is shuffled


def test_an_interrupted_campaign_writes_the_rows_of_what_has_finished_and_continues(live: Live) -> None:
    live.stub.interrupted_in = {1}
    with pytest.raises(KeyboardInterrupt):
        live.campaign(conditions()).run()
    before = live.ran.count(0)
    assert len(live.rows.read()) == before < 3
    live.stub.interrupted_in = set()
    ended: list[str] = []
    tally = live.campaign(conditions()).run(lambda name, one: ended.append(name))
    assert len(live.ran) == len(ended) == 6 - before
    assert tally.outcomes == {"finished": 6}
    assert live.campaign(conditions()).run().outcomes == {"finished": 6}
    assert live.ran == []


KILLED = """
import sys
from pathlib import Path
from test_campaigns import conditions, simulated
if __name__ == "__main__":
    simulated(Path(sys.argv[1]), conditions(12)).run()
"""


def test_what_ended_before_a_kill_does_not_run_again_and_no_row_is_double(tmp_path: Path) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    here = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    store = tmp_path / "cut" / "sim" / "results.sqlite"
    with subprocess.Popen(
        [sys.executable, tmp_path / "killed.py", tmp_path / "cut"], env={**os.environ, "PYTHONPATH": here}
    ) as process:
        while process.poll() is None and not (store.is_file() and Results(store.parent).finished):
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    ended = Results(store.parent).finished
    assert 0 < ended < 36
    assert not (tmp_path / "cut" / "rows.csv").exists()
    again: list[int] = []
    for folder, seen in (("cut", again), ("whole", [])):
        tally = simulated(tmp_path / folder, conditions(12)).run(
            lambda name, one, seen=seen: seen.append(one.repeat)  # type: ignore[misc]
        )
        assert tally.outcomes == {"finished": 36}
    assert len(again) == 36 - ended
    rows = (tmp_path / "cut" / "rows.csv").read_text()
    assert rows == (tmp_path / "whole" / "rows.csv").read_text()
    assert len(set(rows.splitlines())) == len(rows.splitlines())


def test_a_disturbed_repeat_is_tried_again_and_kept_after_the_last_try(live: Live) -> None:
    live.disturbed = {1, 3, 4, 5}
    tally = live.campaign(conditions(2, "a")).run()
    assert len(live.ran) == 2 + MAX_TRIES
    assert tally.outcomes == {"finished": 1, "disturbed": 1}
    (key,) = tally.disturbed
    record = live.rows.read()[key]
    assert (record.attempt, record.reason, record.number("rate", "alice->bob")) == (MAX_TRIES, "late", RATE)
    assert live.campaign(conditions(2, "a")).run().disturbed == tally.disturbed
    assert live.ran == []


def test_failures_are_counted_with_their_reason_and_run_again_only_if_asked_for(live: Live) -> None:
    live.stub.failing = {1, 2}
    tally = live.campaign(conditions(4, "a")).run()
    assert sorted(live.ran) == [0, 1, 2, 3]
    assert tally.outcomes == {"finished": 2, "failed": 2}
    assert tally.failed[Key("a", "stub", 1)].startswith("alice: the page reported `no camera`")
    assert live.campaign(conditions(4, "a")).run().failed == tally.failed
    assert live.ran == []
    live.stub.failing = set()
    assert live.campaign(conditions(4, "a"), retry_failed=True).run().outcomes == {"finished": 4}
    assert sorted(live.ran) == [1, 2]


def test_a_repeat_in_which_the_laboratory_failed_has_no_row_and_runs_again(live: Live) -> None:
    live.stub.crashing = {1}
    tally = live.campaign(conditions(2, "a")).run()
    assert tally.outcomes == {"finished": 1}
    assert "the laboratory failed: ZeroDivisionError" in tally.failed[Key("a", "stub", 1)]
    assert live.rows.read().keys() == {Key("a", "stub", 0)}
    live.stub.crashing = set()
    assert live.campaign(conditions(2, "a")).run().outcomes == {"finished": 2}
    assert live.ran == [1]


def test_a_condition_that_cannot_run_is_named_and_the_others_run(live: Live) -> None:
    chosen = conditions(1, "a") | conditions(1, "sung", scenario=SUNG)
    tally = live.campaign(chosen).run()
    assert tally.unsupported == {"sung": "audio: the stub has no microphone"}
    assert tally.outcomes == {"finished": 1}
    assert set(live.rows.read()) == {Key("a", "stub", 0)}


def test_rows_stay_when_the_rest_cannot_run(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    live.campaign(conditions(1, "a")).run()
    refused = UnsupportedScenario("traffic.web.congestion_control", "this kernel has no `bbr`")
    monkeypatch.setattr(live.stub, "check", Mock(side_effect=refused))
    tally = live.campaign(conditions(2, "a")).run()
    assert (tally.outcomes, [*tally.unsupported]) == ({"finished": 1}, ["a"])
    assert set(live.rows.read()) == {Key("a", "stub", 0)}


def test_a_machine_without_browsers_ends_the_campaign(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live.stub, "check", Mock(side_effect=BackendUnavailable("no Chromium found")))
    with pytest.raises(BackendUnavailable, match="no Chromium"):
        live.campaign(conditions()).run()
    assert not live.rows.path.exists()


def test_a_changed_scenario_runs_again_and_another_title_does_not(live: Live) -> None:
    live.campaign(conditions(1, "a")).run()
    renamed = CALL.model_copy(update={"title": "Another title"})
    assert live.campaign(conditions(1, "a", scenario=renamed)).todo() == {}
    longer = conditions(1, "a", scenario=Scenario.load(CALL, {"duration": "3 s"}))
    before = live.rows.read()
    with only_writer(live.folder / "live"), pytest.raises(BadInput, match="is writing here"):
        live.campaign(longer).run()
    assert live.rows.read() == before  # what the store has is of the scenario before
    live.campaign(longer).run()
    assert live.ran == [0]
    assert live.campaign(longer).todo() == {}


def measured_otherwise(live: Live, repeats: int = 1, **options: Any) -> Campaign:
    """A campaign with one more measure than :func:`conditions`."""
    one = {"a": Condition(CALL, repeats, ("rate", "loss"))}
    return live.campaign(one, versions={"a": "of two measures"}, **options)


def test_a_kept_trace_is_measured_again_instead_of_run_again(live: Live) -> None:
    live.campaign(conditions(1, "a")).run()
    live.rows.path.unlink()
    assert live.campaign(conditions(1, "a")).run().outcomes == {"finished": 1}
    assert live.rows.read()[Key("a", "stub", 0)].number("names") == 1
    assert measured_otherwise(live).run().outcomes == {"finished": 1}
    assert live.rows.read()[Key("a", "stub", 0)].number("names") == 2
    assert live.ran == []


@pytest.mark.parametrize("content", ["{", None])
def test_a_repeat_whose_trace_is_damaged_or_gone_runs_again(live: Live, content: str | None) -> None:
    live.campaign(conditions(1, "a")).run()
    manifest = Results(live.folder / "live")["a"].repeat_path(0) / "manifest.json"
    manifest.unlink() if content is None else manifest.write_text(content)
    assert measured_otherwise(live).run().outcomes == {"finished": 1}
    assert live.ran == [0]


def test_a_trace_of_an_older_rtclab_is_no_failed_call_and_its_rows_stay(live: Live) -> None:
    live.campaign(conditions(1, "a")).run()
    manifest = Results(live.folder / "live")["a"].repeat_path(0) / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"schema": OLDEST_SCHEMA - 1}))
    rows = live.rows.path.read_text()
    tally = measured_otherwise(live).run()
    assert (tally.outcomes, tally.failed, live.ran) == ({}, {}, [])
    assert [key.condition for key in tally.outdated] == ["a"]
    assert "written by an older rtclab" in next(iter(tally.outdated.values()))
    assert live.rows.path.read_text() == rows
    more = measured_otherwise(live, 2).run()
    assert (more.outcomes, [*more.outdated], live.ran) == ({"finished": 1}, [*tally.outdated], [1])
    assert measured_otherwise(live, 2, retry_failed=True).run().outcomes == {"finished": 2}
    assert live.ran == [0]
    assert live.rows.read()[Key("a", "stub", 0)].number("names") == 2


def never(trace: Trace, names: Sequence[str]) -> list[Number]:
    raise ZeroDivisionError("division by zero")


def test_a_repeat_that_cannot_be_measured_has_failed(live: Live) -> None:
    tally = replace(live.campaign(conditions(1, "a")), measure=never).run()
    (why,) = tally.failed.values()
    assert why == "not measured: ZeroDivisionError: division by zero"
    assert live.rows.read()[Key("a", "stub", 0)].reason == why


@pytest.mark.parametrize("place", ["data/rows.csv", "live"])
def test_two_campaigns_do_not_write_to_the_same_rows_or_experiment(live: Live, place: str) -> None:
    for name in ("data", "live"):
        (live.folder / name).mkdir()
    refused = rf"{live.folder / place}: process {os.getpid()} on \S+ is writing here"
    with only_writer(live.folder / place), pytest.raises(BadInput, match=refused):
        live.campaign(conditions()).run()
    assert live.ran == []
    assert live.campaign(conditions()).run().outcomes == {"finished": 6}


def test_campaigns_on_the_same_backend_share_a_file_under_labels(tmp_path: Path) -> None:
    for label in ("then", "now"):
        simulated(tmp_path, conditions(1, "a"), label=label).run()
    assert sorted(key.backend for key in RowFile(tmp_path / "rows.csv").read()) == ["now", "then"]


def test_several_processes_find_the_same_as_one_process(tmp_path: Path) -> None:
    for jobs in (1, 2):
        tally = simulated(tmp_path / str(jobs), conditions(3, "a"), jobs=jobs).run()
        assert tally.outcomes == {"finished": 3}
    assert (tmp_path / "1" / "rows.csv").read_text() == (tmp_path / "2" / "rows.csv").read_text()


def test_simulations_of_other_code_leave_no_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulated(tmp_path, conditions(1, "a")).run()
    RowFile(tmp_path / "rows.csv").write([])
    stopped = simulated(tmp_path, conditions(1, "a"))
    monkeypatch.setattr("rtclab_papers.campaigns.campaign.build", lambda: "a later build")
    monkeypatch.setattr(Campaign, "_run", Mock(side_effect=KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        stopped.run()
    assert stopped.rows.read() == {}


def test_a_file_of_something_else_is_refused_and_a_repeat_without_outcome_left_out(tmp_path: Path) -> None:
    rows = RowFile(tmp_path / "rows.csv")
    rows.path.write_text("seed,half\n1,odd\n")
    with pytest.raises(BadInput, match="expected condition, backend"):
        rows.read()
    one = Record(Key("a", "sim", 0), 1, "finished", digest="d", values=[("", "rate", 1.0)])
    rows.write([replace(one, key=Key("a", "sim", 1)), one])
    assert [*rows.read()] == [Key("a", "sim", 0), Key("a", "sim", 1)]
    lines = rows.path.read_text().splitlines(keepends=True)
    rows.path.write_text("".join(lines[:-1]))
    assert [*rows.read()] == [Key("a", "sim", 0)]


@pytest.mark.parametrize("name", ["l4s", "then-and-now", "twin-repeats"])
def test_published_rows_stay_the_same_when_they_are_written_again(name: str, tmp_path: Path) -> None:
    published, again = DATA / f"{name}.csv", RowFile(tmp_path / f"{name}.csv")
    again.write(RowFile(published).read().values())
    assert again.path.read_bytes() == published.read_bytes()
