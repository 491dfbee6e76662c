//! A call in which one sender's rate is decided from outside, step by step: what a learning agent sees, and what it is
//! rewarded for.
//!
//! An [`Environment`] is one call, in which [`External`] asks for a decision each [`STEP`]. Its driver may have many
//! and step them on several threads.

mod observation;
mod reward;
mod view;

use crate::catalogue::{Algorithm, Catalogue};
use crate::cc::{Decision, External};
use crate::sim::{SimConfig, SimError, SimResult, Simulation};
use crate::stack::{FeedbackKind, StackProfile};
use crate::units::{Bitrate, Time};
use view::View;

pub use observation::{FULL, Observed};
pub use reward::Reward;
pub use view::{OUTCOME, Outcome};

/// The congestion control of the sender whose rate is decided, as a configuration names it.
pub const CONTROL: &str = "gym";
/// Time between two decisions: a step.
pub const STEP: Time = Time::from_millis(60);

/// These controls, and [`CONTROL`].
pub fn with_control(known: &Catalogue) -> Catalogue {
    let mut catalogue = known.clone();
    if let Some(stack) = StackProfile::named("chrome-156") {
        let control = Algorithm::new(CONTROL, stack, |bounds, _| {
            (Box::new(External::new(bounds.with_audio(), STEP)), None)
        });
        // No other control has this name.
        let _ = catalogue.add(control);
    }
    catalogue
}

/// A call that stops at each decision about the rate of one sender.
pub struct Environment {
    simulation: Simulation,
    /// The flow that the sender sends.
    flow: String,
    /// Number of the sender's end, while it waits for a decision.
    waiting: Option<u32>,
    view: View,
}

impl Environment {
    /// Prepares a call and runs it until the sender of a flow, whose control is [`CONTROL`], asks for its first decision.
    ///
    /// [`with_control`] makes the catalogue.
    ///
    /// # Errors
    /// The configuration is invalid, packets are not reported to the sender, or it never asks, such as when nobody
    /// connects.
    pub fn new(config: &SimConfig, flow: &str, catalogue: &Catalogue) -> Result<Self, SimError> {
        check_reports(config, catalogue)?;
        let simulation = Simulation::new(config, catalogue)?;
        let view = View::default();
        let mut new = Environment { simulation, flow: flow.to_owned(), waiting: None, view };
        new.advance()?;
        if new.is_over() {
            let duration = config.duration_ns;
            return Err(SimError::Unknown(format!(
                "flow `{flow}` has sent no media until the end at {duration}; expected a call that connects"
            )));
        }
        Ok(new)
    }

    /// Decides on the sender's rate, and runs the call until the next decision, or its end.
    ///
    /// # Errors
    /// The call is over, or the run fails.
    pub fn step(&mut self, rate: Bitrate) -> Result<(), SimError> {
        let Some(end) = self.waiting.take() else {
            return Err(SimError::Unknown("the call is over; expected a reset".to_owned()));
        };
        self.view.decided(rate);
        self.simulation.decide(end, Decision::at(rate))?;
        self.advance()
    }

    /// Whether the sender has no more decisions to wait for.
    pub fn is_over(&self) -> bool {
        self.waiting.is_none()
    }

    /// What has become known in the last step.
    pub fn outcome(&self) -> &Outcome {
        self.view.outcome()
    }

    /// Writes what the sender sees now. `out` has the length of the observation.
    pub fn observe(&self, what: Observed, out: &mut [f32]) {
        what.write(&self.view, out);
    }

    /// The tables of the run so far.
    pub fn result(&self) -> SimResult {
        self.simulation.result()
    }

    /// Runs until the sender asks, or to the end. The participant's other ends, which only receive, go on as they are.
    fn advance(&mut self) -> Result<(), SimError> {
        while self.waiting.is_none() {
            self.simulation.advance(self.simulation.duration())?;
            let mut others = Vec::new();
            for pending in self.simulation.requests() {
                if pending.flow == self.flow {
                    self.view.take(&pending.request);
                    self.waiting = Some(pending.end);
                } else {
                    others.push((pending.end, pending.request.decision));
                }
            }
            if others.is_empty() {
                return Ok(());
            }
            for (end, decision) in others {
                self.simulation.decide(end, decision)?;
            }
        }
        Ok(())
    }
}

/// Whether the stacks of the senders with [`CONTROL`] have every packet reported to them.
fn check_reports(config: &SimConfig, catalogue: &Catalogue) -> Result<(), SimError> {
    let own = config.participants.iter().filter(|one| one.congestion_control.name == CONTROL);
    for (name, stack) in own.filter_map(|one| Some((&one.name, one.stack.as_ref()?))) {
        let feedback = catalogue.stack(stack).map(|stack| stack.feedback);
        if let Some(FeedbackKind::Remb { .. }) = feedback {
            return Err(SimError::Unknown(format!(
                "the stack `{stack}` of `{name}` has no packets reported; expected one with transport-wide feedback \
                 or RFC 8888, such as `chrome-156`"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
