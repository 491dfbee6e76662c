//! What a client sets up with its TURN relay before media can pass through it.

use super::outbox::Outbox;
use crate::packet::Allocation;
use crate::units::Time;

/// Number of requests, one after the other. RFC 8656: Allocate, refused for lack of credentials (section
/// 7.2); Allocate with credentials; CreatePermission and ChannelBind together (sections 9 and 12).
const ROUND_TRIPS: u8 = 3;
/// Initial timeout of a request, doubled each time (RFC 8489, section 6.2.1).
const REQUEST_TIMEOUT: Time = Time::from_millis(500);

/// The exchanges with one relay, simplified: each message comes back as its own answer.
#[derive(Default)]
pub(super) struct Allocating {
    answered: u8,
    /// When to repeat the request, and the current timeout.
    repeat: Option<(Time, Time)>,
}

impl Allocating {
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.repeat.map(|(at, _)| at)
    }

    pub(super) fn begin(&mut self, now: Time, outbox: &mut Outbox) {
        self.request(now, REQUEST_TIMEOUT, outbox);
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outbox: &mut Outbox) {
        if let Some((at, timeout)) = self.repeat
            && at <= now
        {
            self.request(now, timeout * 2, outbox);
        }
    }

    /// Handles an answer; returns whether media may pass.
    pub(super) fn on_answer(&mut self, now: Time, answer: Allocation, outbox: &mut Outbox) -> bool {
        if answer.step != self.answered {
            return false;
        }
        self.answered += 1;
        if self.answered < ROUND_TRIPS {
            self.request(now, REQUEST_TIMEOUT, outbox);
        }
        self.answered == ROUND_TRIPS
    }

    fn request(&mut self, now: Time, timeout: Time, outbox: &mut Outbox) {
        outbox.send_allocation(now, Allocation { step: self.answered });
        self.repeat = Some((now + timeout, timeout));
    }
}
