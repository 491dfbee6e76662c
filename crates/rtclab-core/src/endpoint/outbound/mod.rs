//! Sending half of a peer: streams, pacer, history and congestion control.

mod decisions;
mod ecn;
mod feedback;
mod forwarded_stream;
mod opus;
mod packets;
mod release;
mod reports;
mod share;
mod store;
mod stream;
mod video;

use super::config::{Direction, ForwardingMode, Pause, StreamConfig};
use super::event::EndpointEvent;
use super::format::{AUDIO_CLOCK, VIDEO_CLOCK, audio_size, packet_size};
use super::outbox::Outbox;
use super::{Negotiation, PeerConfig, or_never};
use crate::cc::{CallsAtOnce, ControlError, Controller, Decision, PacketReport, SenderState};
use crate::media::encoder::Frame;
use crate::media::microphone::Threads;
use crate::media::pacer::{MediaPacket, Pacer, Padding};
use crate::media::repair::{Repair, Retransmission};
use crate::packet::{Kind, VideoPart};
use crate::rtp::rtcp::IntervalLoss;
use crate::stack::{FeedbackKind, StackProfile};
use crate::transport_history::TransportHistory;
use crate::units::{Bitrate, Time};
use ecn::EcnPath;
use share::RepairShare;
use std::collections::VecDeque;
use stream::{MediaSource, Reported, SentMedia};

pub(super) use stream::{OutboundStream, SentTotals};

/// Times of departure and arrival are known in these units (libwebrtc, `transport_feedback_adapter.cc`).
const RESOLUTION: Time = Time::from_millis(1);
/// Encoders stop while the pacer's queue is expected to last longer (libwebrtc, `control_handler.cc`).
const MAX_EXPECTED_QUEUE: Time = Time::from_secs(2);

pub(super) struct SendingHalf {
    stack: &'static StackProfile,
    direction: Direction,
    /// How it forwards what it sends; `None` if it sends its own media.
    forwarding: Option<ForwardingMode>,
    /// Empty until the connection is established.
    pub(super) streams: Vec<OutboundStream>,
    /// Indices of the video streams; [`SendingHalf::allocate`] puts those that can use least first.
    by_need: Vec<usize>,
    /// Index of the video stream that sent last; padding goes with it.
    padding_stream: usize,
    encodes_slowly: bool,
    composes: bool,
    /// When there are pictures to encode.
    pictures_from: Time,
    pause: Option<Pause>,
    pub(super) controller: Box<dyn Controller>,
    /// The controller's next timeout that is not silent, as of the last [`SendingHalf::poll_timeout`].
    next_control: Time,
    /// The controller's decision as of its last call.
    decision: Decision,
    calls: CallsAtOnce,
    pacer: Box<dyn Pacer>,
    /// Transport-wide sequence number of the next packet, unwrapped.
    next_transport_seq: i64,
    history: TransportHistory<SentMedia>,
    ecn: EcnPath,
    repair: RepairShare,
    /// Decision and repair share last applied to the pacer and the encoders.
    applied: Option<(Decision, f64)>,
    /// Rate last requested from all encoders together.
    media_rate: Bitrate,
    /// Whether anything has waited in the pacer since the controller's last timeout.
    waited: bool,
    seed: u64,
    /// How busy the threads of the microphone are; `None` outside a browser.
    threads: Option<Threads>,
    timestamp_offset: u32,
    pub(super) rtt: Option<Time>,
    started: bool,
    reports: Vec<PacketReport>,
    /// Whether the control has had feedback or a timeout since it could ask for a decision.
    may_ask: bool,
    /// The most that all video streams can use, as the control knows it.
    media_limit: Bitrate,
    /// Whether an encoder has taken pictures since then, and may have changed its resolution.
    has_encoded: bool,
    /// Losses in receiver reports that have not changed the protection yet.
    unreported: IntervalLoss,
    /// Fraction lost in the reports that changed the protection last.
    reported_loss: f64,
}

/// How busy the threads of the microphone are. They are modelled for browsers that negotiate as
/// [`Negotiation::Page`] does, whose packets of audio were measured.
fn threads(config: &PeerConfig) -> Option<Threads> {
    let has_video = config.sends.has_video() || config.receives.has_video();
    let threads = if has_video { Threads::Busy } else { Threads::Quiet };
    matches!(config.session.negotiation, Negotiation::Page { browser: true, .. }).then_some(threads)
}

