//! RTCP: reports and feedback, one or several in a datagram.
//!
//! Source: RFC 3550, section 6; RFC 4585, section 6; the modules of the packets name further sources.

mod ccfb;
mod extended;
mod feedback;
mod goodbye;
mod nack;
mod remb;
mod report;
mod report_clock;
mod sdes;
mod twcc;
mod twcc_chunk;

pub use ccfb::{ArrivalOffset, CcfbArrival, CongestionFeedback, StreamArrivals};
pub use extended::{ExtendedReport, ReferenceDelay};
pub use feedback::{FullIntraRequest, PictureLossIndication};
pub use goodbye::Goodbye;
pub use nack::Nack;
pub use remb::Remb;
pub use report::{IntervalLoss, NtpTime, ReceiverReport, ReportBlock, SenderReport};
pub use report_clock::ReportClock;
pub use sdes::{SdesChunk, SourceDescription};
pub use twcc::TransportFeedback;

use super::cursor::Cursor;
use super::{ParseError, WriteError};

/// Size of the header common to all packets.
pub const HEADER_BYTES: usize = 4;

/// Maximum of the count field, which has 5 bits.
const MAX_COUNT: usize = 31;

const SENDER_REPORT: u8 = 200;
const RECEIVER_REPORT: u8 = 201;
const SOURCE_DESCRIPTION: u8 = 202;
const GOODBYE: u8 = 203;
const TRANSPORT_FEEDBACK: u8 = 205;
const PAYLOAD_FEEDBACK: u8 = 206;
const EXTENDED_REPORT: u8 = 207;

// Kinds of transport feedback: the count field of type 205.
const NACK: u8 = 1;
const CONGESTION_CONTROL: u8 = 11;
const TRANSPORT_WIDE: u8 = 15;

// Kinds of payload-specific feedback: the count field of type 206.
const PICTURE_LOSS: u8 = 1;
const FULL_INTRA: u8 = 4;
const APPLICATION_LAYER: u8 = 15;

/// One RTCP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RtcpPacket {
    /// Sender report: what a sender has sent, and its reception statistics.
    SenderReport(SenderReport),
    /// Receiver report: reception statistics of a participant that does not send.
    ReceiverReport(ReceiverReport),
    /// Source description: names of sources.
    SourceDescription(SourceDescription),
    /// Goodbye: sources leave.
    Goodbye(Goodbye),
    /// Extended report: the round trip of those who only receive.
    ExtendedReport(ExtendedReport),
    /// Request for retransmissions.
    Nack(Nack),
    /// Request for a key frame because a picture was lost.
    PictureLossIndication(PictureLossIndication),
    /// Unconditional request for a key frame.
    FullIntraRequest(FullIntraRequest),
    /// Receiver's estimate of the available bit rate.
    Remb(Remb),
    /// Transport-wide feedback: arrival of each packet of the transport.
    TransportFeedback(TransportFeedback),
    /// RFC 8888 feedback: arrival of each packet, per stream.
    CongestionFeedback(CongestionFeedback),
    /// Any other packet, unchanged except for its padding, which is removed.
    Unknown {
        /// Packet type, 192 to 223.
        packet_type: u8,
        /// Number of items, or kind of feedback: 5 bits.
        count: u8,
        /// The bytes after the common header.
        body: Vec<u8>,
    },
}

/// The header common to all RTCP packets. In SRTCP, the header of the first packet is in clear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RtcpHeader {
    /// Whether the packet ends with padding.
    pub padding: bool,
    /// Number of items, or kind of feedback: 5 bits.
    pub count: u8,
    /// Packet type, 192 to 223. Other values are not refused here.
    pub packet_type: u8,
    /// Size of the whole packet, including this header.
    pub packet_bytes: usize,
}

impl RtcpHeader {
    /// Parses the first 4 bytes.
    ///
    /// # Errors
    ///
    /// [`ParseError`] if there are fewer, or if the version is not 2.
    pub fn parse(bytes: &[u8]) -> Result<RtcpHeader, ParseError> {
        Self::read(&mut Cursor::new(bytes))
    }

    fn read(cursor: &mut Cursor<'_>) -> Result<RtcpHeader, ParseError> {
        let offset = cursor.offset();
        let [first, packet_type, length @ ..] = cursor.array::<HEADER_BYTES>("RTCP header")?;
        if first >> 6 != 2 {
            let got = u64::from(first >> 6);
            return Err(ParseError::Invalid { field: "RTCP version", offset, expected: "2", got });
        }
        Ok(RtcpHeader {
            padding: first & 0x20 != 0,
            count: first & 0x1F,
            packet_type,
            packet_bytes: (usize::from(u16::from_be_bytes(length)) + 1) * 4,
        })
    }
}

