//! An end of a connection that forwards what another end at the same node receives. It may belong to an SFU,
//! a switching MCU, or a participant that passes media on in a tree.

use super::config::{Addresses, Session, StreamConfig};
use super::event::EndpointEvent;
use super::fan_out::{FanOut, Forwarded, Stored};
use super::outbox::Outbox;
use super::setup::{Setup, Step};
use crate::packet::{
    Address, Content, Datagram, Ecn, IP_UDP_BYTES, Kind, Past, Rtcp, Rtp, RtpPayload, SRTP_BYTES,
    Signal, Transmit,
};
use crate::rtp::rtcp::{Nack, NtpTime, SenderReport};
use crate::rtp::{AbsSendTime, RtcpPacket, RtpHeader};
use crate::units::{Bytes, Time};
use std::collections::{BTreeMap, VecDeque};

/// When more packets than this were sent again, those that are not kept any more are forgotten.
const MOST_RESENT: usize = 64;
/// Interval of sender reports.
const REPORT_INTERVAL: Time = Time::from_secs(1);

/// What a forwarder does with RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// An SFU: answers requests itself, sends its own reports, and assigns its own transport-wide sequence
    /// numbers. It ignores the receivers' estimates, as Janus does by default.
    Terminating,
    /// A switching MCU of 2013: an address translator that passes RTP and RTCP unchanged, both ways.
    Switching,
}

/// Configuration of a forwarder.
#[derive(Clone, Debug)]
pub struct ForwarderConfig {
    /// Its own address and the address of the far end.
    pub addresses: Addresses,
    /// When the connection starts and ends.
    pub session: Session,
    /// What it does with RTCP.
    pub forwarding: Forwarding,
    /// Streams of the original sender.
    pub streams: Vec<StreamConfig>,
}

/// An end of a connection that forwards media.
pub struct Forwarder {
    config: ForwarderConfig,
    setup: Setup,
    /// When the set-up is due, as of the last call that concerned it.
    next_setup: Option<Time>,
    begun: bool,
    streams: Vec<Received>,
    /// When it forwarded its first packet. What arrived before is unknown to its receiver.
    since: Option<Time>,
    next_transport_seq: u16,
    next_report: Option<Time>,
    outbox: Outbox,
    events: VecDeque<EndpointEvent>,
}

/// A stream as one receiver gets it.
struct Received {
    config: StreamConfig,
    next_repair_seq: u16,
    sent: Option<Sent>,
    /// When packets were sent again last, by the sequence number of the original.
    resent: BTreeMap<u16, Time>,
}

/// Contents of the next sender report.
#[derive(Clone, Copy, Default)]
struct Sent {
    timestamp: u32,
    packets: u32,
    octets: u32,
}

impl Forwarder {
    /// Creates a forwarder whose connection has not started.
    pub fn new(config: ForwarderConfig) -> Self {
        let received = |config: &StreamConfig| Received {
            config: *config,
            next_repair_seq: 1,
            sent: None,
            resent: BTreeMap::new(),
        };
        Forwarder {
            setup: Setup::new(&config.session, config.addresses.relay.is_some()),
            next_setup: None,
            streams: config.streams.iter().map(received).collect(),
            since: None,
            begun: false,
            next_transport_seq: 0,
            next_report: None,
            outbox: Outbox::new(config.addresses),
            events: VecDeque::new(),
            config,
        }
    }

    /// Streams of the original sender.
    pub fn streams(&self) -> &[StreamConfig] {
        &self.config.streams
    }

    /// What it does with RTCP.
    pub fn forwarding(&self) -> Forwarding {
        self.config.forwarding
    }

