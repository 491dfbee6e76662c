"""Captures and logs become runs by one verb, and a trace of them is measured like a run."""

from __future__ import annotations

import gzip
import html
import json
from pathlib import Path

import pytest
from captures import ALICE, BOB, MS, End, Frame, later, rtp, speech, udp, write_pcap

import rtclab
from rtclab import Trace
from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.estimate.recorded_call import read_call

LOGS = Path(__file__).parent / "event_logs"
EVENT_LOG = LOGS / "event-log-alice-bob.log"
SERVER = ("192.0.2.1", 443)
NAMES = ["alice", "bob"]
FORTH, BACK = "alice->bob", "bob->alice"


def command(*arguments: object) -> int:
    """The exit status of ``rtclab`` with these arguments."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def speech_back(count: int, at_ms: float = 0.0) -> list[Frame]:
    """PCMU packets from bob to alice."""
    return [
        (at_ns, udp(rtp(index, 160 * index, ssrc=7), BOB, ALICE))
        for index, (at_ns, _) in enumerate(speech(count, at_ms=at_ms))
    ]


def wireshark(tmp_path: Path) -> Path:
    """Four seconds of a call as alice's interface sees it, after and among packets of another program."""
    other = [(at_ms * MS, udp(b"x" * 100, ALICE, SERVER)) for at_ms in range(0, 4000, 500)]
    return write_pcap(
        tmp_path / "wireshark.pcap", sorted([*other, *speech(200, at_ms=1), *speech_back(150, 1000)])
    )


def two_points(tmp_path: Path, offset_ms: float) -> list[Path]:
    """20 s of a call at both ends: 40 ms each way, and bob's clock is ahead by ``offset_ms``."""
    forth, back = speech(1000), speech_back(1000, 5)
    near_alice, near_bob = [*forth, *later(back, 40)], [*later(forth, 40), *back]
    return [
        write_pcap(tmp_path / "alice.pcap", sorted(near_alice)),
        write_pcap(tmp_path / "bob.pcap", sorted(later(near_bob, offset_ms))),
    ]


def page_of(run: rtclab.Results) -> str:
    return html.unescape(run.report().read_text(encoding="utf-8"))


