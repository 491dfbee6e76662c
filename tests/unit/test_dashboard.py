"""The page of --watch: what is recorded for it, its server, and who may read it."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from shutil import copytree
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from command_line import Rtclab
from hypothesis import given
from hypothesis import strategies as st
from stub_backend import StubBackend

import rtclab as interface
from rtclab.backend.sampler import Sampler
from rtclab.backend.sim import simulate
from rtclab.dashboard import PAGE_FILE, Dashboard
from rtclab.dashboard.page import html, keep_page, messages
from rtclab.errors import BadInput
from rtclab.experiment import Experiment
from rtclab.metrics import courses, delay, media, wire
from rtclab.metrics.series import Samples
from rtclab.report.plots_of_runs import run_plot
from rtclab.scenario import Scenario
from rtclab.trace import Trace, only_writer, watch_file

LOSSY = {"duration": "15 s", "link.up.loss": "3 %"}
NOTHING: dict[str, list[Any]] = {
    name: []
    for name in ("outbound_rtp", "inbound_rtp", "remote_inbound_rtp", "flow_seconds", "host", "events")
}
SOON_S = 8
"""Longer than a busy machine takes to send a line, and shorter than a request waits for one."""
ATTACK = "</script><script>document.title = 'taken over'</script>"


@pytest.fixture(scope="module")
def trace() -> Trace:
    return simulate(Scenario.load("first-call", LOSSY))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two short simulated repeats."""
    scenario = Scenario.load("first-call", LOSSY)
    return Experiment([scenario], repeats=2).run(out=tmp_path_factory.mktemp("runs"), progress=False).path


def series_of(trace: Trace, flow: str) -> dict[str, Samples]:
    """The curves of a flow as metrics compute them."""
    return {
        "sent_kbps": wire.stats_sent_kbps(trace, flow),
        "received_kbps": wire.stats_received_kbps(trace, flow),
        "rtt_ms": delay.rtt_ms(trace, flow),
        "delay_ms": delay.one_way_delay_ms(trace, flow),
        "frame_rate": media.decoded_fps(trace, flow),
        "frame_height": courses.frame_height(trace, flow),
        "buffer_ms": media.jitter_buffer_ms(trace, flow),
    }


# --- what is recorded --------------------------------------------------------------------------------


def test_the_curves_are_the_series_of_the_metrics(trace: Trace) -> None:
    new = Sampler.of_trace(trace).new()
    assert sorted(new["flows"]) == ["alice->bob", "bob->alice"]
    for flow, curves in new["flows"].items():
        for name, series in series_of(trace, flow).items():
            known = dict(zip(series.at_s.round(3), series.values, strict=True))
            points = [(at_s, value) for at_s, value in curves[name] if at_s in known]
            # The metrics also have a point of the time before the first report, and one at the flow's end.
            assert len(known) - 2 <= len(points) <= len(known), name
            assert len(points) >= len(curves[name]) - 1, name
            assert [value for _, value in points] == pytest.approx(
                [known[at_s] for at_s, _ in points], abs=0.002
            ), name


def test_loss_is_in_the_direction_that_loses(trace: Trace) -> None:
    flows = Sampler.of_trace(trace).new()["flows"]
    lost = {name: np.mean([value for _, value in curves["loss_percent"]]) for name, curves in flows.items()}
    assert 1 < lost["alice->bob"] < 6
    assert 1 < lost["bob->alice"] < 6  # both have the same uplink
    lossless = simulate(Scenario.load("first-call", {"duration": "15 s", "link.down.capacity": "5 Mbit/s"}))
    for curves in Sampler.of_trace(lossless).new()["flows"].values():
        assert all(0 <= value < 100 for _, value in curves["loss_percent"])


