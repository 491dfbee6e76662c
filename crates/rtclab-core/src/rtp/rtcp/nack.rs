//! Generic negative acknowledgement.
//!
//! Source: RFC 4585, section 6.2.1.

use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};

/// Packets are asked for again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nack {
    /// Who asks.
    pub sender_ssrc: u32,
    /// The stream with the losses.
    pub media_ssrc: u32,
    /// Sequence numbers, in any order; ascending (across a wrap too) they take the least space.
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

    /// Bytes of the body.
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

    /// A sequence number and the bitmask of the 16 that follow it, as often as needed.
    fn items(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        let mut lost = self.lost.iter().copied().peekable();
        std::iter::from_fn(move || {
            let first = lost.next()?;
            let mut following = 0u16;
            // Ascending, so that the list is parsed in the order it was written in.
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
