//! What a browser of a certain year did apart from its congestion control.
//!
//! A congestion control turns feedback into a decision. Everything else that changed from release to release
//! is in a [`StackProfile`], named after the browser that had it.

use crate::media::encoder::{EncoderControl, EncoderModel};
use crate::media::pacer::Pacing;
use crate::media::playout::PlayoutRule;
use crate::media::repair::{Repair, Retransmission};
use crate::units::Time;

/// Everything that depends on the era rather than on the congestion control.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StackProfile {
    /// Browser and release: `chrome-27`.
    pub name: &'static str,
    /// What a receiver tells a sender about arrivals.
    pub feedback: FeedbackKind,
    /// When reports are sent, and what they contain.
    pub rtcp: RtcpSchedule,
    /// Whether round trips are computed from times in whole milliseconds.
    pub round_trips_in_ms: bool,
    /// How packets are paced.
    pub pacing: Pacing,
    /// Which bytes count towards the target rate.
    pub rate_accounting: RateAccounting,
    /// How lost video is repaired, if the scenario does not say.
    pub repair: Repair,
    /// When packets are requested again, and what a sender keeps.
    pub retransmission: Retransmission,
    /// How long a receiver holds pictures back.
    pub playout: PlayoutRule,
    /// Which rate is requested from the encoder.
    pub encoder_control: EncoderControl,
    /// How the encoder is modelled.
    pub encoder_model: EncoderModel,
    /// How calls are set up.
    pub setup: SetupProfile,
    /// Whether packets of sound carry its level (RFC 6464). The published measurements are reproduced without.
    pub audio_level: bool,
    /// Whether the receiver of its audio has a jitter buffer, and statistics of it.
    pub plays_audio: bool,
    /// Time between the socket and libwebrtc's network thread, which is in another process. A round trip that a
    /// browser reports contains it four times.
    pub socket_way: Time,
}

/// How calls are set up. A call is set up as the oldest of the stacks in it does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetupProfile {
    /// Descriptions in bursts through the signalling server, which take no work, checks every 50 ms and
    /// DTLS 1.2. The published measurements are reproduced with this.
    Bursts,
    /// As a plain page does it: a WebSocket to the signalling server, and candidates that follow their
    /// description. The work of page and browser takes time, and the handshake is DTLS 1.3.
    Page,
}

/// What a receiver tells a sender about arrivals, apart from receiver reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FeedbackKind {
    /// Transport-wide feedback of every packet.
    TransportWide,
    /// Arrival and ECN codepoint of every packet, stream by stream (RFC 8888). Packets need no transport-wide sequence
    /// number, and are ECN-capable.
    Rfc8888,
    /// REMB from the receiver half of the congestion control.
    Remb {
        /// Whether a REMB is sent at once, in an extra report, or with the next regular report.
        at_once: bool,
        /// Whether the receiver half is told of packets that FEC recovers.
        with_recovered: bool,
    },
}

impl FeedbackKind {
    /// Whether packets have the header extension with a transport-wide sequence number. A description with
    /// `ack ccfb` drops it together with `transport-cc`: event logs of such calls of Chromium 156 have none.
    pub const fn has_transport_sequence(self) -> bool {
        !matches!(self, FeedbackKind::Rfc8888)
    }
}

/// When reports are sent, and what they contain.
///
/// Audio has reports of its own in every era, every five seconds on average: voice and video were separate engines
/// until 2016 and are separate modules since. Its loss counts for the congestion control only in a call without
/// video, or where the schedule says so.
///
/// Source: libwebrtc 4d06db557a (2013), `rtcp_sender.cc`, `voice_engine/channel.cc`; since 2018
/// `audio/channel_send.cc` and `channel_receive.cc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RtcpSchedule {
    /// One report on all video received, in the sender report on video if there is one, and one on all audio
    /// received, in the sender report on audio if there is one.
    Joint,
    /// Each video stream has its own RTCP. Its sender reports, which also carry REMB, have no report blocks;
    /// receiver reports on video are sent once a second at any bitrate. Audio is as in [`RtcpSchedule::Joint`].
    ///
    /// Source: libwebrtc 83d0910694 (2016), `video_send_stream.cc` (its module has no receive statistics,
    /// sends REMB and alone observes bandwidth), `vie_remb.cc`, `rtcp_sender.cc`.
    PerStream,
    /// Since 2018. Sender reports have no report blocks. Receiver reports on video, and on its retransmissions,
    /// are sent once a second, and receiver reports on audio every five seconds. The side that sent the offer puts a receiver
    /// report on video before every request (RFC 4585, section 3.1); the side that answered sends requests alone
    /// (RFC 5506).
    /// All blocks of a packet count together as one report of loss.
    ///
    /// Source: libwebrtc, `rtcp_sender.cc`, `rtp_transport_controller_send.cc` (`OnReport`); which side sends
    /// compound packets was measured in 70 event logs of 36 calls of Chromium 156.
    PerMedia,
}

