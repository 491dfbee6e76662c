//! Playout of audio as libwebrtc's NetEQ does it, without sound: which packets are played when, what is
//! concealed, and how playout is sped up and slowed down.
//!
//! It runs every 10 ms and has no effect on the network, so it needs no timer: it catches up when a packet
//! arrives and when statistics are read. Without sound, some lengths are assumed, of a pitch period and
//! of the fading of concealment. Comfort noise and silence suppression are not modelled.
//!
//! Source: libwebrtc f3ae3eb62e (2026), `modules/audio_coding/neteq/{neteq_impl,decision_logic}.cc`.

mod arrivals;
mod delay;
mod histogram;
mod sound;

use crate::units::Time;
use arrivals::TransitHistory;
use delay::DelayManager;
use sound::Sound;
use std::collections::VecDeque;

/// Samples in a millisecond: Opus is decoded at 48 kHz.
const PER_MS: i64 = 48;
/// Samples in a second.
const RATE: f64 = 1e3 * PER_MS as f64;
/// Time between two calls of the sound card.
const TICK: Time = Time::from_millis(10);
const TICK_MS: i64 = 10;
/// Samples that the sound card takes.
const OUTPUT: i64 = TICK_MS * PER_MS;
/// Data that time scaling needs.
const SCALING: i64 = 3 * OUTPUT;
/// Samples kept for crossfading.
const OVERLAP: i64 = 30;
/// Ticks between two times that playout is sped up or slowed down.
const SCALING_TICKS: u64 = 5;
/// Margin of the upper limit of the delay: the step of time scaling, rounded up.
const SCALING_MARGIN_MS: i64 = 20;
/// A packet behind a gap is played at once if the buffer exceeds the target by this.
const ABOVE_TARGET_MS: i64 = 50;
/// Maximum number of packets in the buffer.
const MAX_PACKETS: usize = 200;
/// Totals, under the names of W3C webrtc-stats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct NetEqStats {
    /// Samples played, concealed ones included, from the first decoded one on.
    pub total_samples_received: u64,
    /// Samples that concealment made up.
    pub concealed_samples: u64,
    /// Concealed samples that were silence.
    pub silent_concealed_samples: u64,
    /// Beginnings of concealment.
    pub concealment_events: u64,
    /// Samples inserted to slow playout down.
    pub inserted_samples_for_deceleration: u64,
    /// Samples removed to speed playout up.
    pub removed_samples_for_acceleration: u64,
    /// Samples that left the buffer.
    pub jitter_buffer_emitted_count: u64,
    /// Seconds in the buffer, summed over samples.
    pub jitter_buffer_delay: f64,
    /// Target delay in seconds, summed over samples.
    pub jitter_buffer_target_delay: f64,
    /// Target delay without outside constraints, in seconds, summed over samples.
    pub jitter_buffer_minimum_delay: f64,
    /// Seconds from the time that its RTP timestamp would be on a clock of its rate to when the beginning of a packet's
    /// sound is played, summed over samples.
    pub transit: f64,
}

/// A frame of sound in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BufferedFrame {
    /// RTP timestamp.
    timestamp: i64,
    /// Tick of its arrival.
    since: u64,
    /// Whether it is a copy of lower quality from the packet behind it.
    is_copy: bool,
}

/// What happened in the last tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Normal,
    Scaled,
    Expand,
    Merge,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Normal,
    Accelerate,
    Decelerate,
    Expand,
    Merge,
}

/// Playout of one audio stream.
pub struct NetEq {
    /// Samples in a packet.
    frame: i64,
    /// Packets that wait, in order of their timestamps.
    buffer: VecDeque<BufferedFrame>,
    arrivals: TransitHistory,
    delays: DelayManager,
    /// Lower bound of the target, such as for lip synchronisation, in ms.
    min_delay_ms: i64,
    ticks: u64,
    /// When the next tick is due; `None` before the first packet.
    next: Option<Time>,
    /// When the latest tick was due.
    at: Time,
    /// RTP timestamp behind the decoded samples; `None` before the first is decoded.
    end: Option<i64>,
    /// Decoded samples that have not been played.
    left: i64,
    mode: Mode,
    /// Tick of the first concealment since the last packet.
    concealing_since: Option<u64>,
    /// Samples concealed since the last packet.
    concealed: i64,
    /// What concealment repeats.
    sound: Sound,
    /// Samples that merging took back, which the next concealed samples do not count.
    taken_back: i64,
    /// Tick from which time scaling is allowed again.
    scaling_from: u64,
    /// Filtered samples in the buffer.
    level: f64,
    stats: NetEqStats,
}

