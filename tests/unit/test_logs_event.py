"""RTC event logs: a call of two Chromium 156 over 1 Mbit/s and 25 ms each way, cut after 6 s.

``event_logs/`` has the logs of both ends up to their second write. What is expected was taken from the
emulator's own trace of the call: every packet's size, and when it entered and left the emulator.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rtclab.cli import main
from rtclab.errors import BadInput
from rtclab.importers.logs import open_log
from rtclab.importers.logs.event_log import EventLog, read_event_log
from rtclab.importers.logs.event_packets import send_time_offset, sent_packets
from rtclab.importers.logs.event_trace import trace_of
from rtclab.importers.logs.live import controller_rows, rows_of
from rtclab.metrics import rate
from rtclab.trace import NS_PER_MS, FlowInfo, Trace

LOGS = Path(__file__).parent / "event_logs"
ALICE, BOB = LOGS / "event-log-alice-bob.log", LOGS / "event-log-bob-alice.log"
OUT, BACK = "alice->bob", "bob->alice"
NS_PER_S = 1_000_000_000
NS_PER_DAY = 86_400 * NS_PER_S


@pytest.fixture(scope="module")
def alice() -> EventLog:
    return read_event_log(ALICE)


def rtclab(*arguments: object) -> int | str | None:
    """Runs a command and returns its exit status."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return ended.value.code


def with_tables(log: EventLog, **tables: pl.DataFrame) -> EventLog:
    return replace(log, tables=log.tables | tables)


def delays_ms(packets: pl.DataFrame, flow: str) -> pl.Series:
    of_flow = packets.filter(pl.col("flow") == flow)
    return ((of_flow["delivered_ns"] - of_flow["sent_ns"]) / NS_PER_MS).drop_nulls()


def test_packets_of_both_ends_agree_with_the_emulator() -> None:
    packets = open_log(ALICE, BOB).tables["packets"]
    sizes = dict(packets.group_by("flow").agg(pl.col("size_bytes").sum()).iter_rows())
    assert sizes == {OUT: 652_888, BACK: 566_578}  # IP packets on the wire
    assert packets["dropped_ns"].null_count() == packets.height == 655 + 575
    # The emulator has 43.50 and 66.90 ms; a packet takes part of a millisecond to and from it.
    delays = delays_ms(packets, OUT)
    assert 43.5 < delays.median() < 44.5
    assert 66.9 < delays.quantile(0.95) < 68.4
    assert 27.57 < delays.min() < 29.5


def test_one_end_knows_both_directions() -> None:
    imported = open_log(ALICE)
    packets = imported.tables["packets"]
    assert imported.manifest.participants == ("alice", "bob")
    assert imported.notes == ()
    assert packets.group_by("flow").len().sort("flow").rows() == [(OUT, 655), (BACK, 669)]
    assert packets.filter(pl.col("flow") == BACK)["size_bytes"].sum() == 660_431
    # 43.61 ms in the emulator
    assert 43.6 < delays_ms(packets, BACK).median() < 44.7
    assert set(packets["kind"]) == {"video", "padding"}
    events = imported.tables["events"]
    assert events["event"].to_list() == ["ice_connected", "dtls_connected", "probe", "probe"]
    assert events["at_ns"].to_list() == [0, 82_000_000, 82_000_000, 82_000_000]


def test_an_end_that_only_receives_has_one_direction_and_no_control_of_another(alice: EventLog) -> None:
    received = alice.tables["transport_feedback"].filter(pl.col("sent") == 1)
    sent = alice.tables["outgoing_rtp"].clear()
    for name, flow in {
        "event-log-alice-bob.log": BACK,
        "event-log-alice-core-2.log": "core->alice",
        "event_log_20260101_1.log": "remote->page",
    }.items():
        log = replace(alice, path=Path(name))
        imported = trace_of([with_tables(log, outgoing_rtp=sent, transport_feedback=received)])
        assert list(imported.manifest.flows) == [flow]
        assert set(imported.tables["packets"]["flow"]) == {flow}
        assert set(imported.tables["events"]["flow"]) == {flow}
        assert imported.tables["controller"].is_empty()


def test_the_decisions_of_the_browser_are_in_the_trace() -> None:
    controller = open_log(ALICE).tables["controller"]
    assert set(controller["participant"]) == {"alice"}
    assert set(controller["flow"]) == {OUT}
    values = {name: rows["value"].to_list() for (name,), rows in controller.group_by("name")}
    assert values["target_bps"][-1] == 832_847
    assert values["probe_rate_bps"] == [900_000, 1_800_000]
    assert values["probe_bps"] == [824_000, 906_400, 939_360, 939_075, 938_892]
    states = values["detector_state"]
    assert [states.count(state) for state in (-1, 0, 1)] == [1, 75, 2]
    assert sorted(values["in_alr"]) == [0, 1]


