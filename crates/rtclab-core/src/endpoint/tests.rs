//! Short calls between two ends in virtual time, without network, record or simulator.

mod congestion_feedback;
mod control;
mod forwarding;
mod hostile;
mod repair;
mod reports;
mod servers;
mod setup;
mod streams;

use super::*;
use crate::cc::{Decision, Estimator, Fixed, ReceivedPacket};
use crate::media::codec::Codec;
use crate::media::encoder::VideoConfig;
use crate::media::repair::Repair;
use crate::network::NodeId;
use crate::packet::{Described, Ecn, Kind, Past, Rtp};
use crate::rtp::RtcpPacket;
use crate::stack::StackProfile;
use crate::units::{Bitrate, Bytes};
use std::sync::{Arc, Mutex};

/// One-way delay between the two ends, unless a test says otherwise.
const DELAY: Time = Time::from_millis(20);
/// Indices of the two ends of a pair.
const ALICE: usize = 0;
const BOB: usize = 1;
/// SSRC of the first stream of each end.
const ALICE_VIDEO: u32 = 1_001;
const BOB_VIDEO: u32 = 2_001;

/// A datagram as it leaves an end.
struct Sent {
    at: Time,
    by: usize,
    datagram: Datagram,
}

impl Sent {
    fn rtp(&self) -> Option<&Rtp> {
        match &self.datagram.content {
            Content::Rtp(packet) => Some(packet),
            _ => None,
        }
    }

    fn rtcp(&self) -> &[RtcpPacket] {
        match &self.datagram.content {
            Content::Rtcp(rtcp) => &rtcp.packets,
            _ => &[],
        }
    }

    fn is_kind(&self, kind: Kind) -> bool {
        self.rtp().is_some_and(|packet| packet.kind == kind)
    }

    fn is_nack(&self) -> bool {
        self.rtcp().iter().any(|packet| matches!(packet, RtcpPacket::Nack(_)))
    }
}

/// What happens to a datagram: the delay of each of its copies, none if it is lost.
type Fate = Box<dyn FnMut(&Sent) -> Vec<Time>>;

/// A peer or a forwarder.
trait End {
    fn handle_datagram(&mut self, now: Time, from: Address, datagram: &Datagram);
    fn handle_timeout(&mut self, now: Time);
    fn handle_encoded(&mut self, _stream: usize, _ready: Time) {}
    fn handle_signal(&mut self, now: Time, signal: Signal);
    fn poll_transmit(&mut self, now: Time) -> Option<Transmit>;
    fn poll_event(&mut self) -> Option<EndpointEvent>;
    fn poll_timeout(&self) -> Option<Time>;
}

const ANYWHERE: Address = Address { node: NodeId(9), port: 9 };

impl End for Peer {
    fn handle_datagram(&mut self, now: Time, from: Address, datagram: &Datagram) {
        self.handle_datagram(now, from, datagram);
    }
    fn handle_timeout(&mut self, now: Time) {
        self.handle_timeout(now);
    }
    fn handle_encoded(&mut self, stream: usize, ready: Time) {
        self.handle_encoded(stream, ready);
    }
    fn handle_signal(&mut self, now: Time, signal: Signal) {
        self.handle_signal(now, signal);
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.poll_transmit(now)
    }
    fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.poll_event()
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.poll_timeout()
    }
}

/// An end that sends on what another end of its node receives.
enum ForwardingEnd {
    /// With the media that it forwards, and the time of the last datagram.
    Peer(Box<Peer>, FanOut, Time),
    Translator(Box<Translator>),
}

impl ForwardingEnd {
    fn peer(config: PeerConfig, control: Halves) -> Self {
        let peer = Peer::new(config, control);
        let fan_out = peer.fan_out().expect("a peer that forwards");
        ForwardingEnd::Peer(Box::new(peer), fan_out, Time::ZERO)
    }

    /// Forwards what arrives at the node.
    fn forward(&mut self, now: Time, past: Past, datagram: &Datagram) {
        match (self, &datagram.content) {
            (ForwardingEnd::Translator(translator), _) => translator.pass_on(now, past, datagram),
            (ForwardingEnd::Peer(peer, fan_out, _), Content::Rtp(packet)) => {
                if let Some(forwarded) = fan_out.take(now, packet) {
                    peer.forward(now, past, &forwarded);
                }
            }
            _ => {}
        }
    }
}

/// Evaluates an expression on a forwarding end, whatever its kind.
macro_rules! each {
    ($end:expr, $inner:ident => $call:expr) => {
        match $end {
            ForwardingEnd::Peer($inner, ..) => $call,
            ForwardingEnd::Translator($inner) => $call,
        }
    };
}

