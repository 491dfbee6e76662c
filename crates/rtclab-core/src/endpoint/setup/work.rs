//! How long page and browser work during set-up.
//!
//! Measured in the captures of 53 calls of a plain page between two Chromium 156, on a machine with 2 cores of
//! an AMD EPYC that ran both browsers, the emulator and, at times, other work. The times are skewed to the
//! right; each call draws them from a distribution that is uniform in the logarithm and near the measured
//! quartiles.

use crate::units::Time;
use rand::RngExt;
use rand_pcg::Pcg64Mcg;

/// Bounds of a duration in milliseconds.
pub(crate) type Range = (f64, f64);

/// From the list of those present to the offer: connection, tracks, description (quartiles 22, 44, 178 ms; on
/// an idle machine 56 ms).
const OFFER: Range = (14.0, 180.0);
/// From the offer to the answer: both descriptions (33, 56, 98 ms; on an idle machine 56 ms).
const ANSWER: Range = (22.0, 120.0);
/// From the offer to the candidate that was gathered for it (1.8, 5.7, 22 ms).
const CANDIDATE: Range = (0.8, 30.0);
/// From the answer to its candidate (7.6, 12, 20 ms).
const OWN_CANDIDATE: Range = (5.0, 30.0);
/// From a description to the TCP candidate: two pauses of 50 ms between phases of gathering (libwebrtc,
/// `basic_port_allocator.cc`), and work (117, 128, 149 ms).
const TCP_CANDIDATE: Range = (105.0, 150.0);
/// From the answer to the first check of the side that sent it (6.1, 10, 16 ms).
const APPLY_OWN: Range = (4.0, 25.0);
/// From the answer to the first check of the side that received it (2.8, 4.7, 11 ms).
const APPLY_ANSWER: Range = (1.5, 20.0);
/// From the answered check to the ClientHello, with its key share (0.9, 1.5, 3.1 ms).
const HELLO: Range = (0.6, 5.0);
/// From the ClientHello to the server's flight (1.1, 1.6, 3.0 ms).
const ANSWER_HELLO: Range = (0.8, 4.0);
/// From the server's flight to the client's (0.8, 1.1, 8.6 ms).
const FINISH: Range = (0.4, 10.0);
/// From the handshake to when the encoder takes pictures. The first packet leaves 32, 44 and 139 ms after the
/// handshake (quartiles), of which the camera has 0 to 33 ms and the encoder about 10 ms.
const START: Range = (8.0, 20.0);

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
    /// Draws the work of a browser.
    pub(super) fn of_browser(rng: &mut Pcg64Mcg) -> Self {
        let mut draw = |range: Range| draw(rng, range);
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

/// A duration whose logarithm is uniformly distributed.
pub(crate) fn draw(rng: &mut Pcg64Mcg, (min, max): Range) -> Time {
    Time::from_secs_f64(min * (max / min).powf(rng.random::<f64>()) / 1e3)
}
