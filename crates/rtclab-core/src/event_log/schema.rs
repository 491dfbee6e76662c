//! The events of a log: number, name and fields of each.
//!
//! Source: libwebrtc, logging/rtc_event_log/rtc_event_log2.proto (August 2026), and the encoder beside it.

/// A kind of event. Its table has the same name.
pub(super) struct EventKind {
    pub(super) number: u32,
    pub(super) name: &'static str,
    /// Field with the number of further events in the same message; 0 if a message is one event.
    pub(super) count: u32,
    pub(super) fields: &'static [Field],
}

/// A field of an event.
pub(super) struct Field {
    pub(super) number: u32,
    /// Field with the column of the further events; 0 if there is none.
    pub(super) column: u32,
    /// Name of the column in the table.
    pub(super) name: &'static str,
    pub(super) form: Form,
}

/// How the value of a field is written.
pub(super) enum Form {
    /// An unsigned integer or a boolean.
    Plain,
    /// An integer with a sign, of 64 bits.
    Signed64,
    /// An integer with a sign, of 32 bits; also in the column.
    Signed32,
    /// A number whose column holds one less.
    LessOne,
    /// One of these, counted from 0. An empty one stands for no value.
    Choice(&'static [&'static str]),
    /// Bytes.
    Blob,
    /// A message with further fields, which share the batch of this one.
    Message(&'static [Field]),
    /// Something that is not read.
    Skipped,
}

use Form::{Blob, Choice, LessOne, Message, Plain, Signed32, Signed64, Skipped};

/// A field whose column has a number of 100 more.
const fn batched(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, column: number + 100, name, form }
}

/// A field of an event that is never batched.
const fn single(number: u32, name: &'static str, form: Form) -> Field {
    Field { number, column: 0, name, form }
}

const TIME: &str = "at_ms";
const fn time() -> Field {
    batched(1, TIME, Signed64)
}
const fn single_time() -> Field {
    single(1, TIME, Signed64)
}

/// States of the delay detector.
const DETECTOR: &[&str] = &["", "normal", "underuse", "overuse"];
const PROBE_FAILURE: &[&str] =
    &["", "invalid_send_receive_interval", "invalid_send_receive_ratio", "timeout"];
const PAIR_CHANGE: &[&str] = &["", "added", "updated", "destroyed", "selected"];
const PAIR_EVENT: &[&str] =
    &["", "check_sent", "check_received", "response_sent", "response_received"];
const CANDIDATE: &[&str] = &["", "host", "srflx", "prflx", "relay"];
const PROTOCOL: &[&str] = &["", "udp", "tcp", "ssltcp", "tls"];
const FAMILY: &[&str] = &["", "ipv4", "ipv6"];
const NETWORK: &[&str] = &["", "ethernet", "wifi", "cellular", "vpn", "loopback"];
const DTLS: &[&str] = &["", "new", "connecting", "connected", "closed", "failed"];
const CODEC: &[&str] = &["", "generic", "VP8", "VP9", "AV1", "H264", "H265"];

const DEPENDENCY: &[Field] = &[
    Field { number: 1, column: 2, name: "frame_start_end", form: Plain },
    Field { number: 3, column: 4, name: "template_id", form: Plain },
    Field { number: 5, column: 6, name: "frame_number", form: Plain },
    single(7, "extended", Skipped),
];

const RTP: &[Field] = &[
    time(),
    batched(2, "marker", Plain),
    batched(3, "payload_type", Plain),
    batched(4, "seq", Plain),
    batched(5, "rtp_timestamp", Plain),
    batched(6, "ssrc", Plain),
    batched(8, "payload_bytes", Plain),
    batched(9, "header_bytes", Plain),
    batched(10, "padding_bytes", Plain),
    batched(15, "transport_seq", Plain),
    batched(16, "transmission_offset", Signed32),
    batched(17, "abs_send_time", Plain),
    batched(18, "video_rotation", Plain),
    batched(19, "audio_level", Plain),
    batched(20, "voice_activity", Plain),
    single(21, "dependency_descriptor", Message(DEPENDENCY)),
    Field { number: 22, column: 121, name: "rtx_original_seq", form: Plain },
];

const RTCP: &[Field] = &[time(), batched(2, "datagram", Blob)];

const EXTENSIONS: &[Field] = &[
    single(1, "transmission_offset_id", Signed32),
    single(2, "abs_send_time_id", Signed32),
    single(3, "transport_seq_id", Signed32),
    single(4, "video_rotation_id", Signed32),
    single(5, "audio_level_id", Signed32),
    single(6, "dependency_descriptor_id", Signed32),
];

/// Names of the tables with RTCP datagrams, whose content becomes tables of its own.
pub(super) const INCOMING_RTCP: &str = "incoming_rtcp";
pub(super) const OUTGOING_RTCP: &str = "outgoing_rtcp";
/// Name of the table with the beginnings of the log.
pub(super) const BEGIN: &str = "begin";

const fn kind(number: u32, name: &'static str, count: u32, fields: &'static [Field]) -> EventKind {
    EventKind { number, name, count, fields }
}