impl NetEq {
    /// Creates the playout of a stream whose packets have `frame` of sound.
    pub fn new(frame: Time) -> Self {
        NetEq {
            frame: (frame.0 / 1_000) as i64 * PER_MS / 1_000,
            buffer: VecDeque::new(),
            arrivals: TransitHistory::default(),
            delays: DelayManager::new(),
            min_delay_ms: 0,
            ticks: 0,
            next: None,
            at: Time::ZERO,
            end: None,
            left: 0,
            mode: Mode::Normal,
            concealing_since: None,
            concealed: 0,
            sound: Sound::Other,
            taken_back: 0,
            scaling_from: SCALING_TICKS + 1,
            level: 0.0,
            stats: NetEqStats::default(),
        }
    }

    /// Totals up to now.
    pub fn stats(&mut self, now: Time) -> NetEqStats {
        self.advance(now);
        self.stats
    }

    /// Delay from arrival to output, in ms.
    pub fn delay_ms(&mut self, now: Time) -> i64 {
        self.advance(now);
        (self.level as i64 + self.left + OVERLAP) / PER_MS
    }

    /// Sets a lower bound of the delay.
    pub fn set_min_delay(&mut self, now: Time, min_delay: Time) {
        self.advance(now);
        self.min_delay_ms = min_delay.as_millis() as i64;
    }

    /// Takes a packet with an unwrapped RTP timestamp. With `has_fec` it also carries a copy of the frame before
    /// it, which is played if the original is missing (`audio_decoder_opus.cc`, ParsePayload).
    pub fn on_packet(&mut self, now: Time, timestamp: i64, has_fec: bool) {
        self.advance(now);
        // The sound card's first call comes at any time within an interval; here in its middle.
        self.next.get_or_insert(now + Time(TICK.0 / 2));
        let now_ms = self.now_ms();
        if self.end.is_some() {
            if let Some((delay_ms, reordered)) = self.arrivals.add(timestamp / PER_MS, now_ms) {
                self.delays.update(now_ms, delay_ms, reordered);
            }
        }
        if self.buffer.len() >= MAX_PACKETS {
            self.buffer.clear();
        }
        if has_fec {
            self.insert(timestamp - self.frame, true);
        }
        self.insert(timestamp, false);
    }

    /// Puts a frame into the buffer; an original replaces a copy, and nothing else is replaced.
    fn insert(&mut self, timestamp: i64, is_copy: bool) {
        if self.end.is_some_and(|end| timestamp < end) {
            return;
        }
        let new = BufferedFrame { timestamp, since: self.ticks, is_copy };
        // Most packets are the last ones.
        let before = self.buffer.iter().rposition(|waiting| waiting.timestamp <= timestamp);
        match before.and_then(|before| self.buffer.get_mut(before)) {
            Some(same) if same.timestamp == timestamp => {
                if same.is_copy && !is_copy {
                    *same = new;
                }
            }
            _ => self.buffer.insert(before.map_or(0, |before| before + 1), new),
        }
    }

    fn now_ms(&self) -> i64 {
        self.ticks as i64 * TICK_MS
    }

    fn target_ms(&self) -> i64 {
        let most = 3 * MAX_PACKETS as i64 * self.frame / PER_MS / 4;
        self.delays.target_ms().max(self.min_delay_ms).min(most)
    }

