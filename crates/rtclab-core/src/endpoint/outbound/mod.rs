//! Sending half of a peer: streams, pacer, history and congestion control.

mod forwarded;
mod history;
mod opus;
mod packets;
mod reports;
mod share;
mod store;
mod video;

use super::config::{AudioConfig, Direction, Forwarding, Media, StreamConfig};
use super::event::EndpointEvent;
use super::format::{AUDIO_CLOCK, RTP_HEADER_BYTES, VIDEO_CLOCK, packet_size};
use super::outbox::Outbox;
use super::{Negotiation, PeerConfig, or_never};
use crate::cc::{
    self, CallsAtOnce, ControlError, Controller, Decision, DecisionRequest, Feedback, PacketReport,
    SenderState,
};
use crate::media::microphone::Microphone;
use crate::media::pacer::{MediaPacket, Pacer, Release};
use crate::media::protection::Conditions;
use crate::media::repair::{Repair, Retransmission};
use crate::packet::{Kind, SRTP_BYTES, VideoPart};
use crate::rtp::rtcp::TransportFeedback;
use crate::stack::{FeedbackKind, RateAccounting, RtcpSchedule, StackProfile};
use crate::units::{Bitrate, Bytes, RemoteTime, Time};
use forwarded::ForwardedStream;
use history::{Departure, TransportHistory, VideoPacket};
use opus::InBandFec;
use share::RepairShare;
use std::collections::VecDeque;
use video::VideoStream;

/// Today requests for key frames are followed at most this often (libwebrtc, `encoder_rtcp_feedback.cc`).
const KEY_REQUEST_INTERVAL: Time = Time::from_millis(300);
/// Times of departure and arrival are known in these units (libwebrtc, `transport_feedback_adapter.cc`).
const RESOLUTION: Time = Time::from_millis(1);
/// Least packets in a reported loss in 2026 (libwebrtc, `send_side_bandwidth_estimation.cc`,
/// kLimitNumPackets).
const MIN_REPORTED: u64 = 20;
/// Encoders stop while the pacer's queue is expected to last longer (libwebrtc, `control_handler.cc`).
const MAX_EXPECTED_QUEUE: Time = Time::from_secs(2);

/// Totals of one kind of packet sent on one stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    pub(super) packets: u64,
    pub(super) payload_bytes: u64,
    pub(super) header_bytes: u64,
}

/// An outbound stream.
pub(super) struct OutboundStream {
    pub(super) config: StreamConfig,
    /// Next sequence number of the media.
    next_seq: u16,
    /// Next sequence number of the retransmission stream.
    next_repair_seq: u16,
    pub(super) totals: [Totals; Kind::ALL.len()],
    pub(super) nack_count: u64,
    pub(super) pli_count: u64,
    /// When a request for a key frame was last followed.
    key_requested: Option<Time>,
    pub(super) source: MediaSource,
}

/// Where a stream's media comes from.
pub(super) enum MediaSource {
    Video(Box<VideoStream>),
    Audio { config: AudioConfig, microphone: Microphone, fec: InBandFec },
    Forwarded(ForwardedStream),
}

impl OutboundStream {
    fn new(
        config: &StreamConfig,
        stack: &StackProfile,
        start: Time,
        seed: u64,
        in_browser: bool,
        is_forwarded: bool,
    ) -> Self {
        OutboundStream {
            config: *config,
            next_seq: 1,
            next_repair_seq: 1,
            totals: Default::default(),
            nack_count: 0,
            pli_count: 0,
            key_requested: None,
            source: match config.media {
                _ if is_forwarded => MediaSource::Forwarded(ForwardedStream::default()),
                Media::Video(video) => {
                    let repair = config.repair;
                    MediaSource::Video(Box::new(VideoStream::new(
                        video, stack, repair, start, seed,
                    )))
                }
                Media::Audio(config) => {
                    let microphone =
                        Microphone::new(start, config.frame_ns, in_browser.then_some(!seed));
                    MediaSource::Audio { config, microphone, fec: InBandFec::default() }
                }
            },
        }
    }

    pub(super) fn video(&self) -> Option<&VideoStream> {
        match &self.source {
            MediaSource::Video(video) => Some(video),
            MediaSource::Audio { .. } | MediaSource::Forwarded(_) => None,
        }
    }

    fn video_mut(&mut self) -> Option<&mut VideoStream> {
        match &mut self.source {
            MediaSource::Video(video) => Some(video),
            MediaSource::Audio { .. } | MediaSource::Forwarded(_) => None,
        }
    }

