//! Frames with the work that the kernel left undone: cutting a TCP stream into packets, and checksums.
//!
//! With segmentation offload, the kernel passes a stretch of a TCP stream under one header, as a *frame* of up to
//! 64 kB. Its *segments* are the packets into which a network card would cut it. The model carries each of them
//! alone. Segments that leave together are written as one frame again, which the kernel takes as one.
//!
//! Source of the layout: Virtual I/O Device (VIRTIO) 1.2, section 5.1.6, as in `linux/virtio_net.h`.

use crate::config::MacAddress;
use crate::frame::{self, ETHERNET_HEADER, ecn, readdress, set_ecn};
use rtclab_core::ecn::Ecn;
use rtclab_core::units::Bytes;
use std::ops::Range;

/// The checksum is to be computed; until then its field has the sum of the pseudo header.
const NEEDS_CHECKSUM: u8 = 1;
/// No segments.
const WHOLE: u8 = 0;
/// Segments of TCP over IPv4.
const TCP_IPV4: u8 = 1;
/// Set beside [`TCP_IPV4`] if the first segment has [`CWR`].
const TCP_ECN: u8 = 0x80;

const PROTOCOL_TCP: u8 = 6;
/// Flags of TCP that only the last segment has.
const FIN_AND_PUSH: u8 = 0x09;
/// Flag of TCP that only the first segment has: congestion window reduced.
const CWR: u8 = 0x80;

/// Most bytes that are copied when a frame is written, so that its headers can be changed: Ethernet, IPv4 with all
/// options and TCP with all options.
const MAX_HEAD: usize = ETHERNET_HEADER + 60 + 60;

/// What is left to do on a frame: `struct virtio_net_hdr`, in the byte order of the machine.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Offload {
    flags: u8,
    kind: u8,
    header_bytes: u16,
    /// TCP payload of each segment but the last.
    segment_bytes: u16,
    checksum_start: u16,
    /// Place of the checksum behind its start.
    checksum_offset: u16,
}

impl Offload {
    /// The bytes that precede a frame on a packet socket.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        // SAFETY: the structure has 10 bytes without padding, as the assertion below says, and lives as long as the result.
        unsafe { std::slice::from_raw_parts(std::ptr::from_ref(self).cast(), size_of::<Self>()) }
    }
}

/// Its fields have 1 + 1 + 4 · 2 bytes, so there is no padding.
const _: () = assert!(size_of::<Offload>() == 10);

/// A frame with one segment or more.
#[derive(Debug)]
pub(crate) struct Frame {
    bytes: Vec<u8>,
    offload: Offload,
    /// Where the payload begins that is divided among the segments.
    head: usize,
    /// Payload of each segment but the last. A frame that cannot be cut is one segment.
    segment: usize,
}

/// Some segments of a frame, as they are written.
pub(crate) struct Outgoing<'a> {
    pub(crate) offload: Offload,
    head: [u8; MAX_HEAD],
    head_bytes: usize,
    pub(crate) payload: &'a [u8],
}

impl Outgoing<'_> {
    pub(crate) fn head(&self) -> &[u8] {
        &self.head[..self.head_bytes]
    }

    /// The frame as it is on a wire, with its checksum. It must be one segment.
    pub(crate) fn on_wire(&self) -> Vec<u8> {
        let mut bytes = [self.head(), self.payload].concat();
        let start = usize::from(self.offload.checksum_start);
        let place = start + usize::from(self.offload.checksum_offset);
        if self.offload.flags & NEEDS_CHECKSUM != 0 && place + 2 <= bytes.len() {
            // A checksum of 0 would mean none in UDP; it is the same as 0xffff (RFC 768).
            let sum = match !folded(sum_of_words(&bytes[start..])) {
                0 => 0xffff,
                sum => sum,
            };
            bytes[place..place + 2].copy_from_slice(&sum.to_be_bytes());
        }
        bytes
    }
}

impl Frame {
    /// A frame on which nothing is left to do.
    pub(crate) fn whole(bytes: Vec<u8>) -> Self {
        Frame::new(bytes, Offload::default())
    }

