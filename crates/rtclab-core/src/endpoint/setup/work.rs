//! How long page and browser work during set-up.
//!
//! Measured in the captures of 52 calls of a plain page between two Chromium 156, on a machine with 2 cores of
//! an AMD EPYC: 26 calls without loss while the machine ran both browsers and the emulator and nothing else, and
//! 26 calls while it had other work of the lowest priority. That made most steps one and a half times as long, so
//! the quartiles below are of all 52 calls. The times are skewed to the right; each call draws them from a
//! distribution that is uniform in the logarithm and has about these quartiles. In some calls everything takes
//! long: the logarithms of offer and answer, which are the work of different browsers, have a correlation of 0.67
//! in the first 26 calls and of 0.51 in the others.

use crate::units::Time;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// Bounds of a duration in milliseconds.
pub(crate) type Range = (f64, f64);

/// From the order to join to when the page says that it has joined: 7.2, 13.6 and 22.6 ms in the last 26 calls.
const JOIN: Range = (4.3, 41.0);
/// From the list of those present to the offer: connection, tracks, description (quartiles 19, 27, 40 ms).
const OFFER: Range = (12.0, 65.0);
/// From the offer to the answer: both descriptions (27, 34, 47 ms).
const ANSWER: Range = (18.0, 80.0);
/// From the offer to the candidate that was gathered for it (1.6, 2.3, 3.2 ms).
const CANDIDATE: Range = (1.1, 4.8);
/// From the first check of the side that sent the answer until the page sends the candidate: both wait for the
/// candidate to be gathered (0.2, 0.8, 2.6 ms in the last 26 calls).
const OWN_CANDIDATE: Range = (0.06, 9.0);
/// From a description to the TCP candidate: two pauses of 50 ms between phases of gathering (libwebrtc,
/// `basic_port_allocator.cc`), and work (117, 121, 127 ms).
const TCP_CANDIDATE: Range = (109.0, 135.0);
/// From the answer to the first check of the side that sent it (4.7, 7.1, 11 ms).
const APPLY_OWN: Range = (2.9, 22.0);
/// From the answer, or from when the far end's place is known if that is later, to the first check of the side that
/// received the answer (2.6, 3.9, 7.0 ms).
const APPLY_ANSWER: Range = (1.4, 11.5);
/// From the far end's first check to the answer, while the network thread still works on the descriptions. Later ones
/// are answered at once. The own check follows the answer (0.8, 1.6, 2.9 ms in the last 26 calls).
const REPLY: Range = (0.45, 5.5);
/// From the answered check to the event at the page (1.4, 2.0, 3.0 ms in the last 26 calls).
const REPORT: Range = (0.9, 4.5);
/// From the answered check to the ClientHello, with its key share (0.9, 1.1, 1.6 ms).
const HELLO: Range = (0.7, 2.1);
/// From the ClientHello, or the server's own answered check if that comes later, to the server's flight (1.0, 1.4,
/// 2.0 ms in the last 26 calls, and 2.0, 3.7, 5.2 ms in the others).
const ANSWER_HELLO: Range = (0.75, 6.5);
/// From the server's flight to the client's (0.5, 0.8, 1.9 ms).
const FINISH: Range = (0.3, 3.7);
/// From the handshake to when the encoder takes pictures. The first packet leaves 19, 27 and 36 ms after the
/// handshake in the first 26 calls and 25, 37 and 50 ms in the others (quartiles), with 0 to 33 ms for the camera and
/// about 5 ms for the encoder.
const START: Range = (4.0, 20.0);
/// From the first picture decoded at the speed of later ones to the event at the page. A decoder is created for it,
/// and the page hears of it when it has been put on the screen. The event follows the last packet of the first
/// picture after 7.4, 9.8 and 16 ms in 27 directions of the last 26 calls, and after 5 ms (median) in earlier ones.
const SHOW: Range = (2.2, 24.0);

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
    pub(super) reply: Time,
    pub(super) report: Time,
    pub(super) hello: Time,
    pub(super) answer_hello: Time,
    pub(super) finish: Time,
    pub(super) start: Time,
    pub(super) show: Time,
}

impl Work {
    /// Draws the work of a browser. `seed` is the end's own, `pace` is common to all ends of a run.
    pub(super) fn of_browser(seed: u64, pace: u64) -> Self {
        let mut durations = Durations::new(seed, pace);
        let mut draw = |range: Range| durations.draw(range);
        let apply_own = draw(APPLY_OWN);
        Work {
            offer: draw(OFFER),
            answer: draw(ANSWER),
            candidate: draw(CANDIDATE),
            own_candidate: apply_own + draw(OWN_CANDIDATE),
            tcp_candidate: draw(TCP_CANDIDATE),
            apply_own,
            apply_answer: draw(APPLY_ANSWER),
            hello: draw(HELLO),
            answer_hello: draw(ANSWER_HELLO),
            finish: draw(FINISH),
            start: draw(START),
            reply: draw(REPLY),
            report: draw(REPORT),
            show: draw(SHOW),
        }
    }
}

/// How long it takes until a page joins that is told to. The order reaches all pages at the same time, so the machine's
/// pace says little about who is first; each page draws alone.
pub(crate) fn join_delay(seed: u64) -> Time {
    Durations::new(seed, !seed).draw(JOIN)
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
