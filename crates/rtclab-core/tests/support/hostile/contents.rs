//! Datagrams that nobody sends, made from the bytes of an input.

use super::input::Input;
use super::world::{PORTS, address, ssrc};
use rtclab_core::packet::{
    Allocation, Content, Datagram, Described, Dtls13, DtlsFlight, Ecn, EcnFlags, FecBlock, Kind,
    MAX_SACK_BLOCKS, Message, Rtcp, Rtp, RtpPayload, Segment, SegmentKind, Signal, SignalKind,
    Signalling, Stun, StunForm, TurnSegment, VideoPart, WebSocketSegment, payload_type,
};
use rtclab_core::rtp::rtcp::{
    ArrivalOffset, CcfbArrival, CongestionFeedback, FullIntraRequest, Goodbye, Nack, NtpTime,
    PictureLossIndication, ReceiverReport, Remb, ReportBlock, SdesChunk, SenderReport,
    SourceDescription, StreamArrivals, TransportFeedback, parse_compound,
};
use rtclab_core::rtp::{AbsSendTime, AudioLevel, RtcpPacket, RtpHeader};
use rtclab_core::units::{Bitrate, Bytes, Time};

/// Most items in a list of a packet.
const MOST_ITEMS: u64 = 600;

/// A datagram of any kind.
pub(super) fn datagram(input: &mut Input<'_>, now: Time) -> Option<Datagram> {
    let content = match input.below(16) {
        0..4 => Content::Rtp(rtp(input)?),
        4..8 => Content::Rtcp(rtcp(input, now)?),
        8 => Content::Stun(stun(input)),
        9 => Content::Dtls(DtlsFlight(input.u8())),
        10 => Content::Dtls13(dtls13(input)),
        11 => Content::Signalling(Signalling {
            index: input.u8(),
            count: input.u8(),
            bytes: input.u16(),
        }),
        12 => Content::Allocation(Allocation { step: input.u8() }),
        13 => Content::WebSocket(Box::new(WebSocketSegment {
            segment: segment(input, now),
            message: input.bool().then(|| message(input)),
        })),
        14 => Content::Turn(Box::new(TurnSegment {
            segment: segment(input, now),
            datagrams: (0..input.below(8)).map(|_| input.number() as u32).collect(),
        })),
        _ => match input.below(3) {
            0 => Content::Tcp(segment(input, now)),
            1 => Content::Udp(Bytes(u64::from(input.u16()))),
            _ => Content::Binding,
        },
    };
    Some(Datagram::new(ecn(input), content))
}

fn ecn(input: &mut Input<'_>) -> Ecn {
    Ecn::from_bits(input.u8())
}

/// An SSRC that some end sends, or any.
fn any_ssrc(input: &mut Input<'_>) -> u32 {
    match input.u8() {
        255 => input.u32(),
        first => ssrc(u32::from(first & 31) % PORTS) + u32::from(first >> 5),
    }
}

fn rtp(input: &mut Input<'_>) -> Option<Rtp> {
    let mut header = RtpHeader {
        payload_type: payload_type(input),
        ssrc: any_ssrc(input),
        seq: input.number() as u16,
        timestamp: input.number() as u32,
        marker: input.bool(),
        ..RtpHeader::default()
    };
    extend(input, &mut header);
    let payload = payload(input, &header)?;
    Some(Rtp { header, payload, kind: Kind::ALL[input.below(Kind::ALL.len())] })
}

fn payload_type(input: &mut Input<'_>) -> u8 {
    use payload_type::{AUDIO, RED, RED_RTX, RTX, ULPFEC, VIDEO};
    [VIDEO, RTX, AUDIO, RED, RED_RTX, ULPFEC, 0, 127][input.below(8)]
}

fn extend(input: &mut Input<'_>, header: &mut RtpHeader) {
    let extensions = &mut header.extensions;
    extensions.transport_sequence = input.bool().then(|| input.number() as u16);
    extensions.abs_send_time = input.bool().then(|| AbsSendTime::from_bits(input.number() as u32));
    let level = |input: &mut Input<'_>| AudioLevel { voice: input.bool(), minus_dbov: input.u8() };
    extensions.audio_level = input.bool().then(|| level(input));
    header.padding = input.bool();
}

fn payload(input: &mut Input<'_>, header: &RtpHeader) -> Option<RtpPayload> {
    Some(match input.below(5) {
        0 => RtpPayload::Video(part(input)),
        1 => RtpPayload::Audio { bytes: input.u16(), has_fec: input.bool() },
        2 => RtpPayload::Rtx { original_seq: input.number() as u16, part: part(input) },
        3 => RtpPayload::Padding(input.u16()),
        _ => RtpPayload::Fec(fec(input, header)?.into()),
    })
}

