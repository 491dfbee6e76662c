//! Capture files: pcap and pcapng, read as a stream in bounded memory.
//!
//! Written here because `pcap-parser`, which is as fast, cannot skip a block larger than its buffer, rejects time units
//! that are powers of two, and does not know the obsolete packet block.
//!
//! Source: draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng.

mod buffer;
mod pcap;
mod pcapng;
mod record;

pub use crate::pcapng::{Direction, Interface};
pub use record::CaptureFaults;

use crate::pcapng::block;
use buffer::Buffer;
use std::error::Error;
use std::fmt;
use std::io::{self, Read};

/// A captured frame. The capture may hold only its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// Capture time in nanoseconds, 0 to 2^62. In a file it counts from 1970. Frames from elsewhere may count
    /// from any moment.
    pub at_ns: i64,
    /// Index in [`CaptureReader::interfaces`].
    pub interface: u32,
    /// Link type of the interface: one of [`crate::pcapng::link_type`].
    pub link_type: u16,
    /// Direction, if the file states it.
    pub direction: Option<Direction>,
    /// Length of the frame on the wire.
    pub wire_bytes: u32,
    /// The captured bytes, from the beginning of the frame.
    pub bytes: &'a [u8],
}

/// Why a capture cannot be read.
#[derive(Debug)]
pub enum CaptureError {
    /// Not a capture: the first bytes of the file, at most 8.
    NotACapture(Vec<u8>),
    /// Reading failed.
    Io(io::Error),
}

/// First bytes of files compressed with gzip, zstd, xz, bzip2 and lz4.
const COMPRESSED: [&[u8]; 5] = [
    &[0x1F, 0x8B],
    &[0x28, 0xB5, 0x2F, 0xFD],
    &[0xFD, b'7', b'z', b'X', b'Z'],
    b"BZh",
    &[0x04, 0x22, 0x4D, 0x18],
];

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CaptureError::NotACapture(first) if first.is_empty() => {
                write!(f, "empty; expected a pcap or pcapng capture")
            }
            CaptureError::NotACapture(first) if COMPRESSED.iter().any(|m| first.starts_with(m)) => {
                write!(f, "compressed; expected a pcap or pcapng capture")
            }
            CaptureError::NotACapture(_) => write!(f, "not a capture; expected pcap or pcapng"),
            CaptureError::Io(error) => write!(f, "{error}"),
        }
    }
}

impl Error for CaptureError {}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        CaptureError::Io(error)
    }
}

enum Format {
    Pcap(pcap::Pcap),
    Pcapng(pcapng::Pcapng),
}

/// Frames between two progress reports: few enough for a progress bar, too many to slow reading down.
pub(super) const FRAMES_PER_PROGRESS: u64 = 100_000;

/// Reads a capture frame by frame, in about 1 MiB of memory whatever the file contains.
pub struct CaptureReader<R> {
    buffer: Buffer<R>,
    format: Format,
    interfaces: Vec<Interface>,
    faults: CaptureFaults,
    /// Length of the last record returned, which is still in the buffer.
    returned_bytes: usize,
}

impl<R: Read> CaptureReader<R> {
    /// Opens a capture and reads its file header.
    ///
    /// # Errors
    ///
    /// [`CaptureError`] if the input is neither pcap nor pcapng, or cannot be read.
    pub fn new(input: R) -> Result<Self, CaptureError> {
        let mut buffer = Buffer::new(input);
        let mut interfaces = Vec::new();
        let format = if let Some(header) = pcap::Pcap::open(&mut buffer, &mut interfaces)? {
            Format::Pcap(header)
        } else if buffer.data().starts_with(&block::SECTION_HEADER.to_le_bytes()) {
            Format::Pcapng(pcapng::Pcapng::default())
        } else {
            let first = buffer.data();
            return Err(CaptureError::NotACapture(first[..first.len().min(8)].to_vec()));
        };
        Ok(CaptureReader {
            buffer,
            format,
            interfaces,
            faults: CaptureFaults::default(),
            returned_bytes: 0,
        })
    }

    /// Returns the next frame, or `None` at the end of the file or at a corrupt record (see
    /// [`faults`](Self::faults)).
    ///
    /// # Errors
    ///
    /// [`CaptureError::Io`] if reading fails.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, CaptureError> {
        self.buffer.consume(self.returned_bytes);
        self.returned_bytes = 0;
        if self.faults.corrupt_at.is_some() || self.faults.cut_short {
            return Ok(None);
        }
        let found = match &mut self.format {
            Format::Pcap(pcap) => pcap.next_record(&mut self.buffer, &mut self.faults)?,
            Format::Pcapng(pcapng) => {
                pcapng.next_record(&mut self.buffer, &mut self.interfaces, &mut self.faults)?
            }
        };
        let Some(record) = found else { return Ok(None) };
        self.returned_bytes = record.record_bytes;
        Ok(Some(Frame {
            at_ns: record.at_ns,
            interface: record.interface,
            link_type: self.interfaces[record.interface as usize].link_type,
            direction: record.direction,
            wire_bytes: record.wire_bytes,
            bytes: &self.buffer.data()[record.data],
        }))
    }

    /// The interfaces described so far.
    pub fn interfaces(&self) -> &[Interface] {
        &self.interfaces
    }

    /// Faults found so far.
    pub fn faults(&self) -> CaptureFaults {
        self.faults
    }

    /// Number of bytes of the file read so far.
    pub fn bytes_read(&self) -> u64 {
        self.buffer.consumed()
    }
}
