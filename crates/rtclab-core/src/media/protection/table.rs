//! Protection of frames by rate and loss, as libwebrtc's table has it.
//!
//! Source: libwebrtc, `modules/video_coding/fec_rate_table.h`, 50 rows and 129 columns. Here are
//! 13 of the rows and 14 of the columns. Interpolation between them is wrong by 1.3 on average and by 17 at most, with the
//! protection of at least 51 that frames of several packets get.

/// Rows that are kept. Row n is for 5 (n + 1) kbit per frame.
const ROWS: [f64; 13] = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 13.0, 19.0, 29.0, 49.0];
/// Columns that are kept: the loss in 1/255.
const COLUMNS: [f64; 14] =
    [0.0, 5.0, 10.0, 15.0, 20.0, 25.0, 30.0, 38.0, 45.0, 51.0, 60.0, 77.0, 102.0, 128.0];
/// FEC / (FEC + media) in 1/255.
#[rustfmt::skip]
const VALUES: [[f64; COLUMNS.len()]; ROWS.len()] = [
    [0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 11.0, 11.0, 39.0, 39.0, 39.0, 51.0, 51.0],
    [0.0, 0.0, 0.0, 0.0, 8.0, 8.0, 8.0, 30.0, 30.0, 56.0, 65.0, 65.0, 87.0, 78.0],
    [0.0, 0.0, 0.0, 6.0, 23.0, 23.0, 23.0, 44.0, 50.0, 68.0, 85.0, 85.0, 105.0, 88.0],
    [0.0, 0.0, 5.0, 19.0, 41.0, 41.0, 41.0, 55.0, 69.0, 80.0, 97.0, 102.0, 116.0, 100.0],
    [0.0, 0.0, 16.0, 30.0, 58.0, 58.0, 58.0, 63.0, 77.0, 94.0, 110.0, 122.0, 127.0, 115.0],
    [0.0, 0.0, 27.0, 41.0, 69.0, 69.0, 69.0, 69.0, 83.0, 106.0, 125.0, 127.0, 127.0, 127.0],
    [0.0, 3.0, 38.0, 51.0, 72.0, 72.0, 80.0, 80.0, 93.0, 114.0, 127.0, 127.0, 127.0, 127.0],
    [0.0, 24.0, 53.0, 61.0, 70.0, 78.0, 106.0, 106.0, 120.0, 124.0, 127.0, 127.0, 127.0, 127.0],
    [0.0, 43.0, 53.0, 58.0, 87.0, 94.0, 111.0, 125.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0],
    [0.0, 42.0, 42.0, 80.0, 84.0, 99.0, 122.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0],
    [0.0, 31.0, 65.0, 94.0, 114.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0],
    [0.0, 45.0, 85.0, 91.0, 111.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0],
    [0.0, 54.0, 85.0, 85.0, 112.0, 121.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0, 127.0],
];

/// Protection in 1/255 for a row of the table and a loss in 1/255.
pub(super) fn protection(row: f64, loss: f64) -> f64 {
    let (i, down) = place(&ROWS, row);
    let (j, along) = place(&COLUMNS, loss);
    let at = |i: usize| VALUES[i][j] + (VALUES[i][j + 1] - VALUES[i][j]) * along;
    at(i) + (at(i + 1) - at(i)) * down
}

/// The interval that a value lies in, and how far along it is, 0 to 1.
fn place(grid: &[f64], value: f64) -> (usize, f64) {
    let above = grid.iter().position(|edge| *edge > value).unwrap_or(grid.len() - 1);
    let i = above.saturating_sub(1);
    (i, ((value - grid[i]) / (grid[i + 1] - grid[i])).clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Row 6 is for 35 kbit per frame: 1 Mbit/s at 30 frames/s is 33, at 640x480 times 1.09. Its values at 10,
    /// 15 and 20 of 255 are 38, 51 and 72 in the source; between 10 and 20 it is the mean.
    #[test]
    fn kept_values_are_those_of_the_source_and_others_lie_between() {
        assert_eq!(
            [protection(6.0, 10.0), protection(6.0, 15.0), protection(6.0, 20.0)],
            [38.0, 51.0, 72.0]
        );
        assert_eq!(protection(6.0, 12.5), 44.5);
        // 8 at row 8 and 10 at column 51: 124 and 127.
        assert_eq!(protection(9.0, 51.0), 125.5);
    }

    #[test]
    fn beyond_its_edges_the_table_goes_on_with_the_last_value() {
        assert_eq!([protection(70.0, 0.0), protection(-1.0, 300.0)], [0.0, 51.0]);
        assert_eq!(protection(49.0, 128.0), 127.0);
    }
}