    /// A frame as the kernel passes it.
    pub(crate) fn new(bytes: Vec<u8>, offload: Offload) -> Self {
        let segment = usize::from(offload.segment_bytes);
        let is_tcp = offload.kind & !TCP_ECN == TCP_IPV4 && offload.flags & NEEDS_CHECKSUM != 0;
        match tcp_payload_start(&bytes).filter(|_| is_tcp && segment > 0) {
            Some(head) => Frame { bytes, offload, head, segment },
            None => {
                let head = bytes.len().min(MAX_HEAD);
                Frame { bytes, offload, head, segment: usize::MAX }
            }
        }
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Sets the hardware addresses: from the emulator to `destination`.
    pub(crate) fn readdress(&mut self, destination: MacAddress) {
        readdress(&mut self.bytes, destination);
    }

    fn is_cut(&self) -> bool {
        self.segment < usize::MAX
    }

    /// Number of segments.
    pub(crate) fn segments(&self) -> usize {
        (self.bytes.len() - self.head).div_ceil(self.segment).max(1)
    }

    /// The payload of consecutive segments.
    fn payload(&self, segments: &Range<usize>) -> &[u8] {
        let end = segments.end.saturating_mul(self.segment).saturating_add(self.head);
        &self.bytes[self.head + segments.start * self.segment..end.min(self.bytes.len())]
    }

    /// IP total length of a segment, if that of the frame is `whole`.
    pub(crate) fn size(&self, segment: usize, whole: Bytes) -> Bytes {
        match self.is_cut() {
            true => {
                let payload = self.payload(&(segment..segment + 1)).len();
                Bytes((self.head - ETHERNET_HEADER + payload) as u64)
            }
            false => whole,
        }
    }

    /// Consecutive segments, with this ECN codepoint.
    pub(crate) fn outgoing(&self, segments: &Range<usize>, codepoint: Ecn) -> Outgoing<'_> {
        let payload = self.payload(segments);
        let mut offload = self.offload;
        let mut head = [0; MAX_HEAD];
        head[..self.head].copy_from_slice(&self.bytes[..self.head]);
        if self.is_cut() {
            let before = segments.start * self.segment;
            let is_last = segments.end == self.segments();
            let cwr = if segments.start == 0 { TCP_ECN } else { 0 };
            cut_tcp(&mut head[..self.head], segments.start, (before, payload.len()), is_last);
            match payload.len() > self.segment {
                true => offload.kind &= TCP_IPV4 | cwr,
                false => (offload.kind, offload.segment_bytes) = (WHOLE, 0),
            }
        }
        if ecn(&self.bytes) != codepoint {
            set_ecn(&mut head[..self.head], codepoint);
        }
        Outgoing { offload, head, head_bytes: self.head, payload }
    }
}

/// Where the payload of TCP over IPv4 begins; `None` for anything else.
fn tcp_payload_start(bytes: &[u8]) -> Option<usize> {
    let ip = ETHERNET_HEADER;
    if !matches!(frame::parse(bytes), frame::FrameContent::Ipv4 { .. })
        || bytes[ip + 9] != PROTOCOL_TCP
    {
        return None;
    }
    let tcp = ip + usize::from(bytes[ip] & 0x0f) * 4;
    let start = tcp + usize::from(bytes.get(tcp + 12)? >> 4) * 4;
    (tcp >= ip + 20 && start >= tcp + 20 && start < bytes.len()).then_some(start)
}

/// Makes the headers of a frame those of some of its segments: from number `first` on, with `payload` bytes behind
/// the first `before` of the frame.
///
/// Source: RFC 9293, section 3.1, and what Linux does in `tcp_gso_segment` and `inet_gso_segment`.
fn cut_tcp(head: &mut [u8], first: usize, (before, payload): (usize, usize), is_last: bool) {
    let packet = &mut head[ETHERNET_HEADER..];
    let ip_bytes = usize::from(packet[0] & 0x0f) * 4;
    let (ip, tcp) = packet.split_at_mut(ip_bytes);
    let length = ip.len() + tcp.len() + payload;
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    let id = u16::from_be_bytes([ip[4], ip[5]]).wrapping_add(first as u16);
    ip[4..6].copy_from_slice(&id.to_be_bytes());
    ip[10..12].fill(0);
    let checksum = !folded(sum_of_words(ip));
    ip[10..12].copy_from_slice(&checksum.to_be_bytes());
    let sequence = u32::from_be_bytes([tcp[4], tcp[5], tcp[6], tcp[7]]).wrapping_add(before as u32);
    tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
    if !is_last {
        tcp[13] &= !FIN_AND_PUSH;
    }
    if first > 0 {
        tcp[13] &= !CWR;
    }
    let pseudo = sum_of_words(&ip[12..20]) + u64::from(PROTOCOL_TCP) + (tcp.len() + payload) as u64;
    tcp[16..18].copy_from_slice(&folded(pseudo).to_be_bytes());
}

