"""The tables of a trace: what a row is and what each column holds, also for the generated documentation."""

from __future__ import annotations

from typing import NamedTuple

import polars as pl


class Column(NamedTuple):
    """A column: its type, its meaning, and whether it may be null."""

    dtype: pl.DataType
    meaning: str
    nullable: bool


class TableDescription(NamedTuple):
    """A table: what one row is, and the columns in order."""

    row: str
    columns: dict[str, Column]


_TYPES = {"int": pl.Int64(), "float": pl.Float64(), "text": pl.String(), "flag": pl.Boolean()}


def _table(text: str) -> TableDescription:
    """A table from its text: what one row is, and then a line ``NAME TYPE: MEANING`` for each column.

    The type of a column that may be null ends with a question mark.
    """
    row, *lines = (" ".join(line.split()) for line in text.splitlines() if line.strip())
    columns = {}
    for line in lines:
        about, _, meaning = line.partition(": ")
        name, dtype = about.split()
        columns[name] = Column(_TYPES[dtype.removesuffix("?")], meaning, dtype.endswith("?"))
    return TableDescription(row, columns)


_OF_STREAM = """\
at_ns int: When the report was made
participant text: Who reports
flow text: Flow that the stream belongs to
ssrc int: SSRC of the stream
kind text: `video` or `audio`
"""
_PICTURE = """\
frameWidth int?: Width of the last frame, in pixels
frameHeight int?: Height of the last frame, in pixels
framesPerSecond float?: Frames in the last second
"""

