//! Options of `scream`: libwebrtc's parameters of the field trial `WebRTC-Bwe-ScreamV2` by name.

use crate::cc::options::{OptionSpec, Options, Setting, configured, number, specs, switch};
use crate::cc::reals::{MS, SECOND};

/// Everything that an option may change. Times are in microseconds, sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ScreamConfig {
    pub(super) min_window: f64,
    pub(super) mss: f64,
    pub(super) head_room: f64,
    pub(super) alpha_gain_up: f64,
    pub(super) alpha_gain_down: f64,
    pub(super) beta_loss: f64,
    pub(super) lossy_rounds: f64,
    pub(super) lossless_rounds: f64,
    pub(super) post_congestion_rounds: f64,
    pub(super) multiplicative_increase: f64,
    pub(super) inflection_factor: f64,
    pub(super) virtual_rtt: f64,
    pub(super) rtt_gain: f64,
    pub(super) rtt_gain_in_alr: f64,
    pub(super) hold_gain: f64,
    pub(super) queue_target: f64,
    pub(super) queue_gain: f64,
    pub(super) jitter_gain: f64,
    pub(super) queue_threshold: f64,
    pub(super) spread_threshold: f64,
    pub(super) base_intervals: usize,
    pub(super) base_interval: f64,
    pub(super) drain_threshold: f64,
    pub(super) drain_period: f64,
    pub(super) drain_rounds: f64,
    /// Window of the pacer over the reference window, with a queue and without.
    pub(super) send_window: (f64, f64),
    pub(super) pacing_factor: f64,
    pub(super) pacing_received: f64,
    pub(super) rate_window: f64,
    pub(super) large_bursts_after: f64,
    pub(super) pushback_after: f64,
    pub(super) pushback_full: f64,
    pub(super) padding: f64,
    pub(super) padding_pause: f64,
    pub(super) padding_after_decrease: f64,
    pub(super) alr: bool,
    pub(super) alr_threshold: f64,
}

impl Default for ScreamConfig {
    fn default() -> Self {
        ScreamConfig {
            min_window: 1_000.0,
            mss: 1_280.0,
            head_room: 1.1,
            alpha_gain_up: 1.0 / 8.0,
            alpha_gain_down: 1.0 / 128.0,
            beta_loss: 0.7,
            lossy_rounds: 3.0,
            lossless_rounds: 2.0,
            post_congestion_rounds: 100.0,
            multiplicative_increase: 0.02,
            inflection_factor: 2.0,
            virtual_rtt: 25.0 * MS,
            rtt_gain: 1.0 / 8.0,
            rtt_gain_in_alr: 1.0 / 128.0,
            hold_gain: 1.0 / 8.0,
            queue_target: 60.0 * MS,
            queue_gain: 0.25,
            jitter_gain: 1.0 / 32.0,
            queue_threshold: 10.0 * MS,
            spread_threshold: 10.0 * MS,
            base_intervals: 10,
            base_interval: 60.0 * SECOND,
            drain_threshold: 5.0 * MS,
            drain_period: 20.0 * SECOND,
            drain_rounds: 5.0,
            send_window: (1.5, 3.0),
            pacing_factor: 1.1,
            pacing_received: 0.8,
            rate_window: 100.0 * MS,
            large_bursts_after: 15.0 * SECOND,
            pushback_after: 100.0 * MS,
            pushback_full: 500.0 * MS,
            padding: 3.0 * SECOND,
            padding_pause: 3.0 * SECOND,
            padding_after_decrease: SECOND,
            alr: true,
            alr_threshold: 0.9,
        }
    }
}

impl ScreamConfig {
    /// libwebrtc's defaults with these options.
    pub(super) fn new(options: Options<'_>) -> Self {
        configured(SETTINGS, options)
    }
}

/// Weight of a new value in an average.
const GAIN: (f64, f64) = (0.001, 1.0);

