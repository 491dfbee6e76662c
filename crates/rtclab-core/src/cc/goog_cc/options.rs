//! Options of `goog-cc`: libwebrtc's field trials by name.

use super::alr::AlrConfig;
use super::arithmetic::{KBPS, MS};
use super::pacing::PacingConfig;
use super::probe_controller::ProbeConfig;
use super::pushback::PushbackConfig;
use super::send_side::SendSideConfig;
use super::trendline::TrendlineConfig;
use crate::cc::options::{OptionSpec, Options, Setting, configured, number, specs, switch};

/// Everything that an option may change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct GoogCcConfig {
    /// Trend and detector.
    pub(super) trendline: TrendlineConfig,
    /// What over-use leaves of the acknowledged rate.
    pub(super) beta: f64,
    /// Loss-based estimator and back-off.
    pub(super) send_side: SendSideConfig,
    /// Congestion window.
    pub(super) pushback: PushbackConfig,
    /// Application-limited regions.
    pub(super) alr: AlrConfig,
    /// Whether probes are sent in application-limited regions although a camera is the last stream.
    pub(super) alr_probing: bool,
    /// Probes.
    pub(super) probes: ProbeConfig,
    /// Pacing.
    pub(super) pacing: PacingConfig,
}

impl Default for GoogCcConfig {
    fn default() -> Self {
        GoogCcConfig {
            trendline: TrendlineConfig::default(),
            beta: 0.85,
            send_side: SendSideConfig::default(),
            pushback: PushbackConfig::default(),
            alr: AlrConfig::default(),
            alr_probing: false,
            probes: ProbeConfig::default(),
            pacing: PacingConfig::default(),
        }
    }
}

impl GoogCcConfig {
    /// libwebrtc's defaults with these options.
    pub(super) fn new(options: Options<'_>) -> Self {
        configured(SETTINGS, options)
    }
}

fn us(ms: f64) -> i64 {
    (ms * MS as f64) as i64
}

fn rate(kbps: f64) -> i64 {
    (kbps * KBPS as f64) as i64
}

/// Probing as the field trials of Chrome's own builds may configure it
/// (`testing/variations/fieldtrial_testing_config.json`, 2026, `WebRTC-Bwe-ProbingConfiguration`).
fn branded(config: &mut GoogCcConfig, value: f64) {
    if value != 0.0 {
        let probes = &mut config.probes;
        *probes = ProbeConfig {
            further_scale: 1.5,
            alr_scale: 1.5,
            spacing: 20 * MS,
            skip_above: 0.9,
            ..*probes
        };
    }
}