fn part(input: &mut Input<'_>) -> VideoPart {
    let flags = input.u8();
    VideoPart {
        first: flags & 1 != 0,
        key: flags & 2 != 0,
        picture_id: input.number() as u16,
        resolution: (input.u16(), input.u16()),
        bytes: input.u16(),
    }
}

/// FEC over packets near the one with this header.
fn fec(input: &mut Input<'_>, header: &RtpHeader) -> Option<FecBlock> {
    let mut header = RtpHeader { seq: header.seq.wrapping_sub(u16::from(input.u8())), ..*header };
    let protected = (0..1 + input.below(24)).map(|_| {
        header.seq = header.seq.wrapping_add(1 + u16::from(input.u8() & 3));
        let part = VideoPart { picture_id: header.seq, ..part(input) };
        Rtp { header, payload: RtpPayload::Video(part), kind: Kind::Video }
    });
    FecBlock::new(protected.collect::<Vec<_>>())
}

fn rtcp(input: &mut Input<'_>, now: Time) -> Option<Rtcp> {
    if input.bool() {
        let bytes = usize::from(input.u8());
        let packets = parse_compound(input.take(bytes)).flatten();
        return Rtcp::new(packets.collect::<Vec<_>>());
    }
    let count = 1 + input.below(3);
    Rtcp::new((0..count).map(|_| rtcp_packet(input, now)).collect::<Vec<_>>())
}

fn rtcp_packet(input: &mut Input<'_>, now: Time) -> RtcpPacket {
    let (sender_ssrc, media_ssrc) = (any_ssrc(input), any_ssrc(input));
    match input.below(10) {
        0 => RtcpPacket::SenderReport(SenderReport {
            ssrc: media_ssrc,
            ntp: NtpTime(input.number()),
            rtp_timestamp: input.u32(),
            packet_count: input.u32(),
            octet_count: input.u32(),
            blocks: blocks(input, now),
        }),
        1 => RtcpPacket::ReceiverReport(ReceiverReport {
            ssrc: sender_ssrc,
            blocks: blocks(input, now),
        }),
        2 => RtcpPacket::Nack(Nack { sender_ssrc, media_ssrc, lost: lost(input) }),
        3 => RtcpPacket::PictureLossIndication(PictureLossIndication { sender_ssrc, media_ssrc }),
        4 => RtcpPacket::FullIntraRequest(FullIntraRequest {
            sender_ssrc,
            commands: vec![(media_ssrc, input.u8())],
        }),
        5 => RtcpPacket::Remb(Remb {
            sender_ssrc,
            bitrate: Remb::rounded(Bitrate(input.number())),
            ssrcs: vec![media_ssrc],
        }),
        6 | 7 => RtcpPacket::TransportFeedback(TransportFeedback {
            sender_ssrc,
            media_ssrc,
            base_seq: input.number() as u16,
            // 24 bits with a sign.
            reference_time_64ms: (input.number() as i32) << 8 >> 8,
            feedback_count: input.u8(),
            statuses: statuses(input),
        }),
        8 => RtcpPacket::CongestionFeedback(CongestionFeedback {
            sender_ssrc,
            streams: vec![StreamArrivals {
                ssrc: media_ssrc,
                begin_seq: input.number() as u16,
                arrivals: arrivals(input),
            }],
            report_timestamp: input.u32(),
        }),
        _ if input.bool() => RtcpPacket::Goodbye(Goodbye { ssrcs: vec![media_ssrc], reason: None }),
        _ => RtcpPacket::SourceDescription(SourceDescription {
            chunks: vec![SdesChunk { ssrc: media_ssrc, cname: String::new() }],
        }),
    }
}

fn blocks(input: &mut Input<'_>, now: Time) -> Vec<ReportBlock> {
    let middle = NtpTime::from_time(now).middle();
    let block = |input: &mut Input<'_>| ReportBlock {
        ssrc: any_ssrc(input),
        fraction_lost: input.u8(),
        // 24 bits with a sign.
        cumulative_lost: (input.step() as i32) << 8 >> 8,
        highest_seq: input.number() as u32,
        jitter: input.number() as u32,
        last_sender_report: match input.bool() {
            true => middle.wrapping_sub(input.number() as u32),
            false => input.u32(),
        },
        delay_since_last_sender_report: input.number() as u32,
    };
    (0..1 + input.below(4)).map(|_| block(input)).collect()
}

