//! Recognises the protocol of a UDP payload, and strips TURN framing.
//!
//! Only the first bytes of a payload are needed, because a capture may hold no more.
//!
//! Source: RFC 7983, section 7; RFC 6347, section 4.1; RFC 9147, section 4; RFC 8656, sections 11 and 12; RFC 5766, section 11 (channel numbers).

use crate::rtp::stun::{self, Class, TransactionId, attribute, method};
use crate::rtp::{self, Protocol};
use std::net::SocketAddr;

/// TURN framing of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relay {
    /// ChannelData with this channel number.
    Channel(u16),
    /// A Send or Data indication to or from this peer, if the capture has its address.
    Indication(Option<SocketAddr>),
}

/// A payload without TURN framing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnframedPayload<'a> {
    /// Protocol of the payload; never [`Protocol::TurnChannel`].
    pub protocol: Protocol,
    /// TURN framing that was stripped.
    pub relay: Option<Relay>,
    /// The captured part of the payload.
    pub bytes: &'a [u8],
    /// Length of the payload on the wire.
    pub wire_bytes: u32,
}

/// Recognises the protocol of a UDP payload of `wire_bytes` from its first bytes.
///
/// The first byte alone does not prove a TURN channel, so the content of the channel must be recognised as
/// well.
#[inline]
pub fn demultiplex(bytes: &[u8], wire_bytes: u32) -> UnframedPayload<'_> {
    let plain = |protocol| UnframedPayload { protocol, relay: None, bytes, wire_bytes };
    match bytes.first() {
        Some(64..=127) => channel(bytes, wire_bytes).unwrap_or(plain(Protocol::Other)),
        Some(0) => {
            indication(bytes, wire_bytes).unwrap_or_else(|| plain(protocol(bytes, wire_bytes)))
        }
        _ => plain(protocol(bytes, wire_bytes)),
    }
}

#[inline]
fn protocol(bytes: &[u8], wire_bytes: u32) -> Protocol {
    match rtp::classify(bytes, wire_bytes as usize) {
        Protocol::TurnChannel => Protocol::Other,
        protocol => protocol,
    }
}

/// Parses ChannelData. RFC 5766 allowed channel numbers up to 0x7FFF, RFC 8656 up to 0x4FFF.
fn channel(bytes: &[u8], wire_bytes: u32) -> Option<UnframedPayload<'_>> {
    let (header, inner) = bytes.split_first_chunk::<4>()?;
    let number = u16::from_be_bytes([header[0], header[1]]);
    let len = u32::from(u16::from_be_bytes([header[2], header[3]]));
    if len + 4 > wire_bytes {
        return None;
    }
    let inner = &inner[..inner.len().min(len as usize)];
    let protocol = protocol(inner, len);
    let relay = Some(Relay::Channel(number));
    (protocol != Protocol::Other).then_some(UnframedPayload {
        protocol,
        relay,
        bytes: inner,
        wire_bytes: len,
    })
}

/// Parses a Send or Data indication; `None` for any other message.
fn indication(bytes: &[u8], wire_bytes: u32) -> Option<UnframedPayload<'_>> {
    if !matches!(bytes.get(1), Some(0x16 | 0x17)) {
        return None;
    }
    let header = StunHeader::parse(bytes)?;
    if header.class != Class::Indication || !matches!(header.method, method::SEND | method::DATA) {
        return None;
    }
    let find = |wanted| attributes(bytes).find(|(kind, ..)| *kind == wanted);
    let (_, len, inner) = find(attribute::DATA)?;
    // The data may come before the peer, as from coturn, and the capture may end before the end of the peer.
    let is_cut = (bytes.len() as u64) < u64::from(wire_bytes);
    let address = find(attribute::XOR_PEER_ADDRESS);
    let peer =
        address.and_then(|(.., it)| stun::parse_xor_address(it, &header.transaction_id).ok());
    if peer.is_none() && !is_cut {
        return None;
    }
    let relay = Some(Relay::Indication(peer));
    let wire_bytes = len.into();
    Some(UnframedPayload { protocol: protocol(inner, wire_bytes), relay, bytes: inner, wire_bytes })
}

/// Header of a STUN message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StunHeader {
    /// Request, indication, success or error response.
    pub class: Class,
    /// STUN or TURN method: one of [`method`].
    pub method: u16,
    /// Transaction id, which is the same in request and response.
    pub transaction_id: TransactionId,
}

impl StunHeader {
    /// Parses the header; `None` without the magic cookie.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if !stun::has_cookie(bytes) {
            return None;
        }
        let (class, method) = stun::split_type(u16::from_be_bytes([bytes[0], bytes[1]]));
        let transaction_id = bytes[8..].first_chunk().copied()?;
        Some(StunHeader { class, method, transaction_id })
    }
}