/// Iterates over the packets of a datagram, in order.
///
/// A packet with malformed content gives an error, and iteration continues with the next packet. After a
/// broken header it ends. Reduced-size RTCP (RFC 5506) is accepted: no particular order is required.
pub fn parse_compound(datagram: &[u8]) -> Compound<'_> {
    Compound { cursor: Some(Cursor::new(datagram)) }
}

/// Iterator over the packets of a datagram; see [`parse_compound`].
#[derive(Clone)]
pub struct Compound<'a> {
    cursor: Option<Cursor<'a>>,
}

impl Iterator for Compound<'_> {
    type Item = Result<RtcpPacket, ParseError>;

    fn next(&mut self) -> Option<Self::Item> {
        let cursor = self.cursor.as_mut().filter(|cursor| !cursor.is_empty())?;
        match split_packet(cursor) {
            Ok((header, body)) => Some(RtcpPacket::parse_body(header, body)),
            Err(error) => {
                self.cursor = None;
                Some(Err(error))
            }
        }
    }
}

/// Splits off the next packet: its header, and its body including padding.
fn split_packet<'a>(cursor: &mut Cursor<'a>) -> Result<(RtcpHeader, Cursor<'a>), ParseError> {
    let header = RtcpHeader::read(cursor)?;
    let body = cursor.sub(header.packet_bytes - HEADER_BYTES, "RTCP packet body")?;
    Ok((header, body))
}

fn without_padding<'a>(mut body: Cursor<'a>) -> Result<Cursor<'a>, ParseError> {
    let count = body.rest().last().copied().unwrap_or(0);
    match body.rest().len().checked_sub(usize::from(count)) {
        Some(len) if count > 0 => body.sub(len, "RTCP packet body"),
        _ => Err(ParseError::Invalid {
            field: "RTCP padding length",
            offset: body.offset() + body.rest().len().saturating_sub(1),
            expected: "1 to the number of bytes in the packet's body",
            got: count.into(),
        }),
    }
}

impl RtcpPacket {
    fn parse_body(header: RtcpHeader, body: Cursor<'_>) -> Result<RtcpPacket, ParseError> {
        let body = if header.padding { without_padding(body)? } else { body };
        Ok(match (header.packet_type, header.count) {
            (SENDER_REPORT, count) => Self::SenderReport(SenderReport::parse(count, body)?),
            (RECEIVER_REPORT, count) => Self::ReceiverReport(ReceiverReport::parse(count, body)?),
            (SOURCE_DESCRIPTION, count) => {
                Self::SourceDescription(SourceDescription::parse(count, body)?)
            }
            (GOODBYE, count) => Self::Goodbye(Goodbye::parse(count, body)?),
            (EXTENDED_REPORT, _) => Self::ExtendedReport(ExtendedReport::parse(body)?),
            (TRANSPORT_FEEDBACK, NACK) => Self::Nack(Nack::parse(body)?),
            (TRANSPORT_FEEDBACK, TRANSPORT_WIDE) => {
                Self::TransportFeedback(TransportFeedback::parse(body)?)
            }
            (TRANSPORT_FEEDBACK, CONGESTION_CONTROL) => {
                Self::CongestionFeedback(CongestionFeedback::parse(body)?)
            }
            (PAYLOAD_FEEDBACK, PICTURE_LOSS) => {
                Self::PictureLossIndication(PictureLossIndication::parse(body)?)
            }
            (PAYLOAD_FEEDBACK, FULL_INTRA) => {
                Self::FullIntraRequest(FullIntraRequest::parse(body)?)
            }
            (PAYLOAD_FEEDBACK, APPLICATION_LAYER) if Remb::is_remb(body) => {
                Self::Remb(Remb::parse(body)?)
            }
            (packet_type, count) => {
                Self::Unknown { packet_type, count, body: body.rest().to_vec() }
            }
        })
    }

