"""Rates on the wire and in getStats, of streams whose bytes are known."""

from __future__ import annotations

from typing import Any

import pytest
from synthetic_run import NS_PER_S, frame, report, second, trace, write_run

from rtclab.metrics import rate, wire
from rtclab.report import run_plot, write_report

MEDIA_BYTES, HEADER_BYTES, BELOW_RTP_BYTES = 944, 20, 44  # IPv4 20, UDP 8, SRTP tag 16
PACKETS_PER_S = 50


def packet(at_s: float, kind: str = "video", size_bytes: int = 1008, protocol: str = "rtp") -> dict[str, Any]:
    at_ns = int(at_s * NS_PER_S)
    return {
        "sent_ns": at_ns - 1000,
        "delivered_ns": at_ns,
        "size_bytes": size_bytes,
        "protocol": protocol,
        "kind": kind,
        "ssrc": 1 if kind == "video" else 2,
    }


def call(**more: Any) -> dict[str, Any]:
    """Ten seconds of 50 packets of 1008 bytes, each followed by a padding packet of 252 bytes."""
    moments = [(index + 0.5) / PACKETS_PER_S for index in range(10 * PACKETS_PER_S)]
    packets = [packet(at) for at in moments] + [packet(at, "padding", 252) for at in moments]
    reports = [
        report(
            at,
            bytesReceived=at * PACKETS_PER_S * MEDIA_BYTES,
            headerBytesReceived=at * PACKETS_PER_S * HEADER_BYTES,
        )
        for at in range(1, 11)
    ]
    return {
        "packets": packets,
        "inbound_rtp": reports,
        "flow_seconds": [second(at, 100) for at in range(10)],
    } | more


def test_the_difference_between_wire_and_getstats_is_headers_and_padding() -> None:
    (rates,) = wire.stream_rates(trace(**call()), ["alice->bob"])
    assert (rates.flow, rates.kind) == ("alice->bob", "video")
    assert rates.wire == pytest.approx(50 * 1260 * 8 / 1000)  # 504 kbit/s
    assert rates.repair == pytest.approx(50 * 252 * 8 / 1000)
    assert rates.stats == pytest.approx(50 * 964 * 8 / 1000)
    # Of two packets, one has media and 44 bytes below RTP, and one is padding of 252 bytes.
    assert rates.difference_bytes == pytest.approx((BELOW_RTP_BYTES + 252) / 2)


def test_the_rates_of_getstats_are_metrics_of_headers_and_payload() -> None:
    sent = [report(at, bytesSent=at * 900, headerBytesSent=at * 100) for at in range(1, 4)]
    # Bob reports until the end; alice's last report is her third.
    made = trace(spans_s={"alice->bob": (0, 10)}, **call(outbound_rtp=sent))
    assert wire.stats_receiving_rate(made, "alice->bob") == pytest.approx(385.6)
    assert wire.stats_sending_rate(made, "alice->bob") == pytest.approx(8.0 * 3 / 10)
    assert wire.stats_received_kbps(made, "alice->bob").values.tolist() == pytest.approx([385.6] * 10)


def test_the_wire_counts_only_rtp_and_nothing_after_the_last_second() -> None:
    made = call()
    made["packets"] += [packet(3.5, protocol="stun"), packet(10.5)]
    rate = wire.wire_received_kbps(trace(**made), "alice->bob", kind="video")
    assert rate.at_s.tolist() == [at + 0.5 for at in range(10)]
    assert rate.values.tolist() == pytest.approx([504.0] * 10)


def test_padding_belongs_to_video_and_not_to_audio() -> None:
    made = trace(**call())
    assert wire.wire_received_kbps(made, "alice->bob", kind="audio").values.size == 0


def test_without_packets_there_is_no_wire_to_compare_with() -> None:
    made = call()
    del made["packets"]
    assert wire.stream_rates(trace(**made), ["alice->bob"]) == []
    assert wire.wire_received_kbps(trace(**made), "alice->bob").values.size == 0


def test_one_report_gives_no_rate() -> None:
    made = call()
    assert wire.stream_rates(trace(**(made | {"inbound_rtp": made["inbound_rtp"][:1]})), ["alice->bob"]) == []


def test_the_report_shows_both_rates_of_a_stream_and_their_difference(tmp_path: Any) -> None:
    tables = {name: frame(name, rows) for name, rows in call().items()}
    run = write_run(tmp_path, [tables], flows={"alice->bob": []})
    page = write_report(run).read_text(encoding="utf-8")
    section = page[page.index("On the wire and in getStats") :]
    for shown in ("504", "385.6", "118.4", "148"):
        assert f">{shown}" in section or f"{shown}\n" in section, shown
    (panel,) = run_plot(run, "wire-and-stats").axes
    assert panel.title == "alice → bob, video"
    assert [mark.look.label for mark in panel.marks] == ["alice → bob", "getStats"]


def test_the_target_of_a_flow_is_the_sum_over_its_streams() -> None:
    rows = [report(at, ssrc, targetBitrate=bps) for at in (1, 2) for ssrc, bps in ((1, 600e3), (2, 40e3))]
    assert rate.target_kbps(trace(outbound_rtp=rows), "alice->bob").values.tolist() == [640, 640]
    assert rate.target_kbps(trace(outbound_rtp=rows).within((2, 3)), "alice->bob").at_s.tolist() == [2]
