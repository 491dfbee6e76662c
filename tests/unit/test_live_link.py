"""What `rtclab link` says about what passed, from a log of the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtclab.backend.live.link import _direction, protocols_of, summary_text, traffic

MS = 1_000_000
NONE = -1
NODES = ["client", "core"]
PROTOCOLS = ["rtp", "rtcp", "stun", "dtls", "other"]
RTP, RTCP, OTHER = 0, 1, 4
QUEUE, LOSS, AQM = 0, 1, 2


def summary() -> dict[str, Any]:
    """Eight packets up, of 1000 B, every 10 ms, and nothing down.

    Five arrive after 20 to 60 ms, one is dropped, one is lost, and the last is on the way at the end. The
    fourth, fifth and sixth are not RTP.
    """
    count = 8
    sent_ns = np.arange(count) * 10 * MS
    delays_ms = np.array([20, 30, 40, NONE, 50, 60, NONE, NONE])
    columns = {
        "sent_ns": sent_ns,
        "delivered_ns": np.where(delays_ms == NONE, NONE, sent_ns + delays_ms * MS),
        "drop_cause": np.array([NONE, NONE, NONE, QUEUE, NONE, NONE, LOSS, NONE]),
        "from": np.zeros(count, dtype=int),
        "to": np.ones(count, dtype=int),
        "ssrc": np.array([7, 7, 7, NONE, NONE, NONE, 7, 7]),
        "seq": np.array([65534, 65535, 0, NONE, NONE, NONE, 1, 2]),
        "size_bytes": np.full(count, 1000),
        "protocol": np.array([RTP, RTP, RTP, OTHER, OTHER, OTHER, RTP, RTP]),
        "ecn": np.array([1, 1, 2, 2, 0, 0, 1, 1]),
        "mark_cause": np.array([NONE, 2, 0, NONE, NONE, NONE, NONE, NONE]),
    }
    names = {
        "nodes": NODES,
        "protocols": PROTOCOLS,
        "drop_causes": ["queue", "loss", "aqm"],
        "ecn": ["not-ect", "ect1", "ect0", "ce"],
        "mark_causes": ["classic", "threshold", "coupled"],
    }
    return {"packets": columns, "names": names}


def test_marks_and_drops_by_a_discipline_are_counted_by_cause_and_told() -> None:
    log = summary()
    passed = traffic(log, np.ones(8, dtype=bool))
    # Of the five that arrive, three went in with ECT(0) or ECT(1).
    assert (passed["ecn_capable"], passed["marked"], passed["aqm"]) == (3, 2, 0)
    assert passed["marks"] == {"classic": 1, "threshold": 0, "coupled": 1}
    log["packets"]["drop_cause"][7] = AQM
    told = summary_text({**result(), "directions": {"up": _direction(log, "up")}}).splitlines()[0]
    assert told.startswith(
        "rtclab link: up: 8 packets went in: 5 arrived, 1 dropped in the queue, 1 dropped by its discipline, "
        "1 lost; 2 of 3 ECN-capable ones arrived marked (1 classic, 1 coupled); "
    )


def result(p99_ms: float = 1.0) -> dict[str, Any]:
    lateness = {"count": 5, "p99_ns": p99_ms * MS, "max_ns": 7 * MS, "bound_ns": 5 * MS}
    log = summary()
    return {"directions": {name: _direction(log, name) for name in ("up", "down")}, "lateness": lateness}


def test_what_went_in_is_what_arrived_was_dropped_was_lost_or_is_on_the_way() -> None:
    passed = traffic(summary(), np.ones(8, dtype=bool))
    ends = [passed[name] for name in ("delivered", "queue", "loss", "on_the_way")]
    assert ends == [5, 1, 1, 1]
    assert passed["packets"] == sum(ends)
    # 5000 B from 0 to 110 ms, when the packet of 50 ms arrives.
    assert passed["delivered_bps"] == pytest.approx(5000 * 8 / 0.110)
    assert (passed["delay_p50_ms"], passed["delay_p95_ms"]) == pytest.approx((40.0, 58.0))


def test_packets_that_are_not_rtp_have_a_rate_a_loss_and_a_delay() -> None:
    other = result()["directions"]["up"]["protocols"]["other"]
    assert (other["packets"], other["delivered"], other["queue"]) == (3, 2, 1)
    # 2000 B from 30 ms to 110 ms.
    assert other["delivered_bps"] == pytest.approx(2000 * 8 / 0.080)
    assert other["delay_p50_ms"] == pytest.approx(55.0)


@given(st.data())
def test_random_udp_is_neither_rtp_nor_rtcp_but_streams_and_their_reports_stay(data: st.DataObject) -> None:
    """The streams' sequence numbers wrap, and come in any order; other SSRCs never have two that follow."""
    looks_so = data.draw(st.lists(st.sampled_from([RTP, RTCP, OTHER]), max_size=20))
    streams = data.draw(st.lists(st.integers(2, 5), max_size=3))
    rows = [(code, 100 + i if code == RTP else NONE, 2 * i) for i, code in enumerate(looks_so)]
    rows += [(RTP, 100, 1000), (RTP, 100, 1000), (RTP, 100, 1002)]  # constants are no counter
    rows += [(RTP, ssrc, (65534 + i) % 65536) for ssrc, many in enumerate(streams) for i in range(many)]
    rows = data.draw(st.permutations(rows))
    protocol, ssrc, seq = np.array(rows).T
    same = np.zeros(len(rows), dtype=int)
    packets = {"protocol": protocol, "ssrc": ssrc, "seq": seq, "from": same, "to": same}
    settled = protocols_of(packets, PROTOCOLS)
    expected = [
        RTP if code == RTP and of < len(streams) else RTCP if code == RTCP and streams else OTHER
        for code, of, _ in rows
    ]
    assert settled.tolist() == expected


def test_what_is_unknown_without_an_arrival_is_null() -> None:
    nothing = traffic(summary(), np.arange(8) == 7)
    assert (nothing["packets"], nothing["on_the_way"]) == (1, 1)
    assert [nothing[name] for name in ("delivered_bps", "delay_p50_ms", "delay_p95_ms")] == [None] * 3


def test_the_summary_names_every_packet() -> None:
    up, rtp, other, down, _ = summary_text(result()).splitlines()
    assert up.startswith(
        "rtclab link: up: 8 packets went in: 5 arrived, 1 dropped in the queue, 1 lost, "
        "1 on the way at the end; "
    )
    assert rtp.startswith("rtclab link:   RTP: 5 packets went in: 3 arrived, ")
    assert other.startswith(
        "rtclab link:   OTHER: 3 packets went in: 2 arrived, 1 dropped in the queue, 0 lost; "
    )
    assert down == "rtclab link: down: no packets"


@pytest.mark.parametrize(
    ("p99_ms", "verdict"),
    [
        (5.0, "this is within the bound of 5 ms, so the link was as asked for"),
        (5.25, "the bound is 5 ms, so the command met another network than asked for"),
    ],
)
def test_the_summary_says_whether_lateness_matters(p99_ms: float, verdict: str) -> None:
    said = summary_text(result(p99_ms)).splitlines()[-1]
    assert said.endswith(f"at most {p99_ms:.2f} ms late, the latest 7.00 ms; {verdict}")
