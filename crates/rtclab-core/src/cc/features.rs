//! What learned congestion controls see of arriving packets: the features of the bandwidth estimation challenge of 2024,
//! and the four numbers of AlphaRTC's environment. They are here so that they can be computed where packets
//! arrive, too.

use crate::packet::Kind;
use crate::units::{Bitrate, Time};
use std::collections::VecDeque;

/// Windows of each length.
const WINDOWS: usize = 5;
/// Features of a window.
const PER_WINDOW: usize = 15;
/// Length of [`Features::bwe2024`].
pub const BWE2024: usize = 2 * WINDOWS * PER_WINDOW;
/// Length of a short window.
pub const SHORT: Time = Time::from_millis(60);
/// Length of a long window.
pub const LONG: Time = Time::from_millis(600);
/// How long an arrival is in any window.
const SPAN: Time = Time(WINDOWS as u64 * LONG.0);
/// Feature 5 is the mean delay above this.
const BASE_DELAY_MS: f64 = 200.0;
/// Length of [`alphartc4`].
pub const ALPHARTC4: usize = 4;
/// Rates that AlphaRTC's environment maps to 0 and 1.
pub const ALPHARTC_RATES: (Bitrate, Bitrate) = (Bitrate::from_kbps(10), Bitrate::from_mbps(8));

/// A packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// When it left, on the sender's clock.
    pub sent: Time,
    /// When it arrived, on the receiver's clock.
    pub received: Time,
    /// Its size in bytes.
    pub size: u64,
    /// What it carries.
    pub kind: Kind,
    /// Packets missing in front of it, after the packet that was sent before them and arrived.
    pub lost_before: u32,
}

impl Arrival {
    /// Its one-way delay in ns. It is negative if the receiver's clock is behind by more.
    pub fn delay_ns(&self) -> i128 {
        i128::from(self.received.0) - i128::from(self.sent.0)
    }
}

/// Sums over the arrivals of a window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ArrivalWindow {
    /// Packets that arrived.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Packets that were missing in front of them.
    pub lost: u64,
    /// How many of the packets had missing packets in front of them.
    loss_events: u64,
    video: u64,
    audio: u64,
    probes: u64,
    delay_sum_ns: i128,
    delay_min_ns: i128,
    first: Time,
    last: Time,
    /// Sum of the squared times between arrivals, in ms².
    gaps_squared: f64,
}

impl ArrivalWindow {
    /// Adds an arrival that is not earlier than the last one.
    fn add(&mut self, arrival: &Arrival) {
        let delay = arrival.delay_ns();
        if self.packets == 0 {
            (self.first, self.delay_min_ns) = (arrival.received, delay);
        } else {
            let gap = ms((arrival.received.0 - self.last.0).into());
            self.gaps_squared += gap * gap;
        }
        self.last = arrival.received;
        self.packets += 1;
        self.bytes += arrival.size;
        self.lost += u64::from(arrival.lost_before);
        self.loss_events += u64::from(arrival.lost_before > 0);
        self.delay_sum_ns += delay;
        self.delay_min_ns = self.delay_min_ns.min(delay);
        match arrival.kind {
            Kind::Audio => self.audio += 1,
            Kind::Padding => self.probes += 1,
            Kind::Video | Kind::Rtx | Kind::Fec => self.video += 1,
        }
    }

    /// Rate in bit/s, if the window has this length.
    pub fn rate_bps(&self, length: Time) -> f64 {
        ratio(8.0 * self.bytes as f64, length.as_secs_f64())
    }

    /// Mean one-way delay in ms; 0 without packets.
    pub fn delay_ms(&self) -> f64 {
        ratio(ms(self.delay_sum_ns), self.packets as f64)
    }

    /// Share of packets that were lost; 0 without packets.
    pub fn loss(&self) -> f64 {
        ratio(self.lost as f64, (self.lost + self.packets) as f64)
    }

    /// The features of a window of this length, in their order.
    fn features(&self, length: Time, min_seen_ms: f64) -> [f64; PER_WINDOW] {
        let packets = self.packets as f64;
        let (delay, least) = (self.delay_ms(), ms(self.delay_min_ns));
        let gaps = (packets - 1.0).max(0.0);
        let gap = ratio(ms((self.last.0 - self.first.0).into()), gaps);
        let variance = ratio(self.gaps_squared, gaps) - gap * gap;
        let any = f64::from(self.packets > 0);
        [
            self.rate_bps(length),
            packets,
            self.bytes as f64,
            any * (delay - min_seen_ms),
            any * (delay - BASE_DELAY_MS),
            min_seen_ms,
            ratio(delay, least),
            delay - least,
            gap,
            variance.max(0.0).sqrt(),
            self.loss(),
            ratio(self.lost as f64, self.loss_events as f64),
            ratio(self.video as f64, packets),
            ratio(self.audio as f64, packets),
            ratio(self.probes as f64, packets),
        ]
    }
}

/// The arrivals of the last 3 s.
#[derive(Clone, Debug, Default)]
pub struct Features {
    /// By time of arrival.
    arrivals: VecDeque<Arrival>,
    delay_min_ns: Option<i128>,
}

