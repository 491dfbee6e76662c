//! Measures what a stream carries, and divides the estimate of a receiver's bandwidth: single streams first, then
//! the highest layer that fits.

use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// Interval at which [`RateMeter::tick`] is to be called.
pub const TICK: Time = Time::from_millis(100);
/// Ticks over which a rate is averaged: one second.
const WINDOW_TICKS: usize = 10;

/// A switch up needs an estimate this many times the rate of the higher layer. A switch costs a
/// key frame, and rates vary from second to second. libwebrtc keeps the same distance before it adds a layer
/// (`StableTargetRateExperiment`, `video_hysteresis_factor`).
const UP_FACTOR: f64 = 1.2;

/// Measures a rate over the last second.
#[derive(Debug, Default)]
pub struct RateMeter {
    current: Bytes,
    ticks: VecDeque<Bytes>,
}

impl RateMeter {
    /// Counts a packet.
    pub fn add(&mut self, size: Bytes) {
        self.current += size;
    }

    /// A [`TICK`] has passed.
    pub fn tick(&mut self) {
        self.ticks.push_back(std::mem::take(&mut self.current));
        if self.ticks.len() > WINDOW_TICKS {
            self.ticks.pop_front();
        }
    }

    /// The rate; `None` if nothing came in the window. A stream that began within the window is averaged since
    /// then.
    pub fn rate(&self) -> Option<Bitrate> {
        let ticks = self.ticks.iter().skip_while(|&&size| size == Bytes::ZERO);
        let (count, sum) =
            ticks.fold((0, Bytes::ZERO), |(count, sum), &size| (count + 1, sum + size));
        (count > 0).then(|| Bitrate::carrying(sum, TICK * count))
    }
}

/// The layer to forward; `None` if none is sent.
///
/// `layers` go from the lowest to the highest, each with its measured rate; `None` is the rate of a layer that is
/// not sent. The highest layer whose rate fits into `budget` is chosen, or the lowest that is sent. A layer above
/// `current` fits if `budget` is 1.2 times as large as its rate.
pub fn choose<Layer: Copy + PartialEq>(
    layers: &[(Layer, Option<Bitrate>)],
    current: Option<Layer>,
    budget: Bitrate,
) -> Option<Layer> {
    let current = layers.iter().position(|&(layer, _)| Some(layer) == current);
    let fits = |index: usize, rate: Bitrate| {
        let up = current.is_none_or(|current| index > current);
        rate.scaled(if up { UP_FACTOR } else { 1.0 }) <= budget
    };
    let sent = || {
        let all = layers.iter().enumerate();
        all.filter_map(|(index, &(layer, rate))| Some((index, layer, rate?)))
    };
    let highest = sent().rfind(|&(index, _, rate)| fits(index, rate));
    highest.or_else(|| sent().next()).map(|(_, layer, _)| layer)
}

/// What an estimate leaves for layers beside streams without layers, which are always forwarded.
pub fn budget(estimate: Bitrate, single: Bitrate) -> Bitrate {
    Bitrate(estimate.bps().saturating_sub(single.bps()))
}

/// The estimate with which the highest layer is chosen. A server looks for no more.
pub fn desired<Layer>(layers: &[(Layer, Option<Bitrate>)], single: Bitrate) -> Bitrate {
    let highest = layers.iter().rev().find_map(|(_, rate)| *rate).unwrap_or(Bitrate::ZERO);
    Bitrate(single.bps() + highest.bps()).scaled(UP_FACTOR)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYERS: [(u8, Option<Bitrate>); 3] = [
        (0, Some(Bitrate::from_kbps(100))),
        (1, Some(Bitrate::from_kbps(300))),
        (2, Some(Bitrate::from_kbps(1000))),
    ];

    fn chosen(current: Option<u8>, kbps: u64) -> Option<u8> {
        choose(&LAYERS, current, Bitrate::from_kbps(kbps))
    }

    #[test]
    fn the_highest_layer_that_fits_is_chosen() {
        assert_eq!(chosen(None, 2000), Some(2));
        assert_eq!(chosen(None, 500), Some(1));
        assert_eq!(chosen(None, 200), Some(0));
    }

    #[test]
    fn the_lowest_layer_is_forwarded_even_if_it_does_not_fit() {
        assert_eq!(chosen(Some(2), 50), Some(0));
    }

    #[test]
    fn a_switch_up_needs_a_fifth_more_than_staying() {
        assert_eq!(chosen(Some(1), 1199), Some(1));
        assert_eq!(chosen(Some(1), 1201), Some(2));
        assert_eq!(chosen(Some(2), 1001), Some(2));
        assert_eq!(chosen(Some(2), 999), Some(1));
    }

    #[test]
    fn a_layer_that_is_not_sent_is_not_chosen() {
        let [low, middle, high] = LAYERS;
        let off = |(layer, _)| (layer, None);
        let much = Bitrate::from_mbps(2);
        assert_eq!(choose(&[low, off(middle), off(high)], Some(2), much), Some(0));
        assert_eq!(choose(&[off(low), middle], None, Bitrate::from_kbps(100)), Some(1));
        assert_eq!(choose(&[off(low), off(middle)], None, much), None);
    }

    #[test]
    fn single_streams_come_before_layers() {
        let single = Bitrate::from_kbps(40);
        assert_eq!(budget(Bitrate::from_kbps(300), single), Bitrate::from_kbps(260));
        assert_eq!(budget(Bitrate::from_kbps(30), single), Bitrate::ZERO);
    }

    #[test]
    fn the_desired_estimate_is_the_least_that_leads_to_the_highest_layer_that_is_sent() {
        // 1.2 * 1000 and 1.2 * 300 kbit/s.
        assert_eq!(desired(&LAYERS, Bitrate::ZERO), Bitrate::from_kbps(1200));
        assert_eq!(chosen(Some(0), 1200), Some(2));
        assert_eq!(desired(&[LAYERS[1], (2, None)], Bitrate::ZERO), Bitrate::from_kbps(360));
        assert_eq!(desired::<u8>(&[], Bitrate::from_kbps(40)), Bitrate::from_kbps(48));
    }

    #[test]
    fn a_new_stream_has_its_full_rate_at_once() {
        let mut meter = RateMeter::default();
        (0..20).for_each(|_| meter.tick());
        meter.add(Bytes(1250));
        meter.tick();
        assert_eq!(meter.rate(), Some(Bitrate::from_kbps(100)));
    }

    #[test]
    fn a_rate_is_measured_over_the_last_second() {
        let mut meter = RateMeter::default();
        assert_eq!(meter.rate(), None);
        for _ in 0..20 {
            meter.add(Bytes(1250));
            meter.tick();
        }
        assert_eq!(meter.rate(), Some(Bitrate::from_kbps(100)));
        meter.add(Bytes(12_500));
        meter.tick();
        assert_eq!(meter.rate(), Some(Bitrate::from_kbps(190)));
        (0..10).for_each(|_| meter.tick());
        assert_eq!(meter.rate(), None);
    }
}