/// All kinds of events, except the legacy event (1) and the `Generic…` packets, which Chromium no longer writes.
pub(super) const KINDS: &[EventKind] = &[
    kind(2, "incoming_rtp", 11, RTP),
    kind(3, "outgoing_rtp", 11, RTP),
    kind(4, INCOMING_RTCP, 3, RTCP),
    kind(5, OUTGOING_RTCP, 3, RTCP),
    // The log calls this SSRC local, but it belongs to the received stream.
    kind(6, "audio_playout", 3, &[time(), batched(2, "remote_ssrc", Plain)]),
    kind(
        7,
        "frame_decoded",
        15,
        &[
            time(),
            batched(2, "ssrc", Plain),
            batched(3, "render_time_ms", Signed64),
            batched(4, "width", Signed32),
            batched(5, "height", Signed32),
            batched(6, "codec", Choice(CODEC)),
            batched(7, "qp", Plain),
        ],
    ),
    kind(
        16,
        BEGIN,
        0,
        &[single_time(), single(2, "version", Plain), single(3, "utc_ms", Signed64)],
    ),
    kind(17, "end", 0, &[single_time()]),
    // The target of goog-cc after all limits, not only the loss-based estimate.
    kind(
        18,
        "target",
        5,
        &[
            time(),
            batched(2, "target_bps", Plain),
            batched(3, "fraction_lost", Plain),
            batched(4, "packets", Plain),
        ],
    ),
    kind(
        19,
        "delay_based",
        4,
        &[time(), batched(2, "rate_bps", Plain), batched(3, "detector_state", Choice(DETECTOR))],
    ),
    kind(
        20,
        "audio_adaptation",
        8,
        &[
            time(),
            batched(2, "rate_bps", Signed32),
            batched(3, "frame_ms", Signed32),
            batched(4, "uplink_loss", Plain),
            batched(5, "fec", Plain),
            batched(6, "dtx", Plain),
            batched(7, "channels", LessOne),
        ],
    ),
    kind(
        21,
        "probe_created",
        0,
        &[
            single_time(),
            single(2, "probe", Plain),
            single(3, "rate_bps", Plain),
            single(4, "min_packets", Plain),
            single(5, "min_bytes", Plain),
        ],
    ),
    kind(
        22,
        "probe_success",
        0,
        &[single_time(), single(2, "probe", Plain), single(3, "rate_bps", Plain)],
    ),
    kind(
        23,
        "probe_failure",
        0,
        &[single_time(), single(2, "probe", Plain), single(3, "reason", Choice(PROBE_FAILURE))],
    ),
    kind(24, "alr", 0, &[single_time(), single(2, "in_alr", Plain)]),
    kind(
        25,
        "candidate_pair_config",
        0,
        &[
            single_time(),
            single(2, "change", Choice(PAIR_CHANGE)),
            single(3, "pair", Plain),
            single(4, "local_candidate", Choice(CANDIDATE)),
            single(5, "relay_protocol", Choice(PROTOCOL)),
            single(6, "network", Choice(NETWORK)),
            single(7, "local_family", Choice(FAMILY)),
            single(8, "remote_candidate", Choice(CANDIDATE)),
            single(9, "remote_family", Choice(FAMILY)),
            single(10, "protocol", Choice(PROTOCOL)),
        ],
    ),
    kind(
        26,
        "candidate_pair_event",
        0,
        &[
            single_time(),
            single(2, "event", Choice(PAIR_EVENT)),
            single(3, "pair", Plain),
            single(4, "transaction", Plain),
        ],
    ),
    kind(27, "dtls_state", 0, &[single_time(), single(2, "state", Choice(DTLS))]),
    kind(28, "dtls_writable", 0, &[single_time(), single(2, "writable", Plain)]),
    kind(
        32,
        "route_change",
        0,
        &[single_time(), single(2, "connected", Plain), single(3, "overhead_bytes", Plain)],
    ),
    kind(
        33,
        "remote_estimate",
        4,
        &[time(), batched(2, "lower_kbps", Plain), batched(3, "upper_kbps", Plain)],
    ),
    kind(
        34,
        "neteq_minimum_delay",
        4,
        &[time(), batched(2, "remote_ssrc", Plain), batched(3, "delay_ms", Signed32)],
    ),
    kind(
        35,
        "scream",
        15,
        &[
            time(),
            batched(2, "ref_window_bytes", Plain),
            batched(3, "target_kbps", Plain),
            batched(4, "smoothed_rtt_ms", Plain),
            batched(5, "queue_delay_ms", Plain),
            batched(6, "l4s_marked_permille", Plain),
            batched(7, "in_flight_bytes", Plain),
        ],
    ),
    kind(
        101,
        "audio_receive_config",
        0,
        &[
            single_time(),
            single(2, "remote_ssrc", Plain),
            single(3, "local_ssrc", Plain),
            single(5, "extensions", Message(EXTENSIONS)),
        ],
    ),
    kind(
        102,
        "audio_send_config",
        0,
        &[single_time(), single(2, "ssrc", Plain), single(4, "extensions", Message(EXTENSIONS))],
    ),
    kind(
        103,
        "video_receive_config",
        0,
        &[
            single_time(),
            single(2, "remote_ssrc", Plain),
            single(3, "local_ssrc", Plain),
            single(4, "rtx_ssrc", Plain),
            single(5, "extensions", Message(EXTENSIONS)),
        ],
    ),
    kind(
        104,
        "video_send_config",
        0,
        &[
            single_time(),
            single(2, "ssrc", Plain),
            single(3, "rtx_ssrc", Plain),
            single(4, "extensions", Message(EXTENSIONS)),
        ],
    ),
];
