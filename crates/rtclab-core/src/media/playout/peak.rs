//! The rule of earlier eras: a de-jitter delay that follows the latest picture.

use super::assembly::Assembly;
use super::freezes::FreezeDetector;
use super::{PacketIds, Playout, PlayoutStats, Rendered};
use crate::packet::VideoPart;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// libwebrtc: time for decoding and rendering before a picture is shown.
const RENDER_DELAY: Time = Time::from_millis(10);
/// Wait for a decodable picture before a key frame is requested (libwebrtc, `video_receive_stream2.cc`).
const MAX_WAIT: Time = Time::from_secs(3);
/// Wait before a key frame is requested while one is needed (libwebrtc, `video_receive_stream2.cc`).
const MAX_WAIT_FOR_KEY: Time = Time::from_millis(200);
/// Half-life of the de-jitter delay after a late picture, in seconds.
const JITTER_HALF_LIFE_S: f64 = 5.0;
/// The smallest transit time is valid for this long; then a larger one may replace it.
const BASE_WINDOW: Time = Time::from_secs(10);
/// When a picture would wait for longer than this, its timestamp has jumped: it is shown at once, and the delay is
/// estimated anew. libwebrtc until 2016 did so after 10 s (`receiver.cc`, with kMaxVideoDelayMs), but the model of a
/// phone on 3G with its deep buffer waits for up to 23 s.
const MAX_DELAY: Time = Time::from_secs(60);
/// Most frames kept while none can be decoded (libwebrtc until 2016, `jitter_buffer_common.h`, kMaxNumberOfFrames).
const MAX_FRAMES: usize = 300;
/// Most frames kept in any case, as many as in [`JitterBuffer`](super::JitterBuffer). That is what comes in 27 s at 30/s.
const MAX_WAITING_FRAMES: usize = 800;

/// Receiving end of one video stream, as rtclab models it for browsers before the jitter estimator is known:
/// a picture waits as long as the latest of the last seconds was late, retransmitted pictures included.
pub struct PeakPlayout {
    clock_rate: f64,
    frames: VecDeque<Assembly>,
    last_decoded: Option<i64>,
    last_seq: Option<i64>,
    resolution: (u16, u16),
    /// Smallest transit (arrival minus capture on the sender's clock), and when it was seen, in s.
    base: Option<(f64, Time)>,
    jitter_s: f64,
    last_update: Time,
    last_rendered: Option<Time>,
    freezes: FreezeDetector,
    waiting_since: Time,
    need_key: bool,
    /// Index and time of the next frame to show; cached because most packets do not change it.
    next: Option<(usize, Time)>,
    stats: PlayoutStats,
}

impl PeakPlayout {
    /// Creates the playout of a stream whose RTP clock has `clock_rate` ticks a second.
    pub fn new(clock_rate: f64) -> Self {
        PeakPlayout {
            clock_rate,
            frames: VecDeque::new(),
            last_decoded: None,
            last_seq: None,
            resolution: (0, 0),
            base: None,
            jitter_s: 0.0,
            last_update: Time::ZERO,
            last_rendered: None,
            freezes: FreezeDetector::new(Time(1)),
            waiting_since: Time::ZERO,
            need_key: true,
            next: None,
            stats: PlayoutStats::default(),
        }
    }

    fn key_deadline(&self) -> Time {
        self.waiting_since + if self.need_key { MAX_WAIT_FOR_KEY } else { MAX_WAIT }
    }

    fn find_next(&mut self) {
        self.next = self.next_decodable().map(|i| (i, self.render_time(&self.frames[i])));
    }

    /// Index of the next frame in order if it is complete, otherwise of a complete key frame behind it.
    fn next_decodable(&self) -> Option<usize> {
        let head = self.frames.front()?;
        let continues = !self.need_key && self.last_decoded.is_some_and(|d| d + 1 == head.frame);
        if head.complete.is_some() && (head.key || continues) {
            return Some(0);
        }
        self.frames.iter().position(|f| f.key && f.complete.is_some())
    }

