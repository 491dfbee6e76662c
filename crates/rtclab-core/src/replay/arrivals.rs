//! Replay of the packets that arrived at a receiver.

use super::{ReplayError, Replayed, ValueRow, finish};
use crate::cc::{
    self, CallsAtOnce, CongestionControlConfig, Estimator, Observation, RateBounds, ReceivedPacket,
};
use crate::table::{Table, Texts, row};
use crate::units::Time;

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
    config: &CongestionControlConfig,
    bounds: RateBounds,
) -> Result<Replayed, ReplayError> {
    let algorithm = cc::check(config).map_err(ReplayError::Config)?;
    let (_, estimator) = cc::create(config, bounds).map_err(ReplayError::Config)?;
    let estimator = estimator.ok_or(ReplayError::NoEstimator(algorithm.name))?;
    let mut replay = Arrivals {
        estimator,
        calls: CallsAtOnce::default(),
        clock: Time::ZERO,
        rembs: Vec::new(),
        values: Vec::new(),
        texts: Texts::default(),
        observed: Vec::new(),
    };
    if let (Some(rtt), Some(first)) = (rtt, packets.first()) {
        replay.estimator.on_rtt(first.at, rtt);
    }
    for packet in packets {
        replay.advance(packet.at)?;
        let handled = replay.estimator.on_packet(packet);
        handled.map_err(|error| ReplayError::Control(packet.at, error))?;
        replay.record(packet.at);
    }
    let tables = vec![
        Table { name: "remb", columns: finish(replay.rembs) },
        Table { name: "values", columns: finish(replay.values) },
    ];
    Ok(Replayed { tables, texts: replay.texts.list, begin_ms: 0 })
}

struct Arrivals {
    estimator: Box<dyn Estimator>,
    calls: CallsAtOnce,
    clock: Time,
    rembs: Vec<RembRow>,
    values: Vec<ValueRow>,
    texts: Texts,
    observed: Vec<Observation>,
}

impl Arrivals {
    /// Runs the estimator's own timeouts up to `now`.
    fn advance(&mut self, now: Time) -> Result<(), ReplayError> {
        while let Some(due) = self.estimator.poll_timeout().filter(|due| *due <= now) {
            let at = due.max(self.clock);
            self.clock = at;
            let failed = |error| ReplayError::Control(at, error);
            self.estimator.on_timeout(at).map_err(failed)?;
            self.calls.count(at, self.estimator.poll_timeout()).map_err(failed)?;
            self.record(at);
        }
        self.clock = self.clock.max(now);
        Ok(())
    }

    fn record(&mut self, at: Time) {
        let Some(rate) = self.estimator.poll_remb() else { return };
        self.rembs.push(RembRow { at, rate: rate.0 });
        self.observed.clear();
        self.estimator.observe(&mut self.observed);
        for Observation { name, value } in &self.observed {
            let name = self.texts.code(name);
            self.values.push(ValueRow { at, name, value: *value });
        }
    }
}
