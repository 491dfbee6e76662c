//! Writes IPv4 packets with UDP datagrams or TCP segments, for captures of simulated calls.
//!
//! Simulated media have a length but no content. A [`Payload`] is therefore a known beginning and a number of
//! zeros that follow it. The zeros count in length fields and do not change the checksum, but they are not
//! written here. The writer of a capture may add them ([`crate::pcapng::Packet::zeros`]).
//!
//! ```
//! use rtclab_core::ipv4::{Ends, Payload, write_udp};
//!
//! let ends = Ends {
//!     source: "10.0.0.1:5000".parse().unwrap(),
//!     destination: "10.0.0.2:5000".parse().unwrap(),
//!     ecn: 0,
//! };
//! let rtp_header = [0x80, 96, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1];
//! let mut packet = Vec::new();
//! let wire_bytes = write_udp(&mut packet, ends, Payload { bytes: &rtp_header, zeros: 1000 });
//! assert_eq!((packet.len(), wire_bytes), (40, 1040)); // headers of 20 B and 8 B
//! ```
//!
//! Source: RFC 791, section 3.1; RFC 768; RFC 9293, section 3.1.

use std::net::SocketAddrV4;

const IP_HEADER_BYTES: usize = 20;
const UDP_HEADER_BYTES: usize = 8;
const TCP_HEADER_BYTES: usize = 20;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;
/// Initial time to live of most systems.
const TIME_TO_LIVE: u8 = 64;
/// Don't fragment. The identification has no meaning without fragments and is 0 (RFC 6864, section 4.1).
const DONT_FRAGMENT: [u8; 2] = [0x40, 0];
/// Space for options in a TCP header: 60 B less the fixed 20 B.
const MAX_TCP_OPTION_BYTES: usize = 40;

/// Addresses, ports and ECN bits of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// Source address and port.
    pub source: SocketAddrV4,
    /// Destination address and port.
    pub destination: SocketAddrV4,
    /// The two ECN bits of RFC 3168: 0 Not-ECT, 1 ECT(1), 2 ECT(0), 3 CE.
    pub ecn: u8,
}

/// Payload of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Payload<'a> {
    /// Beginning of the payload, which is written.
    pub bytes: &'a [u8],
    /// Number of zeros that follow, which are not written.
    pub zeros: usize,
}

/// The fields of a TCP header that are not addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpFields<'a> {
    /// Sequence number of the first payload byte, or of the SYN.
    pub seq: u32,
    /// Sequence number expected next; sets the flag ACK.
    pub ack: Option<u32>,
    /// Flag SYN: opens a connection.
    pub syn: bool,
    /// Flag FIN: the sender has no more data.
    pub fin: bool,
    /// Flag PSH: the last segment of a write of the application.
    pub psh: bool,
    /// The ECN flags AE, CWR and ECE, as a number of three bits (RFC 9768, section 3.1).
    pub ecn: u8,
    /// Receive window, in units of 2^`window_scale` bytes.
    pub window: u16,
    /// Options.
    pub options: TcpOptions<'a>,
}

/// TCP options. They are padded, and in the order in which Linux writes them.
///
/// The TCP header has 32 B with timestamps, and 40 B in a SYN with its four options. SACK adds 4 B, and 8 B
/// per block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions<'a> {
    /// Maximum segment size, in bytes (RFC 9293, section 3.7.1).
    pub max_segment_bytes: Option<u16>,
    /// SACK permitted (RFC 2018, section 2).
    pub sack_permitted: bool,
    /// Value and echo reply of timestamps (RFC 7323, section 3.2).
    pub timestamps: Option<(u32, u32)>,
    /// Window scale, as a power of two (RFC 7323, section 2.2).
    pub window_scale: Option<u8>,
    /// SACK blocks: first byte and byte after the last (RFC 2018, section 3). Blocks that do not fit are left
    /// out.
    pub sack: &'a [(u32, u32)],
}