TABLES: dict[str, TableDescription] = {
    "packets": _table("""
        one packet
        sent_ns int: When the sender sent it
        packet int?: Its number in the repeat, by which `hops` names it; null in captures, in logs, and in \
            traces of schema 8
        delivered_ns int?: When the model delivered it
        written_ns int?: Live: when its frame was actually written
        queued_ns int?: How long a delivered packet waited in the queues of its route, all legs behind a \
            relay or server included; null in captures and logs
        queued_path text?: Path of these in whose queue it waited longest; null if it waited in none, in \
            captures, in logs, and in traces of schema 8
        held_ns int?: How long servers held a delivered packet between its legs, 0 without a server; null in \
            captures and logs
        dropped_ns int?: When it was dropped
        drop_cause text?: `queue` (it was full), `aqm` (the queue signalled congestion) or `loss`
        drop_path text?: Path that dropped it
        ecn text?: ECN codepoint when sent: `not-ect`, `ect0`, `ect1` or `ce`; null in logs of browsers
        mark_path text?: First path whose queue marked it; null if it did not arrive with a mark, and in \
            captures
        mark_cause text?: Why: `classic` (in place of a drop), `threshold` (it had waited for too long) or \
            `coupled` (to the drops of classic traffic)
        flow text: Flow that it belongs to
        size_bytes int: IP total length
        protocol text: `rtp`, `rtcp`, `stun`, `dtls`, `other`, and `tcp` or `udp` of cross traffic
        kind text?: RTP: `video`, `audio`, `rtx`, `fec` or `padding`
        ssrc int?: RTP: SSRC
        payload_type int?: RTP: payload type
        seq int?: RTP: sequence number
        rtp_timestamp int?: RTP: timestamp
        marker flag?: RTP: marker bit, set on the last packet of a frame
    """),
    "hops": _table("""
        a further queue in which a delivered packet waited, beside the one of its `queued_path`, in which it \
            waited for the rest of its `queued_ns`
        flow text: Flow of the packet
        packet int: Number of the packet in `packets`
        path text: Path whose queue it was
        queued_ns int: How long the packet waited in it
    """),
    "flow_seconds": _table("""
        one second of a flow; packets sent after the flow's end do not count
        at_ns int: Start of the second
        flow text: The flow
        sent_packets int: Packets sent
        sent_bytes int: Bytes sent, IP total length
        delivered_packets int: Packets delivered
        delivered_bytes int: Bytes delivered, IP total length
        dropped_packets int: Packets dropped
        media_sent_packets int?: First transmissions of media sent; FEC is among them if it cannot be told \
            apart
        media_dropped_packets int?: Those of them that were dropped
        fec_sent_packets int?: FEC packets sent; null if RED may hide FEC among media
        fec_dropped_packets int?: FEC packets dropped; null like `fec_sent_packets`
        ect_packets int?: ECN-capable packets sent, with ECT(0), ECT(1) or CE; null in logs of browsers
        ect_delivered_packets int?: Packets delivered that were sent ECN-capable
        marked_packets int?: The ones that arrived and were marked on the way
        aqm_dropped_packets int?: Packets dropped because a queue signalled congestion; null if causes are \
            not known
        one_way_delay_min_ms float?: Smallest one-way delay of the delivered packets
        one_way_delay_mean_ms float?: Mean one-way delay
        one_way_delay_max_ms float?: Largest one-way delay
    """),
    "delay_histogram": _table("""
        the packets of a flow whose one-way delay is in a bin of 0.1 ms
        flow text: The flow
        one_way_delay_ms float: Lower edge of the bin
        packets int: Packets delivered with this delay
    """),
    "queuing_histogram": _table("""
        the packets of a flow whose queuing delay is in a bin of 0.1 ms; none in captures and logs
        flow text: The flow
        queuing_delay_ms float: Lower edge of the bin
        packets int: Packets delivered with this queuing delay
    """),
    "outbound_rtp": _table(f"""
        a report of a sender on one of its streams, once a second
        {_OF_STREAM}
        packetsSent int: RTP packets sent, retransmissions included
        bytesSent int: Payload bytes sent, retransmissions included
        headerBytesSent int?: Bytes of RTP headers and padding sent
        retransmittedPacketsSent int?: Packets sent again because they were lost
        retransmittedBytesSent int?: Payload bytes of these packets
        targetBitrate float?: Target rate of the encoder, in bit/s
        framesEncoded int?: Frames encoded
        keyFramesEncoded int?: Key frames encoded
        framesSent int?: Frames sent
        hugeFramesSent int?: Frames sent that were larger than 2.5 times the mean
        qpSum int?: Sum of the quantiser indices of the encoded frames
        totalEncodeTime float?: Time spent on encoding, in seconds
        totalPacketSendDelay float?: Sum of the times that packets waited in the pacer, in seconds
        qualityLimitationReason text?: Why size or frame rate is reduced: `none`, `bandwidth`, `cpu` or \
            `other`
        qualityLimitationDurationCpu float?: Live: time limited by the CPU, in seconds; \
            `qualityLimitationDurations.cpu` in W3C
        qualityLimitationDurationBandwidth float?: Live: time limited by the bandwidth, in seconds
        qualityLimitationDurationOther float?: Live: time limited by something else, in seconds
        qualityLimitationResolutionChanges int?: Changes of the resolution because of a limitation
        mimeType text?: Live and dumps: codec in use, such as `video/VP8`
        encoderImplementation text?: Live: encoder, as the browser names it
        powerEfficientEncoder flag?: Live: whether the encoder saves power, as hardware does
        {_PICTURE}
        nackCount int?: NACKs received
        pliCount int?: Requests for a key frame (PLI) received
        packetsSentWithEct1 int?: Packets sent as ECT(1); known with RFC 8888 feedback
    """),
    "inbound_rtp": _table(f"""
        a report of a receiver on one stream, once a second
        {_OF_STREAM}
        packetsReceived int: RTP packets received
        packetsLost int?: Packets expected minus packets received; RFC 3550
        bytesReceived int: Payload bytes received
        headerBytesReceived int?: Bytes of RTP headers and padding received
        jitter float?: Interarrival jitter in seconds; RFC 3550
        mimeType text?: Live and dumps: codec in use, such as `video/VP8`
        decoderImplementation text?: Live: decoder, as the browser names it
        powerEfficientDecoder flag?: Live: whether the decoder saves power, as hardware does
        framesReceived int?: Complete frames received
        framesDecoded int?: Frames decoded
        framesDropped int?: Frames dropped before or after decoding
        keyFramesDecoded int?: Key frames decoded
        framesAssembledFromMultiplePackets int?: Frames of more than one packet
        totalAssemblyTime float?: Sum of the times from the first to the last packet of those frames, in \
            seconds
        totalDecodeTime float?: Time spent on decoding, in seconds
        totalProcessingDelay float?: Sum of the times from first packet to end of decoding, in seconds
        totalInterFrameDelay float?: Sum of the intervals between decoded frames, in seconds
        totalSquaredInterFrameDelay float?: Sum of the squares of those intervals, in square seconds
        {_PICTURE}
        freezeCount int?: Number of freezes that have ended
        totalFreezesDuration float?: Length of all freezes that have ended, in seconds
        pauseCount int?: Pauses of more than 5 s that have ended
        totalPausesDuration float?: Length of all pauses that have ended, in seconds
        nackCount int?: NACKs sent
        pliCount int?: Requests for a key frame (PLI) sent
        jitterBufferDelay float?: Sum of the times that frames or samples waited for playout, in seconds
        jitterBufferEmittedCount int?: Frames or samples that left the jitter buffer
        jitterBufferTargetDelay float?: Sum of the delays that the jitter buffer aimed at, in seconds
        jitterBufferMinimumDelay float?: Sum of the delays that network conditions alone asked for, in \
            seconds
        totalPlayoutDelay float?: Sum of the times from the jitter buffer to the loudspeaker, over the \
            samples that the sound output took, in seconds; of `media-playout` in W3C
        totalSamplesCount int?: Audio samples that the sound output took; of `media-playout` in W3C
        totalSoundDelay float?: Simulated: sum of the times from the microphone to the loudspeaker, over the \
            samples that left the jitter buffer, in seconds
        totalSamplesReceived int?: Audio samples played, concealed ones included
        concealedSamples int?: Audio samples made up because of missing packets
        silentConcealedSamples int?: Concealed samples that were silence or noise
        concealmentEvents int?: Beginnings of concealment
        insertedSamplesForDeceleration int?: Samples inserted to slow audio down
        removedSamplesForAcceleration int?: Samples removed to speed audio up
        retransmittedPacketsReceived int?: Retransmissions received, with padding that repeats packets; \
            known with RTX
        retransmittedBytesReceived int?: Payload bytes of these retransmissions
        packetsRepaired int?: Packets repaired in time by retransmission or FEC (provisional in W3C); \
            simulated only, no browser counts them
        fecPacketsReceived int?: FEC packets received; of audio, media packets with FEC inside
        fecBytesReceived int?: Payload bytes of FEC packets received
        fecPacketsDiscarded int?: FEC packets that were not needed
        packetsReceivedWithEct1 int?: Packets received as ECT(1); known with RFC 8888 feedback
        packetsReceivedWithCe int?: Packets received with a mark of a queue; known with RFC 8888 feedback
    """),
    "remote_inbound_rtp": _table(f"""
        a report of a sender on what RTCP said about one of its streams
        {_OF_STREAM}
        roundTripTime float?: Round-trip time in seconds; RFC 3550
        fractionLost float?: Share of packets lost since the last report, 0 to 1
        packetsLost int?: Packets lost so far, as reported
        jitter float?: Interarrival jitter in seconds, as reported
        packetsReportedAsLost int?: Packets that RFC 8888 feedback reported as lost
        packetsReportedAsLostButRecovered int?: Of these, packets that it reported as received later
        packetsWithBleachedEct1Marking int?: Packets sent as ECT(1) that it reported as received without an \
            ECN codepoint
    """),
    "candidate_pair": _table("""
        a report of a participant on a connection, once a second
        at_ns int: When the report was made
        participant text: Who reports
        flow text: Flow that the participant sends over the connection or, if it sends none, receives
        currentRoundTripTime float?: Last round-trip time of STUN, in seconds
        availableOutgoingBitrate float?: Estimate of the congestion control, in bit/s
        bytesSent int?: Bytes sent, without IP and UDP headers
        bytesReceived int?: Bytes received, without IP and UDP headers
        packetsSent int?: Packets sent
        packetsReceived int?: Packets received
        ccfbMessagesReceived int?: RTCP packets of RFC 8888 received; in W3C a statistic of the transport
    """),
    "frames": _table("""
        one frame of video that was shown
        flow text: Flow that it belongs to
        ssrc int: SSRC of its stream
        rtp_timestamp int: RTP timestamp
        captured_ns int?: When the camera took it; of a composed picture, the mean over the cameras in \
            it; live, from the sender's reports, or as the receiver supposes if there is no event log
        received_ns int?: When its last packet arrived
        rendered_ns int?: When it was shown, or given to the decoder of a server that mixes
        encode_begin_ns int?: Simulated: when its encoding began
        encoded_ns int?: Simulated: when it was encoded
        decode_ns int?: How long it was in the decoder
        display_ns int?: Live: how long it waited for the screen when the page had it
        width int: Width in pixels
        height int: Height in pixels
        size_bytes int?: Size of the encoded frame
    """),
    "controller": _table("""
        one internal value of a congestion control
        at_ns int: When
        participant text: Participant that computes it: the flow's sender, or its receiver for the receive \
            side
        flow text: Flow that is controlled
        name text: Name of the value; its suffix is its unit. Values of a browser have the simulator's names
        value float: The value
    """),
    "tcp": _table("""
        the state of a TCP flow, once a second
        at_ns int: When
        flow text: The flow
        connections int?: Open connections
        cwnd_segments int?: Congestion window, summed over the connections
        srtt_ms float?: Smoothed round-trip time, mean over the connections
        delivered_bytes int: Bytes delivered in order to the application so far
        retransmitted_segments int?: Segments sent again so far
        timeouts int?: Retransmission timeouts so far; null in live calls
        objects int: Objects finished so far
    """),
    "host": _table("""
        the load of a machine in the last second: live, of a browser's or MCU's processes; simulated, of a \
            `host`
        at_ns int: End of the second
        participant text: Participant, or server that mixes, whose machine it is
        cpu_percent float: CPU use in per cent; 100 is one core, or the one processor of a `host`
        memory_bytes int?: Live: memory in use
        cpu_limit_percent float?: Live: the most CPU that the scenario lets it use; null without a limit
    """),
    "events": _table("""
        something that happened once
        at_ns int: When
        participant text: Participant that it happened to
        flow text?: Flow that the participant receives over the connection in question or, in dumps, sends
        event text: `joined`, `signalling_done`, `ice_connected`, `dtls_connected`, `first_frame`, \
            `adapted`, `page_error`, `interface_failed`, `overloaded` (an SFU that dropped datagrams), \
            `failed` or `left`; of captures and logs also `route_changed`, of event logs `probe`, of dumps \
            `codec_changed`, `disconnected`, `ice_disconnected` and `ice_failed`; of pages of your own also \
            `renegotiated`, `ice_failed`, `closed` (up to 1 s late), `console_error`, `popup`, `dialog` and \
            `page_silent`
        detail text: Details, or empty; `to 1 s` if the log knows the time to a second only
    """),
    "paths": _table("""
        the state of a path at each change, and at each second of a ramp or a recorded capacity
        at_ns int: Time of the change
        path text: Name of the path
        capacity_bps int?: Capacity; null is unlimited
        one_way_delay_ms float: Propagation delay
    """),
}
