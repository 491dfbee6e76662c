"""The tables of a trace: what a row is and what each column holds, also for the generated documentation."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl


class Column(NamedTuple):
    """A column: its type, its meaning, and whether it may be null."""

    dtype: pl.DataType
    meaning: str
    nullable: bool = False


class TableDescription(NamedTuple):
    """A table: what one row is, and the columns in order."""

    row: str
    columns: dict[str, Column]


def _integer(meaning: str) -> Column:
    return Column(pl.Int64(), meaning)


def _number(meaning: str) -> Column:
    return Column(pl.Float64(), meaning)


def _text(meaning: str) -> Column:
    return Column(pl.String(), meaning)


def _flag(meaning: str) -> Column:
    return Column(pl.Boolean(), meaning)


def _maybe(column: Column) -> Column:
    return column._replace(nullable=True)


_OF_STREAM = {
    "at_ns": _integer("When the report was made"),
    "participant": _text("Who reports"),
    "flow": _text("Flow that the stream belongs to"),
    "ssrc": _integer("SSRC of the stream"),
    "kind": _text("`video` or `audio`"),
}
_PICTURE = {
    "frameWidth": _maybe(_integer("Width of the last frame, in pixels")),
    "frameHeight": _maybe(_integer("Height of the last frame, in pixels")),
    "framesPerSecond": _maybe(_number("Frames in the last second")),
}

TABLES: dict[str, TableDescription] = {
    "packets": TableDescription(
        "one packet",
        {
            "sent_ns": _integer("When the sender sent it"),
            "delivered_ns": _maybe(_integer("When the model delivered it")),
            "written_ns": _maybe(_integer("Live: when its frame was actually written")),
            "queued_ns": _maybe(
                _integer(
                    "How long a delivered packet waited in the queues of its route, all legs behind a relay "
                    "or server included; null in captures and logs"
                )
            ),
            "dropped_ns": _maybe(_integer("When it was dropped")),
            "drop_cause": _maybe(
                _text("`queue` (it was full), `aqm` (the queue signalled congestion) or `loss`")
            ),
            "drop_path": _maybe(_text("Path that dropped it")),
            "ecn": _maybe(
                _text("ECN codepoint when sent: `not-ect`, `ect0`, `ect1` or `ce`; null in logs of browsers")
            ),
            "mark_path": _maybe(
                _text(
                    "First path whose queue marked it; null if it did not arrive with a mark, and in captures"
                )
            ),
            "mark_cause": _maybe(
                _text(
                    "Why: `classic` (in place of a drop), `threshold` (it had waited for too long) or "
                    "`coupled` (to the drops of classic traffic)"
                )
            ),
            "flow": _text("Flow that it belongs to"),
            "size_bytes": _integer("IP total length"),
            "protocol": _text("`rtp`, `rtcp`, `stun`, `dtls`, `other`, and `tcp` or `udp` of cross traffic"),
            "kind": _maybe(_text("RTP: `video`, `audio`, `rtx`, `fec` or `padding`")),
            "ssrc": _maybe(_integer("RTP: SSRC")),
            "payload_type": _maybe(_integer("RTP: payload type")),
            "seq": _maybe(_integer("RTP: sequence number")),
            "rtp_timestamp": _maybe(_integer("RTP: timestamp")),
            "marker": _maybe(Column(pl.Boolean(), "RTP: marker bit, set on the last packet of a frame")),
        },
    ),
    "flow_seconds": TableDescription(
        "one second of a flow; packets sent after the flow's end do not count",
        {
            "at_ns": _integer("Start of the second"),
            "flow": _text("The flow"),
            "sent_packets": _integer("Packets sent"),
            "sent_bytes": _integer("Bytes sent, IP total length"),
            "delivered_packets": _integer("Packets delivered"),
            "delivered_bytes": _integer("Bytes delivered, IP total length"),
            "dropped_packets": _integer("Packets dropped"),
            "media_sent_packets": _maybe(
                _integer("First transmissions of media sent; FEC is among them if it cannot be told apart")
            ),
            "media_dropped_packets": _maybe(_integer("Those of them that were dropped")),
            "fec_sent_packets": _maybe(_integer("FEC packets sent; null if RED may hide FEC among media")),
            "fec_dropped_packets": _maybe(_integer("FEC packets dropped; null like `fec_sent_packets`")),
            "ect_packets": _maybe(
                _integer("ECN-capable packets sent, with ECT(0), ECT(1) or CE; null in logs of browsers")
            ),
            "ect_delivered_packets": _maybe(_integer("Packets delivered that were sent ECN-capable")),
            "marked_packets": _maybe(_integer("The ones that arrived and were marked on the way")),
            "aqm_dropped_packets": _maybe(
                _integer("Packets dropped because a queue signalled congestion; null if causes are not known")
            ),
            "one_way_delay_min_ms": _maybe(_number("Smallest one-way delay of the delivered packets")),
            "one_way_delay_mean_ms": _maybe(_number("Mean one-way delay")),
            "one_way_delay_max_ms": _maybe(_number("Largest one-way delay")),
        },
    ),
    "delay_histogram": TableDescription(
        "the packets of a flow whose one-way delay is in a bin of 0.1 ms",
        {
            "flow": _text("The flow"),
            "one_way_delay_ms": _number("Lower edge of the bin"),
            "packets": _integer("Packets delivered with this delay"),
        },
    ),
    "queuing_histogram": TableDescription(
        "the packets of a flow whose queuing delay is in a bin of 0.1 ms; none in captures and logs",
        {
            "flow": _text("The flow"),
            "queuing_delay_ms": _number("Lower edge of the bin"),
            "packets": _integer("Packets delivered with this queuing delay"),
        },
    ),
    "outbound_rtp": TableDescription(
        "a report of a sender on one of its streams, once a second",
        _OF_STREAM
        | {
            "packetsSent": _integer("RTP packets sent, retransmissions included"),
            "bytesSent": _integer("Payload bytes sent, retransmissions included"),
            "headerBytesSent": _maybe(_integer("Bytes of RTP headers and padding sent")),
            "retransmittedPacketsSent": _maybe(_integer("Packets sent again because they were lost")),
            "retransmittedBytesSent": _maybe(_integer("Payload bytes of these packets")),
            "targetBitrate": _maybe(_number("Target rate of the encoder, in bit/s")),
            "framesEncoded": _maybe(_integer("Frames encoded")),
            "keyFramesEncoded": _maybe(_integer("Key frames encoded")),
            "framesSent": _maybe(_integer("Frames sent")),
            "hugeFramesSent": _maybe(_integer("Frames sent that were larger than 2.5 times the mean")),
            "qpSum": _maybe(_integer("Sum of the quantiser indices of the encoded frames")),
            "totalEncodeTime": _maybe(_number("Time spent on encoding, in seconds")),
            "totalPacketSendDelay": _maybe(
                _number("Sum of the times that packets waited in the pacer, in seconds")
            ),
            "qualityLimitationReason": _maybe(
                _text("Why size or frame rate is reduced: `none`, `bandwidth`, `cpu` or `other`")
            ),
            "qualityLimitationDurationCpu": _maybe(
                _number("Live: time limited by the CPU, in seconds; `qualityLimitationDurations.cpu` in W3C")
            ),
            "qualityLimitationDurationBandwidth": _maybe(
                _number("Live: time limited by the bandwidth, in seconds")
            ),
            "qualityLimitationDurationOther": _maybe(
                _number("Live: time limited by something else, in seconds")
            ),
            "qualityLimitationResolutionChanges": _maybe(
                _integer("Changes of the resolution because of a limitation")
            ),
            "mimeType": _maybe(_text("Live and dumps: codec in use, such as `video/VP8`")),
            "encoderImplementation": _maybe(_text("Live: encoder, as the browser names it")),
            "powerEfficientEncoder": _maybe(_flag("Live: whether the encoder saves power, as hardware does")),
        }
        | _PICTURE
        | {
            "nackCount": _maybe(_integer("NACKs received")),
            "pliCount": _maybe(_integer("Requests for a key frame (PLI) received")),
            "packetsSentWithEct1": _maybe(_integer("Packets sent as ECT(1); known with RFC 8888 feedback")),
        },
    ),
    "inbound_rtp": TableDescription(
        "a report of a receiver on one stream, once a second",
        _OF_STREAM
        | {
            "packetsReceived": _integer("RTP packets received"),
            "packetsLost": _maybe(_integer("Packets expected minus packets received; RFC 3550")),
            "bytesReceived": _integer("Payload bytes received"),
            "headerBytesReceived": _maybe(_integer("Bytes of RTP headers and padding received")),
            "jitter": _maybe(_number("Interarrival jitter in seconds; RFC 3550")),
            "mimeType": _maybe(_text("Live and dumps: codec in use, such as `video/VP8`")),
            "decoderImplementation": _maybe(_text("Live: decoder, as the browser names it")),
            "powerEfficientDecoder": _maybe(_flag("Live: whether the decoder saves power, as hardware does")),
            "framesReceived": _maybe(_integer("Complete frames received")),
            "framesDecoded": _maybe(_integer("Frames decoded")),
            "framesDropped": _maybe(_integer("Frames dropped before or after decoding")),
            "keyFramesDecoded": _maybe(_integer("Key frames decoded")),
            "framesAssembledFromMultiplePackets": _maybe(_integer("Frames of more than one packet")),
            "totalAssemblyTime": _maybe(
                _number("Sum of the times from the first to the last packet of those frames, in seconds")
            ),
            "totalDecodeTime": _maybe(_number("Time spent on decoding, in seconds")),
            "totalProcessingDelay": _maybe(
                _number("Sum of the times from first packet to end of decoding, in seconds")
            ),
            "totalInterFrameDelay": _maybe(
                _number("Sum of the intervals between decoded frames, in seconds")
            ),
            "totalSquaredInterFrameDelay": _maybe(
                _number("Sum of the squares of those intervals, in square seconds")
            ),
        }
        | _PICTURE
        | {
            "freezeCount": _maybe(_integer("Number of freezes that have ended")),
            "totalFreezesDuration": _maybe(_number("Length of all freezes that have ended, in seconds")),
            "pauseCount": _maybe(_integer("Pauses of more than 5 s that have ended")),
            "totalPausesDuration": _maybe(_number("Length of all pauses that have ended, in seconds")),
            "nackCount": _maybe(_integer("NACKs sent")),
            "pliCount": _maybe(_integer("Requests for a key frame (PLI) sent")),
            "jitterBufferDelay": _maybe(
                _number("Sum of the times that frames or samples waited for playout, in seconds")
            ),
            "jitterBufferEmittedCount": _maybe(_integer("Frames or samples that left the jitter buffer")),
            "jitterBufferTargetDelay": _maybe(
                _number("Sum of the delays that the jitter buffer aimed at, in seconds")
            ),
            "jitterBufferMinimumDelay": _maybe(
                _number("Sum of the delays that network conditions alone asked for, in seconds")
            ),
            "totalSamplesReceived": _maybe(_integer("Audio samples played, concealed ones included")),
            "concealedSamples": _maybe(_integer("Audio samples made up because of missing packets")),
            "silentConcealedSamples": _maybe(_integer("Concealed samples that were silence or noise")),
            "concealmentEvents": _maybe(_integer("Beginnings of concealment")),
            "insertedSamplesForDeceleration": _maybe(_integer("Samples inserted to slow audio down")),
            "removedSamplesForAcceleration": _maybe(_integer("Samples removed to speed audio up")),
            "retransmittedPacketsReceived": _maybe(
                _integer("Retransmissions received, with padding that repeats packets; known with RTX")
            ),
            "retransmittedBytesReceived": _maybe(_integer("Payload bytes of these retransmissions")),
            "packetsRepaired": _maybe(
                _integer(
                    "Packets repaired in time by retransmission or FEC (provisional in W3C); "
                    "simulated only, no browser counts them"
                )
            ),
            "fecPacketsReceived": _maybe(
                _integer("FEC packets received; of audio, media packets with FEC inside")
            ),
            "fecBytesReceived": _maybe(_integer("Payload bytes of FEC packets received")),
            "fecPacketsDiscarded": _maybe(_integer("FEC packets that were not needed")),
            "packetsReceivedWithEct1": _maybe(
                _integer("Packets received as ECT(1); known with RFC 8888 feedback")
            ),
            "packetsReceivedWithCe": _maybe(
                _integer("Packets received with a mark of a queue; known with RFC 8888 feedback")
            ),
        },
    ),
    "remote_inbound_rtp": TableDescription(
        "a report of a sender on what RTCP said about one of its streams",
        _OF_STREAM
        | {
            "roundTripTime": _maybe(_number("Round-trip time in seconds; RFC 3550")),
            "fractionLost": _maybe(_number("Share of packets lost since the last report, 0 to 1")),
            "packetsLost": _maybe(_integer("Packets lost so far, as reported")),
            "jitter": _maybe(_number("Interarrival jitter in seconds, as reported")),
            "packetsReportedAsLost": _maybe(_integer("Packets that RFC 8888 feedback reported as lost")),
            "packetsReportedAsLostButRecovered": _maybe(
                _integer("Of these, packets that it reported as received later")
            ),
            "packetsWithBleachedEct1Marking": _maybe(
                _integer("Packets sent as ECT(1) that it reported as received without an ECN codepoint")
            ),
        },
    ),
    "candidate_pair": TableDescription(
        "a report of a participant on a connection, once a second",
        {
            "at_ns": _integer("When the report was made"),
            "participant": _text("Who reports"),
            "flow": _text(
                "Flow that the participant sends over the connection or, if it sends none, receives"
            ),
            "currentRoundTripTime": _maybe(_number("Last round-trip time of STUN, in seconds")),
            "availableOutgoingBitrate": _maybe(_number("Estimate of the congestion control, in bit/s")),
            "bytesSent": _maybe(_integer("Bytes sent, without IP and UDP headers")),
            "bytesReceived": _maybe(_integer("Bytes received, without IP and UDP headers")),
            "packetsSent": _maybe(_integer("Packets sent")),
            "packetsReceived": _maybe(_integer("Packets received")),
            "ccfbMessagesReceived": _maybe(
                _integer("RTCP packets of RFC 8888 received; in W3C a statistic of the transport")
            ),
        },
    ),
    "frames": TableDescription(
        "one frame of video that was shown",
        {
            "flow": _text("Flow that it belongs to"),
            "ssrc": _integer("SSRC of its stream"),
            "rtp_timestamp": _integer("RTP timestamp"),
            "captured_ns": _maybe(
                _integer("When the camera took it; of a composed picture, the mean over the cameras in it")
            ),
            "received_ns": _maybe(_integer("When its last packet arrived")),
            "rendered_ns": _maybe(
                _integer("When it was shown, or given to the decoder of a server that mixes")
            ),
            "width": _integer("Width in pixels"),
            "height": _integer("Height in pixels"),
            "size_bytes": _maybe(_integer("Size of the encoded frame")),
        },
    ),
    "controller": TableDescription(
        "one internal value of a congestion control",
        {
            "at_ns": _integer("When"),
            "participant": _text(
                "Participant that computes it: the flow's sender, or its receiver for the receive side"
            ),
            "flow": _text("Flow that is controlled"),
            "name": _text(
                "Name of the value; its suffix is its unit. Values of a browser have the simulator's names"
            ),
            "value": _number("The value"),
        },
    ),
    "tcp": TableDescription(
        "the state of a TCP flow, once a second",
        {
            "at_ns": _integer("When"),
            "flow": _text("The flow"),
            "connections": _maybe(_integer("Open connections")),
            "cwnd_segments": _maybe(_integer("Congestion window, summed over the connections")),
            "srtt_ms": _maybe(_number("Smoothed round-trip time, mean over the connections")),
            "delivered_bytes": _integer("Bytes delivered in order to the application so far"),
            "retransmitted_segments": _maybe(_integer("Segments sent again so far")),
            "timeouts": _maybe(_integer("Retransmission timeouts so far; null in live calls")),
            "objects": _integer("Objects finished so far"),
        },
    ),
    "host": TableDescription(
        "the load of a machine in the last second: live, of a browser's or MCU's processes; simulated, of a "
        "`host`",
        {
            "at_ns": _integer("End of the second"),
            "participant": _text("Participant, or server that mixes, whose machine it is"),
            "cpu_percent": _number("CPU use in per cent; 100 is one core, or the one processor of a `host`"),
            "memory_bytes": _maybe(_integer("Live: memory in use")),
        },
    ),
    "events": TableDescription(
        "something that happened once",
        {
            "at_ns": _integer("When"),
            "participant": _text("Participant that it happened to"),
            "flow": _maybe(
                _text(
                    "Flow that the participant receives over the connection in question or, in dumps, sends"
                )
            ),
            "event": _text(
                "`joined`, `signalling_done`, `ice_connected`, `dtls_connected`, `first_frame`, `adapted`, "
                "`page_error`, `interface_failed`, `overloaded` (an SFU that dropped datagrams), `failed` or "
                "`left`; of captures and logs also `route_changed`, of event logs `probe`, of dumps "
                "`codec_changed`, `disconnected`, `ice_disconnected` and `ice_failed`; of pages of your own "
                "also `renegotiated`, `ice_failed`, `closed` (up to 1 s late), `console_error`, `popup`, "
                "`dialog` and `page_silent`"
            ),
            "detail": _text("Details, or empty; `to 1 s` if the log knows the time to a second only"),
        },
    ),
    "paths": TableDescription(
        "the state of a path at each change, and at each second of a ramp or a recorded capacity",
        {
            "at_ns": _integer("Time of the change"),
            "path": _text("Name of the path"),
            "capacity_bps": _maybe(_integer("Capacity; null is unlimited")),
            "one_way_delay_ms": _number("Propagation delay"),
        },
    ),
}
