//! Measures what a stream carries, and chooses a simulcast layer.

use std::collections::VecDeque;

/// Ticks over which a rate is averaged: one second.
const WINDOW_TICKS: usize = 10;
/// Ticks a second.
pub(crate) const TICKS_PER_S: u64 = 10;

/// A switch up needs an estimate this many times the rate of the higher layer. A switch costs a
/// key frame, and rates vary from second to second. libwebrtc keeps the same distance before it adds a layer
/// (`StableTargetRateExperiment`, `video_hysteresis_factor`).
pub(crate) const UP_FACTOR: f64 = 1.2;

/// Measures a rate over the last second.
#[derive(Debug, Default)]
pub(crate) struct RateMeter {
    current_bytes: u64,
    ticks: VecDeque<u64>,
}

impl RateMeter {
    /// Counts a packet.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.current_bytes += bytes as u64;
    }

    /// A tick has passed.
    pub(crate) fn tick(&mut self) {
        self.ticks.push_back(std::mem::take(&mut self.current_bytes));
        if self.ticks.len() > WINDOW_TICKS {
            self.ticks.pop_front();
        }
    }

    /// Rate in bit/s; `None` if nothing came in the window. A stream that began within the window is
    /// averaged since then.
    pub(crate) fn bps(&self) -> Option<f64> {
        let ticks = self.ticks.iter().skip_while(|&&bytes| bytes == 0);
        let (count, bytes) = ticks.fold((0, 0), |(count, sum), bytes| (count + 1, sum + bytes));
        (count > 0).then(|| (bytes * 8 * TICKS_PER_S) as f64 / f64::from(count))
    }
}

/// Index of the layer to forward.
///
/// `rates_bps` are the measured rates, from the lowest layer to the highest; `None` is a layer that is not
/// sent. The highest layer whose rate fits into `budget_bps` is chosen, or the lowest that is sent. A layer
/// above `current` fits if `budget_bps` is [`UP_FACTOR`] times as large as its rate.
pub(crate) fn choose(
    rates_bps: &[Option<f64>],
    current: Option<usize>,
    budget_bps: f64,
) -> Option<usize> {
    let fits = |index: usize, rate: f64| {
        let up = current.is_none_or(|current| index > current);
        rate * if up { UP_FACTOR } else { 1.0 } <= budget_bps
    };
    let sent = || rates_bps.iter().enumerate().filter_map(|(index, rate)| Some((index, (*rate)?)));
    let highest = sent().rfind(|&(index, rate)| fits(index, rate));
    highest.or_else(|| sent().next()).map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES_BPS: [Option<f64>; 3] = [Some(100e3), Some(300e3), Some(1000e3)];

    #[test]
    fn the_highest_layer_that_fits_is_chosen() {
        assert_eq!(choose(&RATES_BPS, None, 2000e3), Some(2));
        assert_eq!(choose(&RATES_BPS, None, 500e3), Some(1));
        assert_eq!(choose(&RATES_BPS, None, 200e3), Some(0));
    }

    #[test]
    fn the_lowest_layer_is_forwarded_even_if_it_does_not_fit() {
        assert_eq!(choose(&RATES_BPS, Some(2), 50e3), Some(0));
    }

    #[test]
    fn a_switch_up_needs_a_fifth_more_than_staying() {
        assert_eq!(choose(&RATES_BPS, Some(1), 1199e3), Some(1));
        assert_eq!(choose(&RATES_BPS, Some(1), 1201e3), Some(2));
        assert_eq!(choose(&RATES_BPS, Some(2), 1001e3), Some(2));
        assert_eq!(choose(&RATES_BPS, Some(2), 999e3), Some(1));
    }

    #[test]
    fn a_layer_that_is_not_sent_is_not_chosen() {
        assert_eq!(choose(&[Some(100e3), None, None], Some(2), 2000e3), Some(0));
        assert_eq!(choose(&[None, Some(300e3)], None, 100e3), Some(1));
        assert_eq!(choose(&[None, None], None, 100e3), None);
    }

    #[test]
    fn a_new_stream_has_its_full_rate_at_once() {
        let mut meter = RateMeter::default();
        (0..20).for_each(|_| meter.tick());
        meter.add(1250);
        meter.tick();
        assert_eq!(meter.bps(), Some(100e3));
    }

    #[test]
    fn a_rate_is_that_of_the_last_second() {
        let mut meter = RateMeter::default();
        assert_eq!(meter.bps(), None);
        for _ in 0..20 {
            meter.add(1250);
            meter.tick();
        }
        assert_eq!(meter.bps(), Some(100e3));
        meter.add(12_500);
        meter.tick();
        assert_eq!(meter.bps(), Some(190e3));
        (0..10).for_each(|_| meter.tick());
        assert_eq!(meter.bps(), None);
    }
}
