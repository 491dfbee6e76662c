//! Nodes that are sent anything by anybody; the fuzz target `node` does the same for longer.

use peak_alloc::PeakAlloc;
use proptest::prelude::*;
use rtclab_core::units::Time;

#[path = "support/hostile/mod.rs"]
mod hostile;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_arrives_a_node_goes_on_and_stays_small(
        input in prop::collection::vec(any::<u8>(), 0..1_000)
    ) {
        hostile::run(&input, &|| ALLOCATOR.current_usage());
    }
}

/// Otherwise an input would try little but the set-up.
#[test]
fn undisturbed_calls_are_connected_and_media_arrives_at_all_their_ends() {
    for stack in 0..5 {
        for nat in 0..4 {
            for flags in 0..64 {
                let choice = [stack, nat, flags, stack];
                let ports = hostile::media_arrives_at(&choice, Time::from_secs(2));
                println!("{choice:?} {ports:?}");
            }
        }
    }
}
