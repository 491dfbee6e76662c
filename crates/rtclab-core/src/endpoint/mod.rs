//! A participant's end of a connection: set-up, media, congestion control and RTCP.

mod ends;
mod forwarder;
mod history;
mod receiver;
mod reception;
mod reports;
mod rtp_format;
mod sender;
mod setup;
mod stats;
mod turn;
mod wire;

use crate::cc::{ConfigError, CongestionControlConfig, PacketReport};
use crate::media::encoder::VideoConfig;
use crate::media::repair::Repair;
use crate::network::NodeId;
use crate::record::Detail;
use crate::rtp::{Protocol, classify};
use crate::units::{Bitrate, Bytes, Time};
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use receiver::Receiver;
use sender::Sender;
use serde::{Deserialize, Serialize};
use setup::{Setup, Step};
use std::collections::BTreeMap;

pub use ends::{End, Ends};
pub use forwarder::{Forwarder, ForwarderConfig, Forwarding};
pub use rtp_format::Ssrcs;
pub use wire::{Arrival, Delivery, Port, Socket, Wire};

/// The rate of frames that the overhead of headers is computed for at least.
const FRAMES_PER_SECOND_FLOOR: f64 = 30.0;

/// A constant-rate audio stream, as Opus without silence suppression would be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AudioConfig {
    /// Rate of the codec.
    pub bitrate_bps: Bitrate,
    /// Length of sound in a packet.
    pub frame_ns: Time,
}

impl AudioConfig {
    fn payload(&self) -> Bytes {
        self.bitrate_bps.bytes_in(self.frame_ns)
    }

    /// Rate on the wire, headers included.
    fn wire_rate(&self) -> Bitrate {
        let size =
            rtp_format::packet_size(Repair::None, crate::media::Kind::Audio, self.payload().0);
        Bitrate(
            (u128::from(size.bits()) * 1_000_000_000 / u128::from(self.frame_ns.0.max(1))) as u64,
        )
    }
}

/// What one side of a connection sends, and how.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Video that it sends.
    pub video: Option<VideoConfig>,
    /// Audio that it sends.
    pub audio: Option<AudioConfig>,
    /// Video and audio that the other side sends.
    pub remote_media: (Option<VideoConfig>, Option<AudioConfig>),
    /// A server's end: it gives feedback on what it receives, and shows nothing.
    pub server: bool,
    /// Congestion control of what it sends.
    pub congestion_control: CongestionControlConfig,
    /// Congestion control of what the other side sends; a receiver half of it runs here.
    pub remote_congestion_control: CongestionControlConfig,
    /// Loss repair of the video that it sends.
    pub repair: Repair,
    /// Loss repair of the video that the other side sends.
    pub remote_repair: Repair,
    /// Code of its participant's name in the record.
    pub participant: u16,
    /// Where servers live.
    pub core: NodeId,
    /// Whether it sends the offer.
    pub offerer: bool,
    /// When the connection begins.
    pub start: Time,
    /// When it ends.
    pub end: Time,
    /// Random stream of this side.
    pub seed: u64,
}

/// One side of a connection.
pub struct Peer {
    config: PeerConfig,
    port: Port,
    back: Port,
    ssrcs: Ssrcs,
    setup: Setup,
    announced: Step,
    joined: bool,
    left: bool,
    sender: Sender,
    receiver: Receiver,
    timers: Timers,
    rng: Pcg64Mcg,
    first_frame: bool,
    stats: stats::Counters,
    names: BTreeMap<&'static str, u16>,
    reports: Vec<PacketReport>,
    /// What the other side adds to its RTP timestamps; turns them into capture times for the trace.
    timestamp_offset: u32,
}

/// Timeouts of the parts, kept because most events touch only one of them; `Time::MAX` for none.
struct Timers {
    setup: Time,
    sender: Time,
    receiver: Time,
    report: Time,
    receiver_report: Time,
}

