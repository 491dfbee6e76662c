//! Finds frames in TCP: RFC 4571 framing, or STUN and ChannelData of TURN over TCP.
//!
//! Segments are not reassembled. Sequence numbers show where the next frame begins. Frames are thus found
//! anywhere in a segment by their first bytes, and retransmitted data are counted once.
//!
//! Source: RFC 4571, section 2; RFC 8656, section 12.5 (ChannelData over TCP); RFC 9293, section 3.4.

use super::demux::{UnframedPayload, demultiplex};
use crate::rtp::{Protocol, stun};

/// Payload of a segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment<'a> {
    /// Sequence number of the first payload byte.
    pub seq: u32,
    /// Whether that byte is the first one of the connection.
    pub begins: bool,
    /// The captured part of the payload.
    pub bytes: &'a [u8],
    /// Length of the payload on the wire.
    pub wire_bytes: u32,
}

/// Number of bytes at the end of a segment that are kept if they may be the beginning of a frame: enough
/// for an RTP header with extensions in ChannelData.
const HEAD_BYTES: usize = 64;
/// Maximum distance in sequence numbers to the next frame. Larger distances mean missing segments or
/// another connection.
const FAR: i32 = 1 << 20;
/// Maximum length of a frame: browsers send in frames what fits into a datagram.
const MAX_FRAME_BYTES: u32 = 1_500;

/// First byte of the version field of a DTLS record, version 1.0 and later (RFC 6347, section 4.1).
const DTLS_VERSION_MAJOR: u8 = 0xFE;

/// Position of frames in one direction of a connection.
#[derive(Clone, Debug, Default)]
pub struct Framing {
    /// Sequence number at which the next frame begins. Known after a frame, or at the beginning of the
    /// connection.
    next: Option<u32>,
    /// Whether a frame has been found in the connection.
    framed: bool,
    /// Whether the connection began with something else. Then it has no frames.
    other: bool,
    /// First bytes of the next frame, from the end of the previous segment.
    head: Vec<u8>,
}

/// Result of looking for a frame.
enum Found<'a> {
    /// A frame and its length, with framing and padding.
    Frame(UnframedPayload<'a>, u32),
    /// Too few bytes to decide.
    Short,
    Nothing,
}

