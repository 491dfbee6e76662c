//! STUN messages, and the TURN framing of media.
//!
//! Source: RFC 8489 (STUN), RFC 8656 (TURN), RFC 8445 (ICE).

mod fingerprint;
mod turn;
mod write;

pub use turn::{ChannelData, PeerData, peer_data};
pub use write::{write_binding_request, write_binding_success};
pub(crate) use write::{write_padded, xor_address};

use super::ParseError;
use super::cursor::Cursor;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Size of the header before the attributes.
pub const HEADER_BYTES: usize = 20;

const MAGIC_COOKIE: u32 = 0x2112_A442;

/// Method numbers.
pub mod method {
    /// Connectivity checks and address discovery.
    pub const BINDING: u16 = 0x001;
    /// TURN: requests an address at the relay.
    pub const ALLOCATE: u16 = 0x003;
    /// TURN: an indication with data to a peer.
    pub const SEND: u16 = 0x006;
    /// TURN: an indication with data from a peer.
    pub const DATA: u16 = 0x007;
    /// TURN: binds a channel to a peer.
    pub const CHANNEL_BIND: u16 = 0x009;
}

/// Attribute types.
pub mod attribute {
    /// User name. In connectivity checks, `their-fragment:our-fragment`.
    pub const USERNAME: u16 = 0x0006;
    /// Why a request was refused: 16 unused bits, class, number, reason.
    pub const ERROR_CODE: u16 = 0x0009;
    /// TURN: channel number of 16 bits, then 16 unused bits.
    pub const CHANNEL_NUMBER: u16 = 0x000C;
    /// TURN: address of the peer that data go to or come from.
    pub const XOR_PEER_ADDRESS: u16 = 0x0012;
    /// TURN: the data.
    pub const DATA: u16 = 0x0013;
    /// TURN: the address that the relay has allocated.
    pub const XOR_RELAYED_ADDRESS: u16 = 0x0016;
    /// TURN: number of the transport protocol between relay and peer, then 24 unused bits.
    pub const REQUESTED_TRANSPORT: u16 = 0x0019;
    /// Source address of the request, as the responder sees it.
    pub const XOR_MAPPED_ADDRESS: u16 = 0x0020;
    /// Priority of the candidate, 32 bits.
    pub const PRIORITY: u16 = 0x0024;
    /// USE-CANDIDATE (RFC 8445, section 16.1).
    pub const USE_CANDIDATE: u16 = 0x0025;
    /// Description of the sender's software.
    pub const SOFTWARE: u16 = 0x8022;
    /// CRC-32 of the message before it. Always the last attribute.
    pub const FINGERPRINT: u16 = 0x8028;
}

/// Role of a message in its transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Requires a response.
    Request,
    /// Gets no response.
    Indication,
    /// Answers a request.
    Success,
    /// Refuses a request.
    Error,
}

/// Identifies the request that a response belongs to.
pub type TransactionId = [u8; 12];

/// One STUN message, borrowed from its datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// Request, indication or response.
    pub class: Class,
    /// STUN or TURN method: one of [`method`].
    pub method: u16,
    /// Transaction id, which is the same in request and response.
    pub transaction_id: TransactionId,
    datagram: &'a [u8],
}

/// Whether the datagram is at least as long as a STUN header and has the magic cookie in its place.
pub(crate) fn has_cookie(datagram: &[u8]) -> bool {
    datagram.len() >= HEADER_BYTES && datagram[4..8] == MAGIC_COOKIE.to_be_bytes()
}

