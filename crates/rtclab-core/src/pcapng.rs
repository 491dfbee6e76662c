//! Writes captures in the pcapng format, as bytes in memory.
//!
//! Written here because the maintained crate that writes the format was a release candidate.
//!
//! A file begins with [`write_section`], followed by a [`Packet`] for each frame:
//!
//! ```
//! use rtclab_core::pcapng::{Direction, Interface, Packet, link_type, write_section};
//!
//! let mut file = Vec::new();
//! let alice = Interface { link_type: link_type::RAW, name: Some("alice".into()) };
//! write_section(&mut file, &[alice], 0);
//! let headers = [0x45; 28]; // of an IP packet whose 1200 bytes of media are not simulated
//! let packet = Packet {
//!     interface: 0,
//!     at_ns: 1_700_000_000_000_000_000,
//!     direction: Direction::Inbound,
//!     wire_bytes: 1228,
//!     bytes: &headers,
//!     zeros: 0, // headers only; 1200 for a frame of full length
//! };
//! packet.write(&mut file);
//! ```
//!
//! [`crate::monitor::CaptureReader`] reads such files.
//!
//! Source: draft-ietf-opsawg-pcapng.

/// `LINKTYPE_` numbers: what the frames of an interface begin with.
///
/// Source: <https://www.tcpdump.org/linktypes.html>
pub mod link_type {
    /// BSD loopback: the address family in the byte order of the capturing machine.
    pub const NULL: u16 = 0;
    /// An Ethernet header.
    pub const ETHERNET: u16 = 1;
    /// PPP, with or without address and control bytes of HDLC.
    pub const PPP: u16 = 9;
    /// PPP in frames of HDLC, or Cisco HDLC.
    pub const PPP_HDLC: u16 = 50;
    /// A session of PPP over Ethernet, from its header on.
    pub const PPP_ETHER: u16 = 51;
    /// An IPv4 or IPv6 header.
    pub const RAW: u16 = 101;
    /// Cisco HDLC.
    pub const C_HDLC: u16 = 104;
    /// An 802.11 header.
    pub const IEEE802_11: u16 = 105;
    /// OpenBSD loopback: the address family in network byte order.
    pub const LOOP: u16 = 108;
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: u16 = 113;
    /// A Prism header, then 802.11.
    pub const IEEE802_11_PRISM: u16 = 119;
    /// A radiotap header, then 802.11.
    pub const IEEE802_11_RADIOTAP: u16 = 127;
    /// For private use. Darwin writes PKTAP under this number.
    pub const USER2: u16 = 149;
    /// An AVS header, then 802.11.
    pub const IEEE802_11_AVS: u16 = 163;
    /// Per-packet information, which has a link type of its own.
    pub const PPI: u16 = 192;
    /// A byte with the direction, then PPP.
    pub const PPP_WITH_DIRECTION: u16 = 204;
    /// MPLS labels.
    pub const MPLS: u16 = 219;
    /// An IPv4 header.
    pub const IPV4: u16 = 228;
    /// An IPv6 header.
    pub const IPV6: u16 = 229;
    /// Packets logged by Linux's netfilter.
    pub const NFLOG: u16 = 239;
    /// Netlink messages.
    pub const NETLINK: u16 = 253;
    /// A header of Darwin with direction and process, which has a link type of its own.
    pub const PKTAP: u16 = 258;
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: u16 = 276;
}

/// Block types.
pub(crate) mod block {
    pub(crate) const SECTION_HEADER: u32 = 0x0A0D_0D0A;
    pub(crate) const INTERFACE_DESCRIPTION: u32 = 1;
    pub(crate) const ENHANCED_PACKET: u32 = 6;
}

/// Codes of the options in a block.
pub(crate) mod option {
    pub(crate) const END: u16 = 0;
    pub(crate) const IF_NAME: u16 = 2;
    pub(crate) const IF_TSRESOL: u16 = 9;
    pub(crate) const EPB_FLAGS: u16 = 2;
}

