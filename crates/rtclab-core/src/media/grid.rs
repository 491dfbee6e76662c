//! The timer grid of Chromium.

use crate::units::Time;

/// Period of the grid: 64 Hz.
pub const PERIOD: Time = Time::from_micros(15_625);

/// Points in time, 1/64 s apart, at which a browser runs its delayed tasks that need no precision.
///
/// Source: Chromium, `base/task` (aligned wake-ups), `third_party/webrtc_overrides/timer_based_tick_provider.h`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Time of a point, less than a period.
    phase: Time,
}

impl Grid {
    /// The grid that has a point at `point`.
    pub fn through(point: Time) -> Self {
        Grid { phase: Time(point.0 % PERIOD.0) }
    }

    /// The first point that is not before `at`.
    pub fn at_or_after(self, at: Time) -> Time {
        at.saturating_sub(self.phase).ceil_to(PERIOD) + self.phase
    }

    /// The first point after `at`.
    pub fn after(self, at: Time) -> Time {
        self.at_or_after(at + Time(1))
    }
}

/// A task that aims at running every `interval`, and runs at the next point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatingTask {
    /// The grid.
    pub grid: Grid,
    /// Time that the intervals are counted from.
    pub start: Time,
    /// Intended interval, at least one period.
    pub interval: Time,
}

impl RepeatingTask {
    /// When the task runs next after `now`.
    pub fn after(&self, now: Time) -> Time {
        let runs = |n: u64| self.grid.at_or_after(self.start + self.interval * n);
        // A run is less than a period, and so less than an interval, later than intended.
        let mut n = now.saturating_sub(self.start).0 / self.interval.0;
        n = n.saturating_sub(1);
        while runs(n) <= now {
            n += 1;
        }
        runs(n)
    }
}

/// Timers of a browser that plays a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timers {
    /// The browser's grid.
    pub grid: Grid,
    /// Time that repeating tasks count their intervals from.
    pub start: Time,
}

impl Timers {
    /// A repeating task of the browser.
    pub fn task(self, interval: Time) -> RepeatingTask {
        RepeatingTask { grid: self.grid, start: self.start, interval }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Every 20 ms on a grid of 15.625 ms: the task keeps its mean, and intervals are one or two periods.
    #[test]
    fn a_task_of_20_ms_runs_every_one_or_two_periods_and_50_times_a_second() {
        let grid = Grid::through(Time::from_millis(3));
        let interval = Time::from_millis(20);
        let task = RepeatingTask { grid, start: Time::from_millis(7), interval };
        let (mut now, mut intervals) = (Time::ZERO, Vec::new());
        while now < Time::from_secs(10) {
            let next = task.after(now);
            intervals.push((next - now).0);
            now = next;
        }
        intervals.remove(0);
        assert!((498..=501).contains(&intervals.len()), "{}", intervals.len());
        assert!(intervals.iter().all(|i| *i == PERIOD.0 || *i == 2 * PERIOD.0));
    }

    proptest! {
        #[test]
        fn the_next_point_is_less_than_a_period_away(phase in 0u64..1 << 40, at in 0u64..1 << 50) {
            let grid = Grid::through(Time(phase));
            let next = grid.at_or_after(Time(at));
            prop_assert!(next >= Time(at) && next < Time(at) + PERIOD || at < phase % PERIOD.0);
            prop_assert_eq!(grid.at_or_after(next), next);
            prop_assert!(grid.after(next) == next + PERIOD);
        }
    }
}
