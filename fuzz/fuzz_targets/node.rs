//! Two nodes in calls, and whatever the input sends them; see the module that it shares with a test.
#![no_main]

use libfuzzer_sys::fuzz_target;
use peak_alloc::PeakAlloc;

#[path = "../../crates/rtclab-core/tests/support/hostile/mod.rs"]
mod hostile;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

fuzz_target!(|input: &[u8]| hostile::run(input, &|| ALLOCATOR.current_usage()));