fn lost(input: &mut Input<'_>) -> Vec<u16> {
    let (first, step) = (input.number() as u16, 1 + (input.u8() & 3));
    let count = (input.number() % MOST_ITEMS) as u16;
    (0..count).map(|index| first.wrapping_add(index * u16::from(step))).collect()
}

/// The same pattern again and again.
fn statuses(input: &mut Input<'_>) -> Vec<Option<i32>> {
    let one = |input: &mut Input<'_>| input.bool().then(|| i32::from(input.step() as i16));
    let pattern: Vec<_> = (0..1 + input.below(4)).map(|_| one(input)).collect();
    let count = (input.number() % MOST_ITEMS) as usize;
    pattern.into_iter().cycle().take(count).collect()
}

fn arrivals(input: &mut Input<'_>) -> Vec<Option<CcfbArrival>> {
    let arrival =
        CcfbArrival { ecn: ecn(input), offset: ArrivalOffset::from_time(Time(input.number())) };
    let count = (input.number() % MOST_ITEMS) as usize;
    (0..count).map(|index| (index % 3 > 0).then_some(arrival)).collect()
}

fn stun(input: &mut Input<'_>) -> Stun {
    let form = [StunForm::Bare, StunForm::Full, StunForm::Nominating][input.below(3)];
    Stun { success: input.bool(), check: input.number() as u32, form }
}

fn dtls13(input: &mut Input<'_>) -> Dtls13 {
    match Dtls13::ALL[input.below(6)] {
        Dtls13::Acknowledgement { .. } => {
            Dtls13::Acknowledgement { records: input.u8(), last: input.bool() }
        }
        other => other,
    }
}

fn segment(input: &mut Input<'_>, now: Time) -> Segment {
    let kinds = [SegmentKind::Data, SegmentKind::Ack, SegmentKind::Syn, SegmentKind::SynAck];
    let time = |input: &mut Input<'_>| match input.bool() {
        true => now.saturating_sub(Time(input.number())),
        false => Time(input.number()),
    };
    let mut segment = Segment::new(input.number() as u32, kinds[input.below(4)], time(input));
    segment.echo = time(input);
    segment.seq = input.number() as u32;
    segment.ack = input.number() as u32;
    segment.payload = input.number() as u16;
    segment.duplicate = input.bool();
    segment.sack_blocks = input.u8();
    for block in &mut segment.sack[..usize::from(segment.sack_blocks).min(MAX_SACK_BLOCKS)] {
        *block = (input.number() as u32, input.number() as u32);
    }
    segment.ecn = EcnFlags::from_bits(input.u8());
    segment
}

fn message(input: &mut Input<'_>) -> Message {
    let described = [Described::Audio, Described::Video, Described::Both][input.below(3)];
    match input.below(4) {
        0 => Message::Request,
        1 => Message::Accepted,
        2 => Message::Present((0..input.below(40)).map(|_| u32::from(input.u8())).collect()),
        _ => Message::Signal(Signal {
            from: u32::from(input.u8()),
            to: u32::from(input.u8()),
            kind: match input.below(8) {
                0 => SignalKind::Offer(described),
                1 => SignalKind::Answer(described),
                2 => SignalKind::Candidate,
                3 => SignalKind::PrivateCandidate,
                4 => SignalKind::Request { wants_offer: input.below(2) == 0 },
                5 => SignalKind::Reply,
                6 => SignalKind::Published,
                _ => SignalKind::TcpCandidate,
            },
        }),
    }
}

/// Numbers that change from one copy of a datagram to the next.
pub(super) struct Steps {
    seq: u64,
    transport_seq: u64,
    timestamp: u64,
    picture: u64,
}

impl Steps {
    pub(super) fn new(input: &mut Input<'_>) -> Self {
        let flags = input.u8();
        let mut step = |flag| if flags & flag != 0 { input.step() } else { 1 };
        Steps { seq: step(1), transport_seq: step(2), timestamp: step(4), picture: step(8) }
    }

    /// The next copy.
    pub(super) fn apply(&self, datagram: &mut Datagram) {
        match &mut datagram.content {
            Content::Rtp(rtp) => self.apply_to_rtp(rtp),
            Content::Rtcp(rtcp) => {
                let mut packets = rtcp.packets.to_vec();
                packets.iter_mut().for_each(|packet| self.apply_to_rtcp(packet));
                *rtcp = Rtcp::new(packets).unwrap_or_else(|| rtcp.clone());
            }
            Content::Tcp(segment) => self.apply_to_segment(segment),
            Content::Turn(turn) => self.apply_to_segment(&mut turn.segment),
            Content::WebSocket(frame) => self.apply_to_segment(&mut frame.segment),
            Content::Stun(stun) => stun.check = stun.check.wrapping_add(self.seq as u32),
            Content::Allocation(allocation) => {
                allocation.step = allocation.step.wrapping_add(self.seq as u8);
            }
            _ => {}
        }
    }