/// The sum of 16-bit words, of which the last is filled up with zeros.
fn sum_of_words(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(2);
    let rest = words.remainder().first().map_or(0, |last| u64::from(*last) << 8);
    rest + words.map(|word| u64::from(u16::from_be_bytes([word[0], word[1]]))).sum::<u64>()
}

/// A sum in ones' complement, in 16 bits.
fn folded(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    const IP: usize = ETHERNET_HEADER;

    impl Frame {
        /// A frame with a stretch of a TCP stream, of which each segment has at most this much payload.
        pub(crate) fn tcp(bytes: Vec<u8>, segment: u16) -> Self {
            let (flags, kind) = (NEEDS_CHECKSUM, TCP_IPV4);
            let checksum_start = IP as u16 + u16::from(bytes[IP] & 0x0f) * 4;
            let checksum =
                Offload { flags, checksum_start, checksum_offset: 16, ..Offload::default() };
            Frame::new(bytes, Offload { kind, segment_bytes: segment, ..checksum })
        }
    }

    impl Outgoing<'_> {
        /// The packets that the kernel makes of what is written.
        pub(crate) fn packets(&self) -> Vec<Vec<u8>> {
            let frame = Frame::new([self.head(), self.payload].concat(), self.offload);
            let each = (0..frame.segments()).map(|index| index..index + 1);
            each.map(|one| frame.outgoing(&one, ecn(frame.bytes())).on_wire()).collect()
        }
    }

    /// A frame with TCP over IPv4: words of options in both headers, and a payload in which all bytes differ.
    pub(crate) fn tcp_frame((ip, tcp): (u8, u8), flags: u8, payload: usize) -> Vec<u8> {
        let mut frame = vec![0; IP];
        frame[12..14].copy_from_slice(&[0x08, 0x00]);
        let length = 20 + 4 * usize::from(ip) + 20 + 4 * usize::from(tcp) + payload;
        frame.extend([0x40 | (5 + ip), 2]);
        frame.extend((length as u16).to_be_bytes());
        frame.extend([0xff, 0xfe, 0x40, 0, 64, 6, 0, 0, 10, 77, 0, 2, 10, 77, 0, 3]);
        frame.extend(std::iter::repeat_n(1, 4 * usize::from(ip)));
        frame.extend([0x13, 0x88, 0x27, 0x10, 0xff, 0xff, 0xff, 0xf0, 1, 2, 3, 4]);
        frame.extend([(5 + tcp) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        frame.extend(std::iter::repeat_n(1, 4 * usize::from(tcp)));
        frame.extend(
            (0..payload).map(|index| (index as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3]),
        );
        frame
    }

    fn word(bytes: &[u8], place: usize) -> u16 {
        u16::from_be_bytes([bytes[place], bytes[place + 1]])
    }

    /// Whether both checksums of a TCP packet are right: with them, the words add up to 0xffff.
    fn checksums_are_right(packet: &[u8]) -> bool {
        let tcp = IP + usize::from(packet[IP] & 0x0f) * 4;
        let pseudo = sum_of_words(&packet[IP + 12..IP + 20]) + 6 + (packet.len() - tcp) as u64;
        folded(sum_of_words(&packet[IP..tcp])) == 0xffff
            && folded(pseudo + sum_of_words(&packet[tcp..])) == 0xffff
    }

    fn each_alone(frame: &Frame) -> Vec<Vec<u8>> {
        (0..frame.segments())
            .map(|index| frame.outgoing(&(index..index + 1), Ecn::Ect0).on_wire())
            .collect()
    }

    proptest! {
        #[test]
        fn segments_have_all_bytes_in_order_and_right_lengths_numbers_and_checksums(
            options in (0u8..=10, 0u8..=10), payload in 1usize..20_000, segment in 200u16..2_000
        ) {
            let bytes = tcp_frame(options, FIN_AND_PUSH | CWR | 0x10, payload);
            let head = bytes.len() - payload;
            let frame = Frame::tcp(bytes.clone(), segment);
            let packets = each_alone(&frame);
            prop_assert_eq!(packets.len(), payload.div_ceil(segment.into()));
            let mut stream = vec![];
            let tcp = IP + 20 + 4 * usize::from(options.0);
            for (index, packet) in packets.iter().enumerate() {
                let (is_first, is_last) = (index == 0, index + 1 == packets.len());
                prop_assert!(is_last || packet.len() == head + usize::from(segment));
                prop_assert_eq!(usize::from(word(packet, IP + 2)), packet.len() - IP);
                prop_assert_eq!(frame.size(index, Bytes(1)), Bytes((packet.len() - IP) as u64));
                prop_assert_eq!(word(packet, IP + 4), 0xfffe_u16.wrapping_add(index as u16));
                let sequence = 0xffff_fff0_u32.wrapping_add(stream.len() as u32);
                prop_assert_eq!(packet[tcp + 4..tcp + 8].to_vec(), sequence.to_be_bytes());
                let flags = if is_first { CWR } else { 0 } | if is_last { FIN_AND_PUSH } else { 0 };
                prop_assert_eq!(packet[tcp + 13], 0x10 | flags);
                prop_assert!(checksums_are_right(packet), "packet {index}");
                stream.extend_from_slice(&packet[head..]);
            }
            prop_assert_eq!(stream, bytes[head..].to_vec());
        }

        /// What the kernel cuts is what the model carried, wherever the frame is cut before, and also with marks.
        #[test]
        fn a_part_of_a_frame_is_cut_into_the_same_packets(
            payload in 1usize..20_000, segment in 200u16..2_000, cuts in any::<[prop::sample::Index; 2]>(),
            codepoint in prop::sample::select(&Ecn::ALL)
        ) {
            let frame = Frame::tcp(tcp_frame((1, 3), FIN_AND_PUSH | CWR | 0x10, payload), segment);
            let mut packets = each_alone(&frame);
            packets.iter_mut().for_each(|packet| set_ecn(packet, codepoint));
            let mut cuts = cuts.map(|cut| cut.index(frame.segments()));
            cuts.sort_unstable();
            let part = cuts[0]..cuts[1] + 1;
            let written = frame.outgoing(&part, codepoint);
            prop_assert_eq!(written.packets(), packets[part].to_vec());
            prop_assert_eq!(written.offload.kind == WHOLE, cuts[0] == cuts[1]);
        }

        #[test]
        fn a_frame_that_is_damaged_or_no_tcp_is_one_segment_and_leaves_as_it_came(
            length in 0usize..1_966, changes in prop::collection::vec((12usize..60, any::<u8>()), 1..4)
        ) {
            let mut bytes = tcp_frame((0, 3), 0x10, 1_900);
            changes.iter().for_each(|(place, byte)| bytes[*place] = *byte);
            bytes.truncate(length);
            let frame = Frame::tcp([bytes.clone(), vec![0; 15]].concat(), 500);
            let total: usize = (0..frame.segments()).map(|index| frame.payload(&(index..index + 1)).len()).sum();
            prop_assert_eq!(frame.head + total, bytes.len() + 15);
            let whole = Frame::whole(bytes.clone());
            prop_assert_eq!(whole.segments(), 1);
            prop_assert_eq!(whole.size(0, Bytes(7)), Bytes(7));
            prop_assert_eq!(whole.outgoing(&(0..1), ecn(&bytes)).on_wire(), bytes);
        }
    }

    #[test]
    fn a_datagram_gets_the_checksum_that_was_left_to_the_emulator() {
        // Ports 5000 and 10000, length 10, payload 0102, from 10.77.0.2 to 10.77.0.3. The words of pseudo header and
        // datagram add up to 2 · 0a4d + 2 + 3 + 11 + a + 1388 + 2710 + a + 102 = 505e (hexadecimal).
        let mut bytes = vec![0; IP];
        bytes[12..14].copy_from_slice(&[0x08, 0x00]);
        bytes.extend([0x45, 0, 0, 30, 0, 1, 0, 0, 64, 17, 0, 0, 10, 77, 0, 2, 10, 77, 0, 3]);
        let pseudo = folded(sum_of_words(&bytes[26..34]) + 17 + 10).to_be_bytes();
        bytes.extend([0x13, 0x88, 0x27, 0x10, 0, 10, pseudo[0], pseudo[1], 1, 2]);
        let checksum_start = 34;
        let offload = Offload {
            flags: NEEDS_CHECKSUM,
            checksum_start,
            checksum_offset: 6,
            ..Offload::default()
        };
        let frame = Frame::new(bytes, offload);
        let packet = frame.outgoing(&(0..1), Ecn::NotCapable).on_wire();
        assert_eq!(word(&packet, 40), !0x505e);
    }
}
