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

/// An option of an algorithm with a configuration of type `C`, and what it changes there.
pub(crate) type Setting<C> = (OptionSpec, fn(&mut C, f64));

/// An option that is a number in the unit of its name. Its meaning ends with the default of its source.
pub(crate) const fn number<C>(
    name: &'static str,
    meaning: &'static str,
    bounds: (f64, f64),
    apply: fn(&mut C, f64),
) -> Setting<C> {
    (OptionSpec { name, meaning, bounds }, apply)
}

/// The default configuration with the options that are given.
pub(crate) fn configured<C: Default>(settings: &[Setting<C>], options: Options<'_>) -> C {
    let mut config = C::default();
    for (spec, apply) in settings {
        if let Some(value) = options.get(spec.name) {
            apply(&mut config, value);
        }
    }
    config
}

/// The options of the first `N` settings.
pub(crate) const fn specs<C, const N: usize>(settings: &[Setting<C>]) -> [OptionSpec; N] {
    let mut options = [settings[0].0; N];
    let mut i = 0;
    while i < N {
        options[i] = settings[i].0;
        i += 1;
    }
    options
}
