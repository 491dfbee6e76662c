//! What fuzzing found once, as tests, and mixtures of it. `make fuzz` searches for more.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use std::sync::LazyLock;

#[path = "support/inputs.rs"]
mod inputs;
#[path = "support/parsers/mod.rs"]
mod parsers;

use inputs::Input;
use parsers::{PARSERS, Parser};

/// Fewest inputs in the corpus of a parser.
const LEAST: usize = 10;

/// Every parser, and its inputs.
static INPUTS: LazyLock<Vec<(Parser, Vec<Input>)>> = LazyLock::new(|| {
    PARSERS.into_iter().map(|parser| (parser, inputs::of_target(parser.0, LEAST))).collect()
});

#[test]
fn every_input_that_was_kept_passes() {
    let failing = INPUTS.iter().flat_map(|((_, parse), inputs)| inputs::failing(inputs, parse));
    let failing: Vec<String> = failing.collect();
    assert!(failing.is_empty(), "{failing:#?}");
}

/// The test `node_inputs.rs` runs the target `node`.
#[test]
fn every_fuzz_target_is_run_by_a_test_and_has_its_inputs_where_the_test_looks() {
    let mut tested: Vec<&str> = PARSERS.iter().map(|(name, _)| *name).chain(["node"]).collect();
    tested.sort_unstable();
    let targets = inputs::names("fuzz_targets");
    let targets: Vec<&str> = targets.iter().map(|name| name.trim_end_matches(".rs")).collect();
    assert_eq!(targets, tested);
    assert_eq!(inputs::names("corpus"), tested);
    for name in inputs::names("regressions") {
        assert!(tested.contains(&name.as_str()), "fuzz/regressions/{name} is of no target");
    }
}

/// The beginning of one input and the end of another, with some bytes changed.
#[derive(Debug)]
struct Mixture {
    of: [Index; 2],
    cuts: [Index; 2],
    changes: Vec<(Index, u8)>,
}

impl Mixture {
    fn bytes(&self, inputs: &[Input]) -> Vec<u8> {
        let [first, second] = self.of.map(|index| index.get(inputs).1.as_slice());
        let [begin, end] = [(first, self.cuts[0]), (second, self.cuts[1])]
            .map(|(bytes, cut)| cut.index(bytes.len() + 1));
        let mut mixed = [&first[..begin], &second[end..]].concat();
        for (place, value) in &self.changes {
            if !mixed.is_empty() {
                *place.get_mut(&mut mixed) = *value;
            }
        }
        mixed
    }
}

prop_compose! {
    fn mixture()(
        of in any::<[Index; 2]>(), cuts in any::<[Index; 2]>(), changes in vec(any::<(Index, u8)>(), 0..4),
    ) -> Mixture {
        Mixture { of, cuts, changes }
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 5_000, max_shrink_iters: 100, failure_persistence: None, ..ProptestConfig::default()
    })]

    #[test]
    fn no_mixture_of_inputs_ends_a_parser(mixture in mixture()) {
        for ((name, parse), inputs) in INPUTS.iter() {
            let bytes = mixture.bytes(inputs);
            prop_assert!(!inputs::fails(&bytes, parse), "{name}: b\"{}\"", bytes.escape_ascii());
        }
    }
}
