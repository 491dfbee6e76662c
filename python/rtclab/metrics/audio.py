"""Audio at the listener: delay from mouth to ear, and sound made up because packets were missing."""

from __future__ import annotations

from math import isnan, nan

import numpy as np

from rtclab.metrics.delay import arrived_in_window
from rtclab.metrics.promises import NO_SPANS, inside_ns, promised
from rtclab.metrics.registry import EXACT, OF_REPORTS, UNKNOWN, bounded, metric, sources
from rtclab.metrics.series import (
    NO_SAMPLES,
    Array,
    IntegerArray,
    Samples,
    counters_of_kind,
    increase,
    mean_slope,
    span_ns,
    until_end,
)
from rtclab.trace import NS_PER_MS, NS_PER_S, Trace

MS_PER_S = 1000
PERCENT = 100
AUDIO_CLOCK = 48_000
"""Ticks a second of the RTP clock of Opus (RFC 7587, 4.1)."""
OPUS_LENGTHS_MS = (2.5, 5.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 120.0)
"""What a packet of Opus may last (RFC 6716, 2.1.4; RFC 7587, 4.2)."""


@metric(
    unit="%", better="lower", source="W3C webrtc-stats, concealedSamples", bounds=(0, 100), known=OF_REPORTS
)
def audio_concealed(trace: Trace, flow: str) -> float:
    """Sound that the receiver made up because packets were missing or late, in % of the sound promised.

    Sound is promised from when both ends are connected until the flow ends, except while the sender pauses.
    Of the time in which sound was played, it is the share of samples that were made up. All promised time
    before the first packet of sound counts as made up if it is more than 1 s, so sound that never came is
    100 %. There is no value if packets came and nothing was played, or if no sound is promised.
    """
    made_up = _ratio(trace, flow, "concealedSamples", "totalSamplesReceived")
    silent_s, promised_s = trace.cached_in_window(_silence_s, flow)
    if not silent_s:
        return PERCENT * made_up
    heard_s = promised_s - silent_s
    return PERCENT * (silent_s + (made_up * heard_s if heard_s else 0.0)) / promised_s


@metric(unit="1/min", better="lower", source="W3C webrtc-stats, concealmentEvents", known=OF_REPORTS)
def concealment_events(trace: Trace, flow: str) -> float:
    """Times per minute that the receiver began to make up sound, from its first report on.

    There is no value if nothing was played.
    """
    if not _played(trace, flow, "totalSamplesReceived") > 0:
        return nan
    return 60 * mean_slope(until_end(trace, flow, _counted(trace, flow, "concealmentEvents")), trace.window)


@metric(unit="ms", better="lower", source="W3C webrtc-stats, jitterBufferDelay", known=OF_REPORTS)
def audio_buffer_delay(trace: Trace, flow: str) -> float:
    """Mean time (ms) that sound waited in the jitter buffer, over the samples that left it."""
    return MS_PER_S * _ratio(trace, flow, "jitterBufferDelay", "jitterBufferEmittedCount")


@metric(
    unit="ms",
    better="lower",
    source="ITU-T G.114, mouth to ear; W3C webrtc-stats",
    known=sources(
        EXACT,
        bounded("to 10 ms, the step in which jitter buffers count, without the time to record and encode"),
        UNKNOWN,
        UNKNOWN,
        UNKNOWN,
    ),
)
def sound_delay(trace: Trace, flow: str) -> float:
    """Mean time (ms) from the microphone to the loudspeaker, over the sound that left the jitter buffer.

    It contains the length of a packet, whose beginning is recorded first, the network, the jitter buffer, and
    the sound output of the receiver's machine. Simulated, it is the time of the beginning of each packet.
    Live, it is a sum of means: the length of a packet, the way of the packets, W3C's jitterBufferDelay, and
    the totalPlayoutDelay of the sound output, which Firefox does not tell. Of a flow from a server that mixes
    sound, it begins at the server.
    """
    exact_ms = MS_PER_S * _ratio(trace, flow, "totalSoundDelay", "jitterBufferEmittedCount")
    if exact_ms == exact_ms:
        return exact_ms
    return (
        packet_length_ms(trace, flow)
        + way_of_sound_ms(trace, flow)
        + audio_buffer_delay(trace, flow)
        + output_ms(trace, flow)
    )


def output_ms(trace: Trace, flow: str) -> float:
    """Mean time (ms) from the jitter buffer of audio to the loudspeaker; NaN if it is not known."""
    return MS_PER_S * _ratio(trace, flow, "totalPlayoutDelay", "totalSamplesCount")


def way_of_sound_ms(trace: Trace, flow: str) -> float:
    """Mean one-way delay (ms) of the packets of sound that arrived; NaN if there are none."""
    packets = arrived_in_window(trace, flow)
    sound = packets.chosen(packets.of_kinds("audio"))
    return float((sound.delivered_ns - sound.sent_ns).mean()) / NS_PER_MS if sound.sent_ns.size else nan


