//! Set-up as the calls of the published measurements are simulated: descriptions in bursts through the
//! signalling server, checks every 50 ms, DTLS 1.2.
//!
//! STUN is real; descriptions and DTLS records are opaque bytes of the right length.
//! The candidates in a description are known beforehand, also those outside a NAT.

use super::Step;
use super::checks::UNANSWERED;
use crate::endpoint::config::Session;
use crate::endpoint::outbox::Outbox;
use crate::endpoint::turn::{ALLOCATION_STEPS, Allocating};
use crate::packet::{Allocation, DtlsFlight, Signalling, Stun, StunForm};
use crate::units::Time;
use std::collections::VecDeque;

/// Size of a session description with candidates, in one WebSocket message over TCP.
const DESCRIPTION_BYTES: u16 = 4_000;
/// A description without an answer is repeated after TCP's initial timeout (RFC 6298).
const DESCRIPTION_TIMEOUT: Time = Time::from_secs(1);
/// Interval of checks while not connected (libwebrtc, `p2p_constants.cc`).
const CHECK_INTERVAL: Time = Time::from_millis(50);
/// Interval of checks when connected and stable (libwebrtc, `p2p_constants.cc`).
const CONSENT_INTERVAL: Time = Time::from_millis(2_500);
/// Number of checks that may wait for an answer: as many as are sent before ICE fails.
const MAX_PENDING: usize = (UNANSWERED.0 / CHECK_INTERVAL.0) as usize;
/// Initial DTLS timeout in libwebrtc, doubled each time.
const DTLS_TIMEOUT: Time = Time::from_millis(50);

pub(super) struct BurstSetup {
    /// What remains to be set up with a relay.
    allocating: Option<Allocating>,
    /// Whether this side sends the offer. If so, it is the DTLS server (RFC 8842: the answerer chooses to be
    /// active).
    offerer: bool,
    pub(super) step: Step,
    segments: u8,
    next_description: Option<Time>,
    next_check: Option<Time>,
    /// Number and time of the checks sent since the last answer. Any of them may be answered.
    pending_checks: VecDeque<(u32, Time)>,
    checks: u32,
    /// When the first check was sent.
    first_check: Option<Time>,
    flight: u8,
    next_flight: Option<(Time, Time)>,
    /// Round-trip time of the last answered check.
    pub(super) check_rtt: Option<Time>,
}

impl BurstSetup {
    pub(super) fn new(session: &Session, relayed: bool) -> Self {
        BurstSetup {
            allocating: relayed.then(|| Allocating::new(ALLOCATION_STEPS)),
            offerer: session.offerer,
            step: Step::New,
            segments: 0,
            next_description: session.offerer.then_some(session.start),
            next_check: None,
            pending_checks: VecDeque::new(),
            checks: 0,
            first_check: None,
            flight: 0,
            next_flight: None,
            check_rtt: None,
        }
    }

    pub(super) fn offered(&self) -> bool {
        self.offerer
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let allocating = self.allocating.as_ref().and_then(Allocating::poll_timeout);
        let flight = self.next_flight.map(|f| f.0);
        let timers = [self.next_description, self.next_check, flight, allocating];
        timers.into_iter().flatten().min()
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outbox: &mut Outbox) {
        if self.next_description.is_some_and(|at| at <= now) {
            self.send_description(now, outbox);
        }
        if let Some(allocating) = &mut self.allocating {
            allocating.handle_timeout(now, outbox);
        }
        if self.next_check.is_some_and(|at| at <= now) {
            self.send_check(now, outbox);
        }
        if let Some((_, timeout)) = self.next_flight.filter(|(at, _)| *at <= now) {
            self.send_flight(now, timeout * 2, outbox);
        }
    }

    /// Handles a segment of the far end's description.
    pub(super) fn on_signalling(&mut self, now: Time, segment: Signalling, outbox: &mut Outbox) {
        let Signalling { index, count, .. } = segment;
        if index < 8 {
            self.segments |= 1 << index;
        }
        if self.segments.count_ones() < u32::from(count) || self.step > Step::New {
            // The offer was repeated, so the answer was lost.
            if !self.offerer && self.step > Step::New && index.checked_add(1) == Some(count) {
                self.send_description(now, outbox);
            }
            return;
        }
        self.step = Step::Signalled;
        match &mut self.allocating {
            Some(allocating) => allocating.begin(now, outbox),
            None => self.next_check = Some(now),
        }
        if !self.offerer {
            self.send_description(now, outbox);
        }
        self.next_description = None;
    }

