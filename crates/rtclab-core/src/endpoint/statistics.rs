//! What getStats would report, under the names of W3C webrtc-stats.

use crate::media::encoder::Limitation;
use crate::packet::Kind;
use crate::table::row;

/// Contents of one getStats report.
#[derive(Clone, Debug, PartialEq)]
pub struct Statistics {
    /// One per outbound stream.
    pub outbound: Vec<OutboundRtp>,
    /// One per inbound stream from which anything has arrived.
    pub inbound: Vec<InboundRtp>,
    /// One per outbound stream that the far end has reported on.
    pub remote_inbound: Vec<RemoteInboundRtp>,
    /// The connection.
    pub candidate_pair: CandidatePair,
}

row! {
    /// An outbound stream; totals since its start.
    pub struct OutboundRtp / OutboundRtpColumns {
        /// Its SSRC.
        ssrc: u32 = "ssrc",
        /// Video or audio.
        kind: Kind = "kind",
        /// Packets sent, including retransmissions, FEC and padding.
        packets_sent: u64 = "packetsSent",
        /// Payload bytes of all packets sent, without padding.
        bytes_sent: u64 = "bytesSent",
        /// Bytes of RTP headers sent.
        header_bytes_sent: u64 = "headerBytesSent",
        /// Retransmissions sent.
        retransmitted_packets_sent: u64 = "retransmittedPacketsSent",
        /// Payload bytes of retransmissions sent.
        retransmitted_bytes_sent: u64 = "retransmittedBytesSent",
        /// Rate requested from the encoder, in bit/s.
        target_bitrate: Option<f64> = "targetBitrate",
        /// Frames encoded.
        frames_encoded: Option<u64> = "framesEncoded",
        /// Key frames encoded.
        key_frames_encoded: Option<u64> = "keyFramesEncoded",
        /// Frames handed to the pacer.
        frames_sent: Option<u64> = "framesSent",
        /// Frames much larger than their share of the rate.
        huge_frames_sent: Option<u64> = "hugeFramesSent",
        /// Sum of the quantiser indices of the encoded frames.
        qp_sum: Option<u64> = "qpSum",
        /// Seconds spent encoding.
        total_encode_time: Option<f64> = "totalEncodeTime",
        /// Why frames are smaller than the camera's pictures.
        quality_limitation_reason: Option<Limitation> = "qualityLimitationReason",
        /// Changes of the resolution because of that: Chromium 156 counts none, whatever happens.
        quality_limitation_resolution_changes: Option<u64> = "qualityLimitationResolutionChanges",
        /// Width of the last frame.
        frame_width: Option<u64> = "frameWidth",
        /// Height of the last frame.
        frame_height: Option<u64> = "frameHeight",
        /// Frames per second since the last report.
        frames_per_second: Option<f64> = "framesPerSecond",
        /// Requests for retransmission received.
        nack_count: Option<u64> = "nackCount",
        /// Requests for a key frame received.
        pli_count: Option<u64> = "pliCount",
        /// Packets of all kinds sent as ECT(1); known with RFC 8888 feedback.
        packets_sent_with_ect1: Option<u64> = "packetsSentWithEct1",
    }
}

