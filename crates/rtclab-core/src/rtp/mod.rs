//! Parses and writes the wire formats of real-time media: RTP, RTCP, STUN and TURN.
//!
//! Nothing here panics, whatever the bytes are. Parsing borrows or copies from a datagram. Writing appends to
//! the caller's buffer, so a reused buffer costs no allocation.

pub mod extension;
pub mod header;
pub mod red;
pub mod rtcp;
pub mod rtx;
pub mod seq;
pub mod stun;
pub mod ulpfec;
pub mod vp8;

mod cursor;
mod dtls;
mod error;
pub(crate) mod places;

pub use error::{ParseError, WriteError};
pub use extension::{AbsSendTime, AudioLevel, ExtensionId, ExtensionIds, Extensions};
pub use header::{RtpHeader, RtpPacket};
pub use rtcp::RtcpPacket;
pub use seq::{SeqUnwrapper, TimestampUnwrapper, Unwrapper};

/// Protocol of a UDP payload on a media flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Protocol {
    /// STUN, including TURN requests and indications: see [`stun::Message`].
    Stun,
    /// DTLS: a handshake or data (SCTP data channels).
    Dtls,
    /// TURN ChannelData: see [`stun::ChannelData`]. Its data must be classified in turn.
    TurnChannel,
    /// RTP or SRTP: see [`RtpHeader::parse`].
    Rtp,
    /// RTCP or SRTCP: see [`rtcp::parse_compound`].
    Rtcp,
    /// None of these, or too short for the protocol that its first byte indicates.
    Other,
}

/// Recognises the protocol of a UDP payload of `wire_bytes` from its first bytes. `datagram` may be shorter,
/// if a capture cut it off.
///
/// The protocol's own parser may still reject the payload. RTCP is distinguished from RTP by its packet types
/// 192 to 223, which multiplexed RTP must not collide with. DTLS is recognised by the headers of all its
/// records.
///
/// Source: RFC 7983, section 7; RFC 5761, section 4; RFC 6347, section 4.1; RFC 8489, section 5; RFC 8656,
/// section 12.4; RFC 9147, section 4.
pub fn classify(datagram: &[u8], wire_bytes: usize) -> Protocol {
    let Some(&[first, second, ..]) = datagram.first_chunk::<2>() else { return Protocol::Other };
    match first {
        0..=3 if stun::has_cookie(datagram) => Protocol::Stun,
        20..=63 if dtls::are_records(datagram, wire_bytes) => Protocol::Dtls,
        64..=79 if stun::ChannelData::parse(datagram).is_ok() => Protocol::TurnChannel,
        128..=191 => match second & 0x7F {
            64..=95 if datagram.len() >= rtcp::HEADER_BYTES => Protocol::Rtcp,
            64..=95 => Protocol::Other,
            _ if datagram.len() >= header::FIXED_BYTES => Protocol::Rtp,
            _ => Protocol::Other,
        },
        _ => Protocol::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whole(datagram: &[u8]) -> Protocol {
        classify(datagram, datagram.len())
    }

    fn first_byte(first: u8) -> Protocol {
        let mut datagram = [0; 20];
        datagram[0] = first;
        datagram[4..8].copy_from_slice(&[0x21, 0x12, 0xA4, 0x42]);
        whole(&datagram)
    }

    #[test]
    fn first_bytes_map_to_the_ranges_of_rfc_7983_at_both_bounds() {
        assert_eq!([first_byte(0), first_byte(3)], [Protocol::Stun; 2]);
        assert_eq!([first_byte(4), first_byte(19)], [Protocol::Other; 2]);
        assert_eq!([first_byte(20), first_byte(63)], [Protocol::Other; 2]); // no record of DTLS
        assert_eq!([first_byte(64), first_byte(79)], [Protocol::TurnChannel; 2]);
        assert_eq!([first_byte(80), first_byte(127)], [Protocol::Other; 2]);
        assert_eq!([first_byte(128), first_byte(191)], [Protocol::Rtp; 2]);
        assert_eq!([first_byte(192), first_byte(255)], [Protocol::Other; 2]);
    }

    #[test]
    fn rtcp_is_packet_types_192_to_223() {
        let with_type = |second| whole(&[0x80, second, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!([with_type(191), with_type(224)], [Protocol::Rtp; 2]);
        assert_eq!([with_type(192), with_type(223)], [Protocol::Rtcp; 2]);
        // Payload type 72 with the marker bit looks like an RTCP SR. Without it, it still counts as RTCP,
        // because RFC 5761 forbids that payload type.
        assert_eq!(with_type(72), Protocol::Rtcp);
    }

    #[test]
    fn a_datagram_too_short_for_its_protocol_is_other() {
        assert_eq!(whole(&[]), Protocol::Other);
        assert_eq!(whole(&[0x80]), Protocol::Other);
        assert_eq!(whole(&[0x80, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0]), Protocol::Other);
        assert_eq!(whole(&[0x80, 200, 0]), Protocol::Other);
        let change_cipher_spec = [20, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 5, 0, 1, 1];
        assert_eq!(whole(&change_cipher_spec[..13]), Protocol::Other);
        assert_eq!(whole(&change_cipher_spec), Protocol::Dtls);
        assert_eq!(whole(&[0x40, 0, 0, 1]), Protocol::Other);
    }

    #[test]
    fn stun_without_the_magic_cookie_is_other() {
        assert_eq!(whole(&[0; 20]), Protocol::Other);
    }
}
