//! An end of a connection, without I/O: datagrams and time come in, datagrams and events come out.
//!
//! A [`Peer`] sends media, its own or what another end of its node receives, plays media, or gives feedback on it. A
//! [`Translator`] passes everything on unchanged. Both have five verbs: `handle_datagram`, `handle_timeout`,
//! `poll_transmit`, `poll_event` and `poll_timeout`. They know nothing of the network, the record or the other end. The
//! driver calls a `handle_…` method, drains `poll_transmit` and `poll_event`, and comes back at `poll_timeout`. A unit
//! test with two peers and a vector is such a driver, too (`tests.rs`).
//!
//! A server that forwards has a peer for each connection. The `MediaSource` of its streams is what another end of the
//! node receives, so it answers requests, reports, estimates, paces and probes as any sender does. With
//! [`ForwardingMode::AtOnce`] it has no pacer, history or statistics, and costs as little as Janus.

mod config;
mod event;
mod fan_out;
mod format;
mod inbound;
mod outbound;
mod outbox;
mod rtcp;
pub(crate) mod setup;
mod statistics;
mod stats;
mod translator;
mod turn;

use crate::cc::{ControlError, Decision, Halves};
use crate::packet::{Address, Content, Datagram, Past, Rtp, Signal, Transmit};
use crate::rtp::rtcp::NtpTime;
use crate::units::Time;
use inbound::ReceivingHalf;
use outbound::SendingHalf;
use outbox::Outbox;
use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use setup::{Setup, Step};
use std::collections::VecDeque;

pub use config::{
    Addresses, AudioConfig, Direction, ForwardingMode, Media, Negotiation, Pause, ServerKind,
    ServerSetup, Session, StreamConfig,
};
pub use event::EndpointEvent;
pub use fan_out::{FanOut, FanOutPacket};
pub(crate) use format::AUDIO_CLOCK;
pub use statistics::{
    CandidatePair, CandidatePairColumns, InboundRtp, InboundRtpColumns, OutboundRtp,
    OutboundRtpColumns, RemoteInboundRtp, RemoteInboundRtpColumns, Statistics,
};
pub use translator::Translator;

/// Statistics are reported at multiples of this.
const STATISTICS_INTERVAL: Time = Time::from_secs(1);

/// Most congestion controls report at most this many internal values.
const OBSERVED: usize = 32;

/// How often a peer reports internal values of its congestion control.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observe {
    /// Together with the statistics.
    EachSecond,
    /// Whenever feedback or a complete frame has changed them.
    EachChange,
}

/// Configuration of one side of a connection.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// Its own address and the address of the far end.
    pub addresses: Addresses,
    /// When the connection starts and ends.
    pub session: Session,
    /// SSRC of its RTCP.
    pub ssrc: u32,
    /// What it sends.
    pub sends: Direction,
    /// What the far end sends. Feedback and RTCP are as the far end's stack wants them.
    pub receives: Direction,
    /// How it forwards what it sends; `None` if it sends its own media.
    pub forwards: Option<ForwardingMode>,
    /// Whether it plays what it receives; a server only gives feedback on it.
    pub plays: bool,
    /// Whether encoding takes time. If so, the driver decides how long; see [`EndpointEvent::EncodeRequested`].
    pub encodes_slowly: bool,
    /// Whether its pictures are composed of those that others send to the same server. If so, the driver says when there
    /// are any; see [`Peer::set_pictures_from`].
    pub composes: bool,
    /// When its camera and microphone give nothing.
    pub pause: Option<Pause>,
    /// How often internal values of the congestion control are reported.
    pub observe: Observe,
    /// Seed of everything random on this side, including RTP timestamps.
    pub seed: u64,
}

/// One side of a connection.
pub struct Peer {
    config: PeerConfig,
    setup: Setup,
    announced: Step,
    joined: bool,
    left: bool,
    has_shown: bool,
    sender: SendingHalf,
    receiver: ReceivingHalf,
    timers: Timers,
    /// The last reference time of the far end's extended reports with its SSRC, and when it came, until it is answered.
    reference: Option<(u32, NtpTime, Time)>,
    /// When reports on video leave.
    rng: Pcg64Mcg,
    /// When reports on audio leave: a stream of its own, so that audio does not move the reports on video.
    audio_rng: Pcg64Mcg,
    counters: stats::Counters,
    outbox: Outbox,
    events: VecDeque<EndpointEvent>,
}