/// Iterates over the attributes of a message as (type, length, value). The capture may have cut the last
/// value.
pub(super) fn attributes(bytes: &[u8]) -> impl Iterator<Item = (u16, u16, &[u8])> {
    let announced = bytes.get(2..4).map_or(0, |b| usize::from(u16::from_be_bytes([b[0], b[1]])));
    let rest = bytes.get(stun::HEADER_BYTES..).unwrap_or_default();
    let mut rest = &rest[..rest.len().min(announced)];
    std::iter::from_fn(move || {
        let (header, after) = rest.split_first_chunk::<4>()?;
        let kind = u16::from_be_bytes([header[0], header[1]]);
        let len = u16::from_be_bytes([header[2], header[3]]);
        rest = after.get(usize::from(len).next_multiple_of(4)..).unwrap_or_default();
        Some((kind, len, &after[..after.len().min(len.into())]))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTP: [u8; 14] = [0x80, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 9, 9];

    fn channel_data(number: u16, len: u16, inner: &[u8]) -> Vec<u8> {
        [&number.to_be_bytes()[..], &len.to_be_bytes(), inner].concat()
    }

    #[test]
    fn channels_are_0x4000_to_0x7fff_if_they_carry_a_known_protocol() {
        let relay = |number, inner: &[u8]| {
            let bytes = channel_data(number, inner.len() as u16, inner);
            let content = demultiplex(&bytes, bytes.len() as u32);
            (content.protocol, content.relay)
        };
        for number in [0x4000, 0x4001, 0x4FFF, 0x5000, 0x7FFF] {
            assert_eq!(relay(number, &RTP), (Protocol::Rtp, Some(Relay::Channel(number))));
        }
        assert_eq!(relay(0x3FFF, &RTP).1, None);
        assert_eq!(relay(0x4000, &[0xFF; 14]), (Protocol::Other, None));
    }

    #[test]
    fn a_channel_cut_by_the_capture_keeps_its_length_and_one_with_an_impossible_length_is_other() {
        let bytes = channel_data(0x4000, 1000, &RTP);
        let content = demultiplex(&bytes, 1004);
        assert_eq!(
            (content.protocol, content.wire_bytes, content.bytes),
            (Protocol::Rtp, 1000, &RTP[..])
        );
        assert_eq!(demultiplex(&bytes, 1003).protocol, Protocol::Other);
    }

    /// An indication with peer 192.0.2.1:32853, as in RFC 5769, that states `len` bytes of data.
    fn indication(kind: u8, len: u8, data: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0, kind, 0, 16 + len.next_multiple_of(4), 0x21, 0x12, 0xA4, 0x42];
        bytes.extend_from_slice(&[7; 12]);
        bytes.extend_from_slice(&[0, 0x12, 0, 8, 0, 1, 0xA1, 0x47, 0xE1, 0x12, 0xA6, 0x43]);
        bytes.extend_from_slice(&[0, 0x13, 0, len]);
        bytes.extend_from_slice(data);
        bytes
    }

    #[test]
    fn the_peer_of_an_indication_is_found_even_if_the_capture_cut_it() {
        let peer = Some(Relay::Indication(Some("192.0.2.1:32853".parse().unwrap())));
        for kind in [0x16, 0x17] {
            let bytes = indication(kind, 200, &RTP);
            let content = demultiplex(&bytes, 236);
            assert_eq!((content.protocol, content.relay), (Protocol::Rtp, peer));
            assert_eq!((content.bytes, content.wire_bytes), (&RTP[..], 200));
        }
        let request = indication(0x06, 14, &RTP);
        assert_eq!(demultiplex(&request, 52).relay, None);
    }

    #[test]
    fn the_data_of_an_indication_are_found_although_the_capture_cut_the_peer_behind_them() {
        let mut bytes = indication(0x17, 200, &RTP);
        bytes.drain(20..32);
        let content = demultiplex(&bytes, 236);
        assert_eq!(
            (content.protocol, content.relay),
            (Protocol::Rtp, Some(Relay::Indication(None)))
        );
        assert_eq!((content.bytes, content.wire_bytes), (&RTP[..], 200));
        // The capture may also end behind the data: before the peer, or in it.
        let mut whole = indication(0x17, RTP.len() as u8, &[&RTP[..], &[0; 2]].concat());
        let peer: Vec<u8> = whole.drain(20..32).collect();
        for captured in 0..peer.len() {
            let bytes = [&whole, &peer[..captured]].concat();
            let content = demultiplex(&bytes, 52);
            let found = (content.protocol, content.relay);
            assert_eq!(found, (Protocol::Rtp, Some(Relay::Indication(None))), "{captured}");
        }
        // A whole message without a peer is no indication of TURN.
        bytes[23] = RTP.len() as u8;
        assert_eq!(demultiplex(&bytes, 38).relay, None);
    }
}
