//! Integer arithmetic with libwebrtc's rounding (`rtc_base/units/unit_base.h`, `api/units/`).
//!
//! Times and durations are `i64` microseconds, rates `i64` bits per second, sizes `i64` bytes.

use crate::units::{Bitrate, Bytes, Time};

/// Larger than every rate, and later than every time.
pub(super) const INFINITE: i64 = i64::MAX;

/// One millisecond in microseconds.
pub(super) const MS: i64 = 1_000;
/// One second in microseconds.
pub(super) const SECOND: i64 = 1_000_000;
/// 1 kbit/s in bits per second.
pub(super) const KBPS: i64 = 1_000;

/// Bits per byte times microseconds per second.
const BITS_IN_MICROS: i64 = 8_000_000;

/// A time as whole microseconds, rounded down.
pub(super) const fn micros(at: Time) -> i64 {
    at.as_micros() as i64
}

/// Microseconds as a time; negative values become zero.
pub(super) const fn time(us: i64) -> Time {
    Time::from_micros(if us < 0 { 0 } else { us as u64 })
}

/// A rate in bits per second.
pub(super) const fn bps(rate: Bitrate) -> i64 {
    rate.0 as i64
}

/// Bits per second as a rate; negative values become zero.
pub(super) const fn bitrate(bps: i64) -> Bitrate {
    Bitrate(if bps < 0 { 0 } else { bps as u64 })
}

/// A size in bytes.
pub(super) const fn bytes(size: Bytes) -> i64 {
    size.0 as i64
}

/// A rate, size or time times a real number: rounded to nearest, halves away from zero.
/// [`INFINITE`] stays infinite.
pub(super) fn scale(value: i64, factor: f64) -> i64 {
    if value == INFINITE { INFINITE } else { rounded(value as f64 * factor) }
}

/// Rounds to nearest, halves away from zero, like `f64::round`, which is a function call on most processors.
const fn rounded(value: f64) -> i64 {
    let whole = value as i64;
    let rest = value - whole as f64;
    if rest >= 0.5 {
        whole.saturating_add(1)
    } else if rest <= -0.5 {
        whole.saturating_sub(1)
    } else {
        whole
    }
}

/// Bytes that a rate carries in a duration, rounded to nearest.
pub(super) const fn bytes_in(bps: i64, us: i64) -> i64 {
    match bps.checked_mul(us) {
        Some(work) => (work + BITS_IN_MICROS / 2) / BITS_IN_MICROS,
        None => {
            ((bps as i128 * us as i128 + BITS_IN_MICROS as i128 / 2) / BITS_IN_MICROS as i128)
                as i64
        }
    }
}

/// Rate that carries these bytes in a duration, truncated; infinite for a duration of zero.
pub(super) const fn rate_of(bytes: i64, us: i64) -> i64 {
    match us {
        0 => INFINITE,
        _ => BITS_IN_MICROS * bytes / us,
    }
}

/// Value divided by 1000 (bit/s to kbit/s, microseconds to milliseconds), rounded to nearest.
pub(super) const fn thousands(value: i64) -> i64 {
    let half = if value < 0 { -500 } else { 500 };
    value.saturating_add(half) / 1_000
}

/// A real rate in bits per second, truncated.
pub(super) const fn truncated(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rounding_is_that_of_the_standard_library(value: f64, small in -1e6..1e6f64, half: i32) {
            for value in [value, small, f64::from(half) / 2.0] {
                prop_assert_eq!(rounded(value), value.round() as i64);
            }
        }
    }

    #[test]
    fn products_with_reals_round_halves_away_from_zero() {
        assert_eq!((scale(5, 0.5), scale(-5, 0.5), scale(4, 0.6)), (3, -3, 2));
        assert_eq!(scale(INFINITE, 0.5), INFINITE);
    }

    #[test]
    fn sizes_round_to_nearest_and_quotients_are_truncated() {
        // 300 kbit/s for 33,333 us: 1249.99 bytes.
        assert_eq!(bytes_in(300_000, 33_333), 1_250);
        assert_eq!(bytes_in(1, 4_000_000), 1);
        assert_eq!(bytes_in(1, 3_999_999), 0);
        assert_eq!(bytes_in(INFINITE, 2), 2_305_843_009_214);
        assert_eq!(rate_of(1_000, 9_999), 800_080);
        assert_eq!(rate_of(1, 0), INFINITE);
    }

    #[test]
    fn whole_kilobits_and_milliseconds_are_rounded_to_nearest() {
        assert_eq!((thousands(1_499), thousands(1_500), thousands(-1_500)), (1, 2, -2));
        assert_eq!(truncated(1_999.9), 1_999);
    }
}
