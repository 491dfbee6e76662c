"""Plots of captures: rates per second and delays corrected for the clock offset."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

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