def test_what_comes_bit_by_bit_is_what_comes_at_once(trace: Trace) -> None:
    tables = ("outbound_rtp", "inbound_rtp", "remote_inbound_rtp", "flow_seconds", "host", "events")
    whole = {name: trace.table(name).sort("at_ns").rows(named=True) for name in tables}
    growing: dict[str, list[Any]] = {name: [] for name in tables}
    sampler = Sampler(growing)
    merged: dict[tuple[str, str], list[Any]] = {}
    events: list[Any] = []
    ends: dict[str, Any] = {}
    for second in range(17):
        for name, rows in whole.items():
            rest = rows[len(growing[name]) :]
            growing[name] += [row for row in rest if row["at_ns"] <= second * 10**9]
        new = sampler.new(second * 10**9)
        assert new["at_s"] == second
        events += new["events"]
        for flow, curves in new["flows"].items():
            for curve, points in curves.items():
                merged.setdefault((flow, curve), []).extend(points)
        ends |= new["ends"]
    at_once = Sampler.of_trace(trace).new()
    assert (
        ends
        == at_once["ends"]
        == {
            f"{sender}->{receiver}": {"sender": sender, "receiver": receiver}
            for sender, receiver in (("alice", "bob"), ("bob", "alice"))
        }
    )
    assert events == at_once["events"]
    assert merged == {
        (flow, curve): points for flow, curves in at_once["flows"].items() for curve, points in curves.items()
    }


@pytest.mark.parametrize("unknown", [None, float("nan"), float("inf"), "12", [1]])
def test_what_is_not_known_or_no_number_has_no_point(unknown: Any) -> None:
    row = {"at_ns": 10**9, "flow": "a->b", "kind": "video", "bytesSent": 1, "headerBytesSent": unknown}
    row |= {"participant": "a", "targetBitrate": unknown, "roundTripTime": unknown}
    rows: dict[str, list[Any]] = {name: [] for name in ("inbound_rtp", "flow_seconds", "host", "events")}
    rows |= {"outbound_rtp": [row, {**row, "at_ns": 2 * 10**9}], "remote_inbound_rtp": [row]}
    ends = {"a->b": {"sender": "a"}}
    assert Sampler(rows).new() == {"at_s": None, "flows": {}, "people": {}, "ends": ends, "events": []}


def test_a_count_that_falls_because_a_stream_ended_is_no_rate() -> None:
    report = {
        "flow": "a->b",
        "participant": "a",
        "kind": "video",
        "headerBytesSent": 0,
        "targetBitrate": None,
    }
    sent = [
        {**report, "at_ns": second * 10**9, "bytesSent": n} for second, n in ((1, 1000), (2, 400), (3, 525))
    ]
    rows: dict[str, list[Any]] = {"outbound_rtp": sent}
    rows |= {name: [] for name in ("inbound_rtp", "remote_inbound_rtp", "flow_seconds", "host", "events")}
    assert Sampler(rows).new()["flows"] == {"a->b": {"sent_kbps": [[2.5, 1.0]]}}


def test_a_run_records_each_repeat_with_its_outcome(run: Path) -> None:
    lines = [line for _, line in watch_file.lines_from(run)]
    assert [lines[0]["what"], lines[-1]["what"]] == ["run", "end"]
    assert (lines[0]["planned"], lines[0]["finished"], lines[-1]["reason"]) == (2, 0, "")
    for repeat in (0, 1):
        own = [line for line in lines if line.get("repeat") == repeat]
        assert [line["what"] for line in own] == ["repeat", "points", "outcome"]
        assert own[1]["flows"] == Sampler.of_trace(Trace(run / f"repeat-{repeat}")).new()["flows"]
        assert own[2]["status"] == "finished"


def test_the_reason_of_a_failed_repeat_is_recorded(stub: StubBackend, tmp_path: Path) -> None:
    stub.failing = {1}
    made = Experiment([Scenario.load("first-call", {"duration": "3 s"})], repeats=2, backend="stub").run(
        out=tmp_path, jobs=1, progress=False
    )
    outcomes = [line for _, line in watch_file.lines_from(made.path) if line["what"] == "outcome"]
    assert [line["status"] for line in outcomes] == ["finished", "failed"]
    assert outcomes[1]["reason"].startswith("alice: the page reported `no camera`")


def test_a_sweep_without_traces_records_nothing_and_cannot_be_watched(tmp_path: Path) -> None:
    swept = interface.sweep("first-call", {"link.up.loss": ["0 %"]}, duration="3 s", repeats=1, out=tmp_path)
    assert not (swept.path / watch_file.WATCH_FILE).exists()
    with pytest.raises(BadInput, match="has nothing to watch"):
        interface.lab.watch(swept.path)


def test_an_incomplete_line_waits_and_a_damaged_one_is_skipped(tmp_path: Path) -> None:
    file = tmp_path / watch_file.WATCH_FILE
    end = '{"what":"end","reason":""}'
    file.write_text(f'{end}\n{{"wha\n[1]\n{end}\n{end[:9]}')
    found = list(watch_file.lines_from(tmp_path))
    assert [line["what"] for _, line in found] == ["end", "end"]
    with file.open("a") as more:
        more.write(f"{end[9:]}\n")
    assert [line["what"] for _, line in watch_file.lines_from(tmp_path, found[-1][0])] == ["end"]


