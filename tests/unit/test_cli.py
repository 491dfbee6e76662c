"""The command line: output, errors, exit status and completion."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NoReturn

import polars as pl
import pytest
import stub_backend
from command_line import Rtclab
from rich.console import Console
from stub_backend import StubBackend

from rtclab import _native
from rtclab.backend import backends, taking_turns
from rtclab.backend.live.lab import link
from rtclab.cli import running, tables
from rtclab.cli.tables import MOST_FLOWS, number, show_metrics
from rtclab.errors import BadInput
from rtclab.experiment import Experiment, Results
from rtclab.metrics import METRICS
from rtclab.scenario import Scenario, shipped
from rtclab.scenario.trust import HINT
from rtclab.trace import Trace, only_writer

STUB_RUN = ("run", "first-call", "--backend", "sim", "--duration", "3s", "--repeats", "2", "--no-report")


@pytest.fixture
def stub(monkeypatch: pytest.MonkeyPatch) -> StubBackend:
    """Replaces the simulator by a stub; its runs have the backend ``stub``."""
    backend = StubBackend()
    monkeypatch.setattr(stub_backend, "TheStub", lambda: backend, raising=False)
    for name in ("sim", "stub"):
        monkeypatch.setitem(backends._HOME, name, ("stub_backend", "TheStub"))
    return backend


@pytest.mark.parametrize(
    "command",
    [
        "list",
        "show",
        "run",
        "measure",
        "metrics",
        "report",
        "compare",
        "runs",
        "delete",
        "sweep",
        "import",
        "replay",
        "monitor",
        "link",
        "doctor",
        "schema",
    ],
)
def test_the_help_of_every_command_has_an_example(rtclab: Rtclab, command: str) -> None:
    result = rtclab(command, "--help")
    assert result.status == 0
    assert f"Example: rtclab {command}" in result.out


def test_list_shows_every_shipped_scenario_with_its_title(rtclab: Rtclab) -> None:
    result = rtclab("list")
    assert "first-call" in result.out
    assert "Two participants, two-way video over 1 Mbit/s and 25 ms access links" in result.out
    names = [entry["name"] for entry in json.loads(rtclab("list", "--json").out)]
    assert names[0] == "first-call"
    assert "examples/sfu" in names
    assert pl.read_csv(rtclab("list", "--csv").out.encode())["name"].to_list() == names
    folders = dict.fromkeys(name.rpartition("/")[0] for name in names if "/" in name)
    listed = result.out + rtclab("list", *folders).out
    assert [name for name in names if f"\n{name} " not in listed] == []


def test_list_begins_with_the_examples(rtclab: Rtclab) -> None:
    listed = rtclab("list").out
    names = [line.split()[0] for line in listed.splitlines() if line.strip()]
    assert names.index("first-call") < names.index("examples/sfu") < names.index("rfc8867/5.1")


def test_list_fits_a_terminal_of_80_columns(rtclab: Rtclab, monkeypatch: pytest.MonkeyPatch) -> None:
    terminal(monkeypatch, 80)
    for arguments in (["list"], ["list", "--controls"]):
        printed = re.sub(r"\x1b\[[0-9;]*m", "", rtclab(*arguments).out)
        assert max(map(len, printed.splitlines())) <= 80, arguments
    refused = rtclab("list", "exampels")
    assert refused.status == 2
    assert "no folder `exampels` of scenarios" in refused.err
    assert "did you mean `examples`?" in refused.err


def test_the_overview_of_many_flows_has_the_freezes(rtclab: Rtclab) -> None:
    Path("conference.toml").write_text(CONFERENCE)
    heading = rtclab("run", "conference.toml", "--no-report").out.splitlines()[1]
    metrics = re.findall(r"(\w+) \(", heading)
    assert metrics == [
        *("receiving_rate", "utilisation", "rtt", "queuing_delay_p95", "packet_loss", "freeze_duration"),
    ]


def test_conditions_with_labels_are_shown_by_label(rtclab: Rtclab, stub: StubBackend) -> None:
    scenario = Scenario.load("first-call", {"duration": "3 s"})
    Experiment({"one way": scenario, "another": scenario}, repeats=2, backend=stub, name="ways").run()
    shown = rtclab("measure", "ways-1").out.splitlines()
    assert shown[1].startswith("condition   flow         receiving_rate (kbit/s)")
    assert [line.split("->")[0].split() for line in shown[3:7]] == [
        ["one", "way", "alice"],
        ["one", "way", "bob"],
        ["another", "alice"],
        ["another", "bob"],
    ]


def test_runs_lists_what_there_is_with_the_newest_last(rtclab: Rtclab, stub: StubBackend) -> None:
    assert rtclab("runs") == (0, "", "no runs in runs/\n")
    stub.failing = {1}
    rtclab(*STUB_RUN)
    rtclab("sweep", "first-call", "--vary", "link.up.loss=0 %,1 %", "--duration", "2s", "--repeats", "1")
    listed = [line.split() for line in rtclab("runs").out.splitlines()[2:4]]
    assert [line[:2] + line[4:8] for line in listed] == [
        ["first-call-stub-1", "stub", "1", "of", "2", "1"],
        ["first-call-sweep-1", "stub", "2", "of", "2", "2"],
    ]
    rows = json.loads(rtclab("runs", "--json").out)
    assert rows == pl.read_csv(rtclab("runs", "--csv").out.encode()).to_dicts()
    assert rows[0]["created"] <= rows[1]["created"]
    Path("runs/first-call-stub-1/repeat-0/notes.txt").write_text("x" * 5000)
    assert json.loads(rtclab("runs", "--json").out)[0]["bytes"] == rows[0]["bytes"] + 5000


def test_runs_lists_what_cannot_be_read_too(rtclab: Rtclab, stub: StubBackend) -> None:
    rtclab(*STUB_RUN)
    Path("runs/first-call-stub-1/results.sqlite").write_text("no database")
    listed = rtclab("runs")
    assert listed.status == 0
    assert listed.out.splitlines()[2].split()[:2] == ["first-call-stub-1", "unknown"]
    assert "first-call-stub-1: runs/first-call-stub-1/results.sqlite: cannot be read" in listed.err
    (row,) = json.loads(rtclab("runs", "--json").out)
    assert (row["planned"], row["finished"]) == (None, None)


def test_show_of_a_run_says_how_it_was_made(
    rtclab: Rtclab, stub: StubBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "argv", ["/usr/bin/rtclab", *STUB_RUN])
    stub.interrupted_in = {1}
    rtclab(*STUB_RUN, "--jobs", "1")
    stub.interrupted_in = set()
    rtclab("run", "--resume", "latest", "--no-report")
    shown = rtclab("show", "latest").out
    facts = {words[0]: words[1:] for line in shown.splitlines() if (words := line.split())}
    assert facts["scenario"] == ["first-call,", "3", "s"]
    assert facts["repeats"] == ["2", "planned:", "2", "finished"]
    what = [
        event["what"] for event in json.loads(rtclab("show", "first-call-stub-1", "--json").out)["events"]
    ]
    command = "`rtclab run first-call --backend sim --duration 3s --repeats 2 --no-report`"
    assert [one.partition(", build")[0] for one in what] == [
        f"began: 2 of 2 repeats to run, by {command}",
        "interrupted, 1 repeats left",
        f"continued: 1 of 2 repeats to run, by {command}",
        "ended: 2 of 2 repeats are finished",
    ]
    assert all(one in shown for one in what)
    refused = rtclab("show", "latest", "--set", "seed=2")
    assert refused == (2, "", "--set changes a scenario, and `latest` is a run\n")


def test_show_counts_the_repeats_of_another_build(rtclab: Rtclab, stub: StubBackend) -> None:
    rtclab(*STUB_RUN)
    assert "another build" not in rtclab("show", "latest").out
    with closing(sqlite3.connect("runs/first-call-stub-1/results.sqlite")) as store, store:
        store.execute("UPDATE outcomes SET code = 'older' WHERE repeat = 0")
    assert (
        "\n1 repeat of another build of rtclab; `rtclab run --resume runs/first"
        in rtclab("show", "latest").out
    )


def test_a_scenario_wins_over_a_run_of_the_same_name(rtclab: Rtclab, stub: StubBackend) -> None:
    rtclab(*STUB_RUN)
    Path("runs/first-call-stub-1").rename("runs/first-call")
    shown = rtclab("show", "first-call")
    assert "60 s, 5 repeats, seed 1" in shown.out
    place = Path("runs/first-call").resolve()
    assert shown.err == f"there is a run `first-call`, too: `rtclab show {place}` shows it\n"
    assert " 2 planned: 2 finished" in rtclab("show", str(place)).out


def test_delete_takes_all_runs_or_none(rtclab: Rtclab, stub: StubBackend) -> None:
    for _ in range(3):
        rtclab(*STUB_RUN)
    Path("runs/notes").mkdir()
    refused = rtclab("delete", "first-call-stub-1", "notes", "--yes")
    assert refused == (
        2,
        "",
        "delete: `notes` has no results of rtclab\n  hint: `rtclab runs --out runs` lists them\n",
    )
    with only_writer(Path("runs/first-call-stub-2")):
        running = rtclab("delete", "first-call-stub-1", "first-call-stub-2", "--yes")
    assert running.status == 2
    assert running.err.startswith("runs/first-call-stub-2: process ")
    assert len(json.loads(rtclab("runs", "--json").out)) == 3
    Path("link").symlink_to("runs/first-call-stub-1")
    assert "link is a symbolic link" in rtclab("delete", "link", "--yes").err
    done = rtclab("delete", "first-call-stub-1", "runs/first-call-stub-1", "latest", "--yes")
    assert (done.status, done.out) == (0, "deleted runs/first-call-stub-1\ndeleted runs/first-call-stub-3\n")
    assert [row["name"] for row in json.loads(rtclab("runs", "--json").out)] == ["first-call-stub-2"]


def test_runs_one_level_below_are_listed_opened_and_deleted(rtclab: Rtclab, stub: StubBackend) -> None:
    call = Scenario.load("first-call", {"duration": "2 s", "repeats": 1})
    for name in ("one", "two"):
        Experiment({"a": call}, backend=stub).run(into=f"runs/of-{name}/stub", progress=False)
    rtclab(*STUB_RUN)
    os.utime("runs/first-call-stub-1/results.sqlite", ns=(1, 1))
    names = ["first-call-stub-1", "of-one/stub", "of-two/stub"]
    assert [row["name"] for row in json.loads(rtclab("runs", "--json").out)] == names
    assert rtclab("show", "latest", "--json").out == rtclab("show", "of-two/stub", "--json").out
    assert "did you mean `of-two/stub`?" in rtclab("measure", "of-too/stub").err
    assert rtclab("delete", "of-one", "--yes").err.startswith("delete: `of-one` has no results")
    with only_writer(Path("runs/of-one/stub")):
        assert "process" in rtclab("delete", "of-one/stub", "--yes").err
    assert rtclab("delete", "of-one/stub", "latest", "--yes").out == (
        "deleted runs/of-one/stub\ndeleted runs/of-two/stub\n"
    )
    assert [row["name"] for row in json.loads(rtclab("runs", "--json").out)] == names[:1]


def test_delete_asks_on_a_terminal_and_needs_yes_elsewhere(
    rtclab: Rtclab, stub: StubBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    rtclab(*STUB_RUN)
    alone = rtclab("delete", "latest")
    assert alone.status == 2
    assert re.fullmatch(
        r"delete: runs/first-call-stub-1 \([\d.]+ kB\): nobody can be asked without a terminal\n"
        r"  hint: add --yes\n",
        alone.err,
    )
    for answer, left in (("n\n", True), ("y\n", False)):
        keyboard = io.StringIO(answer)
        monkeypatch.setattr(keyboard, "isatty", lambda: True)
        monkeypatch.setattr(sys, "stdin", keyboard)
        asked = rtclab("delete", "latest")
        assert asked.out.startswith("delete runs/first-call-stub-1 (")
        assert asked.status == int(left)
        assert Path("runs/first-call-stub-1").exists() == left


def test_show_applies_changes_and_prints_paths_and_flows(rtclab: Rtclab) -> None:
    result = rtclab("show", "first-call", "--set", "link.up.capacity=2 Mbit/s")
    assert "capacity 2 Mbit/s, delay 25 ms, queue 300 ms" in result.out
    assert "alice.up, bob.down" in result.out
    shown = json.loads(rtclab("show", "first-call", "--json").out)
    assert shown["flows"][0]["paths"] == ["alice.up", "bob.down"]
    assert shown["network"]["nodes"] == ["alice", "bob", "core"]


def test_schema_is_json(rtclab: Rtclab) -> None:
    assert json.loads(rtclab("schema").out)["title"] == "Scenario"


def test_captures_are_written_next_to_the_tables_of_every_repeat(rtclab: Rtclab, tmp_path: Path) -> None:
    arguments = ("run", "first-call", "--duration", "1s", "--repeats", "2", "--no-report")
    assert rtclab(*arguments, "--capture").status == 0
    assert rtclab(*arguments).status == 0
    found = sorted(str(file.relative_to(tmp_path / "runs")) for file in tmp_path.rglob("capture.*"))
    assert found == [
        f"first-call-sim-1/repeat-{repeat}/capture.{ending}"
        for repeat in (0, 1)
        for ending in ("pcapng", "sdp")
    ]


def test_backends_other_than_the_simulator_ignore_capture(rtclab: Rtclab, stub: StubBackend) -> None:
    assert rtclab(*STUB_RUN, "--capture").status == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run"], "no scenario given\n  hint: "),
        (
            ["run", "firs-call"],
            "no scenario `firs-call`: neither a shipped scenario nor a file\n  hint: did you mean",
        ),
        (
            ["run", "first-call", "--duration", "20"],
            "duration: no unit in `20`; expected ns, us, ms, s or min\n  hint: write",
        ),
        (
            ["run", "first-call", "--set", "link.up.capacity=2.5 Mbps"],
            "--set: link.up.capacity: unknown rate unit in `2.5 Mbps`; "
            "expected bit/s, kbit/s, Mbit/s or Gbit/s\n  hint: write `2.5 Mbit/s`\n",
        ),
        (["run", "first-call", "--resume", "x"], "resume: a run goes on as it began"),
        (["run", "--resume", "x"], "no run `x`"),
        (["measure", "latest"], "no run `latest`"),
        (["compare", "a", "b", "--metric", "rt"], "no metric `rt`\n  hint: did you mean `rtt`?"),
        (["measure", "latest", "--json", "--csv"], "--json and --csv: expected one of them\n"),
        (["link", "--up", "delay 3", "--", "true"], "up: delay: no unit in `3`"),
        (["run", "first-call", "--set", "foo=1"], "--set: foo: unknown key; expected name, title"),
        (["run", "first-call", "--duration", "0 s"], "duration: must be positive; got `0 s`\n"),
        (
            ["link", "--server", 'a " b', "--", "true"],
            '--server: cannot read `a " b`: no closing quotation\n',
        ),
        (["link", "--server", " ", "--", "true"], "--server: expected a command; got ` `\n"),
        (["monitor", "--live", "lo", "--duration", "3"], "--duration: no unit in `3`"),
        (
            ["monitor", "a.pcap", "--duration", "3s"],
            "--duration: a capture is read to its end; expected --live with it\n",
        ),
        (
            ["monitor", "--live", "lo", "--duration", "1s", "--json", "--csv"],
            "--json and --csv: expected one of them\n",
        ),
        (["monitor", "no.pcap"], "no.pcap: No such file or directory\n"),
        (["monitor", "."], ".: Is a directory\n"),
    ],
)
def test_bad_input_exits_with_2_and_an_error_on_standard_error(
    rtclab: Rtclab, arguments: Sequence[str], message: str
) -> None:
    result = rtclab(*arguments)
    assert result.status == 2
    assert result.err.startswith(message)
    assert result.out == ""
    assert not Path("runs").exists()


def test_an_unknown_option_of_link_is_not_taken_for_the_command(rtclab: Rtclab) -> None:
    result = rtclab("link", "--upp", "x", "--", "true")
    assert (result.status, result.out) == (2, "")
    assert "No such option: --upp" in result.err
    assert "not found" not in result.err


def test_link_passes_options_after_the_command_on_to_it(
    rtclab: Rtclab, monkeypatch: pytest.MonkeyPatch
) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(link, "run_link", lambda up, down, command, **_: ran.append(command) or {"status": 0})
    assert rtclab("link", "--seed", "2", "ping", "--up", "-c", "3").status == 0
    assert ran == [["ping", "--up", "-c", "3"]]


def test_run_prints_metrics_and_the_path_of_the_run(rtclab: Rtclab, stub: StubBackend) -> None:
    result = rtclab(*STUB_RUN, "--all")
    assert result.status == 0
    # 100 packets of 1000 bytes a second are 800 kbit/s.
    line = next(line for line in result.out.splitlines() if line.startswith("sending_rate"))
    assert line.split()[:4] == ["sending_rate", "alice->bob", "800.0", "0"]
    assert "run: runs/first-call-stub-1 (2 of 2 repeats finished)" in result.out
    assert result.err == ""
    kept = Results(Path("runs/first-call-stub-1")).metrics()
    assert kept["metric"][0] == "sending_rate"


def test_a_quiet_run_and_sweep_print_only_their_path(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.failing = {1}
    result = rtclab(*STUB_RUN, "--quiet")
    assert (result.status, result.out) == (1, "runs/first-call-stub-1\n")
    assert "repeat 1 failed: alice: the page reported `no camera`" in result.err
    sweep = ("sweep", "first-call", "--vary", "link.up.loss=0 %,2 %", "--duration", "1s", "--repeats", "1")
    result = rtclab(*sweep, "-q")
    assert (result.status, result.out, result.err) == (0, "runs/first-call-sweep-1\n", "")


def test_run_prints_one_json_document(rtclab: Rtclab, stub: StubBackend) -> None:
    answer = json.loads(rtclab(*STUB_RUN, "--json").out)
    assert answer["run"] == "runs/first-call-stub-1"
    assert [repeat["status"] for repeat in answer["repeats"]] == ["finished", "finished"]
    rates = {row["flow"]: row["mean"] for row in answer["metrics"] if row["metric"] == "sending_rate"}
    assert rates == {"alice->bob": 800.0, "bob->alice": 800.0}
    assert answer["page"] is None
    assert answer["window"] is None


def test_a_run_with_a_failed_repeat_prints_the_metrics_of_the_others_and_exits_with_1(
    rtclab: Rtclab, stub: StubBackend
) -> None:
    stub.failing = {1}
    result = rtclab(*STUB_RUN)
    assert result.status == 1
    assert "receiving_rate" in result.out
    assert result.err.startswith(
        "repeat 1 failed: alice: the page reported `no camera`\n  hint: plug one in\n"
    )


def test_resume_finishes_a_run_and_measures_all_repeats(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.failing = {0}
    assert rtclab(*STUB_RUN).status == 1
    stub.failing = set()
    result = rtclab("run", "--resume", "latest", "--no-report")
    assert result.status == 0
    assert "run: runs/first-call-stub-1 (2 of 2 repeats finished)" in result.out


def test_resume_uses_the_backend_of_the_run_and_rejects_others(rtclab: Rtclab, stub: StubBackend) -> None:
    rtclab(*STUB_RUN)
    refused = rtclab("run", "--resume", "latest", "--backend", "live", "--no-report")
    assert (refused.status, refused.out) == (2, "")
    assert refused.err == (
        "backend: first-call-stub-1 was made by backend stub, not live\n"
        "  hint: leave the backend out, or start a new run\n"
    )
    assert rtclab("run", "--resume", "latest", "--no-report").status == 0


@pytest.mark.parametrize("deterministic", [False, True])
def test_resume_is_not_suggested_for_a_repeat_that_would_fail_again(
    rtclab: Rtclab, stub: StubBackend, deterministic: bool
) -> None:
    stub.deterministic = deterministic
    stub.failing = {1}
    assert ("--resume" in rtclab(*STUB_RUN).err) == (not deterministic)


def test_resume_is_suggested_for_interrupted_runs_of_any_backend(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.deterministic = True
    stub.interrupted_in = {1}
    assert "`rtclab run --resume" in rtclab(*STUB_RUN, "--jobs", "1").err


def test_ctrl_c_exits_with_130_and_says_how_to_continue(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.interrupted_in = {1}
    result = rtclab(*STUB_RUN, "--jobs", "1")
    assert result.status == 128 + signal.SIGINT
    assert "(1 of 2 repeats finished)" in result.out
    assert "first-call-stub-1: 1 of 2 repeats did not run to their end." in result.err
    assert call_failures() == 0  # the interrupted one says nothing about calls
    assert "hint: continue with `rtclab run --resume runs/first-call-stub-1`" in result.err


def test_ctrl_c_while_the_report_is_drawn_prints_the_path_of_the_run(
    rtclab: Rtclab, stub: StubBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pressed(results: Results) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(Results, "summary", pressed)
    result = rtclab(*STUB_RUN)
    assert result.status == 128 + signal.SIGINT
    assert "`rtclab report runs/first-call-stub-1` measures and draws them" in result.err


def test_a_run_in_which_every_call_failed_still_has_that_metric(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.failing = {0, 1}
    result = rtclab(*STUB_RUN)
    assert result.status == 1
    assert "call_failures" in result.out
    assert call_failures() == 100


def test_the_error_for_a_directory_that_cannot_be_created_names_it(rtclab: Rtclab, stub: StubBackend) -> None:
    Path("file").touch()
    result = rtclab(*STUB_RUN, "--out", "file/runs")
    assert result.status == 2
    assert result.err.startswith("file/runs: no directory can be made there: Not a directory\n")


def call_failures() -> float:
    summary = Results(Path("runs/first-call-stub-1")).summary(metrics=["call_failures"])
    return float(summary["mean"].item())


@pytest.mark.parametrize(("option", "drawn"), [([], True), (["--no-report"], False)])
def test_a_sweep_says_that_it_draws_a_report_only_if_it_does(
    rtclab: Rtclab, monkeypatch: pytest.MonkeyPatch, option: list[str], drawn: bool
) -> None:
    said: list[str] = []

    @contextmanager
    def busy(doing: str) -> Iterator[None]:
        said.append(doing)
        yield

    monkeypatch.setattr(running, "busy", busy)
    vary = ("--vary", "link.up.loss=0 %,1 %", "--duration", "1s", "--repeats", "1", "--jobs", "1")
    assert rtclab("sweep", "first-call", *vary, *option).status == 0
    assert ("drawing the report" in said) == drawn


def test_names_of_scenarios_are_never_truncated(rtclab: Rtclab, monkeypatch: pytest.MonkeyPatch) -> None:
    longest = max(shipped(), key=len)
    monkeypatch.setattr(Console, "is_terminal", True)
    for columns in (80, 200):
        monkeypatch.setenv("COLUMNS", str(columns))
        listed = rtclab("list", longest.rpartition("/")[0]).out
        assert f"\n{longest} " in listed


CONFERENCE = """
name = "conference"
duration = "2 s"
repeats = 1
[participants]
alice = {}
bob = {}
carol = {}
[[calls]]
kind = "sfu"
server = "sfu"
[servers.sfu]
[video]
[link]
up.capacity = "2 Mbit/s"
down.capacity = "2 Mbit/s"
[traffic.upload]
sender = "alice"
receiver = "bob"
"""


def terminal(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    monkeypatch.setattr(Console, "is_terminal", True)
    monkeypatch.setenv("COLUMNS", str(columns))


def plain(text: str) -> list[list[str]]:
    """The words of each line, without terminal colours."""
    return [re.sub(r"\x1b\[[\d;]*m", "", line).split() for line in text.splitlines()]


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_a_narrow_terminal_shows_the_numbers_that_a_wide_one_shows(
    rtclab: Rtclab, stub: StubBackend, monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    rtclab(*STUB_RUN)
    stub.packets_per_second = 150
    rtclab(*STUB_RUN)
    terminal(monkeypatch, columns)
    assert ["sending_rate", "alice->bob", "800.0"] in [
        line[:3] for line in plain(rtclab("measure", "first-call-stub-1", "--all").out)
    ]
    (row,) = (
        line
        for line in plain(rtclab("compare", "first-call-stub-1", "first-call-stub-2").out)
        if line[:2] == ["receiving_rate", "alice->bob"]
    )
    # All repeats of a run have the same rate, so the difference is constant.
    assert row[2:] == ["800.0", "1200", "400.0", "+50.0", "*=", "kbit/s"]
    overview = plain(rtclab("measure", "first-call-stub-1").out)
    receiving = [line for line in overview if line[:1] == ["receiving_rate"]]
    assert sum(line.count("800.0") for line in receiving) == 2
    assert all(line[-1] == "kbit/s" for line in receiving)


def test_a_narrow_terminal_shows_fewer_metrics_of_a_sweep_and_says_which_are_missing(
    rtclab: Rtclab, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal(monkeypatch, 80)
    sweep = ("sweep", "first-call", "--vary", "link.up.capacity=1Mbit/s,2Mbit/s", "--repeats", "1")
    out = rtclab(*sweep, "--duration", "2s", "--no-report").out
    assert ["1Mbit/s", "alice->bob"] in [line[:2] for line in plain(out)]
    assert "…" not in out
    table, _, rest = re.sub(r"\x1b\[[\d;]*m", "", out).partition("the terminal is too narrow for ")
    assert max(map(len, table.splitlines())) <= 80
    missing = rest.partition("; --json has all")[0].split(", ")
    assert "receiving_rate" in table
    assert "freeze_duration" in table
    assert missing[0] == "utilisation"
    assert not any(name in table for name in missing)


def test_the_line_above_a_table_names_the_measured_repeats(rtclab: Rtclab, stub: StubBackend) -> None:
    assert rtclab(*STUB_RUN).out.startswith("first-call, stub, 3 s: mean of 2 repeats\n")
    limited = rtclab("measure", "latest", "--from", "1s").out
    assert limited.startswith("first-call, stub, 1 s to 3 s of 3 s: mean of 2 repeats\n")
    single = rtclab("run", "first-call", "--duration", "1s", "--repeats", "1", "--no-report").out
    assert single.startswith("first-call, stub, 1 s, 1 repeat\n")


def test_media_between_participants_comes_before_the_server_and_tcp_has_its_own_table(rtclab: Rtclab) -> None:
    Path("conference.toml").write_text(CONFERENCE)
    result = rtclab("run", "conference.toml", "--no-report")
    assert result.status == 0, result.err
    media, _, tcp = result.out.partition("TCP flow")
    flows = [line.split()[0] for line in media.splitlines() if "->" in line]
    # Three participants: 3 * 2 directions, and the leg to the server of each; the legs back are feedback.
    assert len(flows) == 9
    assert not any("sfu" in flow for flow in flows[:6])
    assert all("sfu" in flow for flow in flows[6:])
    assert "upload" not in media
    heading, _, row = tcp.splitlines()[:3]
    assert heading.split()[::2] == ["tcp_throughput", "tcp_rtt", "tcp_retransmissions"]
    assert row.split()[0] == "upload"


def test_metrics_are_printed_in_lines_that_can_be_read(rtclab: Rtclab) -> None:
    assert max(map(len, rtclab("metrics").out.splitlines())) <= 100


def test_a_selection_of_metrics_is_defined_and_an_unknown_one_refused(rtclab: Rtclab) -> None:
    shown = rtclab("metrics", "rtt").out
    assert shown.startswith("rtt (ms)\n")
    assert "goodput" not in shown
    assert rtclab("metrics", "rtt", "rt").err.startswith("no metric `rt`")


def test_a_scenario_that_the_backend_cannot_run_exits_with_2(rtclab: Rtclab, stub: StubBackend) -> None:
    result = rtclab(*STUB_RUN, "--set", "audio={}")
    assert (result.status, result.err) == (2, "audio: the stub has no microphone\n")


def test_a_full_disk_is_reported_with_the_path(rtclab: Rtclab, stub: StubBackend) -> None:
    # /dev/full refuses every byte.
    assert rtclab(*STUB_RUN).status == 0
    Path(f"runs/first-call-stub-1/.report.html-{os.getpid()}").symlink_to("/dev/full")
    result = rtclab("report", "latest")
    assert result.status == 1
    assert result.err.startswith("runs/first-call-stub-1/report.html: ")
    assert "no space left on the disk" in result.err


def test_measure_and_compare_work_on_runs_of_the_command_run(rtclab: Rtclab, stub: StubBackend) -> None:
    rtclab(*STUB_RUN)
    stub.packets_per_second = 150
    rtclab(*STUB_RUN)
    answer = json.loads(rtclab("measure", "first-call-stub-1", "--from", "1s", "--json").out)
    assert (answer["run"], answer["window"]) == ("runs/first-call-stub-1", [1.0, None])
    measured: list[dict[str, Any]] = answer["metrics"]
    assert measured[0]["metric"] == "sending_rate"
    # 100 packets of 1000 bytes a second are 800 kbit/s, 150 are half more.
    assert measured[0]["mean"] == 800.0
    runs = ("first-call-stub-1", "first-call-stub-2")
    answer = json.loads(rtclab("compare", *runs, "--json").out)
    assert (answer["runs"], answer["window"]) == ([f"runs/{name}" for name in runs], None)
    assert answer["page"] is None
    assert not list(Path("runs").glob("*.html"))
    compared: list[dict[str, Any]] = answer["metrics"]
    rates = [row for row in compared if row["metric"] == "sending_rate"]
    assert [row["flow"] for row in rates] == ["alice->bob", "bob->alice"]
    for row in rates:
        assert (row["base"], row["new"], row["difference"]) == (800.0, 1200.0, 400.0)
        assert row["difference_percent"] == 50.0
    printed = rtclab("compare", *runs, "--all").out
    line = next(line for line in printed.splitlines() if line.startswith("sending_rate"))
    assert line.split()[:2] == ["sending_rate", "alice->bob"]
    assert "+50.0" in line
    answer = json.loads(rtclab("compare", *runs, "--page", "both.html", "--json").out)
    assert answer["page"] == "both.html"
    assert "first-call-stub-2" in Path("both.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, ""), (0.0, "0"), (0.12345, "0.123"), (1.005, "1.00"), (52.66, "52.66"), (800.04, "800.0")],
)
def test_numbers_are_printed_with_about_four_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_with_very_many_flows_only_the_first_are_printed_and_the_others_counted(
    capsys: pytest.CaptureFixture[str],
) -> None:
    flows = [f"flow-{index}" for index in range(MOST_FLOWS + 3)]
    rows = [("sending_rate", flow) for flow in flows] + [("fairness", "")]
    same = {"mean": 1.0, "sd": 0.0, "ci95_low": None, "ci95_high": None, "unit": "kbit/s"}
    show_metrics(pl.DataFrame([{"metric": metric, "flow": flow, **same} for metric, flow in rows]))
    out = capsys.readouterr().out
    table, _, told = out.partition("not shown: ")
    assert table.count("flow-") == MOST_FLOWS
    assert "fairness" in table
    assert told == "3 more flows: flow-100, flow-101, flow-102; --json prints all\n"


def test_the_simulator_gives_the_same_metrics_for_the_same_seed(rtclab: Rtclab) -> None:
    command = ("run", "first-call", "--duration", "5s", "--repeats", "2", "--no-report", "--json")
    first, second = (json.loads(rtclab(*command).out) for _ in range(2))
    assert [repeat["status"] for repeat in first["repeats"]] == ["finished", "finished"]
    assert first["metrics"] == second["metrics"]
    for repeat in range(2):
        one, other = (Trace(Path(answer["run"]) / f"repeat-{repeat}") for answer in (first, second))
        assert one.tables == other.tables
        for name in one.tables:
            assert (one.path / f"{name}.parquet").read_bytes() == (
                other.path / f"{name}.parquet"
            ).read_bytes()


def test_run_prints_at_most_12_rows_for_two_participants_and_says_how_to_see_the_rest(rtclab: Rtclab) -> None:
    result = rtclab("run", "first-call", "--duration", "5s", "--repeats", "2", "--no-report")
    rows = [line for line in result.out.splitlines() if line.split()[:1] and line.split()[0] in METRICS]
    assert 8 <= len(rows) <= 12
    assert rows[0].startswith("receiving_rate")
    assert "`rtclab measure first-call-sim-1 --all`" in result.out
    every = rtclab("measure", "first-call-sim-1", "--all").out
    assert every.count("alice->bob") > 20


def test_run_prints_one_row_for_each_of_12_flows_of_a_large_call(rtclab: Rtclab) -> None:
    scenario = Path("mesh.toml")
    people = "\n".join(f"[participants.p{index}]" for index in range(5))
    scenario.write_text(
        f'name = "mesh"\nduration = "3 s"\nrepeats = 1\n{people}\n[audio]\n[link]\nup = {{}}\ndown = {{}}\n'
    )
    result = rtclab("run", "mesh.toml", "--no-report")
    assert result.status == 0, result.err
    assert sum(line.startswith("p") and "->" in line for line in result.out.splitlines()) == 12
    assert "8 more flows" in result.out  # 5 * 4 flows


def test_congestion_controls_are_listed(rtclab: Rtclab) -> None:
    listed = rtclab("list", "--controls").out
    assert "\nrrtcc-2013: Chrome 27: two-state Kalman filter" in listed
    assert "\n  decrease (0.5 to 1): " in listed
    controls = {one["name"]: one for one in json.loads(rtclab("list", "--controls", "--json").out)}
    assert controls.keys() == set(_native.CONGESTION_CONTROLS)
    assert controls["fixed"] == {
        "name": "fixed",
        "summary": "always the encoder's maximum, whatever the feedback",
        "options": [],
    }
    assert {"decrease"} <= {option["name"] for option in controls["rrtcc-2013"]["options"]}


def test_one_metric_can_be_looked_up(rtclab: Rtclab) -> None:
    (row,) = json.loads(rtclab("metrics", "rtt", "--json").out)
    assert row["metric"] == "rtt"
    assert rtclab("metrics", "rt").err.startswith("no metric `rt`\n  hint: did you mean `rtt`?")


def test_measure_and_report_take_a_sweep_as_they_take_a_run(rtclab: Rtclab) -> None:
    vary = ("--vary", "link.up.loss=0 %,20 %", "--vary", "link.up.delay=5 ms,6 ms")
    sweep = ("sweep", "first-call", *vary, "--duration", "10s", "--repeats", "2", "--no-report")
    assert rtclab(*sweep).status == 0
    assert rtclab("report", "first-call-sweep-1").out == "runs/first-call-sweep-1/report.html\n"
    answer = json.loads(rtclab("report", "latest", "--plots", "plots", "--format", "pdf", "--json").out)
    run = "runs/first-call-sweep-1"
    files = sorted(map(str, Path("plots").iterdir()))
    assert answer == {"run": run, "page": f"{run}/report.html", "plots": answer["plots"]}
    assert sorted(answer["plots"]) == files
    assert {Path(file).suffix for file in files} == {".pdf"}
    unknown = rtclab("measure", "latest", "--metric", "rt")
    assert (unknown.status, unknown.err) == (2, "no metric `rt`\n  hint: did you mean `rtt`?\n")
    every = json.loads(rtclab("measure", "latest", "--metric", "packet_loss", "--json").out)["metrics"]
    assert len(every) == 8  # 2 losses, 2 delays, 2 flows
    averaged = ("measure", "latest", "--metric", "packet_loss", "--by", "link.up.loss")
    by = json.loads(rtclab(*averaged, "--json").out)["metrics"]
    found = {loss: [row["mean"] for row in by if row["link.up.loss"] == loss] for loss in ("0 %", "20 %")}
    assert found["0 %"] == [0, 0]
    assert len(found["20 %"]) == 2
    assert all(10 < mean < 30 for mean in found["20 %"])
    one = rtclab("measure", "latest", "--where", "link.up.loss=20 %", "--where", "link.up.delay=5 ms")
    assert one.out.startswith("first-call, simulated, 10 s: mean of 2 repeats")
    refused = rtclab("measure", "latest", "--from", "1s")
    assert refused.status == 2
    assert refused.err.startswith("first-call-sweep-1 kept no traces, so only its own time can be measured\n")


SWEEP = ("sweep", "first-call", "--vary", "link.up.loss=0 %,20 %", "--duration", "5s", "--repeats", "2")


def test_limits_are_checked_in_each_condition_of_a_sweep(rtclab: Rtclab) -> None:
    limits = ("--assert", "packet_loss of alice->bob < 5 %", "--assert", "rtt < 1 s")
    broken = r"FAILED: link.up.loss = 20 %: packet_loss of alice->bob < 5 %: [0-9.]+ %, .* in 2 of 2 repeats"
    swept = rtclab(*SWEEP, "--no-report", *limits)
    assert swept.status == 1
    assert re.search(broken, swept.out)
    assert "\nholds: packet_loss of alice->bob < 5 %, in 1 of 2 conditions\n" in swept.out
    assert "\nholds: rtt < 1 s, in 2 of 2 conditions\n" in swept.out
    measured = rtclab("measure", "latest", *limits)
    assert (measured.status, re.findall(broken, measured.out)) == (1, re.findall(broken, swept.out))
    quiet = rtclab("measure", "latest", "-q", *limits)
    assert (quiet.status, quiet.out) == (1, "")
    assert re.fullmatch(broken + "\n", quiet.err)
    for wanted, status in (("link.up.loss=0 %", 0), ("link.up.loss=20 %", 1)):
        answer = rtclab("measure", "latest", "--where", wanted, "--json", *limits)
        checks = json.loads(answer.out)["limits"]
        assert (answer.status, any(one["fails"] for one in checks)) == (status, status == 1)
    assert rtclab("measure", "latest", "--assert", "rtt < 1 s").status == 0
    for command in (("measure", "latest"), SWEEP):
        for limit, message in (
            ("rt < 1 s", "no metric `rt`"),
            ("rtt of bob->eve < 1 s", "no flow `bob->eve`"),
        ):
            refused = rtclab(*command, "--assert", limit)
            assert (refused.status, message in refused.err) == (2, True)


def test_values_of_repeats_are_exported(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.failing = {1}
    rtclab(*SWEEP, "--no-report")
    for file in ("values.csv", "deep/values.parquet"):
        assert rtclab("export", "latest", file) == (0, f"{file}\n", "")
    table = pl.read_csv("values.csv", infer_schema_length=None)
    assert table.equals(pl.read_parquet("deep/values.parquet"))
    assert table.columns[:7] == [
        *("condition", "link.up.loss", "link.up.loss_percent", "repeat", "seed", "status", "reason"),
    ]
    of_one = ("export", "latest", "--metric", "sending_rate", "--where", "link.up.loss=20 %")
    printed = pl.read_csv(rtclab(*of_one, "--flow", "alice->bob").out.encode())
    assert printed["link.up.loss"].unique().to_list() == ["20 %"]
    assert printed.select("repeat", "status", "value").rows() == [(0, "finished", 800.0), (1, "failed", None)]
    answer = json.loads(rtclab(*of_one, "--flow", "alice->bob", "--json").out)
    assert [row["value"] for row in answer["values"]] == [800.0, None]
    refused = rtclab("export", "latest", "values.xlsx")
    message = "export: `values.xlsx`: expected a name that ends in .csv or .parquet\n"
    assert (refused.status, refused.err) == (2, message)


@pytest.mark.parametrize(
    "command",
    [
        STUB_RUN,
        (*SWEEP, "--no-report"),
        ("metrics",),
        ("list",),
        ("list", "--controls"),
        ("runs",),
        ("gate", "suite.toml"),
    ],
    ids=" ".join,
)
def test_tables_are_printed_as_csv(rtclab: Rtclab, stub: StubBackend, command: tuple[str, ...]) -> None:
    suite = 'repeats = 2\nlimits = ["sending_rate > 1 kbit/s"]\n[scenarios.a]\nscenario = "first-call"\n'
    Path("suite.toml").write_text(suite)
    rtclab(*STUB_RUN)
    printed = rtclab(*command, "--csv")
    assert printed.status == 0
    assert pl.read_csv(printed.out.encode()).height > 0


def test_quiet_commands_print_what_fails(rtclab: Rtclab, stub: StubBackend) -> None:
    suite = 'repeats = 2\nlimits = ["sending_rate > 9 Mbit/s"]\n[scenarios.a]\nscenario = "first-call"\n'
    Path("suite.toml").write_text(suite)
    failed = rtclab("gate", "suite.toml", "-q")
    assert failed.status == 1
    *sentences, verdict = failed.out.splitlines()
    assert len(sentences) == 2
    assert sentences[0].startswith("a: sending_rate > 9 Mbit/s: 800.0 kbit/s for alice->bob, ")
    assert verdict == "suite failed: 1 of 1 check, in 1 of 1 scenario"


def test_runs_of_different_lengths_are_compared_to_the_end_of_each(rtclab: Rtclab, stub: StubBackend) -> None:
    rtclab(*STUB_RUN)
    rtclab("run", "first-call", "--duration", "5s", "--repeats", "2", "--no-report")
    runs = ("first-call-stub-1", "first-call-stub-2")
    compared = rtclab("compare", *runs, "--from", "1s")
    assert ", 1 s to 3 s of 3 s: " in compared.out
    assert ", 1 s to 5 s of 5 s: " in compared.out
    assert rtclab("compare", *runs, "--from", "4s").err == (
        "nothing to measure from 4 s on: the run ends at 3 s\n  hint: choose a time before 3 s\n"
    )


def test_metrics_are_listed_with_unit_definition_and_source(rtclab: Rtclab) -> None:
    listed = {row["metric"]: row for row in json.loads(rtclab("metrics", "--json").out)}
    assert list(listed) == list(METRICS)
    assert listed["rtt"]["unit"] == "ms"
    assert all(row["definition"] and row["source"] for row in listed.values())
    assert all(name in rtclab("metrics").out for name in METRICS)


def test_measure_can_be_limited_to_a_time_and_a_metric_and_print_csv(
    rtclab: Rtclab, stub: StubBackend
) -> None:
    rtclab(*STUB_RUN)
    result = rtclab("measure", "latest", "--from", "1s", "--to", "2 s", "--metric", "sending_rate", "--csv")
    table = pl.read_csv(result.out.encode())
    assert table["flow"].to_list() == ["alice->bob", "bob->alice"]
    assert table["mean"].to_list() == [800.0, 800.0]
    whole = Results(Path("runs/first-call-stub-1")).metrics(metrics=["sending_rate"])
    assert whole.height == 4  # 2 flows in 2 repeats: what is measured later changes nothing
    refused = rtclab("measure", "latest", "--from", "2s", "--to", "1s")
    assert (refused.status, refused.err) == (
        2,
        "cannot measure from 2 s to 1 s; expected an end after the begin\n",
    )


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("rtclab run first", "first-call"),
        ("rtclab measure fir", "first-call-stub-1"),
        ("rtclab measure latest --metric rt", "rtt"),
        ("rtclab run first-call --backend l", "live"),
    ],
)
def test_the_shell_completes_names(rtclab: Rtclab, stub: StubBackend, words: str, expected: str) -> None:
    rtclab(*STUB_RUN)
    environment = os.environ | {
        "_RTCLAB_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [Path(sys.executable).with_name("rtclab")],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert expected in done.stdout.split(), done


def test_the_help_lists_choices(rtclab: Rtclab) -> None:
    told = rtclab("run", "--help").out
    assert "sim|live" in told
    assert "packets|seconds" in told


def recorded_only(repeats: int) -> None:
    """Leaves only the outcomes of the first repeats in the store, as a kill would."""
    with closing(sqlite3.connect("runs/first-call-stub-1/results.sqlite")) as store, store:
        store.execute("DELETE FROM outcomes WHERE repeat >= ?", [repeats])
        store.execute("DELETE FROM numbers WHERE outcome NOT IN (SELECT outcome FROM outcomes)")


KILLED = "first-call-stub-1: 2 of 5 repeats did not run to their end."
CONTINUE = "  hint: continue with `rtclab run --resume runs/first-call-stub-1`"


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["measure", "first-call-stub-1"], "first-call, stub, 3 s: mean of 3 of 5 repeats"),
        (["report", "first-call-stub-1"], ""),
        (
            ["compare", "first-call-stub-1", "first-call-stub-2"],
            "first-call-stub-1: first-call, stub, 3 s: mean of 3 of 5 repeats\n"
            "first-call-stub-2: first-call, stub, 3 s: mean of 5 repeats\n",
        ),
    ],
)
def test_what_is_said_of_a_killed_run_says_that_repeats_are_missing(
    rtclab: Rtclab, stub: StubBackend, command: list[str], shown: str
) -> None:
    for _ in range(2):
        rtclab(*STUB_RUN, "--repeats", "5")
    recorded_only(3)
    result = rtclab(*command)
    assert result.status == 0
    assert shown in result.out
    assert result.err == f"{KILLED}\n{CONTINUE}\n"
    if page := re.search(r"(\S+\.html)$", result.out.strip()):
        text = Path(page[1]).read_text(encoding="utf-8")
        sentence = "2 of 5 repeats did not run to their end. `rtclab run --resume runs/first-call-stub-1`"
        assert sentence in text
        assert "3 of 5 finished" in text
        assert text.count("2 of 5 repeats did not run to their end") == 2  # also in the verdict
        assert "repeats failed" not in text


def test_a_killed_run_is_complete_after_it_was_resumed(rtclab: Rtclab, stub: StubBackend) -> None:
    rtclab(*STUB_RUN, "--repeats", "5")
    recorded_only(3)
    resumed = rtclab("run", "--resume", "latest", "--no-report")
    assert (resumed.status, resumed.err) == (0, "")
    assert "mean of 5 repeats" in resumed.out
    assert rtclab("measure", "latest").err == ""


def test_a_fault_of_the_laboratory_is_no_failed_call(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.crashing = {1}
    result = rtclab(*[one for one in STUB_RUN if one != "--no-report"])
    assert result.status == 1
    assert "repeat 1: the laboratory failed: ZeroDivisionError: division by zero\n" in result.err
    assert "first-call-stub-1: 1 of 2 repeats did not run to their end.\n  hint: continue" in result.err
    assert call_failures() == 0
    page = Path("runs/first-call-stub-1/report.html").read_text(encoding="utf-8")
    assert "Repeats that say nothing about the call: the laboratory failed" in page
    assert "Failed repeats" not in page
    assert "1 of 2 repeats failed" not in page


def test_the_interval_of_the_share_of_failed_calls_is_printed(rtclab: Rtclab, stub: StubBackend) -> None:
    stub.failing = {0}
    # 1 of 2 calls; Wilson, z² / n = 1.92: 0.5 ± sqrt(1.92 / 4 + 1.92² / 4) / 2.92 = 9.45 to 90.55 %.
    assert "call_failures: 50.00 [9.45, 90.55] %" in rtclab(*STUB_RUN).out


@pytest.fixture
def live(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> StubBackend:
    """Replaces live calls by a stub, which runs one call at a time."""
    backend = StubBackend()
    backend.name, backend.parallel = "live", False
    monkeypatch.setattr(stub_backend, "TheStub", lambda: backend, raising=False)
    monkeypatch.setitem(backends._HOME, "live", ("stub_backend", "TheStub"))
    # Not the lock of this machine: nothing here waits for live calls.
    monkeypatch.setattr(taking_turns, "LOCK", tmp_path / "live-calls.lock")
    return backend


LIVE_SWEEP = (
    *("sweep", "first-call", "--vary", "link.up.loss=0 %,1 %", "--backend", "live", "--repeats", "2"),
    *("--duration", "2s", "--no-report"),
)


@pytest.mark.parametrize("backend", [[], ["--backend", "live"]])
def test_a_live_sweep_is_resumed_without_further_options(
    rtclab: Rtclab, live: StubBackend, backend: list[str]
) -> None:
    live.interrupted_in = {1}
    assert rtclab(*LIVE_SWEEP).status == 128 + signal.SIGINT
    live.interrupted_in, live.ran = set(), []
    result = rtclab("sweep", "--resume", "first-call-sweep-1", "--no-report", *backend)
    assert (result.status, result.err) == (0, "")
    assert [repeat for repeat, _ in live.ran] == [1, 0, 1]


def test_a_sweep_is_not_resumed_on_another_backend(rtclab: Rtclab, live: StubBackend) -> None:
    rtclab(*LIVE_SWEEP)
    result = rtclab("sweep", "--resume", "first-call-sweep-1", "--backend", "sim")
    assert result.status == 2
    assert result.err.startswith("backend: first-call-sweep-1 was made by backend live, not sim\n  hint: ")


@pytest.mark.parametrize(
    "command", ["rtclab metrics", "rtclab list", "rtclab schema", "rtclab list --controls"]
)
def test_a_command_whose_output_nobody_reads_ends_quietly_with_141(command: str) -> None:
    # The reader has exited before the command writes.
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", *command.split()], stdout=write, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


def test_what_is_no_number_is_null_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    tables.print_json({"error": math.nan, "pairs": [math.inf, (-math.inf, 1.5)], "name": "NaN"})
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == {
        "error": None,
        "pairs": [None, [None, 1.5]],
        "name": "NaN",
    }


@pytest.mark.parametrize(
    ("page", "power"),
    [
        ("page.html", "participants.alice.page: {beside}/page.html"),
        ("/home/me/page.html", "participants.alice.page: /home/me/page.html"),
        ("http://10.0.0.9/page.html", None),
    ],
)
def test_a_scenario_from_elsewhere_that_opens_a_file_needs_trust(
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    page: str,
    power: str | None,
) -> None:
    theirs = tmp_path_factory.mktemp("downloads") / "theirs.toml"
    text = f'name = "theirs"\nduration = "2 s"\n[participants.alice]\npage = "{page}"\n[participants.bob]\n'
    theirs.write_text(text)
    scenario = Scenario.load(theirs)
    if power is None:
        scenario.check_trusted(live=True)
        return
    power = power.format(beside=theirs.parent)
    with pytest.raises(BadInput, match=re.escape(f"and would do as you:\n  {power}")) as refused:
        scenario.check_trusted(live=True)
    assert refused.value.hint == HINT
    Scenario.load(theirs, trust=True).check_trusted(live=True)
    assert capsys.readouterr().err == f"{theirs} does as you:\n  {power}\n"
    monkeypatch.chdir(tmp_path)
    Path("ours.toml").write_text(text)
    Scenario.load("ours.toml").check_trusted(live=True)


@pytest.mark.usefixtures("live")
def test_a_scenario_from_elsewhere_that_runs_programs_or_uses_the_network_needs_trust(
    rtclab: Rtclab, tmp_path_factory: pytest.TempPathFactory
) -> None:
    theirs = tmp_path_factory.mktemp("downloads") / "theirs.toml"
    theirs.write_text(
        'name = "theirs"\nduration = "2 s"\ninternet = true\n'
        "[participants.alice]\n[participants.bob]\n[video]\n"
        '[participants.bob.browser]\nargs = ["--renderer-cmd-prefix=rm -r"]\n'
        '[servers.sfu]\ncommand = "mysfu --fast"\n'
    )
    powers = (
        "\n  internet: true\n  participants.bob.browser.args: '--renderer-cmd-prefix=rm -r'"
        "\n  servers.sfu.command: mysfu --fast\n"
    )
    refused = rtclab("run", str(theirs), "--backend", "live", "--no-report")
    assert refused.status == 2
    assert f"is outside of the current project, {Path.cwd()}, and would do as you:{powers}" in refused.err
    assert refused.err.endswith(f"hint: {HINT}\n")
    assert not Path("runs").exists()
    trusted = rtclab("run", str(theirs), "--backend", "live", "--no-report", "--trust")
    assert (trusted.status, trusted.err) == (0, f"{theirs} does as you:{powers}")
    # A run that somebody else made has their powers too.
    elsewhere = theirs.parent / "their-run"
    shutil.move(next(Path("runs").iterdir()), elsewhere)
    again = "run", "--resume", str(elsewhere), "--repeats", "2", "--backend", "live", "--no-report"
    assert rtclab(*again).status == 2
    assert rtclab(*again, "--trust").status == 0
    # Extending it, or naming it in a suite, is no way around.
    Path("extends.toml").write_text(
        f'name = "extends"\nextends = "{os.path.relpath(theirs.with_suffix(""))}"\n'
    )
    assert rtclab("run", "extends.toml", "--backend", "live", "--no-report").status == 2
    Path("suite.toml").write_text(
        f'backend = "live"\nlimits = ["rtt < 9 s"]\n[scenarios.one]\nscenario = "{theirs}"\n'
    )
    assert "would do as you" in rtclab("gate", "suite.toml").err
    Path("ours.toml").write_text(theirs.read_text())
    assert rtclab("run", "ours.toml", "--backend", "live", "--no-report").err == ""
    assert rtclab("run", "first-call", "--backend", "live", "--duration", "2s", "--no-report").err == ""
    simulated = rtclab("run", str(theirs), "--no-report").err  # which does none of this
    assert simulated.startswith("theirs-sim-1: No effect in a simulated call: internet = yes, ")
    assert simulated.endswith("servers.sfu.command = mysfu --fast.\n")
