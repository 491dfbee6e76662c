//! Media through a TURN server: in indications at first, in ChannelData once a channel is bound.
//!
//! Source: RFC 8656, sections 11 and 12.

use super::{Class, Message, attribute, method};
use crate::rtp::ParseError;
use crate::rtp::cursor::Cursor;
use std::net::SocketAddr;

/// A ChannelData message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChannelData<'a> {
    /// Channel number, which stands for a peer: 0x4000 to 0x4FFF.
    pub channel: u16,
    /// The datagram to or from the peer.
    pub data: &'a [u8],
}

impl<'a> ChannelData<'a> {
    /// Size of the framing over UDP.
    pub const HEADER_BYTES: usize = 4;

    /// Parses a message. Bytes after the data (padding) are ignored.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if the channel number is out of range or the data are shorter than stated.
    pub fn parse(datagram: &'a [u8]) -> Result<Self, ParseError> {
        let mut cursor = Cursor::new(datagram);
        let channel = cursor.u16("channel number")?;
        if !(0x4000..=0x4FFF).contains(&channel) {
            return Err(ParseError::Invalid {
                field: "channel number",
                offset: 0,
                expected: "0x4000 to 0x4FFF",
                got: channel.into(),
            });
        }
        let len = cursor.u16("channel data length")?;
        Ok(ChannelData { channel, data: cursor.take(usize::from(len), "channel data")? })
    }
}

/// Content of a Send indication to a peer, or of a Data indication from one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerData<'a> {
    /// Address of the peer, as the server sees it.
    pub peer: SocketAddr,
    /// The datagram to or from the peer.
    pub data: &'a [u8],
}

/// The peer and data of a Send or Data indication. `None` for any other message.
///
/// # Errors
///
/// [`ParseError`] if it is such an indication but an attribute is malformed, or peer or data are missing.
pub fn peer_data<'a>(message: &Message<'a>) -> Result<Option<PeerData<'a>>, ParseError> {
    if message.class != Class::Indication || !matches!(message.method, method::SEND | method::DATA)
    {
        return Ok(None);
    }
    let missing = |field| ParseError::Invalid { field, offset: 0, expected: "at least 1", got: 0 };
    let peer = message.xor_address(attribute::XOR_PEER_ADDRESS)?;
    let peer = peer.ok_or(missing("number of XOR-PEER-ADDRESS attributes"))?;
    let data = message.attribute(attribute::DATA)?.ok_or(missing("number of DATA attributes"))?;
    Ok(Some(PeerData { peer, data }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_data_end_at_the_stated_length() {
        let parsed = ChannelData::parse(&[0x40, 0x01, 0, 3, 7, 8, 9, 0]).unwrap();
        assert_eq!(parsed, ChannelData { channel: 0x4001, data: &[7, 8, 9] });
        assert!(ChannelData::parse(&[0x40, 0x01, 0, 3, 7, 8]).is_err());
    }

    #[test]
    fn channels_are_0x4000_to_0x4fff() {
        let is_channel = |number: u16| {
            let [high, low] = number.to_be_bytes();
            ChannelData::parse(&[high, low, 0, 0]).is_ok()
        };
        assert_eq!([is_channel(0x3FFF), is_channel(0x5000)], [false; 2]);
        assert_eq!([is_channel(0x4000), is_channel(0x4FFF)], [true; 2]);
    }

    /// Data indication from peer 192.0.2.1:32853 with 2 bytes of data.
    const DATA_INDICATION: [u8; 40] = [
        0x00, 0x17, 0, 20, 0x21, 0x12, 0xA4, 0x42, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, //
        0x00, 0x12, 0, 8, 0, 1, 0xA1, 0x47, 0xE1, 0x12, 0xA6, 0x43, //
        0x00, 0x13, 0, 2, 0x80, 0x60, 0, 0,
    ];

    #[test]
    fn a_data_indication_gives_the_peer_and_the_unpadded_data() {
        let message = Message::parse(&DATA_INDICATION).unwrap();
        let expected = PeerData { peer: "192.0.2.1:32853".parse().unwrap(), data: &[0x80, 0x60] };
        assert_eq!(peer_data(&message), Ok(Some(expected)));
    }

    #[test]
    fn an_indication_without_data_is_an_error_and_a_request_is_none() {
        let mut bytes = DATA_INDICATION;
        bytes[33] = 0x22;
        assert!(peer_data(&Message::parse(&bytes).unwrap()).is_err());
        bytes[1] = 0x07;
        assert_eq!(peer_data(&Message::parse(&bytes).unwrap()), Ok(None));
    }
}
