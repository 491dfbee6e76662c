//! How an end behind a NAT learns its address outside, the server-reflexive one (RFC 8445, section 5.1.1.2).

use crate::endpoint::outbox::Outbox;
use crate::units::Time;

/// Initial and maximum timeout of a request; it doubles each time.
///
/// Source: libwebrtc, `p2p/base/stun_request.cc` (`STUN_INITIAL_RTO`, `STUN_MAX_RTO`).
const TIMEOUTS: (Time, Time) = (Time::from_millis(250), Time::from_secs(8));
/// Number of requests without an answer, after which the server counts as out of reach (the same file).
const REQUESTS: u32 = 9;

/// The exchange with a STUN server, simplified: the request comes back as its own answer.
pub(super) struct Reflexive {
    requests: u32,
    timeout: Time,
    repeat: Option<Time>,
    answered: bool,
}

impl Reflexive {
    pub(super) fn new() -> Self {
        Reflexive { requests: 0, timeout: TIMEOUTS.0, repeat: None, answered: false }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.repeat
    }

    pub(super) fn request(&mut self, now: Time, outbox: &mut Outbox) {
        self.requests += 1;
        outbox.send_binding(now);
        self.repeat = (self.requests < REQUESTS).then_some(now + self.timeout);
        self.timeout = (self.timeout * 2).min(TIMEOUTS.1);
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outbox: &mut Outbox) {
        if self.repeat.is_some_and(|at| at <= now) {
            self.request(now, outbox);
        }
    }

    /// Handles an answer; returns whether it is the first.
    pub(super) fn on_answer(&mut self) -> bool {
        self.repeat = None;
        !std::mem::replace(&mut self.answered, true)
    }
}