    pub(super) fn on_stun(&mut self, now: Time, stun: Stun, outbox: &mut Outbox) {
        if stun.success {
            self.on_check_answered(now, stun.check, outbox);
        } else if self.allocating.is_none() {
            // RFC 8656, section 9: a relay drops packets from peers without a permission.
            outbox.send_stun(now, Stun { success: true, ..stun });
            if self.step == Step::Signalled {
                // The checks may have ended before.
                self.next_check = self.next_check.or(Some(now));
            }
        }
    }

    pub(super) fn on_dtls(
        &mut self,
        now: Time,
        DtlsFlight(flight): DtlsFlight,
        outbox: &mut Outbox,
    ) {
        // The fingerprint of the far end's certificate comes with its description.
        if self.step == Step::New || flight > DtlsFlight::LAST.0 {
            return;
        }
        if DtlsFlight(flight) == DtlsFlight::LAST {
            self.next_flight = None;
            self.step = Step::DtlsConnected;
        } else if flight + 1 >= self.flight {
            self.flight = flight + 1;
            self.send_flight(now, DTLS_TIMEOUT, outbox);
            if DtlsFlight(self.flight) == DtlsFlight::LAST {
                // The last flight is not acknowledged; it is repeated when the third flight is.
                self.next_flight = None;
                self.step = Step::DtlsConnected;
            }
        }
    }

    pub(super) fn on_allocation(&mut self, now: Time, answer: Allocation, outbox: &mut Outbox) {
        let Some(allocating) = &mut self.allocating else { return };
        if allocating.on_answer(now, answer, outbox) {
            self.allocating = None;
            self.next_check = Some(now);
        }
    }

    fn on_check_answered(&mut self, now: Time, check: u32, outbox: &mut Outbox) {
        let pending = self.pending_checks.iter().find(|(id, _)| *id == check);
        let Some(&(_, sent)) = pending else { return };
        self.pending_checks.clear();
        self.check_rtt = Some(now.saturating_sub(sent));
        if self.step < Step::IceConnected {
            self.step = Step::IceConnected;
            if !self.offerer {
                self.send_flight(now, DTLS_TIMEOUT, outbox);
            }
        }
        self.next_check = Some(now + CONSENT_INTERVAL);
    }

    fn send_description(&mut self, now: Time, outbox: &mut Outbox) {
        let count = DESCRIPTION_BYTES.div_ceil(Signalling::FULL_BYTES);
        for index in 0..count {
            let bytes =
                Signalling::FULL_BYTES.min(DESCRIPTION_BYTES - index * Signalling::FULL_BYTES);
            let segment = Signalling { index: index as u8, count: count as u8, bytes };
            outbox.send_signalling(now, segment);
        }
        // An answer is repeated when the offer is.
        self.next_description = self.offerer.then_some(now + DESCRIPTION_TIMEOUT);
    }

    fn send_check(&mut self, now: Time, outbox: &mut Outbox) {
        let connecting = self.step < Step::IceConnected;
        let first = *self.first_check.get_or_insert(now);
        if connecting && now >= first + UNANSWERED {
            (self.first_check, self.next_check) = (None, None);
            self.pending_checks.clear();
            return;
        }
        self.checks += 1;
        self.pending_checks.push_back((self.checks, now));
        if self.pending_checks.len() > MAX_PENDING {
            self.pending_checks.pop_front();
        }
        outbox.send_stun(now, Stun { success: false, check: self.checks, form: StunForm::Bare });
        self.next_check = Some(now + if connecting { CHECK_INTERVAL } else { CONSENT_INTERVAL });
    }

    fn send_flight(&mut self, now: Time, timeout: Time, outbox: &mut Outbox) {
        outbox.send_dtls(now, DtlsFlight(self.flight));
        self.next_flight = Some((now + timeout, timeout));
    }
}
