"""The tables that the live backend makes from the emulator's log and the reports of pages."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from captures import speech, write_pcap

from rtclab.backend.backends import manifest, paths_table
from rtclab.backend.live.connections import live_connections
from rtclab.backend.live.records.packet_flows import FlowKeys, assign_flows, join_relay_legs
from rtclab.backend.live.records.recorder import Recorder
from rtclab.backend.live.records.trace_writer import (
    CAPTURE,
    LOGGED,
    as_seen,
    hides_fec,
    lateness_of,
    packet_log,
    packets_table,
    with_queues,
    write_trace,
)
from rtclab.scenario import Scenario
from rtclab.trace import (
    SCHEMAS,
    FlowInfo,
    NotConnected,
    delay_histogram_table,
    flow_seconds_table,
    queuing_histogram_table,
    with_fec,
)

MS = 10**6
SECOND = 10**9
FLOWS = ["alice->bob", "bob->alice"]
CONNECTIONS = {one.number: one for one in live_connections(Scenario.load("first-call"))}


def there(flows: list[str], begin_ns: int = 0, end_ns: int = 2 * SECOND) -> dict[str, FlowInfo]:
    """Flows that were active from begin to end."""
    return {
        flow: FlowInfo(
            sender=flow.partition("->")[0],
            receiver=flow.partition("->")[2],
            begin_ns=begin_ns,
            end_ns=end_ns,
        )
        for flow in flows
    }


def summary(**columns: list[int]) -> dict[str, Any]:
    """The emulator's record with the given columns, and -1 in all others."""
    names = ["sent_ns", "delivered_ns", "queued_ns", "dropped_ns", "written_ns", "drop_cause", "drop_path"]
    names += [
        "ecn",
        "mark_path",
        "mark_cause",
        "from",
        "to",
        "size_bytes",
        "protocol",
        "ssrc",
        "payload_type",
        "seq",
        "rtp_timestamp",
        "marker",
    ]
    rows = len(columns["sent_ns"])
    return {
        "packets": {name: np.array(columns.get(name, [-1] * rows)) for name in names},
        "hops": {name: np.array([], np.int64) for name in ("packet", "path", "queued_ns")},
        "names": {
            "nodes": ["alice", "bob", "core"],
            "paths": ["alice.up", "bob.up"],
            "protocols": ["rtp", "rtcp", "stun", "dtls", "other"],
            "drop_causes": ["queue", "loss", "aqm"],
            "ecn": ["not-ect", "ect1", "ect0", "ce"],
            "mark_causes": ["classic", "threshold", "coupled"],
        },
        "lateness": {"count": 4, "p50_ns": 0, "p99_ns": 0, "max_ns": 0, "bound_ns": 5 * MS, "over_bound": 1},
        "counters": {"no_route": 0},
    }


def packets(*rows: tuple[int, int | None, int | None]) -> pl.DataFrame:
    """Packets of 1000 bytes and unknown kind from alice to bob: sent, delivered, dropped, in ms."""
    columns = ["sent_ns", "delivered_ns", "dropped_ns"]
    frame = pl.DataFrame(rows, schema=dict.fromkeys(columns, pl.Int64), orient="row")
    of_all = {"flow": pl.lit("alice->bob"), "size_bytes": pl.lit(1000), "kind": pl.lit(None, pl.String)}
    return frame.with_columns(pl.col(columns) * MS, **of_all)


def test_codes_of_the_emulator_become_names_and_minus_one_becomes_null() -> None:
    log = packet_log(
        summary(
            **{"from": [0, 1], "to": [1, 0]},
            sent_ns=[5, 6],
            delivered_ns=[7, -1],
            dropped_ns=[-1, 8],
            drop_cause=[-1, 1],
            drop_path=[-1, 1],
            size_bytes=[100, 200],
            protocol=[0, 2],
            marker=[1, -1],
        )
    )
    assert log.select(
        "from", "to", "protocol", "drop_cause", "drop_path", "delivered_ns", "marker"
    ).rows() == [
        ("alice", "bob", "rtp", None, None, 7, True),
        ("bob", "alice", "stun", "loss", "bob.up", None, None),
    ]


