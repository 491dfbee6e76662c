//! Congestion controls of others, which may panic.

use super::{
    ControlError, Controller, Decision, DecisionRequest, Estimator, Feedback, Halves, Observation,
    Probe, ReceivedPacket, SenderState, SentPacket,
};
use crate::units::{Bitrate, Time};
use std::any::Any;
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A half of a congestion control whose panics become errors.
///
/// After a panic nothing is called any more. Some methods cannot return an error. After a panic in one of them the half
/// wants to be called at once, by a method that can.
pub(crate) struct Guarded<T: ?Sized> {
    half: Box<T>,
    /// Its panic. In a cell, because also methods that change nothing may panic.
    failure: RefCell<Option<ControlError>>,
    /// The decision and the timeout as of the last call.
    decision: Decision,
    timeout: Option<Time>,
}

impl Guarded<dyn Controller> {
    /// Guards both halves.
    pub(crate) fn halves((controller, estimator): Halves) -> Halves {
        let mut guarded = Guarded::new(controller);
        guarded.look();
        let estimator = estimator.map(|estimator| {
            let mut guarded = Guarded::new(estimator);
            guarded.look_at_timeout();
            Box::new(guarded) as Box<dyn Estimator>
        });
        (Box::new(guarded), estimator)
    }

    /// Asks for decision and timeout.
    fn look(&mut self) {
        if let Some((decision, timeout)) = self.ask(|half| (half.decision(), half.poll_timeout())) {
            (self.decision, self.timeout) = (decision, timeout);
        }
    }
}

impl Guarded<dyn Estimator> {
    fn look_at_timeout(&mut self) {
        if let Some(timeout) = self.ask(|half| half.poll_timeout()) {
            self.timeout = timeout;
        }
    }
}

impl<T: ?Sized> Guarded<T> {
    fn new(half: Box<T>) -> Self {
        Guarded {
            half,
            failure: RefCell::default(),
            decision: Decision::at(Bitrate::ZERO),
            timeout: None,
        }
    }

    /// Calls the half; `None` if it panics or has panicked.
    fn ask<R>(&mut self, call: impl FnOnce(&mut T) -> R) -> Option<R> {
        if self.has_failed() {
            return None;
        }
        let half = &mut self.half;
        let result = catch_unwind(AssertUnwindSafe(|| call(half)));
        result.map_err(|panic| self.fail(panic.as_ref())).ok()
    }

    /// Appends what the half observes.
    fn append(&self, out: &mut Vec<Observation>, observe: impl FnOnce(&T, &mut Vec<Observation>)) {
        if !self.has_failed() {
            let result = catch_unwind(AssertUnwindSafe(|| observe(&self.half, out)));
            let _ = result.map_err(|panic| self.fail(panic.as_ref()));
        }
    }

    fn fail(&self, panic: &(dyn Any + Send)) {
        let what = message_of(panic);
        *self.failure.borrow_mut() = Some(ControlError(format!("it panicked: {what}")));
    }

    fn has_failed(&self) -> bool {
        self.failure.borrow().is_some()
    }

    /// When the half wants to be called; at once if it has failed.
    fn next(&self) -> Option<Time> {
        if self.has_failed() { Some(Time::ZERO) } else { self.timeout }
    }

    fn try_call(
        &mut self,
        call: impl FnOnce(&mut T) -> Result<(), ControlError>,
    ) -> Result<(), ControlError> {
        self.ask(call).unwrap_or(Ok(()))
    }

    fn check(&self) -> Result<(), ControlError> {
        self.failure.borrow().clone().map_or(Ok(()), Err)
    }
}

impl Controller for Guarded<dyn Controller> {
    fn on_sent(&mut self, packet: &SentPacket) -> Result<(), ControlError> {
        self.try_call(|half| half.on_sent(packet))?;
        self.look();
        self.check()
    }

    fn on_feedback(&mut self, now: Time, feedback: Feedback<'_>) -> Result<(), ControlError> {
        self.try_call(|half| half.on_feedback(now, feedback))?;
        self.look();
        self.check()
    }

    fn on_timeout(&mut self, now: Time, sender: &SenderState) -> Result<(), ControlError> {
        self.try_call(|half| half.on_timeout(now, sender))?;
        self.look();
        self.check()
    }

    fn on_media_limit(&mut self, now: Time, max: Bitrate) {
        self.ask(|half| half.on_media_limit(now, max));
        self.look();
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next()
    }

    fn poll_probe(&mut self) -> Option<Probe> {
        self.ask(|half| half.poll_probe()).flatten()
    }

    fn poll_request(&mut self, now: Time) -> Option<Box<DecisionRequest>> {
        self.ask(|half| half.poll_request(now)).flatten()
    }

    fn handle_decision(&mut self, now: Time, decision: Decision) -> Result<(), ControlError> {
        self.try_call(|half| half.handle_decision(now, decision))?;
        self.look();
        self.check()
    }

    fn decision(&self) -> Decision {
        self.decision
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        self.append(out, |half, out| half.observe(out));
    }
}

impl Estimator for Guarded<dyn Estimator> {
    fn on_packet(&mut self, packet: &ReceivedPacket) -> Result<(), ControlError> {
        self.try_call(|half| half.on_packet(packet))?;
        self.look_at_timeout();
        self.check()
    }

    fn on_rtt(&mut self, now: Time, rtt: Time) {
        self.ask(|half| half.on_rtt(now, rtt));
        self.look_at_timeout();
    }

    fn on_timeout(&mut self, now: Time) -> Result<(), ControlError> {
        self.try_call(|half| half.on_timeout(now))?;
        self.look_at_timeout();
        self.check()
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.next()
    }

    fn poll_remb(&mut self) -> Option<Bitrate> {
        self.ask(|half| half.poll_remb()).flatten()
    }

    fn observe(&self, out: &mut Vec<Observation>) {
        self.append(out, |half, out| half.observe(out));
    }
}

/// What a panic said.
pub(crate) fn message_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "nothing".to_owned())
}
