//! An end of a connection that sends what another end at its node receives: of an SFU, of a switching
//! MCU, or of a participant who passes media on in a tree.

use super::rtp_format::{self, Ssrcs};
use super::setup::{Setup, Step};
use super::wire::{Arrival, Port, Wire};
use crate::media::Kind;
use crate::media::repair::Repair;
use crate::network::NodeId;
use crate::record::RtpLabel;
use crate::rtp::rtcp::{self, NtpTime, SenderReport};
use crate::rtp::{ExtensionIds, Protocol, RtcpPacket, RtpHeader, classify, rtx};
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// Janus, `ice.c`: packets are kept for retransmission up to a second (DEFAULT_MAX_NACK_QUEUE).
const KEPT: Time = Time::from_secs(1);
/// Interval of sender reports.
const REPORT_INTERVAL: Time = Time::from_secs(1);

/// What a forwarder does with RTCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forwarding {
    /// An SFU: answers requests itself, makes its own reports, and gives packets transport-wide numbers of
    /// its own. What receivers estimate is ignored, as Janus does unless told otherwise.
    Terminating,
    /// A switching MCU of 2013: an address translator; RTP and RTCP pass as they are, both ways.
    Switching,
}

/// What a forwarder is.
#[derive(Clone, Copy, Debug)]
pub struct ForwarderConfig {
    /// What it does with RTCP.
    pub forwarding: Forwarding,
    /// Streams of the first sender.
    pub ssrcs: Ssrcs,
    /// Loss repair of the first sender's video.
    pub repair: Repair,
    /// Where the signalling server is.
    pub core: NodeId,
    /// Whether it sends the offer.
    pub offerer: bool,
    /// When the connection begins.
    pub start: Time,
    /// When it ends.
    pub end: Time,
}

/// What shall be done at the end that the media come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// Ask for a key frame.
    KeyFrame,
    /// Pass the datagram on.
    Pass,
}

/// Such an end.
pub struct Forwarder {
    config: ForwarderConfig,
    port: Port,
    setup: Setup,
    begun: bool,
    kept: VecDeque<Kept>,
    next_transport_seq: u16,
    next_rtx_seq: u16,
    next_report: Option<Time>,
    sent: Option<Sent>,
}

struct Kept {
    at: Time,
    label: RtpLabel,
    bytes: Vec<u8>,
    size: Bytes,
    last_sent: Time,
}

/// What a sender report says.
#[derive(Clone, Copy, Default)]
struct Sent {
    timestamp: u32,
    packets: u32,
    octets: u32,
}

impl Forwarder {
    /// `port` leads to the other end, `back` from it.
    pub fn new(config: ForwarderConfig, port: Port, back: Port) -> Self {
        Forwarder {
            setup: Setup::new(port, back.socket, config.core, config.offerer, config.start),
            config,
            port,
            begun: false,
            kept: VecDeque::new(),
            next_transport_seq: 0,
            next_rtx_seq: 1,
            next_report: None,
            sent: None,
        }
    }

    /// What it does with RTCP.
    pub fn forwarding(&self) -> Forwarding {
        self.config.forwarding
    }

