//! Nodes that are sent anything by anybody; the fuzz target `node` does the same for longer.

use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use rtclab_core::units::Time;
use std::sync::{Mutex, PoisonError};

#[path = "support/hostile/mod.rs"]
mod hostile;
#[path = "support/inputs.rs"]
mod inputs;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// One input at a time, because what other tests allocate would be counted too.
static ALONE: Mutex<()> = Mutex::new(());

fn run(input: &[u8]) {
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    hostile::run(input, &|| ALLOCATOR.current_usage());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_arrives_a_node_goes_on_and_stays_small(
        input in prop::collection::vec(any::<u8>(), 0..1_000)
    ) {
        run(&input);
    }
}

/// Inputs with which fuzzing ended or filled a node once, and those that reach most of its code.
#[test]
fn every_input_that_was_kept_passes() {
    let inputs = inputs::of_target("node", 20);
    assert!(inputs.iter().filter(|(path, _)| path.starts_with("regressions")).count() >= 6);
    let failing = inputs::failing(&inputs, &run);
    assert!(failing.is_empty(), "{failing:#?}");
}

/// Otherwise an input would try little but the set-up.
#[test]
fn undisturbed_calls_are_connected_and_media_arrives_at_all_their_ends() {
    // A symmetric NAT has ports from 20 on, and without UDP only the relay can be reached.
    let inside = [1, 2, 5, 6, 8, 9, 10, 11];
    let expected = [vec![1, 5, 9, 11], vec![1], inside.to_vec(), inside.to_vec()];
    for stack in 0..6 {
        for nat in 1..=4 {
            // Video and audio; with and without a relay, signalling by a page, a browser's work, and a host.
            for flags in [0, 3, 4, 8, 8 + 16, 4 + 8, 32] {
                let choice = [stack, nat, flags, stack, 0, 0, 0];
                let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
                let ports = hostile::media_arrives_at(&choice, Time::from_secs(2));
                let known: Vec<u32> = ports.iter().copied().filter(|port| *port < 20).collect();
                assert_eq!(known, expected[usize::from(nat) - 1], "{choice:?}");
                let outside = if nat == 1 { 4 } else { 0 };
                assert_eq!(ports.len() - known.len(), outside, "{choice:?}");
            }
        }
    }
}
