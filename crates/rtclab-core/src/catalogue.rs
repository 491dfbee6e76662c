//! The congestion controls that a scenario can choose by name.
//!
//! A [`Catalogue`] is passed to a simulation or replay. [`Catalogue::ours`] has the controls of rtclab. A program adds
//! its own with [`Catalogue::add`], under their own names, with their own options and stack.

use crate::cc::{
    self, CongestionControlConfig, Fixed, Guarded, Halves, OptionSpec, Options, RateBounds,
};
use crate::stack::{PROFILES, StackProfile};
use std::borrow::Cow;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

/// Creates both halves of a congestion control.
pub type Create = dyn Fn(RateBounds, Options<'_>) -> Halves + Send + Sync;

/// A congestion control in a catalogue.
#[derive(Clone)]
pub struct Algorithm {
    /// Its name in a scenario.
    pub name: Cow<'static, str>,
    /// What it is, in a line.
    pub summary: &'static str,
    /// Its options.
    pub options: &'static [OptionSpec],
    /// The stack profile that a participant has if the scenario does not name another.
    pub stack: &'static StackProfile,
    create: Arc<Create>,
    /// Whether it is trusted not to panic.
    is_ours: bool,
}

impl Algorithm {
    /// A control of the caller's. If it panics, the run ends with an error that names it.
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        stack: &'static StackProfile,
        create: impl Fn(RateBounds, Options<'_>) -> Halves + Send + Sync + 'static,
    ) -> Self {
        let (name, create) = (name.into(), Arc::new(create));
        Algorithm { name, summary: "", options: &[], stack, create, is_ours: false }
    }

    /// The same control, and what it is, in a line.
    #[must_use]
    pub fn with_summary(self, summary: &'static str) -> Self {
        Algorithm { summary, ..self }
    }

    /// The same control with these options.
    #[must_use]
    pub fn with_options(self, options: &'static [OptionSpec]) -> Self {
        Algorithm { options, ..self }
    }

    /// Whether it is one of [`Catalogue::ours`], which share nothing and ask for nothing.
    pub(crate) fn is_ours(&self) -> bool {
        self.is_ours
    }

    fn ours(
        (name, stack): (&'static str, &str),
        summary: &'static str,
        options: &'static [OptionSpec],
        create: fn(RateBounds, Options<'_>) -> Halves,
    ) -> Option<Self> {
        let stack = StackProfile::named(stack)?;
        let (name, create) = (name.into(), Arc::new(create));
        Some(Algorithm { name, summary, options, stack, create, is_ours: true })
    }
}

/// Stack of the controls that were made for the feedback of RFC 8888.
const RFC_8888_STACK: &str = "chrome-156-ccfb";

/// The congestion controls of rtclab.
static OURS: LazyLock<Catalogue> = LazyLock::new(|| {
    let algorithms = [
        Algorithm::ours(
            ("goog-cc", "chrome-156"),
            "Chromium of 2026: estimates at the sender, from transport-wide feedback",
            cc::goog_cc::OPTIONS,
            cc::goog_cc::create,
        ),
        Algorithm::ours(
            ("remb", "chrome-156-remb"),
            "Chromium of 2026 without transport-wide feedback: the receiver's estimate as REMB, and loss rules at the sender",
            &[],
            |bounds, _| cc::goog_cc::create_remb(bounds),
        ),
        Algorithm::ours(
            ("fixed", "chrome-156"),
            "always the encoder's maximum, whatever the feedback",
            &[],
            |bounds, _| (Box::new(Fixed::new(bounds.with_audio().max)), None),
        ),
        Algorithm::ours(
            ("rrtcc-2013", "chrome-27"),
            "Chrome 27: two-state Kalman filter, threshold of 25 ms, REMB with reports; loss rules with a TFRC floor",
            cc::rrtcc_2013::OPTIONS,
            cc::rrtcc_2013::create,
        ),
        Algorithm::ours(
            ("gcc-2016", "chrome-52"),
            "Chrome 52: adaptive threshold, additive and multiplicative increase, probes at the start, REMB at once",
            cc::gcc_2016::OPTIONS,
            cc::gcc_2016::create,
        ),
        Algorithm::ours(
            ("dynamic-alpha", "chrome-45"),
            "Chrome 45, but the decrease on over-use depends on how far the detector is above its threshold",
            cc::dynamic_alpha::OPTIONS,
            cc::dynamic_alpha::create,
        ),
        Algorithm::ours(
            ("fixed-alpha", "chrome-45"),
            "Chrome 45: over-use lowers the rate to 0.9 of what arrives, or to 0.95 near a known maximum",
            cc::dynamic_alpha::OPTIONS_FIXED,
            cc::dynamic_alpha::create_fixed,
        ),
        Algorithm::ours(
            ("scream", RFC_8888_STACK),
            "SCReAM v2 as in Chromium of 2026: a window that follows L4S marks, loss and queuing delay",
            cc::scream::OPTIONS,
            cc::scream::create,
        ),
        Algorithm::ours(
            ("scream-rfc8298", RFC_8888_STACK),
            "SCReAM as in RFC 8298: a window for a queuing delay of 100 ms, and a rate for media beside it",
            cc::scream_rfc8298::OPTIONS,
            cc::scream_rfc8298::create,
        ),
        Algorithm::ours(
            ("nada", RFC_8888_STACK),
            "NADA (RFC 8698) at the sender: one congestion level from queuing delay, loss and marks",
            cc::nada::OPTIONS,
            cc::nada::create,
        ),
    ];
    Catalogue { algorithms: algorithms.into_iter().flatten().collect() }
});

/// Congestion controls by name.
#[derive(Clone, Default)]
pub struct Catalogue {
    algorithms: Vec<Algorithm>,
}

impl Catalogue {
    /// The controls of rtclab. Clone it to add others.
    pub fn ours() -> &'static Catalogue {
        &OURS
    }

    /// Adds a control.
    ///
    /// # Errors
    /// The catalogue has a control of this name, or another profile of the name of its stack.
    pub fn add(&mut self, algorithm: Algorithm) -> Result<(), CatalogueError> {
        if self.algorithms.iter().any(|known| known.name == algorithm.name) {
            return Err(CatalogueError::ControlTwice(algorithm.name.into_owned()));
        }
        let stack = algorithm.stack;
        if self.stack(stack.name).is_some_and(|known| known != stack) {
            return Err(CatalogueError::StackTwice(stack.name));
        }
        self.algorithms.push(algorithm);
        Ok(())
    }

    /// All controls, in the order in which they were added.
    pub fn algorithms(&self) -> &[Algorithm] {
        &self.algorithms
    }

    /// The stack profile with this name: one of [`PROFILES`], or the profile of a control.
    pub fn stack(&self, name: &str) -> Option<&'static StackProfile> {
        let of_controls = || self.algorithms.iter().map(|algorithm| algorithm.stack);
        StackProfile::named(name).or_else(|| of_controls().find(|stack| stack.name == name))
    }

    /// The names of all stack profiles.
    pub fn stacks(&self) -> Vec<&'static str> {
        let mut names: Vec<_> = PROFILES.iter().map(|profile| profile.name).collect();
        for algorithm in &self.algorithms {
            if !names.contains(&algorithm.stack.name) {
                names.push(algorithm.stack.name);
            }
        }
        names
    }

    /// Chooses the control of a configuration.
    ///
    /// # Errors
    /// Unknown name or option, or a value out of bounds.
    pub fn choose<'a>(
        &'a self,
        config: &'a CongestionControlConfig,
    ) -> Result<Choice<'a>, ConfigError> {
        let found = self.algorithms.iter().find(|algorithm| algorithm.name == config.name);
        let algorithm = found.ok_or_else(|| ConfigError::UnknownAlgorithm {
            name: config.name.clone(),
            known: self.algorithms.iter().map(|known| known.name.to_string()).collect(),
        })?;
        for (name, &value) in &config.options {
            let option = algorithm.options.iter().find(|option| option.name == name);
            let option = option.ok_or_else(|| ConfigError::UnknownOption {
                algorithm: algorithm.name.to_string(),
                option: name.clone(),
                known: algorithm.options.iter().map(|option| option.name).collect(),
            })?;
            if !(option.bounds.0..=option.bounds.1).contains(&value) {
                return Err(ConfigError::OutOfBounds { option: *option, value });
            }
        }
        Ok(Choice { algorithm, options: Options(&config.options) })
    }
}