impl SendingHalf {
    pub(super) fn new(config: &PeerConfig, controller: Box<dyn Controller>) -> Self {
        let direction = config.sends.clone();
        let feedback = direction.stack.feedback;
        let padding = Padding {
            overhead: packet_size(feedback, Repair::None, Kind::Padding, 0),
            follows_audio: config.forwards.is_none() && !config.sends.has_video(),
        };
        let decision = controller.decision();
        let streams = &direction.streams;
        let by_need = (0..streams.len()).filter(|i| streams[*i].is_video()).collect();
        SendingHalf {
            stack: direction.stack,
            pacer: direction.stack.pacing.pacer(decision.target, padding),
            padding_stream: direction.streams.iter().position(StreamConfig::is_video).unwrap_or(0),
            direction,
            forwarding: config.forwards,
            streams: Vec::new(),
            by_need,
            encodes_slowly: config.encodes_slowly,
            composes: config.composes,
            pictures_from: if config.composes { Time::MAX } else { Time::ZERO },
            pause: config.pause,
            controller,
            next_control: Time::MAX,
            decision,
            calls: CallsAtOnce::default(),
            next_transport_seq: 0,
            history: TransportHistory::new(feedback),
            ecn: EcnPath::default(),
            repair: RepairShare::new(config.sends.stack.retransmission),
            applied: None,
            media_rate: Bitrate::ZERO,
            waited: false,
            seed: config.seed,
            threads: threads(config),
            timestamp_offset: config.seed as u32,
            rtt: None,
            started: false,
            reports: Vec::new(),
            may_ask: false,
            media_limit: config.sends.bounds().max,
            has_encoded: false,
            unreported: IntervalLoss::default(),
            reported_loss: 0.0,
        }
    }

    /// Starts media when the connection is established; the encoders take pictures and sound from `from` on.
    pub(super) fn start(&mut self, now: Time, from: Time) -> Result<(), ControlError> {
        self.started = true;
        // What the encoders can use in their first resolution may differ from the bounds.
        self.has_encoded = true;
        self.repair.start(now);
        let streams = self.direction.streams.iter().enumerate();
        let seed = |index: usize| self.seed.wrapping_add((index as u64) << 32);
        self.streams = streams
            .map(|(index, config)| {
                OutboundStream::new(
                    config,
                    self.stack,
                    from,
                    seed(index),
                    self.threads,
                    self.forwarding,
                )
            })
            .collect();
        self.controller.on_timeout(now, &SenderState::default())?;
        self.may_ask = true;
        self.apply_decision(now)
    }

    pub(super) fn rtp_timestamp(&self, at: Time, clock: u64) -> u32 {
        // In two steps, whose products fit into 64 bits.
        let (seconds, rest) = (at.0 / 1_000_000_000, at.0 % 1_000_000_000);
        let ticks = seconds * clock + rest * clock / 1_000_000_000;
        (ticks as u32).wrapping_add(self.timestamp_offset)
    }

    /// The RTP timestamp of a stream that belongs to this time; `None` if it is forwarded and none of its packets
    /// has come.
    pub(super) fn reported_timestamp(
        &self,
        stream: &OutboundStream,
        now: Time,
        clock: u64,
    ) -> Option<u32> {
        match &stream.source {
            MediaSource::Forwarded(forwarded) => forwarded.rtp_timestamp(now, clock),
            MediaSource::Video(_) | MediaSource::Audio { .. } => {
                Some(self.rtp_timestamp(now, clock))
            }
        }
    }

    /// What feedback of RFC 8888 has said of a stream; `None` if there is no such feedback.
    pub(super) fn reported(&self, ssrc: u32) -> Option<Reported> {
        let stream = self.streams.iter().find(|stream| stream.config.ssrc == ssrc)?;
        (self.stack.feedback == FeedbackKind::Rfc8888).then_some(stream.reported)
    }

    /// The transport-wide sequence number of the next packet; `None` if packets have none on the wire.
    fn transport_seq(&self) -> Option<u16> {
        self.stack.feedback.has_transport_sequence().then_some(self.next_transport_seq as u16)
    }

    /// Whether the congestion control decides when packets leave.
    fn is_controlled(&self) -> bool {
        self.forwarding != Some(ForwardingMode::AtOnce)
    }

    /// The stream with this SSRC.
    pub(super) fn stream(&mut self, ssrc: u32) -> Option<&mut OutboundStream> {
        self.streams.iter_mut().find(|stream| stream.config.ssrc == ssrc)
    }

    /// Whether this is the SSRC of a stream or of its retransmissions.
    pub(super) fn sends(&self, ssrc: u32) -> bool {
        let of = |stream: &OutboundStream| {
            stream.config.ssrc == ssrc
                || stream.config.is_video() && stream.config.repair_ssrc == ssrc
        };
        self.streams.iter().any(of)
    }

    pub(super) fn poll_timeout(&mut self) -> Time {
        if !self.started || !self.is_controlled() {
            return Time::MAX;
        }
        // Without streams nothing ever waits in the pacer.
        let pacer = match self.streams.is_empty() {
            true => Time::MAX,
            false => or_never(self.pacer.poll_timeout()),
        };
        self.next_control = or_never(match self.stack.retransmission {
            // The share of repair takes effect at each of the control's timeouts.
            Retransmission::Until2024 => self.controller.poll_timeout(),
            Retransmission::Since2024 => self.controller.skip_until(),
        });
        let first = pacer.min(self.next_control);
        self.streams.iter().map(OutboundStream::poll_timeout).fold(first, Time::min)
    }