impl<'a> Message<'a> {
    /// Parses the header. Attributes are parsed when they are [iterated](Self::attributes).
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the datagram is shorter than its header says, is not STUN, or has a length field
    /// that is not a multiple of 4. Bytes after the message are ignored.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let invalid = |field, offset, expected, got| {
            Err(ParseError::Invalid { field, offset, expected, got })
        };
        let mut cursor = Cursor::new(datagram);
        let message_type = cursor.u16("STUN message type")?;
        let length = cursor.u16("STUN message length")?;
        let cookie = cursor.u32("STUN magic cookie")?;
        let transaction_id = cursor.array("STUN transaction id")?;
        if message_type >> 14 != 0 {
            return invalid("STUN message type", 0, "below 0x4000", message_type.into());
        }
        if length % 4 != 0 {
            return invalid("STUN message length", 2, "a multiple of 4", length.into());
        }
        if cookie != MAGIC_COOKIE {
            return invalid("STUN magic cookie", 4, "0x2112A442", cookie.into());
        }
        cursor.take(usize::from(length), "STUN attributes")?;
        let (class, method) = split_type(message_type);
        Ok(Message { class, method, transaction_id, datagram: &datagram[..cursor.offset()] })
    }

    /// Iterates over the attributes, in order. Ends after the first one that does not fit.
    pub fn attributes(&self) -> Attributes<'a> {
        let mut cursor = Cursor::new(self.datagram);
        let header = cursor.take(HEADER_BYTES, "STUN header");
        Attributes { cursor: header.map(|_| cursor).ok() }
    }

    /// The value of the first attribute of this type.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if a malformed attribute comes first.
    pub fn attribute(&self, attribute_type: u16) -> Result<Option<&'a [u8]>, ParseError> {
        for attribute in self.attributes() {
            match attribute? {
                (found, value) if found == attribute_type => return Ok(Some(value)),
                _ => {}
            }
        }
        Ok(None)
    }

    /// The address in the first attribute of this type, which must be an XOR-…-ADDRESS.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if an attribute is malformed or its value is not an address. In the latter case, the
    /// offset counts from the beginning of the value.
    pub fn xor_address(&self, attribute_type: u16) -> Result<Option<SocketAddr>, ParseError> {
        let value = self.attribute(attribute_type)?;
        value.map(|value| parse_xor_address(value, &self.transaction_id)).transpose()
    }

    /// Whether the FINGERPRINT at the end of the message is correct. `None` if there is none.
    pub fn fingerprint_is_valid(&self) -> Option<bool> {
        let signed = self.datagram.len().checked_sub(fingerprint::ATTRIBUTE_BYTES)?;
        if signed < HEADER_BYTES {
            return None;
        }
        let (signed, tail) = self.datagram.split_at_checked(signed)?;
        let value = tail.strip_prefix(&fingerprint::ATTRIBUTE_HEADER)?;
        Some(value == fingerprint::fingerprint(signed).to_be_bytes())
    }
}

/// Iterator over (type, value); see [`Message::attributes`].
#[derive(Clone)]
pub struct Attributes<'a> {
    cursor: Option<Cursor<'a>>,
}

impl<'a> Attributes<'a> {
    fn read(cursor: &mut Cursor<'a>) -> Result<(u16, &'a [u8]), ParseError> {
        let attribute_type = cursor.u16("STUN attribute type")?;
        let len = usize::from(cursor.u16("STUN attribute length")?);
        let value = cursor.take(len, "STUN attribute value")?;
        cursor.take(len.next_multiple_of(4) - len, "STUN attribute padding")?;
        Ok((attribute_type, value))
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let cursor = self.cursor.as_mut().filter(|cursor| !cursor.is_empty())?;
        let attribute = Self::read(cursor);
        if attribute.is_err() {
            self.cursor = None;
        }
        Some(attribute)
    }
}

/// Splits a message type into class and method. The 2 bits of the class are interleaved with the 12 of the
/// method.
pub(crate) fn split_type(message_type: u16) -> (Class, u16) {
    let class = match (message_type >> 8 & 1, message_type >> 4 & 1) {
        (0, 0) => Class::Request,
        (0, _) => Class::Indication,
        (_, 0) => Class::Success,
        (_, _) => Class::Error,
    };
    let method = message_type & 0x0F | message_type >> 1 & 0x70 | message_type >> 2 & 0xF80;
    (class, method)
}

fn join_type(class: Class, method: u16) -> u16 {
    let class = match class {
        Class::Request => 0,
        Class::Indication => 0x010,
        Class::Success => 0x100,
        Class::Error => 0x110,
    };
    class | method & 0x0F | (method & 0x70) << 1 | (method & 0xF80) << 2
}

pub(crate) fn parse_xor_address(
    value: &[u8],
    id: &TransactionId,
) -> Result<SocketAddr, ParseError> {
    let mut cursor = Cursor::new(value);
    let [_, family] = cursor.array("address family")?;
    let port = cursor.u16("port")? ^ (MAGIC_COOKIE >> 16) as u16;
    let address = match family {
        1 => IpAddr::V4(Ipv4Addr::from_bits(cursor.u32("IPv4 address")? ^ MAGIC_COOKIE)),
        2 => {
            let mut mask = [0; 16];
            mask[..4].copy_from_slice(&MAGIC_COOKIE.to_be_bytes());
            mask[4..].copy_from_slice(id);
            let bits = u128::from_be_bytes(cursor.array("IPv6 address")?);
            IpAddr::V6(Ipv6Addr::from_bits(bits ^ u128::from_be_bytes(mask)))
        }
        _ => {
            return Err(ParseError::Invalid {
                field: "address family",
                offset: 1,
                expected: "1 (IPv4) or 2 (IPv6)",
                got: family.into(),
            });
        }
    };
    Ok(SocketAddr::new(address, port))
}

#[cfg(test)]
mod tests;