def no_json(text: str) -> Any:
    raise AssertionError(f"{text} is no JSON")


def recorded_in(directory: Path) -> list[dict[str, Any]]:
    """The lines of a watch file as a page of a run that has ended has them, which is strict JSON."""
    lines = [line for _, line in messages(directory)]
    page = html(lines)
    page.encode()
    text = page.partition('id="recorded">')[2].partition("</script>")[0]
    assert json.loads(text, parse_constant=no_json) == lines
    return lines


LINE = {
    "run": {"name": "first-call", "backend": "live", "planned": 2, "finished": 0},
    "repeat": {
        "condition": "",
        "repeat": 0,
        "attempt": 1,
        "duration_s": 5.0,
        "participants": ["alice", "bob"],
        "flows": {"alice->bob": {"sender": "alice", "receiver": "bob", "begin_ns": 0, "end_ns": 5}},
    },
    "points": {
        "condition": "",
        "repeat": 0,
        "at_s": 1.0,
        "flows": {"alice->bob": {"rtt_ms": [[0.5, 20.0]]}},
        "people": {"alice": {"cpu_percent": [[1.0, 12.5]]}},
        "ends": {"alice->bob": {"sender": "alice"}},
        "events": [[0.25, "alice", None, "joined", ""]],
    },
    "outcome": {
        "condition": "",
        "repeat": 0,
        "status": "finished",
        "reason": "",
        "note": "",
        "disturbed": "",
    },
    "end": {"reason": ""},
}
"""A line of each kind, without its name."""
DAMAGED = [
    b"",
    b"null",
    b'{"what":["end"],"reason":""}',
    b'{"what":"died"}',
    b'{"what":"end"}',
    b'{"what":"end","reason":null}',
    b'{"what":"end","reason":NaN}',
    b'{"what":"end","reason":"\\ud800"}',
    b'{"what":"end","reason":"\xed\xa0\x80"}',
    b'{"what":"end","reason":"\xff"}',
    b"\xff\xfe{\x00}\x00",
    b"[" * 100_000,
    b'{"what":"end","reason":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    b'{"what":"run","name":"n","backend":"live","planned":1' + b"0" * 5000 + b',"finished":0}',
    *(
        json.dumps({"what": what, **LINE[what], **wrong}).encode()
        for what, wrong in [
            ("run", {"planned": -1}),
            ("run", {"planned": "1"}),
            ("repeat", {"flows": []}),
            ("repeat", {"flows": {"alice->bob": {"sender": 1}}}),
            ("repeat", {"participants": "alice"}),
            ("repeat", {"duration_s": 0}),
            ("repeat", {"duration_s": float("inf")}),
            ("points", {"at_s": float("nan")}),
            ("points", {"flows": {"alice->bob": {"rtt_ms": [[1, 1e300]]}}}),
            ("points", {"flows": {"alice->bob": {"rtt_ms": [[1]]}}}),
            ("points", {"events": [[1, None, None, "joined", ""]]}),
            ("outcome", {"status": "<b>"}),
            ("outcome", {"repeat": 0.5}),
        ]
    ),
]


@pytest.mark.parametrize("damaged", DAMAGED, ids=range(len(DAMAGED)))
def test_a_damaged_line_is_skipped_on_the_page_and_in_the_run(damaged: bytes, tmp_path: Path) -> None:
    good = [{"what": what, **line} for what, line in LINE.items()]
    texts = [json.dumps(line).encode() for line in good]
    with (tmp_path / watch_file.WATCH_FILE).open("wb") as file:
        file.write(b"\n".join([damaged, *texts[:2], damaged, *texts[2:], b""]))
    expected = [{name: value for name, value in line.items() if name != "looks"} for line in good]
    found = recorded_in(tmp_path)
    assert [{name: line[name] for name in line if name != "looks"} for line in found] == expected
    with shown(tmp_path) as url:
        assert [message for _, message in events(get(url, "/events?TOKEN"))] == found
    assert recorded(tmp_path) == found