    /// Makes up for the control's silent timeouts before `now`.
    pub(super) fn catch_up(&mut self, now: Time) {
        if self.started {
            self.controller.catch_up(now);
        }
    }

    pub(super) fn handle_timeout(
        &mut self,
        now: Time,
        outbox: &mut Outbox,
        events: &mut VecDeque<EndpointEvent>,
    ) -> Result<(), ControlError> {
        if !self.started {
            return Ok(());
        }
        if self.next_control <= now {
            self.controller.catch_up(now);
            let state = SenderState {
                queued: self.pacer.queued(),
                in_flight: self.history.in_flight(),
                media_rate: self.media_rate,
                application_limited: !std::mem::take(&mut self.waited),
            };
            self.controller.on_timeout(now, &state)?;
            self.may_ask = true;
            self.calls.count(now, self.controller.poll_timeout())?;
            self.apply_decision(now)?;
        } else {
            self.controller.catch_up(now + Time(1));
        }
        for index in 0..self.streams.len() {
            let stream = &self.streams[index];
            if stream.poll_timeout() > now {
                continue;
            }
            match &stream.source {
                MediaSource::Video(_) => self.encode(now, index, events),
                MediaSource::Audio { .. } => self.sample_audio(now, index),
                MediaSource::Forwarded(_) => {}
            }
        }
        if std::mem::take(&mut self.has_encoded) {
            self.follow_media_limit(now)?;
        }
        self.release_all(now, outbox)
    }

    pub(super) fn set_pictures_from(&mut self, at: Time) {
        self.pictures_from = at;
    }

    /// Sets when the frame being encoded will be ready.
    pub(super) fn handle_encoded(&mut self, stream: usize, ready: Time) {
        if let Some(video) = self.streams.get_mut(stream).and_then(OutboundStream::video_mut) {
            video.encoded_at(ready);
        }
    }

    fn encode(&mut self, now: Time, index: usize, events: &mut VecDeque<EndpointEvent>) {
        self.has_encoded = true;
        let stream = &mut self.streams[index];
        let Some(video) = stream.video_mut() else { return };
        if let Some((frame, begin)) = video.take_encoded(now) {
            self.finish_picture(now, index, &frame, begin, events);
        }
        let Some(video) = self.streams[index].video_mut() else { return };
        // Without a picture there is nothing to decide.
        if video.is_encoding() || video.encoder.poll_timeout().is_none_or(|at| at > now) {
            return;
        }
        if now < self.pictures_from {
            return video.encoder.idle(now);
        }
        if self.pause.is_some_and(|pause| pause.covers(now)) {
            // The picture after it is a key frame, as when a page sets a track again.
            video.encoder.request_key_frame();
            return video.encoder.idle(now);
        }
        if self.pacer.expected_queue() > MAX_EXPECTED_QUEUE {
            return video.encoder.skip(now);
        }
        let Some(frame) = video.encoder.poll(now) else { return };
        if self.composes {
            events.push_back(EndpointEvent::Composed { at: frame.captured });
        }
        if self.encodes_slowly {
            let (width, height) = frame.resolution;
            let pixels = u32::from(width) * u32::from(height);
            let size = frame.size;
            video.encode(now, frame);
            events.push_back(EndpointEvent::EncodeRequested { stream: index, pixels, size });
        } else if frame.encode_time > Time::ZERO {
            let ready = frame.captured + frame.encode_time;
            video.encode(now, frame);
            video.encoded_at(ready);
        } else {
            self.finish_picture(now, index, &frame, now, events);
        }
    }

    /// Sends a picture whose encoding began at `begin` and has ended.
    fn finish_picture(
        &mut self,
        now: Time,
        index: usize,
        frame: &Frame,
        begin: Time,
        events: &mut VecDeque<EndpointEvent>,
    ) {
        self.packetise(now, index, frame);
        let timestamp = self.rtp_timestamp(frame.captured, VIDEO_CLOCK);
        let ssrc = self.streams[index].config.ssrc;
        events.push_back(EndpointEvent::Encoded { ssrc, timestamp, begin });
    }

    fn sample_audio(&mut self, now: Time, index: usize) {
        loop {
            let stream = &mut self.streams[index];
            let MediaSource::Audio { config, microphone, .. } = &mut stream.source else { return };
            let (config, Some(at)) = (*config, microphone.poll(now)) else { return };
            if self.pause.is_some_and(|pause| pause.covers(now)) {
                continue;
            }
            let payload = config.payload();
            let packet = MediaPacket {
                stream: index as u8,
                kind: Kind::Audio,
                // It gets its number when it leaves.
                seq: 0,
                timestamp: self.rtp_timestamp(at, AUDIO_CLOCK),
                marker: false,
                part: VideoPart { bytes: payload.0 as u16, ..VideoPart::default() },
            };
            let size = audio_size(self.stack, payload);
            self.pacer.push(now, packet, size);
        }
    }
}