    /// When to call [`Forwarder::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = match self.begun {
            true => [self.setup.poll_timeout(), self.next_report].into_iter().flatten().min(),
            false => Some(self.config.start),
        };
        due.filter(|at| *at < self.config.end)
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time, wire: &mut Wire) {
        self.begun = true;
        self.setup.on_timeout(now, wire);
        if self.next_report.is_some_and(|at| at <= now) {
            self.send_report(now, wire);
        }
    }

    /// A datagram of the other end arrived.
    pub fn handle_datagram(&mut self, arrival: &Arrival, wire: &mut Wire) -> Option<Request> {
        let (now, bytes) = (arrival.at, arrival.bytes.as_slice());
        if now >= self.config.end {
            return None;
        }
        match classify(bytes) {
            Protocol::Rtcp if self.config.forwarding == Forwarding::Terminating => {
                return self.on_rtcp(now, bytes, wire);
            }
            Protocol::Rtp | Protocol::Rtcp => return Some(Request::Pass),
            Protocol::Stun => self.setup.on_stun(now, bytes, wire),
            Protocol::Dtls => self.setup.on_dtls(now, bytes, wire),
            Protocol::TurnChannel => {}
            Protocol::Other => self.setup.on_signalling(now, bytes, wire),
        }
        let terminating = self.config.forwarding == Forwarding::Terminating;
        if terminating && self.setup.step == Step::DtlsConnected && self.next_report.is_none() {
            self.next_report = Some(now + REPORT_INTERVAL);
            return Some(Request::KeyFrame);
        }
        None
    }

    /// Sends on what arrived at another end of this node.
    pub fn forward(&mut self, arrival: &Arrival, wire: &mut Wire) {
        if self.setup.step != Step::DtlsConnected || arrival.at >= self.config.end {
            return;
        }
        match (self.config.forwarding, arrival.rtp) {
            (Forwarding::Switching, rtp) => {
                let mut bytes = wire.buffer();
                bytes.extend_from_slice(&arrival.bytes);
                wire.forward(arrival.at, arrival.sent, self.port, bytes, arrival.size, rtp);
            }
            (Forwarding::Terminating, Some(label)) => self.forward_media(arrival, label, wire),
            (Forwarding::Terminating, None) => {}
        }
    }

    fn forward_media(&mut self, arrival: &Arrival, label: RtpLabel, wire: &mut Wire) {
        if label.kind == Kind::Padding {
            return;
        }
        let mut bytes = wire.buffer();
        bytes.extend_from_slice(&arrival.bytes);
        let (mut label, mut size) = (label, arrival.size);
        if label.ssrc == self.config.ssrcs.rtx {
            match self.as_original(&mut bytes, &mut label) {
                Some(()) => size = Bytes(size.0 - rtx::OSN_BYTES as u64),
                None => return wire.recycle(bytes),
            }
        }
        self.send(arrival.at, arrival.sent, label, &bytes, size, wire);
        let sent = self.sent.get_or_insert_default();
        // A retransmission under the original number is another copy of what may be kept already.
        let kept = label.kind == Kind::Rtx && self.kept.iter().any(|k| k.label.seq == label.seq);
        if label.ssrc == self.config.ssrcs.video && label.kind != Kind::Fec && !kept {
            sent.timestamp = label.timestamp;
            sent.packets = sent.packets.wrapping_add(1);
            sent.octets = sent.octets.wrapping_add(size.0 as u32);
            self.keep(Kept { at: arrival.at, label, bytes, size, last_sent: arrival.at }, wire);
        } else {
            wire.recycle(bytes);
        }
    }

    /// Turns a retransmission into what was lost; `None` if that has come already.
    fn as_original(&self, bytes: &mut Vec<u8>, label: &mut RtpLabel) -> Option<()> {
        let (mut header, len) = RtpHeader::parse(bytes, &ExtensionIds::CHROMIUM).ok()?;
        let (seq, rest) = rtx::parse(bytes.get(len..)?).ok()?;
        if self.kept.iter().any(|kept| kept.label.seq == seq) {
            return None;
        }
        header.payload_type = rtp_format::VIDEO;
        header.ssrc = self.config.ssrcs.video;
        header.seq = seq;
        let rest = rest.to_vec();
        bytes.clear();
        header.write(&ExtensionIds::CHROMIUM, bytes);
        bytes.extend_from_slice(&rest);
        let (ssrc, payload_type) = (header.ssrc, header.payload_type);
        *label = RtpLabel { kind: Kind::Video, ssrc, payload_type, seq, ..*label };
        Some(())
    }

    fn keep(&mut self, packet: Kept, wire: &mut Wire) {
        while self.kept.front().is_some_and(|kept| kept.at + KEPT < packet.at) {
            if let Some(old) = self.kept.pop_front() {
                wire.recycle(old.bytes);
            }
        }
        self.kept.push_back(packet);
    }

    /// Sends a copy with the next transport-wide number; `origin` is when it was first sent.
    fn send(
        &mut self,
        now: Time,
        origin: Time,
        label: RtpLabel,
        packet: &[u8],
        size: Bytes,
        wire: &mut Wire,
    ) {
        let Ok((mut header, len)) = RtpHeader::parse(packet, &ExtensionIds::CHROMIUM) else {
            return;
        };
        header.extensions.transport_sequence = Some(self.next_transport_seq);
        self.next_transport_seq = self.next_transport_seq.wrapping_add(1);
        let mut bytes = wire.buffer();
        header.write(&ExtensionIds::CHROMIUM, &mut bytes);
        bytes.extend_from_slice(&packet[len..]);
        wire.forward(now, origin, self.port, bytes, size, Some(label));
    }

    fn on_rtcp(&mut self, now: Time, bytes: &[u8], wire: &mut Wire) -> Option<Request> {
        let mut request = None;
        for packet in rtcp::parse_compound(bytes).flatten() {
            match packet {
                RtcpPacket::Nack(nack) => {
                    for seq in nack.lost {
                        self.send_again(now, seq, wire);
                    }
                }
                RtcpPacket::PictureLossIndication(_) | RtcpPacket::FullIntraRequest(_) => {
                    request = Some(Request::KeyFrame);
                }
                _ => {}
            }
        }
        request
    }

    fn send_again(&mut self, now: Time, seq: u16, wire: &mut Wire) {
        let pause = self.setup.check_rtt.unwrap_or(Time::ZERO) + self.config.repair.resend_pause();
        let Some(index) = self.kept.iter().position(|kept| kept.label.seq == seq) else { return };
        if now < self.kept[index].last_sent + pause {
            return;
        }
        self.kept[index].last_sent = now;
        let kept = &self.kept[index];
        let mut bytes = wire.buffer();
        let label = RtpLabel { kind: Kind::Rtx, ..kept.label };
        if self.config.repair.on_original_ssrc() {
            let size = kept.size;
            bytes.extend_from_slice(&kept.bytes);
            self.send(now, now, label, &bytes, size, wire);
        } else if let Ok((mut header, len)) = RtpHeader::parse(&kept.bytes, &ExtensionIds::CHROMIUM)
        {
            // RFC 4588: on a stream of its own, under its own sequence number.
            let size = Bytes(kept.size.0 + rtx::OSN_BYTES as u64);
            (header.payload_type, header.ssrc) = (rtp_format::RTX, self.config.ssrcs.rtx);
            header.seq = self.next_rtx_seq;
            header.write(&ExtensionIds::CHROMIUM, &mut bytes);
            rtx::write(seq, &mut bytes);
            bytes.extend_from_slice(&kept.bytes[len..]);
            let (ssrc, payload_type) = (header.ssrc, header.payload_type);
            let label = RtpLabel { ssrc, payload_type, seq: header.seq, ..label };
            self.next_rtx_seq = self.next_rtx_seq.wrapping_add(1);
            self.send(now, now, label, &bytes, size, wire);
        }
        wire.recycle(bytes);
    }

    fn send_report(&mut self, now: Time, wire: &mut Wire) {
        self.next_report = Some(now + REPORT_INTERVAL);
        let Some(sent) = self.sent else { return };
        let report = RtcpPacket::SenderReport(SenderReport {
            ssrc: self.config.ssrcs.video,
            ntp: NtpTime::from_time(now),
            rtp_timestamp: sent.timestamp,
            packet_count: sent.packets,
            octet_count: sent.octets,
            blocks: Vec::new(),
        });
        let mut bytes = wire.buffer();
        if report.write(&mut bytes).is_ok() {
            wire.send_rtcp(now, self.port, bytes);
        }
    }
}
