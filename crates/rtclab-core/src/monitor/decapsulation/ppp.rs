//! PPP, as the link of a capture and in tunnels.
//!
//! Source: RFC 1661, section 2; RFC 1662, section 3.1; RFC 2516, section 4; Cisco HDLC as in <https://www.tcpdump.org/linktypes.html>.

use super::span::be16;
use super::{Header, Inside, Span, Tunnel, Unread, ethertype};

/// Address and control byte of PPP in frames of HDLC.
const HDLC: [u8; 2] = [0xFF, 0x03];
/// Address bytes of Cisco HDLC: of one station, and of all.
const CISCO: [u8; 2] = [0x0F, 0x8F];

const IPV4: u16 = 0x0021;
const IPV6: u16 = 0x0057;
const MPLS: [u16; 2] = [0x0281, 0x0283];

const PPPOE_VERSION_AND_TYPE: u8 = 0x11;
const PPPOE_HEADER_BYTES: usize = 6;

/// PPP, or Cisco HDLC, which the same interfaces carry.
pub(super) fn strip(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    match span.head::<2>()? {
        [address, 0] if CISCO.contains(address) => ethertype::at(span, 2),
        head if *head == HDLC => protocol(span.skip(2)?),
        _ => protocol(span),
    }
}

/// The protocol field, which may be compressed to one byte. Its last byte is odd, and no other.
fn protocol(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let [first] = *span.head::<1>()?;
    let (number, field_bytes) =
        if first & 1 == 1 { (first.into(), 1) } else { (be16(span.head::<2>()?, 0), 2) };
    let header = match number {
        IPV4 | IPV6 => Header::Ip,
        label if MPLS.contains(&label) => Header::Tunnel(Tunnel::Mpls),
        other => return Err(Unread::Ppp(other)),
    };
    Ok((header, span.skip(field_bytes)?))
}

/// A session of PPP over Ethernet.
pub(super) fn pppoe(span: Span<'_>) -> Result<Inside<'_>, Unread> {
    let head = span.head::<PPPOE_HEADER_BYTES>()?;
    if head[..2] != [PPPOE_VERSION_AND_TYPE, 0] {
        return Err(Unread::Malformed);
    }
    let length = be16(head, 4).into();
    Ok((Header::Ppp, span.skip(PPPOE_HEADER_BYTES)?.limit(length)))
}