impl Framing {
    /// Calls `found` for each frame that begins in a segment. Returns whether the segment begins or
    /// continues a frame.
    pub fn receive(
        &mut self,
        segment: Segment<'_>,
        found: &mut dyn FnMut(UnframedPayload<'_>),
    ) -> bool {
        if segment.begins {
            *self = Framing { next: Some(segment.seq), ..Framing::default() };
        }
        if segment.wire_bytes == 0 {
            return false;
        }
        let Segment { seq, bytes, wire_bytes, .. } = segment;
        if !self.head.is_empty() && !self.finish_head(segment, found) {
            return self.framed;
        }
        if self.other {
            return false;
        }
        // Offset in the segment at which the next frame is due.
        let due = self.next.map(|next| next.wrapping_sub(seq) as i32);
        let mut offset = match due {
            Some(due) if (0..=FAR).contains(&due) => due as u32,
            // Segments are missing, or this is another connection. A frame may begin here.
            _ => {
                self.next = None;
                if !fills(bytes, wire_bytes) {
                    return false;
                }
                0
            }
        };
        let mut any = self.next.is_some() && offset > 0;
        while offset < wire_bytes {
            let rest = bytes.get(offset as usize..).unwrap_or_default();
            match self.frame(rest, wire_bytes - offset) {
                Found::Frame(content, len) => {
                    found(content);
                    self.framed = true;
                    offset = offset.saturating_add(len);
                    any = true;
                }
                Found::Short => {
                    self.head = rest.to_vec();
                    any |= self.framed;
                    break;
                }
                Found::Nothing => {
                    self.lose();
                    return any;
                }
            }
            self.next = Some(seq.wrapping_add(offset));
        }
        any
    }

    /// Completes a frame header that began in the previous segment. Returns whether to look for further
    /// frames in this one.
    fn finish_head(
        &mut self,
        segment: Segment<'_>,
        found: &mut dyn FnMut(UnframedPayload<'_>),
    ) -> bool {
        let Some(next) = self.next else { return true };
        let head = std::mem::take(&mut self.head);
        let due = next.wrapping_add(head.len() as u32);
        if due.wrapping_sub(segment.seq) as i32 > 0 {
            self.head = head; // retransmitted data
            return false;
        }
        if due != segment.seq {
            self.next = None;
            return true;
        }
        let more = &segment.bytes[..segment.bytes.len().min(2 * HEAD_BYTES)];
        let joined = [&head[..], more].concat();
        let wire_bytes = segment.wire_bytes.saturating_add(head.len() as u32);
        match self.frame(&joined, wire_bytes) {
            Found::Frame(content, len) => {
                found(content);
                self.framed = true;
                self.next = Some(next.wrapping_add(len));
                true
            }
            Found::Short => {
                self.head = joined;
                false
            }
            Found::Nothing => {
                self.lose();
                true
            }
        }
    }

    /// No frame begins where one was due.
    fn lose(&mut self) {
        self.other |= self.next.is_some() && !self.framed;
        self.next = None;
    }

    /// Looks for a frame at the beginning of `bytes`. If no frame is due there, it must be complete; see [`fills`].
    fn frame<'a>(&self, bytes: &'a [u8], wire_bytes: u32) -> Found<'a> {
        let due = self.next.is_some();
        let cut = bytes.len() < wire_bytes as usize;
        let found = begin(bytes, if due { MAX_FRAME_BYTES } else { wire_bytes });
        let short = due && !cut && bytes.len() < HEAD_BYTES;
        match found {
            Some((_, len)) if short && len > wire_bytes => Found::Short,
            None if short => Found::Short,
            Some((content, len)) if self.is_convincing(&content) => Found::Frame(content, len),
            _ => Found::Nothing,
        }
    }

    /// Whether the evidence for a frame suffices. A header of DTLS 1.3 has no version, and some text reads as
    /// one: the letters of `GET` are a valid channel number and length, and the letters of a path may look like
    /// a record. So the version must be there, unless a frame is due right after another one.
    fn is_convincing(&self, content: &UnframedPayload<'_>) -> bool {
        let due_after_another = self.next.is_some() && self.framed;
        content.protocol != Protocol::Dtls
            || due_after_another
            || content.bytes.get(1) == Some(&DTLS_VERSION_MAJOR)
    }
}

/// Whether frames fill a segment, as far as it was captured. After two complete frames, the last one may go on in
/// the next segment.
///
/// One of 70 segments of random data begins like a frame that fits into it. Such a frame hardly ever ends with the
/// segment, and hardly ever has another one behind it.
fn fills(bytes: &[u8], wire_bytes: u32) -> bool {
    let cut = bytes.len() < wire_bytes as usize;
    let (mut offset, mut complete) = (0_u32, 0);
    while offset < wire_bytes {
        let rest = bytes.get(offset as usize..).unwrap_or_default();
        let Some((_, len)) = begin(rest, MAX_FRAME_BYTES) else {
            return rest.len() < HEAD_BYTES && (complete > 1 || cut && complete > 0);
        };
        offset = offset.saturating_add(len);
        complete += u32::from(offset <= wire_bytes);
    }
    offset == wire_bytes || complete > 1
}