def test_a_capture_becomes_a_run_that_every_command_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    capture = wireshark(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert command("import", capture, "--names", "alice,bob", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["run"], told["flows"]) == ("runs/import-capture-1", [FORTH, BACK, "alice->192.0.2.1:443"])
    assert told["notes"] == ["358 frames"]
    assert command("measure", "import-capture-1", "--metric", "receiving_rate", "--json") == 0
    rates = {row["flow"]: row["mean"] for row in json.loads(capsys.readouterr().out)["metrics"]}
    assert rates.keys() == set(told["flows"])
    assert (rates[FORTH], rates[BACK]) == pytest.approx((80, 80))  # 200 B every 20 ms
    assert command("report", "import-capture-1") == 0
    assert command("compare", "import-capture-1", "latest") == 0


def test_the_report_of_a_capture_is_about_the_call_and_names_its_source(tmp_path: Path) -> None:
    run = rtclab.import_files(wireshark(tmp_path), names=NAMES, out=tmp_path)
    page = page_of(run)
    assert '<p class="lead good">Good both ways: 80 kbit/s, no packet was lost.</p>' in page
    assert '<p class="told">Both directions received 80 kbit/s.</p>' in page
    assert "<dd>packets between alice and bob with audio</dd>" in page
    for fact in ("wireshark.pcap", "2023-11-14 22:13:20 UTC", "358 frames"):
        assert f"<dd>{fact}</dd>" in page
    assert 'id="rate"' in page
    assert 'id="delay"' not in page
    (charted,) = {tuple(axes.title for axes in run.plot(name).axes) for name in ("rate", "target")}
    assert charted == ("alice → bob", "bob → alice")


def test_metrics_that_a_capture_does_not_know_are_absent(tmp_path: Path) -> None:
    run = rtclab.import_files(wireshark(tmp_path), names=NAMES, out=tmp_path)
    unknown = {"one_way_delay", "rtt", "frame_rate", "freeze_count", "utilisation", "queuing_delay_p95"}
    assert not unknown & set(run.metrics()["metric"])
    assert run.metrics().filter(metric="call_failures").is_empty()


@pytest.mark.parametrize("names", [["bob", "alice"], {"10.0.0.1": "bob", "10.0.0.2": "alice"}])
def test_two_names_are_those_of_the_first_rtp_packet(tmp_path: Path, names: list[str]) -> None:
    run = rtclab.import_files(wireshark(tmp_path), names=names, out=tmp_path)
    assert run.traces[0].flows == [BACK, FORTH, "bob->192.0.2.1:443"]


def test_two_names_on_one_machine_are_told_apart_by_ports(tmp_path: Path) -> None:
    here, there = ("127.0.0.1", 5004), ("127.0.0.1", 6006)
    frames = [(index * 20 * MS, udp(rtp(index, 160 * index), here, there)) for index in range(50)]
    frames += [(index * 20 * MS, udp(rtp(index, 160 * index, ssrc=7), there, here)) for index in range(50)]
    capture = write_pcap(tmp_path / "lo.pcap", sorted(frames))
    assert set(Trace.from_pcap(capture, names=NAMES).flows) == {FORTH, BACK}


def test_of_two_captures_the_first_name_is_at_the_first(tmp_path: Path) -> None:
    run = rtclab.import_files([*reversed(two_points(tmp_path, 0))], names=["bob", "alice"], out=tmp_path)
    assert set(run.traces[0].flows) == {FORTH, BACK}
    delays = run.metrics().filter(metric="one_way_delay").drop_nulls("value")["value"]
    assert delays.to_list() == pytest.approx([40, 40])


@pytest.mark.parametrize(
    ("offset_ms", "corrected", "delays_ms", "caution", "clocks"),
    [
        (
            300,
            False,
            [340, -260],
            "which is 300.0 ms, with an error of at most 40.00 ms.",
            "; not subtracted",
        ),
        (300, True, [40, 40], "", "300.0 ms, with an error of at most 40.00 ms; subtracted from the delays"),
        (10, False, [50, 30], "", "10.00 ms, with an error of at most 40.00 ms; not subtracted"),
    ],
)
def test_a_report_says_whether_delays_contain_a_difference_of_the_clocks(
    tmp_path: Path, offset_ms: float, corrected: bool, delays_ms: list[float], caution: str, clocks: str
) -> None:
    captures = two_points(tmp_path, offset_ms)
    run = rtclab.import_files(captures, names=NAMES, corrected=corrected, out=tmp_path)
    rows = run.metrics().filter(metric="one_way_delay")
    values = dict(rows.select("flow", "value").iter_rows())
    assert [values[FORTH], values[BACK]] == pytest.approx(delays_ms, abs=0.01)
    page = page_of(run)
    assert ("The one-way delays contain the difference" in page) == bool(caution)
    assert caution in page
    assert clocks in page
    axis = run.plot("delay").y
    assert axis.begin <= min(0, *delays_ms)
    assert axis.begin == 0 or min(delays_ms) < 0


LATER: dict[str, tuple[End, End]] = {
    "a new NAT binding": ((ALICE[0], 40_000), BOB),
    "another network": (("172.16.0.9", 5004), BOB),
    "another network, and another port of the other end": (("172.16.0.9", 5004), (BOB[0], 6_010)),
}


def moving(tmp_path: Path, alice: End, bob: End, moves_ms: int = 2000) -> Path:
    """Six seconds of a call, in which both ends have other addresses for two seconds from ``moves_ms`` on."""
    frames = []
    for index in range(300):
        at_ms = 20 * index
        a, b = (alice, bob) if moves_ms <= at_ms < moves_ms + 2000 else (ALICE, BOB)
        there, back = rtp(index, 160 * index), rtp(7000 + index, 160 * index, ssrc=7)
        frames += [(at_ms * MS, udp(there, a, b)), ((at_ms + 3) * MS, udp(back, b, a))]
    return write_pcap(tmp_path / "moving.pcap", frames)


@pytest.mark.parametrize("moved", LATER.values(), ids=LATER)
@pytest.mark.parametrize("by_address", [False, True])
def test_a_call_that_changes_its_addresses_is_one_call_and_says_when(
    tmp_path: Path, moved: tuple[End, End], by_address: bool
) -> None:
    capture = moving(tmp_path, *moved)
    names = {ALICE[0]: "alice", BOB[0]: "bob"} if by_address else NAMES
    trace = Trace.from_pcap(capture, names=names)
    assert list(trace.flows) == [FORTH, BACK]
    assert trace.table("packets").height == 600
    assert trace.table("flow_seconds")["dropped_packets"].sum() == 0
    expected = []
    for name, flow, at_first, moved_to in (("alice", BACK, ALICE, moved[0]), ("bob", FORTH, BOB, moved[1])):
        first, then = (f"{address}:{port}" for address, port in (at_first, moved_to))
        if first != then:
            expected += [(2000 * MS, name, flow, f"from {first} to {then}")]
            expected += [(4000 * MS, name, flow, f"from {then} to {first}")]
    events = trace.table("events")
    assert set(events["event"]) == {"route_changed"}
    assert set(events.select("at_ns", "participant", "flow", "detail").iter_rows()) == set(expected)
    assert events.height == len(expected)
    assert trace.manifest.capture is not None
    words = {f"{who} changed its address at {at / 1e9:.3f} s, {how}" for at, who, _, how in expected}
    assert words < set(trace.manifest.capture.notes_in_words)
    assert set(read_call([capture], names=names).names.values()) == set(NAMES)


def test_an_end_has_the_name_of_any_of_its_addresses(tmp_path: Path) -> None:
    capture = moving(tmp_path, ("172.16.0.9", 5004), BOB)
    trace = Trace.from_pcap(capture, names={"172.16.0.9": "alice", BOB[0]: "bob"})
    assert list(trace.flows) == [FORTH, BACK]


def test_a_call_over_two_ports_at_once_has_lost_nothing_and_changed_nothing(tmp_path: Path) -> None:
    ports = [BOB, (BOB[0], 6_010)]
    frames = [(20 * n * MS, udp(rtp(n, 160 * n), ALICE, ports[n % 3 == 0])) for n in range(300)]
    trace = Trace.from_pcap(write_pcap(tmp_path / "two.pcap", frames), names=NAMES)
    assert list(trace.flows) == [FORTH]
    assert trace.table("flow_seconds")["dropped_packets"].sum() == 0
    assert trace.table("events").is_empty()


def test_every_flow_of_an_address_has_its_own_values(tmp_path: Path) -> None:
    run = rtclab.import_files(wireshark(tmp_path), out=tmp_path)
    flows = ["10.0.0.1:5004->10.0.0.2:6006", "10.0.0.2:6006->10.0.0.1:5004", "10.0.0.1:5004->192.0.2.1:443"]
    assert run.metrics(metrics=["sending_rate"])["flow"].to_list() == flows


def test_a_capture_that_is_too_short_to_measure_says_nothing_else(tmp_path: Path) -> None:
    run = rtclab.import_files(write_pcap(tmp_path / "one.pcap", speech(1)), out=tmp_path)
    page = page_of(run)
    assert "Nothing was measured." in page
    assert "<figure" not in page


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (["call.pcap", "event.log"], [], "call.pcap is a capture and event.log is not; expected two files"),
        (["call.pcap"] * 3, [], "3 files; expected one, or two of the same call"),
        (["call.pcap"], ["--names", "alice"], "expected two different names"),
        (["call.pcap"], ["--names", "alice,b->c"], "expected names without `->`"),
        (["call.pcap"], ["--names", "10.0.0.9=carol"], "no packet from or to `carol`"),
        (["call.pcap"], ["--names", "10.0.0.1=alice,bob"], "expected a name for each address"),
        (["call.pcap"], ["--corrected"], "corrected: one capture has one clock"),
        (["event.log"], ["--corrected"], "event.log is a log"),
        (["event.log"], ["--sdp", "call.sdp"], "sdp: session descriptions are for captures"),
        (["event.log"], ["--names", "10.0.0.1=alice"], "expected two different names"),
        (["call.pcap.gz"], [], "a compressed capture; expected pcap or pcapng"),
        (["call.toml"], [], "a text of no known format; expected a log of a browser or a capture"),
        (["break.toml"], [], "a text of no known format"),
        (["empty.pcap"], [], "no packet to make a trace of"),
        (["empty.pcap"], [], "hint: the capture has no packets"),
        (["pdus.pcap"], [], "50 frames of Wireshark exported PDUs (link type 252) are not read"),
        (["none.pcap"], [], "none.pcap: cannot be read: No such file"),
    ],
)
def test_wrong_input_is_a_sentence_and_leaves_nothing(
    files: list[str],
    options: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    call = write_pcap(Path("call.pcap"), speech(50))
    Path("call.pcap.gz").write_bytes(gzip.compress(call.read_bytes()))
    Path("event.log").write_bytes(EVENT_LOG.read_bytes())
    Path("call.sdp").write_text("m=audio 9 RTP/AVP 0\n")
    Path("call.toml").write_text('name = "call"\n')
    Path("break.toml").write_text('\nname = "call"\n')
    write_pcap(Path("empty.pcap"), [])
    write_pcap(Path("pdus.pcap"), speech(50), link_type=252)
    assert command("import", *files, *options) == 2
    assert message in capsys.readouterr().err
    assert not Path("runs").exists()


def test_a_trace_is_measured_as_the_run_with_the_same_capture(tmp_path: Path) -> None:
    capture = wireshark(tmp_path)
    run = rtclab.import_files(capture, names=NAMES, out=tmp_path)
    trace = Trace.from_pcap(capture, names=NAMES)
    for window in ({}, {"begin": "1 s", "end": 3}):
        trace, run = trace.between(**window), run.between(**window)
        mine, its = trace.metrics(), run.metrics()
        assert mine.columns == its.columns
        assert mine.drop("condition").equals(its.drop("condition"))
        assert trace.summary().drop("condition").equals(run.summary().drop("condition"))
    trace, run = trace.between(), run.between()
    assert trace.plot("rate", FORTH).title == run.plot("rate", FORTH).title
    page = trace.report(tmp_path / "pages" / "trace.html").read_text(encoding="utf-8")
    assert "Both directions received 80 kbit/s." in page
    with pytest.raises(BadInput, match=r"nothing to measure from 9 s on: the run ends at 4\.0"):
        trace.between(begin=9).metrics()
    with pytest.raises(BadInput, match="no plot `rates`"):
        trace.plot("rates")


def test_a_repeat_of_a_run_is_measured_alone(tmp_path: Path) -> None:
    run = rtclab.run("first-call", duration="3 s", repeats=2, out=tmp_path, progress=False)
    second = run.traces[1].metrics()
    whole = run.metrics().filter(repeat=1)
    assert second.filter(repeat=1).equals(whole)
    assert (run.path / "report.html").exists() is False
    assert run.traces[1].report(tmp_path / "one.html").is_file()
