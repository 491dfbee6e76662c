//! Configuration of a path.

use super::{Aqm, Capacity, Clock, Delay, Jitter, Loss, LossTrace, QueueLimit, Wifi};
use crate::ecn::Ecn;
use crate::limits::{self, Checked, within};
use crate::units::{Bitrate, Time};
use serde::{Deserialize, Serialize};

/// Configuration of a path, as functions of time.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathConfig {
    /// Name of the path in records, e.g. `alice.up`.
    pub name: String,
    /// Rate of the serialiser. With `None`, serialising takes no time.
    #[serde(default)]
    pub capacity: Option<Capacity>,
    /// A Wi-Fi hop, which takes the place of the capacity.
    #[serde(default)]
    pub wifi: Option<Wifi>,
    /// Limit of the queue. With `None` it is the one of the queue discipline, and a queue without one is unlimited.
    #[serde(default)]
    pub queue: Option<QueueLimit>,
    /// Discipline of the queue; `None` for drop-tail.
    #[serde(default)]
    pub aqm: Option<Aqm>,
    /// What the path does to the ECN codepoints of packets that leave it.
    #[serde(default)]
    pub ecn: EcnTreatment,
    /// Propagation delay.
    #[serde(default)]
    pub delay: Delay,
    /// Random delay added to the propagation delay.
    #[serde(default)]
    pub jitter: Option<Jitter>,
    /// Random loss.
    #[serde(default)]
    pub loss: Option<Loss>,
    /// Changes of the loss: each `(from, loss)` replaces the one before. Times are strictly increasing.
    #[serde(default)]
    pub loss_steps: Vec<(Time, Loss)>,
    /// Recorded loss, in place of random loss.
    #[serde(default)]
    pub loss_trace: Option<LossTrace>,
    /// Place at which random or recorded loss happens.
    #[serde(default)]
    pub loss_position: LossPosition,
    /// Timer resolution of an emulating box; `None` is exact. As in dummynet, the serialiser starts at
    /// the tick before an arrival and releases packets at ticks, the rest of a tick is used by the next
    /// packet, and the delay is rounded down to whole ticks.
    #[serde(default)]
    pub tick_ns: Option<Time>,
    /// Clock with which the delay is measured; `None` is exact.
    #[serde(default)]
    pub clock: Option<Clock>,
}

impl PathConfig {
    /// Checks all fields. Their names in an error begin with the name of the path.
    ///
    /// # Errors
    /// A field breaks a rule; the error names it.
    pub fn check(&self) -> Result<(), limits::FieldError> {
        within(&self.name, self.check_fields())
    }

    fn check_fields(&self) -> Checked {
        if let Some(capacity) = &self.capacity {
            within("capacity", capacity.check())?;
        }
        if let Some(wifi) = &self.wifi {
            within("wifi", wifi.check())?;
        }
        if let Some(queue) = self.queue {
            within("queue", queue.check())?;
        }
        if let Some(aqm) = &self.aqm {
            within("aqm", aqm.check())?;
            let has_queue = self.capacity.is_some() || self.wifi.is_some();
            let value =
                "a queue discipline on a path without `capacity` or `wifi`, where nothing waits,";
            limits::require(has_queue, "aqm", value, "one of the two beside it")?;
        }
        within("delay", self.delay.check())?;
        if let Some(jitter) = &self.jitter {
            limits::time("jitter.sd_ns", jitter.sd_ns)?;
        }
        if let Some(loss) = &self.loss {
            within("loss", loss.check())?;
        }
        if !self.loss_steps.is_empty() {
            limits::increasing("loss_steps", self.loss_steps.iter().map(|step| step.0))?;
            self.loss_steps.iter().try_for_each(|step| within("loss_steps", step.1.check()))?;
        }
        if let Some(trace) = &self.loss_trace {
            within("loss_trace", trace.check())?;
            let alone = self.loss.is_none() && self.loss_steps.is_empty();
            limits::require(alone, "loss_trace", "a trace beside random loss", "one of the two")?;
        }
        if let Some(tick) = self.tick_ns {
            limits::duration("tick_ns", tick)?;
        }
        self.clock.map_or(Ok(()), |clock| within("clock", clock.check(self.delay.largest())))
    }

    /// Whether packets can ever pass without any delay.
    pub fn is_instant(&self) -> bool {
        self.capacity.is_none() && self.wifi.is_none() && self.delay.vanishes()
    }

    /// The propagation delay if it is constant and nothing else can happen after the serialiser.
    pub(super) fn plain_delay(&self) -> Option<Time> {
        match self.delay {
            Delay::Constant { ns } if self.jitter.is_none() && !self.watches_wire() => Some(ns),
            _ => None,
        }
    }

    /// Whether the exit of a packet is known as it enters a path in which nothing is served: first in, first out, at a rate
    /// that does not end at 0, over a constant delay.
    pub(super) fn is_plain(&self) -> bool {
        let flows = match &self.capacity {
            None => true,
            Some(Capacity::Constant { bps }) => *bps > Bitrate::ZERO,
            Some(Capacity::Steps { steps }) => {
                steps.last().is_some_and(|last| last.1 > Bitrate::ZERO)
            }
            Some(Capacity::Opportunities { .. }) => false,
        };
        flows && self.plain_delay().is_some() && self.aqm.is_none()
    }

    /// Time after the serialiser in which nothing can happen to a packet: its propagation delay, unless it
    /// can be lost there or the box measures the delay with a clock or ticks of its own.
    pub(super) fn unobserved(&self) -> Time {
        if self.watches_wire() { Time::ZERO } else { self.delay.smallest() }
    }

    /// Whether packets can be lost after the serialiser, or their delay is measured with a clock or in ticks.
    pub(super) fn watches_wire(&self) -> bool {
        let loses = (self.loss.is_some() || self.loss_trace.is_some())
            && self.loss_position == LossPosition::Wire;
        let may_lose = loses || !self.loss_steps.is_empty() || self.wifi.is_some();
        may_lose || self.tick_ns.is_some() || self.clock.is_some()
    }
}

/// Place on a path at which random or recorded loss happens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LossPosition {
    /// After the serialiser. A lost packet has used queue and capacity.
    #[default]
    Wire,
    /// Before the queue, as in dummynet and netem. A lost packet has used neither queue nor capacity.
    Queue,
}

/// What a path does to the ECN codepoints of packets that leave it, as some middleboxes do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EcnTreatment {
    /// Nothing.
    #[default]
    Keep,
    /// All packets become Not-ECT, and marks get lost.
    Bleach,
    /// ECT(0) and ECT(1) are exchanged.
    Mangle,
}

impl EcnTreatment {
    /// The codepoint with which a packet leaves that has `ecn` behind the queue.
    #[inline]
    pub(super) fn leaving(self, ecn: Ecn) -> Ecn {
        match (self, ecn) {
            (EcnTreatment::Bleach, _) => Ecn::NotCapable,
            (EcnTreatment::Mangle, Ecn::Ect0) => Ecn::Ect1,
            (EcnTreatment::Mangle, Ecn::Ect1) => Ecn::Ect0,
            (EcnTreatment::Keep | EcnTreatment::Mangle, ecn) => ecn,
        }
    }
}