def test_codepoints_and_marks_of_the_emulator_become_names() -> None:
    log = packet_log(
        summary(
            **{"from": [0, 0], "to": [1, 1]},
            sent_ns=[5, 6],
            size_bytes=[100, 100],
            protocol=[0, 0],
            ecn=[1, 2],
            mark_path=[1, -1],
            mark_cause=[2, -1],
        )
    )
    names = ["ecn", "mark_path", "mark_cause"]
    assert log.select(names).rows() == [("ect1", "bob.up", "coupled"), ("ect0", None, None)]
    packets = packets_table(of_the_call(log), FLOWS, {}, SECOND)
    assert packets.select(names).rows() == log.select(names).rows()


def seconds_of(**columns: list[Any]) -> dict[str, Any]:
    """The only second of a flow with these packets. ``sent_ns`` says when they are sent."""
    count = len(next(iter(columns.values())))
    none = [None] * count
    known = {"sent_ns": [0] * count, "delivered_ns": none, "dropped_ns": none, "drop_cause": none} | columns
    types = {"delivered_ns": pl.Int64, "dropped_ns": pl.Int64, "drop_cause": pl.String}
    of_all = {"flow": pl.lit("alice->bob"), "size_bytes": pl.lit(1000), "kind": pl.lit(None, pl.String)}
    made = pl.DataFrame(known, schema_overrides=types).with_columns(**of_all)
    return flow_seconds_table(made, there(["alice->bob"]), SECOND, set()).row(0, named=True)


def test_seconds_count_codepoints_marks_and_drops_of_disciplines() -> None:
    of = seconds_of(
        ecn=["ect1", "ect1", "ect0", "not-ect", "ce", "ect1"],
        delivered_ns=[1, 1, None, 1, 1, None],
        dropped_ns=[None, None, 2, None, None, 2],
        drop_cause=[None, None, "aqm", None, None, "queue"],
        mark_path=["alice.up", None, None, None, None, None],
    )
    names = ["ect_packets", "ect_delivered_packets", "marked_packets", "aqm_dropped_packets"]
    assert [of[name] for name in names] == [5, 3, 1, 1]


def test_what_is_not_known_of_every_packet_is_null_and_zero_is_known_to_be_zero() -> None:
    names = ["ect_packets", "ect_delivered_packets", "marked_packets", "aqm_dropped_packets"]
    nothing = {"mark_path": pl.Series([None, None], dtype=pl.String), "delivered_ns": [1, 1]}
    assert [seconds_of(ecn=["not-ect"] * 2, **nothing)[name] for name in names] == [0, 0, 0, 0]
    # One packet of unknown codepoint was delivered; nothing was dropped, so nothing by a discipline.
    assert [seconds_of(ecn=["ect1", None], **nothing)[name] for name in names] == [None, None, 0, 0]
    # An import knows neither marks nor causes of drops.
    unknown = seconds_of(delivered_ns=[1, None], dropped_ns=[None, 2])
    assert [unknown[name] for name in names] == [None] * 4


def of_the_call(log: pl.DataFrame) -> pl.DataFrame:
    """The packets of a log that belong to the call of two, by the nodes alone."""
    missing = {name: pl.lit(None, pl.Int64) for name in ("from_port", "to_port") if name not in log.columns}
    without_ports = log.with_columns(**missing)
    return join_relay_legs(assign_flows(without_ports, FlowKeys(CONNECTIONS, set(), {}, {}, {})))


def test_packets_are_those_between_participants_that_were_sent_during_the_run() -> None:
    log = packet_log(
        summary(
            **{"from": [0, 0, 2, 1, 0], "to": [1, 2, 0, 0, 1]},
            sent_ns=[0, 1, 2, SECOND - 1, SECOND],
            size_bytes=[10, 11, 12, 13, 14],
            protocol=[0] * 5,
        )
    )
    table = packets_table(of_the_call(log), FLOWS, {}, SECOND)
    assert table.drop("logged").schema == {name: SCHEMAS["packets"][name] for name in LOGGED}
    assert table.select("flow", "size_bytes").rows() == [("alice->bob", 10), ("bob->alice", 13)]


