"""Traces and runs on disk: round trip, the contract, and that nothing half-written is left."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Callable
from pathlib import Path

import polars as pl
import pytest

from rtclab.backend.sim import SimBackend
from rtclab.errors import DiskFull, TraceError
from rtclab.experiment import About, Listed, Result, Store, open_store, stores
from rtclab.scenario import Scenario
from rtclab.trace import (
    SCHEMAS,
    Repeat,
    Trace,
    TraceManifest,
    new_directory,
    write_bytes,
    write_text,
)

ABOUT = TraceManifest(backend="sim", seed=7, repeat=0, duration_ns=10**9, flows={})

HOST = pl.DataFrame(
    {
        "at_ns": [0, 10**9],
        "participant": ["alice", "bob"],
        "cpu_percent": [12.5, 200.0],
        "memory_bytes": [1, 2],
        "cpu_limit_percent": [None, 50.0],
    }
)


def test_a_table_reads_back_as_it_was_written(tmp_path: Path) -> None:
    trace = Trace.write(tmp_path / "t", {"host": HOST}, ABOUT)
    assert trace.table("host").equals(HOST)
    assert Trace(tmp_path / "t").manifest == ABOUT


def test_columns_are_put_in_order_cast_and_filled_with_null(tmp_path: Path) -> None:
    packets = pl.DataFrame(
        {"flow": ["alice->bob"], "protocol": ["rtp"], "size_bytes": [1200], "sent_ns": [5]},
        schema_overrides={"sent_ns": pl.UInt32},
    )
    table = Trace.write(tmp_path / "t", {"packets": packets}, ABOUT).table("packets")
    assert table.schema == SCHEMAS["packets"]
    assert table.row(0, named=True)["sent_ns"] == 5
    assert table["delivered_ns"].null_count() == 1


def test_tables_not_given_are_empty_and_packets_are_absent(tmp_path: Path) -> None:
    trace = Trace.write(tmp_path / "t", {}, ABOUT)
    assert trace.tables == [name for name in SCHEMAS if name not in ("packets", "hops")]
    assert all(trace.table(name).is_empty() for name in trace.tables)
    with pytest.raises(
        TraceError, match=r'`packets` was not recorded\n  hint: record it with record = "packets"'
    ):
        trace.table("packets")


@pytest.mark.parametrize(
    ("table", "frame", "message"),
    [
        ("hosts", HOST, "no table `hosts`; expected packets, hops, flow_seconds"),
        ("host", HOST.drop("cpu_percent"), "table `host`: column `cpu_percent` is missing"),
        ("host", HOST.with_columns(gpu=1), "table `host`: unknown column `gpu`; expected at_ns, "),
        ("host", HOST.with_columns(at_ns=None), "table `host`: column `at_ns` must not have nulls"),
        ("host", HOST.with_columns(at_ns=pl.lit("soon")), "table `host`: "),
    ],
)
def test_a_table_that_breaks_the_contract_is_refused(
    tmp_path: Path, table: str, frame: pl.DataFrame, message: str
) -> None:
    with pytest.raises(TraceError, match=f"^{re.escape(message)}"):
        Trace.write(tmp_path / "t", {table: frame}, ABOUT)
    assert not (tmp_path / "t").exists()


def test_a_disk_that_fills_up_leaves_only_earlier_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / "browser.log").write_text("kept")
    write_bytes, written = Path.write_bytes, []

    def write_three(path: Path, data: bytes) -> int:
        if len(written) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        written.append(path)
        return write_bytes(path, data)

    monkeypatch.setattr(Path, "write_bytes", write_three)
    with pytest.raises(DiskFull, match="no space left on the disk"):
        Trace.write(tmp_path / "t", {"host": HOST}, ABOUT)
    assert [path.name for path in (tmp_path / "t").iterdir()] == ["browser.log"]


def test_a_directory_without_manifest_is_not_a_trace(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"is not a trace: it has no manifest\.json"):
        Trace(tmp_path)


def run(out: Path, name: str = "first-call") -> Store:
    scenario = Listed({name: {"name": name, "duration": "1 s"}})
    return Store.create(
        new_directory(out, f"{name}-sim-"), About(name=f"{name}-sim", backend="sim", repeats=2), scenario
    )


def record(made: Store, outcome: Repeat) -> None:
    made.add([Result(0, outcome)], code="")


def test_directories_are_numbered_by_their_begin(tmp_path: Path) -> None:
    names = [run(tmp_path).name, run(tmp_path).name, run(tmp_path, "other").name]
    assert names == ["first-call-sim-1", "first-call-sim-2", "other-sim-1"]


def test_the_number_of_a_deleted_run_is_not_reused(tmp_path: Path) -> None:
    first = run(tmp_path)
    run(tmp_path)
    first.file.unlink()
    first.path.rmdir()
    assert run(tmp_path).name == "first-call-sim-3"


def test_a_run_opens_by_path_by_name_and_as_the_latest(tmp_path: Path) -> None:
    first, second = run(tmp_path), run(tmp_path)
    assert open_store(first.path, Path("elsewhere")).name == "first-call-sim-1"
    assert open_store("first-call-sim-1", tmp_path).path == first.path
    record(first, Repeat(0, 7, "failed", "touched last"))
    assert open_store("latest", tmp_path).path == first.path
    record(second, Repeat(0, 7, "failed", "touched later"))
    assert open_store("latest", tmp_path).path == second.path
    assert stores(tmp_path) == [first.path, second.path]


@pytest.mark.parametrize(
    ("name", "hint"), [("first-call-sim-2", "did you mean `first-call-sim-1`?"), ("x", "make one with")]
)
def test_an_unknown_run_is_refused_with_a_hint(tmp_path: Path, name: str, hint: str) -> None:
    run(tmp_path)
    with pytest.raises(TraceError, match=re.escape(f"no run `{name}`")) as caught:
        open_store(name, tmp_path)
    assert f"\n  hint: {hint}" in str(caught.value)


def test_a_run_has_the_outcome_of_each_repeat_in_order(tmp_path: Path) -> None:
    made = run(tmp_path)
    Trace.write(made.repeat_path(0, 0), {}, ABOUT)
    record(made, Repeat(1, 8, "failed", "no camera\n"))
    record(made, Repeat(0, 7, "failed", "first try"))
    record(made, Repeat(0, 7, "finished"))
    opened = Store(made.path).run()
    assert opened.repeats == [Repeat(0, 7, "finished"), Repeat(1, 8, "failed", "no camera")]
    assert (opened.planned, opened.finished, opened.unfinished) == (2, 1, 0)
    assert [trace.manifest.repeat for trace in opened.traces] == [0]
    assert (opened.has_trace(0), opened.has_trace(1)) == (True, False)


def write_half(monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the disk is full after half of a file."""
    write_bytes = Path.write_bytes

    def half(path: Path, data: bytes) -> int:
        write_bytes(path, data[: len(data) // 2])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", half)


@pytest.mark.parametrize("write", [write_text, lambda path, text: write_bytes(path, text.encode())])
def test_a_page_is_the_old_one_or_the_new_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path, str], None]
) -> None:
    page = tmp_path / "report.html"
    write(page, "the old page")
    write(page, "the page before")
    write_half(monkeypatch)
    with pytest.raises(DiskFull, match=rf"^{re.escape(str(page))}: no space left"):
        write(page, "the new page, which is longer")
    assert page.read_text() == "the page before"
    assert list(tmp_path.iterdir()) == [page]