@pytest.mark.parametrize("keep", [16, 2_000, 19_724])
def test_a_log_that_was_cut_off_says_so(keep: int, tmp_path: Path) -> None:
    cut = tmp_path / "cut.log"
    # The history comes after the first event, so 16 bytes are the beginning of a log alone.
    cut.write_bytes(ALICE.read_bytes()[:keep])
    log = read_event_log(cut)
    assert log.tables["begin"].height == 1
    assert log.notes == () if keep == 16 else "incomplete message" in " ".join(log.notes)
    if keep == 16:
        with pytest.raises(BadInput, match="no RTP packet"):
            trace_of([log])


def test_compressed_logs_are_read_and_may_be_cut_off_too(tmp_path: Path) -> None:
    file = tmp_path / "log.gz"
    file.write_bytes(gzip.compress(ALICE.read_bytes()))
    assert read_event_log(file).notes == ()
    file.write_bytes(file.read_bytes()[:-4000])
    assert "the compressed file was cut off" in read_event_log(file).notes


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b"\x0a\x04\x08\x01\x10\x02", "version 1"),
        (b"\x80\xd6\x80\x25\x00", "version 3"),
        (b"\x00\x01\x02", "data of no known format"),
        (b"\x82\x01\x02\x10\x02", "beginning"),
    ],
)
def test_other_formats_are_named(content: bytes, message: str, tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    file.write_bytes(content)
    with pytest.raises(BadInput, match=message):
        open_log(file)


def test_damage_never_breaks_the_reader(tmp_path: Path) -> None:
    whole = np.frombuffer(ALICE.read_bytes(), np.uint8)
    random = np.random.default_rng(1)
    file = tmp_path / "damaged.log"
    for _ in range(100):
        damaged = whole.copy()
        places = random.integers(16, whole.size, 20)
        damaged[places] = random.integers(0, 256, places.size)
        file.write_bytes(damaged.tobytes())
        rows = sum(table.height for table in read_event_log(file).tables.values())
        assert rows <= 20_000 + 4 * whole.size


@pytest.mark.parametrize("magic", ["0a0d0d0a", "a1b2c3d4", "d4c3b2a1", "a1b23c4d", "4d3cb2a1"])
def test_a_capture_is_not_taken_for_an_old_log_and_the_error_says_what_reads_it(
    magic: str, tmp_path: Path
) -> None:
    capture = tmp_path / "call.pcap"
    capture.write_bytes(bytes.fromhex(magic) + bytes(100))
    with pytest.raises(BadInput) as refused:
        open_log(capture)
    assert str(refused.value).startswith(f"{capture}: a capture of packets; expected a log of a browser\n")
    for way in ("rtclab monitor", "rtclab replay`", "rtclab import"):
        assert way in str(refused.value)


def test_logs_of_different_calls_are_not_put_together() -> None:
    with pytest.raises(BadInput, match="not the two ends of one connection"):
        open_log(ALICE, ALICE)


def feedback(log: EventLog, numbers: range) -> pl.Expr:
    """The reports on packets with these transport-wide sequence numbers, counted from the first."""
    base = log.tables["outgoing_rtp"]["transport_seq"][0]
    return (pl.col("sent") == 0) & pl.col("transport_seq").is_in([(base + n) % 65_536 for n in numbers])


def test_packets_that_feedback_never_has_are_lost(alice: EventLog) -> None:
    reports = alice.tables["transport_feedback"].with_columns(
        arrival_ticks=pl.when(feedback(alice, range(100, 110))).then(None).otherwise("arrival_ticks")
    )
    packets = sent_packets(with_tables(alice, transport_feedback=reports))
    lost = packets.filter(pl.col("dropped_ns").is_not_null())
    base = packets["transport_seq"][0]
    assert sorted((lost["transport_seq"] - base) % 65_536) == list(range(100, 110))
    assert lost["delivered_ns"].null_count() == lost.height


def test_packets_whose_feedback_was_lost_count_as_arrived(alice: EventLog) -> None:
    reports = alice.tables["transport_feedback"].filter(~feedback(alice, range(100, 110)))
    imported = trace_of([with_tables(alice, transport_feedback=reports)])
    packets = imported.tables["packets"].filter(pl.col("flow") == OUT)
    assert packets["dropped_ns"].null_count() == packets.height
    assert packets["delivered_ns"].null_count() == 655 - 642  # those still under way at the end of the log
    assert "10 packets was lost" in imported.notes[0]


def test_clocks_that_differ_are_aligned_by_the_smallest_round_trip(alice: EventLog) -> None:
    days = pl.when(pl.col("sent") == 0).then(5 * NS_PER_DAY // 250_000).otherwise(0)
    reports = alice.tables["transport_feedback"].with_columns(pl.col("arrival_ticks") + days)
    imported = trace_of([with_tables(alice, transport_feedback=reports)])
    assert "clocks of the two ends differ" in imported.notes[0]
    # Each way takes at least 27.57 ms in the emulator; feedback waits up to 100 ms for its report.
    assert 27.5 < delays_ms(imported.tables["packets"], OUT).min() < 80


def test_feedback_of_rfc_8888_gives_the_same_arrivals(alice: EventLog) -> None:
    outgoing, transport = alice.tables["outgoing_rtp"], alice.tables["transport_feedback"]
    packet = outgoing.select("transport_seq", "ssrc", "seq")
    reports = transport.filter(pl.col("sent") == 0).join(packet, on="transport_seq", suffix="_of_media")
    # A report 50 ms after each arrival, on the NTP clock of the abs-send-time.
    arrival_ms = pl.col("arrival_ticks") // 4
    ntp = (arrival_ms + 50) * 65_536 // 1000 + send_time_offset(alice) // 4
    congestion = reports.select(
        *("at_ms", "sent", "ssrc", "seq"),
        report_timestamp=ntp % (1 << 32),
        media_ssrc="ssrc_of_media",
        arrival_offset_ns=pl.lit(50 * NS_PER_MS),
        ecn=pl.lit(0),
    )
    rfc8888 = with_tables(
        alice,
        outgoing_rtp=outgoing.with_columns(transport_seq=pl.lit(None, pl.Int64)),
        transport_feedback=transport.filter(pl.col("sent") == 1),
        congestion_feedback=congestion,
    )
    before, after = (sent_packets(log)["delivered_ns"] for log in (alice, rfc8888))
    assert before.null_count() == after.null_count() == 13
    # Ticks were cut to whole milliseconds above.
    assert ((before - after) / NS_PER_MS).is_between(-0.1, 1.1).all()


def test_gaps_of_a_received_stream_count_as_dropped(alice: EventLog) -> None:
    received = alice.tables["incoming_rtp"]
    gone = list(range(200, 207))
    fewer = with_tables(
        alice, incoming_rtp=received.with_row_index("n").filter(~pl.col("n").is_in(gone)).drop("n")
    )
    seconds = trace_of([fewer]).tables["flow_seconds"].filter(pl.col("flow") == BACK)
    assert seconds["dropped_packets"].sum() == 7
    assert seconds["sent_packets"].sum() == 669


def test_rows_of_a_live_call_are_on_its_clock(alice: EventLog, tmp_path: Path) -> None:
    began_ns = 699_244 * NS_PER_MS  # 2 ms before the results of the first probes
    rows = rows_of(alice, "alice", OUT, began_ns, 100 * NS_PER_MS)
    probes = rows.filter(pl.col("name") == "probe_bps")
    assert probes["at_ns"].to_list() == [2 * NS_PER_MS] * 4 + [88 * NS_PER_MS]
    assert rows["at_ns"].min() >= 0
    assert rows["at_ns"].max() < 100 * NS_PER_MS
    (tmp_path / ALICE.name).write_bytes(ALICE.read_bytes())
    (tmp_path / BOB.name).write_bytes(b"broken")
    flows = {
        name: FlowInfo(
            sender=name[: name.index("-")], receiver=name[name.index(">") + 1 :], begin_ns=0, end_ns=1
        )
        for name in (OUT, BACK)
    }
    assert controller_rows(tmp_path, flows, began_ns, 100 * NS_PER_MS).equals(rows)


def test_the_target_holds_until_the_next_one() -> None:
    rows = [(0, 100e3), (1_500_000_000, 300e3), (4_000_000_000, 0.0)]
    controller = pl.DataFrame(
        [(at_ns, "alice", OUT, "target_bps", value) for at_ns, value in rows],
        schema=["at_ns", "participant", "flow", "name", "value"],
        orient="row",
    )
    imported = open_log(ALICE)
    flow = imported.manifest.flows[OUT].model_copy(update={"begin_ns": 0, "end_ns": 3_500_000_000})
    manifest = imported.manifest.model_copy(update={"flows": {OUT: flow}})
    samples = rate.controller_target_kbps(Trace.in_memory({"controller": controller}, manifest), OUT)
    assert samples.at_s.tolist() == [0, 1, 2, 3]
    assert samples.values.tolist() == pytest.approx([100, 200, 300, 300])


def test_an_imported_log_is_measured_and_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert rtclab("import", ALICE, BOB, "--names", "anna,ben", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["run"] == "runs/import-log-1"
    assert told["flows"] == ["anna->ben", "ben->anna"]
    assert rtclab("measure", "import-log-1", "--metric", "receiving_rate", "--json") == 0
    rows = {row["flow"]: row["mean"] for row in json.loads(capsys.readouterr().out)["metrics"]}
    # 652,888 B less the 13 packets under way at the end, in 6.73 s
    assert 740 < rows["anna->ben"] < 776.6
    assert rtclab("report", "import-log-1", "--plots", "plots") == 0
    assert "target of congestion control" in (tmp_path / "plots" / "rate.svg").read_text()


def test_names_must_be_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert rtclab("import", ALICE, "--names", "anna") == 2
    assert "expected two different names" in capsys.readouterr().err