/// Which bytes count towards the target rate of a congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RateAccounting {
    /// Whole packets of all streams, including headers.
    Packets,
    /// Payloads of video packets: until 2019, and since then without transport-wide feedback, headers and audio come on
    /// top of the controlled rate.
    Payloads,
}

/// libwebrtc in 2016: packets leave at this multiple of the target (`paced_sender.h`).
const PACING_FACTOR_2016: f64 = 2.5;
/// libwebrtc in 2016: the queue is checked 5 ms after the last time (`paced_sender.cc`, kMinPacketLimitMs), by a thread
/// that waits for whole milliseconds (`process_thread_impl.cc`). Linux wakes it later by its timer slack of 50 us and a
/// little more: measured, 5.09 ms (median of 400). So two checks are never within the 5 ms of one group of packets
/// (`inter_arrival.cc`), and not in step with the milliseconds of an emulator.
const PACING_TICK_2016: Time = Time::from_micros(5_090);
/// libwebrtc in 2026: a camera's packets leave at this multiple of the target, unless the congestion control sets
/// a pacing rate (`video_send_stream_impl.cc`, kDefaultPacingFactor).
const PACING_FACTOR: f64 = 1.1;

/// Measured as a quarter of what 50 live calls of Chromium 156 (the odd half of docs/data/twin.csv) report beyond the
/// simulated round trip: 1.6 ms, the median over calls and directions.
const SOCKET_WAY: Time = Time::from_micros(400);

const CHROME_27: StackProfile = StackProfile {
    name: "chrome-27",
    feedback: FeedbackKind::Remb { at_once: false, with_recovered: true },
    rtcp: RtcpSchedule::Joint,
    round_trips_in_ms: true,
    pacing: Pacing::None,
    rate_accounting: RateAccounting::Payloads,
    repair: Repair::Hybrid2013,
    retransmission: Retransmission::Until2024,
    playout: PlayoutRule::Peak,
    encoder_control: EncoderControl::AsksForAll,
    encoder_model: EncoderModel::Rfc8593,
    setup: SetupProfile::Bursts,
    audio_level: false,
    plays_audio: false,
    socket_way: Time::ZERO,
};

const CHROME_52: StackProfile = StackProfile {
    name: "chrome-52",
    feedback: FeedbackKind::Remb { at_once: true, with_recovered: false },
    rtcp: RtcpSchedule::PerStream,
    round_trips_in_ms: false,
    pacing: Pacing::Ticks { factor: PACING_FACTOR_2016, tick: PACING_TICK_2016 },
    repair: Repair::Rtx,
    ..CHROME_27
};

const CHROME_156: StackProfile = StackProfile {
    name: "chrome-156",
    feedback: FeedbackKind::TransportWide,
    rtcp: RtcpSchedule::PerMedia,
    round_trips_in_ms: false,
    pacing: Pacing::Burst { factor: PACING_FACTOR, burst: Time::from_millis(40) },
    rate_accounting: RateAccounting::Packets,
    repair: Repair::RtxAndUlpfec,
    retransmission: Retransmission::Since2024,
    playout: PlayoutRule::JitterEstimate,
    encoder_control: EncoderControl::LeavesRoom,
    encoder_model: EncoderModel::Libvpx,
    setup: SetupProfile::Page,
    audio_level: true,
    plays_audio: true,
    socket_way: SOCKET_WAY,
};

/// All profiles, oldest first.
pub const PROFILES: [StackProfile; 6] = [
    CHROME_27,
    // The publication with its congestion controls does not say how losses were repaired: as in 2013.
    StackProfile { name: "chrome-45", repair: Repair::Hybrid2013, ..CHROME_52 },
    CHROME_52,
    CHROME_156,
    // A page that removes transport-wide feedback from its descriptions. Without it headers and audio do not count
    // in the target (libwebrtc f3ae3eb62e, `rtp_video_sender.cc` and `audio_send_stream.cc`), and REMB leaves at
    // once (`rtcp_sender.cc`).
    StackProfile {
        name: "chrome-156-remb",
        feedback: FeedbackKind::Remb { at_once: true, with_recovered: false },
        rate_accounting: RateAccounting::Payloads,
        ..CHROME_156
    },
    // With the field trial WebRTC-RFC8888CongestionControlFeedback/Enabled,offer:true/ at both ends.
    StackProfile { name: "chrome-156-ccfb", feedback: FeedbackKind::Rfc8888, ..CHROME_156 },
];

impl StackProfile {
    /// The profile with this name.
    pub fn named(name: &str) -> Option<&'static StackProfile> {
        static ALL: [StackProfile; PROFILES.len()] = PROFILES;
        ALL.iter().find(|profile| profile.name == name)
    }
}