def test_a_page_behind_a_symbolic_link_is_replaced_and_the_link_stays(tmp_path: Path) -> None:
    (tmp_path / "pages").mkdir()
    link = tmp_path / "latest.html"
    link.symlink_to("pages/1.html")
    write_text(link, "one")
    write_text(link, "two")
    assert link.is_symlink()
    assert (tmp_path / "pages" / "1.html").read_text() == "two"


def test_what_is_no_regular_file_is_written_directly(tmp_path: Path) -> None:
    pipe = tmp_path / "page.html"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    write_text(pipe, "a page")
    assert os.read(reader, 100) == b"a page"
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("name", ["first-call", "tcp-vs-kernel"])
def test_a_simulated_trace_reads_back_as_it_was_in_memory(tmp_path: Path, name: str) -> None:
    simulated = SimBackend().simulate(Scenario.load(name, {"duration": "5 s"}), seed=1, repeat=0)
    simulated.save(tmp_path / "t")
    read = Trace(tmp_path / "t")
    assert read.tables == simulated.tables == list(SCHEMAS)
    for table in SCHEMAS:
        assert read.table(table).schema == SCHEMAS[table]
        assert read.table(table).equals(simulated.table(table))
    assert read.manifest == simulated.manifest


def test_the_files_have_the_columns_and_types_of_the_contract_themselves(tmp_path: Path) -> None:
    trace = Trace.write(tmp_path / "t", {"host": HOST}, ABOUT)
    for table in trace.tables:
        assert pl.read_parquet_schema(trace.path / f"{table}.parquet") == SCHEMAS[table]


def test_rows_of_a_flow_are_those_that_a_filter_finds(tmp_path: Path) -> None:
    scenario = Scenario.load("first-call", {"duration": "5 s"})
    trace = SimBackend().run(scenario, seed=1, repeat=0, out=tmp_path / "run")
    for name in ("flow_seconds", "packets", "events"):
        for flow in ("alice->bob", "bob->alice", "nobody->bob"):
            rows = trace.rows_of_flow(name, flow)
            assert rows.equals(trace.table(name).filter(pl.col("flow") == flow))
