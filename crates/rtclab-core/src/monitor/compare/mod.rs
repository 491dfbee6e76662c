//! One packet at two points: what is lost between them, and the one-way delay.
//!
//! Captures are read twice, side by side: first to find which stream is which and roughly how the clocks differ,
//! then to match packets. Memory is that of half a minute of packets that wait for their counterpart, a minute of
//! unmatched ones at the begin and end of the captures, and 12 bytes per matched one.

mod clock;
mod comparison;
mod matching;
mod pairing;
mod points;
mod samples;
mod tables;

pub use comparison::{CompareError, Open};
pub use points::{Points, Side};

use super::config::MonitorConfig;
use super::texts::Tables;
use comparison::Comparison;
use std::io::Read;

/// Tables `streams`, `delay_histogram`, `clock` and `notes`, and `packets` if the configuration wants packets.
///
/// `progress` hears now and then how many bytes have been read of both captures in both passes, and stops the
/// comparison by returning false: what has been read by then is compared.
///
/// # Errors
///
/// [`CompareError`] when a capture cannot be read.
pub fn compare<R: Read>(
    points: Points,
    config: &MonitorConfig,
    open: Open<'_, R>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Tables, CompareError> {
    let mut comparison = Comparison::new(points, config);
    let mut read = 0;
    let mut goes_on = true;
    let mut told = |bytes| {
        goes_on = goes_on && progress(bytes);
        goes_on
    };
    for side in points.captures() {
        read = comparison
            .first_pass(*side, open, read, &mut told)
            .map_err(|e| CompareError(*side, e))?;
    }
    comparison.find_pairs();
    comparison.second_pass(open, read, &mut told)?;
    Ok(comparison.tables())
}