impl Features {
    /// Adds a packet that arrived. Packets come in the order of their arrival; an earlier one finds its place.
    pub fn push(&mut self, arrival: Arrival) {
        let delay = arrival.delay_ns();
        self.delay_min_ns = Some(self.delay_min_ns.map_or(delay, |least| least.min(delay)));
        let later = self.arrivals.iter().rev().take_while(|one| one.received > arrival.received);
        let place = self.arrivals.len() - later.count();
        self.arrivals.insert(place, arrival);
        let newest = self.arrivals.back().map_or(Time::ZERO, |last| last.received);
        while self.arrivals.front().is_some_and(|first| newest.0 - first.received.0 >= SPAN.0) {
            self.arrivals.pop_front();
        }
    }

    /// The least one-way delay of all packets, in ms; `None` before the first.
    pub fn delay_min_ms(&self) -> Option<f64> {
        self.delay_min_ns.map(ms)
    }

    /// The arrivals after `begin`, up to `end` and including it. Arrivals of the last 3 s are known.
    pub fn within(&self, begin: Time, end: Time) -> impl Iterator<Item = &Arrival> {
        let first = self.arrivals.partition_point(|one| one.received <= begin);
        self.arrivals.range(first..).take_while(move |one| one.received <= end)
    }

    /// Sums over these arrivals.
    pub fn window(&self, begin: Time, end: Time) -> ArrivalWindow {
        let mut window = ArrivalWindow::default();
        self.within(begin, end).for_each(|arrival| window.add(arrival));
        window
    }

    /// The 150 features of the bandwidth estimation challenge of 2024 at a time of the receiver's clock, which is not
    /// before the last arrival.
    ///
    /// There are 15 features, and each has ten values: of 5 windows of 60 ms, and of 5 windows of 600 ms, the newest first.
    /// A window has the packets that arrived after its begin, up to and including its end.
    ///
    /// 1. Received rate in bit/s.
    /// 2. Packets.
    /// 3. Bytes.
    /// 4. Queuing delay: mean delay above the least delay of the call, in ms.
    /// 5. Mean delay above 200 ms, in ms.
    /// 6. Least delay of the call so far, in ms.
    /// 7. Mean delay over least delay of the window.
    /// 8. Mean delay above least delay of the window, in ms.
    /// 9. Mean time between two arrivals, in ms.
    /// 10. Its standard deviation, in ms.
    /// 11. Share of packets that were lost.
    /// 12. Mean number of packets that were lost in a row.
    /// 13. Share of packets with video, retransmissions and error correction included.
    /// 14. Share of packets with audio.
    /// 15. Share of probe packets, which are padding.
    ///
    /// What is unknown or a division by zero is 0. Source: microsoft/RL4BandwidthEstimationChallenge at fcf857c. It does not
    /// say that the newest window comes first; two participants' code reads it so.
    pub fn bwe2024(&self, now: Time, out: &mut [f32]) {
        let mut windows = [[ArrivalWindow::default(); WINDOWS]; 2];
        for arrival in &self.arrivals {
            let Some(age) = now.0.checked_sub(arrival.received.0) else { continue };
            for (windows, length) in windows.iter_mut().zip([SHORT, LONG]) {
                if let Some(window) = windows.get_mut((age / length.0) as usize) {
                    window.add(arrival);
                }
            }
        }
        let min_seen_ms = self.delay_min_ms().unwrap_or_default();
        let lengths = [SHORT, LONG].into_iter().flat_map(|length| [length; WINDOWS]);
        for (place, (window, length)) in windows.as_flattened().iter().zip(lengths).enumerate() {
            for (feature, value) in window.features(length, min_seen_ms).into_iter().enumerate() {
                if let Some(out) = out.get_mut(feature * 2 * WINDOWS + place) {
                    *out = value as f32;
                }
            }
        }
    }
}

/// The four numbers that the example agent of AlphaRTC's environment sees of a window of a given length: the received rate on
/// a logarithmic scale, mean delay in s, loss, and the last estimate on that scale. The scale is 0 at 10 kbit/s and 1 at
/// 8 Mbit/s. All are from 0 to 1. Source: OpenNetLab/gym-example at 96df419.
pub fn alphartc4(rate_bps: f64, delay_ms: f64, loss: f64, estimate: Bitrate) -> [f32; ALPHARTC4] {
    let delay = (delay_ms / 1e3).clamp(0.0, 1.0);
    [share_of_rate(rate_bps), delay, loss, share_of_rate(estimate.0 as f64)]
        .map(|value| value as f32)
}

/// Where a rate in bit/s lies between AlphaRTC's bounds on a logarithmic scale, from 0 to 1.
fn share_of_rate(bps: f64) -> f64 {
    let (least, most) = (ALPHARTC_RATES.0.0 as f64, ALPHARTC_RATES.1.0 as f64);
    libm::log(bps.clamp(least, most) / least) / libm::log(most / least)
}

fn ms(ns: i128) -> f64 {
    ns as f64 / 1e6
}

/// `a / b`, and 0 where that is no number.
fn ratio(a: f64, b: f64) -> f64 {
    if b == 0.0 { 0.0 } else { a / b }
}

#[cfg(test)]
mod tests;