/// A control of a catalogue, with valid options.
#[derive(Clone, Copy)]
pub struct Choice<'a> {
    /// The control.
    pub algorithm: &'a Algorithm,
    options: Options<'a>,
}

impl Choice<'_> {
    /// Creates both halves for given rate bounds.
    ///
    /// # Errors
    /// The control panics.
    pub fn create(&self, bounds: RateBounds) -> Result<Halves, ConfigError> {
        let Choice { algorithm, options } = *self;
        if algorithm.is_ours {
            return Ok((algorithm.create)(bounds, options));
        }
        let create = || (algorithm.create)(bounds, options);
        let halves = catch_unwind(AssertUnwindSafe(create)).map_err(|panic| {
            let what = cc::message_of(panic.as_ref());
            ConfigError::Panicked { algorithm: algorithm.name.to_string(), what }
        })?;
        Ok(Guarded::halves(halves))
    }
}

/// Why a control cannot be added to a catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CatalogueError {
    /// There is a control of this name.
    ControlTwice(String),
    /// There is another stack profile of this name.
    StackTwice(&'static str),
}

impl fmt::Display for CatalogueError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CatalogueError::ControlTwice(name) => {
                write!(
                    f,
                    "the catalogue has a congestion control `{name}`; expected a name of its own"
                )
            }
            CatalogueError::StackTwice(name) => {
                write!(
                    f,
                    "the catalogue has another stack profile `{name}`; expected a name of its own"
                )
            }
        }
    }
}
impl std::error::Error for CatalogueError {}

