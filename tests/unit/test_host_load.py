"""The load of processors in simulated calls: the table `host`, and the metrics of it."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest
from scenario_text import scenario

from rtclab.backend.sim import SimBackend
from rtclab.metrics.host import cpu, memory
from rtclab.trace import Trace

HOST = """
[host]
encoder_capacity = "92.16 Mpixel/s"
decoder_capacity = "184.32 Mpixel/s"
"""
"""A picture of 640x480 takes 3.33 ms to encode and 1.67 ms to decode: at 30 per second 10 % and 5 %."""
ENCODING, DECODING = 10.0, 5.0
VGA = """
[congestion_control]
name = "fixed"
stack = "chrome-27"
[link]
up = { delay = "10 ms" }
"""
STEADY = 'video={codec="vp8-2013", camera="steady"}'
"""640x480 at 30 pictures a second, whose size and rate do not change."""


def simulate(tmp_path: Path, text: str, *changes: str) -> Trace:
    loaded = scenario(tmp_path, VGA + text, "duration=10 s", STEADY, *changes)
    return SimBackend().simulate(loaded, seed=1, repeat=0)


@pytest.mark.parametrize(
    ("text", "streams"),
    [
        ("", 1),
        ("[participants.carol]", 2),
        ("[[calls]]\n[[calls]]", 2),
        ("[participants.carol]\n[participants.dave]", 3),
    ],
)
def test_a_processor_is_busy_with_each_stream_that_it_encodes_and_decodes(
    tmp_path: Path, text: str, streams: int
) -> None:
    trace = simulate(tmp_path, text + HOST)
    for participant, flow in (("alice", "alice->bob"), ("bob", "bob->alice")):
        rows = trace.table("host").filter(participant=participant)
        assert rows["at_ns"].to_list() == [second * 10**9 for second in range(1, 11)]
        assert rows["memory_bytes"].null_count() == 10
        expected = streams * (ENCODING + DECODING)
        # A picture more or less of each kind in a second, and none before the call is set up.
        tolerance = expected / 30 + 0.1
        assert rows["cpu_percent"][1:].to_list() == [pytest.approx(expected, abs=tolerance)] * 9
        assert expected - tolerance - 2 < cpu(trace, flow) < expected
        assert cpu(trace.within((5, 9)), flow) == pytest.approx(expected, abs=tolerance)
        assert isnan(memory(trace, flow))


def test_who_only_watches_decodes_and_who_is_only_watched_encodes(tmp_path: Path) -> None:
    trace = simulate(tmp_path, HOST, "participants.bob.video=false")
    assert cpu(trace.within((2, 10)), "alice->bob") == pytest.approx(ENCODING, abs=0.5)
    assert cpu(trace.within((2, 10)), "bob->alice") == pytest.approx(DECODING, abs=0.3)


@pytest.mark.parametrize("people", ["", "[participants.carol]"])
def test_an_overloaded_processor_is_never_busy_for_more_than_the_whole_second(
    tmp_path: Path, people: str
) -> None:
    # A picture takes 61.44 ms to encode, and the next one waits already.
    trace = simulate(tmp_path, people + HOST, "host.encoder_capacity=5 Mpixel/s")
    loads = trace.table("host").filter(participant="alice")["cpu_percent"][2:].to_list()
    assert loads == [pytest.approx(100, abs=0.01)] * 8


def test_without_a_model_of_the_processor_its_load_is_unknown(tmp_path: Path) -> None:
    trace = simulate(tmp_path, "[participants.alice.host]\nencoder_capacity = '92.16 Mpixel/s'")
    assert trace.table("host")["participant"].unique().to_list() == ["alice"]
    assert cpu(trace.within((2, 10)), "alice->bob") == pytest.approx(ENCODING, abs=0.5)
    assert isnan(cpu(trace, "bob->alice"))
    assert simulate(tmp_path, "").table("host").is_empty()