    fn render_time(&self, frame: &Assembly) -> Time {
        let base = self.base.map_or(0.0, |b| b.0);
        let captured_s = frame.timestamp as f64 / self.clock_rate;
        let due = Time::from_secs_f64(captured_s + base + self.jitter_s);
        let due = due.saturating_add(RENDER_DELAY);
        let complete = frame.complete.unwrap_or(Time::MAX);
        if due > complete.saturating_add(MAX_DELAY) { complete } else { due.max(complete) }
    }

    fn on_transit(&mut self, now: Time, transit_s: f64) {
        let base = match self.base {
            Some((smallest, seen)) if transit_s > smallest && now < seen + BASE_WINDOW => smallest,
            // The path has become longer, or a picture took less time: start again.
            _ => {
                self.base = Some((transit_s, now));
                transit_s
            }
        };
        let elapsed = now.saturating_sub(self.last_update).as_secs_f64();
        self.last_update = now;
        self.jitter_s *= libm::exp2(-elapsed / JITTER_HALF_LIFE_S);
        self.jitter_s = self.jitter_s.max(transit_s - base);
        if self.jitter_s > MAX_DELAY.as_secs_f64() {
            (self.base, self.jitter_s) = (Some((transit_s, now)), 0.0);
        }
    }

    fn count_freeze(&mut self, now: Time) {
        let Some(last) = self.last_rendered.replace(now) else { return };
        let interval = now.saturating_sub(last);
        if self.freezes.is_freeze(interval) {
            self.stats.freeze_count += 1;
            self.stats.total_freezes_duration += interval.as_secs_f64();
        }
    }
}

impl Playout for PeakPlayout {
    fn on_packet(
        &mut self,
        now: Time,
        part: &VideoPart,
        marker: bool,
        PacketIds { seq, frame, timestamp }: PacketIds,
        _requested: bool,
    ) -> bool {
        if self.last_decoded.is_some_and(|last| frame <= last) {
            return false;
        }
        if self.waiting_since == Time::ZERO {
            self.waiting_since = now;
        }
        let index = match self.frames.iter().rposition(|f| f.frame <= frame) {
            Some(i) if self.frames[i].frame == frame => i,
            before => {
                let mut i = before.map_or(0, |i| i + 1);
                let most = if self.next.is_none() { MAX_FRAMES } else { MAX_WAITING_FRAMES };
                if self.frames.len() >= most {
                    self.stats.frames_dropped += self.frames.len() as u64;
                    self.frames.clear();
                    self.need_key = true;
                    i = 0;
                }
                self.frames.insert(i, Assembly::new(now, frame, timestamp));
                // Inserting an older frame shifts the ones behind it.
                self.find_next();
                i
            }
        };
        let assembly = &mut self.frames[index];
        assembly.add(part, marker, seq);
        if assembly.complete.is_none() && assembly.is_complete() {
            assembly.complete = Some(now);
            let captured_s = timestamp as f64 / self.clock_rate;
            self.stats.frames_received += 1;
            self.on_transit(now, now.as_secs_f64() - captured_s);
            self.find_next();
        }
        true
    }

    fn poll_key_request(&mut self, now: Time) -> bool {
        let due = self.waiting_since != Time::ZERO && now >= self.key_deadline();
        if due {
            self.need_key = true;
            self.waiting_since = now;
            self.find_next();
        }
        due
    }

    fn poll_timeout(&self) -> Option<Time> {
        if self.waiting_since == Time::ZERO {
            return None;
        }
        Some(self.next.map_or(Time::MAX, |next| next.1).min(self.key_deadline()))
    }

    fn poll(&mut self, now: Time) -> Option<Rendered> {
        let (index, _) = self.next.filter(|(_, due)| *due <= now)?;
        self.stats.frames_dropped += index as u64;
        self.frames.drain(..index);
        let frame = self.frames.pop_front()?;
        let received = frame.complete?;
        self.need_key = false;
        self.last_decoded = Some(frame.frame);
        self.last_seq = frame.last_seq;
        if frame.key {
            self.resolution = frame.resolution;
        }
        self.waiting_since = now;
        self.stats.frames_decoded += 1;
        self.stats.jitter_buffer_emitted_count += 1;
        self.stats.jitter_buffer_delay += now.saturating_sub(frame.first_arrival).as_secs_f64();
        self.count_freeze(now);
        self.find_next();
        Some(Rendered {
            timestamp: frame.timestamp,
            received,
            rendered: now,
            decode: Time::ZERO,
            size: Bytes(frame.size),
            resolution: self.resolution,
        })
    }