impl End for ForwardingEnd {
    fn handle_signal(&mut self, now: Time, signal: Signal) {
        each!(self, end => end.handle_signal(now, signal));
    }
    fn handle_datagram(&mut self, at: Time, from: Address, datagram: &Datagram) {
        if let ForwardingEnd::Peer(.., now) = self {
            *now = at;
        }
        each!(self, end => end.handle_datagram(at, from, datagram));
    }
    fn handle_timeout(&mut self, now: Time) {
        each!(self, end => end.handle_timeout(now));
    }
    fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        each!(self, end => end.poll_transmit(now))
    }
    fn poll_event(&mut self) -> Option<EndpointEvent> {
        let event = each!(self, end => end.poll_event())?;
        if let (
            EndpointEvent::PacketsRequested { ssrc, lost },
            ForwardingEnd::Peer(peer, fan_out, now),
        ) = (&event, &mut *self)
        {
            peer.retransmit(*now, fan_out, *ssrc, lost);
            return self.poll_event();
        }
        Some(event)
    }
    fn poll_timeout(&self) -> Option<Time> {
        each!(self, end => end.poll_timeout())
    }
}

/// Two ends and the datagrams in transit between them.
struct Pair<A = Peer, B = Peer> {
    alice: A,
    bob: B,
    fate: Fate,
    /// What the way does to the codepoints of packets.
    ecn: fn(Ecn) -> Ecn,
    /// How long a picture takes to encode when a peer requests it.
    encoding: Time,
    now: Time,
    in_transit: Vec<(Time, usize, Datagram)>,
    /// Signals on their way. Each one takes [`DELAY`] and is never lost.
    signals: VecDeque<(Time, usize, Signal)>,
    sent: Vec<Sent>,
    events: Vec<(Time, usize, EndpointEvent)>,
}

impl<A: End, B: End> Pair<A, B> {
    fn of(alice: A, bob: B) -> Self {
        Pair {
            alice,
            bob,
            fate: Box::new(|_| vec![DELAY]),
            ecn: |ecn| ecn,
            encoding: Time::ZERO,
            now: Time::ZERO,
            in_transit: Vec::new(),
            signals: VecDeque::new(),
            sent: Vec::new(),
            events: Vec::new(),
        }
    }

    fn end(&mut self, index: usize) -> &mut dyn End {
        if index == ALICE { &mut self.alice } else { &mut self.bob }
    }

    /// Runs from one arrival or timeout to the next until nothing is due by `until`.
    fn run(&mut self, until: Time) {
        loop {
            let arrival = self.in_transit.first().map_or(Time::MAX, |first| first.0);
            let timeouts = [self.alice.poll_timeout(), self.bob.poll_timeout()].map(or_never);
            let signal = self.signals.front().map_or(Time::MAX, |first| first.0);
            let due = arrival.min(signal).min(timeouts[ALICE]).min(timeouts[BOB]);
            // An end may report a timeout that has already passed.
            let now = due.max(self.now);
            if now > until {
                return;
            }
            self.now = now;
            let index = if arrival == due {
                let (_, to, datagram) = self.in_transit.remove(0);
                let from = addresses(to).remote;
                self.end(to).handle_datagram(now, from, &datagram);
                to
            } else if signal == due {
                let (_, to, signal) = self.signals.pop_front().expect("a signal");
                self.end(to).handle_signal(now, signal);
                to
            } else {
                let index = if timeouts[ALICE] == due { ALICE } else { BOB };
                self.end(index).handle_timeout(now);
                index
            };
            self.drain(now, index);
        }
    }

    /// Takes all events and datagrams from an end.
    fn drain(&mut self, now: Time, index: usize) {
        while let Some(event) = self.end(index).poll_event() {
            if let EndpointEvent::EncodeRequested { stream, .. } = event {
                let ready = now + self.encoding;
                self.end(index).handle_encoded(stream, ready);
            }
            if let EndpointEvent::Signal(signal) = event {
                self.signals.push_back((now + DELAY, 1 - index, signal));
            }
            self.events.push((now, index, event));
        }
        while let Some(Transmit { datagram, .. }) = self.end(index).poll_transmit(now) {
            let sent = Sent { at: now, by: index, datagram };
            for delay in (self.fate)(&sent) {
                let at = now + delay;
                let place = self.in_transit.partition_point(|other| other.0 <= at);
                let ecn = (self.ecn)(sent.datagram.ecn);
                let datagram = Datagram { ecn, ..sent.datagram.clone() };
                self.in_transit.insert(place, (at, 1 - index, datagram));
            }
            self.sent.push(sent);
        }
    }

    /// Loses the datagrams of this sender for which `is_lost` is true; all others take [`DELAY`].
    fn lose(&mut self, by: usize, mut is_lost: impl FnMut(&Sent) -> bool + 'static) {
        self.fate = Box::new(move |sent| match sent.by == by && is_lost(sent) {
            true => vec![],
            false => vec![DELAY],
        });
    }

    /// When an end first reported this event.
    fn first(&self, by: usize, event: &EndpointEvent) -> Option<Time> {
        self.events.iter().find(|(_, index, e)| *index == by && e == event).map(|(at, ..)| *at)
    }

    /// Datagrams that an end sent, in order.
    fn sent_by(&self, by: usize) -> impl Iterator<Item = &Sent> {
        self.sent.iter().filter(move |sent| sent.by == by)
    }

    /// RTP packets of a kind that an end sent, and when.
    fn rtp_by(&self, by: usize, kind: Kind) -> Vec<(Time, &Rtp)> {
        let of_kind = self.sent_by(by).filter(|sent| sent.is_kind(kind));
        of_kind.filter_map(|sent| Some((sent.at, sent.rtp()?))).collect()
    }