    fn apply_to_rtp(&self, rtp: &mut Rtp) {
        let header = &mut rtp.header;
        header.seq = header.seq.wrapping_add(self.seq as u16);
        header.timestamp = header.timestamp.wrapping_add(self.timestamp as u32);
        let transport = &mut header.extensions.transport_sequence;
        *transport = transport.map(|seq| seq.wrapping_add(self.transport_seq as u16));
        if let RtpPayload::Video(part) | RtpPayload::Rtx { part, .. } = &mut rtp.payload {
            part.picture_id = part.picture_id.wrapping_add(self.picture as u16);
        }
        if let RtpPayload::Rtx { original_seq, .. } = &mut rtp.payload {
            *original_seq = original_seq.wrapping_add(self.picture as u16);
        }
    }

    fn apply_to_rtcp(&self, packet: &mut RtcpPacket) {
        match packet {
            RtcpPacket::TransportFeedback(feedback) => {
                feedback.base_seq = feedback.base_seq.wrapping_add(self.transport_seq as u16);
                let reference = &mut feedback.reference_time_64ms;
                *reference = reference.wrapping_add(self.timestamp as i32) << 8 >> 8;
            }
            RtcpPacket::Nack(nack) => {
                nack.lost.iter_mut().for_each(|seq| *seq = seq.wrapping_add(self.seq as u16));
            }
            RtcpPacket::SenderReport(report) => self.apply_to_blocks(&mut report.blocks),
            RtcpPacket::ReceiverReport(report) => self.apply_to_blocks(&mut report.blocks),
            RtcpPacket::Remb(remb) => {
                let rate = remb.bitrate.0.wrapping_add(self.seq);
                remb.bitrate = Remb::rounded(Bitrate(rate));
            }
            _ => {}
        }
    }

    fn apply_to_blocks(&self, blocks: &mut [ReportBlock]) {
        for block in blocks {
            block.highest_seq = block.highest_seq.wrapping_add(self.seq as u32);
            let lost = block.cumulative_lost.wrapping_add(self.picture as i32);
            block.cumulative_lost = lost << 8 >> 8;
            let delay = &mut block.delay_since_last_sender_report;
            *delay = delay.wrapping_add(self.timestamp as u32);
        }
    }

    fn apply_to_segment(&self, segment: &mut Segment) {
        segment.seq = segment.seq.wrapping_add(self.seq as u32);
        segment.ack = segment.ack.wrapping_add(self.transport_seq as u32);
        segment.sent = Time(segment.sent.0.wrapping_add(self.timestamp));
        for (from, to) in &mut segment.sack {
            *from = from.wrapping_add(self.picture as u32);
            *to = to.wrapping_add(self.picture as u32);
        }
    }
}

/// Changes the fields of a datagram that was sent, as the bits of `flags` say.
pub(super) fn change(input: &mut Input<'_>, datagram: &mut Datagram) {
    let flags = input.u8();
    if let Content::Rtp(rtp) = &mut datagram.content {
        if flags & 1 != 0 {
            rtp.header.ssrc = any_ssrc(input);
        }
        if flags & 2 != 0 {
            rtp.header.marker = !rtp.header.marker;
        }
        if flags & 4 != 0 {
            extend(input, &mut rtp.header);
        }
        if flags & 8 != 0 {
            rtp.payload = payload(input, &rtp.header).unwrap_or(rtp.payload.clone());
        }
        if flags & 16 != 0 {
            if let RtpPayload::Video(of) | RtpPayload::Rtx { part: of, .. } = &mut rtp.payload {
                let flags = input.u8();
                (of.first, of.key) = (flags & 1 != 0, flags & 2 != 0);
            }
        }
        if flags & 32 != 0 {
            rtp.kind = Kind::ALL[input.below(Kind::ALL.len())];
        }
        if flags & 64 != 0 {
            rtp.header.payload_type = payload_type(input);
        }
    }
    if flags & 128 != 0 {
        datagram.ecn = ecn(input);
    }
    Steps::new(input).apply(datagram);
}

/// An address of an end, or near one.
pub(super) fn any_address(input: &mut Input<'_>) -> rtclab_core::packet::Address {
    address(u32::from(input.u8()) % (PORTS + 4))
}
