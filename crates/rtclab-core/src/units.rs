//! Quantities that cannot be mixed up: time, bit rates and sizes.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::ops::{Add, AddAssign, Mul, Sub, SubAssign};

/// A moment, in nanoseconds since the run began, or a duration in nanoseconds.
///
/// There is no `now()`: time is always an argument.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Time(pub u64);

impl Time {
    /// The beginning of the run.
    pub const ZERO: Time = Time(0);
    /// Later than every run.
    pub const MAX: Time = Time(u64::MAX);

    /// From whole seconds.
    pub const fn from_secs(s: u64) -> Self {
        Time(s * 1_000_000_000)
    }
    /// From whole milliseconds.
    pub const fn from_millis(ms: u64) -> Self {
        Time(ms * 1_000_000)
    }
    /// From whole microseconds.
    pub const fn from_micros(us: u64) -> Self {
        Time(us * 1_000)
    }
    /// From seconds as a float; negative values become zero.
    pub fn from_secs_f64(s: f64) -> Self {
        Time(rounded(s * 1e9))
    }
    /// Nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }
    /// Whole microseconds, rounded down.
    pub const fn as_micros(self) -> u64 {
        self.0 / 1_000
    }
    /// Whole milliseconds, rounded down.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }
    /// Seconds.
    pub fn as_secs_f64(self) -> f64 {
        float(self.0) / 1e9
    }
    /// `self - earlier`, or zero when `earlier` is later.
    pub const fn saturating_sub(self, earlier: Time) -> Time {
        Time(self.0.saturating_sub(earlier.0))
    }
    /// The last multiple of `step` that is not later. Returns `self` if `step` is zero.
    pub const fn floor_to(self, step: Time) -> Time {
        match self.0.checked_rem(step.0) {
            Some(rest) => Time(self.0 - rest),
            None => self,
        }
    }
    /// The first multiple of `step` that is not earlier. Returns `self` if `step` is zero.
    pub const fn ceil_to(self, step: Time) -> Time {
        match self.floor_to(step) {
            floor if floor.0 == self.0 => self,
            floor => floor.saturating_add(step),
        }
    }
    /// `self + other`, or [`Time::MAX`] on overflow.
    pub const fn saturating_add(self, other: Time) -> Time {
        Time(self.0.saturating_add(other.0))
    }
}

impl Add for Time {
    type Output = Time;
    fn add(self, other: Time) -> Time {
        Time(self.0 + other.0)
    }
}
impl AddAssign for Time {
    fn add_assign(&mut self, other: Time) {
        self.0 += other.0;
    }
}
impl Sub for Time {
    type Output = Time;
    fn sub(self, other: Time) -> Time {
        Time(self.0 - other.0)
    }
}
impl SubAssign for Time {
    fn sub_assign(&mut self, other: Time) {
        self.0 -= other.0;
    }
}
impl Mul<u64> for Time {
    type Output = Time;
    fn mul(self, factor: u64) -> Time {
        Time(self.0 * factor)
    }
}
impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.6} s", self.as_secs_f64())
    }
}

/// Rounds to nearest, halves up, like `f64::round`, which is a function call on most processors. Negative values
/// become zero.
pub(crate) fn rounded(value: f64) -> u64 {
    // Most processors only convert signed numbers in one step. Floats beyond them are whole.
    if value >= BEYOND_SIGNED {
        return value as u64;
    }
    let whole = (value as i64).max(0);
    whole as u64 + u64::from(value - whole as f64 >= 0.5)
}

/// The first float above all signed numbers of 64 bits.
const BEYOND_SIGNED: f64 = (1u64 << 63) as f64;

/// A whole number as a float, in one step if its highest bit is not set; see [`rounded`].
pub(crate) fn float(value: u64) -> f64 {
    match i64::try_from(value) {
        Ok(value) => value as f64,
        Err(_) => value as f64,
    }
}

/// A moment on the remote clock. It cannot be subtracted from a [`Time`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct RemoteTime(pub Time);

/// Bits per second; 1 kbit/s = 1000 bit/s.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bitrate(pub u64);

impl Bitrate {
    /// 0 bit/s.
    pub const ZERO: Bitrate = Bitrate(0);