def packet_length_ms(trace: Trace, flow: str) -> float:
    """Length (ms) of a packet of sound, from the samples that were played of each; NaN if it is not known."""
    samples = _ratio(trace, flow, "jitterBufferEmittedCount", "packetsReceived")
    if isnan(samples):
        return nan
    return min(OPUS_LENGTHS_MS, key=lambda length_ms: abs(length_ms - MS_PER_S * samples / AUDIO_CLOCK))


@metric(unit="ms", better="lower", source="W3C webrtc-stats, jitterBufferTargetDelay", known=OF_REPORTS)
def audio_target_delay(trace: Trace, flow: str) -> float:
    """Mean delay (ms) that the jitter buffer of audio aimed at, over the samples that left it."""
    return MS_PER_S * _ratio(trace, flow, "jitterBufferTargetDelay", "jitterBufferEmittedCount")


def _ratio(trace: Trace, flow: str, part: str, whole: str) -> float:
    """Increase of one counter divided by the increase of another; NaN if the latter did not grow."""
    of = _played(trace, flow, whole)
    return _played(trace, flow, part) / of if of > 0 else nan


def _played(trace: Trace, flow: str, column: str) -> float:
    """Increase of a counter while sound is promised; NaN without reports."""
    counted, about = _counted(trace, flow, column), trace.manifest.flows.get(flow)
    if about is None or about.promised is None or not counted.at_s.size:
        return increase(counted, trace.window)
    if trace.cached(promised, flow, "audio") is None:
        return nan
    return float(increases_while_promised(trace, flow, column)[2].sum())


def increases_while_promised(trace: Trace, flow: str, column: str) -> tuple[Array, Array, Array]:
    """A counter of a flow's sound: begin and end in s of the times between reports, and its increases.

    Times in which no sound is promised, and reports outside of the trace's window, are left out.
    """
    counted, about = _counted(trace, flow, column), trace.manifest.flows[flow]
    spans = trace.cached(promised, flow, "audio")
    if not counted.at_s.size or (spans is None and about.promised is not None):
        return np.empty(0), np.empty(0), np.empty(0)
    first_s = counted.at_s[0] if spans is None else min(counted.at_s[0], spans[0, 0] / NS_PER_S)
    since_s = np.append(first_s, counted.at_s[:-1])
    from_s, to_s = trace.window or (-np.inf, np.inf)
    chosen = (counted.at_s > from_s) & (counted.at_s <= to_s)
    if spans is not None and about.promised is not None and (len(spans) > 1 or spans[0, 1] < about.end_ns):
        # A report belongs to the time since the one before. A pause in it would look like missing sound.
        chosen &= np.any(
            [(since_s >= begin_s) & (counted.at_s <= end_s) for begin_s, end_s in spans / NS_PER_S], axis=0
        )
    return since_s[chosen], counted.at_s[chosen], np.diff(counted.values, prepend=0.0)[chosen]


def _silence_s(trace: Trace, flow: str) -> tuple[float, float]:
    """The promised time in s before the first packet of sound, and all promised time; 0 if not known."""
    silent_ns, promised_ns = silence_ns(trace, flow)
    return (silent_ns[:, 1] - silent_ns[:, 0]).sum() / NS_PER_S, promised_ns / NS_PER_S


def silence_ns(trace: Trace, flow: str) -> tuple[IntegerArray, int]:
    """The promised times in ns before the first packet of sound, if more than 1 s, and all promised time.

    The times have the shape (times, 2). Nothing is known without reports. These come once a second, so the
    first packet came in the second before it was reported.
    """
    spans, about = trace.cached(promised, flow, "audio"), trace.manifest.flows.get(flow)
    if spans is None or about is None or about.promised is None:
        return NO_SPANS, 0
    span = span_ns(trace, flow)
    received = trace.cached(_counters, "packetsReceived").get(flow, NO_SAMPLES)
    came_s = received.at_s[received.values > 0]
    until_ns = round((came_s[0] - 1) * NS_PER_S) if came_s.size else span[1]
    silent = spans.clip(span[0], max(span[0], min(span[1], until_ns)))
    silent = silent[silent[:, 0] < silent[:, 1]]
    is_long = (silent[:, 1] - silent[:, 0]).sum() > NS_PER_S
    return silent if is_long else NO_SPANS, int(inside_ns(spans, span).sum())


def _counted(trace: Trace, flow: str, column: str) -> Samples:
    """A counter of the flow's audio streams, summed, until the flow's end."""
    return until_end(trace, flow, trace.cached(_counters, column).get(flow, NO_SAMPLES))


def _counters(trace: Trace, column: str) -> dict[str, Samples]:
    return counters_of_kind(trace, "inbound_rtp", "audio", column)