    /// When to call [`Forwarder::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let Session { start, end, .. } = self.config.session;
        let due = match self.begun {
            true => [self.next_setup, self.next_report].into_iter().flatten().min(),
            false => Some(start),
        };
        due.filter(|at| *at < end)
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
        self.begun = true;
        self.setup.handle_timeout(now, &mut self.outbox);
        self.after_setup(now);
        if self.next_report.is_some_and(|at| at <= now) {
            self.send_reports(now);
        }
    }

    /// Handles a datagram from the far end. Media, and RTCP that passes unchanged, are ignored here: the
    /// driver hands them to [`Forwarder::forward`] of the ends that forward them.
    pub fn handle_datagram(&mut self, now: Time, from: Address, datagram: &Datagram) {
        if now >= self.config.session.end {
            return;
        }
        match &datagram.content {
            Content::Rtcp(rtcp) if self.config.forwarding == Forwarding::Terminating => {
                return self.on_rtcp(rtcp);
            }
            Content::Rtp(_)
            | Content::Rtcp(_)
            | Content::Tcp(_)
            | Content::Udp(_)
            | Content::WebSocket(_)
            | Content::Turn(_) => return,
            Content::Binding => self.setup.on_binding(&mut self.outbox),
            Content::Stun(stun) => self.setup.on_stun(now, from, *stun, &mut self.outbox),
            Content::Dtls(flight) => self.setup.on_dtls(now, *flight, &mut self.outbox),
            Content::Dtls13(datagram) => {
                self.setup.on_dtls13(now, *datagram, &mut self.outbox);
            }
            Content::Signalling(segment) => {
                self.setup.on_signalling(now, *segment, &mut self.outbox);
            }
            Content::Allocation(answer) => {
                self.setup.on_allocation(now, *answer, &mut self.outbox);
            }
        }
        self.after_setup(now);
    }

    /// Learns that the far end was at the signalling server before this one, which therefore calls.
    pub fn handle_present(&mut self, now: Time) {
        self.setup.on_present(now);
        self.next_setup = self.setup.poll_timeout();
    }

    /// Handles what the far end says over signalling.
    pub fn handle_signal(&mut self, now: Time, signal: Signal) {
        if now < self.config.session.end {
            self.setup.on_signal(now, signal, &mut self.outbox);
            self.next_setup = self.setup.poll_timeout();
        }
    }

    fn after_setup(&mut self, now: Time) {
        self.next_setup = self.setup.poll_timeout();
        let terminating = self.config.forwarding == Forwarding::Terminating;
        if terminating && self.is_connected() && self.next_report.is_none() {
            self.next_report = Some(now + REPORT_INTERVAL);
            self.events.push_back(EndpointEvent::KeyFrameRequested);
        }
    }

    /// Passes on, unchanged, what arrived at another end of this node. It belongs to a switching MCU.
    pub fn switch(&mut self, now: Time, past: Past, datagram: &Datagram) {
        if self.is_connected() && now < self.config.session.end {
            self.outbox.forward(past, datagram.clone());
        }
    }

    /// Forwards media that arrived at another end of this node, with what happened to it since its sender sent it.
    pub fn forward(&mut self, now: Time, past: Past, forwarded: &Forwarded) {
        if !self.is_connected() || now >= self.config.session.end {
            return;
        }
        let since = *self.since.get_or_insert(now);
        let Forwarded { packet, payload_bytes, stream, known, repairs } = forwarded;
        let is_known = known.is_some_and(|at| at >= since);
        if is_known && *repairs {
            return;
        }
        let is_copy = is_known && packet.kind == Kind::Rtx;
        let counts = matches!(packet.payload, RtpPayload::Video(_) | RtpPayload::Audio { .. });
        if let Some(stream) = stream.filter(|_| counts && !is_copy) {
            let sent = self.streams[stream].sent.get_or_insert_default();
            sent.timestamp = packet.header.timestamp;
            sent.packets = sent.packets.wrapping_add(1);
            sent.octets = sent.octets.wrapping_add(*payload_bytes as u32);
        }
        self.send(now, past, packet.clone(), *payload_bytes);
    }

    fn is_connected(&self) -> bool {
        self.setup.step == Step::DtlsConnected
    }

    /// Sends a packet with what belongs to this transport and not to the one that it came over: the next
    /// transport-wide sequence number, the time of sending, and the ECN codepoint.
    ///
    /// An estimator behind the forwarder thus measures this leg alone, as behind mediasoup (`Transport.cpp`,
    /// OnConsumerSendRtpPacket). A codepoint other than Not-ECT promises a reaction to marks (RFC 3168, section 5;
    /// RFC 9331, section 4.3), and a forwarder without congestion control has none. Marks of the other leg end here:
    /// its receiver reports them to its sender. Only a translator that leaves packets as they are copies the codepoint
    /// (RFC 6679, section 8.1).
    fn send(&mut self, now: Time, past: Past, mut packet: Rtp, payload_bytes: u64) {
        let extensions = &mut packet.header.extensions;
        extensions.transport_sequence = Some(self.next_transport_seq);
        if extensions.abs_send_time.is_some() {
            extensions.abs_send_time = Some(AbsSendTime::from_time(now));
        }
        self.next_transport_seq = self.next_transport_seq.wrapping_add(1);
        // Receivers differ in nothing that has a size but the header.
        let size = Bytes(IP_UDP_BYTES + packet.header_bytes() + payload_bytes + SRTP_BYTES);
        let content = Content::Rtp(packet);
        self.outbox.forward(past, Datagram { size, ecn: Ecn::NotCapable, content });
    }

    fn on_rtcp(&mut self, rtcp: &Rtcp) {
        for packet in rtcp.packets.iter() {
            match packet {
                RtcpPacket::Nack(Nack { media_ssrc, lost, .. }) => {
                    let (ssrc, lost) = (*media_ssrc, lost.clone());
                    self.events.push_back(EndpointEvent::PacketsRequested { ssrc, lost });
                }
                RtcpPacket::PictureLossIndication(_) | RtcpPacket::FullIntraRequest(_) => {
                    self.events.push_back(EndpointEvent::KeyFrameRequested);
                }
                _ => {}
            }
        }
    }

    /// Answers an [`EndpointEvent::PacketsRequested`] with packets of the streams that it forwards.
    pub fn retransmit(&mut self, now: Time, fan_out: &FanOut, ssrc: u32, lost: &[u16]) {
        let rtt = self.setup.check_rtt.unwrap_or(Time::ZERO);
        for &seq in lost {
            let Some((stream, stored)) = fan_out.find(ssrc, seq) else { continue };
            // What came before the receiver was not sent to it.
            if self.since.is_none_or(|since| stored.at < since) {
                continue;
            }
            let received = &mut self.streams[stream];
            if let Some(packet) = received.retransmission(now, seq, rtt, &stored) {
                received.forget(|seq| fan_out.find(ssrc, seq).is_none());
                let payload_bytes = packet.payload_bytes();
                self.send(now, Past::new(now), packet, payload_bytes);
            }
        }
    }

    fn send_reports(&mut self, now: Time) {
        self.next_report = Some(now + REPORT_INTERVAL);
        for stream in &self.streams {
            let Some(sent) = stream.sent else { continue };
            let report = SenderReport {
                ssrc: stream.config.ssrc,
                ntp: NtpTime::from_time(now),
                rtp_timestamp: sent.timestamp,
                packet_count: sent.packets,
                octet_count: sent.octets,
                blocks: Vec::new(),
            };
            self.outbox.send_rtcp(now, [RtcpPacket::SenderReport(report)]);
        }
    }
}

