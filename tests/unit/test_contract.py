"""The contract of runs and traces on disk: errors name the file and field that do not follow it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from stub_backend import StubBackend

from rtclab.backend.backends import paths_table
from rtclab.backend.sim import FLOWS, NOT_SIMULATED, NativeMismatch, NativeTable, SimBackend
from rtclab.cli import main
from rtclab.errors import RtclabError, TraceError
from rtclab.experiment import Experiment, Results
from rtclab.metrics import METRICS
from rtclab.report import write_report
from rtclab.scenario import Scenario
from rtclab.scenario.layers import SHIPPED
from rtclab.trace import SCHEMA, SCHEMAS, FlowInfo, Run, Trace, TraceManifest, only_writer

CALL = Scenario.load("first-call", {"repeats": 1, "duration": "2 s"})
Json = dict[str, Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Experiment([CALL], backend=StubBackend()).run(out=tmp_path).run


def change(file: Path, alter: Callable[[Json], object]) -> None:
    """Changes a JSON file in place."""
    value = json.loads(file.read_text())
    alter(value)
    file.write_text(json.dumps(value))


# --- manifests ---------------------------------------------------------------------------------------


def test_a_manifest_is_read_as_it_was_written(run: Run) -> None:
    (trace,) = run.traces
    assert trace.manifest.flows["alice->bob"] == FlowInfo(
        sender="alice",
        receiver="bob",
        route=("alice.up", "bob.down"),
        call=0,
        begin_ns=0,
        end_ns=2 * 10**9,
        promised={"video": ((0, 2 * 10**9),)},
    )
    assert json.loads((trace.path / "manifest.json").read_text())["schema"] == SCHEMA
    assert TraceManifest.model_validate(trace.manifest.as_json()) == trace.manifest
    assert trace.manifest.calls[0].end_ns == trace.manifest.duration_ns == 2 * 10**9


FLOW = "alice->bob"


@pytest.mark.parametrize(
    ("alter", "said"),
    [
        (lambda trace: trace.pop("flows"), "flows: missing"),
        (lambda trace: trace.update(flows=[]), "flows: expected "),
        (lambda trace: trace["flows"][FLOW].pop("begin_ns"), "flows.alice->bob.begin_ns: missing"),
        (
            lambda trace: trace["flows"][FLOW].update(begin_ns="0 s"),
            "flows.alice->bob.begin_ns: expected a valid integer; got '0 s'",
        ),
        (
            lambda trace: trace["flows"][FLOW].update(begin_ns=-1),
            "flows.alice->bob.begin_ns: expected greater than or equal to 0; got '-1'",
        ),
        (
            lambda trace: trace["flows"][FLOW].update(begin_ns=3 * 10**9),
            "flows.alice->bob: end_ns = 2000000000 is before begin_ns = 3000000000",
        ),
        (lambda trace: trace["flows"][FLOW].update(paths=[]), "flows.alice->bob.paths: unknown field"),
        (lambda trace: trace["calls"][0].update(start_ns=0.5), "calls.0.start_ns: expected a valid integer"),
    ],
)
def test_a_trace_that_does_not_follow_the_contract_is_refused_with_file_and_field(
    run: Run, alter: Callable[[Json], object], said: str
) -> None:
    file = run.repeat_path(0) / "manifest.json"
    change(file, alter)
    with pytest.raises(TraceError, match=f"^{re.escape(f'{file}: {said}')}"):
        Trace(file.parent)


def test_all_problems_of_a_manifest_are_reported_at_once(run: Run) -> None:
    place = run.repeat_path(0)
    change(place / "manifest.json", lambda about: about.update(host="me", backend=1))
    with pytest.raises(TraceError) as refused:
        Trace(place)
    assert len(str(refused.value).splitlines()) == 2


@pytest.mark.parametrize(
    ("schema", "said", "hint"),
    [
        (
            None,
            "written by an older rtclab, with schema 1; this one reads schema 8 to 9",
            "run the scenario again",
        ),
        (
            1,
            "written by an older rtclab, with schema 1; this one reads schema 8 to 9",
            "run the scenario again",
        ),
        (10, "written by a newer rtclab, with schema 10; this one reads schema 8 to 9", "update rtclab"),
    ],
)
def test_a_trace_of_another_version_is_refused_in_one_sentence(
    run: Run, schema: int | None, said: str, hint: str
) -> None:
    def other(about: Json) -> None:
        del about["schema"]
        if schema is not None:
            about["schema"] = schema
        about["unheard"] = "of"

    file = run.repeat_path(0) / "manifest.json"
    change(file, other)
    with pytest.raises(TraceError) as refused:
        _ = Results(run.path).traces
    assert str(refused.value) == f"{file}: {said}\n  hint: {hint}"


@pytest.mark.parametrize("text", ["", "{", "[]", "7", "\xff\xfe", '{"schema": 7, "schema"'])
def test_a_file_that_is_not_a_json_object_is_named(run: Run, text: str) -> None:
    file = run.repeat_path(0) / "manifest.json"
    file.write_text(text, encoding="latin-1")
    with pytest.raises(TraceError, match=f"^{re.escape(str(file))}: "):
        _ = Results(run.path).traces


def test_a_directory_of_something_else_is_not_a_trace(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TraceError, match=r"file/manifest\.json: cannot be read"):
        Trace(tmp_path / "file")


@pytest.mark.parametrize("command", ["measure", "report", "compare"])
def test_commands_report_a_broken_run_in_one_sentence(
    run: Run, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    change(run.repeat_path(0) / "manifest.json", lambda trace: trace.pop("flows"))
    names = [str(run.path)] * (2 if command == "compare" else 1)
    with pytest.raises(SystemExit) as ended:
        main([command, *names])
    assert ended.value.code == 2
    assert "manifest.json: flows: missing" in capsys.readouterr().err


# --- tables ------------------------------------------------------------------------------------------


def foreign(file: Path) -> None:
    pl.DataFrame({"price": [1.0]}).write_parquet(file)


def truncated(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-20])


def corrupt(file: Path) -> None:
    file.write_bytes(b"PAR1" + bytes(range(256)) + b"PAR1")


def shuffled(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[8:60] = bytes(52)
    file.write_bytes(data)


def mistyped(file: Path) -> None:
    pl.read_parquet(file).with_columns(at_ns=pl.lit("soon")).write_parquet(file)


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (foreign, "table `flow_seconds`: unknown column `price`"),
        (truncated, "cannot be read"),
        (corrupt, "cannot be read"),
        (shuffled, "cannot be read"),
        (Path.unlink, "the file is missing"),
        (mistyped, "table `flow_seconds`: "),
    ],
)
def test_a_table_that_does_not_follow_the_contract_is_refused_with_its_file(
    run: Run, spoil: Callable[[Path], object], said: str
) -> None:
    file = run.repeat_path(0) / "flow_seconds.parquet"
    spoil(file)
    with pytest.raises(TraceError, match=re.escape(said)) as refused:
        Trace(file.parent).table("flow_seconds")
    assert str(file.parent) in str(refused.value)
    assert "flow_seconds" in str(refused.value)


# --- the native module -------------------------------------------------------------------------------


def events(codes: type[np.unsignedinteger[Any]] = np.uint16) -> dict[str, Any]:
    """Two native events, the second without a flow."""
    null = np.iinfo(codes).max
    texts = ["alice->bob", "joined", "alice", ""]
    return {
        "at_ns": np.array([0, 5]),
        "participant": (np.array([2, 2], codes), texts),
        "flow": (np.array([0, null], codes), texts),
        "event": (np.array([1, 1], codes), texts),
        "detail": (np.array([3, 3], codes), texts),
    }


@pytest.mark.parametrize("codes", [np.uint16, np.uint32])
def test_the_highest_code_of_text_is_null_whatever_its_width(codes: type[np.unsignedinteger[Any]]) -> None:
    assert NativeTable("events", events(codes)).frame().rows() == [
        (0, "alice", "alice->bob", "joined", ""),
        (5, "alice", None, "joined", ""),
    ]


def test_minus_one_and_nan_are_null_only_in_columns_that_may_be_null() -> None:
    columns = {name: np.array([-1, 7]) for name in SCHEMAS["tcp"]}
    columns |= {"srtt_ms": np.array([np.nan, -1.0]), "flow": (np.array([0, 0], np.uint32), ["download"])}
    made = NativeTable("tcp", columns).frame()
    assert made["cwnd_segments"].to_list() == [None, 7]
    assert made["srtt_ms"].to_list() == [None, -1.0]
    assert made["objects"].to_list() == [-1, 7]
    host = {
        name: np.array([0]) for name in SCHEMAS["host"] if name not in ("memory_bytes", "cpu_limit_percent")
    }
    host |= {"cpu_percent": np.array([np.nan]), "participant": (np.array([0], np.uint32), ["alice"])}
    assert NativeTable("host", host).frame()["cpu_percent"].null_count() == 0


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"at_ns": None}, "`events.at_ns`: missing"),
        ({"place": np.array([1, 2])}, "`events.place`: no such column"),
        ({"at_ns": np.array([0.5, 1.0])}, "`events.at_ns`: float64; expected Int64"),
        ({"at_ns": (np.array([0, 0], np.uint16), ["now"])}, "`events.at_ns`: codes of text; expected Int64"),
        ({"event": np.array([1, 2])}, "`events.event`: int64; expected String"),
        ({"at_ns": np.array([1])}, "`events`: columns of different lengths"),
        ({"event": (np.array([0, 7], np.uint32), ["joined"])}, "`events.event`: code 7 of text; there are 1"),
    ],
)
def test_native_columns_that_do_not_fit_are_named(changes: dict[str, Any], said: str) -> None:
    columns = {name: value for name, value in (events() | changes).items() if value is not None}
    with pytest.raises(NativeMismatch, match=re.escape(said)) as refused:
        NativeTable("events", columns).frame()
    assert "hint: " in str(refused.value)


def test_a_native_table_of_another_name_is_refused() -> None:
    with pytest.raises(NativeMismatch, match="`weather`: no such table"):
        NativeTable("weather", {}).frame()


def test_every_table_of_the_simulator_has_every_column_of_the_contract() -> None:
    made = SimBackend().simulate(CALL, seed=1, repeat=0)
    assert set(made.tables) == set(SCHEMAS)  # NativeTable has refused all others
    assert {name: set(SCHEMAS[name]) & columns for name, columns in NOT_SIMULATED.items()} == NOT_SIMULATED
    assert list(FLOWS) == ["flow", "begin_ns", "end_ns"]


# --- flows -------------------------------------------------------------------------------------------


def test_a_flow_begins_with_its_first_packet_and_ends_with_its_connection() -> None:
    scenario = Scenario.load("first-call", ["duration=6 s", "participants.alice.leave=3.5 s"])
    made = SimBackend().simulate(scenario, seed=1, repeat=0)
    for name, flow in made.manifest.flows.items():
        assert flow.begin_ns == made.table("packets").filter(flow=name)["sent_ns"].min()
        assert flow.end_ns == 3_500_000_000


def test_a_flow_without_packets_begins_with_its_connection() -> None:
    scenario = Scenario.load(
        "first-call", ["duration=4 s", "participants.alice.join=3 s", "link.up.loss=100 %"]
    )
    flows = SimBackend().simulate(scenario, seed=1, repeat=0).manifest.flows
    # Bob only answers packets that reach him, and none does.
    assert {flow.end_ns for flow in flows.values()} == {4 * 10**9}
    assert all(3 * 10**9 <= flow.begin_ns < 4 * 10**9 for flow in flows.values())


def test_acknowledgements_of_tcp_are_flows_but_are_not_listed_with_the_data() -> None:
    made = SimBackend().simulate(Scenario.load("tcp-vs-kernel", {"duration": "2 s"}), seed=1, repeat=0)
    acks = made.manifest.flows["upload acks"]
    assert (acks.acknowledges, acks.sender, acks.receiver) == ("upload", "core", "alice")
    assert acks.route == ("core.up", "alice.down")
    assert made.flows == ["alice->bob", "bob->alice", "upload"]
    assert set(made.table("flow_seconds")["flow"]) == set(made.manifest.flows)


def test_every_flow_of_every_topology_is_in_the_manifest(tmp_path: Path) -> None:
    for kind in ("p2p", "sfu", "mixing-mcu", "star", "hub-and-spoke", "tree"):
        scenario = three(tmp_path, "duration=2 s", f'calls=[{{kind="{kind}"}}]')
        made = SimBackend().simulate(scenario, seed=1, repeat=0)
        assert set(made.table("flow_seconds")["flow"]) == set(made.manifest.flows), kind


def test_the_table_of_paths_follows_the_contract() -> None:
    table = paths_table(CALL)
    assert table.schema == SCHEMAS["paths"]
    assert table["at_ns"].is_sorted()


# --- connections -------------------------------------------------------------------------------------


def three(folder: Path, *changes: str, carol: str = "") -> Scenario:
    """``first-call`` over 6 s with a third participant, carol, whose table is given."""
    file = folder / "three.toml"
    file.write_text(
        f"""
        extends = "{SHIPPED / "first-call"}"
        name = "three"
        duration = "6 s"
        repeats = 1
        [participants.alice]
        [participants.bob]
        [participants.carol]
        {carol}
        """
    )
    return Scenario.load(file, changes)


UNREACHABLE = 'link = { up = { loss = "100 %" }, down = { loss = "100 %" } }'


def test_one_pair_that_never_connects_leaves_the_metrics_of_the_others(tmp_path: Path) -> None:
    run = Experiment([three(tmp_path, carol=UNREACHABLE)]).run(out=tmp_path).run
    (repeat,) = run.repeats
    assert (repeat.status, repeat.reason) == ("finished", "")
    together = "alice and carol did not connect within 6 s; bob and carol did not connect within 6 s"
    assert repeat.note == together
    (trace,) = run.traces
    assert trace.manifest.failure is None
    assert [(one.a, one.b) for one in trace.manifest.not_connected] == [("alice", "carol"), ("bob", "carol")]
    assert trace.manifest.connections == 3
    assert METRICS["receiving_rate"].function(trace, "alice->bob") > 100
    assert METRICS["call_failures"].function(run) == pytest.approx(100 * 2 / 3)
    assert together in write_report(run).read_text(encoding="utf-8")


def test_a_participant_who_cannot_reach_a_server_is_named_once(tmp_path: Path) -> None:
    scenario = three(tmp_path, 'calls=[{kind="sfu"}]', carol=UNREACHABLE)
    run = Experiment([scenario]).run(out=tmp_path).run
    (repeat,) = run.repeats
    assert (repeat.status, repeat.note) == ("finished", "carol and core did not connect within 6 s")
    assert METRICS["call_failures"].function(run) == pytest.approx(100 / 3)


def test_a_call_in_which_nobody_connects_has_failed(tmp_path: Path) -> None:
    run = Experiment([three(tmp_path, 'link.up.loss="100 %"')]).run(out=tmp_path).run
    (repeat,) = run.repeats
    assert (repeat.status, repeat.note) == ("failed", "")
    joined = "alice's is `joined` and bob's is `joined`"
    assert repeat.reason == f"alice and bob did not connect within 6 s; last event: {joined}"
    assert METRICS["call_failures"].function(run) == 100


# --- writers -----------------------------------------------------------------------------------------


def test_a_lock_ends_with_its_process_even_if_that_is_killed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from rtclab.trace import only_writer\n"
        "with only_writer(Path(sys.argv[1])): print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RtclabError, match=f"process {holder.pid} on "), only_writer(tmp_path):
            pass
    finally:
        holder.send_signal(signal.SIGKILL)
        holder.wait()
    with only_writer(tmp_path):
        assert (tmp_path / ".lock").read_text().startswith(f"process {os.getpid()} on ")
    assert not (tmp_path / ".lock").exists()