    /// From kbit/s.
    pub const fn from_kbps(kbps: u64) -> Self {
        Bitrate(kbps * 1_000)
    }
    /// From Mbit/s.
    pub const fn from_mbps(mbps: u64) -> Self {
        Bitrate(mbps * 1_000_000)
    }
    /// Bits per second.
    pub const fn bps(self) -> u64 {
        self.0
    }
    /// How long `size` takes at this rate, rounded up to a nanosecond; `None` at zero rate.
    pub fn time_for(self, size: Bytes) -> Option<Time> {
        if self.0 == 0 {
            return None;
        }
        // Up to 2 GB the product fits into 64 bits, which divide ten times as fast as 128 bits.
        if let Some(work) = size.bits().checked_mul(1_000_000_000) {
            return Some(Time(work.div_ceil(self.0)));
        }
        let nanos = (u128::from(size.bits()) * 1_000_000_000).div_ceil(u128::from(self.0));
        Some(Time(nanos.min(u128::from(u64::MAX)) as u64))
    }
    /// How many whole bytes fit into `duration`, at most `u64::MAX`.
    pub fn bytes_in(self, duration: Time) -> Bytes {
        match self.0.checked_mul(duration.0) {
            Some(work) => Bytes(work / 8_000_000_000),
            None => {
                let bytes = u128::from(self.0) * u128::from(duration.0) / 8_000_000_000;
                Bytes(bytes.min(u128::from(u64::MAX)) as u64)
            }
        }
    }
    /// Rate that carries `size` in `duration`, rounded down; the largest of all if there is no time.
    pub fn carrying(size: Bytes, duration: Time) -> Bitrate {
        if duration == Time::ZERO {
            return Bitrate(u64::MAX);
        }
        match size.bits().checked_mul(1_000_000_000) {
            Some(work) => Bitrate(work / duration.0),
            None => {
                let rate = u128::from(size.bits()) * 1_000_000_000 / u128::from(duration.0);
                Bitrate(rate.min(u128::from(u64::MAX)) as u64)
            }
        }
    }
    /// How many bytes this rate carries in `duration`, rounded to nearest, at most `u64::MAX`.
    pub fn bytes_carried(self, duration: Time) -> Bytes {
        const BITS_IN_NANOS: u64 = 8_000_000_000;
        let work = self.0.checked_mul(duration.0).and_then(|w| w.checked_add(BITS_IN_NANOS / 2));
        if let Some(work) = work {
            return Bytes(work / BITS_IN_NANOS);
        }
        let work = u128::from(self.0) * u128::from(duration.0) + u128::from(BITS_IN_NANOS / 2);
        Bytes((work / u128::from(BITS_IN_NANOS)).min(u128::from(u64::MAX)) as u64)
    }
    /// This rate times a factor; negative factors give zero.
    pub fn scaled(self, factor: f64) -> Bitrate {
        Bitrate((float(self.0) * factor).max(0.0) as u64)
    }
}

/// A number of bytes.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

impl Bytes {
    /// 0 bytes.
    pub const ZERO: Bytes = Bytes(0);

    /// Number of bits: eight per byte.
    pub const fn bits(self) -> u64 {
        self.0 * 8
    }
}

impl Add for Bytes {
    type Output = Bytes;
    fn add(self, other: Bytes) -> Bytes {
        Bytes(self.0 + other.0)
    }
}
impl AddAssign for Bytes {
    fn add_assign(&mut self, other: Bytes) {
        self.0 += other.0;
    }
}
impl SubAssign for Bytes {
    fn sub_assign(&mut self, other: Bytes) {
        self.0 -= other.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn serialisation_of_1250_bytes_at_10_mbps_takes_one_millisecond() {
        assert_eq!(Bitrate::from_mbps(10).time_for(Bytes(1250)), Some(Time::from_millis(1)));
    }

    #[test]
    fn a_rate_of_zero_never_finishes() {
        assert_eq!(Bitrate::ZERO.time_for(Bytes(1)), None);
    }

    #[test]
    fn three_hundred_milliseconds_at_1_mbps_hold_37500_bytes() {
        assert_eq!(Bitrate::from_mbps(1).bytes_in(Time::from_millis(300)), Bytes(37_500));
    }

    #[test]
    fn sizes_and_times_whose_product_exceeds_64_bits_are_as_exact_as_small_ones() {
        // 4 GB are 32e9 bit, which last 4e9 s at 8 bit/s; an hour at 10 Gbit/s has 36e12 bit.
        assert_eq!(
            Bitrate(8).time_for(Bytes(4_000_000_000)),
            Some(Time(4_000_000_000_000_000_000))
        );
        let hour = Time::from_secs(3_600);
        assert_eq!(Bitrate::from_mbps(10_000).bytes_in(hour), Bytes(4_500_000_000_000));
        assert_eq!(Bitrate::from_mbps(10_000).bytes_carried(hour), Bytes(4_500_000_000_000));
        assert_eq!(Bitrate::carrying(Bytes(4_500_000_000_000), hour), Bitrate::from_mbps(10_000));
    }

    #[test]
    fn what_64_bits_cannot_hold_is_the_largest_number_they_can() {
        let (rate, year) = (Bitrate(u64::MAX), Time::from_secs(31_536_000));
        assert_eq!(rate.bytes_in(year), Bytes(u64::MAX));
        assert_eq!(rate.bytes_carried(year), Bytes(u64::MAX));
        assert_eq!(Bitrate::carrying(Bytes(u64::MAX / 8), Time(1)), rate);
        assert_eq!(Bitrate(1).time_for(Bytes(u64::MAX / 8)), Some(Time::MAX));
    }

    #[test]
    fn half_a_byte_counts_as_a_whole_one() {
        // 8 bit/s carry a byte in a second.
        assert_eq!(Bitrate(8).bytes_carried(Time::from_millis(500)), Bytes(1));
        assert_eq!(Bitrate(8).bytes_carried(Time::from_millis(499)), Bytes(0));
    }

    proptest! {
        #[test]
        fn rounding_is_that_of_the_standard_library(value: f64, small in -1e6..1e6f64, half: u32) {
            for value in [value, small, f64::from(half) / 2.0] {
                prop_assert_eq!(rounded(value), value.round().max(0.0) as u64);
            }
        }
    }
}