def test_a_delivered_packet_waited_in_the_queues_of_all_the_rows_that_it_has() -> None:
    hops = {"packet": [0, 1, 2, 3], "path": [0, 1, 0, 1], "queued_ns": [5, 6, 7, 8]}
    log = summary(sent_ns=[0]) | {"hops": {name: np.array(values) for name, values in hops.items()}}
    # A copy with the rows 0 and 1, one of the same original that was dropped, one of a leg, and one without.
    rows = [("a->b", 11, [0, 1]), ("a->c", None, [0, 2]), ("a->b", 8, [3]), ("a->b", 0, [4])]
    columns = ["flow", "queued_ns", "logged"]
    known, others = with_queues(pl.DataFrame(rows, schema=columns, orient="row"), log)
    assert others.rows() == [("a->b", 0, "alice.up", 5)]
    paths = [(0, "bob.up"), (1, None), (2, "bob.up"), (3, None)]
    assert known.select("packet", "queued_path").rows() == paths


def test_the_kind_of_a_packet_comes_from_the_session_description_of_its_own_connection() -> None:
    recorder = Recorder(CONNECTIONS, 0)
    codecs, kinds = {"96": "VP8", "97": "rtx", "111": "opus"}, {"96": "video", "97": "video", "111": "audio"}
    recorder.add_payload_types({"number": 0, "codecs": codecs, "kinds": kinds})
    log = packet_log(
        summary(
            **{"from": [0, 0, 1, 1], "to": [1, 1, 0, 0]},
            sent_ns=[0, 1, 2, 3],
            size_bytes=[10] * 4,
            protocol=[0, 0, 0, 1],
            payload_type=[96, 97, 111, -1],
        )
    )
    kinds_found = packets_table(of_the_call(log), FLOWS, recorder.payload_kinds, SECOND)["kind"].to_list()
    assert kinds_found == ["video", "rtx", "audio", None]


def test_a_packet_counts_in_the_seconds_in_which_it_is_sent_delivered_and_dropped() -> None:
    sent = packets((900, 950, None), (990, 1090, None), (1500, None, 1500), (1900, 2100, None))
    table = flow_seconds_table(sent, there(FLOWS), 2 * SECOND, ())
    assert table.schema == SCHEMAS["flow_seconds"]
    assert table.filter(flow="alice->bob").drop("flow").rows() == [
        (0, 2, 2000, 1, 1000, 0, *[None] * 8, 50.0, 50.0, 50.0),
        (SECOND, 2, 2000, 1, 1000, 1, *[None] * 8, 100.0, 100.0, 100.0),
    ]


def test_first_transmissions_of_media_and_fec_are_counted_separately_if_kinds_are_known() -> None:
    sent = packets((0, 25, None), (1, None, 1), (2, 27, None), (3, None, 3), (4, 29, None))
    sent = sent.with_columns(kind=pl.Series(["video", "audio", "rtx", "fec", None]))
    table = flow_seconds_table(sent, there(["alice->bob"]), SECOND, ())
    assert table.select(pl.col("^(media|fec)_.*$")).rows() == [(2, 1, 1, 1)]
    hidden = flow_seconds_table(sent, there(["alice->bob"]), SECOND, {"alice->bob"})
    assert hidden.select(pl.col("^(media|fec)_.*$")).rows() == [(2, 1, None, None)]


def test_fec_may_be_hidden_only_where_the_codec_of_video_is_unknown() -> None:
    recorder = Recorder(CONNECTIONS, 0)
    codecs = {"96": "VP8", "118": "red", "111": "opus"}
    kinds = {"96": "video", "118": "video", "111": "audio"}
    recorder.add_payload_types({"number": 0, "codecs": codecs, "kinds": kinds})
    assert recorder.red == {(flow, 118) for flow in FLOWS}

    def hidden(kind: str, payload_type: int) -> set[str]:
        sent = packets((0, 25, None)).with_columns(kind=pl.lit(kind), payload_type=pl.lit(payload_type))
        return hides_fec(sent, recorder.payload_kinds)

    assert hidden("video", 96) == hidden("video", 118) == hidden("audio", 111) == hidden("rtx", 99) == set()
    assert hidden("video", 100) == {"alice->bob"}