row! {
    /// An inbound stream; totals since its start.
    pub struct InboundRtp / InboundRtpColumns {
        /// Its SSRC.
        ssrc: u32 = "ssrc",
        /// Video or audio.
        kind: Kind = "kind",
        /// Packets received, including retransmissions.
        packets_received: u64 = "packetsReceived",
        /// Packets expected minus packets received (RFC 3550, 6.4.1); negative with duplicates.
        packets_lost: i64 = "packetsLost",
        /// Payload bytes of all packets received.
        bytes_received: u64 = "bytesReceived",
        /// Bytes of RTP headers received.
        header_bytes_received: u64 = "headerBytesReceived",
        /// Interarrival jitter in seconds.
        jitter: f64 = "jitter",
        /// Complete frames received.
        frames_received: Option<u64> = "framesReceived",
        /// Frames shown.
        frames_decoded: Option<u64> = "framesDecoded",
        /// Frames dropped.
        frames_dropped: Option<u64> = "framesDropped",
        /// Key frames decoded.
        key_frames_decoded: Option<u64> = "keyFramesDecoded",
        /// Decoded frames whose packets did not all arrive at the same time.
        frames_assembled_from_multiple_packets: Option<u64> = "framesAssembledFromMultiplePackets",
        /// Seconds from the first to the last packet, summed over these frames.
        total_assembly_time: Option<f64> = "totalAssemblyTime",
        /// Seconds spent decoding.
        total_decode_time: Option<f64> = "totalDecodeTime",
        /// Seconds from the first packet to the end of decoding, summed over frames.
        total_processing_delay: Option<f64> = "totalProcessingDelay",
        /// Seconds from the first frame to the last.
        total_inter_frame_delay: Option<f64> = "totalInterFrameDelay",
        /// Sum of the squares of the intervals between frames, in s².
        total_squared_inter_frame_delay: Option<f64> = "totalSquaredInterFrameDelay",
        /// Width of the last frame shown.
        frame_width: Option<u64> = "frameWidth",
        /// Height of the last frame shown.
        frame_height: Option<u64> = "frameHeight",
        /// Frames shown per second since the last report.
        frames_per_second: Option<f64> = "framesPerSecond",
        /// Freezes that have ended.
        freeze_count: Option<u64> = "freezeCount",
        /// Seconds spent in freezes that have ended.
        total_freezes_duration: Option<f64> = "totalFreezesDuration",
        /// Pauses that have ended: intervals in which nothing arrived for 5 s.
        pause_count: Option<u64> = "pauseCount",
        /// Seconds spent in pauses that have ended.
        total_pauses_duration: Option<f64> = "totalPausesDuration",
        /// Requests for retransmission sent.
        nack_count: Option<u64> = "nackCount",
        /// Requests for a key frame sent.
        pli_count: Option<u64> = "pliCount",
        /// Seconds spent in the jitter buffer, summed over frames.
        jitter_buffer_delay: Option<f64> = "jitterBufferDelay",
        /// Frames that have left the jitter buffer.
        jitter_buffer_emitted_count: Option<u64> = "jitterBufferEmittedCount",
        /// Retransmissions received.
        retransmitted_packets_received: Option<u64> = "retransmittedPacketsReceived",
        /// Payload bytes of retransmissions received.
        retransmitted_bytes_received: Option<u64> = "retransmittedBytesReceived",
        /// Packets repaired in time.
        packets_repaired: Option<u64> = "packetsRepaired",
        /// FEC packets received.
        fec_packets_received: Option<u64> = "fecPacketsReceived",
        /// Payload bytes of FEC packets received.
        fec_bytes_received: Option<u64> = "fecBytesReceived",
        /// FEC packets that repaired nothing.
        fec_packets_discarded: Option<u64> = "fecPacketsDiscarded",
        /// Target delay of the jitter buffer in seconds, summed over frames or samples.
        jitter_buffer_target_delay: Option<f64> = "jitterBufferTargetDelay",
        /// Delay in seconds that the network alone asks for, summed over frames or samples.
        jitter_buffer_minimum_delay: Option<f64> = "jitterBufferMinimumDelay",
        /// Seconds from the sound output's taking a sample to the loudspeaker, summed over samples.
        total_playout_delay: Option<f64> = "totalPlayoutDelay",
        /// Samples that the sound output has taken.
        total_samples_count: Option<u64> = "totalSamplesCount",
        /// Seconds from the microphone to the loudspeaker, summed over samples that left the jitter buffer. Until the
        /// recorder knows the sender's RTP timestamps, they count from the time that a packet's timestamp would be.
        total_sound_delay: Option<f64> = "totalSoundDelay",
        /// Samples played, concealed ones included.
        total_samples_received: Option<u64> = "totalSamplesReceived",
        /// Samples made up because packets were missing.
        concealed_samples: Option<u64> = "concealedSamples",
        /// Concealed samples that were silence.
        silent_concealed_samples: Option<u64> = "silentConcealedSamples",
        /// Beginnings of concealment.
        concealment_events: Option<u64> = "concealmentEvents",
        /// Samples inserted to slow playout down.
        inserted_samples_for_deceleration: Option<u64> = "insertedSamplesForDeceleration",
        /// Samples removed to speed playout up.
        removed_samples_for_acceleration: Option<u64> = "removedSamplesForAcceleration",
        /// Packets of all kinds received as ECT(1); known with RFC 8888 feedback.
        packets_received_with_ect1: Option<u64> = "packetsReceivedWithEct1",
        /// Packets of all kinds received with a mark; known with RFC 8888 feedback.
        packets_received_with_ce: Option<u64> = "packetsReceivedWithCe",
    }
}

row! {
    /// An outbound stream as the far end reports it.
    pub struct RemoteInboundRtp / RemoteInboundRtpColumns {
        /// Its SSRC.
        ssrc: u32 = "ssrc",
        /// Video or audio.
        kind: Kind = "kind",
        /// Round-trip time in seconds, from the last report that gives one.
        round_trip_time: Option<f64> = "roundTripTime",
        /// Fraction lost in the last interval, 0 to 1.
        fraction_lost: f64 = "fractionLost",
        /// Packets lost since the start; negative with duplicates.
        packets_lost: i64 = "packetsLost",
        /// Interarrival jitter in seconds.
        jitter: f64 = "jitter",
        /// Packets of all kinds that RFC 8888 feedback reported as lost.
        packets_reported_as_lost: Option<u64> = "packetsReportedAsLost",
        /// Of these, packets that it reported as received later.
        packets_reported_as_lost_but_recovered: Option<u64> =
            "packetsReportedAsLostButRecovered",
        /// Packets sent as ECT(1) that it reported as received without an ECN codepoint.
        packets_with_bleached_ect1_marking: Option<u64> = "packetsWithBleachedEct1Marking",
    }
}

row! {
    /// The connection; totals since its start.
    pub struct CandidatePair / CandidatePairColumns {
        /// Round-trip time in seconds of the last answered connectivity check.
        current_round_trip_time: Option<f64> = "currentRoundTripTime",
        /// Target of the congestion control, in bit/s.
        available_outgoing_bitrate: f64 = "availableOutgoingBitrate",
        /// Bytes of RTP headers and payload sent.
        bytes_sent: u64 = "bytesSent",
        /// IP bytes received.
        bytes_received: u64 = "bytesReceived",
        /// RTP packets sent.
        packets_sent: u64 = "packetsSent",
        /// IP packets received.
        packets_received: u64 = "packetsReceived",
        /// RTCP packets of RFC 8888 received.
        ccfb_messages_received: Option<u64> = "ccfbMessagesReceived",
    }
}