    fn poll_timeout(&self) -> Time {
        match &self.source {
            MediaSource::Video(video) => video.poll_timeout(),
            MediaSource::Audio { microphone, .. } => microphone.poll_timeout(),
            MediaSource::Forwarded(_) => Time::MAX,
        }
    }

    /// Takes the share of lost packets, in 256ths, that a report on this stream tells.
    pub(super) fn on_loss(&mut self, now: Time, fraction: u8) {
        if let MediaSource::Audio { fec, .. } = &mut self.source {
            fec.on_report(now, fraction);
        }
    }

    /// Whether the audio packet with this RTP timestamp carries a copy of the frame before it.
    fn has_fec(&self, timestamp: u32) -> bool {
        match &self.source {
            MediaSource::Audio { config, fec, .. } => fec.is_in(timestamp, config.frame_ns),
            MediaSource::Video(_) | MediaSource::Forwarded(_) => false,
        }
    }

    fn take_seq(&mut self) -> u16 {
        let seq = self.next_seq;
        self.next_seq = seq.wrapping_add(1);
        seq
    }

    fn take_repair_seq(&mut self) -> u16 {
        let seq = self.next_repair_seq;
        self.next_repair_seq = seq.wrapping_add(1);
        seq
    }
}

pub(super) struct SendingHalf {
    stack: &'static StackProfile,
    direction: Direction,
    /// How it forwards what it sends; `None` if it sends its own media.
    forwarding: Option<Forwarding>,
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
    pub(super) controller: Box<dyn Controller>,
    /// When the controller is called next, as of the last [`SendingHalf::poll_timeout`].
    control: Time,
    /// The controller's decision as of its last call.
    decision: Decision,
    calls: CallsAtOnce,
    pacer: Pacer,
    history: TransportHistory,
    repair: RepairShare,
    /// Decision and repair share last applied to the pacer and the encoders.
    applied: Option<(Decision, f64)>,
    /// Rate last requested from all encoders together.
    media_rate: Bitrate,
    /// Whether anything has waited in the pacer since the controller's last timeout.
    waited: bool,
    seed: u64,
    /// Whether this is a browser of the years of [`Negotiation::Page`], whose packets of audio are measured.
    in_browser: bool,
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
    /// Packets lost and expected in receiver reports that have not changed the protection yet.
    unreported: (u64, u64),
    /// Fraction lost in the reports that changed the protection last.
    reported_loss: f64,
}

impl SendingHalf {
    pub(super) fn new(config: &PeerConfig, controller: Box<dyn Controller>) -> Self {
        let direction = config.sends.clone();
        let padding = packet_size(Repair::None, Kind::Padding, direction.stack.pacing.padding().0);
        let decision = controller.decision();
        let streams = &direction.streams;
        let by_need = (0..streams.len()).filter(|i| streams[*i].is_video()).collect();
        SendingHalf {
            stack: direction.stack,
            pacer: Pacer::new(direction.stack.pacing, decision.target, padding),
            padding_stream: direction.streams.iter().position(StreamConfig::is_video).unwrap_or(0),
            direction,
            forwarding: config.forwards,
            streams: Vec::new(),
            by_need,
            encodes_slowly: config.encodes_slowly,
            composes: config.composes,
            pictures_from: if config.composes { Time::MAX } else { Time::ZERO },
            controller,
            control: Time::MAX,
            decision,
            calls: CallsAtOnce::default(),
            history: TransportHistory::default(),
            repair: RepairShare::new(config.sends.stack.retransmission),
            applied: None,
            media_rate: Bitrate::ZERO,
            waited: false,
            seed: config.seed,
            in_browser: matches!(
                config.session.negotiation,
                Negotiation::Page { browser: true, .. }
            ),
            timestamp_offset: config.seed as u32,
            rtt: None,
            started: false,
            reports: Vec::new(),
            may_ask: false,
            media_limit: config.sends.bounds().max,
            has_encoded: false,
            unreported: (0, 0),
            reported_loss: 0.0,
        }
    }

