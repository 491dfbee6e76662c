//! Options of the algorithms: their names, meanings and bounds.

use std::collections::BTreeMap;

/// An option of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OptionSpec {
    /// Its name in a scenario.
    pub name: &'static str,
    /// What it means and its unit.
    pub meaning: &'static str,
    /// Smallest and largest value.
    pub bounds: (f64, f64),
}

/// Values given for options. An option that is not given keeps the algorithm's original behaviour.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a>(pub(crate) &'a BTreeMap<String, f64>);

impl Options<'_> {
    /// The value, if given.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// Whether it is given and not zero.
    pub fn is_on(&self, name: &str) -> bool {
        self.get(name).is_some_and(|value| value != 0.0)
    }
}

/// An option that is on (1) or off (0).
pub(crate) const fn switch(name: &'static str, meaning: &'static str) -> OptionSpec {
    OptionSpec { name, meaning, bounds: (0.0, 1.0) }
}
