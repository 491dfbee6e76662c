"""The store of an experiment: what is bad input to it, who may use it at once, and that nothing is lost."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from math import inf
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from command_line import Rtclab
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from stub_backend import StubBackend
from synthetic_run import call_tables, write_run

from rtclab.errors import BadInput, DiskFull, OtherSchema, TraceError
from rtclab.experiment import (
    About,
    Execution,
    Experiment,
    Listed,
    Number,
    Result,
    Results,
    Store,
    open_store,
    resumed,
    store,
)
from rtclab.lab import list_runs
from rtclab.metrics import METRICS, metric
from rtclab.scenario import Scenario
from rtclab.trace import MANIFEST, SCHEMA, Repeat, Trace
from rtclab.trace.manifest import OLDEST_SCHEMA

CALL = Scenario.load("first-call", {"duration": "2 s", "repeats": 2})
SWEEP: dict[str, Any] = {
    "conditions": "first-call",
    "vary": {"link.up.capacity": ["0.5 Mbit/s", "1 Mbit/s"], "link.up.loss": "0..5 % x3"},
    "set": {"duration": "3 s"},
    "repeats": 4,
}


def made(path: Path, *, repeats: int = 2, scenarios: int = 1, traces: bool = True) -> Store:
    """A store without results."""
    path.mkdir(exist_ok=True)
    data = CALL.model_dump(mode="json")
    labels = ["a", "b", "c"][:scenarios]
    about = About(name="x", backend="sim", repeats=repeats, metrics=tuple(METRICS), traces=traces)
    return Store.create(path, about, Listed(dict.fromkeys(labels, data)))


def one(repeat: int, rate: float = 1.0, condition: int = 0) -> Result:
    """A finished repeat with one value."""
    return Result(condition, Repeat(repeat, 7, "finished"), [Number("sending_rate", "alice->bob", rate, 0.5)])


def rates(of: Store) -> list[tuple[int, float]]:
    """Repeat and rate in the order of the store."""
    rows = Results(of.path).metrics(metrics=["sending_rate"])
    return rows.select("repeat", "value").rows()


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A sweep that ran without interruption."""
    return Experiment(**SWEEP).run(out=tmp_path_factory.mktemp("whole"), jobs=1)


# --- files that are no store -------------------------------------------------------------------------


def set_schema(file: Path, number: int) -> None:
    with closing(sqlite3.connect(file)) as database, database:
        database.execute("UPDATE about SET value = ? WHERE key = 'schema'", [str(number)])
        database.execute("DROP VIEW results")
        database.execute("ALTER TABLE conditions RENAME COLUMN digest TO of_another_schema")


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (4, "written by a newer rtclab, with schema 4; this one reads schema 3\n  hint: update rtclab"),
        (0, "written by another rtclab, with schema 0; this one reads schema 3\n  hint: run the experiment"),
    ],
)
def test_a_store_of_another_schema_is_refused_in_a_sentence(tmp_path: Path, schema: int, said: str) -> None:
    kept = made(tmp_path / "x")
    set_schema(kept.file, schema)
    before = kept.file.read_bytes()
    with pytest.raises(OtherSchema, match=f"^{re.escape(f'{kept.file}: {said}')}"):
        Results(kept.path)
    assert kept.file.read_bytes() == before


def random_bytes(data: bytes) -> bytes:
    return random.Random(1).randbytes(len(data))


