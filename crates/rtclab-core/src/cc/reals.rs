//! Times, rates and sizes as real numbers, for controls whose sources compute with them.
//!
//! Times are whole microseconds, so that differences of moments are exact, and may be negative.

use crate::units::{Bitrate, Bytes, RemoteTime, Time, float};

/// One millisecond in microseconds.
pub(super) const MS: f64 = 1e3;
/// One second in microseconds.
pub(super) const SECOND: f64 = 1e6;
/// 1 kbit/s in bits per second.
pub(super) const KBPS: f64 = 1e3;
/// Bits per byte times microseconds per second: bytes divided by microseconds, times this, are bits per second.
pub(super) const BITS_IN_MICROS: f64 = 8e6;

/// A time in whole microseconds, rounded down.
pub(super) fn micros(at: Time) -> f64 {
    float(at.as_micros())
}

/// A time on the far end's clock in whole microseconds, rounded down.
pub(super) fn remote_micros(at: RemoteTime) -> f64 {
    micros(at.0)
}

/// A size in bytes.
pub(super) fn bytes(size: Bytes) -> f64 {
    float(size.0)
}

/// Bytes as a size, rounded down; negative values become zero.
pub(super) fn size(bytes: f64) -> Bytes {
    Bytes(bytes as u64)
}

/// A rate in bits per second.
pub(super) fn bps(rate: Bitrate) -> f64 {
    float(rate.0)
}

/// Bits per second as a rate, rounded down; negative values become zero.
pub(super) fn bitrate(bps: f64) -> Bitrate {
    Bitrate(bps as u64)
}

/// A value within bounds; the lower bound wins if it is above the upper one.
pub(super) fn between(value: f64, min: f64, max: f64) -> f64 {
    value.min(max).max(min)
}
