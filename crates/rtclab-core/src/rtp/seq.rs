//! Unwraps numbers that wrap on the wire.

/// Turns a counter of `BITS` bits into one that never wraps.
///
/// A value is taken to be ahead of the newest one seen if it is at most half the range ahead, else behind it.
/// A late packet thus gets its own number, even from before a wrap, and does not move the reference. The
/// first value is returned unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Unwrapper<const BITS: u32> {
    newest: Option<i64>,
}

/// Unwraps RTP and transport-wide sequence numbers.
pub type SeqUnwrapper = Unwrapper<16>;
/// Unwraps RTP timestamps and extended sequence numbers.
pub type TimestampUnwrapper = Unwrapper<32>;

impl<const BITS: u32> Unwrapper<BITS> {
    const RANGE: i64 = {
        assert!(BITS >= 1 && BITS <= 32);
        1 << BITS
    };

    /// Unwraps `value`. Bits above `BITS` are ignored. The result is negative for a value from before the
    /// first one if that was close to zero.
    pub fn unwrap(&mut self, value: impl Into<u32>) -> i64 {
        let whole = self.peek(value);
        self.newest = Some(self.newest.map_or(whole, |newest| newest.max(whole)));
        whole
    }

    /// Returns what [`unwrap`](Self::unwrap) would, without remembering `value`.
    pub fn peek(&self, value: impl Into<u32>) -> i64 {
        let value = i64::from(value.into()) & (Self::RANGE - 1);
        let Some(newest) = self.newest else { return value };
        // The low bits of the difference, with their sign.
        let behind = (newest.wrapping_sub(value) << (64 - BITS)) >> (64 - BITS);
        newest - behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn unwrap_all(values: &[u16]) -> Vec<i64> {
        let mut unwrapper = SeqUnwrapper::default();
        values.iter().map(|&value| unwrapper.unwrap(value)).collect()
    }

    #[test]
    fn counting_continues_after_a_wrap() {
        assert_eq!(unwrap_all(&[65_534, 65_535, 0, 1]), [65_534, 65_535, 65_536, 65_537]);
    }

    #[test]
    fn a_late_packet_from_before_the_wrap_gets_its_own_number() {
        assert_eq!(unwrap_all(&[65_534, 0, 65_535, 1]), [65_534, 65_536, 65_535, 65_537]);
    }

    #[test]
    fn a_packet_from_before_the_first_is_negative_when_the_first_was_near_zero() {
        assert_eq!(unwrap_all(&[1, 65_535]), [1, -1]);
    }

    #[test]
    fn half_the_range_is_ahead_and_one_more_is_behind() {
        assert_eq!(unwrap_all(&[0, 32_768]), [0, 32_768]);
        assert_eq!(unwrap_all(&[0, 32_769]), [0, -32_767]);
    }

    #[test]
    fn a_late_packet_does_not_move_the_reference() {
        // Relative to 20000 (late), 60000 would be behind. Relative to 40000 (newest), it is ahead.
        assert_eq!(unwrap_all(&[40_000, 20_000, 60_000]), [40_000, 20_000, 60_000]);
    }

    #[test]
    fn timestamps_wrap_at_32_bits() {
        let mut unwrapper = TimestampUnwrapper::default();
        assert_eq!(unwrapper.unwrap(u32::MAX - 2999), 4_294_964_296);
        assert_eq!(unwrapper.unwrap(0u32), 4_294_967_296);
    }

    #[test]
    fn peeking_remembers_nothing() {
        let mut unwrapper = SeqUnwrapper::default();
        unwrapper.unwrap(10u16);
        assert_eq!(unwrapper.peek(20_000u16), 20_000);
        assert_eq!(unwrapper.peek(40_000u16), 40_000 - 65_536);
    }

    proptest! {
        #[test]
        fn any_sequence_with_steps_up_to_half_the_range_is_followed(
            start in 0i64..65_536, steps in proptest::collection::vec(0i64..=32_768, 0..200),
        ) {
            let mut unwrapper = SeqUnwrapper::default();
            let mut whole = start;
            prop_assert_eq!(unwrapper.unwrap(whole as u16), whole);
            for step in steps {
                whole += step;
                prop_assert_eq!(unwrapper.unwrap(whole as u16), whole);
            }
        }
    }
}
