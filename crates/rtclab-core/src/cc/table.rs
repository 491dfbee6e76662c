//! The table of algorithms, and the choice of one by name.

use super::control::{Halves, RateBounds};
use super::options::{OptionSpec, Options};
use super::{Fixed, dynamic_alpha, gcc_2016, goog_cc, rrtcc_2013};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Which congestion control a participant uses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CongestionControlConfig {
    /// One of [`NAMES`].
    pub name: String,
    /// Options of the algorithm.
    #[serde(default)]
    pub options: BTreeMap<String, f64>,
}

/// An algorithm.
pub struct Algorithm {
    /// Its name in a scenario.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// Name of the stack profile it was used in.
    pub stack: &'static str,
    create: fn(RateBounds, Options<'_>) -> Halves,
}

/// All algorithms.
pub const ALGORITHMS: [Algorithm; 7] = [
    Algorithm {
        name: "goog-cc",
        summary: "Chromium of 2026: estimates at the sender, from transport-wide feedback",
        options: goog_cc::OPTIONS,
        stack: "chrome-156",
        create: goog_cc::create,
    },
    Algorithm {
        name: "remb",
        summary: "Chromium of 2026 without transport-wide feedback: the receiver's estimate as REMB, and loss rules at the sender",
        options: &[],
        stack: "chrome-156-remb",
        create: |bounds, _| goog_cc::create_remb(bounds),
    },
    Algorithm {
        name: "fixed",
        summary: "always the encoder's maximum, whatever the feedback",
        options: &[],
        stack: "chrome-156",
        create: |bounds, _| (Box::new(Fixed::new(bounds.with_audio().max)), None),
    },
    Algorithm {
        name: "rrtcc-2013",
        summary: "Chrome 27: two-state Kalman filter, threshold of 25 ms, REMB with reports; loss rules with a TFRC floor",
        options: rrtcc_2013::OPTIONS,
        stack: "chrome-27",
        create: rrtcc_2013::create,
    },
    Algorithm {
        name: "gcc-2016",
        summary: "Chrome 52: adaptive threshold, additive and multiplicative increase, probes at the start, REMB at once",
        options: gcc_2016::OPTIONS,
        stack: "chrome-52",
        create: gcc_2016::create,
    },
    Algorithm {
        name: "dynamic-alpha",
        summary: "Chrome 45, but the decrease on over-use depends on how far the detector is above its threshold",
        options: dynamic_alpha::OPTIONS,
        stack: "chrome-45",
        create: dynamic_alpha::create,
    },
    Algorithm {
        name: "fixed-alpha",
        summary: "Chrome 45: over-use lowers the rate to 0.9 of what arrives, or to 0.95 near a known maximum",
        options: dynamic_alpha::OPTIONS_FIXED,
        stack: "chrome-45",
        create: dynamic_alpha::create_fixed,
    },
];

/// The names of [`ALGORITHMS`].
pub const NAMES: [&str; ALGORITHMS.len()] = {
    let mut names = [""; ALGORITHMS.len()];
    let mut i = 0;
    while i < names.len() {
        names[i] = ALGORITHMS[i].name;
        i += 1;
    }
    names
};

/// Why a configuration is invalid. Each message names the field below `congestion_control`.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigError {
    /// No algorithm of that name.
    UnknownAlgorithm(String),
    /// The algorithm has no such option.
    UnknownOption {
        /// The algorithm.
        algorithm: &'static str,
        /// The option.
        option: String,
    },
    /// The value of an option is out of its bounds.
    OutOfBounds {
        /// The option.
        option: &'static OptionSpec,
        /// The value given.
        value: f64,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::UnknownAlgorithm(name) => {
                let known = NAMES.join("`, `");
                write!(f, "congestion_control.name: unknown `{name}`; expected one of `{known}`")
            }
            ConfigError::UnknownOption { algorithm, option } => {
                let known = ALGORITHMS.iter().filter(|known| known.name == *algorithm);
                let known: Vec<_> = known.flat_map(|known| known.options).map(|o| o.name).collect();
                write!(
                    f,
                    "congestion_control.options.{option}: `{algorithm}` has no such option; "
                )?;
                match known.is_empty() {
                    true => write!(f, "expected none"),
                    false => write!(f, "expected one of `{}`", known.join("`, `")),
                }
            }
            ConfigError::OutOfBounds { option, value } => {
                let OptionSpec { name, meaning, bounds: (min, max) } = option;
                write!(
                    f,
                    "congestion_control.options.{name}: {value} is out of bounds; expected {min} to {max}\n  \
                     hint: {meaning}"
                )
            }
        }
    }
}
impl std::error::Error for ConfigError {}

/// Checks a configuration and returns its algorithm.
///
/// # Errors
/// Unknown name or option, or a value out of bounds.
pub fn check(config: &CongestionControlConfig) -> Result<&'static Algorithm, ConfigError> {
    static TABLE: [Algorithm; ALGORITHMS.len()] = ALGORITHMS;
    let algorithm = TABLE
        .iter()
        .find(|algorithm| algorithm.name == config.name)
        .ok_or_else(|| ConfigError::UnknownAlgorithm(config.name.clone()))?;
    for (name, &value) in &config.options {
        let option = algorithm.options.iter().find(|option| option.name == name);
        let option = option.ok_or_else(|| ConfigError::UnknownOption {
            algorithm: algorithm.name,
            option: name.clone(),
        })?;
        if !(option.bounds.0..=option.bounds.1).contains(&value) {
            return Err(ConfigError::OutOfBounds { option, value });
        }
    }
    Ok(algorithm)
}

/// Creates both halves of the chosen algorithm.
///
/// # Errors
/// Same as [`check`].
pub fn create(config: &CongestionControlConfig, bounds: RateBounds) -> Result<Halves, ConfigError> {
    let algorithm = check(config)?;
    Ok((algorithm.create)(bounds, Options(&config.options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, options: &[(&str, f64)]) -> String {
        let options = options.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        let config = CongestionControlConfig { name: name.to_owned(), options };
        check(&config).err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn every_algorithm_is_valid_without_options() {
        for name in NAMES {
            assert_eq!(message(name, &[]), "");
        }
    }

    #[test]
    fn the_error_for_an_unknown_name_lists_the_known_names() {
        let text = message("bbr", &[]);
        assert!(
            text.starts_with("congestion_control.name: unknown `bbr`; expected one of `goog-cc`")
        );
    }

    #[test]
    fn the_error_for_an_unknown_option_lists_the_options_of_the_algorithm() {
        assert_eq!(
            message("fixed-alpha", &[("beta", 0.85)]),
            "congestion_control.options.beta: `fixed-alpha` has no such option; expected one of `alpha`, `near_alpha`, `low_loss_factor`"
        );
        assert!(message("fixed", &[("rate", 1.0)]).ends_with("expected none"));
    }

    #[test]
    fn the_error_for_a_value_out_of_bounds_gives_the_bounds_and_the_meaning() {
        let text = message("rrtcc-2013", &[("decrease", 1.5)]);
        assert!(
            text.contains("options.decrease: 1.5 is out of bounds; expected 0.5 to 1\n  hint: ")
        );
        assert!(message("rrtcc-2013", &[("decrease", f64::NAN)]).contains("NaN is out of bounds"));
    }
}