/// Timeouts of the parts, cached because most calls touch only one of them; `Time::MAX` for none.
struct Timers {
    setup: Time,
    sender: Time,
    receiver: Time,
    /// By [`Rare`].
    rare: [Time; 6],
    /// The first of them.
    next_rare: Time,
}

/// What happens about once a second, or once.
#[derive(Clone, Copy)]
enum Rare {
    Report,
    ReceiverReport,
    AudioReport,
    AudioSenderReport,
    FirstFrame,
    Statistics,
}

impl Timers {
    fn next(&self) -> Time {
        self.setup.min(self.sender).min(self.receiver).min(self.next_rare)
    }

    fn is_due(&self, rare: Rare, now: Time) -> bool {
        self.rare[rare as usize] <= now
    }

    fn set(&mut self, rare: Rare, at: Time) {
        self.rare[rare as usize] = at;
        self.next_rare = self.rare.into_iter().fold(Time::MAX, Time::min);
    }
}

fn or_never(timeout: Option<Time>) -> Time {
    timeout.unwrap_or(Time::MAX)
}

impl Peer {
    /// Creates one side of a connection. The controller is for what it sends, the estimator for what it
    /// receives.
    pub fn new(config: PeerConfig, (controller, estimator): Halves) -> Self {
        let PeerConfig { addresses, session, .. } = config;
        Peer {
            setup: Setup::new(&session, addresses.relay.is_some()),
            announced: Step::New,
            reference: None,
            joined: false,
            left: false,
            has_shown: false,
            sender: SendingHalf::new(&config, controller),
            receiver: ReceivingHalf::new(&config, estimator),
            timers: Timers {
                setup: session.start,
                sender: Time::MAX,
                receiver: Time::MAX,
                rare: [Time::MAX; 6],
                next_rare: Time::MAX,
            },
            rng: Pcg64Mcg::seed_from_u64(config.seed ^ 0x7274_6370),
            audio_rng: Pcg64Mcg::seed_from_u64(config.seed ^ 0x0061_7564_696f),
            counters: stats::Counters::default(),
            outbox: Outbox::new(addresses, session.negotiation.server()),
            events: VecDeque::new(),
            config,
        }
    }

