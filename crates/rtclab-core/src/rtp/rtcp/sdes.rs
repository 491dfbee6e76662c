//! Source descriptions (SDES). Only the canonical name is kept.
//!
//! Source: RFC 3550, section 6.5.

use super::MAX_COUNT;
use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};

const END: u8 = 0;
const CNAME: u8 = 1;

/// Source description (SDES): names of sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceDescription {
    /// Chunks, one per source, at most 31.
    pub chunks: Vec<SdesChunk>,
}

/// The name of one source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SdesChunk {
    /// SSRC of the source.
    pub ssrc: u32,
    /// Canonical name, at most 255 bytes. It is the same for all streams of a participant, and empty if the
    /// chunk has none. If it is not UTF-8, every byte that is not ASCII becomes `?`.
    pub cname: String,
}

impl SourceDescription {
    pub(super) fn parse(count: u8, mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let chunks = (0..count).map(|_| SdesChunk::parse(&mut body)).collect::<Result<_, _>>()?;
        Ok(SourceDescription { chunks })
    }

    /// Size of the body. `None` if it cannot be written.
    pub(super) fn wire_bytes(&self) -> Option<usize> {
        let chunk = |chunk: &SdesChunk| {
            // SSRC, type and length, and at least one zero after the name
            let len = chunk.cname.len();
            (len <= usize::from(u8::MAX)).then_some((4 + 2 + len + 1).next_multiple_of(4))
        };
        let chunks = self.chunks.iter().map(chunk).sum::<Option<usize>>()?;
        (self.chunks.len() <= MAX_COUNT).then_some(chunks)
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        WriteError::check("SDES chunks", self.chunks.len(), MAX_COUNT)?;
        self.chunks.iter().try_for_each(|chunk| chunk.write(out))
    }
}

impl SdesChunk {
    fn parse(body: &mut Cursor<'_>) -> Result<Self, ParseError> {
        let begin = body.offset();
        let mut chunk = SdesChunk { ssrc: body.u32("SDES chunk SSRC")?, ..SdesChunk::default() };
        loop {
            let item = body.u8("SDES item type")?;
            if item == END {
                break;
            }
            let len = body.u8("SDES item length")?;
            let text = body.take(usize::from(len), "SDES item text")?;
            if item == CNAME {
                chunk.cname = super::text(text);
            }
        }
        let len = body.offset() - begin;
        body.take(len.next_multiple_of(4) - len, "SDES chunk padding")?;
        Ok(chunk)
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        WriteError::check("bytes of CNAME", self.cname.len(), usize::from(u8::MAX))?;
        let begin = out.len();
        out.extend_from_slice(&self.ssrc.to_be_bytes());
        out.extend_from_slice(&[CNAME, self.cname.len() as u8]);
        out.extend_from_slice(self.cname.as_bytes());
        // One to four zeros; the first ends the list.
        let len = out.len() - begin + 1;
        out.resize(begin + len.next_multiple_of(4), END);
        Ok(())
    }
}
