//! When a camera takes its pictures.

use super::VideoConfig;
use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// RFC 8593, table 1: scale of the Laplace distribution of frame sizes and of frame intervals.
const LAPLACE_SCALE: f64 = 0.15;
/// Smallest interval between two pictures, as a share of the mean.
const MIN_INTERVAL: f64 = 0.1;

/// A zero-mean Laplace variable, by inversion.
pub(super) fn laplace(rng: &mut Pcg64Mcg) -> f64 {
    let u: f64 = rng.random::<f64>() - 0.5;
    -LAPLACE_SCALE * u.signum() * libm::log((1.0 - 2.0 * u.abs()).max(f64::MIN_POSITIVE))
}

/// A camera that was running before the call, so that its first picture comes at any time within an interval.
pub(super) struct Camera {
    rng: Pcg64Mcg,
    interval: f64,
    steady: bool,
    next: Time,
}

impl Camera {
    pub(super) fn new(config: &VideoConfig, start: Time, seed: u64) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(seed);
        let interval = 1.0 / config.frame_rate;
        let phase = Time::from_secs_f64(interval * rng.random::<f64>());
        Camera { rng, interval, steady: config.steady, next: start + phase }
    }

    /// When it takes the next picture.
    pub(super) fn next(&self) -> Time {
        self.next
    }

    /// Takes a picture and returns its time.
    pub(super) fn capture(&mut self) -> Time {
        let deviation = if self.steady { 0.0 } else { laplace(&mut self.rng) };
        let interval = self.interval * (1.0 + deviation).max(MIN_INTERVAL);
        let captured = self.next;
        self.next = captured + Time::from_secs_f64(interval);
        captured
    }
}
