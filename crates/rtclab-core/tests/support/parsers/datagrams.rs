//! Parsers of what is in a datagram. What can be written again must then be parsed as the same.

use rtclab_core::rtp::rtcp::{NtpTime, parse_compound};
use rtclab_core::rtp::stun::{ChannelData, Message, attribute, peer_data};
use rtclab_core::rtp::ulpfec::{FecPacket, MAX_PACKETS, Media};
use rtclab_core::rtp::vp8::{Descriptor, FrameHeader};
use rtclab_core::rtp::{ExtensionIds, RtcpPacket, RtpHeader, RtpPacket};
use rtclab_core::rtp::{classify, header, red, rtx};

/// RTP header, extensions and padding. A parsed header must survive writing and parsing.
pub(crate) fn rtp_header(datagram: &[u8]) {
    let ids = ExtensionIds::CHROMIUM;
    classify(datagram, datagram.len());
    if let Ok((_, elements, len)) = header::parse_raw(datagram) {
        assert!(len <= datagram.len());
        assert!(elements.map(|(_, data)| data.len()).sum::<usize>() < len);
    }
    if let Ok(packet) = RtpPacket::parse(datagram, &ids) {
        let bytes = packet.header_bytes + packet.payload.len() + packet.padding_bytes;
        assert_eq!(bytes, datagram.len());
    }
    if let Ok((header, _)) = RtpHeader::parse(datagram, &ids) {
        let mut written = Vec::new();
        header.write(&ids, &mut written);
        assert_eq!(RtpHeader::parse(&written, &ids), Ok((header, written.len())));
    }
}

/// All RTCP packets. A parsed packet must survive writing and parsing.
pub(crate) fn rtcp_compound(datagram: &[u8]) {
    for packet in parse_compound(datagram).flatten() {
        let mut written = Vec::new();
        packet.write(&mut written).expect("what was parsed fits");
        assert_eq!(parse_compound(&written).next(), Some(Ok(packet.clone())));
        match packet {
            RtcpPacket::TransportFeedback(feedback) => {
                assert_eq!(feedback.arrivals().count(), feedback.statuses.len());
            }
            RtcpPacket::ReceiverReport(report) => {
                report.blocks.iter().for_each(|block| {
                    block.round_trip(NtpTime(0));
                });
            }
            _ => {}
        }
    }
}

/// STUN messages and TURN framing.
pub(crate) fn stun(datagram: &[u8]) {
    if let Ok(channel) = ChannelData::parse(datagram) {
        assert!(channel.data.len() + ChannelData::HEADER_BYTES <= datagram.len());
    }
    if let Ok(message) = Message::parse(datagram) {
        let values = message.attributes().flatten().map(|(_, value)| value.len() + 4);
        assert!(values.sum::<usize>() <= datagram.len() - 20);
        message.fingerprint_is_valid();
        let _ = message.xor_address(attribute::XOR_MAPPED_ADDRESS);
        let _ = peer_data(&message);
    }
}

/// VP8 payload descriptor and frame header, after an RTX header.
pub(crate) fn vp8(payload: &[u8]) {
    let media = rtx::parse(payload).map_or(payload, |(_, media)| media);
    if let Ok((descriptor, len)) = Descriptor::parse(media) {
        let mut written = Vec::new();
        descriptor.write(&mut written);
        assert_eq!(Descriptor::parse(&written), Ok((descriptor, written.len())));
        if let Ok(header) = FrameHeader::parse(&media[len..]) {
            let mut written = Vec::new();
            header.write(&mut written);
            assert_eq!(FrameHeader::parse(&written), Ok(header));
        }
    }
}

/// RED and ULPFEC. A parsed packet must survive writing and parsing, and recovery must accept any packets.
pub(crate) fn fec(payload: &[u8]) {
    let fec = red::parse(payload).map_or(payload, |(_, data)| data);
    let Ok(fec) = FecPacket::parse(fec) else { return };
    let mut written = Vec::new();
    fec.write(&mut written);
    assert!(written.len() <= fec.wire_bytes());
    let again = FecPacket::parse(&written).unwrap();
    assert_eq!(again, fec);
    assert!((1..=MAX_PACKETS).contains(&fec.protected().count()));
    let media = Media { bytes: payload, len: payload.len() };
    if let Some((bytes, len)) = fec.recover((1, fec.seq_base), [media]) {
        assert!(bytes.len() <= len);
        assert!(FecPacket::protect([Media { bytes: &bytes, len }]).is_ok());
    }
}