def without_middle(data: bytes) -> bytes:
    return data[:4096] + bytes(len(data) - 8192) + data[-4096:]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda data: b"", "not a store of rtclab: no such table: about"),
        (lambda data: data[:5000], "cannot be read: "),
        (random_bytes, "cannot be read: file is not a database"),
        (lambda data: b"{}", "cannot be read: file is not a database"),
        (without_middle, "cannot be read: database disk image is malformed"),
    ],
    ids=["empty", "truncated", "random", "json", "holes"],
)
def test_a_damaged_store_is_named_in_a_sentence_and_its_traces_stay(
    tmp_path: Path, spoil: Callable[[bytes], bytes], said: str
) -> None:
    run = write_run(tmp_path, [call_tables(1, duration_s=5)])
    file = run.path / "results.sqlite"
    spoilt = spoil(file.read_bytes())
    file.write_bytes(spoilt)
    with pytest.raises(TraceError, match=f"^{re.escape(f'{file}: {said}')}"):
        Results(run.path).metrics()
    with pytest.raises(TraceError):
        resumed(run.path)
    assert file.read_bytes() == spoilt
    assert Trace(run.path / "repeat-0").flows == ["alice->bob", "bob->alice"]


@pytest.mark.parametrize(
    ("key", "value"),
    [("about", "{"), ("about", "[]"), ("about", '{"name": "x"}'), ("conditions", "7"), ("conditions", "{}")],
)
def test_a_store_with_unreadable_content_is_named(tmp_path: Path, key: str, value: str) -> None:
    kept = made(tmp_path / "x")
    with closing(sqlite3.connect(kept.file)) as database, database:
        database.execute("UPDATE about SET value = ? WHERE key = ?", [value, key])
    with pytest.raises(TraceError, match=f"^{re.escape(f'{kept.file}: cannot be read: ')}"):
        Results(kept.path)


def test_a_directory_without_results_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"has no results: it has no results\.sqlite"):
        Results(tmp_path)
    (tmp_path / "x" / "results.sqlite").mkdir(parents=True)
    with pytest.raises(TraceError, match="no run `x`"):
        open_store("x", tmp_path)


# --- killed, locked, read-only, full -----------------------------------------------------------------

HALF_COMMIT = """
import os, signal, sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("PRAGMA cache_size = 2")  # pages go to the file before the commit
database.execute("BEGIN IMMEDIATE")
database.execute("UPDATE outcomes SET reason = ?", ["x" * 3000])
database.execute("DELETE FROM numbers")
database.executemany("INSERT INTO events (at, what) VALUES ('', ?)", [("x" * 3000,)] * 50)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_wrote_by_half_is_rolled_back_by_the_next_reader(tmp_path: Path) -> None:
    kept = made(tmp_path / "x", repeats=50)
    kept.add([one(repeat, repeat + 1) for repeat in range(50)], code="1")
    subprocess.run([sys.executable, "-c", HALF_COMMIT, str(kept.file)], check=False)
    assert (kept.path / "results.sqlite-journal").stat().st_size > 512
    assert Results(kept.path).finished == 50
    assert rates(kept) == [(repeat, repeat + 1) for repeat in range(50)]
    assert kept.events() == []


HOLD = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
database.execute("BEGIN EXCLUSIVE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def locked(tmp_path: Path) -> Iterator[tuple[Store, subprocess.Popen[str]]]:
    """A store in which another process holds a write transaction until its input ends."""
    kept = made(tmp_path / "x")
    kept.add([one(0)], code="1")
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", HOLD, str(kept.file)], **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        yield kept, holder


def test_a_store_that_another_process_locks_for_long_says_so(
    locked: tuple[Store, subprocess.Popen[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, holder = locked
    monkeypatch.setattr(store, "BUSY_S", 0.1)
    said = f"^{re.escape(f'{kept.file}: another process has been writing for 0.1 s')}\n  hint: wait until"
    with pytest.raises(BadInput, match=said):
        kept.add([one(1)], code="1")
    with pytest.raises(BadInput, match=said):
        Results(kept.path)
    holder.communicate()
    kept.add([one(1)], code="1")
    assert rates(kept) == [(0, 1.0), (1, 1.0)]


def test_a_store_that_another_process_locks_for_a_moment_is_waited_for(
    locked: tuple[Store, subprocess.Popen[str]],
) -> None:
    kept, holder = locked
    ends = threading.Timer(0.3, holder.communicate)
    ends.start()
    kept.add([one(1)], code="1")
    ends.join()
    assert rates(kept) == [(0, 1.0), (1, 1.0)]


UNWRITABLE = """
import sys
from pathlib import Path
from rtclab.errors import RtclabError
from rtclab.experiment import Results, resumed
results = Results(Path(sys.argv[1]))
print(results.finished, results.metrics(metrics=["sending_rate"])["value"].to_list())
for repeats in (None, 9):
    try:
        resumed(results.path, repeats=repeats)
    except RtclabError as error:
        print(error.message)