    /// When to call [`Peer::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let Session { start, end, .. } = self.config.session;
        if !self.joined {
            // A connection of zero length never starts.
            return (start < end).then_some(start);
        }
        (!self.left).then_some(self.timers.next().min(end))
    }

    /// The part whose timeout is the earliest, for errors.
    pub fn due(&self) -> &'static str {
        let next = self.timers.next();
        let Timers { setup, sender, receiver, .. } = self.timers;
        let statistics = self.timers.rare[Rare::Statistics as usize];
        let parts = [
            (setup, "set-up"),
            (sender, "sending half"),
            (receiver, "receiving half"),
            (statistics, "statistics"),
        ];
        parts.iter().find(|(at, _)| *at == next).map_or("reports", |(_, part)| part)
    }

    /// Whether there is a datagram to send or an event.
    pub fn is_pending(&self) -> bool {
        !(self.events.is_empty() && self.outbox.is_empty())
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self, _now: Time) -> Option<Transmit> {
        self.outbox.poll()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.events.pop_front().or_else(|| self.outbox.poll_signal().map(EndpointEvent::Signal))
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.left {
            return;
        }
        let result = self.on_timeout(now);
        self.finish(now, result);
    }

    /// Handles a datagram from the far end, a server or a relay.
    pub fn handle_datagram(&mut self, now: Time, from: Address, datagram: &Datagram) {
        if self.left || now >= self.config.session.end {
            return;
        }
        self.counters.received(datagram.size);
        let result = match &datagram.content {
            // Media is the most that comes, and changes nothing for the sending half.
            Content::Rtp(packet) if self.decrypts() => match self.on_rtp(now, datagram, packet) {
                Ok(()) => return,
                failed => failed,
            },
            Content::Rtcp(rtcp) if self.decrypts() => self.on_rtcp(now, rtcp),
            content => {
                self.setup.on_content(now, from, content, &mut self.outbox);
                self.after_setup(now)
            }
        };
        self.finish(now, result);
    }

    /// Sets when the picture of an [`EndpointEvent::EncodeRequested`] will be encoded.
    pub fn handle_encoded(&mut self, stream: usize, ready: Time) {
        self.sender.handle_encoded(stream, ready);
        self.timers.sender = self.sender.poll_timeout();
    }

    /// Answers an [`EndpointEvent::DecisionRequested`].
    pub fn handle_decision(&mut self, now: Time, decision: Decision) {
        if self.left || now >= self.config.session.end {
            return;
        }
        let result = self.sender.handle_decision(now, decision);
        self.finish(now, result);
    }

    /// Sets the time from which on there are pictures to compose; [`Time::MAX`] if there are none.
    pub fn set_pictures_from(&mut self, at: Time) {
        self.sender.set_pictures_from(at);
    }

    /// Learns that the far end was at the signalling server before this one, which therefore calls.
    pub fn handle_present(&mut self, now: Time) {
        self.setup.on_present(now, &mut self.outbox);
        self.timers.setup = self.timers.setup.min(or_never(self.setup.poll_timeout()));
    }

    /// Handles an [`EndpointEvent::Published`] of the end whose media this one forwards.
    pub fn handle_published(&mut self) {
        self.setup.on_published(&mut self.outbox);
    }

    /// Handles what the far end says over signalling.
    pub fn handle_signal(&mut self, now: Time, signal: Signal) {
        if self.left || now >= self.config.session.end {
            return;
        }
        self.setup.on_signal(now, signal, &mut self.outbox);
        let result = self.after_setup(now);
        self.finish(now, result);
    }

    /// Requests key frames from the far end on behalf of someone its media is forwarded to.
    pub fn request_key_frame(&mut self, now: Time) {
        if self.is_connected() && !self.left {
            self.receiver.request_key_frames(now, &mut self.outbox);
            self.after_requests(now);
        }
    }

    /// Sends on media of another end of this node, with what happened to it since its sender sent it.
    pub fn forward(&mut self, now: Time, past: Past, forwarded: &FanOutPacket) {
        if self.left || now >= self.config.session.end {
            return;
        }
        let result = self.sender.forward(now, past, forwarded, &mut self.outbox);
        self.finish(now, result);
    }

    /// Answers an [`EndpointEvent::PacketsRequested`] with packets of the streams that it forwards.
    pub fn retransmit(&mut self, now: Time, fan_out: &FanOut, ssrc: u32, lost: &[u16]) {
        // Before the first report the checks have measured the way; mediasoup takes 100 ms (`RtpStreamSend.cpp`,
        // DefaultRtt).
        let rtt = self.sender.rtt.or(self.setup.check_rtt).unwrap_or(Time::ZERO);
        let request = (ssrc, lost, rtt);
        let result = self.sender.retransmit_forwarded(now, fan_out, request, &mut self.outbox);
        self.finish(now, result);
    }

    /// A store for the media that it forwards; `None` if it sends its own.
    pub fn fan_out(&self) -> Option<FanOut> {
        self.config.forwards.map(|_| FanOut::new(&self.config.sends.streams))
    }

    /// Whether media from the far end can be decrypted.
    pub fn decrypts(&self) -> bool {
        self.setup.decrypts()
    }

    /// Whether the call is set up, and nothing is left to be said over signalling.
    pub(crate) fn is_set_up(&self) -> bool {
        self.setup.is_over()
    }

    fn is_connected(&self) -> bool {
        self.setup.step == Step::DtlsConnected
    }

    fn on_timeout(&mut self, now: Time) -> Result<(), ControlError> {
        if now >= self.config.session.end {
            self.sender.catch_up(now);
            self.receiver.catch_up(now);
            self.report_statistics(now);
            self.left = true;
            self.events.push_back(EndpointEvent::Left);
            return Ok(());
        }
        if !self.joined {
            self.joined = true;
            self.events.push_back(EndpointEvent::Joined);
        }
        if self.timers.setup <= now {
            self.setup.handle_timeout(now, &mut self.outbox);
            self.after_setup(now)?;
        }
        if self.timers.sender <= now {
            self.sender.handle_timeout(now, &mut self.outbox, &mut self.events)?;
        }
        if self.timers.receiver <= now {
            let (target, rtt) = (self.sender.target(), self.sender.rtt);
            self.receiver.handle_timeout(now, target, rtt, &mut self.outbox)?;
            self.show_frames(now);
            self.timers.receiver = self.receiver.poll_timeout();
            self.send_urgent_remb(now);
            self.after_requests(now);
        }
        if self.timers.next_rare <= now {
            self.on_rare_timeout(now);
        }
        Ok(())
    }

    fn on_rare_timeout(&mut self, now: Time) {
        if self.timers.is_due(Rare::Report, now) {
            self.send_report(now);
        }
        if self.timers.is_due(Rare::ReceiverReport, now) {
            self.send_receiver_report(now);
        }
        if self.timers.is_due(Rare::AudioReport, now) {
            self.send_audio_report(now);
        }
        if self.timers.is_due(Rare::AudioSenderReport, now) {
            self.send_audio_sender_report(now);
        }
        if self.timers.is_due(Rare::FirstFrame, now) {
            self.timers.set(Rare::FirstFrame, Time::MAX);
            self.events.push_back(EndpointEvent::FirstFrame);
        }
        if self.timers.is_due(Rare::Statistics, now) {
            self.sender.catch_up(now + Time(1));
            self.receiver.catch_up(now + Time(1));
            self.report_statistics(now);
        }
    }

    fn on_rtp(&mut self, now: Time, datagram: &Datagram, packet: &Rtp) -> Result<(), ControlError> {
        let rtt = self.sender.rtt;
        self.receiver.on_rtp(now, datagram, packet, rtt, &mut self.outbox)?;
        if packet.header.marker && self.config.observe == Observe::EachChange {
            self.observe_receiver();
        }
        self.timers.receiver = self.receiver.poll_timeout();
        self.send_urgent_remb(now);
        self.after_requests(now);
        Ok(())
    }

    fn after_setup(&mut self, now: Time) -> Result<(), ControlError> {
        self.timers.setup = or_never(self.setup.poll_timeout());
        while self.announced < self.setup.step {
            let (step, event) = self.announced.next();
            self.announced = step;
            self.events.push_back(event);
            if self.setup.publishes_at() == Some(step) {
                self.events.push_back(EndpointEvent::Published);
            }
            if step == Step::DtlsConnected {
                self.counters.begin(now);
                self.sender.start(now, now + self.setup.encoder_start())?;
                // Its first timeout may be due at once.
                self.timers.sender = self.sender.poll_timeout();
                self.start_reports(now);
                if self.config.forwards.is_some() {
                    self.events.push_back(EndpointEvent::KeyFrameRequested);
                }
                if self.has_statistics() {
                    let first = (now + Time(1)).ceil_to(STATISTICS_INTERVAL);
                    self.timers.set(Rare::Statistics, first);
                }
            }
        }
        Ok(())
    }

    fn show_frames(&mut self, now: Time) {
        let before = self.events.len();
        self.receiver.show_frames(now, &mut self.events);
        if self.events.len() > before && !self.has_shown {
            self.has_shown = true;
            match self.setup.show_delay() {
                Time::ZERO => self.events.insert(before, EndpointEvent::FirstFrame),
                delay => self.timers.set(Rare::FirstFrame, now + delay),
            }
        }
    }

    fn send_urgent_remb(&mut self, now: Time) {
        if self.receiver.has_urgent_remb() && self.is_connected() {
            self.send_report(now);
        }
    }

    /// Whether it reports statistics and internal values of its congestion control.
    fn has_statistics(&self) -> bool {
        self.config.forwards != Some(ForwardingMode::AtOnce)
    }

    fn report_statistics(&mut self, now: Time) {
        if !self.is_connected() || !self.has_statistics() {
            return;
        }
        self.timers.set(Rare::Statistics, now + STATISTICS_INTERVAL);
        let statistics = Box::new(self.statistics(now));
        self.events.push_back(EndpointEvent::Statistics(statistics));
        if self.config.observe == Observe::EachSecond {
            self.observe_sender();
            self.observe_receiver();
        }
    }

    /// Reports the sender half after feedback, if every change is observed.
    fn observe_feedback(&mut self) {
        if self.config.observe == Observe::EachChange && self.has_statistics() {
            self.observe_sender();
        }
    }

    fn observe_sender(&mut self) {
        let mut values = Vec::with_capacity(OBSERVED);
        self.sender.controller.observe(&mut values);
        self.events.push_back(EndpointEvent::Observed { sender: true, values });
    }

    fn observe_receiver(&mut self) {
        let Some(estimator) = &self.receiver.estimator else { return };
        let mut values = Vec::new();
        estimator.observe(&mut values);
        self.events.push_back(EndpointEvent::Observed { sender: false, values });
    }

    /// Ends whatever has happened to the sending half: looks when that is due, and hands on what the congestion control
    /// asks for, or ends on its error.
    fn finish(&mut self, now: Time, result: Result<(), ControlError>) {
        self.timers.sender = self.sender.poll_timeout();
        if let Err(error) = result {
            self.left = true;
            self.events.push_back(EndpointEvent::Failed(error));
        } else if let Some(request) = self.sender.poll_request(now) {
            self.events.push_back(EndpointEvent::DecisionRequested(request));
        }
    }
}

#[cfg(test)]
mod tests;
