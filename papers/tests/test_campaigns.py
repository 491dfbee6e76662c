"""Campaigns: order, resuming, disturbed and failed repeats, and the file of rows."""

from __future__ import annotations

import json
import os
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rtclab.backend import taking_turns
from rtclab.errors import BackendUnavailable, BadInput, CallFailed, UnsupportedScenario
from rtclab.scenario import Scenario
from rtclab.trace import SCHEMA, Trace, only_writer
from rtclab_papers.campaigns import (
    MAX_TRIES,
    Campaign,
    Item,
    Key,
    Record,
    RowFile,
    encoders_at_once,
    items_of,
    runner,
    shuffled,
)
from rtclab_papers.campaigns.rows import Value

CALL = Scenario.load("first-call", {"duration": "2 s"})
ITEMS = items_of([(name, CALL) for name in ("a/one", "a/two", "b/three")], 4)
RATE = 512.25


def measure(item: Item, trace: Trace) -> list[Value]:
    return [("alice->bob", "rate", RATE + item.repeat), ("alice", "encoder", "libvpx")]


class Fake:
    """Stands in for the live backend, and notes what it runs.

    ``act`` may raise, or say how the machine disturbed the run. The check before a run raises ``refusal``.
    """

    parallel = True  # so that the tests do not wait for live calls of this machine

    def __init__(
        self, act: Callable[[int], str] = lambda number: "", refusal: Exception | None = None
    ) -> None:
        self.act = act
        self.refusal = refusal
        self.ran: list[int] = []

    def check(self, scenario: Scenario) -> None:
        if self.refusal is not None:
            raise self.refusal

    def run(self, scenario: Scenario, *, seed: int, repeat: int, out: Path) -> SimpleNamespace:
        self.ran.append(repeat)
        assert seed == scenario.seed_of(repeat)
        return SimpleNamespace(manifest=SimpleNamespace(failure=None), disturbed=self.act(len(self.ran)))


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[[Fake], Fake]:
    def use(fake: Fake) -> Fake:
        monkeypatch.setattr(runner, "backend", lambda name: fake)
        monkeypatch.setattr(
            runner, "disturbances", lambda trace: [trace.disturbed] if trace.disturbed else []
        )
        return fake

    return use


def campaign(rows: RowFile, items: list[Item] = ITEMS, **options: object) -> Campaign:
    return Campaign(items, "live", rows, measure, jobs=1, **options)  # type: ignore[arg-type]


def test_the_order_depends_on_the_seed_alone_and_has_every_item_once() -> None:
    first = shuffled(ITEMS, 7)
    assert first == shuffled(list(reversed(ITEMS)), 7)
    assert Counter((item.condition, item.repeat) for item in first) == Counter(
        (item.condition, item.repeat) for item in ITEMS
    )
    assert first != shuffled(ITEMS, 8)
    assert first != ITEMS


def test_a_core_carries_one_encoder() -> None:
    assert [encoders_at_once(cores) for cores in (1, 2, 4, 9)] == [1, 2, 4, 9]


@pytest.mark.parametrize(
    ("name", "encoders"),
    [
        ("singh2013/unconstrained", 2),
        ("singh2013/mesh-3", 6),
        ("singh2013/calls-3", 6),
        ("jansen2017/sfu-4", 4),
    ],
)
def test_an_item_weighs_as_much_as_its_encoders(name: str, encoders: int) -> None:
    assert Item(name, Scenario.load(name), 0).weight == encoders


def test_calls_that_run_at_once_have_a_core_per_encoder() -> None:
    class Pool:
        def submit(self, *_: object) -> Future[Record]:
            return Future()

    three = Scenario.load("singh2013/mesh-3")
    items = items_of([("two", CALL)], 2) + items_of([("three", three)], 2)
    queue, running = deque((item, 1) for item in items), {}
    four_cores = campaign(RowFile(Path("none.csv")))
    four_cores._fill(queue, running, Pool(), 4, 2)  # type: ignore[arg-type]
    assert [item.condition for item in running.values()] == ["two", "two"]
    running.popitem()
    four_cores._fill(queue, running, Pool(), 4, 2)  # type: ignore[arg-type]
    assert len(running) == 1  # three do not fit beside two
    running.clear()
    four_cores._fill(queue, running, Pool(), 2, 2)  # type: ignore[arg-type]
    assert [item.condition for item in running.values()] == ["three"]  # alone, although there are two cores