    /// Plays everything up to now.
    fn advance(&mut self, now: Time) {
        while let Some(due) = self.next.filter(|due| *due <= now) {
            self.next = Some(due + TICK);
            self.at = due;
            self.tick();
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        let Some(end) = self.end else { return self.start() };
        while self.buffer.front().is_some_and(|first| first.timestamp < end) {
            self.buffer.pop_front();
        }
        let operation = self.decide(end);
        self.perform(operation, end);
        self.output();
    }

    /// Plays the first packet.
    fn start(&mut self) {
        let Some(first) = self.buffer.front() else { return };
        self.end = Some(first.timestamp);
        self.extract(OUTPUT);
        self.output();
    }

    fn decide(&mut self, end: i64) -> Operation {
        if self.mode == Mode::Scaled {
            self.scaling_from = self.ticks + SCALING_TICKS;
        }
        if self.mode != Mode::Expand {
            self.filter_level();
        }
        let Some(next) = self.buffer.front().map(|next| next.timestamp) else {
            return Operation::Expand;
        };
        if self.must_wait() {
            return Operation::Expand;
        }
        if next > end { self.behind_gap(next - end) } else { self.in_order(end) }
    }

    /// Source: libwebrtc, `buffer_level_filter.cc`.
    fn filter_level(&mut self) {
        let kept = match self.target_ms() {
            ..=20 => 251.0,
            21..=60 => 252.0,
            61..=140 => 253.0,
            _ => 254.0,
        };
        let kept = kept / 256.0;
        self.level = self.level * kept + self.span() as f64 * (1.0 - kept);
    }

    /// Samples from the first packet to the end of the last.
    fn span(&self) -> i64 {
        match (self.buffer.front(), self.buffer.back()) {
            (Some(first), Some(last)) => last.timestamp - first.timestamp + self.frame,
            _ => 0,
        }
    }

    /// Whether more should be buffered first, so that playout does not stop again at once.
    fn must_wait(&self) -> bool {
        self.mode == Mode::Expand
            && self.concealed >= self.sound.half_faded()
            && self.waiting() < self.target_ms() * PER_MS / 2
    }

    /// Samples from the first packet to the last, and for how long the last has waited.
    fn waiting(&self) -> i64 {
        match (self.buffer.front(), self.buffer.back()) {
            (Some(first), Some(last)) => {
                last.timestamp - first.timestamp + (self.ticks - last.since) as i64 * OUTPUT
            }
            _ => 0,
        }
    }

    /// The expected packet is there.
    fn in_order(&self, end: i64) -> Operation {
        if self.mode == Mode::Expand {
            return Operation::Normal;
        }
        let playing_ms = (end - self.left - OVERLAP).div_euclid(PER_MS);
        let delay_ms = self.arrivals.delay_ms(playing_ms, self.now_ms());
        let low_ms = self.target_ms();
        let high_ms = low_ms + self.arrivals.max_delay_ms() + SCALING_MARGIN_MS;
        let allowed = self.ticks >= self.scaling_from;
        if delay_ms >= 4 * high_ms || allowed && delay_ms >= high_ms {
            Operation::Accelerate
        } else if allowed && delay_ms < low_ms {
            Operation::Decelerate
        } else {
            Operation::Normal
        }
    }

    /// Only a packet `gap` samples later is there.
    fn behind_gap(&self, gap: i64) -> Operation {
        let is_full = self.waiting() / PER_MS > self.target_ms() + ABOVE_TARGET_MS;
        match (gap <= self.made() || is_full, self.mode) {
            (true, Mode::Expand) => Operation::Merge,
            _ => Operation::Expand,
        }
    }

    /// Samples of time since concealment began.
    fn made(&self) -> i64 {
        self.concealing_since.map_or(0, |since| (self.ticks - since) as i64 * OUTPUT)
    }

    fn perform(&mut self, operation: Operation, end: i64) {
        let enough = self.left >= OUTPUT;
        match operation {
            // Samples decoded before are played first.
            Operation::Normal | Operation::Expand if enough => {
                if self.mode != Mode::Expand {
                    self.mode = Mode::Normal;
                }
            }
            Operation::Normal => self.play(OUTPUT, Mode::Normal),
            Operation::Expand => self.conceal(),
            Operation::Merge => {
                let next = self.buffer.front().map_or(end, |next| next.timestamp);
                if next - end != self.made() {
                    self.level = self.waiting() as f64;
                }
                self.end = Some(next);
                self.merge();
            }
            Operation::Accelerate => self.accelerate(),
            Operation::Decelerate => {
                let short = self.left < 2 * OUTPUT && self.frame < SCALING;
                if self.left < SCALING && (self.left < OUTPUT || self.frame < SCALING) {
                    self.play(if short { 2 * OUTPUT } else { OUTPUT }, Mode::Normal);
                }
                self.mode = Mode::Normal;
                if let Some(period) = self.scaled_by() {
                    self.mode = Mode::Scaled;
                    self.left += period;
                    self.level += period as f64;
                    self.stats.inserted_samples_for_deceleration += period as u64;
                }
            }
        }
    }

    /// Removes a pitch period, or decodes first if there are less than 30 ms.
    fn accelerate(&mut self) {
        if self.left < SCALING {
            if self.left >= OUTPUT && self.frame >= SCALING {
                self.mode = Mode::Normal;
                return;
            }
            if self.left < 2 * OUTPUT && self.frame < SCALING {
                return self.play(2 * OUTPUT, Mode::Normal);
            }
            self.play(OUTPUT, Mode::Normal);
        }
        if self.left < SCALING {
            return;
        }
        if let Some(period) = self.scaled_by() {
            self.mode = Mode::Scaled;
            self.left -= period;
            self.level = (self.level - period as f64).max(0.0);
            self.stats.removed_samples_for_acceleration += period as u64;
        }
    }

    /// Samples that a step of time scaling removes or inserts now; `None` if the sound does not allow it.
    fn scaled_by(&self) -> Option<i64> {
        sound::scaled_by(self.end?)
    }

    fn play(&mut self, required: i64, mode: Mode) {
        self.extract(required);
        self.mode = mode;
        self.concealing_since = None;
        self.concealed = 0;
    }

    /// Decodes packets in order until there are `required` samples of them.
    fn extract(&mut self, required: i64) {
        let mut extracted = 0;
        while extracted < required {
            let Some(end) = self.end else { break };
            let place = self.buffer.binary_search_by_key(&end, |waiting| waiting.timestamp);
            let Some(waiting) = place.ok().and_then(|place| self.buffer.remove(place)) else {
                break;
            };
            let sum_s = |ms: i64| ms as f64 * 1e-3 * self.frame as f64;
            let waited_ms = (self.ticks - waiting.since) as i64 * TICK_MS;
            let (minimum_ms, target_ms) = (self.delays.target_ms(), self.target_ms());
            self.stats.jitter_buffer_emitted_count += self.frame as u64;
            self.stats.jitter_buffer_delay += sum_s(waited_ms);
            self.stats.jitter_buffer_minimum_delay += sum_s(minimum_ms);
            self.stats.jitter_buffer_target_delay += sum_s(target_ms);
            let played_s = self.at.as_secs_f64() + (self.left + OVERLAP) as f64 / RATE;
            self.stats.transit += (played_s - end as f64 / RATE) * self.frame as f64;
            self.end = Some(end + self.frame);
            self.left += self.frame;
            extracted += self.frame;
        }
    }

    /// Joins the rest of concealment with the next packet. Concealment behind the place where the packet begins is
    /// dropped (`merge.cc`).
    fn merge(&mut self) {
        let old = self.left + OVERLAP;
        let before = self.left;
        self.play(OUTPUT, Mode::Merge);
        // What is left then has at least 10 ms.
        let earliest = (old.max(OUTPUT + OVERLAP) - (self.left - before)).max(0);
        let index = earliest.max(self.sound.merge_index(old));
        self.left += index - old;
        self.correct(index - old);
    }

    /// Makes up whole pitch periods until there are 10 ms (`neteq_impl.cc`, DoExpand).
    fn conceal(&mut self) {
        if self.mode != Mode::Expand {
            self.stats.concealment_events += 1;
            self.sound = Sound::before(self.end.unwrap_or(0));
        }
        self.concealing_since.get_or_insert(self.ticks);
        while self.left < OUTPUT {
            let lag = self.sound.lag();
            self.concealed += lag;
            self.left += lag;
            self.correct(lag);
        }
        self.mode = Mode::Expand;
    }

    /// Counts concealed samples. What is taken back reduces what is counted next: the counter never falls
    /// (`statistics_calculator.cc`).
    fn correct(&mut self, samples: i64) {
        let cancelled = samples.min(self.taken_back);
        self.taken_back -= cancelled;
        let counted = (samples - cancelled).max(0) as u64;
        self.stats.concealed_samples += counted;
        if self.concealed > self.sound.faded() {
            self.stats.silent_concealed_samples += counted;
        }
    }

    fn output(&mut self) {
        if self.left < OUTPUT {
            // Frames shorter than 10 ms, and too few of them are there.
            self.conceal();
        }
        self.left -= OUTPUT;
        self.stats.total_samples_received += OUTPUT as u64;
    }
}

#[cfg(test)]
mod tests;
