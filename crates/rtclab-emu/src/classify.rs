//! Recognises what a packet carries from its first bytes.

use crate::frame::udp_payload;
use rtclab_core::rtp::header::parse_raw;
use rtclab_core::rtp::stun::ChannelData;
use rtclab_core::rtp::{self, RtpHeader};

/// Protocol of a packet in a log or in [`crate::NodePair`], with TURN channels stripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LoggedProtocol {
    /// RTP, RFC 3550.
    Rtp,
    /// RTCP, RFC 3550, including RTCP on the port of RTP (RFC 5761).
    Rtcp,
    /// STUN, RFC 8489, including ICE and TURN.
    Stun,
    /// DTLS: handshake and data channels.
    Dtls,
    /// Anything else, UDP or not.
    Other,
}

impl LoggedProtocol {
    /// All protocols in the order of their codes in a [`crate::PacketLog`].
    pub const ALL: [LoggedProtocol; 5] = [
        LoggedProtocol::Rtp,
        LoggedProtocol::Rtcp,
        LoggedProtocol::Stun,
        LoggedProtocol::Dtls,
        LoggedProtocol::Other,
    ];

    /// Name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            LoggedProtocol::Rtp => "rtp",
            LoggedProtocol::Rtcp => "rtcp",
            LoggedProtocol::Stun => "stun",
            LoggedProtocol::Dtls => "dtls",
            LoggedProtocol::Other => "other",
        }
    }
}

/// Classifies the packet in an Ethernet frame. A packet in a TURN channel is classified by its content.
///
/// RTP whose header does not parse is [`LoggedProtocol::Other`].
pub(crate) fn classify(frame: &[u8]) -> (LoggedProtocol, Option<RtpHeader>) {
    let Some(mut datagram) = udp_payload(frame) else { return (LoggedProtocol::Other, None) };
    if let Ok(channel) = ChannelData::parse(datagram) {
        datagram = channel.data;
    }
    match rtp::classify(datagram, datagram.len()) {
        rtp::Protocol::Rtp => match parse_raw(datagram) {
            Ok((header, ..)) => (LoggedProtocol::Rtp, Some(header)),
            Err(_) => (LoggedProtocol::Other, None),
        },
        rtp::Protocol::Rtcp => (LoggedProtocol::Rtcp, None),
        rtp::Protocol::Stun => (LoggedProtocol::Stun, None),
        rtp::Protocol::Dtls => (LoggedProtocol::Dtls, None),
        rtp::Protocol::TurnChannel | rtp::Protocol::Other => (LoggedProtocol::Other, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet in IPv4 in Ethernet, with the fields that the emulator reads.
    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 28];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[16..18].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
        frame[23] = 17;
        frame.extend_from_slice(payload);
        frame
    }

    const RTP: [u8; 13] = [0x80, 0xe0, 0x12, 0x34, 1, 2, 3, 4, 0xa, 0xb, 0xc, 0xd, 99];

    fn assert_is_rtp(payload: &[u8]) {
        let (protocol, header) = classify(&frame(payload));
        let header = header.expect("an RTP header");
        assert_eq!(protocol, LoggedProtocol::Rtp);
        assert_eq!((header.payload_type, header.seq, header.marker), (96, 0x1234, true));
        assert_eq!((header.timestamp, header.ssrc), (0x0102_0304, 0x0a0b_0c0d));
    }

    #[test]
    fn rtp_is_found_in_udp_and_in_a_turn_channel() {
        assert_is_rtp(&RTP);
        assert_is_rtp(&[&[0x40, 0, 0, 13], RTP.as_slice()].concat());
    }

    #[test]
    fn first_bytes_tell_protocols_apart() {
        let protocol = |payload: &[u8]| classify(&frame(payload)).0;
        let stun = [&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42], [0; 12].as_slice()].concat();
        let dtls = [&[22, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 1, 0, 20], [0; 20].as_slice()].concat();
        assert_eq!(protocol(&[0x80, 200, 0, 1, 0, 0, 0, 1]), LoggedProtocol::Rtcp);
        assert_eq!(protocol(&stun), LoggedProtocol::Stun);
        assert_eq!(protocol(&dtls), LoggedProtocol::Dtls);
        assert_eq!(protocol(b"1 message of text"), LoggedProtocol::Other);
        assert_eq!(protocol(&[0, 0, 0, 1, 0, 0, 0, 0]), LoggedProtocol::Other);
        assert_eq!(protocol(&[0x80, 96]), LoggedProtocol::Other);
        assert_eq!(protocol(&[0x8f, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]), LoggedProtocol::Other);
        assert_eq!(protocol(&[]), LoggedProtocol::Other);
    }

    #[test]
    fn tcp_and_later_fragments_are_other() {
        let mut tcp = frame(&RTP);
        tcp[23] = 6;
        let mut fragment = frame(&RTP);
        fragment[21] = 185; // offset 1480 in units of 8 bytes
        assert_eq!(classify(&tcp).0, LoggedProtocol::Other);
        assert_eq!(classify(&fragment).0, LoggedProtocol::Other);
    }
}
