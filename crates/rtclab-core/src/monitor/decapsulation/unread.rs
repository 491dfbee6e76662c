//! Why nothing was read in a frame.

use super::names;

/// What a frame holds that is not read, or why it cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Unread {
    /// Frames of this link type.
    LinkType(u16),
    /// Another address family in a loopback header.
    AddressFamily(u32),
    /// Another Ethertype.
    Ethertype(u16),
    /// Another service access point in a header of 802.2.
    Llc(u8),
    /// Another protocol in PPP.
    Ppp(u16),
    /// Another IP protocol.
    IpProtocol(u8),
    /// MPLS with neither IP nor Ethernet inside.
    MplsContent,
    /// An 802.11 frame that is not of data, or of none.
    WlanWithoutData,
    /// An encrypted 802.11 frame.
    WlanEncrypted,
    /// An 802.11 frame in which several were aggregated (A-MSDU).
    WlanAggregate,
    /// A later fragment of an 802.11 frame.
    WlanFragment,
    /// An 802.11 frame received with errors.
    WlanDamaged,
    /// The capture ends before the headers do.
    Cut,
    /// Headers that contradict themselves or each other.
    Malformed,
    /// More headers than any network has.
    TooManyHeaders,
}

impl Unread {
    /// Says what was not read, in words that fit behind a number.
    pub fn in_words(self) -> String {
        let named = |of: &str, name: Option<&str>, number: String| match name {
            Some(name) => format!("{of} of {name} ({number}) are not read"),
            None => format!("{of} of {number} are not read"),
        };
        let fixed = match self {
            Unread::LinkType(it) => {
                return named("frames", names::link_type(it), format!("link type {it}"));
            }
            Unread::AddressFamily(it) => {
                return named("loopback frames", None, format!("address family {it}"));
            }
            Unread::Ethertype(it) => {
                return named("frames", names::ethertype(it), format!("Ethertype 0x{it:04x}"));
            }
            Unread::Llc(it) => {
                return named("frames", names::access_point(it), format!("802.2 LLC 0x{it:02x}"));
            }
            Unread::Ppp(it) => {
                return named("PPP frames", names::ppp(it), format!("protocol 0x{it:04x}"));
            }
            Unread::IpProtocol(it) => {
                return named("IP packets", names::ip_protocol(it), format!("protocol {it}"));
            }
            Unread::MplsContent => "MPLS frames with neither IP nor Ethernet inside are not read",
            Unread::WlanWithoutData => "802.11 frames without data, such as beacons",
            Unread::WlanEncrypted => "encrypted 802.11 frames are not read",
            Unread::WlanAggregate => "aggregated 802.11 frames (A-MSDU) are not read",
            Unread::WlanFragment => "later fragments of 802.11 frames are not read",
            Unread::WlanDamaged => "802.11 frames received with a bad checksum are not read",
            Unread::Cut => "packets skipped because the capture cut off their headers",
            Unread::Malformed => "packets skipped because their headers are malformed",
            Unread::TooManyHeaders => "packets skipped because they have too many headers",
        };
        fixed.to_owned()
    }
}