def test_rows_of_a_repeat_are_read_as_they_were_written(tmp_path: Path, play: Callable[[Fake], Fake]) -> None:
    play(Fake())
    rows = RowFile(tmp_path / "data" / "rows.csv")
    tally = campaign(rows).run()
    assert tally.outcomes == {"finished": len(ITEMS)}
    record = rows.read()[Key("a/two", "live", 3)]
    assert record.number("rate", "alice->bob") == RATE + 3
    assert record.texts("encoder") == {"alice": "libvpx"}
    assert record.attempt == 1


def test_an_interrupted_campaign_continues_with_the_unfinished_repeats(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    def stop_at_the_sixth(number: int) -> str:
        if number == 6:
            raise KeyboardInterrupt
        return ""

    rows = RowFile(tmp_path / "rows.csv")
    play(Fake(stop_at_the_sixth))
    with pytest.raises(KeyboardInterrupt):
        campaign(rows).run()
    assert len(rows.read()) == 5
    done: list[str] = []
    rest = play(Fake())
    tally = campaign(rows).run(lambda item, record: done.append(item.condition))
    assert len(rest.ran) == len(done) == len(ITEMS) - 5
    assert tally.outcomes == {"finished": len(ITEMS)}
    again = play(Fake())
    campaign(rows).run()
    assert again.ran == []


def test_a_repeat_whose_rows_a_kill_truncated_runs_again(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    rows = RowFile(tmp_path / "rows.csv")
    play(Fake())
    campaign(rows).run()
    for cut in (3, 30):  # within the outcome's row, and before it
        whole = rows.path.read_bytes()
        rows.path.write_bytes(whole[:-cut])
        again = play(Fake())
        campaign(rows).run()
        assert again.ran == [3]  # the last one in the file: the file is sorted
        assert rows.path.read_bytes() == whole


def test_a_disturbed_repeat_runs_again_until_it_is_undisturbed(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    fake = play(Fake(lambda number: "late" if number == 1 else ""))
    rows = RowFile(tmp_path / "rows.csv")
    tally = campaign(rows, ITEMS[:2]).run()
    assert tally.outcomes == {"finished": 2}
    assert not tally.disturbed
    assert len(fake.ran) == 3
    assert fake.ran[0] == fake.ran[2] != fake.ran[1]  # after everything else
    assert sorted(record.attempt for record in rows.read().values()) == [1, 2]


def test_a_repeat_disturbed_three_times_is_reported_and_kept(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    fake = play(Fake(lambda number: "emulator 20.0 ms late (p99)"))
    rows = RowFile(tmp_path / "rows.csv")
    tally = campaign(rows, ITEMS[:1]).run()
    assert len(fake.ran) == MAX_TRIES == 3
    key = ITEMS[0].key("live")
    assert tally.disturbed == {key: "emulator 20.0 ms late (p99)"}
    assert rows.read()[key].number("rate", "alice->bob") == RATE
    again = play(Fake())
    assert campaign(rows, ITEMS[:1]).run().disturbed == tally.disturbed
    assert again.ran == []


def test_tries_before_a_kill_count(tmp_path: Path, play: Callable[[Fake], Fake]) -> None:
    rows = RowFile(tmp_path / "rows.csv")
    rows.append(Record(ITEMS[0].key("live"), 2, "disturbed", "late", ITEMS[0].digest))
    fake = play(Fake(lambda number: "late"))
    campaign(rows, ITEMS[:1]).run()
    assert len(fake.ran) == 1
    assert rows.read()[ITEMS[0].key("live")].attempt == 3


def test_failures_are_counted_with_their_reason_and_the_campaign_goes_on(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    def fail_the_second(number: int) -> str:
        if number == 2:
            raise CallFailed("the browser of bob died")
        return ""

    rows = RowFile(tmp_path / "rows.csv")
    fake = play(Fake(fail_the_second))
    tally = campaign(rows).run()
    assert len(fake.ran) == len(ITEMS)
    assert tally.outcomes == {"finished": len(ITEMS) - 1, "failed": 1}
    assert list(tally.failed.values()) == ["the browser of bob died"]
    assert not play(Fake()).ran
    assert campaign(rows).run().failed == tally.failed
    again = play(Fake())
    assert campaign(rows, retry_failed=True).run().outcomes == {"finished": len(ITEMS)}
    assert len(again.ran) == 1


def test_a_condition_that_the_backend_does_not_support_is_named_and_leaves_no_rows(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    play(Fake(refusal=UnsupportedScenario("calls.0.relay", "no relay")))
    rows = RowFile(tmp_path / "rows.csv")
    # Of when the condition had another scenario, which the backend could run.
    rows.append(Record(ITEMS[0].key("live"), 1, "finished", digest="another"))
    tally = campaign(rows).run()
    assert tally.unsupported == dict.fromkeys(("a/one", "a/two", "b/three"), "calls.0.relay: no relay")
    assert not tally.outcomes
    assert not rows.read()


def test_a_machine_without_browsers_ends_the_campaign(tmp_path: Path, play: Callable[[Fake], Fake]) -> None:
    fake = play(Fake(refusal=BackendUnavailable("no Chromium found")))
    with pytest.raises(BackendUnavailable, match="no Chromium"):
        campaign(RowFile(tmp_path / "rows.csv")).run()
    assert not fake.ran


def test_a_limit_of_the_machine_that_only_a_run_meets_fails_that_repeat(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    def meet(number: int) -> str:
        if number == 2:
            raise BackendUnavailable("cannot create the network namespace of alice")
        return ""

    play(Fake(meet))
    tally = campaign(RowFile(tmp_path / "rows.csv")).run()
    assert tally.outcomes == {"finished": len(ITEMS) - 1, "failed": 1}
    assert list(tally.failed.values()) == ["cannot create the network namespace of alice"]


def test_finished_rows_stay_when_the_backend_cannot_run_the_rest(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    rows = RowFile(tmp_path / "rows.csv")
    two = items_of([("a", CALL)], 2)
    play(Fake())
    campaign(rows, two[:1]).run()
    play(Fake(refusal=UnsupportedScenario("traffic.web.congestion_control", "this kernel has no `bbr`")))
    tally = campaign(rows, two).run()
    assert tally.outcomes == {"finished": 1}
    assert set(rows.read()) == {two[0].key("live")}


def test_a_changed_scenario_runs_again_and_another_title_does_not(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    rows = RowFile(tmp_path / "rows.csv")
    play(Fake())
    campaign(rows, items_of([("a", CALL)], 1)).run()
    renamed = items_of([("a", CALL.model_copy(update={"title": "Another title"}))], 1)
    assert campaign(rows, renamed).todo() == []
    longer = items_of([("a", Scenario.load(CALL, {"duration": "3 s"}))], 1)
    assert campaign(rows, longer).todo() == longer


def test_traces_are_kept_by_condition_repeat_and_try(tmp_path: Path, play: Callable[[Fake], Fake]) -> None:
    play(Fake(lambda number: "late" if number == 1 else ""))
    campaign(RowFile(tmp_path / "rows.csv"), ITEMS[:1], traces=tmp_path / "traces").run()
    kept = sorted(path.name for path in (tmp_path / "traces" / "a" / "one").iterdir())
    assert kept == ["repeat-0-try-1", "repeat-0-try-2"]


def test_the_trace_of_a_failed_call_is_kept_under_a_name_of_its_own(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    def fail(number: int) -> str:
        raise CallFailed("the browser of bob died")

    play(Fake(fail))
    campaign(RowFile(tmp_path / "rows.csv"), ITEMS[:1], traces=tmp_path / "traces").run()
    assert [path.name for path in (tmp_path / "traces" / "a" / "one").iterdir()] == ["repeat-0-try-1-failed"]


@pytest.mark.parametrize("place", ["rows.csv", "traces"])
def test_two_campaigns_do_not_write_to_the_same_rows_or_traces(
    tmp_path: Path, play: Callable[[Fake], Fake], place: str
) -> None:
    fake = play(Fake())
    (tmp_path / "traces").mkdir()
    one = campaign(RowFile(tmp_path / "rows.csv"), ITEMS[:1], traces=tmp_path / "traces")
    refused = rf"{tmp_path / place}: process {os.getpid()} on \S+ is writing here"
    with only_writer(tmp_path / place), pytest.raises(BadInput, match=refused):
        one.run()
    assert not fake.ran
    assert one.run().outcomes == {"finished": 1}


def test_a_live_campaign_takes_a_turn(tmp_path: Path, play: Callable[[Fake], Fake], monkeypatch: Any) -> None:
    monkeypatch.setattr(taking_turns, "LOCK", tmp_path / "live-calls.lock")
    locked: list[bool] = []

    def note(number: int) -> str:
        locked.append(taking_turns.LOCK.exists())
        return ""

    fake = Fake(note)
    fake.parallel = False
    play(fake)
    rows = RowFile(tmp_path / "rows.csv")
    campaign(rows, ITEMS[:2]).run()
    assert locked == [True, True]
    assert not taking_turns.LOCK.exists()


def test_a_repeat_without_rows_is_measured_from_its_trace(tmp_path: Path) -> None:
    items, rows, traces = items_of([("call", CALL)], 1), RowFile(tmp_path / "rows.csv"), tmp_path / "traces"
    whole = Campaign(items, "sim", rows, frames_sent, jobs=1, traces=traces)
    whole.run()
    before, kept = rows.path.read_text(), traces / "call" / "repeat-0-try-1"
    written = (kept / "manifest.json").stat().st_mtime_ns
    rows.path.unlink()
    assert whole.run().outcomes == {"finished": 1}
    assert rows.path.read_text() == before
    assert (kept / "manifest.json").stat().st_mtime_ns == written
    longer = items_of([("call", Scenario.load(CALL, {"duration": "3 s"}))], 1)
    Campaign(longer, "sim", rows, frames_sent, jobs=1, traces=traces).run()
    assert Trace(kept).manifest.duration_ns == 3 * 10**9


@pytest.fixture
def kept(tmp_path: Path) -> tuple[Campaign, Path]:
    """A campaign of one simulated repeat that has run, and its trace."""
    whole = Campaign(
        items_of([("call", CALL)], 1),
        "sim",
        RowFile(tmp_path / "rows.csv"),
        frames_sent,
        jobs=1,
        traces=tmp_path / "traces",
    )
    whole.run()
    return whole, tmp_path / "traces" / "call" / "repeat-0-try-1"


def alter(manifest: Path, change: Callable[[dict[str, Any]], object]) -> float:
    """Changes a manifest and returns when it was written."""
    about = json.loads(manifest.read_text())
    change(about)
    manifest.write_text(json.dumps(about))
    return manifest.stat().st_mtime_ns


def test_a_trace_of_an_older_rtclab_is_no_failed_call_and_its_rows_stay(kept: tuple[Campaign, Path]) -> None:
    whole, trace = kept
    written = alter(trace / "manifest.json", lambda about: about.update(schema=SCHEMA - 1))
    rows = whole.rows.path.read_text()
    remeasured = replace(whole, versions={"call": "of another measure"})
    tally = remeasured.run()
    assert (tally.outcomes, tally.failed) == ({}, {})
    assert [key.condition for key in tally.outdated] == ["call"]
    assert "written by an older rtclab" in next(iter(tally.outdated.values()))
    assert whole.rows.path.read_text() == rows
    assert (trace / "manifest.json").stat().st_mtime_ns == written
    assert replace(remeasured, retry_failed=True).run().outcomes == {"finished": 1}
    assert Trace(trace).manifest.duration_ns == 2 * 10**9


def test_a_new_field_with_a_default_does_not_repeat_a_call(kept: tuple[Campaign, Path]) -> None:
    whole, trace = kept

    def before_these_fields(about: dict[str, Any]) -> None:
        del about["scenario"]["servers"]
        del about["scenario"]["video"]["simulcast"]

    written = alter(trace / "manifest.json", before_these_fields)
    whole.rows.path.unlink()
    assert whole.run().outcomes == {"finished": 1}
    assert (trace / "manifest.json").stat().st_mtime_ns == written


def test_a_field_that_no_longer_exists_does_not_repeat_a_call_either(kept: tuple[Campaign, Path]) -> None:
    whole, trace = kept
    written = alter(trace / "manifest.json", lambda about: about["scenario"].update(weather="fine"))
    whole.rows.path.unlink()
    tally = whole.run()
    assert not tally.outcomes
    assert "weather" in next(iter(tally.outdated.values()))
    assert (trace / "manifest.json").stat().st_mtime_ns == written


def test_a_damaged_trace_is_run_again(kept: tuple[Campaign, Path]) -> None:
    whole, trace = kept
    (trace / "manifest.json").write_text("{")
    whole.rows.path.unlink()
    assert whole.run().outcomes == {"finished": 1}


def test_campaigns_on_the_same_backend_share_a_file_under_labels(
    tmp_path: Path, play: Callable[[Fake], Fake]
) -> None:
    play(Fake())
    rows = RowFile(tmp_path / "rows.csv")
    campaign(rows, ITEMS[:1], label="then").run()
    campaign(rows, ITEMS[:1], label="now").run()
    assert sorted(key.backend for key in rows.read()) == ["now", "then"]


def test_several_processes_find_the_same_as_one_process(tmp_path: Path) -> None:
    items = items_of([("call", CALL)], 3)
    files = [RowFile(tmp_path / name) for name in ("one.csv", "two.csv")]
    for jobs, rows in zip((1, 2), files, strict=True):
        tally = Campaign(items, "sim", rows, frames_sent, jobs=jobs).run()
        assert tally.outcomes == {"finished": 3}
    assert files[0].path.read_text() == files[1].path.read_text()


def frames_sent(item: Item, trace: Trace) -> list[Value]:
    return [("", "rows", float(trace.table("outbound_rtp").height))]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("seed,half\n1,odd\n")
    with pytest.raises(BadInput, match="expected condition, backend"):
        RowFile(tmp_path / "rows.csv").read()