impl Timers {
    fn next(&self) -> Time {
        let media = self.setup.min(self.sender).min(self.receiver);
        media.min(self.report).min(self.receiver_report)
    }
}

fn or_never(timeout: Option<Time>) -> Time {
    timeout.unwrap_or(Time::MAX)
}

impl Peer {
    /// One side; `port` leads to the other, `back` from it. `remote_seed` is the other side's seed.
    ///
    /// # Errors
    /// No congestion control of that name, or no such option.
    pub fn new(
        config: PeerConfig,
        port: Port,
        back: Port,
        (ssrcs, remote): (Ssrcs, Ssrcs),
        remote_seed: u64,
    ) -> Result<Self, ConfigError> {
        let media = (config.video, config.audio);
        let (controller, _) = sender::halves(media, &config.congestion_control)?;
        let (_, estimator) =
            sender::halves(config.remote_media, &config.remote_congestion_control)?;
        Ok(Peer {
            setup: Setup::new(port, back.socket, config.core, config.offerer, config.start),
            announced: Step::New,
            joined: false,
            left: false,
            sender: Sender::new(&config, port, ssrcs, controller),
            receiver: Receiver::new(
                port,
                ssrcs.video,
                remote,
                (config.remote_repair, !config.server),
                estimator,
            ),
            timers: Timers {
                setup: config.start,
                sender: Time::MAX,
                receiver: Time::MAX,
                report: Time::MAX,
                receiver_report: Time::MAX,
            },
            rng: Pcg64Mcg::seed_from_u64(config.seed ^ 0x7274_6370),
            first_frame: false,
            stats: stats::Counters::default(),
            names: BTreeMap::new(),
            reports: Vec::new(),
            timestamp_offset: remote_seed as u32,
            config,
            port,
            back,
            ssrcs,
        })
    }