    /// Appends the packet. Several packets in a row form a compound packet.
    ///
    /// # Errors
    ///
    /// [`WriteError`] if the packet has more of something than its format can carry. `out` is then unchanged.
    pub fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        let begin = out.len();
        out.extend_from_slice(&[0; HEADER_BYTES]);
        let written = self.write_body(out).and_then(|()| pad(begin, out));
        match written {
            Ok((padding, words)) => {
                let (packet_type, count) = self.type_and_count();
                out[begin] = 2 << 6 | u8::from(padding) << 5 | count & 0x1F;
                out[begin + 1] = packet_type;
                out[begin + 2..begin + 4].copy_from_slice(&words.to_be_bytes());
                Ok(())
            }
            Err(error) => {
                out.truncate(begin);
                Err(error)
            }
        }
    }

    /// Size of the packet as [`RtcpPacket::write`] writes it. `None` if it cannot be written.
    pub fn wire_bytes(&self) -> Option<usize> {
        let items = |count: usize, bytes: usize| (count <= MAX_COUNT).then_some(bytes);
        let body = match self {
            Self::SenderReport(SenderReport { blocks, .. }) => {
                items(blocks.len(), 24 + blocks.len() * ReportBlock::BYTES)
            }
            Self::ReceiverReport(ReceiverReport { blocks, .. }) => {
                items(blocks.len(), 4 + blocks.len() * ReportBlock::BYTES)
            }
            Self::SourceDescription(description) => description.wire_bytes(),
            Self::ExtendedReport(report) => report.wire_bytes(),
            Self::Nack(nack) => Some(nack.wire_bytes()),
            Self::PictureLossIndication(_) => Some(8),
            Self::Remb(Remb { ssrcs, .. }) => {
                (ssrcs.len() <= usize::from(u8::MAX)).then_some(16 + 4 * ssrcs.len())
            }
            Self::TransportFeedback(feedback) => feedback.wire_bytes(),
            Self::CongestionFeedback(feedback) => feedback.wire_bytes(),
            Self::Goodbye(_) | Self::FullIntraRequest(_) | Self::Unknown { .. } => {
                let mut bytes = Vec::new();
                return self.write(&mut bytes).ok().map(|()| bytes.len());
            }
        };
        let whole = body?.next_multiple_of(4);
        (whole / 4 <= usize::from(u16::MAX)).then_some(HEADER_BYTES + whole)
    }

    fn write_body(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        match self {
            Self::SenderReport(packet) => packet.write(out),
            Self::ReceiverReport(packet) => packet.write(out),
            Self::SourceDescription(packet) => packet.write(out),
            Self::Goodbye(packet) => packet.write(out),
            Self::ExtendedReport(packet) => packet.write(out),
            Self::Nack(packet) => packet.write(out),
            Self::PictureLossIndication(packet) => packet.write(out),
            Self::FullIntraRequest(packet) => packet.write(out),
            Self::Remb(packet) => packet.write(out),
            Self::TransportFeedback(packet) => packet.write(out),
            Self::CongestionFeedback(packet) => packet.write(out),
            Self::Unknown { body, .. } => {
                out.extend_from_slice(body);
                Ok(())
            }
        }
    }

    /// Packet type and count field. If the count is a number of items, `write_body` has checked it against
    /// 31.
    fn type_and_count(&self) -> (u8, u8) {
        match self {
            Self::SenderReport(packet) => (SENDER_REPORT, packet.blocks.len() as u8),
            Self::ReceiverReport(packet) => (RECEIVER_REPORT, packet.blocks.len() as u8),
            Self::SourceDescription(packet) => (SOURCE_DESCRIPTION, packet.chunks.len() as u8),
            Self::Goodbye(packet) => (GOODBYE, packet.ssrcs.len() as u8),
            Self::ExtendedReport(_) => (EXTENDED_REPORT, 0),
            Self::Nack(_) => (TRANSPORT_FEEDBACK, NACK),
            Self::PictureLossIndication(_) => (PAYLOAD_FEEDBACK, PICTURE_LOSS),
            Self::FullIntraRequest(_) => (PAYLOAD_FEEDBACK, FULL_INTRA),
            Self::Remb(_) => (PAYLOAD_FEEDBACK, APPLICATION_LAYER),
            Self::TransportFeedback(_) => (TRANSPORT_FEEDBACK, TRANSPORT_WIDE),
            Self::CongestionFeedback(_) => (TRANSPORT_FEEDBACK, CONGESTION_CONTROL),
            Self::Unknown { packet_type, count, .. } => (*packet_type, *count),
        }
    }
}

/// Converts bytes to text that is no longer. If they are not UTF-8, every byte that is not ASCII becomes `?`.
fn text(bytes: &[u8]) -> String {
    let ascii = |byte: &u8| if byte.is_ascii() { char::from(*byte) } else { '?' };
    std::str::from_utf8(bytes).map_or_else(|_| bytes.iter().map(ascii).collect(), str::to_owned)
}

/// Pads the packet to whole words. Returns whether padding was needed, and the value of the length field.
fn pad(begin: usize, out: &mut Vec<u8>) -> Result<(bool, u16), WriteError> {
    let len = out.len() - begin;
    let padding = len.next_multiple_of(4) - len;
    if padding > 0 {
        out.resize(out.len() + padding - 1, 0);
        out.push(padding as u8);
    }
    let words = (out.len() - begin) / 4 - 1;
    WriteError::check("words of an RTCP packet", words, usize::from(u16::MAX))?;
    Ok((padding > 0, words as u16))
}

#[cfg(test)]
mod tests;