    fn target_delay(&self) -> Time {
        Time::from_secs_f64(self.jitter_s) + RENDER_DELAY
    }

    fn settled_seq(&self) -> Option<i64> {
        self.last_seq
    }

    fn resolution(&self) -> (u16, u16) {
        self.resolution
    }

    fn stats(&self) -> &PlayoutStats {
        &self.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame of one packet.
    fn whole(key: bool) -> VideoPart {
        VideoPart { first: true, key, picture_id: 0, resolution: (640, 480), bytes: 1000 }
    }

    /// Frame `n`, of one packet, is captured at `33 n` ms and arrives at `at` ms.
    fn arrive(playout: &mut PeakPlayout, n: i64, at: u64) {
        let ids = PacketIds { seq: n, frame: n, timestamp: 33 * n * 90 };
        playout.on_packet(Time::from_millis(at), &whole(n == 0), true, ids, false);
    }

    fn show(playout: &mut PeakPlayout, until: u64) -> Vec<u64> {
        let mut out = Vec::new();
        while let Some(at) = playout.poll_timeout().filter(|at| *at <= Time::from_millis(until)) {
            playout.poll_key_request(at);
            match playout.poll(at) {
                Some(frame) => out.push(frame.rendered.as_millis()),
                None => break,
            }
        }
        out
    }

    #[test]
    fn frames_on_a_steady_path_are_shown_ten_milliseconds_after_they_are_complete() {
        let mut playout = PeakPlayout::new(90_000.0);
        for n in 0..5 {
            arrive(&mut playout, n, 50 + 33 * n as u64);
        }
        assert_eq!(show(&mut playout, 1000), [60, 93, 126, 159, 192]);
    }

    #[test]
    fn a_missing_frame_holds_the_next_until_it_arrives() {
        let mut playout = PeakPlayout::new(90_000.0);
        arrive(&mut playout, 0, 50);
        assert_eq!(show(&mut playout, 70), [60]);
        arrive(&mut playout, 2, 116);
        assert_eq!(show(&mut playout, 200), [0; 0]);
        arrive(&mut playout, 1, 250); // 167 ms later than the path takes
        let shown = show(&mut playout, 1000);
        assert_eq!(shown.len(), 2);
        assert!(shown[0] >= 250 && shown[1] >= shown[0]);
    }

    #[test]
    fn without_a_decodable_frame_for_three_seconds_a_key_frame_is_requested() {
        let mut playout = PeakPlayout::new(90_000.0);
        arrive(&mut playout, 0, 50);
        show(&mut playout, 70);
        arrive(&mut playout, 2, 116);
        assert!(!playout.poll_key_request(Time::from_millis(3_059)));
        assert!(playout.poll_key_request(Time::from_millis(3_061)));
    }

    /// Number and duration of freezes when pictures are shown every 33 ms, except for one gap.
    fn freezes_with_a_gap(intervals_before: i64, gap_ms: u64) -> (u64, f64) {
        let mut playout = PeakPlayout::new(90_000.0);
        for n in 0..=intervals_before {
            arrive(&mut playout, n, 50 + 33 * n as u64);
            show(&mut playout, 50 + 33 * n as u64 + 15);
        }
        let (n, at) = (intervals_before + 1, 50 + 33 * intervals_before as u64 + gap_ms);
        let ids = PacketIds { seq: n, frame: n, timestamp: at as i64 * 90 - 4_500 };
        playout.on_packet(Time::from_millis(at), &whole(false), true, ids, false);
        show(&mut playout, 10_000);
        (playout.stats().freeze_count, playout.stats().total_freezes_duration)
    }

    #[test]
    fn a_gap_of_a_second_after_forty_frames_is_one_freeze_of_that_length() {
        let (count, duration) = freezes_with_a_gap(39, 1000);
        assert_eq!(count, 1);
        assert!((0.99..1.03).contains(&duration), "{duration}");
    }

    #[test]
    fn freezes_are_detected_from_the_fifth_interval_on() {
        assert_eq!(freezes_with_a_gap(3, 1000).0, 0);
        assert_eq!(freezes_with_a_gap(4, 1000).0, 1);
    }
}
