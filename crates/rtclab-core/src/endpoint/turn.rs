//! What a client sets up with its TURN relay before media can pass through it.

use super::outbox::Outbox;
use crate::packet::Allocation;
use crate::units::Time;

/// Number of requests, one after the other. RFC 8656: Allocate, refused for lack of credentials (section
/// 7.2); Allocate with credentials; CreatePermission and ChannelBind together (sections 9 and 12).
pub(super) const ALLOCATION_STEPS: u8 = 3;
/// Number of the first ones, after which the client knows its relayed address.
pub(super) const ADDRESS_STEPS: u8 = 2;
/// Initial timeout of a request, doubled each time (RFC 8489, section 6.2.1).
const REQUEST_TIMEOUT: Time = Time::from_millis(500);

/// The exchanges with one relay, simplified: each message comes back as its own answer.
pub(super) struct Allocating {
    answered: u8,
    /// How many exchanges to have for now.
    until: u8,
    /// When to repeat the request, and the current timeout.
    repeat: Option<(Time, Time)>,
}

impl Allocating {
    pub(super) fn new(until: u8) -> Self {
        Allocating { answered: 0, until, repeat: None }
    }

    /// Whether this many exchanges are complete.
    pub(super) fn has(&self, steps: u8) -> bool {
        self.answered >= steps
    }

    /// Goes on to this number of exchanges, once those before are complete.
    pub(super) fn extend(&mut self, now: Time, until: u8, outbox: &mut Outbox) {
        if self.answered == self.until && self.until < until {
            self.until = until;
            self.request(now, REQUEST_TIMEOUT, outbox);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.repeat.map(|(at, _)| at)
    }

    pub(super) fn begin(&mut self, now: Time, outbox: &mut Outbox) {
        self.request(now, REQUEST_TIMEOUT, outbox);
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outbox: &mut Outbox) {
        if let Some((_, timeout)) = self.repeat.filter(|(at, _)| *at <= now) {
            self.request(now, timeout * 2, outbox);
        }
    }

    /// Handles an answer; returns whether all exchanges for now are complete with it.
    pub(super) fn on_answer(&mut self, now: Time, answer: Allocation, outbox: &mut Outbox) -> bool {
        // There may be no request that it answers.
        if answer.step != self.answered || self.answered >= self.until {
            return false;
        }
        self.answered += 1;
        self.repeat = None;
        if self.answered < self.until {
            self.request(now, REQUEST_TIMEOUT, outbox);
        }
        self.answered == self.until
    }

    fn request(&mut self, now: Time, timeout: Time, outbox: &mut Outbox) {
        outbox.send_allocation(now, Allocation { step: self.answered });
        self.repeat = Some((now + timeout, timeout));
    }
}