impl Received {
    /// Forgets packets that are not kept any more, now and then.
    fn forget(&mut self, is_gone: impl Fn(u16) -> bool) {
        if self.resent.len() > MOST_RESENT {
            self.resent.retain(|seq, _| !is_gone(*seq));
        }
    }

    /// The retransmission of a requested packet, unless it was sent a moment ago; see
    /// [`Repair::resend_pause`](crate::media::repair::Repair::resend_pause).
    fn retransmission(&mut self, now: Time, seq: u16, rtt: Time, stored: &Stored) -> Option<Rtp> {
        let repair = self.config.repair;
        let resent = self.resent.get(&seq).copied().filter(|at| *at >= stored.at);
        let last_sent = resent.unwrap_or(stored.at);
        if now < last_sent + repair.resend_pause(rtt, resent.is_some()) {
            return None;
        }
        self.resent.insert(seq, now);
        let &Stored { header, part, .. } = stored;
        if repair.on_original_ssrc() {
            return Some(Rtp { header, payload: RtpPayload::Video(part), kind: Kind::Rtx });
        }
        // RFC 4588: on a separate stream, with its own sequence number.
        let header = RtpHeader {
            payload_type: repair.rtx_payload_type(),
            ssrc: self.config.repair_ssrc,
            seq: self.next_repair_seq,
            ..header
        };
        self.next_repair_seq = self.next_repair_seq.wrapping_add(1);
        let payload = RtpPayload::Rtx { original_seq: seq, part };
        Some(Rtp { header, payload, kind: Kind::Rtx })
    }
}
