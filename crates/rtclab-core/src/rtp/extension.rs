//! RTP header extensions, in one-byte and two-byte form.
//!
//! Source: RFC 8285, section 4.

use crate::units::Time;

/// Profile number of the one-byte form.
pub const ONE_BYTE_PROFILE: u16 = 0xBEDE;
/// Profile number of the two-byte form. Its low 4 bits may have any value.
pub const TWO_BYTE_PROFILE: u16 = 0x1000;

/// The id of an extension, negotiated in signalling (`a=extmap`): 1 to 14.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExtensionId(u8);

impl ExtensionId {
    /// Makes an id. `None` outside 1 to 14, which the one-byte form cannot carry.
    pub const fn new(id: u8) -> Option<Self> {
        if id >= 1 && id <= 14 { Some(ExtensionId(id)) } else { None }
    }

    /// The number.
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// The id of each extension. `None` means not negotiated: the extension is neither written nor parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExtensionIds {
    /// `http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time`
    pub abs_send_time: Option<ExtensionId>,
    /// `draft-holmer-rmcat-transport-wide-cc-extensions-01`
    pub transport_sequence: Option<ExtensionId>,
    /// `urn:ietf:params:rtp-hdrext:ssrc-audio-level`
    pub audio_level: Option<ExtensionId>,
}

impl ExtensionIds {
    /// The ids that Chromium offers.
    pub const CHROMIUM: ExtensionIds = ExtensionIds {
        audio_level: ExtensionId::new(1),
        abs_send_time: ExtensionId::new(2),
        transport_sequence: ExtensionId::new(3),
    };
}

/// The extensions of one packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// When the packet left the sender.
    pub abs_send_time: Option<AbsSendTime>,
    /// Sequence number over all streams of the transport, which transport-wide feedback refers to.
    pub transport_sequence: Option<u16>,
    /// Level of the packet's audio.
    pub audio_level: Option<AudioLevel>,
}

impl Extensions {
    /// Size of the block in one-byte form if every extension has an id.
    pub(super) fn wire_bytes(&self) -> usize {
        // Elements of 4, 3 and 2 bytes after a header of 4, padded to a multiple of 4.
        match (self.abs_send_time, self.transport_sequence, self.audio_level) {
            (None, None, None) => 0,
            (Some(_), Some(_), Some(_)) => 16,
            (Some(_), None, None) | (None, Some(_), None) | (None, None, Some(_)) => 8,
            _ => 12,
        }
    }

    /// The block in one-byte form and its size, which is zero if there is nothing to write.
    ///
    /// A block with all extensions has 16 bytes: 4 of header, elements of 4, 3 and 2 bytes, and 3 of padding.
    /// It is built as an integer because byte-wise stores followed by a copy cost more than the rest of a
    /// header.
    pub(super) fn block(&self, ids: &ExtensionIds) -> ([u8; 16], usize) {
        let (mut elements, mut len) = (0u128, 4);
        let mut put = |id: ExtensionId, value: u32, value_bytes: usize| {
            let head = u128::from(id.0) << 4 | (value_bytes - 1) as u128;
            elements = (elements << 8 | head) << (8 * value_bytes) | u128::from(value);
            len += 1 + value_bytes;
        };
        if let (Some(id), Some(AbsSendTime(time))) = (ids.abs_send_time, self.abs_send_time) {
            put(id, time, 3);
        }
        if let (Some(id), Some(seq)) = (ids.transport_sequence, self.transport_sequence) {
            put(id, u32::from(seq), 2);
        }
        if let (Some(id), Some(level)) = (ids.audio_level, self.audio_level) {
            put(id, u32::from(level.voice) << 7 | u32::from(level.minus_dbov.min(127)), 1);
        }
        if len == 4 {
            return ([0; 16], 0);
        }
        let padded = len.next_multiple_of(4);
        let words = (padded / 4 - 1) as u128;
        let header = (u128::from(ONE_BYTE_PROFILE) << 16 | words) << 96;
        ((header | elements << (8 * (16 - len))).to_be_bytes(), padded)
    }

    /// Picks the known extensions. If an id occurs twice, the last one counts. Elements of wrong size are
    /// ignored.
    pub(super) fn from_elements(elements: Elements<'_>, ids: &ExtensionIds) -> Self {
        let mut extensions = Extensions::default();
        for (id, data) in elements {
            let is = |known: Option<ExtensionId>| known.is_some_and(|known| known.0 == id);
            match *data {
                [a, b, c] if is(ids.abs_send_time) => {
                    extensions.abs_send_time = Some(AbsSendTime(u32::from_be_bytes([0, a, b, c])));
                }
                [a, b] if is(ids.transport_sequence) => {
                    extensions.transport_sequence = Some(u16::from_be_bytes([a, b]));
                }
                [byte] if is(ids.audio_level) => {
                    extensions.audio_level =
                        Some(AudioLevel { voice: byte & 0x80 != 0, minus_dbov: byte & 0x7F });
                }
                _ => {}
            }
        }
        extensions
    }
}

/// Departure time modulo 64 s, in 2^-18 s (3.8 us): 24 bits as 6.18 fixed point.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct AbsSendTime(u32);

