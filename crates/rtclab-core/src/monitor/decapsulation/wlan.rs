//! 802.11, and the headers that capture tools put before it.
//!
//! Source: IEEE 802.11-2020, section 9.2; <https://www.radiotap.org>; <https://www.tcpdump.org/linktypes.html>.

use super::span::{be32, le16, le32};
use super::{Header, Inside, Span, Unread, ethertype};

/// Bits of the first byte: version, type, and in data frames no data and quality of service.
const VERSION: u8 = 0x03;
const TYPE: u8 = 0x0C;
const TYPE_DATA: u8 = 0x08;
const NO_DATA: u8 = 0x40;
const QOS: u8 = 0x80;
/// Bits of the second byte. Frames between access points have both directions, and a fourth address.
const BOTH_DIRECTIONS: u8 = 0x03;
const PROTECTED: u8 = 0x40;
const ORDER: u8 = 0x80;

const HEADER_BYTES: usize = 24;
const ADDRESS_BYTES: usize = 6;
const HT_CONTROL_BYTES: usize = 4;
/// Bit of the first byte of QoS control: the frame holds several (A-MSDU).
const AGGREGATE: u8 = 0x80;

/// Flags of radiotap.
const DATA_PADDED: u8 = 0x20;
const BAD_CHECKSUM: u8 = 0x40;

/// What the header of AVS begins with, but for its version.
const AVS_MAGIC: u32 = 0x8021_1000;
/// The longest header of a capture tool that is believed.
const MAX_TOOL_BYTES: usize = 1024;

pub(super) fn strip(span: Span<'_>, padded: bool) -> Result<Inside<'_>, Unread> {
    let [control, flags] = *span.head::<2>()?;
    if control & VERSION != 0 {
        return Err(Unread::Malformed);
    }
    if control & TYPE != TYPE_DATA || control & NO_DATA != 0 {
        return Err(Unread::WlanWithoutData);
    }
    if flags & PROTECTED != 0 {
        return Err(Unread::WlanEncrypted);
    }
    if le16(span.head::<HEADER_BYTES>()?, HEADER_BYTES - 2) & 15 > 0 {
        return Err(Unread::WlanFragment);
    }
    let mut header_bytes = HEADER_BYTES;
    if flags & BOTH_DIRECTIONS == BOTH_DIRECTIONS {
        header_bytes += ADDRESS_BYTES;
    }
    if control & QOS != 0 {
        if span.skip(header_bytes)?.head::<2>()?[0] & AGGREGATE != 0 {
            return Err(Unread::WlanAggregate);
        }
        header_bytes += if flags & ORDER == 0 { 2 } else { 2 + HT_CONTROL_BYTES };
    }
    let padded_bytes = if padded { header_bytes.next_multiple_of(4) } else { header_bytes };
    ethertype::llc(span.skip(padded_bytes)?)
}

pub(super) fn radiotap(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<8>()?;
    let header_bytes = usize::from(le16(head, 2));
    if head[0] != 0 || header_bytes < head.len() {
        return Err(Unread::Malformed);
    }
    let after = span.skip(header_bytes)?;
    let flags = radiotap_flags(&span.bytes[..header_bytes]).unwrap_or_default();
    if flags & BAD_CHECKSUM != 0 {
        return Err(Unread::WlanDamaged);
    }
    Ok((Header::Wlan { padded: flags & DATA_PADDED != 0 }, after))
}

/// The field `flags`, which follows the words that say which fields there are, and the time.
fn radiotap_flags(header: &[u8]) -> Option<u8> {
    let present = le32(header, 4);
    let words = header[4..].chunks_exact(4).position(|word| word[3] & 0x80 == 0)? + 1;
    let mut offset = 4 + words * 4;
    if present & 1 != 0 {
        offset = offset.next_multiple_of(8) + 8;
    }
    header.get(offset).copied().filter(|_| present & 2 != 0)
}

/// The headers of Prism and AVS, which state their lengths. Link types do not tell them apart.
pub(super) fn prism_or_avs(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<8>()?;
    let (big, little) = (be32(head, 4) as usize, le32(head, 4) as usize);
    let is_avs = be32(head, 0) & 0xFFFF_F000 == AVS_MAGIC;
    let header_bytes = if is_avs { big } else { little.min(big) };
    if !(head.len()..=MAX_TOOL_BYTES).contains(&header_bytes) {
        return Err(Unread::Malformed);
    }
    Ok((Header::Wlan { padded: false }, span.skip(header_bytes)?))
}

/// The header of PPI, which states its length and a link type.
pub(super) fn ppi(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<8>()?;
    let (header_bytes, link_type) = (usize::from(le16(head, 2)), u16::try_from(le32(head, 4)));
    match link_type {
        Ok(link_type) if head[0] == 0 && header_bytes >= head.len() => {
            Ok((Header::Link(link_type), span.skip(header_bytes)?))
        }
        _ => Err(Unread::Malformed),
    }
}