"""


@pytest.mark.parametrize("known", [True, False], ids=["measured", "not yet measured"])
def test_a_read_only_directory_can_be_read_and_measured_and_not_resumed(tmp_path: Path, known: bool) -> None:
    run = Experiment([CALL]).run(out=tmp_path)
    values = run.metrics(metrics=["sending_rate"])["value"].to_list()
    if not known:
        with closing(sqlite3.connect(run.path / "results.sqlite")) as database, database:
            database.execute("UPDATE outcomes SET definitions = 'by other definitions'")
            database.execute("DELETE FROM numbers")
    for path in [run.path, *run.path.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    # Permissions do not bind root, unless it gives up the right to ignore them.
    bound = ["setpriv", "--bounding-set", "-dac_override"] if os.geteuid() == 0 else []
    shown = subprocess.run(
        [*bound, sys.executable, "-c", UNWRITABLE, str(run.path)], capture_output=True, text=True, check=False
    )
    run.path.chmod(0o755)
    assert shown.stderr == ""
    refused = f"{run.path}: cannot be written: Permission denied"
    assert shown.stdout.splitlines() == [f"2 {values}", refused, refused]


def most_pages(monkeypatch: pytest.MonkeyPatch, pages: int) -> None:
    """From now on, the disk is full once a store has this many pages."""
    connect = sqlite3.connect

    def limited(*arguments: Any, **more: Any) -> sqlite3.Connection:
        database = connect(*arguments, **more)
        database.execute(f"PRAGMA max_page_count = {pages}")
        return database

    monkeypatch.setattr(sqlite3, "connect", limited)


def test_a_full_disk_stops_a_sweep_and_finished_repeats_are_kept(
    whole: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pages = (whole.path / "results.sqlite").stat().st_size // 4096
    with monkeypatch.context() as patch:
        most_pages(patch, pages - 4)
        with pytest.raises(DiskFull, match=r"results\.sqlite: no space left on the disk"):
            Experiment(**SWEEP).run(out=tmp_path, jobs=1)
    (path,) = tmp_path.iterdir()
    results = Results(path)
    assert 0 < results.finished < 24
    assert_frame_equal(resumed(path, Execution(jobs=1)).metrics(), whole.metrics())


def test_a_disk_that_is_full_from_the_beginning_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    most_pages(monkeypatch, 3)
    with pytest.raises(DiskFull):
        Experiment([CALL], backend=StubBackend()).run(out=tmp_path)
    assert list(tmp_path.iterdir()) == []


LIMITED = """
import resource, signal, sys
from pathlib import Path
from rtclab.errors import RtclabError
from rtclab.experiment import Number, Result, Store
from rtclab.trace import Repeat
kept = Store(Path(sys.argv[1]))
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
try:
    for repeat in range(10000):
        kept.add([Result(0, Repeat(repeat, 7, "finished", note="x" * 1000))], code="1")
        print(repeat)
except RtclabError as error:
    print(error.message)
