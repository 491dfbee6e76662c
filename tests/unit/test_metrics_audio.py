"""Metrics of audio playout, from reports with known totals and from a simulated call."""

from __future__ import annotations

from math import isnan
from pathlib import Path

import pytest
from synthetic_run import report, trace

from rtclab.backend.sim import SimBackend
from rtclab.metrics import METRICS, audio
from rtclab.scenario import Scenario
from rtclab.trace import Trace

FLOW = "alice->bob"
AUDIO = {"kind": "audio", "ssrc": 2}


def heard() -> Trace:
    """Ten seconds: 48,000 samples played a second; from 5 s on, 480 of them concealed once a second."""
    rows = [
        report(
            at,
            **AUDIO,
            totalSamplesReceived=48_000 * at,
            concealedSamples=480 * max(at - 5, 0),
            concealmentEvents=max(at - 5, 0),
            jitterBufferEmittedCount=48_000 * at,
            jitterBufferDelay=0.05 * 48_000 * at,
            jitterBufferTargetDelay=0.04 * 48_000 * at,
        )
        for at in range(1, 11)
    ]
    # The jitter buffer of video counts frames and must not be mixed in.
    video = [report(at, jitterBufferDelay=9.0 * at, jitterBufferEmittedCount=30 * at) for at in range(1, 11)]
    return trace(spans_s={FLOW: (0, 10)}, inbound_rtp=[*rows, *video])


def test_concealment_is_a_share_of_the_sound_and_a_number_per_minute() -> None:
    assert audio.audio_concealed(heard(), FLOW) == pytest.approx(100 * 480 * 5 / 480_000)
    assert audio.audio_concealed(heard().within((5, 10)), FLOW) == pytest.approx(1)
    assert audio.concealment_events(heard().within((5, 10)), FLOW) == pytest.approx(60)
    assert audio.concealment_events(heard().within((1, 5)), FLOW) == 0


def test_delays_are_means_over_samples_of_audio() -> None:
    assert audio.audio_buffer_delay(heard(), FLOW) == pytest.approx(50)
    assert audio.audio_target_delay(heard().within((2, 4)), FLOW) == pytest.approx(40)


def test_without_audio_nothing_is_known() -> None:
    silent = trace(spans_s={FLOW: (0, 2)}, inbound_rtp=[report(1, jitterBufferDelay=1.0)])
    for name in (
        "audio_concealed",
        "audio_buffer_delay",
        "audio_target_delay",
        "concealment_events",
        "sound_delay",
    ):
        assert isnan(METRICS[name].function(silent, FLOW)), name


def test_a_simulated_call_has_them_and_lost_packets_are_concealed(tmp_path: Path) -> None:
    changes = [
        "duration=60 s",
        "audio.bitrate=32 kbit/s",
        "link.up.loss=5 %",
        "congestion_control.name=goog-cc",
    ]
    called = SimBackend().run(Scenario.load("first-call", changes), seed=1, repeat=0, out=tmp_path / "run")
    # 5 % of 3000 packets, sd 0.4 %; what is late because of the queue comes on top.
    assert 3.5 < audio.audio_concealed(called, FLOW) < 9
    # Audio waits for the video, whose buffer holds 0.9 of a round trip of about 130 ms and more.
    assert 100 < audio.audio_target_delay(called, FLOW) < 300
    assert 80 < audio.audio_buffer_delay(called, FLOW) < 300
    assert 90 < audio.concealment_events(called, FLOW) < 250
