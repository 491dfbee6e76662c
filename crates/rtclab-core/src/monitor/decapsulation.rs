//! Finds the innermost UDP datagram or TCP segment in a captured frame.
//!
//! Header after header is stripped (link, tunnels, IP) until UDP or TCP is reached that carries no tunnel. Lengths are taken from the headers, because a capture may hold only the beginning of
//! a frame. What cannot be read has a name, so that it can be counted.
//!
//! Written here because fuzzing found that `etherparse` 0.21 reads out of bounds on a truncated chain of IPv6 extension
//! headers. Of the tunnels it knows none.

use super::capture::{Direction, Frame, Interface};
use ip::{FragmentOf, TransportDatagram, protocol};

mod ethertype;
pub mod ip;
mod link;
mod names;
mod ppp;
mod span;
mod tunnels;
mod unread;
mod wlan;

pub(crate) use span::Span;
pub use tunnels::{Tunnel, Tunnels};
pub use unread::Unread;

/// Maximum number of headers before UDP or TCP. A tunnel in UDP with Ethernet inside has three: eight such
/// tunnels in each other are read.
const MAX_HEADERS: usize = 28;

/// Where a packet was captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Point {
    pub(crate) interface: u32,
    /// Device number in a cooked capture of all devices, else 0.
    pub(crate) device: u32,
    pub(crate) direction: Option<Direction>,
    /// The tunnels that the packet was in. Seen inside and outside, as on all devices of a host, it is another leg.
    pub(crate) tunnels: Tunnels,
}

impl Point {
    /// Name or number of the interface, with the device number in a cooked capture.
    pub(crate) fn interface_name(&self, interfaces: &[Interface]) -> String {
        let name = interfaces.get(self.interface as usize).and_then(|i| i.name.clone());
        let name = name.unwrap_or_else(|| format!("interface {}", self.interface));
        if self.device == 0 { name } else { format!("{name} device {}", self.device) }
    }

    pub(crate) fn direction_name(&self) -> Option<String> {
        self.direction.map(|direction| match direction {
            Direction::Inbound => "inbound".to_owned(),
            Direction::Outbound => "outbound".to_owned(),
        })
    }
}

/// What the next bytes of a frame are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Header {
    /// What frames of this link type begin with.
    Link(u16),
    /// The rest of a VLAN tag after its Ethertype.
    Vlan,
    /// Provider backbone bridges: the rest of the service tag, then Ethernet.
    BackboneTag,
    /// PPP, with or without the address and control bytes of HDLC.
    Ppp,
    /// 802.11. The header may be padded to a multiple of four bytes.
    Wlan { padded: bool },
    /// A tunnel.
    Tunnel(Tunnel),
    /// IPv4 or IPv6.
    Ip,
}

/// A header, and the bytes from its beginning.
type Inside<'a> = (Header, Span<'a>);

/// What was found in a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A UDP datagram or TCP segment, or the first fragment of one.
    Datagram(TransportDatagram<'a>),
    /// A fragment without a transport header, and its IP total length.
    LaterFragment(FragmentOf, u32),
    /// Something else.
    Unread(Unread),
}

/// A frame whose headers were stripped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened<'a> {
    /// What was found.
    pub found: Found<'a>,
    /// Whether an IP packet of the frame is a fragment.
    pub fragment: bool,
    /// Whether the datagram may hold a tunnel, but the capture ends before that shows.
    pub cut_inside: bool,
    /// Where the frame was captured, and in which tunnels. Its link header may state direction and device.
    pub(crate) point: Point,
}

/// Strips the headers of a frame.
#[inline]
pub fn open<'a>(frame: &Frame<'a>) -> Opened<'a> {
    let tunnels = Tunnels::default();
    let point =
        Point { interface: frame.interface, device: 0, direction: frame.direction, tunnels };
    let mut opening = Opening { point, tunnels, fragment: false, outer: None };
    let mut next = (Header::Link(frame.link_type), Span::new(frame.bytes, frame.wire_bytes));
    for _ in 0..MAX_HEADERS {
        match opening.strip(next) {
            Ok(Step::Inside(inside)) => next = inside,
            Ok(Step::End(found)) => return opening.opened(found),
            Err(unread) => return opening.failed(unread),
        }
    }
    opening.opened(Found::Unread(Unread::TooManyHeaders))
}

/// What follows a header that was stripped.
enum Step<'a> {
    Inside(Inside<'a>),
    End(Found<'a>),
}

/// A frame without the headers stripped so far.
struct Opening<'a> {
    point: Point,
    tunnels: Tunnels,
    fragment: bool,
    /// The datagram whose port belongs to a tunnel, and the tunnels it is in, until an IP packet is found
    /// inside that fills it. Calls may use such ports, too.
    outer: Option<(TransportDatagram<'a>, Tunnels)>,
}

impl<'a> Opening<'a> {
    #[inline]
    fn strip(&mut self, (header, span): Inside<'a>) -> Result<Step<'a>, Unread> {
        let inside = match header {
            Header::Ip => return self.ip(span),
            Header::Link(link_type) => link::strip(link_type, span, &mut self.point),
            Header::Vlan => ethertype::vlan(span),
            Header::BackboneTag => ethertype::backbone_tag(span),
            Header::Ppp => ppp::strip(span),
            Header::Wlan { padded } => wlan::strip(span, padded),
            Header::Tunnel(tunnel) => {
                self.tunnels.add(tunnel);
                tunnel.strip(span)
            }
        };
        Ok(Step::Inside(inside?))
    }

    #[inline]
    fn ip(&mut self, span: Span<'a>) -> Result<Step<'a>, Unread> {
        let header = ip::header(span)?;
        if self.outer.is_some() && !header.fills(span) {
            return Err(Unread::Malformed);
        }
        self.outer = None;
        self.fragment |= header.fragment_offset.is_some();
        if header.fragment_offset.is_some_and(|offset| offset > 0) {
            let later = Found::LaterFragment(header.fragment_of(), header.total_bytes);
            return Ok(Step::End(later));
        }
        let datagram = match header.protocol {
            protocol::UDP => header.udp()?,
            protocol::TCP => return Ok(Step::End(Found::Datagram(header.tcp()?))),
            other => {
                let tunnel = Tunnel::of_protocol(other).ok_or(Unread::IpProtocol(other))?;
                return Ok(Step::Inside((Header::Tunnel(tunnel), header.payload)));
            }
        };
        let Some(tunnel) = Tunnel::of_port(datagram.destination.port()) else {
            return Ok(Step::End(Found::Datagram(datagram)));
        };
        self.outer = Some((datagram, self.tunnels));
        let payload = Span::new(datagram.payload, datagram.payload_bytes);
        Ok(Step::Inside((Header::Tunnel(tunnel), payload)))
    }

    #[inline]
    fn opened(self, found: Found<'a>) -> Opened<'a> {
        let Opening { point, tunnels, fragment, .. } = self;
        Opened { found, fragment, cut_inside: false, point: Point { tunnels, ..point } }
    }

    /// What cannot be read inside a datagram leaves the datagram.
    fn failed(mut self, unread: Unread) -> Opened<'a> {
        match self.outer.take() {
            Some((datagram, tunnels)) => {
                let opened = Opening { tunnels, ..self }.opened(Found::Datagram(datagram));
                Opened { cut_inside: unread == Unread::Cut, ..opened }
            }
            None => self.opened(Found::Unread(unread)),
        }
    }
}

#[cfg(test)]
mod tests;