    /// Starts media when the connection is established; the first picture is taken at `first_picture`.
    pub(super) fn start(&mut self, now: Time, first_picture: Time) -> Result<(), ControlError> {
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
                    first_picture,
                    seed(index),
                    self.in_browser,
                    self.forwarding.is_some(),
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

    /// The RTP timestamp of a stream that belongs to this time; `None` if it is forwarded and nothing has come of it.
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

    /// Whether the congestion control decides when packets leave.
    fn is_controlled(&self) -> bool {
        self.forwarding != Some(Forwarding::AtOnce)
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
        self.control = or_never(match self.stack.retransmission {
            // The share of repair takes effect at each of the control's timeouts.
            Retransmission::Until2024 => self.controller.poll_timeout(),
            Retransmission::Since2024 => self.controller.next_effect(),
        });
        let first = pacer.min(self.control);
        self.streams.iter().map(OutboundStream::poll_timeout).fold(first, Time::min)
    }

    /// Makes up for the control's timeouts before `now`, which were passed over.
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
        if self.control <= now {
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

    /// Sends what the pacer releases.
    fn release_all(&mut self, now: Time, outbox: &mut Outbox) -> Result<(), ControlError> {
        while let Some((release, probe)) = self.pacer.poll(now) {
            self.release(now, release, probe, outbox)?;
        }
        self.waited |= self.pacer.queued() > Bytes::ZERO;
        Ok(())
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

    pub(super) fn on_feedback(
        &mut self,
        now: Time,
        feedback: Feedback<'_>,
    ) -> Result<(), ControlError> {
        // Before the start nothing has been sent that it could be about.
        if !self.started || !self.is_controlled() {
            return Ok(());
        }
        self.controller.on_feedback(now, feedback)?;
        self.may_ask = true;
        if self.stack.retransmission == Retransmission::Since2024
            && matches!(feedback, Feedback::ReceiverReport { .. })
        {
            // A new round trip is an update of the control, even if its decision stays the same (libwebrtc,
            // `goog_cc_network_control.cc`, MaybeTriggerOnNetworkChanged).
            self.applied = None;
        }
        self.apply_decision(now)?;
        if let Feedback::ReceiverReport { lost, expected, fraction, .. } = feedback
            && expected > 0
        {
            match self.stack.rtcp {
                RtcpSchedule::PerMedia => {
                    let (so_far, of) = self.unreported;
                    self.unreported = (so_far + lost, of + expected);
                    if self.unreported.1 >= MIN_REPORTED {
                        let (lost, expected) = std::mem::take(&mut self.unreported);
                        self.reported_loss = in_256ths(lost, expected);
                        self.protect(now);
                    }
                }
                RtcpSchedule::Joint | RtcpSchedule::PerStream => {
                    self.reported_loss = f64::from(fraction) / 255.0;
                    self.protect(now);
                }
            }
        }
        Ok(())
    }

    /// Adapts the FEC of every stream that uses it to the loss that was reported last.
    fn protect(&mut self, now: Time) {
        let (rtt, bitrate) = (self.rtt.unwrap_or(Time::ZERO), self.target());
        let loss = self.reported_loss;
        for stream in self.streams.iter_mut().filter(|stream| stream.config.repair.uses_red()) {
            let Some(video) = stream.video_mut() else { continue };
            video.fec.loss.add(now, loss);
            let conditions = Conditions {
                loss: video.fec.loss.max(now),
                rtt,
                bitrate,
                frame_rate: video.encoder.frame_rate(),
                resolution: video.encoder.resolution(),
            };
            video.fec.adapt(now, &conditions);
        }
    }

    pub(super) fn on_transport_feedback(
        &mut self,
        now: Time,
        feedback: &TransportFeedback,
    ) -> Result<(), ControlError> {
        if !self.is_controlled() {
            return Ok(());
        }
        let mut reports = std::mem::take(&mut self.reports);
        reports.clear();
        self.history.acknowledge(feedback, &mut reports);
        if self.stack.retransmission == Retransmission::Since2024 {
            self.on_outcomes(now);
        }
        if !reports.is_empty() {
            let in_flight = self.history.in_flight();
            for report in &mut reports {
                report.received = report.received.map(|at| RemoteTime(at.0.floor_to(RESOLUTION)));
            }
            let feedback =
                Feedback::Packets { reports: &reports, in_flight, resolution: RESOLUTION };
            self.on_feedback(now, feedback)?;
        }
        self.reports = reports;
        Ok(())
    }

    pub(super) fn on_nack(
        &mut self,
        now: Time,
        ssrc: u32,
        seqs: &[u16],
        events: &mut VecDeque<EndpointEvent>,
    ) {
        let rtt = self.rtt.unwrap_or(Time::ZERO);
        let Some(index) = self.streams.iter().position(|stream| stream.config.ssrc == ssrc) else {
            return;
        };
        let stream = &mut self.streams[index];
        stream.nack_count += 1;
        let repair = stream.config.repair;
        if let MediaSource::Forwarded(_) = stream.source {
            return events.push_back(EndpointEvent::PacketsRequested { ssrc, lost: seqs.to_vec() });
        }
        let Some(video) = stream.video_mut() else { return };
        for &seq in seqs {
            if let Some(packet) = video.store.retransmit(now, seq, rtt, repair) {
                let size = packet_size(repair, Kind::Rtx, u64::from(packet.part.bytes));
                self.pacer.push(now, packet, size);
            }
        }
    }

    pub(super) fn on_key_request(
        &mut self,
        now: Time,
        ssrc: u32,
        events: &mut VecDeque<EndpointEvent>,
    ) {
        let since_2024 = self.stack.retransmission == Retransmission::Since2024;
        if let Some(stream) = self.stream(ssrc) {
            stream.pli_count += 1;
            if let MediaSource::Forwarded(_) = stream.source {
                return events.push_back(EndpointEvent::KeyFrameRequested);
            }
            if since_2024 && stream.key_requested.is_some_and(|at| now < at + KEY_REQUEST_INTERVAL)
            {
                return;
            }
            stream.key_requested = Some(now);
            if let Some(video) = stream.video_mut() {
                video.encoder.request_key_frame();
            }
        }
    }

    /// What the congestion control asks to be decided outside, after feedback or a timeout.
    pub(super) fn poll_request(&mut self, now: Time) -> Option<Box<DecisionRequest>> {
        std::mem::take(&mut self.may_ask).then(|| self.controller.poll_request(now)).flatten()
    }

    pub(super) fn handle_decision(
        &mut self,
        now: Time,
        decision: Decision,
    ) -> Result<(), ControlError> {
        self.controller.handle_decision(now, decision)?;
        self.apply_decision(now)
    }

    /// Rate that the congestion control allows.
    pub(super) fn target(&self) -> Bitrate {
        self.decision.target
    }

    /// Applies what a packet that was sent has changed, at once, as libwebrtc posts the update of its controller's
    /// OnSentPacket. The share of repair waits for the control's next update, as there.
    fn apply_if_changed(&mut self, now: Time) -> Result<(), ControlError> {
        if !self.controller.is_changed_by_sending() {
            self.follow_window(now);
            return Ok(());
        }
        match self.controller.decision() == self.decision {
            true => self.follow_window_and_probes(now),
            false => self.apply_decision(now),
        }
    }

    /// Takes the control's probes, and holds media back while its window is full.
    fn follow_window_and_probes(&mut self, now: Time) -> Result<(), ControlError> {
        for probe in cc::probes(self.controller.as_mut())? {
            self.pacer.add_probe(now, probe);
        }
        self.follow_window(now);
        Ok(())
    }

    /// Holds media back while the control's window is full.
    fn follow_window(&mut self, now: Time) {
        let full = self.decision.window.is_some_and(|window| self.history.in_flight() >= window);
        self.pacer.set_congested(now, full);
    }

    fn apply_decision(&mut self, now: Time) -> Result<(), ControlError> {
        let decision = self.controller.decision();
        decision.check()?;
        self.decision = decision;
        self.follow_window_and_probes(now)?;
        let share = match (self.stack.retransmission, self.applied) {
            // Today the share waits for the control's next update.
            (Retransmission::Since2024, Some((applied, share))) if applied == decision => share,
            _ => self.repair.at(now),
        };
        if self.applied == Some((decision, share)) {
            return Ok(());
        }
        self.applied = Some((decision, share));
        let pacing_rate = decision.pacing_rate.unwrap_or(self.stack.pacing.rate(decision.target));
        self.pacer.set_rates(now, pacing_rate, decision.padding_rate);
        self.pacer.set_burst(decision.pacing_burst);
        self.allocate(&decision, share);
        // libwebrtc f3ae3eb62e, `rtp_video_sender.cc`, OnBitrateUpdated: every new rate changes the protection.
        if self.stack.rtcp == RtcpSchedule::PerMedia {
            self.protect(now);
        }
        Ok(())
    }

    /// Splits the target evenly among the video streams; what a stream cannot use goes to the others.
    fn allocate(&mut self, decision: &Decision, repair_share: f64) {
        let audio: u64 = self.direction.streams.iter().filter_map(audio_rate).sum();
        let (mut left, accounting) = (decision.target.0, self.stack.rate_accounting);
        if accounting == RateAccounting::Packets {
            left = left.saturating_sub(audio);
        }
        let for_media = 1.0 - repair_share;
        self.media_rate = Bitrate::ZERO;
        let streams = &self.streams;
        let most = |index: &usize| streams[*index].video().map_or(0, |v| v.encoder.max_rate().0);
        self.by_need.sort_by_key(most);
        // Streams that can use least come first, and leave the rest to the others.
        for (others, &index) in (0..self.by_need.len() as u64).rev().zip(&self.by_need) {
            let stream = &mut self.streams[index];
            let repair = stream.config.repair;
            let Some(video) = stream.video_mut() else { continue };
            let max = video.encoder.max_rate().0;
            let share = if others == 0 { left } else { (left / (others + 1)).min(max) };
            left -= share;
            let media = match accounting {
                RateAccounting::Packets => packets::without_headers(Bitrate(share), repair),
                RateAccounting::Payloads => Bitrate(share),
            };
            video.fec.rate = media;
            let media = media.scaled(for_media);
            self.media_rate = Bitrate(self.media_rate.0 + media.0);
            video.encoder.set_target(media);
            video.encoder.set_drop_ratio(decision.drop_ratio);
        }
    }

    /// Tells the control when another resolution has changed what the encoders can use.
    fn follow_media_limit(&mut self, now: Time) -> Result<(), ControlError> {
        let videos = self.streams.iter().filter_map(OutboundStream::video);
        let limit = Bitrate(videos.map(|video| video.encoder.max_rate().0).sum());
        if limit != self.media_limit && limit > Bitrate::ZERO {
            self.media_limit = limit;
            self.controller.on_media_limit(now, limit);
            self.applied = None;
            self.apply_decision(now)?;
        }
        Ok(())
    }

    fn encode(&mut self, now: Time, index: usize, events: &mut VecDeque<EndpointEvent>) {
        self.has_encoded = true;
        let stream = &mut self.streams[index];
        let Some(video) = stream.video_mut() else { return };
        if let Some(frame) = video.take_encoded(now) {
            self.packetise(now, index, &frame);
        }
        loop {
            let Some(video) = self.streams[index].video_mut() else { return };
            // Without a picture there is nothing to decide.
            if video.encoder.poll_timeout().is_none_or(|at| at > now) {
                return;
            }
            if now < self.pictures_from {
                return video.encoder.idle(now);
            }
            let is_late = self.pacer.expected_queue() > MAX_EXPECTED_QUEUE;
            if video.is_encoding() || is_late {
                return video.encoder.skip(now);
            }
            let Some(frame) = video.encoder.poll(now) else { return };
            if self.composes {
                events.push_back(EndpointEvent::Composed { at: frame.captured });
            }
            if self.encodes_slowly {
                let (width, height) = frame.resolution;
                let pixels = u32::from(width) * u32::from(height);
                video.encode(frame);
                events.push_back(EndpointEvent::EncodeRequested { stream: index, pixels });
            } else if frame.encode_time > Time::ZERO {
                let ready = frame.captured + frame.encode_time;
                video.encode(frame);
                video.encoded_at(ready);
            } else {
                self.packetise(now, index, &frame);
            }
        }
    }

    fn sample_audio(&mut self, now: Time, index: usize) {
        loop {
            let stream = &mut self.streams[index];
            let MediaSource::Audio { config, microphone, .. } = &mut stream.source else { return };
            let (config, Some(at)) = (*config, microphone.poll(now)) else { return };
            let (seq, payload) = (stream.take_seq(), config.payload());
            let packet = MediaPacket {
                stream: index as u8,
                kind: Kind::Audio,
                seq,
                timestamp: self.rtp_timestamp(at, AUDIO_CLOCK),
                marker: false,
                part: VideoPart { bytes: payload.0 as u16, ..VideoPart::default() },
            };
            self.pacer.push(now, packet, packet_size(Repair::None, Kind::Audio, payload.0));
        }
    }

    fn release(
        &mut self,
        now: Time,
        release: Release,
        probe: Option<u32>,
        outbox: &mut Outbox,
    ) -> Result<(), ControlError> {
        let Some(packet) = self.released(now, release) else { return Ok(()) };
        let transport_seq = self.history.next_seq() as u16;
        let Some((past, rtp)) = self.rtp(now, &packet, transport_seq) else { return Ok(()) };
        let index = usize::from(packet.stream);
        // Padding that repeats a packet is payload on the repair stream, but no retransmission (libwebrtc,
        // `rtp_sender_egress.cc`: only packets of the type kRetransmission are).
        let counted = if release == Release::Repeat { Kind::Padding } else { packet.kind };
        let payload_bytes = if packet.kind == Kind::Padding { 0 } else { rtp.payload_bytes() };
        self.count(index, counted, payload_bytes);
        let ecn = self.decision.ecn;
        // Since 2024 padding that repeats a packet is not a retransmission of it.
        let is_padding =
            release == Release::Repeat && self.stack.retransmission == Retransmission::Since2024;
        let rtt = self.rtt.unwrap_or(Time::ZERO);
        let size = outbox.send_rtp(past, ecn, rtp);
        if matches!(packet.kind, Kind::Video | Kind::Rtx | Kind::Fec) {
            self.padding_stream = index;
            // Media is retransmitted, FEC is not.
            if packet.kind != Kind::Fec
                && !is_padding
                && let Some(video) = self.streams[index].video_mut()
            {
                video.store.on_sent(now, packet.seq, rtt);
            }
        }
        let is_stored = matches!(packet.kind, Kind::Video | Kind::Rtx) && !is_padding;
        let video = is_stored.then_some(VideoPacket {
            stream: packet.stream,
            seq: packet.seq,
            retransmission: packet.kind == Kind::Rtx,
        });
        // Send-side control knows whole milliseconds, and does not count the tag of SRTP: with it, targets replayed
        // from event logs of Chromium 156 are 1 to 3 % too high.
        let (at, counted) = match self.stack.feedback {
            FeedbackKind::TransportWide => {
                (now.floor_to(RESOLUTION), Bytes(size.0.saturating_sub(SRTP_BYTES)))
            }
            FeedbackKind::Remb { .. } => (now, size),
        };
        let departure = Departure { at, size: counted, kind: packet.kind, probe, ecn, video };
        let sent = self.history.sent(&departure);
        self.controller.on_sent(&sent)?;
        self.apply_if_changed(now)?;
        if self.counts_for_repair(&release, packet.kind) {
            let is_repair = matches!(packet.kind, Kind::Rtx | Kind::Fec);
            self.repair.count(now, size.0, is_repair);
        }
        Ok(())
    }

    /// The packet that the pacer releases; `None` if it wants to repeat a packet and there is none.
    fn released(&self, now: Time, release: Release) -> Option<MediaPacket> {
        match release {
            Release::Media(packet) => Some(packet),
            Release::Repeat => {
                let stream = self.streams.get(self.padding_stream)?;
                if let MediaSource::Forwarded(_) = stream.source {
                    return self.released(now, Release::Padding);
                }
                let video = stream.video()?;
                video.store.for_padding().map(|packet| MediaPacket { kind: Kind::Rtx, ..packet })
            }
            Release::Padding => Some(MediaPacket {
                stream: self.padding_stream as u8,
                kind: Kind::Padding,
                seq: 0,
                timestamp: self.rtp_timestamp(now, VIDEO_CLOCK),
                marker: false,
                part: VideoPart {
                    bytes: self.stack.pacing.padding().0 as u16,
                    ..VideoPart::default()
                },
            }),
        }
    }

    /// Counts a packet in the totals of its stream.
    fn count(&mut self, stream: usize, kind: Kind, payload_bytes: u64) {
        let totals = &mut self.streams[stream].totals[kind as usize];
        totals.packets += 1;
        totals.header_bytes += RTP_HEADER_BYTES;
        totals.payload_bytes += payload_bytes;
    }

    /// Whether a packet counts in the share of repair. Today padding that repeats a packet is no repair, and
    /// audio does not count (libwebrtc, `fec_controller_default.cc`).
    fn counts_for_repair(&self, release: &Release, kind: Kind) -> bool {
        self.stack.rate_accounting == RateAccounting::Payloads
            || matches!(release, Release::Media(_)) && kind != Kind::Audio
    }
}

/// The fraction lost as libwebrtc passes it on: whole 256ths, at most 255 of them, which then count as 255ths.
/// MediaSource: f3ae3eb62e, `goog_cc/send_side_bandwidth_estimation.cc`, UpdatePacketsLost.
fn in_256ths(lost: u64, expected: u64) -> f64 {
    (256 * lost / expected.max(1)).min(255) as f64 / 255.0
}

fn audio_rate(stream: &StreamConfig) -> Option<u64> {
    match stream.media {
        Media::Audio(config) => Some(config.wire_rate().0),
        Media::Video(_) => None,
    }
}