/// Parses a frame at the beginning of `bytes`. Returns it with its length, framing included.
fn begin(bytes: &[u8], limit: u32) -> Option<(UnframedPayload<'_>, u32)> {
    let words = bytes.first_chunk::<4>()?;
    let first = u32::from(u16::from_be_bytes([words[0], words[1]]));
    let second = u32::from(u16::from_be_bytes([words[2], words[3]]));
    let turn = demultiplex(bytes, limit);
    if turn.protocol == Protocol::Stun || turn.relay.is_some() {
        // ChannelData is padded to a multiple of 4 bytes over TCP. STUN messages always are.
        let header = if bytes[0] < 64 { stun::HEADER_BYTES as u32 } else { 4 };
        let len = header + second.next_multiple_of(4);
        return Some((UnframedPayload { wire_bytes: turn.wire_bytes.min(len), ..turn }, len));
    }
    let inner = &bytes[2..];
    let content = demultiplex(&inner[..inner.len().min(first as usize)], first);
    let known = content.protocol != Protocol::Other && first + 2 <= limit;
    known.then_some((content, first + 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::demux::Relay;
    use rand::{RngExt, SeedableRng};
    use rand_pcg::Pcg64Mcg;

    const RTP: [u8; 14] = [0x80, 96, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 9, 9];

    fn framed() -> Vec<u8> {
        [&[0, 14][..], &RTP].concat()
    }

    fn channel_data() -> Vec<u8> {
        [&[0x40, 0, 0, 14][..], &RTP, &[0, 0]].concat()
    }

    /// Number of frames found in each segment. The sequence number of the first byte is `u32::MAX - 9`.
    fn found(stream: &[u8], segments: &[(usize, usize)], begins: bool) -> Vec<usize> {
        let mut framing = Framing::default();
        let mut count = |(index, &(start, end)): (usize, &(usize, usize))| {
            let mut frames = 0;
            let segment = Segment {
                seq: (u32::MAX - 9).wrapping_add(start as u32),
                begins: begins && index == 0,
                bytes: &stream[start..end],
                wire_bytes: (end - start) as u32,
            };
            framing.receive(segment, &mut |content| {
                assert_eq!((content.protocol, content.wire_bytes), (Protocol::Rtp, 14));
                frames += 1;
            });
            frames
        };
        segments.iter().enumerate().map(&mut count).collect()
    }

    #[test]
    fn a_segment_may_hold_several_frames() {
        for frame in [framed(), channel_data()] {
            let two = [&frame[..], &frame].concat();
            assert_eq!(found(&two, &[(0, two.len())], false), [2]);
        }
        assert_eq!(found(b"GET / HTTP/1.1\r\n", &[(0, 16)], true), [0]);
    }

    /// Protocols of the frames found in one segment.
    fn protocols(framing: &mut Framing, seq: u32, begins: bool, bytes: &[u8]) -> Vec<Protocol> {
        let mut found = Vec::new();
        // With segmentation offload, captures have segments of up to 64 kB. They are longer than the frame
        // lengths that the text would state.
        let segment = Segment { seq, begins, bytes, wire_bytes: 65_000 };
        framing.receive(segment, &mut |content| found.push(content.protocol));
        found
    }

    #[test]
    fn text_is_not_a_channel_although_its_letters_are_channel_numbers() {
        let texts = [
            "GET /index.html HTTP/1.1\r\nHost: example.org\r\n",
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n",
            "POST /login HTTP/1.1\r\nHost: example.org\r\n",
            "SSH-2.0-OpenSSH_9.6\r\n and a key exchange",
        ];
        for text in texts {
            for begins in [true, false] {
                let found = protocols(&mut Framing::default(), 0, begins, text.as_bytes());
                assert_eq!(found, [], "{text} begins: {begins}");
            }
        }
    }

    /// Of 200,000 segments some 3,000 begin like a frame within the segment. Two of these frames are expected to end
    /// with it, because one of 1,448 lengths does.
    #[test]
    fn random_data_are_not_frames() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut framing = Framing::default();
        let mut framed = 0;
        for index in 0..200_000 {
            let mut bytes = [0; 1_448];
            rng.fill(&mut bytes[..]);
            let segment =
                Segment { seq: index * 1_448, begins: false, bytes: &bytes, wire_bytes: 1_448 };
            framed += u32::from(framing.receive(segment, &mut |_| ()));
        }
        assert!(framed <= 10, "{framed}");
    }

    #[test]
    fn segments_of_a_byte_each_are_no_frames() {
        let mut framing = Framing::default();
        for seq in 0..100 {
            let segment = Segment { seq, begins: seq == 0, bytes: &[9], wire_bytes: 1 };
            assert!(!framing.receive(segment, &mut |_| panic!("a frame")));
        }
    }

    /// A capture of the headers shows no more than the first frame of each segment.
    #[test]
    fn a_connection_that_begins_with_something_else_has_no_frames() {
        let channel = channel_data();
        let count = |first: &'static [u8], begins: bool| {
            let (mut framing, mut frames) = (Framing::default(), 0);
            for (seq, bytes, wire_bytes) in [(0, first, first.len()), (35, &channel[..], 1_448)] {
                let segment = Segment {
                    seq,
                    begins: begins && seq == 0,
                    bytes,
                    wire_bytes: wire_bytes as u32,
                };
                framing.receive(segment, &mut |_| frames += 1);
            }
            frames
        };
        assert_eq!(count(b"zq3ps76eblk45mquvzpfuwtvml4envbtad7", true), 0);
        assert_eq!(count(b"zq3ps76eblk45mquvzpfuwtvml4envbtad7", false), 1);
    }

    #[test]
    fn a_short_first_segment_of_text_is_not_part_of_a_frame() {
        let bytes = b"GET / HTTP/1.1\r\n\r\n";
        let segment = Segment { seq: 1, begins: true, bytes, wire_bytes: 18 };
        assert!(!Framing::default().receive(segment, &mut |_| panic!("a frame")));
    }

    #[test]
    fn dtls_is_recognised_by_its_version_or_directly_after_another_frame() {
        const DTLS_12: [u8; 16] = [22, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 1, 2, 3];
        // DTLS 1.3, RFC 9147, section 4: a header of 001CSLEE that has no version.
        let dtls_13 = [&[0x2F, 0, 1, 0, 19][..], &[9; 19]].concat();
        for header in [&[][..], &[0x40, 0]] {
            let frame = |dtls: &[u8]| [header, &[0, dtls.len() as u8], dtls].concat();
            let [with_version, without] = [frame(&DTLS_12), frame(&dtls_13)];
            for begins in [true, false] {
                let found = protocols(&mut Framing::default(), 0, begins, &with_version);
                assert_eq!(found, [Protocol::Dtls]);
                let found = protocols(&mut Framing::default(), 0, begins, &without);
                assert_eq!(found, []);
            }
            let both = [with_version, without].concat();
            let found = protocols(&mut Framing::default(), 0, false, &both);
            assert_eq!(found, [Protocol::Dtls; 2]);
        }
    }

    #[test]
    fn the_channel_number_of_a_frame_is_reported() {
        let mut relay = None;
        let bytes = channel_data();
        let segment = Segment { seq: 0, begins: false, bytes: &bytes, wire_bytes: 20 };
        assert!(Framing::default().receive(segment, &mut |content| relay = content.relay));
        assert_eq!(relay, Some(Relay::Channel(0x4000)));
    }

    #[test]
    fn frames_are_found_wherever_segments_end() {
        for frame in [framed(), channel_data()] {
            let stream = frame.repeat(20);
            for size in 1..=stream.len() {
                let ends = (0..stream.len()).step_by(size);
                let segments: Vec<_> = ends.map(|at| (at, (at + size).min(stream.len()))).collect();
                let frames: usize = found(&stream, &segments, true).iter().sum();
                assert_eq!(frames, 20, "segments of {size}");
            }
        }
    }

    #[test]
    fn retransmitted_data_count_once_and_missing_data_do_not_count() {
        let stream = framed().repeat(10); // of 16 bytes each
        assert_eq!(found(&stream, &[(0, 40), (0, 40), (20, 40), (40, 160)], false), [2, 0, 0, 8]);
        // A gap up to the middle of a frame, then a segment that begins with a frame.
        assert_eq!(found(&stream, &[(0, 32), (40, 64), (64, 160)], false), [2, 0, 6]);
    }

    #[test]
    fn the_next_frame_is_found_after_bytes_that_the_capture_cut_off() {
        let stream = framed().repeat(2);
        let mut framing = Framing::default();
        let mut frames = 0;
        for seq in [0, 32] {
            let bytes = &stream[..16];
            let segment = Segment { seq, begins: false, bytes, wire_bytes: 32 };
            framing.receive(segment, &mut |_| frames += 1);
        }
        assert_eq!(frames, 2); // the second frame of each segment was not captured
    }
}