const SETTINGS: &[Setting<ScreamConfig>] = &[
    number(
        "min_window_bytes",
        "least reference window, MinRefWindow (1000)",
        (100.0, 1e6),
        |c, v| {
            c.min_window = v;
        },
    ),
    number("mss_bytes", "largest packet, MaxSegmentSize (1280)", (100.0, 1e4), |c, v| c.mss = v),
    number(
        "head_room",
        "window over what was in flight, BytesInFlightHeadRoom (1.1)",
        (1.0, 10.0),
        |c, v| c.head_room = v,
    ),
    number("alpha_gain_up", "weight of more marks, L4sAvgGUp (0.125)", GAIN, |c, v| {
        c.alpha_gain_up = v;
    }),
    number("alpha_gain_down", "weight of fewer marks, L4sAvgGDown (0.0078125)", GAIN, |c, v| {
        c.alpha_gain_down = v;
    }),
    number("beta_loss", "share of the window left by loss, BetaLoss (0.7)", (0.1, 1.0), |c, v| {
        c.beta_loss = v;
    }),
    number(
        "lossy_rtts",
        "round trips with loss until it counts, RttsWithLossBeforeBackoff (3)",
        (1.0, 100.0),
        |c, v| c.lossy_rounds = v.floor(),
    ),
    number(
        "lossless_rtts",
        "round trips without loss until it is forgotten, LosslessRttsBeforeClear (2)",
        (1.0, 100.0),
        |c, v| c.lossless_rounds = v.floor(),
    ),
    number(
        "post_congestion_rtts",
        "round trips of slower growth after congestion, PostCongestionDelayRtts (100)",
        (1.0, 1e4),
        |c, v| c.post_congestion_rounds = v,
    ),
    number(
        "multiplicative_increase",
        "growth per round trip over the window, MultiplicativeIncreaseFactor (0.02)",
        (0.0, 1.0),
        |c, v| c.multiplicative_increase = v,
    ),
    number(
        "inflection_factor",
        "how soon the window changes freely away from where it fell last, BackoffScaleFactorCloseToRefWindowI (2)",
        (0.1, 100.0),
        |c, v| c.inflection_factor = v,
    ),
    number(
        "virtual_rtt_ms",
        "round trip below which growth is slower, in ms, VirtualRtt (25)",
        (1.0, 1e3),
        |c, v| c.virtual_rtt = v * MS,
    ),
    number("rtt_gain", "weight of a round-trip time, SmoothedRttAvgG (0.125)", GAIN, |c, v| {
        c.rtt_gain = v;
    }),
    number(
        "rtt_gain_in_alr",
        "the same while media use less, SmoothedRttAvgInAlrG (0.0078125)",
        GAIN,
        |c, v| c.rtt_gain_in_alr = v,
    ),
    number(
        "hold_gain",
        "weight of how long packets are held before a report, FeedbackHoldTimeAvgG (0.125)",
        (0.0, 1.0),
        |c, v| c.hold_gain = v,
    ),
    number(
        "queue_target_ms",
        "queuing delay aimed at, in ms, QDelayTarget (60)",
        (1.0, 1e3),
        |c, v| {
            c.queue_target = v * MS;
        },
    ),
    number("queue_gain", "weight of a longer queuing delay, QDelayAvgG (0.25)", GAIN, |c, v| {
        c.queue_gain = v;
    }),
    number(
        "jitter_gain",
        "weight of a smallest delay and spread, DelayMinAndLatencyDiffAvgG (0.03125)",
        GAIN,
        |c, v| c.jitter_gain = v,
    ),
    number(
        "queue_threshold_ms",
        "smallest delay that slows changes most, in ms, QDelayMinThreshold (10)",
        (0.1, 1e3),
        |c, v| c.queue_threshold = v * MS,
    ),
    number(
        "spread_threshold_ms",
        "spread of delays that slows growth most, in ms, LatencyDiffThreshold (10)",
        (0.1, 1e3),
        |c, v| c.spread_threshold = v * MS,
    ),
    number(
        "base_intervals",
        "intervals of the base delay, BaseDelayWindowLength (10)",
        (1.0, 100.0),
        |c, v| c.base_intervals = v as usize,
    ),
    number(
        "base_interval_s",
        "length of one, in s, BaseDelayHistoryUpdateInterval (60)",
        (1.0, 3_600.0),
        |c, v| c.base_interval = v * SECOND,
    ),
    number(
        "drain_threshold_ms",
        "queuing delay that must be undercut at times, in ms, QDelayDrainThreshold (5)",
        (0.0, 1e3),
        |c, v| c.drain_threshold = v * MS,
    ),
    number(
        "drain_period_s",
        "time for that, in s, QDelayDrainPeriod (20)",
        (0.1, 3_600.0),
        |c, v| c.drain_period = v * SECOND,
    ),
    number(
        "drain_rtts",
        "then the rate is halved for this many round trips, QDelayDrainRtts (5)",
        (0.0, 1e3),
        |c, v| c.drain_rounds = v,
    ),
    number(
        "send_window_min",
        "in flight over the reference window, with a queue, RefWinMin (1.5)",
        (1.0, 10.0),
        |c, v| c.send_window.0 = v,
    ),
    number(
        "send_window_max",
        "in flight over the reference window, without a queue, RefWinMax (3)",
        (1.0, 10.0),
        |c, v| c.send_window.1 = v,
    ),
    number(
        "pacing_factor",
        "pacing rate over the target, PacingFactor (1.1)",
        (1.0, 10.0),
        |c, v| {
            c.pacing_factor = v;
        },
    ),
    number(
        "pacing_received",
        "least pacing rate over the rate that arrives, PacingRateReceivedFactor (0.8)",
        (0.0, 10.0),
        |c, v| c.pacing_received = v,
    ),
    number(
        "rate_window_ms",
        "window of the rate that arrives, in ms, ReceivedRateWindow (100)",
        (10.0, 1e4),
        |c, v| c.rate_window = v * MS,
    ),
    number(
        "large_bursts_after_s",
        "time after congestion until bursts of 40 ms, in s, AllowLargePacingBurstsAfterCongestionTime (15)",
        (0.0, 3_600.0),
        |c, v| c.large_bursts_after = v * SECOND,
    ),
    number(
        "pushback_after_ms",
        "wait in the pacer at which frames begin to be dropped, in ms, MinPacingDelayForPushback (100)",
        (0.0, 1e4),
        |c, v| c.pushback_after = v * MS,
    ),
    number(
        "pushback_full_ms",
        "wait at which most are dropped, in ms, MaxPacingDelayForPushback (500)",
        (0.0, 1e4),
        |c, v| c.pushback_full = v * MS,
    ),
    number(
        "padding_s",
        "length of a time with padding, in s, PaddingDuration (3)",
        (0.1, 600.0),
        |c, v| {
            c.padding = v * SECOND;
        },
    ),
    number(
        "padding_pause_s",
        "length of a time without, in s, PeriodicPadding (3)",
        (0.1, 600.0),
        |c, v| c.padding_pause = v * SECOND,
    ),
    number(
        "padding_after_s",
        "no padding this long after the window fell, in s, AllowPaddingAfterLastCongestionTimeout (1)",
        (0.0, 600.0),
        |c, v| c.padding_after_decrease = v * SECOND,
    ),
    (switch("alr", "averages rest while media use less than they may, EnableAlr (1)"), |c, v| {
        c.alr = v != 0.0;
    }),
    number(
        "alr_threshold",
        "share of the target that media should use, AlrThreshold (0.9)",
        (0.0, 1.0),
        |c, v| c.alr_threshold = v,
    ),
];

/// All options.
pub(crate) const OPTIONS: &[OptionSpec] = &specs::<_, { SETTINGS.len() }>(SETTINGS);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn with(options: &[(&str, f64)]) -> ScreamConfig {
        let options: BTreeMap<_, _> =
            options.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        ScreamConfig::new(Options(&options))
    }

    #[test]
    fn every_option_has_its_own_name_and_changes_one_default() {
        for (index, (spec, _)) in SETTINGS.iter().enumerate() {
            let name = spec.name;
            assert!(!SETTINGS[..index].iter().any(|(other, _)| other.name == name), "{name}");
            let (least, most) = (with(&[(name, spec.bounds.0)]), with(&[(name, spec.bounds.1)]));
            assert_ne!(least, most, "{name}");
        }
    }

    /// The default at the end of a meaning is the real one.
    #[test]
    fn every_meaning_states_the_default() {
        for (spec, _) in SETTINGS {
            let stated = spec.meaning.rsplit_once(" (").and_then(|(_, end)| end.strip_suffix(')'));
            let stated: f64 = stated.and_then(|text| text.parse().ok()).expect(spec.name);
            assert_eq!(with(&[(spec.name, stated)]), ScreamConfig::default(), "{}", spec.name);
        }
    }
}