def in_red(*rows: tuple[int, int, bool], payload_type: int = 118) -> pl.DataFrame:
    """Packets of video: sequence number, timestamp, marker."""
    schema = {"seq": pl.Int64, "rtp_timestamp": pl.Int64, "marker": pl.Boolean}
    of_all = {"flow": pl.lit("alice->bob"), "kind": pl.lit("video"), "ssrc": pl.lit(7, pl.Int64)}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        **of_all, payload_type=pl.lit(payload_type).cast(SCHEMAS["packets"]["payload_type"])
    )


RED = {("alice->bob", 118), ("bob->alice", 118)}


def test_fec_in_red_follows_the_last_packet_of_its_frame() -> None:
    # The FEC of frame 1 waits in the pacer behind a packet of frame 2. Numbers wrap after 65535.
    rows = [(65_534, 1, False), (65_535, 1, True), (0, 2, False), (1, 1, False), (2, 2, True), (3, 2, False)]
    assert with_fec(in_red(*rows), RED)["kind"].to_list() == ["video"] * 3 + ["fec", "video", "fec"]
    # A packet of media that is sent again keeps its sequence number.
    again = with_fec(in_red((8, 1, False), (9, 1, True), (8, 1, False)), RED)
    assert again["kind"].to_list() == ["video"] * 3
    # Without RED, packets behind the last one of a frame are padding.
    assert set(with_fec(in_red(*rows, payload_type=96), RED)["kind"]) == {"video"}
    assert set(with_fec(in_red(*rows), ())["kind"]) == {"video"}


def test_headers_tell_all_fec_of_an_unencrypted_call_from_media() -> None:
    """Packets of Chromium 156 in a call without encryption, with the block of each packet of RED.

    They are ten seconds of alice's video in the random condition 9, which loses packets in bursts.
    """
    sent = pl.read_csv(Path(__file__).parent / "red-of-chromium-156.csv")
    rows = sent.select("seq", "rtp_timestamp", pl.col("marker") == 1).rows()
    told = with_fec(in_red(*rows), RED)["kind"] == "fec"
    assert told.to_list() == (sent["block"] == "ulpfec").to_list()
    assert 300 < told.sum() < len(sent) / 2


def test_a_flow_without_packets_has_a_row_of_zeros_in_every_second() -> None:
    table = flow_seconds_table(packets((0, 25, None)), there(FLOWS), 2 * SECOND, ())
    assert table.filter(flow="bob->alice").drop("flow").rows() == [
        (0, *[0] * 5, *[None] * 11),
        (SECOND, *[0] * 5, *[None] * 11),
    ]


def test_packets_after_the_end_of_a_flow_are_left_out() -> None:
    sent = packets((900, 950, None), (990, 1090, None), (1500, None, 1500))
    table = flow_seconds_table(sent, there(["alice->bob"], end_ns=1_050 * MS), 2 * SECOND, ())
    counted = table.select("sent_packets", "delivered_packets", "dropped_packets")
    assert counted.rows() == [(2, 1, 0), (0, 0, 0)]
    histogram = delay_histogram_table(sent, there(["alice->bob"], end_ns=1_050 * MS))
    assert histogram.rows() == [("alice->bob", 50.0, 1)]


def test_a_live_flow_lasts_from_its_first_packet_until_someone_leaves() -> None:
    planned = there(FLOWS, begin_ns=0, end_ns=10 * SECOND)
    sent = packets((300, 350, None), (200, None, 200))
    flows = as_seen(planned, sent, {"carol": 1 * SECOND}, ended_ns=11 * SECOND)
    assert (flows["alice->bob"].begin_ns, flows["alice->bob"].end_ns) == (200 * MS, 10 * SECOND)
    # Without packets it begins as planned.
    assert (flows["bob->alice"].begin_ns, flows["bob->alice"].end_ns) == (0, 10 * SECOND)
    left = as_seen(planned, sent, {"bob": 4 * SECOND}, ended_ns=11 * SECOND)
    assert {flow.end_ns for flow in left.values()} == {4 * SECOND}
    broken = as_seen(planned, sent, {}, ended_ns=3 * SECOND)
    assert {flow.end_ns for flow in broken.values()} == {3 * SECOND}


