//! The machine that encodes: one processor shared by all encoders of a participant.

use crate::units::Time;
use serde::{Deserialize, Serialize};

/// How fast a participant's machine encodes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostConfig {
    /// Pixels encoded per second. Pictures are encoded one at a time, in the order of capture.
    pub encoder_capacity_pixels_per_second: f64,
}

/// A processor that encodes one picture after another.
pub struct Host {
    config: HostConfig,
    busy_until: Time,
}

impl Host {
    /// Creates an idle processor.
    pub fn new(config: HostConfig) -> Self {
        Host { config, busy_until: Time::ZERO }
    }

    /// When a picture of this many pixels, captured at `now`, will have been encoded.
    pub fn encode(&mut self, now: Time, pixels: u32) -> Time {
        let work = f64::from(pixels) / self.config.encoder_capacity_pixels_per_second;
        self.busy_until = self.busy_until.max(now).saturating_add(Time::from_secs_f64(work));
        self.busy_until
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_without_capacity_never_finishes() {
        let mut host = Host::new(HostConfig { encoder_capacity_pixels_per_second: 0.0 });
        assert_eq!(host.encode(Time::from_secs(1), 640 * 480), Time::MAX);
    }

    #[test]
    fn a_second_picture_waits_for_the_first() {
        // 307,200 pixels at 30.72 million a second take 10 ms.
        let config = HostConfig { encoder_capacity_pixels_per_second: 30.72e6 };
        let mut host = Host::new(config);
        assert_eq!(host.encode(Time::ZERO, 640 * 480), Time::from_millis(10));
        assert_eq!(host.encode(Time::from_millis(4), 640 * 480), Time::from_millis(20));
        assert_eq!(host.encode(Time::from_millis(50), 320 * 240), Time::from_micros(52_500));
    }
}