    /// The last statistics of an end.
    fn statistics(&self, by: usize) -> &Statistics {
        let statistics = self.events.iter().rev().find_map(|(_, index, event)| match event {
            EndpointEvent::Statistics(statistics) if *index == by => Some(statistics),
            _ => None,
        });
        statistics.expect("statistics")
    }

    /// Number of pictures of a stream that an end showed.
    fn shown(&self, by: usize, of: u32) -> usize {
        let is_shown = |(_, index, event): &&(Time, usize, EndpointEvent)| {
            *index == by
                && matches!(event, EndpointEvent::FrameRendered { ssrc, .. } if *ssrc == of)
        };
        self.events.iter().filter(is_shown).count()
    }
}

impl Pair {
    /// A call at a fixed rate, with a video stream in each direction.
    fn call(stack: &str, kbps: u64, repair: Repair) -> Pair {
        let streams = [video(ALICE_VIDEO, repair), video(BOB_VIDEO, repair)];
        Pair::with(stack, streams.map(|stream| vec![stream]), [fixed(kbps), fixed(kbps)])
    }

    fn with(stack: &str, streams: [Vec<StreamConfig>; 2], [alice, bob]: [Halves; 2]) -> Pair {
        let [a, b] = configs(stack, streams);
        Pair::of(Peer::new(a, alice), Peer::new(b, bob))
    }
}

fn stack(name: &str) -> &'static StackProfile {
    StackProfile::named(name).expect("a profile")
}

/// A video stream of 640x480 at 30 pictures a second.
fn video(ssrc: u32, repair: Repair) -> StreamConfig {
    let media = Media::Video(VideoConfig {
        width: 640,
        height: 480,
        frame_rate: 30.0,
        codec: Codec::Vp8,
        min_bps: Bitrate::from_kbps(30),
        max_bps: Bitrate::from_kbps(1_700),
        start_bps: Bitrate::from_kbps(300),
        steady: true,
    });
    StreamConfig { ssrc, repair_ssrc: ssrc + 1, media, repair }
}

/// An audio stream of 80 bytes every 20 ms.
fn audio(ssrc: u32) -> StreamConfig {
    let frame_ns = Time::from_millis(20);
    let media = Media::Audio(AudioConfig { bitrate_bps: Bitrate::from_kbps(32), frame_ns });
    StreamConfig { ssrc, repair_ssrc: 0, media, repair: Repair::None }
}

/// Alice calls bob at time zero.
fn configs(name: &str, streams: [Vec<StreamConfig>; 2]) -> [PeerConfig; 2] {
    let directions = streams.map(|streams| Direction { streams, stack: stack(name) });
    [ALICE, BOB].map(|index| PeerConfig {
        addresses: addresses(index),
        session: session(index),
        ssrc: 100 + index as u32,
        sends: directions[index].clone(),
        receives: directions[1 - index].clone(),
        forwards: None,
        plays: true,
        composes: false,
        encodes_slowly: false,
        pause: None,
        observe: Observe::EachSecond,
        seed: 7 + index as u64,
    })
}

fn addresses(index: usize) -> Addresses {
    let at = |index: usize| Address { node: NodeId(index as u32), port: index as u32 };
    Addresses { local: at(index), remote: at(1 - index), relay: None, core: NodeId(2) }
}

fn session(index: usize) -> Session {
    let negotiation = Negotiation::Bursts;
    Session {
        offerer: index == ALICE,
        negotiation,
        behind_nat: false,
        start: Time::ZERO,
        end: Time::from_secs(3_600),
    }
}

fn fixed(kbps: u64) -> Halves {
    (Box::new(Fixed::new(Bitrate::from_kbps(kbps))), None)
}

/// A receiver half that records the packets it is told of and requests rates at given times.
#[derive(Default)]
struct RecordingEstimator {
    heard: Arc<Mutex<Vec<ReceivedPacket>>>,
    rembs: VecDeque<(Time, Bitrate)>,
    now: Time,
}

impl Estimator for RecordingEstimator {
    fn on_packet(&mut self, packet: &ReceivedPacket) -> Result<(), ControlError> {
        self.heard.lock().expect("no poison").push(*packet);
        Ok(())
    }
    fn on_timeout(&mut self, now: Time) -> Result<(), ControlError> {
        self.now = now;
        Ok(())
    }
    fn poll_timeout(&self) -> Option<Time> {
        self.rembs.front().map(|(at, _)| *at)
    }
    fn poll_remb(&mut self) -> Option<Bitrate> {
        let due = self.rembs.front().is_some_and(|(at, _)| *at <= self.now);
        if due { self.rembs.pop_front().map(|(_, rate)| rate) } else { None }
    }
}

#[test]
fn an_end_of_a_connection_can_move_to_another_thread() {
    fn assert_send<T: Send>() {}
    assert_send::<Peer>();
    assert_send::<Translator>();
    assert_send::<crate::tcp::TcpClient>();
    assert_send::<crate::tcp::TcpServer>();
}