def test_frames_belong_to_the_stream_that_is_shown_and_are_added_once() -> None:
    recorder = Recorder(CONNECTIONS, run_began_ms=0)
    common = {"type": "inbound-rtp", "kind": "video", "packetsReceived": 5, "packetsLost": 0}
    common |= {"bytesReceived": 6, "headerBytesReceived": 1, "jitter": 0.002}
    # Stream 7 is shown, and then stream 8 instead. The last report has no newly decoded frame.
    for at_ms, decoded_7, decoded_8 in ((1000, 30, 0), (2000, 31, 29), (3000, 31, 29)):
        streams = [common | {"ssrc": 7, "framesDecoded": decoded_7}]
        streams += [common | {"ssrc": 8, "framesDecoded": decoded_8}]
        frames = [[at_ms * 90, None, None, at_ms, 640, 480, 1.5, None]]
        message = {"number": 0, "at_ms": at_ms, "reports": streams, "frames": frames}
        recorder.add_stats("alice", message)
    assert recorder.table("frames").select("ssrc", "rendered_ns").rows() == [
        (7, 1000 * MS),
        (8, 2000 * MS),
        (8, 3000 * MS),
    ]


def test_the_delay_histogram_counts_delivered_packets_by_the_lower_edge_of_their_bin() -> None:
    frame = packets((0, None, 0), (0, 25, None)).vstack(
        # 25.04 ms and 25.1 ms: one below the next edge and one on it.
        packets((0, 0, None), (0, 0, None)).with_columns(delivered_ns=pl.Series([25_040_000, 25_100_000]))
    )
    table = delay_histogram_table(frame, there(FLOWS))
    assert table.schema == SCHEMAS["delay_histogram"]
    assert table.rows() == [("alice->bob", 25.0, 2), ("alice->bob", 25.1, 1)]


def test_the_queuing_histogram_counts_delivered_packets_whose_queuing_delay_is_known() -> None:
    frame = packets((0, 25, None), (0, 26, None), (0, None, 3), (0, 27, None))
    waited = frame.with_columns(queued_ns=pl.Series([0, 60_000, None, 1_250_000]))
    table = queuing_histogram_table(waited, there(FLOWS))
    assert table.schema == SCHEMAS["queuing_histogram"]
    assert table.rows() == [("alice->bob", 0.0, 2), ("alice->bob", 1.2, 1)]


def test_received_streams_belong_to_the_flow_from_the_peer_and_sent_ones_to_the_flow_to_it() -> None:
    recorder = Recorder(CONNECTIONS, run_began_ms=1_000_000)
    pair = {"bytesSent": 1, "bytesReceived": 2, "packetsSent": 3, "packetsReceived": 4}
    reports = [
        {"type": "inbound-rtp", "kind": "video", "ssrc": 7, "packetsReceived": 5, "packetsLost": 0}
        | {"bytesReceived": 6, "headerBytesReceived": 1, "jitter": 0.002},
        {"type": "candidate-pair", "availableOutgoingBitrate": 5e5, **pair},
        {"type": "remote-inbound-rtp", "kind": "video", "ssrc": 8, "packetsLost": 0, "jitter": 0.0},
    ]
    frames = [[90_000, None, 1_000_010, 1_000_030, 640, 480, 1.5, None]]
    recorder.add_stats("alice", {"number": 0, "at_ms": 1_002_000.5, "reports": reports, "frames": frames})
    assert recorder.table("inbound_rtp").select("at_ns", "participant", "flow", "ssrc").rows() == [
        (2_000_500_000, "alice", "bob->alice", 7)
    ]
    assert recorder.table("remote_inbound_rtp")["flow"].to_list() == ["alice->bob"]
    assert recorder.table("candidate_pair")["flow"].to_list() == ["alice->bob"]
    assert recorder.table("controller").select("name", "value").rows() == [
        ("available_outgoing_bitrate_bps", 500_000.0)
    ]
    assert recorder.table("frames").rows() == [
        ("bob->alice", 7, 90_000, None, 10 * MS, 30 * MS, None, None, 1.5 * MS, None, 640, 480, None)
    ]


