//! A queue that marks ECN-capable packets which have waited longer than a threshold.
//!
//! Source: the immediate marking of RFC 9331, section 5.4, by itself. The waiting time ends when the serialisation
//! begins, so that it is 0 on a link that is never busy.

use super::fifo::{Fifo, Moment};
use crate::ecn::Ecn;
use crate::limits::{self, Checked};
use crate::path::{MarkCause, Packet};
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// Parameters of a queue that marks above a threshold. Packets are marked when they leave the queue, and dropped only
/// if they exceed the limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Step {
    /// Waiting time above which packets are marked. 1 ms is the step of `DualPI2` in Linux.
    pub threshold_ns: Time,
    /// Whether ECT(0) is left as it is, so that only ECT(1) is marked.
    pub only_ect1: bool,
}

impl Default for Step {
    fn default() -> Self {
        Step { threshold_ns: Time::from_millis(1), only_ect1: false }
    }
}

impl Step {
    pub(super) fn check(&self) -> Checked {
        limits::time("threshold_ns", self.threshold_ns)
    }
}

/// A queue with a threshold.
pub(super) struct StepQueue<P> {
    pub(super) rules: Step,
    pub(super) fifo: Fifo<P>,
}

impl<P> StepQueue<P> {
    pub(super) fn new(rules: Step) -> Self {
        StepQueue { rules, fifo: Fifo::default() }
    }

    #[inline]
    pub(super) fn dequeue(&mut self, moment: &Moment<P>) -> Option<(Packet<P>, Time)> {
        let (mut packet, queued) = moment.served(self.fifo.pop()?);
        let is_exempt = self.rules.only_ect1 && packet.ecn == Ecn::Ect0;
        if queued > self.rules.threshold_ns && !is_exempt {
            moment.mark(&mut packet, MarkCause::Threshold);
        }
        Some((packet, queued))
    }
}
