//! Rewards that were published, of what becomes known in a step.

use super::view::Outcome;
use crate::cc::features::alphartc4;
use crate::units::Bitrate;

/// A reward of a step. It is 0 until anything is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reward {
    /// The received rate on AlphaRTC's logarithmic scale, less the mean delay in s (at most 1), less the loss. From -2 to
    /// 1. Source: OpenNetLab/gym-example at 96df419.
    Gym,
    /// 100 (0.2 D + 0.2 R + 0.3 (1 - loss)), from 0 to 70, where D is (400 ms - p95) / (400 ms - least delay) with a p95 of
    /// at most 400 ms, and R the received rate over 500 kbit/s, at most 1. Source: the network's part of the score of the
    /// MMSys challenge of 2021 (OpenNetLab/Challenge-Environment at 96ed245). The score is of a whole call and also has
    /// VMAF and audio quality.
    Challenge21,
    /// 0.6 ln(4 R + 1) - D - 10 L, with the received rate in Mbit/s, the mean delay in s, and the loss. Source: R3Net.
    R3net,
    /// 50 R - 50 L - 10 D - 20 |change of R|, with the received rate in Mbit/s, the loss, and the mean delay in s. Source:
    /// OnRL; the units are ours.
    Onrl,
    /// 0.001 (10 R - 1000 D - 2000 L), with the received rate in packets/s, the mean one-way delay in s, and the loss.
    /// Source: PCC-RL at 64bea6e, which takes the round-trip time for D.
    Aurora,
}

impl Reward {
    /// What a name stands for.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "gym" => Some(Reward::Gym),
            "challenge21" => Some(Reward::Challenge21),
            "r3net" => Some(Reward::R3net),
            "onrl" => Some(Reward::Onrl),
            "aurora" => Some(Reward::Aurora),
            _ => None,
        }
    }

    /// The reward for what has become known.
    pub fn of(self, outcome: &Outcome) -> f64 {
        if !outcome.is_known() {
            return 0.0;
        }
        let rate_mbps = outcome.receiving_rate_bps / 1e6;
        let (delay_s, loss) = (outcome.delay_ms / 1e3, outcome.loss);
        match self {
            Reward::Gym => {
                let rate = outcome.receiving_rate_bps;
                let [rate, delay, loss, _] = alphartc4(rate, outcome.delay_ms, loss, Bitrate::ZERO);
                f64::from(rate) - f64::from(delay) - f64::from(loss)
            }
            Reward::Challenge21 => {
                let [p95, least] =
                    [outcome.delay_p95_ms, outcome.delay_min_ms].map(|ms| 400.0 - ms.min(400.0));
                let delay = if least > 0.0 { p95 / least } else { 0.0 };
                let rate = (rate_mbps / 0.5).min(1.0);
                100.0 * (0.2 * delay + 0.2 * rate + 0.3 * (1.0 - loss))
            }
            Reward::R3net => 0.6 * libm::log(4.0 * rate_mbps + 1.0) - delay_s - 10.0 * loss,
            Reward::Onrl => {
                let change = outcome.rate_change_bps.abs() / 1e6;
                50.0 * rate_mbps - 50.0 * loss - 10.0 * delay_s - 20.0 * change
            }
            Reward::Aurora => {
                let packets = outcome.received_packets_per_s;
                1e-3 * (10.0 * packets - 1e3 * delay_s - 2e3 * loss)
            }
        }
    }
}