@pytest.mark.parametrize(("server", "captured_ns"), [(None, 5 * MS), ("mixer", None)])
def test_when_a_picture_was_taken_is_unknown_behind_a_server_that_composes(
    server: str | None, captured_ns: int | None
) -> None:
    connections = {0: replace(CONNECTIONS[0], server=server)}
    recorder = Recorder(connections, run_began_ms=1_000_000)
    stream = {"type": "inbound-rtp", "kind": "video", "ssrc": 7, "packetsReceived": 5, "packetsLost": 0}
    stream |= {"bytesReceived": 6, "headerBytesReceived": 1, "jitter": 0.002}
    frames = [[90_000, 1_000_005, 1_000_010, 1_000_030, 640, 480, 1.5, None]]
    recorder.add_stats("alice", {"number": 0, "at_ms": 1_002_000, "reports": [stream], "frames": frames})
    assert recorder.table("frames").select("captured_ns", "rendered_ns").rows() == [(captured_ns, 30 * MS)]


@pytest.mark.parametrize(("p99_ns", "late"), [(5 * MS, False), (5 * MS + 1, True)])
def test_a_run_is_late_when_one_packet_in_a_hundred_exceeds_the_bound(p99_ns: int, late: bool) -> None:
    recorded = summary(sent_ns=[])
    recorded["lateness"]["p99_ns"] = p99_ns
    assert lateness_of(recorded).late is late
    assert lateness_of(recorded).over_bound_ratio == 0.25


def test_a_report_that_the_browser_repeats_is_kept_once_together_with_its_new_frames() -> None:
    recorder = Recorder(CONNECTIONS, run_began_ms=0)
    stream = {"type": "inbound-rtp", "kind": "video", "ssrc": 7, "packetsReceived": 5, "packetsLost": 0}
    stream |= {"bytesReceived": 6, "headerBytesReceived": 1, "jitter": 0.002}
    for rendered_ms in (100, 140):
        frames = [[rendered_ms * 90, None, None, rendered_ms, 640, 480, 1.5, None]]
        recorder.add_stats("alice", {"number": 0, "at_ms": 1000, "reports": [stream], "frames": frames})
    assert recorder.table("inbound_rtp").height == 1
    assert recorder.table("frames")["rendered_ns"].to_list() == [100 * MS, 140 * MS]


def test_the_trace_of_a_live_call_has_its_flows_its_lateness_and_the_pairs_not_connected(
    tmp_path: Path,
) -> None:
    scenario = Scenario.load("first-call", {"duration": "4 s"})
    planned = manifest(scenario, backend="live", seed=1, repeat=0, browser="Chromium 156")
    recorder = Recorder(CONNECTIONS, run_began_ms=0)
    recorder.add_event(3 * SECOND, "alice", "left")
    recorded = summary(
        **{"from": [0, 0], "to": [1, 1]},
        sent_ns=[SECOND, 2 * SECOND],
        delivered_ns=[SECOND + 50 * MS, 3 * SECOND],
        size_bytes=[100, 100],
        protocol=[0, 0],
    )
    write_pcap(tmp_path / CAPTURE, speech(2))
    missing = NotConnected(a="bob", b="carol", call=0, within_ns=4 * SECOND)
    made = write_trace(
        tmp_path,
        planned,
        recorder,
        recorded | {"epoch_ns": 0},
        {"10.77.0.2": "alice", "10.77.0.3": "bob"},
        paths=paths_table(scenario).to_dict(as_series=False),
        keep_packets=True,
        capture=tmp_path / CAPTURE,
        port_flows={},
        failure=None,
        not_connected=[missing],
        ended_ns=5 * SECOND,
    )
    about = made.manifest
    assert (about.flows["alice->bob"].begin_ns, about.flows["alice->bob"].end_ns) == (SECOND, 3 * SECOND)
    assert about.flows["alice->bob"].route == ("alice.up", "bob.down")
    assert (about.browser, about.not_connected, about.late) == ("Chromium 156", (missing,), False)
    assert about.emulator == {"no_route": 0}
    # The packet that arrives when alice leaves is in the packets, but no metric counts it.
    assert made.table("packets")["delivered_ns"].count() == 2
    assert int(made.rows_of_flow("flow_seconds", "alice->bob")["delivered_packets"].sum()) == 1