impl AbsSendTime {
    /// From the 24 bits on the wire; higher bits are ignored.
    pub const fn from_bits(bits: u32) -> Self {
        AbsSendTime(bits & 0xFF_FFFF)
    }

    /// Rounded to the nearest unit, as libwebrtc does.
    pub const fn from_time(time: Time) -> Self {
        let (s, ns) = (time.as_nanos() / 1_000_000_000, time.as_nanos() % 1_000_000_000);
        let fraction = ((ns << 18) + 500_000_000) / 1_000_000_000;
        Self::from_bits((((s & 63) << 18) + fraction) as u32)
    }

    /// The 24 bits on the wire. [`Unwrapper<24>`](super::Unwrapper) undoes the wrapping.
    pub const fn bits(self) -> u32 {
        self.0
    }
}

/// Audio level of a packet.
///
/// Source: RFC 6464, section 3.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AudioLevel {
    /// Whether the sender detected speech.
    pub voice: bool,
    /// Level from 0 (loudest) to 127 (silence), in -dBov. Larger values are written as 127.
    pub minus_dbov: u8,
}

/// The elements of an extension block as (id, data), in order.
///
/// Stops at id 15 in one-byte form, and at an element that is longer than the remaining bytes. As in
/// libwebrtc, one bad element does not make the packet unusable.
#[derive(Clone, Debug, Default)]
pub struct Elements<'a> {
    data: &'a [u8],
    two_byte: bool,
}

impl<'a> Elements<'a> {
    /// Iterates over `data`, the bytes after profile and length. There are no elements if the profile is of
    /// neither form.
    pub fn new(profile: u16, data: &'a [u8]) -> Self {
        let two_byte = profile & 0xFFF0 == TWO_BYTE_PROFILE;
        let data = if two_byte || profile == ONE_BYTE_PROFILE { data } else { &[] };
        Elements { data, two_byte }
    }

    fn split(&self) -> Option<(u8, usize, &'a [u8])> {
        match (self.two_byte, self.data) {
            (true, &[id, len, ref rest @ ..]) => Some((id, usize::from(len), rest)),
            (false, &[byte, ref rest @ ..]) if byte >> 4 != 15 => {
                Some((byte >> 4, usize::from(byte & 15) + 1, rest))
            }
            _ => None,
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        // A zero byte is padding in both forms.
        while let [0, rest @ ..] = self.data {
            self.data = rest;
        }
        let element = self.split().and_then(|(id, len, rest)| {
            let (data, rest) = rest.split_at_checked(len)?;
            self.data = rest;
            Some((id, data))
        });
        if element.is_none() {
            self.data = &[];
        }
        element
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elements(profile: u16, data: &[u8]) -> Vec<(u8, &[u8])> {
        Elements::new(profile, data).collect()
    }

    #[test]
    fn in_one_byte_form_padding_is_skipped_and_id_15_ends_the_block() {
        let data = [0x12, 1, 2, 3, 0, 0x30, 9, 0xF0, 0x20, 7];
        assert_eq!(elements(0xBEDE, &data), [(1, &[1, 2, 3][..]), (3, &[9])]);
    }

    #[test]
    fn two_byte_elements_may_be_empty_or_have_ids_above_14() {
        let data = [200, 0, 0, 7, 2, 0xAB, 0xCD];
        assert_eq!(elements(0x1005, &data), [(200, &[][..]), (7, &[0xAB, 0xCD])]);
    }

    #[test]
    fn an_element_longer_than_the_block_ends_it() {
        assert_eq!(elements(0xBEDE, &[0x10, 1, 0x22, 1, 2]), [(1, &[1][..])]);
        assert_eq!(elements(0x1000, &[1, 1, 5, 2, 9, 0]), [(1, &[5][..])]);
        assert_eq!(elements(0x1000, &[1]), []);
    }

    #[test]
    fn a_profile_of_neither_form_has_no_elements() {
        assert_eq!(elements(0x1010, &[0x10, 1]), []);
        assert_eq!(elements(0xBEDF, &[0x10, 1]), []);
    }

    #[test]
    fn abs_send_time_is_6_18_fixed_point_that_wraps_after_64_seconds() {
        let bits = |time| AbsSendTime::from_time(time).bits();
        assert_eq!(bits(Time::from_secs(1)), 1 << 18);
        assert_eq!(bits(Time::from_millis(63_500)), 63 << 18 | 1 << 17);
        assert_eq!(bits(Time::from_secs(64)), 0);
        // 1907 ns are just below half of 3814.7 ns, 1908 just above.
        assert_eq!((bits(Time(1_907)), bits(Time(1_908))), (0, 1));
        // Rounds up across the wrap.
        assert_eq!(bits(Time(63_999_999_999)), 0);
    }

    #[test]
    fn ids_are_1_to_14() {
        assert_eq!((ExtensionId::new(0), ExtensionId::new(15)), (None, None));
        assert_eq!(ExtensionId::new(1).map(ExtensionId::get), Some(1));
        assert_eq!(ExtensionId::new(14).map(ExtensionId::get), Some(14));
    }
}