/// `branded` comes first, so that other options change what it sets.
const SETTINGS: &[Setting<GoogCcConfig>] = &[
    (switch("branded", "probing as field trials of Chrome's own builds may configure it"), branded),
    number("trendline_window", "points of the trend line (20)", (2.0, 200.0), |c, v| {
        c.trendline.window = v as usize;
    }),
    number("trendline_smoothing", "weight of the past in the delay (0.9)", (0.0, 0.99), |c, v| {
        c.trendline.smoothing = v;
    }),
    number("threshold_gain", "factor of the trend (4)", (0.1, 100.0), |c, v| c.trendline.gain = v),
    number(
        "threshold_ms",
        "threshold of the trend at first, in ms (12.5)",
        (6.0, 600.0),
        |c, v| {
            c.trendline.threshold_ms = v;
        },
    ),
    number(
        "k_up",
        "gain of the threshold per ms while it is exceeded (0.0087)",
        (0.0, 1.0),
        |c, v| c.trendline.k_up = v,
    ),
    number("k_down", "gain of the threshold per ms while it is not (0.039)", (0.0, 1.0), |c, v| {
        c.trendline.k_down = v;
    }),
    number(
        "beta",
        "share of the acknowledged rate left by over-use (0.85)",
        (0.3, 0.99),
        |c, v| {
            c.beta = v;
        },
    ),
    number(
        "loss_threshold",
        "loss above which low rates are preferred (0.2)",
        (0.0, 1.0),
        |c, v| {
            c.send_side.loss_estimator.bias_threshold = v;
        },
    ),
    number("loss_smoothing", "softens that threshold (0.002)", (0.0, 1.0), |c, v| {
        c.send_side.loss_estimator.bias_smoothing = v;
    }),
    number("loss_bias", "preference of high rates per kbit/s (0.0002)", (0.0, 0.1), |c, v| {
        c.send_side.loss_estimator.bias = v;
    }),
    number(
        "loss_log_bias",
        "preference of high rates per ln kbit/s (0.02)",
        (0.0, 10.0),
        |c, v| {
            c.send_side.loss_estimator.log_bias = v;
        },
    ),
    number("loss_observation_ms", "shortest observation, in ms (250)", (1.0, 5_000.0), |c, v| {
        c.send_side.loss_estimator.observation_min = us(v);
    }),
    number("loss_window", "observations that count (15)", (2.0, 100.0), |c, v| {
        c.send_side.loss_estimator.window = v as usize;
    }),
    number("loss_min_observations", "observations before loss counts (3)", (1.0, 100.0), |c, v| {
        c.send_side.loss_estimator.min_observations = v as u64;
    }),
    number("loss_weight", "weight of an observation per younger one (0.9)", (0.01, 1.0), |c, v| {
        c.send_side.loss_estimator.temporal_weight = v;
    }),
    number("loss_increase", "largest factor of the candidates (1.02)", (1.0, 3.0), |c, v| {
        c.send_side.loss_estimator.candidate_factors[0] = v;
    }),
    number("loss_decrease", "smallest factor of the candidates (0.95)", (0.1, 1.0), |c, v| {
        c.send_side.loss_estimator.candidate_factors[2] = v;
    }),
    number("loss_inherent", "inherent loss at first (0.01)", (0.0, 1.0), |c, v| {
        c.send_side.loss_estimator.inherent_loss_start = v;
    }),
    number("loss_inherent_min", "smallest inherent loss (0.001)", (0.0, 1.0), |c, v| {
        c.send_side.loss_estimator.inherent_loss_min = v;
    }),
    number(
        "loss_inherent_max",
        "largest inherent loss of a fast link (0.05)",
        (0.0, 1.0),
        |c, v| {
            c.send_side.loss_estimator.inherent_loss_max = v;
        },
    ),
    number(
        "loss_inherent_balance_kbps",
        "adds this over the rate to the largest inherent loss (100)",
        (0.0, 10_000.0),
        |c, v| c.send_side.loss_estimator.inherent_loss_balance = rate(v),
    ),
    number(
        "loss_upper_bound",
        "loss without an upper bound of the rate (0.05)",
        (0.0, 1.0),
        |c, v| {
            c.send_side.loss_estimator.upper_bound_loss = v;
        },
    ),
    number(
        "loss_upper_balance_kbps",
        "upper bound of the rate times the loss above that, in kbit/s (100)",
        (1.0, 10_000.0),
        |c, v| c.send_side.loss_estimator.upper_bound_balance = rate(v),
    ),
    number(
        "loss_lower_bound",
        "lower bound of the rate as a share of the acknowledged one (1)",
        (0.0, 2.0),
        |c, v| c.send_side.loss_estimator.lower_bound_by_acked = v,
    ),
    number(
        "loss_ramp_up",
        "limit of growth over the acknowledged rate (1.5)",
        (1.0, 100.0),
        |c, v| {
            c.send_side.loss_estimator.ramp_up = v;
        },
    ),
    number(
        "loss_ramp_up_in_hold",
        "the same near the rate of a hold (1.2)",
        (1.0, 100.0),
        |c, v| {
            c.send_side.loss_estimator.ramp_up_in_hold = v;
        },
    ),
    number("loss_hold_near", "near is below this factor (1.3)", (0.0, 100.0), |c, v| {
        c.send_side.loss_estimator.ramp_up_hold_threshold = v;
    }),
    number("loss_hold_ms", "first hold after a decrease, in ms (300)", (0.0, 60_000.0), |c, v| {
        c.send_side.loss_estimator.hold_first = us(v);
    }),
    number("loss_hold_factor", "factor of each further hold (2)", (0.0, 10.0), |c, v| {
        c.send_side.loss_estimator.hold_factor = v;
    }),
    number("loss_window_factor", "growth within an increase window (1.3)", (1.0, 10.0), |c, v| {
        c.send_side.loss_estimator.increase_factor = v;
    }),
    number(
        "loss_window_ms",
        "length of an increase window, in ms (300)",
        (0.0, 10_000.0),
        |c, v| {
            c.send_side.loss_estimator.increase_window = us(v);
        },
    ),
    number(
        "loss_padding_ms",
        "padding after an increase, in ms (2000)",
        (0.0, 60_000.0),
        |c, v| {
            c.send_side.loss_estimator.padding = us(v);
        },
    ),
    number(
        "loss_median_factor",
        "rate of a loss that counts, over the median (2)",
        (0.0, 10.0),
        |c, v| {
            c.send_side.loss_estimator.median_factor = v;
        },
    ),
    (switch("loss_bytes", "loss counts bytes, not packets (1)"), |c, v| {
        c.send_side.loss_estimator.counts_bytes = v != 0.0;
    }),
    (switch("loss_bounds_best", "the estimate itself is bounded (1)"), |c, v| {
        c.send_side.loss_estimator.bounds_best = v != 0.0;
    }),
    (switch("loss_at_start", "loss counts in the first two seconds (1)"), |c, v| {
        c.send_side.loss_estimator.at_start = v != 0.0;
    }),
    number(
        "backoff_rtt_ms",
        "round trip that lowers the rate, in ms (3000)",
        (1.0, 60_000.0),
        |c, v| {
            c.send_side.backoff.limit = us(v);
        },
    ),
    number(
        "window_queue_ms",
        "queue that the window allows, in ms (350)",
        (0.0, 10_000.0),
        |c, v| {
            c.pushback.queue = us(v);
        },
    ),
    number(
        "pushback_min_kbps",
        "push-back leaves this rate, in kbit/s (30)",
        (1.0, 10_000.0),
        |c, v| {
            c.pushback.min_rate = rate(v);
        },
    ),
    number("alr_usage", "share of the target that media should use (0.8)", (0.1, 2.0), |c, v| {
        c.alr.usage = v;
    }),
    number("alr_start", "budget at which too little is used (0.4)", (-0.5, 0.99), |c, v| {
        c.alr.start = v;
    }),
    number("alr_stop", "budget at which enough is used (-0.6)", (-0.99, 0.5), |c, v| {
        c.alr.stop = v;
    }),
    (switch("alr_probing", "probes while too little is used, beside a camera too (0)"), |c, v| {
        c.alr_probing = v != 0.0;
    }),
    number(
        "alr_probe_interval_ms",
        "time between such probes, in ms (5000)",
        (100.0, 60_000.0),
        |c, v| {
            c.probes.alr_interval = us(v);
        },
    ),
    number("alr_probe_scale", "such a probe over the target (2)", (1.0, 10.0), |c, v| {
        c.probes.alr_scale = v;
    }),
    number("first_probe", "first probe over the start rate (3)", (1.0, 20.0), |c, v| {
        c.probes.first_scale = v;
    }),
    number(
        "second_probe",
        "second probe over the start rate; 0 is none (6)",
        (0.0, 20.0),
        |c, v| {
            c.probes.second_scale = v;
        },
    ),
    number("further_probe", "further probes over the estimate (2)", (1.0, 20.0), |c, v| {
        c.probes.further_scale = v;
    }),
    number(
        "further_probe_threshold",
        "share of a probe's rate at which a further one follows (0.7)",
        (0.1, 2.0),
        |c, v| c.probes.further_threshold = v,
    ),
    number("probe_duration_ms", "duration of a probe, in ms (15)", (1.0, 1_000.0), |c, v| {
        c.probes.duration = us(v);
    }),
    number("probe_packets", "least packets of a probe (5)", (1.0, 100.0), |c, v| {
        c.probes.min_bursts = v as u32;
    }),
    number(
        "probe_spacing_ms",
        "least time between bursts of a probe, in ms (2)",
        (0.0, 100.0),
        |c, v| {
            c.probes.spacing = us(v);
        },
    ),
    number("pacing_factor", "pacing rate over the target (1.1)", (1.0, 10.0), |c, v| {
        c.pacing.factor = v;
    }),
];

/// All options.
pub(crate) const OPTIONS: &[OptionSpec] = &specs::<_, { SETTINGS.len() }>(SETTINGS);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn with(options: &[(&str, f64)]) -> GoogCcConfig {
        let options: BTreeMap<_, _> =
            options.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        GoogCcConfig::new(Options(&options))
    }

    #[test]
    fn without_options_everything_has_its_default() {
        assert_eq!(with(&[]), GoogCcConfig::default());
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
        for (spec, _) in &SETTINGS[1..] {
            let stated = spec.meaning.rsplit_once(" (").and_then(|(_, end)| end.strip_suffix(')'));
            let stated: f64 = stated.and_then(|text| text.parse().ok()).expect(spec.name);
            assert_eq!(with(&[(spec.name, stated)]), GoogCcConfig::default(), "{}", spec.name);
        }
    }

    #[test]
    fn branded_probes_are_smaller_and_single_options_change_them() {
        let probes = with(&[("branded", 1.0), ("further_probe", 1.7)]).probes;
        assert_eq!((probes.further_scale, probes.alr_scale, probes.skip_above), (1.7, 1.5, 0.9));
        assert_eq!(probes.spacing, 20_000);
    }
}