"""


def test_a_file_that_cannot_grow_keeps_what_was_written(tmp_path: Path) -> None:
    kept = made(tmp_path / "x")
    shown = subprocess.run(
        [sys.executable, "-c", LIMITED, str(kept.path)], capture_output=True, text=True, check=True
    )
    *written, said = shown.stdout.splitlines()
    assert said == f"{kept.file}: no space left on the disk"
    assert 50 < len(written) < 200
    assert kept.outcomes()["repeat"].to_list() == [int(repeat) for repeat in written]


# --- several at once ---------------------------------------------------------------------------------

WRITE = """
import sys
from pathlib import Path
from rtclab.experiment import Number, Result, Store
from rtclab.trace import Repeat
first = int(sys.argv[2])
for repeat in range(first, first + 40):
    number = Number("sending_rate", f"flow {repeat % 7}", float(repeat))
    Store(Path(sys.argv[1])).add([Result(0, Repeat(repeat, 7, "finished"), [number])], code="1")
"""


def test_two_processes_write_and_two_threads_read_at_once(tmp_path: Path) -> None:
    kept = made(tmp_path / "x", repeats=80)
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITE, str(kept.path), str(first)]) for first in (0, 40)
    ]
    seen: list[list[float]] = [[], []]
    errors: list[Exception] = []

    def read(mine: list[float]) -> None:
        try:
            while any(writer.poll() is None for writer in writers):
                rows = Results(kept.path).metrics(metrics=["sending_rate"])
                # Each repeat is there with its value or not at all.
                assert rows["value"].to_list() == [float(repeat) for repeat in rows["repeat"]]
                mine.append(rows.height)
        except Exception as error:
            errors.append(error)

    readers = [threading.Thread(target=read, args=(mine,)) for mine in seen]
    for reader in readers:
        reader.start()
    for thread in readers:
        thread.join()
    assert errors == []
    assert [writer.wait() for writer in writers] == [0, 0]
    assert rates(kept) == [(repeat, float(repeat)) for repeat in range(80)]
    assert all(mine == sorted(mine) and mine for mine in seen)


def test_two_commands_cannot_run_the_same_experiment(tmp_path: Path, stub: StubBackend) -> None:
    path = Experiment([CALL], backend=stub, repeats=1).run(out=tmp_path).path
    code = (
        "import sys; from pathlib import Path; from rtclab.trace import only_writer\n"
        "with only_writer(Path(sys.argv[1])): print('mine', flush=True); sys.stdin.read()"
    )
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([sys.executable, "-c", code, str(path)], **pipes) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "mine\n"
        with pytest.raises(
            BadInput, match=rf"^{path}: process {holder.pid} on \S+ is writing here\n  hint: wait"
        ):
            resumed(path, repeats=2)
        assert Results(path).planned == 1  # and it can be read
        holder.communicate()
    assert resumed(path, repeats=2).finished == 2


# --- other builds and other definitions --------------------------------------------------------------


def test_repeats_of_an_older_build_are_kept_and_said_to_be_older(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = Experiment(**SWEEP | {"vary": {"link.up.loss": ["0 %", "5 %"]}})
    with monkeypatch.context() as patch:
        for module in ("store", "runner", "work", "results"):
            patch.setattr(f"rtclab.experiment.{module}.build", lambda: "0123456789ab")
        path = experiment.run(out=tmp_path, jobs=1).path
        assert not any(Results(path).outcomes()["older"])
    before = Results(path).metrics()
    more = resumed(path, Execution(jobs=1), repeats=5)
    older = [True] * 4 + [False]
    assert more.outcomes()["older"].to_list() == older * 2
    assert_frame_equal(more.metrics().filter(pl.col("repeat") < 4), before)
    renewed = resumed(path, Execution(renew=True, jobs=1))
    assert not any(renewed.outcomes()["older"])
    # The code is the same in truth, so the values are too.
    assert_frame_equal(renewed.metrics(), more.metrics())
    with closing(sqlite3.connect(path / "results.sqlite")) as database:
        kept = database.execute("SELECT code, count(*) FROM outcomes GROUP BY code ORDER BY code").fetchall()
    assert sorted(count for _, count in kept) == [8, 10]
    assert kept[0] == ("0123456789ab", 8)
    assert resumed(path, Execution(renew=True, jobs=1)).outcomes()["older"].sum() == 0


@pytest.fixture
def of_two_builds(tmp_path: Path, request: pytest.FixtureRequest) -> Store:
    """Three repeats of this build, of which another build ran the first two again; the second failed."""
    kept = made(tmp_path / "x", repeats=3, traces=request.param)
    kept.add([one(repeat, 1.0) for repeat in range(3)], code=store.build())
    failed = Result(0, Repeat(1, 7, "failed", "no route"), [Number("call_failures", "", 100.0)])
    kept.add([one(0, 2.0), failed], code="other")
    return kept


def sql(of: Store, query: str) -> list[Any]:
    with closing(sqlite3.connect(of.file)) as database:
        return database.execute(query).fetchall()


@pytest.mark.parametrize("of_two_builds", [True, False], indirect=True, ids=["traces", "no traces"])
def test_every_way_to_the_outcomes_takes_the_latest_of_any_build(
    of_two_builds: Store, rtclab: Rtclab
) -> None:
    path, statuses = of_two_builds.path, ["finished", "failed", "finished"]
    results = Results(path)
    assert results.outcomes()["status"].to_list() == statuses
    assert results.outcomes()["older"].to_list() == [True, True, False]
    assert [repeat.status for repeat in results.repeats] == statuses
    assert results.finished == list_runs(path.parent)["finished"].item() == 2
    assert results.failures()["reason"].to_list() == ["no route"]
    assert sql(of_two_builds, "SELECT status FROM latest ORDER BY repeat") == [(one,) for one in statuses]
    shown = json.loads(rtclab("show", str(path), "--json").out)
    assert shown["statuses"] == of_two_builds.statuses() == {"finished": 2, "failed": 1}
    assert (shown["builds"], shown["older"]) == ({"other": 2, store.build(): 1}, 2)
    (listed,) = json.loads(rtclab("runs", "--out", str(path.parent), "--json").out)
    assert (listed["finished"], listed["planned"]) == (2, 3)


@pytest.mark.parametrize("of_two_builds", [False], indirect=True)
def test_every_way_to_the_values_takes_the_latest_of_any_build(of_two_builds: Store, rtclab: Rtclab) -> None:
    assert rates(of_two_builds) == [(0, 2.0), (2, 1.0)]
    query = "SELECT repeat, value FROM results WHERE metric = 'sending_rate' ORDER BY repeat"
    assert sql(of_two_builds, query) == rates(of_two_builds)
    printed = json.loads(rtclab("measure", str(of_two_builds.path), "--metric", "sending_rate", "--json").out)
    in_python = Results(of_two_builds.path).summary(metrics="sending_rate")
    assert [row["mean"] for row in printed["metrics"]] == in_python["mean"].to_list() == [1.5]


def test_values_by_other_definitions_are_measured_again_from_traces_only(tmp_path: Path) -> None:
    factor = 1.0

    def define() -> None:
        @metric(unit="packets", source="this test", scope="trace")
        def of_this_test(trace: Trace) -> float:
            """A number of packets, for this test."""
            return factor

    def values(path: Path) -> list[float]:
        return sorted(set(Results(path).metrics(metrics=["of_this_test"])["value"]))

    define()
    try:
        traced, untraced = (
            Experiment([CALL], traces=traces, name=str(traces)).run(out=tmp_path, jobs=1).path
            for traces in (True, False)
        )
        assert values(traced) == values(untraced) == [1.0]
        factor = 2.0
        assert values(traced) == [1.0]  # the definition is the same
        del METRICS["of_this_test"]
        others = Results(traced).metrics().filter(pl.col("metric") != "of_this_test")
        assert others.height > 20

        @metric(unit="packets", source="this test", scope="trace")
        def of_this_test(trace: Trace) -> float:
            """Another number of packets, for this test."""
            return 10 * factor

        assert values(traced) == [20.0]
        assert values(untraced) == [1.0]
        assert_frame_equal(Results(traced).metrics().filter(pl.col("metric") != "of_this_test"), others)
    finally:
        METRICS.pop("of_this_test", None)


def test_what_an_older_rtclab_measured_stays_when_its_traces_cannot_be_read_any_more(tmp_path: Path) -> None:
    made = Experiment([CALL], repeats=1, metrics=["rtt"]).run(out=tmp_path)
    before = made.metrics()
    manifest = made.repeat_path(0) / MANIFEST
    manifest.write_text(manifest.read_text().replace(f'"schema": {SCHEMA}', f'"schema": {OLDEST_SCHEMA - 1}'))
    with closing(sqlite3.connect(made.path / "results.sqlite")) as database, database:
        database.execute("UPDATE outcomes SET code = 'older', definitions = 'older'")
    opened = Results(made.path)
    assert_frame_equal(opened.metrics(), before)
    assert opened.outcomes()["older"].to_list() == [True]
    with closing(sqlite3.connect(made.path / "results.sqlite")) as database, database:
        database.execute("UPDATE outcomes SET definitions = ''")
    with pytest.raises(OtherSchema, match="written by an older rtclab, with schema"):
        Results(made.path).metrics()


def test_values_of_a_metric_that_this_program_does_not_define_are_kept(tmp_path: Path) -> None:
    @metric(unit="packets", source="this test", scope="trace")
    def of_this_test(trace: Trace) -> float:
        """A number of packets, for this test."""
        return 7.0

    definition = METRICS["of_this_test"]
    try:
        path = Experiment([CALL]).run(out=tmp_path).path
    finally:
        del METRICS["of_this_test"]
    known = Results(path).metrics()
    assert known.filter(metric="of_this_test")["value"].to_list() == [7.0, 7.0]
    METRICS["of_this_test"] = definition
    try:
        assert Results(path).metrics(metrics=["of_this_test"])["value"].to_list() == [7.0, 7.0]
    finally:
        del METRICS["of_this_test"]


# --- other programs ----------------------------------------------------------------------------------


def test_polars_reads_the_values_in_one_line(whole: Results) -> None:
    with closing(sqlite3.connect(whole.path / "results.sqlite")) as connection:
        table = pl.read_database("SELECT * FROM results", connection)
    assert table.columns == [
        "condition",
        "link.up.capacity",
        "link.up.loss",
        "link.up.capacity_bps",
        "link.up.loss_percent",
        "repeat",
        "seed",
        "metric",
        "unit",
        "flow",
        "value",
    ]
    keys = ["condition", "repeat", "metric", "flow"]
    known = whole.metrics().drop("better", "deviation", "measured_s")
    assert_frame_equal(
        table.drop("seed").sort(keys),
        known.with_columns(pl.col("^link.up.(capacity|loss)$").cast(pl.String)).sort(keys),
        check_exact=True,
    )


# --- any order of additions --------------------------------------------------------------------------

STATUSES = st.sampled_from(["finished", "failed", "error", "interrupted"])
NUMBERS = st.dictionaries(
    st.tuples(st.sampled_from(["sending_rate", "rtt"]), st.sampled_from(["", "a->b", "b->a"])),
    st.floats(allow_nan=False),
    max_size=4,
)
ADDITIONS = st.lists(
    st.tuples(
        st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), STATUSES, NUMBERS), max_size=3),
        st.sampled_from(["build 1", "build 2"]),
        st.booleans(),
    ),
    max_size=8,
)


@settings(max_examples=60, deadline=None)
@given(ADDITIONS)
def test_whatever_is_added_each_key_has_its_last_outcome_and_only_its_own_values(additions: Any) -> None:
    with tempfile.TemporaryDirectory() as place:
        kept = made(Path(place) / "x", scenarios=2)
        by_build: dict[tuple[int, int, str], tuple[str, dict[Any, float]]] = {}
        latest: dict[tuple[int, int], tuple[str, dict[Any, float]]] = {}
        for results, code, broken in additions:
            batch = [
                Result(
                    condition,
                    Repeat(repeat, 7, status),
                    [Number(*key, value) for key, value in values.items()],
                )
                for condition, repeat, status, values in results
            ]
            if broken:  # a transaction that does not end leaves nothing

                def failing(batch: list[Result] = batch) -> Iterator[Result]:
                    yield from batch
                    raise KeyboardInterrupt

                with pytest.raises(KeyboardInterrupt):
                    kept.add(failing(), code=code)
                continue
            kept.add(batch, code=code)
            for condition, repeat, status, values in results:
                latest[condition, repeat] = by_build[condition, repeat, code] = (status, values)
        rows = kept.outcomes()
        numbers = kept.numbers(rows["outcome"].to_list())
        found = {}
        for row in rows.iter_rows(named=True):
            own = numbers.filter(pl.col("outcome") == row["outcome"])
            values = {(name, flow): value for _, name, flow, value, _ in own.iter_rows()}
            found[row["condition"], row["repeat"]] = (row["status"], values)
        assert found == latest
        assert numbers.height == sum(len(values) for _, values in latest.values())
        with closing(sqlite3.connect(kept.file)) as database:
            every = database.execute("SELECT count(*) FROM outcomes").fetchone()
            values = database.execute("SELECT count(*) FROM numbers").fetchone()
        assert every == (len(by_build),)
        assert values == (sum(len(values) for _, values in by_build.values()),)


def test_an_infinite_value_is_kept(tmp_path: Path) -> None:
    kept = made(tmp_path / "x")
    kept.add([one(0, inf)], code="1")
    assert rates(kept) == [(0, inf)]


# --- kill -9 -----------------------------------------------------------------------------------------

KILLED = """
import sys
from rtclab.experiment import Experiment
from rtclab.scenario import Scenario
if sys.argv[2] == "sweep":
    vary = {"link.up.loss": "0..5 % x4"}
    made = Experiment("first-call", vary=vary, set={"duration": "10 s"}, repeats=40)