/// Appends a packet with a UDP datagram; returns its length on the wire, zeros included.
///
/// # Panics
///
/// If the length exceeds the 65,535 B of an IPv4 packet.
pub fn write_udp(out: &mut Vec<u8>, ends: Ends, payload: Payload<'_>) -> u32 {
    let transport_bytes = UDP_HEADER_BYTES + payload.bytes.len() + payload.zeros;
    let total_bytes = write_ip_header(out, ends, PROTOCOL_UDP, transport_bytes);
    let udp = out.len();
    out.extend_from_slice(&ends.source.port().to_be_bytes());
    out.extend_from_slice(&ends.destination.port().to_be_bytes());
    out.extend_from_slice(&(transport_bytes as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(payload.bytes);
    let checksum = match transport_checksum(ends, PROTOCOL_UDP, transport_bytes, &out[udp..]) {
        0 => u16::MAX, // RFC 768: 0 means that there is no checksum
        checksum => checksum,
    };
    out[udp + 6..udp + 8].copy_from_slice(&checksum.to_be_bytes());
    total_bytes
}

/// Appends a packet with a TCP segment; returns its length on the wire, zeros included.
///
/// # Panics
///
/// If the length exceeds the 65,535 B of an IPv4 packet.
pub fn write_tcp(out: &mut Vec<u8>, ends: Ends, tcp: &TcpFields<'_>, payload: Payload<'_>) -> u32 {
    let options = tcp.options.bytes();
    let header_bytes = TCP_HEADER_BYTES + options.len();
    let transport_bytes = header_bytes + payload.bytes.len() + payload.zeros;
    let total_bytes = write_ip_header(out, ends, PROTOCOL_TCP, transport_bytes);
    let segment = out.len();
    out.extend_from_slice(&ends.source.port().to_be_bytes());
    out.extend_from_slice(&ends.destination.port().to_be_bytes());
    out.extend_from_slice(&tcp.seq.to_be_bytes());
    out.extend_from_slice(&tcp.ack.unwrap_or(0).to_be_bytes());
    out.extend_from_slice(&[((header_bytes / 4) << 4) as u8 | (tcp.ecn >> 2 & 1), tcp.flags()]);
    out.extend_from_slice(&tcp.window.to_be_bytes());
    out.extend_from_slice(&[0; 4]); // checksum, urgent pointer
    out.extend_from_slice(&options);
    out.extend_from_slice(payload.bytes);
    let checksum = transport_checksum(ends, PROTOCOL_TCP, transport_bytes, &out[segment..]);
    out[segment + 16..segment + 18].copy_from_slice(&checksum.to_be_bytes());
    total_bytes
}

/// Appends an IPv4 header and returns the IP total length.
fn write_ip_header(out: &mut Vec<u8>, ends: Ends, protocol: u8, transport_bytes: usize) -> u32 {
    let total_bytes = IP_HEADER_BYTES + transport_bytes;
    assert!(total_bytes <= 65_535, "an IPv4 packet of {total_bytes} B; expected at most 65535 B");
    let begin = out.len();
    out.extend_from_slice(&[0x45, ends.ecn & 3]);
    out.extend_from_slice(&(total_bytes as u16).to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&DONT_FRAGMENT);
    out.extend_from_slice(&[TIME_TO_LIVE, protocol, 0, 0]);
    out.extend_from_slice(&ends.source.ip().octets());
    out.extend_from_slice(&ends.destination.ip().octets());
    let checksum = complement(sum(0, &out[begin..]));
    out[begin + 10..begin + 12].copy_from_slice(&checksum.to_be_bytes());
    total_bytes as u32
}

/// Checksum over the pseudo header and a segment whose checksum field is 0 (RFC 9293, section 3.1).
fn transport_checksum(ends: Ends, protocol: u8, transport_bytes: usize, segment: &[u8]) -> u16 {
    let pseudo = u32::from(protocol) + transport_bytes as u32;
    let addresses = sum(sum(pseudo, &ends.source.ip().octets()), &ends.destination.ip().octets());
    complement(sum(addresses, segment))
}

/// Adds the 16-bit words of `bytes` to `begin`. An odd last byte is the upper half of a word.
fn sum(begin: u32, bytes: &[u8]) -> u32 {
    bytes.chunks(2).fold(begin, |sum, pair| {
        sum + u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]))
    })
}

/// Folds a sum into 16 bits with end-around carry, and inverts it (RFC 1071).
fn complement(mut sum: u32) -> u16 {
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

impl TcpFields<'_> {
    fn flags(&self) -> u8 {
        let ack = self.ack.is_some();
        let own = u8::from(self.fin) | u8::from(self.syn) << 1 | u8::from(self.psh) << 3;
        own | u8::from(ack) << 4 | (self.ecn & 3) << 6
    }
}

impl TcpOptions<'_> {
    /// Encodes the options: a multiple of 4 bytes, at most 40.
    fn bytes(&self) -> Vec<u8> {
        const NO_OPERATION: u8 = 1;
        const SACK_PERMITTED: [u8; 2] = [4, 2];
        let mut bytes = Vec::new();
        if let Some(max_segment_bytes) = self.max_segment_bytes {
            bytes.extend_from_slice(&[2, 4]);
            bytes.extend_from_slice(&max_segment_bytes.to_be_bytes());
        }
        if self.sack_permitted || self.timestamps.is_some() {
            // Both options are 2 bytes short of a multiple of 4. Together they need no filler.
            let filler = if self.timestamps.is_some() && self.sack_permitted {
                SACK_PERMITTED
            } else {
                [NO_OPERATION; 2]
            };
            bytes.extend_from_slice(&filler);
            match self.timestamps {
                Some((value, echo)) => {
                    bytes.extend_from_slice(&[8, 10]);
                    bytes.extend_from_slice(&value.to_be_bytes());
                    bytes.extend_from_slice(&echo.to_be_bytes());
                }
                None => bytes.extend_from_slice(&SACK_PERMITTED),
            }
        }
        if let Some(window_scale) = self.window_scale {
            bytes.extend_from_slice(&[NO_OPERATION, 3, 3, window_scale]);
        }
        let fitting = MAX_TCP_OPTION_BYTES.saturating_sub(bytes.len() + 4) / 8;
        let blocks = &self.sack[..self.sack.len().min(fitting)];
        if !blocks.is_empty() {
            bytes.extend_from_slice(&[NO_OPERATION, NO_OPERATION, 5, 2 + 8 * blocks.len() as u8]);
            for (first, after) in blocks {
                bytes.extend_from_slice(&first.to_be_bytes());
                bytes.extend_from_slice(&after.to_be_bytes());
            }
        }
        bytes
    }
}