    /// When to call [`Peer::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.joined {
            // A connection of no length never begins.
            return (self.config.start < self.config.end).then_some(self.config.start);
        }
        (!self.left).then_some(self.timers.next().min(self.config.end))
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, wire: &mut Wire) {
        if now >= self.config.end {
            self.left = true;
            self.person_event(now, "left", wire);
            return;
        }
        if !self.joined {
            self.joined = true;
            self.person_event(now, Step::New.event(), wire);
        }
        if self.timers.setup <= now {
            self.setup.on_timeout(now, wire);
            self.after_setup(now, wire);
        }
        if self.timers.sender <= now {
            self.sender.on_timeout(now, wire);
            self.timers.sender = or_never(self.sender.poll_timeout());
        }
        if self.timers.receiver <= now {
            let target = self.sender.target();
            self.receiver.on_timeout(now, target, self.sender.rtt, wire);
            self.show_frames(now, wire);
            self.timers.receiver = or_never(self.receiver.poll_timeout());
            self.after_estimator(now, wire);
        }
        if self.timers.report <= now {
            self.send_report(now, wire);
        }
        if self.timers.receiver_report <= now {
            self.send_receiver_report(now, wire);
        }
    }

    /// A datagram arrived.
    pub fn handle_datagram(&mut self, now: Time, bytes: &[u8], size: Bytes, wire: &mut Wire) {
        if now >= self.config.end {
            return;
        }
        self.stats.received(size);
        match classify(bytes) {
            Protocol::Rtp => {
                let frame_end = self.receiver.on_rtp(now, bytes, size, self.sender.rtt, wire);
                if frame_end && wire.recorder.detail() == Detail::Packets {
                    self.observe_estimator(now, wire);
                }
                self.timers.receiver = or_never(self.receiver.poll_timeout());
                self.after_estimator(now, wire);
                return;
            }
            Protocol::Rtcp => self.on_rtcp(now, bytes, wire),
            Protocol::Stun => self.setup.on_stun(now, bytes, wire),
            Protocol::Dtls => self.setup.on_dtls(now, bytes, wire),
            Protocol::TurnChannel => {}
            Protocol::Other => self.setup.on_signalling(now, bytes, wire),
        }
        self.after_setup(now, wire);
        self.timers.sender = or_never(self.sender.poll_timeout());
    }

    /// Asks the other side for a key frame, for someone to whom its media are passed on.
    pub fn request_key_frame(&mut self, now: Time, wire: &mut Wire) {
        if self.setup.step == Step::DtlsConnected && now < self.config.end {
            self.receiver.send_key_request(now, wire);
        }
    }

    /// Writes the statistics of the second that ends now.
    pub fn write_stats(&mut self, now: Time, wire: &mut Wire) {
        if self.setup.step == Step::DtlsConnected && now <= self.config.end {
            self.write_stat_rows(now, wire);
            if wire.recorder.detail() == Detail::Seconds {
                self.observe(now, wire);
                self.observe_estimator(now, wire);
            }
        }
    }

    fn after_setup(&mut self, now: Time, wire: &mut Wire) {
        self.timers.setup = or_never(self.setup.poll_timeout());
        while self.announced < self.setup.step {
            self.announced = match self.announced {
                Step::New => Step::Signalled,
                Step::Signalled => Step::IceConnected,
                Step::IceConnected | Step::DtlsConnected => Step::DtlsConnected,
            };
            self.event(now, self.announced.event(), wire);
            if self.announced == Step::DtlsConnected {
                self.sender.start(now, &self.config);
                self.timers.sender = or_never(self.sender.poll_timeout());
                self.schedule_report(now);
                if self.streams_apart() {
                    self.schedule_receiver_report(now);
                }
            }
        }
    }

    fn show_frames(&mut self, now: Time, wire: &mut Wire) {
        while let Some(frame) = self.receiver.poll_frame(now) {
            if !self.first_frame {
                self.first_frame = true;
                self.event(now, "first_frame", wire);
            }
            let offset = i64::from(self.timestamp_offset);
            let ticks = (frame.timestamp - offset).rem_euclid(1 << 32);
            // The timestamp wraps after 13 hours of media; the capture time is then counted anew.
            let captured = Time((ticks as u64) * 100_000 / 9);
            wire.recorder.frame(self.back.flow, self.receiver_ssrc(), captured, &frame);
        }
    }

    /// The receiver half has seen a packet, or its time has come.
    fn after_estimator(&mut self, now: Time, wire: &mut Wire) {
        if self.receiver.has_urgent_remb() && self.setup.step == Step::DtlsConnected {
            self.send_report(now, wire);
        }
    }

    /// Where every packet is kept, what each feedback changed is kept too.
    fn observe_feedback(&mut self, now: Time, wire: &mut Wire) {
        if wire.recorder.detail() == Detail::Packets {
            self.observe(now, wire);
        }
    }

    fn observe(&mut self, now: Time, wire: &mut Wire) {
        let (participant, flow) = (self.config.participant, self.port.flow);
        let names = &mut self.names;
        self.sender.controller.observe(&mut |name, value| {
            let code = *names.entry(name).or_insert_with(|| wire.recorder.text(name));
            wire.recorder.controller(now, participant, flow, code, value);
        });
    }

    /// Values of the receiver half, which belong to what is received.
    fn observe_estimator(&mut self, now: Time, wire: &mut Wire) {
        let Some(estimator) = &self.receiver.estimator else { return };
        let (participant, flow) = (self.config.participant, self.back.flow);
        let names = &mut self.names;
        estimator.observe(&mut |name, value| {
            let code = *names.entry(name).or_insert_with(|| wire.recorder.text(name));
            wire.recorder.controller(now, participant, flow, code, value);
        });
    }

    /// Something happened to the participant and not to the connection alone.
    fn person_event(&self, now: Time, event: &str, wire: &mut Wire) {
        if !self.config.server {
            wire.recorder.event(now, self.config.participant, None, event);
        }
    }

    fn event(&self, now: Time, event: &str, wire: &mut Wire) {
        wire.recorder.event(now, self.config.participant, Some(self.back.flow), event);
    }
}