else:
    made = Experiment([Scenario.load("first-call", {"duration": "10 s"})], repeats=40)
made.run(out=sys.argv[1], jobs=2)
"""


def finished_in(file: Path) -> int:
    """The number of repeats in a store that another process writes; 0 as long as it has no tables."""
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as database, suppress(sqlite3.Error):
        return int(database.execute("SELECT count(*) FROM outcomes").fetchone()[0])
    return 0


@pytest.mark.parametrize("kind", ["sweep", "run"])
def test_a_killed_experiment_has_the_same_rows_after_resuming(tmp_path: Path, kind: str) -> None:
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "whole"), kind], check=True)
    (whole,) = (tmp_path / "whole").iterdir()
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path / "killed"), kind])
    # Results are added now and then, and a part of a moment's work is between two additions.
    least = random.Random(kind).randint(1, 20)
    while not (made := list((tmp_path / "killed").glob("*/results.sqlite"))) or finished_in(made[0]) < least:
        assert process.poll() is None
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed = Results(made[0].parent)
    assert least <= killed.finished < killed.planned
    again = resumed(killed.path, Execution(jobs=2))
    assert again.unfinished == 0
    assert_frame_equal(again.metrics(), Results(whole).metrics())
    assert again.outcomes().drop("older").equals(Results(whole).outcomes().drop("older"))
    if kind == "run":
        tables = [[trace.table("packets") for trace in Results(path).traces] for path in (whole, killed.path)]
        assert all(first.equals(second) for first, second in zip(*tables, strict=True))
    assert [name for name in os.listdir(killed.path) if name.startswith(".")] == []


def test_results_that_were_deleted_in_the_meantime_are_named(tmp_path: Path) -> None:
    kept = made(tmp_path / "x")
    kept.file.unlink()
    for use in (kept.outcomes, kept.events, lambda: kept.add([one(0)], code="x"), lambda: kept.note("x")):
        with pytest.raises(TraceError, match=r"x has no results any more: its results\.sqlite was deleted"):
            use()
