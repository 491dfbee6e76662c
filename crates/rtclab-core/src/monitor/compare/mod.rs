//! Compares two points of a network: packets lost between them, and one-way delays.
//!
//! The captures are read twice: first to pair their streams and to estimate roughly how the clocks differ,
//! then in step to match packets. Memory holds half a minute of packets that wait for their counterpart, up
//! to a minute of unmatched packets at the beginning and end of each capture, and 12 bytes per matched
//! packet. All but the last have a fixed limit.

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

/// Compares two points. Returns the tables `streams`, `delay_histogram`, `clock` and `notes`, and
/// `packets` if `config.packets` is set.
///
/// `progress` is called regularly with the number of bytes read in both passes. If it returns false,
/// reading stops and what has been read so far is compared.
///
/// # Errors
///
/// [`CompareError`] if a capture cannot be read.
pub fn compare<R: Read>(
    points: Points,
    config: &MonitorConfig,
    open: Open<'_, R>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Tables, CompareError> {
    let mut comparison = Comparison::new(points, config);
    let mut read = 0;
    let mut keep_reading = true;
    let mut progress = |bytes| {
        keep_reading = keep_reading && progress(bytes);
        keep_reading
    };
    for side in points.captures() {
        read = comparison
            .first_pass(*side, open, read, &mut progress)
            .map_err(|e| CompareError(*side, e))?;
    }
    comparison.find_pairs();
    comparison.second_pass(open, read, &mut progress)?;
    Ok(comparison.tables())
}
