"""Marks and early drops: the share of a flow's packets that a queue's discipline marked or dropped."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest
from captures import MS, coded, later, speech, write_pcap
from synthetic_run import second, trace

from rtclab import Trace
from rtclab.metrics import marks

FLOW = "alice->bob"


def ecn(sent: int, arrived: int, marked: int, dropped: int) -> dict[str, int]:
    names = ("ect_packets", "ect_delivered_packets", "marked_packets", "aqm_dropped_packets")
    return dict(zip(names, (sent, arrived, marked, dropped), strict=True))


def test_marks_are_a_share_of_the_ecn_capable_packets_that_arrived() -> None:
    # Of 200 packets 100 were ECN-capable and 80 of these arrived, 12 with a mark. 5 were dropped early.
    rows = [
        second(0, packets=100, **ecn(60, 50, 10, 1)),
        second(1, packets=100, **ecn(40, 30, 2, 4)),
    ]
    made = trace(flow_seconds=rows)
    assert marks.ce_share(made, FLOW) == pytest.approx(100 * 12 / 80)
    assert marks.aqm_drop_share(made, FLOW) == pytest.approx(100 * 5 / 200)
    assert marks.ce_share(made.within((1, 2)), FLOW) == pytest.approx(100 * 2 / 30)
    assert marks.aqm_drop_share(made.within((1, 2)), FLOW) == pytest.approx(4)


def test_zero_is_known_to_be_zero_and_unknown_has_no_value() -> None:
    none = trace(flow_seconds=[second(0, packets=100, **ecn(100, 100, 0, 0))])
    assert (marks.ce_share(none, FLOW), marks.aqm_drop_share(none, FLOW)) == (0, 0)
    # Nothing could be marked.
    not_capable = trace(flow_seconds=[second(0, packets=100, **ecn(0, 0, 0, 0))])
    assert isnan(marks.ce_share(not_capable, FLOW))
    assert marks.aqm_drop_share(not_capable, FLOW) == 0
    unknown = trace(flow_seconds=[second(0, packets=100)])
    assert isnan(marks.ce_share(unknown, FLOW))
    assert isnan(marks.aqm_drop_share(unknown, FLOW))


def test_captures_know_marks_by_the_codepoints_and_no_drops_of_disciplines(tmp_path: Path) -> None:
    # A hundred packets with ECT(1). 25 of them arrive with CE.
    sent = coded(speech(100), 1)
    arrived = coded(later(sent, 50), 3, every=4)
    a, b = write_pcap(tmp_path / "a.pcap", sent), write_pcap(tmp_path / "b.pcap", arrived)
    names = {"10.0.0.1": "alice", "10.0.0.2": "bob"}
    two = Trace.from_pcap(a, b, names=names)
    assert two.table("packets")["ecn"].to_list() == ["ect1"] * 100
    assert two.table("packets")["mark_path"].null_count() == 100
    assert two.table("flow_seconds")["ect_packets"].sum() == 100
    assert marks.ce_share(two, FLOW) == pytest.approx(25)
    assert isnan(marks.aqm_drop_share(two, FLOW))
    # At the last point alone the marked packets are those with CE; at the first none is marked yet.
    assert marks.ce_share(Trace.from_pcap(b, names=names), FLOW) == pytest.approx(25)
    assert marks.ce_share(Trace.from_pcap(a, names=names), FLOW) == 0
    seconds = two.table("flow_seconds").filter(at_ns=0)
    # 50 ms after they were sent, the packets of the first 950 ms have arrived in the first second.
    assert seconds["ect_delivered_packets"].to_list() == [int(950 * MS / (20 * MS)) + 1]


def test_a_codepoint_that_appears_on_the_way_is_no_mark(tmp_path: Path) -> None:
    sent = speech(100)
    a = write_pcap(tmp_path / "a.pcap", sent)
    b = write_pcap(tmp_path / "b.pcap", coded(later(sent, 50), 3))
    assert isnan(marks.ce_share(Trace.from_pcap(a, b), "10.0.0.1:5004->10.0.0.2:6006"))
