//! What a packet carries, as far as its first bytes tell.

use crate::frame::udp_payload;

/// What the payload of a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// RTP, RFC 3550.
    Rtp,
    /// RTCP, RFC 3550, also when sharing a port with RTP (RFC 5761).
    Rtcp,
    /// STUN, RFC 8489, also as used by ICE and TURN.
    Stun,
    /// DTLS: handshake and data channels.
    Dtls,
    /// Anything else, UDP or not.
    Other,
}

impl Protocol {
    /// All protocols, in the order of their codes in a [`crate::PacketLog`].
    pub const ALL: [Protocol; 5] =
        [Protocol::Rtp, Protocol::Rtcp, Protocol::Stun, Protocol::Dtls, Protocol::Other];

    /// The name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Protocol::Rtp => "rtp",
            Protocol::Rtcp => "rtcp",
            Protocol::Stun => "stun",
            Protocol::Dtls => "dtls",
            Protocol::Other => "other",
        }
    }
}

/// Fixed header of an RTP packet, RFC 3550, section 5.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RtpHeader {
    pub(crate) ssrc: u32,
    pub(crate) payload_type: u8,
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
    pub(crate) marker: bool,
}

/// Classifies the packet in an Ethernet frame by the rules of RFC 7983 and RFC 5761, section 4.
///
/// STUN must show its magic cookie as well: other protocols begin with small bytes too.
pub(crate) fn classify(frame: &[u8]) -> (Protocol, Option<RtpHeader>) {
    const STUN_COOKIE: [u8; 4] = [0x21, 0x12, 0xa4, 0x42];
    let Some(payload) = udp_payload(frame) else { return (Protocol::Other, None) };
    match payload {
        [0..=3, _, _, _, cookie @ ..] if cookie.starts_with(&STUN_COOKIE) => (Protocol::Stun, None),
        [20..=63, 0xfe, ..] => (Protocol::Dtls, None),
        [128..=191, 192..=223, ..] if payload.len() >= 8 => (Protocol::Rtcp, None),
        [128..=191, second, a, b, c, d, e, f, g, h, i, j, ..] => {
            let header = RtpHeader {
                ssrc: u32::from_be_bytes([*g, *h, *i, *j]),
                payload_type: second & 0x7f,
                seq: u16::from_be_bytes([*a, *b]),
                timestamp: u32::from_be_bytes([*c, *d, *e, *f]),
                marker: second & 0x80 != 0,
            };
            (Protocol::Rtp, Some(header))
        }
        _ => (Protocol::Other, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A UDP packet in IPv4 in Ethernet, as far as the emulator looks at it.
    fn frame(payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; 14 + 28];
        frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
        frame[16..18].copy_from_slice(&(28 + payload.len() as u16).to_be_bytes());
        frame[23] = 17;
        frame.extend_from_slice(payload);
        frame
    }

    #[test]
    fn the_fields_of_an_rtp_header_are_read_where_rfc_3550_puts_them() {
        let payload = [0x90, 0xe0, 0x12, 0x34, 1, 2, 3, 4, 0xa, 0xb, 0xc, 0xd, 99];
        let header = RtpHeader {
            ssrc: 0x0a0b_0c0d,
            payload_type: 96,
            seq: 0x1234,
            timestamp: 0x0102_0304,
            marker: true,
        };
        assert_eq!(classify(&frame(&payload)), (Protocol::Rtp, Some(header)));
    }

    #[test]
    fn first_bytes_tell_protocols_apart() {
        let protocol = |payload: &[u8]| classify(&frame(payload)).0;
        assert_eq!(protocol(&[0x80, 200, 0, 1, 0, 0, 0, 1]), Protocol::Rtcp);
        assert_eq!(protocol(&[0, 1, 0, 0, 0x21, 0x12, 0xa4, 0x42, 0, 0]), Protocol::Stun);
        assert_eq!(protocol(&[22, 0xfe, 0xfd, 0, 0]), Protocol::Dtls);
        assert_eq!(protocol(&[0, 0, 0, 1, 0, 0, 0, 0]), Protocol::Other);
        assert_eq!(protocol(&[0x80, 96]), Protocol::Other);
        assert_eq!(protocol(&[]), Protocol::Other);
    }

    #[test]
    fn tcp_and_later_fragments_are_other() {
        let rtp = [0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
        let mut tcp = frame(&rtp);
        tcp[23] = 6;
        let mut fragment = frame(&rtp);
        fragment[21] = 185; // offset 1480 in units of 8 bytes
        assert_eq!(classify(&tcp).0, Protocol::Other);
        assert_eq!(classify(&fragment).0, Protocol::Other);
    }
}