PLACES = [(what, key) for what, line in LINE.items() for key in ("what", *line)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.sampled_from(PLACES), JSON, st.binary(max_size=6), st.integers(0, 700), st.integers(0, 20))
def test_whatever_is_in_the_file_the_page_is_valid(
    place: tuple[str, str], value: Any, junk: bytes, at: int, length: int
) -> None:
    what, key = place
    lines = [{"what": name, **line} for name, line in LINE.items()]
    with TemporaryDirectory() as directory:
        file = Path(directory) / watch_file.WATCH_FILE
        wrong = [{**line, key: value} if line["what"] == what else line for line in lines]
        file.write_text("".join(f"{json.dumps(line)}\n" for line in wrong))
        assert len(lines) - 1 <= len(recorded_in(Path(directory))) <= len(lines)
        right = "".join(f"{json.dumps(line)}\n" for line in lines).encode()
        file.write_bytes(right[:at] + junk + right[at + length :])
        assert len(lines) - 3 <= len(recorded_in(Path(directory))) <= len(lines)


def test_a_file_that_cannot_be_read_is_a_clear_error(rtclab: Rtclab, run: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    copytree(run, damaged)
    (damaged / watch_file.WATCH_FILE).unlink()
    (damaged / watch_file.WATCH_FILE).mkdir()
    done = rtclab("watch", str(damaged))
    assert done.status == 2
    assert done.err == f"{damaged / watch_file.WATCH_FILE}: cannot be read or written: Is a directory\n"


def test_a_run_goes_on_if_nothing_can_be_recorded(tmp_path: Path) -> None:
    watch_file.append(tmp_path / "missing", "run")
    assert list(watch_file.lines_from(tmp_path / "missing")) == []


@pytest.mark.parametrize("people", [2, 4])
def test_flows_have_the_colours_of_the_report(people: int, tmp_path: Path) -> None:
    names = ("alice", "bob", "carol", "dave")[:people]
    text = 'name = "mesh"\nduration = "5 s"\nrepeats = 1\n[video]\n'
    (tmp_path / "mesh.toml").write_text(text + "".join(f"[participants.{name}]\n" for name in names))
    made = Experiment([Scenario.load(tmp_path / "mesh.toml")]).run(out=tmp_path, progress=False)
    looks = next(message["looks"] for _, message in messages(made.path) if message["what"] == "repeat")
    curves = {mark.look.label: mark.look for mark in run_plot(made.run, "rate").marks}
    for flow, look in looks.items():
        drawn = curves[flow.replace("->", " → ") if people == 2 else f"from {flow.partition('->')[0]}"]
        assert (look["colour"], tuple(look["dash"])) == (drawn.colour, drawn.dash), flow
    assert len(looks) == people * (people - 1)


# --- the server --------------------------------------------------------------------------------------


@contextmanager
def shown(directory: Path) -> Iterator[str]:
    """A server that shows a directory; yields the URL."""
    with Dashboard() as dashboard, dashboard.showing(directory):
        yield dashboard.url


def get(url: str, path: str, **headers: str) -> HTTPResponse:
    """The answer to a request of a path with the query of a URL."""
    parts = urlsplit(url)
    connection = HTTPConnection(parts.hostname or "", parts.port, timeout=10)
    connection.request("GET", path.replace("?TOKEN", f"?{parts.query}"), headers=headers)
    return connection.getresponse()


def events(response: HTTPResponse, last: str = "end") -> list[tuple[int | None, dict[str, Any]]]:
    """The events up to the first with this ``what``, each with its id."""
    found: list[tuple[int | None, dict[str, Any]]] = []
    known = None
    for raw in response:
        name, _, value = raw.decode().rstrip("\n").partition(": ")
        if name == "id":
            known = int(value)
        elif name == "data":
            found.append((known, json.loads(value)))
            known = None
            if found[-1][1]["what"] == last:
                return found
    raise AssertionError(f"no `{last}` in {[what for _, what in found]}")


@pytest.mark.parametrize(
    "path", ["/", "/events", "/?token=", "/events?token=wrong", "/?token=%FF", "/nothing"]
)
def test_who_does_not_know_the_token_gets_403(run: Path, path: str) -> None:
    with shown(run) as url:
        answer = get(url, path)
        assert answer.status == 403
        assert b"first-call" not in answer.read()


def test_the_token_is_another_one_every_time(run: Path) -> None:
    tokens = set()
    for _ in range(3):
        with shown(run) as url:
            tokens.add(url.rpartition("=")[2])
    assert len(tokens) == 3
    assert all(len(token) >= 20 for token in tokens)


def test_the_page_may_load_and_run_nothing_else(run: Path) -> None:
    with shown(run) as url:
        answer = get(url, "/?TOKEN")
        page = answer.read().decode()
        assert answer.status == 200
        assert get(url, "/etc/passwd?TOKEN").status == 404
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "frame-ancestors 'none'" in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert re.findall(r'(?:src|href)="(?!data:)', page) == []
    assert 'http-equiv="Content-Security-Policy"' in page


def test_a_late_page_gets_everything_and_one_that_comes_again_gets_the_rest(run: Path) -> None:
    with shown(run) as url:
        everything = events(get(url, "/events?TOKEN"))
        assert [message for _, message in everything] == [message for _, message in messages(run)]
        known = everything[2][0]
        assert events(get(url, "/events?TOKEN", **{"Last-Event-ID": str(known)})) == everything[3:]
        for unknown in ("x", "-1", "9" * 5000):
            assert events(get(url, "/events?TOKEN", **{"Last-Event-ID": unknown})) == everything


def test_a_page_gets_what_happens_when_it_happens(tmp_path: Path) -> None:
    with only_writer(tmp_path), shown(tmp_path) as url:
        answer = get(url, "/events?TOKEN")
        for number in range(3):
            new = Sampler(NOTHING).new(number * 10**9)
            watch_file.append(tmp_path, "points", condition="", repeat=0, **new)
            began_s = time.monotonic()
            assert events(answer, "points")[-1][1]["at_s"] == number
            assert time.monotonic() - began_s < SOON_S
        watch_file.append(tmp_path, "end", reason="")
        assert events(answer)


def test_the_last_lines_arrive_before_the_server_ends(tmp_path: Path) -> None:
    with Dashboard() as dashboard, dashboard.showing(tmp_path):
        answer = get(dashboard.url, "/events?TOKEN")
        watch_file.append(tmp_path, "end", reason="interrupted")
    assert events(answer)[-1][1] == {"what": "end", "reason": "interrupted"}
    with pytest.raises(ConnectionRefusedError):
        get(dashboard.url, "/?TOKEN")


def listening() -> set[str]:
    """The addresses on which this process waits for connections or datagrams, as the kernel has them."""
    inodes = set()
    for entry in Path("/proc/self/fd").iterdir():
        try:
            inodes.add(os.readlink(entry))
        except FileNotFoundError:
            continue
    found = set()
    for table in ("tcp", "tcp6", "udp", "udp6"):
        for row in Path("/proc/self/net", table).read_text().splitlines()[1:]:
            fields = row.split()
            waits = fields[3] == "0A" if table.startswith("tcp") else True
            if waits and f"socket:[{fields[9]}]" in inodes:
                found.add(f"{table} {fields[1]}")
    return found


def test_the_only_listener_is_on_the_loopback_interface_and_on_the_wanted_port(
    run: Path, tmp_path: Path
) -> None:
    before = listening()
    with Dashboard() as dashboard, dashboard.showing(run):
        port = urlsplit(dashboard.url).port
        assert listening() - before == {f"tcp 0100007F:{port:04X}"}
        with pytest.raises(BadInput, match=f"127.0.0.1:{port} cannot be used"):
            interface.run("first-call", duration="3 s", watch=port, out=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    assert listening() == before
    interface.run("first-call", duration="3 s", repeats=1, out=tmp_path, progress=False)
    assert listening() == before


def test_watching_four_people_costs_little(tmp_path: Path) -> None:
    """Seconds of a call of four are recorded, sent and read as fast as possible; then nothing happens."""
    names, seconds, idle_s = ("alice", "bob", "carol", "dave"), 30, 2
    head = f'name = "mesh"\nduration = "{seconds} s"\n[video]\n[audio]\n'
    (tmp_path / "mesh.toml").write_text(head + "".join(f"[participants.{name}]\n" for name in names))
    mesh = simulate(Scenario.load(tmp_path / "mesh.toml"))
    tables = ("outbound_rtp", "inbound_rtp", "remote_inbound_rtp", "flow_seconds", "host", "events")
    whole = {name: mesh.table(name).sort("at_ns").rows(named=True) for name in tables}
    growing: dict[str, list[Any]] = {name: [] for name in tables}
    sampler = Sampler(growing)
    with only_writer(tmp_path), shown(tmp_path) as url:
        answer = get(url, "/events?TOKEN")
        spent_s = 0.0
        for second in range(seconds):
            for name, rows in whole.items():
                growing[name] += [row for row in rows if row["at_ns"] // 10**9 == second]
            began_s = time.process_time()
            new = sampler.new(second * 10**9)
            watch_file.append(tmp_path, "points", condition="", repeat=0, **new)
            spent_s += time.process_time() - began_s
        began_s = time.process_time()
        watch_file.append(tmp_path, "end", reason="")
        assert len(events(answer)) == seconds + 1
        spent_s += time.process_time() - began_s
        began_s = time.process_time()
        time.sleep(idle_s)
        waiting = (time.process_time() - began_s) / idle_s
    assert 0 < spent_s / seconds + waiting < 0.05


# --- the page that stays -----------------------------------------------------------------------------


def test_the_page_stays_in_the_run(rtclab: Rtclab) -> None:
    short = ("run", "first-call", "--duration", "5s", "--no-report", "--quiet")
    done = rtclab(*short, "--repeats", "2", "--watch")
    assert done.status == 0
    assert re.fullmatch(r"watch: http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}\n", done.err)
    directory = Path(done.out.strip())
    assert recorded(directory) == [message for _, message in messages(directory)]
    again = rtclab(*short, "--repeats", "1")
    assert not (Path(again.out.strip()) / PAGE_FILE).exists()


def recorded(directory: Path) -> list[dict[str, Any]]:
    """The messages in the page of a run."""
    page = (directory / PAGE_FILE).read_text()
    text = re.findall(r'<script type="application/json" id="recorded">(.*?)</script>', page, re.DOTALL)
    assert len(text) == 1
    found: list[dict[str, Any]] = json.loads(text[0])
    return found


def test_names_and_details_cannot_become_markup(tmp_path: Path) -> None:
    watch_file.append(tmp_path, "run", name=ATTACK, backend="live", planned=1, finished=0)
    watch_file.append(tmp_path, "end", reason=ATTACK)
    keep_page(tmp_path)
    page = (tmp_path / PAGE_FILE).read_text()
    assert page.count("<script") == html().count("<script")
    assert [message["what"] for message in recorded(tmp_path)] == ["run", "end"]
    assert recorded(tmp_path)[1]["reason"] == ATTACK


def start(*arguments: str) -> tuple[subprocess.Popen[str], str]:
    """Starts the command in the background, and returns it with the URL that it prints."""
    command = [sys.executable, "-m", "rtclab", *arguments]
    process = subprocess.Popen(command, text=True, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("watch: "):
            return process, line.split()[1]
    raise AssertionError(f"ended with {process.wait()}")


@pytest.fixture
def long_run(tmp_path: Path) -> Iterator[Callable[..., tuple[subprocess.Popen[str], str, Path]]]:
    """Starts a run of very many repeats."""
    started = []

    def begin() -> tuple[subprocess.Popen[str], str, Path]:
        many = ("--duration", "60s", "--repeats", "5000", "--no-report", "--out", str(tmp_path))
        process, url = start("run", "first-call", "--watch", *many)
        started.append(process)
        return process, url, tmp_path / "first-call-sim-1"

    yield begin
    for process in started:
        process.kill()
        process.wait()


def test_ctrl_c_leaves_the_page_and_says_so_to_readers(long_run: Callable[..., Any]) -> None:
    process, url, directory = long_run()
    answer = get(url, "/events?TOKEN")
    assert events(answer, "outcome")[-1][1]["status"] == "finished"
    process.send_signal(signal.SIGINT)
    assert events(answer)[-1][1]["reason"] == "interrupted"
    assert process.wait(30) == 130
    assert recorded(directory)[-1] == {"what": "end", "reason": "interrupted"}


def test_another_process_can_be_watched_and_its_death_is_noticed(
    long_run: Callable[..., Any], tmp_path: Path
) -> None:
    process, _, directory = long_run()
    watcher, url = start("watch", str(directory))
    try:
        answer = get(url, "/events?TOKEN")
        assert events(answer, "outcome")
        process.kill()
        assert events(answer, "died")[-1] == (None, {"what": "died"})
        watcher.send_signal(signal.SIGINT)
        assert watcher.wait(30) == 130
    finally:
        watcher.kill()
        watcher.wait()
    assert recorded(directory)[-1] == {"what": "died"}
