//! How long page and browser work during set-up.
//!
//! Measured in the captures of 26 calls without loss of a plain page between two Chromium 156, on a machine
//! with 2 cores of an AMD EPYC that ran both browsers and the emulator and nothing else. The times are skewed
//! to the right; each call draws them from a distribution that is uniform in the logarithm and has the measured
//! quartiles. In some calls everything takes long: the logarithms of offer and answer, which are the work of
//! different browsers, have a correlation of 0.67.

use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bounds of a duration in milliseconds.
pub(crate) type Range = (f64, f64);

/// From the list of those present to the offer: connection, tracks, description (quartiles 15, 22, 28 ms).
const OFFER: Range = (10.5, 40.0);
/// From the offer to the answer: both descriptions (23, 27, 34 ms).
const ANSWER: Range = (18.4, 42.0);
/// From the offer to the candidate that was gathered for it (1.2, 1.4, 3.1 ms).
const CANDIDATE: Range = (0.8, 5.0);
/// From the answer to its candidate (3.8, 6.0, 9.4 ms).
const OWN_CANDIDATE: Range = (2.4, 15.0);
/// From a description to the TCP candidate: two pauses of 50 ms between phases of gathering (libwebrtc,
/// `basic_port_allocator.cc`), and work (119, 123, 127 ms).
const TCP_CANDIDATE: Range = (112.0, 135.0);
/// From the answer to the first check of the side that sent it (3.2, 5.2, 7.9 ms).
const APPLY_OWN: Range = (2.0, 12.5);
/// From the answer to the first check of the side that received it (2.5, 4.6, 7.4 ms).
const APPLY_ANSWER: Range = (1.5, 12.7);
/// From the answered check to the ClientHello, with its key share (0.9, 1.1, 1.6 ms).
const HELLO: Range = (0.7, 2.1);
/// From the ClientHello to the server's flight (2.0, 3.7, 5.2 ms).
const ANSWER_HELLO: Range = (1.2, 8.4);
/// From the server's flight to the client's (0.5, 0.8, 1.9 ms).
const FINISH: Range = (0.3, 3.7);
/// From the handshake to when the encoder takes pictures. The first packet leaves 19, 27 and 36 ms after the
/// handshake (quartiles), with 0 to 33 ms for the camera and about 5 ms for the encoder.
const START: Range = (3.5, 8.0);

/// The work of one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub(super) offer: Time,
    pub(super) answer: Time,
    pub(super) candidate: Time,
    pub(super) own_candidate: Time,
    pub(super) tcp_candidate: Time,
    pub(super) apply_own: Time,
    pub(super) apply_answer: Time,
    pub(super) hello: Time,
    pub(super) answer_hello: Time,
    pub(super) finish: Time,
    pub(super) start: Time,
}

impl Work {
    /// Draws the work of a browser. `seed` is the end's own, `pace` is common to all ends of a run.
    pub(super) fn of_browser(seed: u64, pace: u64) -> Self {
        let mut durations = Durations::new(seed, pace);
        let mut draw = |range: Range| durations.draw(range);
        Work {
            offer: draw(OFFER),
            answer: draw(ANSWER),
            candidate: draw(CANDIDATE),
            own_candidate: draw(OWN_CANDIDATE),
            tcp_candidate: draw(TCP_CANDIDATE),
            apply_own: draw(APPLY_OWN),
            apply_answer: draw(APPLY_ANSWER),
            hello: draw(HELLO),
            answer_hello: draw(ANSWER_HELLO),
            finish: draw(FINISH),
            start: draw(START),
        }
    }
}

/// Share of the durations that have the same rank in their ranges in the whole run: two of them have a correlation
/// of its square.
const COMMON: f64 = 0.8;

/// Draws durations whose logarithms are uniformly distributed.
pub(crate) struct Durations {
    rng: Pcg64Mcg,
    /// Rank of all durations that the pace of the machine decides, from 0 to 1.
    pace: f64,
}

impl Durations {
    /// `seed` is for this end alone, `pace` for all ends of a run.
    pub(crate) fn new(seed: u64, pace: u64) -> Self {
        let pace = Pcg64Mcg::seed_from_u64(pace).random();
        Durations { rng: Pcg64Mcg::seed_from_u64(seed), pace }
    }

    pub(crate) fn draw(&mut self, (min, max): Range) -> Time {
        let own = self.rng.random::<f64>();
        let rank = if self.rng.random_bool(COMMON) { self.pace } else { own };
        Time::from_secs_f64(min * libm::pow(max / min, rank) / 1e3)
    }
}
