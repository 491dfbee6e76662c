//! Replay of the packets that arrived at a receiver.

use super::{ReplayError, Replayed, ValueRow, finish};
use crate::catalogue::Choice;
use crate::cc::{CallsAtOnce, Estimator, Observation, RateBounds, ReceivedPacket};
use crate::table::{Table, Texts, row};
use crate::units::{Bitrate, Time};

row! {
    /// A REMB that the estimator wanted to send.
    pub(super) struct RembRow / RembColumns {
        /// When.
        at: Time = "at_ns",
        /// Its rate.
        rate: u64 = "rate_bps",
    }
}

/// Feeds packets, in order of arrival, to the receiver half of a congestion control.
///
/// Returns the tables `remb` and `values`. `rtt` is told to the estimator before the first packet.
///
/// # Errors
/// See [`ReplayError`].
pub fn replay_arrivals(
    packets: &[ReceivedPacket],
    rtt: Option<Time>,
    control: &Choice<'_>,
    bounds: RateBounds,
) -> Result<Replayed, ReplayError> {
    let (_, estimator) = control.create(bounds).map_err(ReplayError::Config)?;
    let estimator =
        estimator.ok_or_else(|| ReplayError::NoEstimator(control.algorithm.name.to_string()))?;
    let mut receiver = ReplayedReceiver::new(estimator);
    if let (Some(rtt), Some(first)) = (rtt, packets.first()) {
        receiver.estimator.on_rtt(first.at, rtt);
    }
    let (mut rembs, mut values, mut texts) = (Vec::new(), Vec::new(), Texts::default());
    let mut observed = Vec::new();
    for packet in packets {
        receiver.receive(packet, &mut |at, rate, estimator| {
            rembs.push(RembRow { at, rate: rate.0 });
            observed.clear();
            estimator.observe(&mut observed);
            for Observation { name, value } in &observed {
                values.push(ValueRow { at, name: texts.code(name), value: *value });
            }
        })?;
    }
    let tables = vec![
        Table { name: "remb", columns: finish(rembs) },
        Table { name: "values", columns: finish(values) },
    ];
    Ok(Replayed { tables, texts: texts.list, begin_ms: 0 })
}

/// The receiver half of a control, on the receiver's clock.
pub(super) struct ReplayedReceiver {
    pub(super) estimator: Box<dyn Estimator>,
    calls: CallsAtOnce,
    /// Time of the last packet or timeout.
    pub(super) clock: Time,
}

impl ReplayedReceiver {
    pub(super) fn new(estimator: Box<dyn Estimator>) -> Self {
        ReplayedReceiver { estimator, calls: CallsAtOnce::default(), clock: Time::ZERO }
    }

    /// Hands over a packet, after the estimator's own timeouts up to its arrival. Calls `sent` with the time
    /// and the rate of each REMB that the estimator sends.
    pub(super) fn receive(
        &mut self,
        packet: &ReceivedPacket,
        sent: &mut dyn FnMut(Time, Bitrate, &dyn Estimator),
    ) -> Result<(), ReplayError> {
        while let Some(due) = self.estimator.poll_timeout().filter(|due| *due <= packet.at) {
            let at = due.max(self.clock);
            self.clock = at;
            let failed = |error| ReplayError::Control(at, error);
            self.estimator.on_timeout(at).map_err(failed)?;
            self.calls.count(at, self.estimator.poll_timeout()).map_err(failed)?;
            self.poll(at, sent);
        }
        self.clock = self.clock.max(packet.at);
        let handled = self.estimator.on_packet(packet);
        handled.map_err(|error| ReplayError::Control(packet.at, error))?;
        self.poll(packet.at, sent);
        Ok(())
    }

    fn poll(&mut self, at: Time, sent: &mut dyn FnMut(Time, Bitrate, &dyn Estimator)) {
        if let Some(rate) = self.estimator.poll_remb() {
            sent(at, rate, &*self.estimator);
        }
    }
}