/// Word in a section header that shows the byte order.
pub(crate) const BYTE_ORDER_MAGIC: u32 = 0x1A2B_3C4D;

/// `if_tsresol` of time stamps in nanoseconds: units of 10^-9 s.
const NANOSECONDS: u8 = 9;

/// Which way a frame crossed an interface, seen from the system that captured it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Into the capturing system. For an emulated or simulated network: sent by the node at that interface.
    Inbound = 1,
    /// Out of the capturing system. For an emulated or simulated network: delivered to the node there.
    Outbound = 2,
}

/// A place where frames are captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// What its frames begin with: one of [`link_type`].
    pub link_type: u16,
    /// Name of the interface, if the file has one.
    pub name: Option<String>,
}

/// A frame to be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Index among the interfaces given to [`write_section`].
    pub interface: u32,
    /// Capture time, in nanoseconds since 1970.
    pub at_ns: u64,
    /// Direction of the frame.
    pub direction: Direction,
    /// Length on the wire.
    pub wire_bytes: u32,
    /// The beginning of the frame.
    pub bytes: &'a [u8],
    /// Number of zeros written after `bytes`, in place of content that is not simulated.
    pub zeros: u32,
}

/// Begins a section of a file (little endian, times in nanoseconds) and describes its interfaces.
///
/// `snaplen` is the maximum number of bytes captured per frame, or 0 for no limit. It is only written to the file;
/// [`Packet::write`] cuts nothing.
pub fn write_section(out: &mut Vec<u8>, interfaces: &[Interface], snaplen: u32) {
    write_block(out, block::SECTION_HEADER, |body| {
        body.extend_from_slice(&BYTE_ORDER_MAGIC.to_le_bytes());
        body.extend_from_slice(&1u16.to_le_bytes()); // major version
        body.extend_from_slice(&0u16.to_le_bytes());
        body.extend_from_slice(&u64::MAX.to_le_bytes()); // length of the section: unknown
    });
    for interface in interfaces {
        write_block(out, block::INTERFACE_DESCRIPTION, |body| {
            body.extend_from_slice(&interface.link_type.to_le_bytes());
            body.extend_from_slice(&[0, 0]);
            body.extend_from_slice(&snaplen.to_le_bytes());
            if let Some(name) = &interface.name {
                write_option(body, option::IF_NAME, name.as_bytes());
            }
            write_option(body, option::IF_TSRESOL, &[NANOSECONDS]);
            write_option(body, option::END, &[]);
        });
    }
}

impl Packet<'_> {
    /// Appends the frame to a file.
    pub fn write(&self, out: &mut Vec<u8>) {
        let captured_bytes = self.bytes.len() + self.zeros as usize;
        write_block(out, block::ENHANCED_PACKET, |body| {
            body.extend_from_slice(&self.interface.to_le_bytes());
            body.extend_from_slice(&((self.at_ns >> 32) as u32).to_le_bytes());
            body.extend_from_slice(&(self.at_ns as u32).to_le_bytes());
            body.extend_from_slice(&(captured_bytes as u32).to_le_bytes());
            body.extend_from_slice(&self.wire_bytes.to_le_bytes());
            body.extend_from_slice(self.bytes);
            let padded = captured_bytes.next_multiple_of(4) - self.bytes.len();
            body.resize(body.len() + padded, 0);
            write_option(body, option::EPB_FLAGS, &(self.direction as u32).to_le_bytes());
            write_option(body, option::END, &[]);
        });
    }
}

/// Appends a block: type, length, what `body` appends (a multiple of 4 bytes), and the length again.
fn write_block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let begin = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]); // the length, known below
    body(out);
    let length = (out.len() - begin + 4) as u32;
    out[begin + 4..begin + 8].copy_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&length.to_le_bytes());
}

/// Appends an option, padded to a multiple of 4 bytes. A value above 65,535 bytes is cut.
fn write_option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    let padding = value.len().next_multiple_of(4) - value.len();
    out.resize(out.len() + padding, 0);
}
