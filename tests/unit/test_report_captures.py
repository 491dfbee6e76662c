"""Plots of captures: rates per second and delays corrected for the clock offset."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from captures import speech, udp, write_pcap

from rtclab import monitoring
from rtclab.report import captures

SECOND = 10**9


def rate_kbps(*bytes_of_seconds: int, ends_s: int) -> list[float]:
    """Rates of a stream in a capture whose last second begins at ``ends_s``."""
    at_ns = SECOND * np.arange(len(bytes_of_seconds), dtype=np.float64)
    rate = captures._rate(at_ns, np.array(bytes_of_seconds, dtype=np.float64), ends_s * SECOND)
    return [float(value) for value in rate.values]


def test_the_incomplete_last_second_of_a_capture_is_not_drawn() -> None:
    # 125 B in a second are 1 kbit/s; the capture ends somewhere in its fourth second.
    assert rate_kbps(125_000, 125_000, 125_000, 1_250, ends_s=3) == [1000, 1000, 1000]


def test_a_stream_that_ends_before_the_capture_is_drawn_to_its_end() -> None:
    assert rate_kbps(125_000, 62_500, ends_s=3) == [1000, 500]


def test_a_capture_shorter_than_a_second_is_drawn() -> None:
    assert rate_kbps(1_250, ends_s=0) == [10]


def test_delays_are_corrected_by_offset_and_drift_on_the_clock_of_a() -> None:
    # B is 100 ms ahead at zero and gains 1 ms a second; every packet takes 20 ms.
    clock = {"offset_ms": 100.0, "drift_ppm": 1000.0, "at_ns": 0}
    at_a = [0, 10 * SECOND]
    for direction, point, delays_ms in (
        ("a->b", "sent_ns", [120.05, 130.05]),
        ("b->a", "delivered_ns", [-79.95, -89.95]),
    ):
        packets = pl.DataFrame({point: at_a, "one_way_delay_ms": delays_ms})
        bins = captures._corrected_bins(packets, direction, clock)
        assert bins["one_way_delay_ms"].to_list() == pytest.approx([20.0])
        assert bins["packets"].to_list() == [2]


def lossy(tmp_path: Path) -> Path:
    """Six seconds of a stream that lacks five packets in a row, and a second stream of three packets."""
    frames = [frame for index, frame in enumerate(speech(300, ssrc=7)) if not 100 <= index < 105]
    return write_pcap(tmp_path / "call.pcap", sorted([*frames, *speech(3, ssrc=8)]))


def test_a_page_of_a_capture_says_what_it_shows_and_what_is_missing(tmp_path: Path) -> None:
    capture = lossy(tmp_path)
    seen = monitoring.monitor(capture, seconds=True)
    page = tmp_path / "streams.html"
    captures.write_capture_plots(page, str(capture), seen)
    text = page.read_text()
    assert "<h1>2 streams between 10.0.0.1 and 10.0.0.2, 6.0 s</h1>" in text
    assert "5 of 303 packets are missing by their sequence numbers (1.65 %)" in text
    assert "most of them of audio 0x00000007 (10.0.0.1 → 10.0.0.2): 5 of 300." in text
    assert f"rtclab import {capture}" in text
    assert len(re.findall(r'<th scope="row">audio 0x0000000[78]</th>', text)) == 2


def test_a_plot_of_each_value_has_the_streams_with_a_curve(tmp_path: Path) -> None:
    seen = monitoring.monitor(lossy(tmp_path), seconds=True)
    plots = {plot.name: plot for plot in captures.of_streams(seen)}
    assert [*plots] == ["rates", "packet-rate", "lost", "jitter"]
    for plot in plots.values():
        assert {mark.look.label for mark in plot.marks} == {"audio 0x00000007"}  # the other one is a point
    (lost,) = plots["lost"].marks
    assert sum(lost.y.tolist()) == 5
    (sent,) = plots["packet-rate"].marks
    assert sent.y.tolist() == [50, 50, 45, 50, 50]  # without the last second, which may be incomplete


def test_a_capture_without_loss_has_no_plot_of_it_and_says_so(tmp_path: Path) -> None:
    seen = monitoring.monitor(write_pcap(tmp_path / "a.pcap", speech(300, ssrc=7)), seconds=True)
    assert [plot.name for plot in captures.of_streams(seen)] == ["rates", "packet-rate", "jitter"]
    found = captures.answer(seen, "eth0")
    assert found.how.startswith("No packet is missing: the sequence numbers of all 300 are there.")
    assert not found.steps  # an interface is no file


def test_a_capture_without_streams_has_a_page_that_says_so(tmp_path: Path) -> None:
    frames = [(0, udp(b"name?" * 20))]
    capture = write_pcap(tmp_path / "a.pcap", frames)
    captures.write_capture_plots(tmp_path / "a.html", str(capture), monitoring.monitor(capture, seconds=True))
    text = (tmp_path / "a.html").read_text()
    assert f"No RTP stream was found in {capture}." in text
    assert "<figure" not in text


def test_streams_between_the_same_hosts_are_told_apart_by_their_ports() -> None:
    def ways(*ports: int) -> list[str]:
        rows = [
            {"source": f"[::1]:{port}", "destination": "[::2]:9", "direction": None, "interface": "x"}
            for port in ports
        ]
        return captures._ways(pl.DataFrame(rows, schema_overrides={"direction": pl.String}))

    assert ways(5, 5) == ["::1 → ::2"] * 2
    assert ways(5, 6) == ["[::1]:5 → [::2]:9", "[::1]:6 → [::2]:9"]
