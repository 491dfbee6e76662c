//! Observations of loss: sizes sent and lost over at least 250 ms of send times, and their weighted mean.

use super::super::arithmetic::{INFINITE, rate_of, scale};
use super::super::packet::PacketResult;
use super::LossEstimatorConfig;

/// What was sent and lost over a span of send times.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LossSample {
    /// Sent, in bytes or packets.
    pub(super) sent: i64,
    /// Lost, in bytes or packets.
    pub(super) lost: i64,
    /// Bytes sent per time, in bit/s.
    pub(super) rate: i64,
    /// Number of observations before it.
    id: u64,
}

/// The last observations, and the one that is being made.
#[derive(Clone, Debug)]
pub(super) struct LossSamples {
    /// Ring of the last observations.
    ring: Vec<LossSample>,
    /// Weights by age.
    weights: Vec<f64>,
    count: u64,
    /// Bytes and packets of the unfinished observation; a packet counts whenever it is reported.
    partial: (i64, i64),
    /// Sequence numbers and sizes of its lost packets, in order.
    lost: Vec<(i64, i64)>,
    /// Largest send time of the last finished observation.
    last: Option<i64>,
    /// Scratch for the median.
    rates: Vec<i64>,
}

impl LossSamples {
    pub(super) fn new(config: &LossEstimatorConfig) -> Self {
        let window = config.window.max(1);
        let weight = |age: usize| libm::pow(config.temporal_weight, age as f64);
        LossSamples {
            ring: Vec::with_capacity(window),
            weights: (0..window).map(weight).collect(),
            count: 0,
            partial: (0, 0),
            lost: Vec::new(),
            last: None,
            rates: Vec::with_capacity(window),
        }
    }

    /// Number of observations ever finished.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Largest send time of the last finished observation, in microseconds.
    pub(super) fn last(&self) -> i64 {
        self.last.unwrap_or(0)
    }

    /// The observations that count with their weights, in the order of the ring.
    pub(super) fn weighted(&self) -> impl Iterator<Item = (&LossSample, f64)> {
        let age = |o: &LossSample| (self.count - 1 - o.id) as usize;
        self.ring.iter().map(move |observation| (observation, self.weights[age(observation)]))
    }

    /// Takes all packets of a report; returns whether an observation is finished.
    pub(super) fn add(&mut self, config: &LossEstimatorConfig, packets: &[PacketResult]) -> bool {
        let (mut first_sent, mut last_sent) = (INFINITE, i64::MIN);
        for packet in packets {
            self.partial = (self.partial.0 + packet.size, self.partial.1 + 1);
            let place = self.lost.binary_search_by_key(&packet.seq, |lost| lost.0);
            match (place, packet.received.is_some()) {
                (Ok(place), true) => drop(self.lost.remove(place)),
                (Err(place), false) => self.lost.insert(place, (packet.seq, packet.size)),
                _ => {}
            }
            (first_sent, last_sent) = (first_sent.min(packet.sent), last_sent.max(packet.sent));
        }
        if packets.is_empty() {
            return false;
        }
        let duration = last_sent - *self.last.get_or_insert(first_sent);
        if duration <= 0 || duration < config.observation_min {
            return false;
        }
        self.last = Some(last_sent);
        let (bytes, packets) = std::mem::take(&mut self.partial);
        let (lost_bytes, lost_packets) =
            (self.lost.iter().map(|lost| lost.1).sum(), self.lost.len() as i64);
        self.lost.clear();
        let (sent, lost) = match config.counts_bytes {
            true => (bytes, lost_bytes),
            false => (packets, lost_packets),
        };
        let observation = LossSample { sent, lost, rate: rate_of(bytes, duration), id: self.count };
        match self.ring.len() < self.weights.len() {
            true => self.ring.push(observation),
            false => self.ring[(self.count % self.weights.len() as u64) as usize] = observation,
        }
        self.count += 1;
        true
    }

    /// Fraction lost, without the observations of highest and lowest loss.
    ///
    /// Both count if fewer than four observations were ever made, or if the one of highest loss came at
    /// `median_factor` times the median rate: then loss followed from a raised rate.
    pub(super) fn loss(&mut self, config: &LossEstimatorConfig) -> f64 {
        if self.ring.iter().all(|observation| observation.lost == 0) {
            return 0.0;
        }
        let (mut sent, mut lost) = (0, 0);
        let (mut highest, mut lowest) = (0.0, 1.0);
        let (mut of_highest, mut of_lowest) = ((0, 0), (0, 0));
        let mut rate_of_highest = 0;
        for (observation, weight) in self.weighted() {
            let weighted = (scale(observation.sent, weight), scale(observation.lost, weight));
            (sent, lost) = (sent + weighted.0, lost + weighted.1);
            if self.count <= 3 || observation.sent == 0 {
                continue;
            }
            let loss = observation.lost as f64 / observation.sent as f64;
            if loss > highest {
                (highest, of_highest, rate_of_highest) = (loss, weighted, observation.rate);
            }
            if loss < lowest {
                (lowest, of_lowest) = (loss, weighted);
            }
        }
        let left = sent - of_highest.0 - of_lowest.0;
        if scale(self.median_rate(), config.median_factor) <= rate_of_highest || left <= 0 {
            return lost as f64 / sent.max(1) as f64;
        }
        (lost - of_highest.1 - of_lowest.1) as f64 / left as f64
    }

    fn median_rate(&mut self) -> i64 {
        self.rates.clear();
        self.rates.extend(self.ring.iter().map(|observation| observation.rate));
        self.rates.sort_unstable();
        let middle = self.rates.len() / 2;
        match (self.rates.len() % 2, self.rates.get(middle)) {
            (_, None) => 0,
            (0, Some(upper)) => (self.rates[middle - 1] + upper) / 2,
            (_, Some(upper)) => *upper,
        }
    }
}
