//! Generic negative acknowledgement (NACK).
//!
//! Source: RFC 4585, section 6.2.1.

use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};

/// Request to retransmit packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nack {
    /// SSRC of the requesting receiver.
    pub sender_ssrc: u32,
    /// SSRC of the stream with the losses.
    pub media_ssrc: u32,
    /// Sequence numbers of the lost packets, in any order. Ascending order, also across a wrap, takes the
    /// least space.
    pub lost: Vec<u16>,
}

impl Nack {
    pub(super) fn parse(mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let sender_ssrc = body.u32("NACK sender SSRC")?;
        let media_ssrc = body.u32("NACK media SSRC")?;
        let mut lost = Vec::new();
        while !body.is_empty() {
            let (first, following) = (body.u16("NACK packet id")?, body.u16("NACK bitmask")?);
            lost.push(first);
            let bits = (0..16u16).filter(|bit| following >> bit & 1 == 1);
            lost.extend(bits.map(|bit| first.wrapping_add(bit + 1)));
        }
        Ok(Nack { sender_ssrc, media_ssrc, lost })
    }

    /// Size of the body.
    pub(super) fn wire_bytes(&self) -> usize {
        8 + 4 * self.items().count()
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&self.sender_ssrc.to_be_bytes());
        out.extend_from_slice(&self.media_ssrc.to_be_bytes());
        for (first, following) in self.items() {
            out.extend_from_slice(&first.to_be_bytes());
            out.extend_from_slice(&following.to_be_bytes());
        }
        Ok(())
    }

    /// Iterates over the items of the packet: a sequence number, and a bitmask of the 16 that follow it.
    fn items(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        let mut lost = self.lost.iter().copied().peekable();
        std::iter::from_fn(move || {
            let first = lost.next()?;
            let mut following = 0u16;
            // Only ascending numbers share an item, so that parsing restores the order of the list.
            let mut previous = 0;
            while let Some(seq) =
                lost.next_if(|seq| (previous + 1..=16).contains(&seq.wrapping_sub(first)))
            {
                previous = seq.wrapping_sub(first);
                following |= 1 << (previous - 1);
            }
            Some((first, following))
        })
    }
}