/// Why a configuration is invalid. Each message names the field below `congestion_control`.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigError {
    /// No control of that name.
    UnknownAlgorithm {
        /// The name.
        name: String,
        /// The names that exist.
        known: Vec<String>,
    },
    /// The control has no such option.
    UnknownOption {
        /// The control.
        algorithm: String,
        /// The option.
        option: String,
        /// The options that it has.
        known: Vec<&'static str>,
    },
    /// The value of an option is out of its bounds.
    OutOfBounds {
        /// The option.
        option: OptionSpec,
        /// The value given.
        value: f64,
    },
    /// The control panicked while it was created.
    Panicked {
        /// The control.
        algorithm: String,
        /// What it said.
        what: String,
    },
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::UnknownAlgorithm { name, known } => {
                let known = known.join("`, `");
                write!(f, "congestion_control.name: unknown `{name}`; expected one of `{known}`")
            }
            ConfigError::UnknownOption { algorithm, option, known } => {
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
            ConfigError::Panicked { algorithm, what } => {
                write!(
                    f,
                    "congestion_control.name: `{algorithm}` panicked when it was created: {what}"
                )
            }
        }
    }
}
impl std::error::Error for ConfigError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(name: &str, options: &[(&str, f64)]) -> String {
        let options = options.iter().map(|(name, value)| (name.to_string(), *value)).collect();
        let config = CongestionControlConfig { name: name.to_owned(), options };
        Catalogue::ours().choose(&config).err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn every_algorithm_is_valid_without_options() {
        for algorithm in Catalogue::ours().algorithms() {
            assert_eq!(message(&algorithm.name, &[]), "");
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
