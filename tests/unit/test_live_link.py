"""What `rtclab link` says about what passed, from the emulator's counts."""

from __future__ import annotations

from typing import Any

import pytest

from rtclab.backend.live.lab.link import summary_text

MS = 1_000_000


def passed(**more: Any) -> dict[str, Any]:
    """Eight packets of 1000 B: five arrive within 110 ms, and three are dropped, lost and on the way."""
    return {
        "packets": 8,
        "bytes": 8000,
        "delivered": 5,
        "delivered_bytes": 5000,
        "queue": 1,
        "loss": 1,
        "aqm": 0,
        "ecn_capable": 0,
        "marked": 0,
        "marks": {"classic": 0, "threshold": 0, "coupled": 0},
        "on_the_way": 1,
        "delivered_bps": 5000 * 8 / 0.110,
        "delay_p50_ms": 40.0,
        "delay_p95_ms": 60.0,
        "protocols": {},
        **more,
    }


NOTHING = {"packets": 0, "protocols": {}}


def result(up: dict[str, Any], p99_ms: float = 1.0) -> dict[str, Any]:
    lateness = {"count": 5, "p99_ns": p99_ms * MS, "max_ns": 7 * MS, "bound_ns": 5 * MS}
    return {"directions": {"up": up, "down": NOTHING}, "lateness": lateness}


def test_marks_and_drops_by_a_discipline_are_counted_by_cause_and_told() -> None:
    marks = {"marked": 2, "marks": {"classic": 1, "threshold": 0, "coupled": 1}, "ecn_capable": 3}
    told = summary_text(result(passed(aqm=1, on_the_way=0, **marks))).splitlines()[0]
    assert told.startswith(
        "rtclab link: up: 8 packets went in: 5 arrived, 1 dropped in the queue, 1 dropped by its discipline, "
        "1 lost; 2 of 3 ECN-capable ones arrived marked (1 classic, 1 coupled); "
    )


def test_the_summary_names_every_packet() -> None:
    protocols = {
        "rtp": passed(packets=5, delivered=3, queue=0),
        "other": passed(packets=3, delivered=2, loss=0, on_the_way=0),
    }
    up, rtp, other, down, _ = summary_text(result(passed(protocols=protocols))).splitlines()
    assert up == (
        "rtclab link: up: 8 packets went in: 5 arrived, 1 dropped in the queue, 1 lost, "
        "1 on the way at the end; 363.6 kbit/s arrived; delay 40.0 ms (median), 60.0 ms (95th percentile)"
    )
    assert rtp.startswith("rtclab link:   RTP: 5 packets went in: 3 arrived, ")
    assert other.startswith(
        "rtclab link:   OTHER: 3 packets went in: 2 arrived, 1 dropped in the queue, 0 lost; "
    )
    assert down == "rtclab link: down: no packets"


def test_notes_come_first() -> None:
    assert summary_text({**result(passed()), "notes": ["this"]}).splitlines()[0] == "rtclab link: this"


@pytest.mark.parametrize(
    ("p99_ms", "verdict"),
    [
        (5.0, "this is within the bound of 5 ms, so the link was as asked for"),
        (5.25, "the bound is 5 ms, so the command met another network than asked for"),
    ],
)
def test_the_summary_says_whether_lateness_matters(p99_ms: float, verdict: str) -> None:
    said = summary_text(result(passed(), p99_ms)).splitlines()[-1]
    assert said.endswith(f"at most {p99_ms:.2f} ms late, the latest 7.00 ms; {verdict}")
