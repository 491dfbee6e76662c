//! The de-jitter buffer of Chromium 156.

use super::assembly::Assembly;
use super::freezes::Freezes;
use super::timing::{DECODE, DECODE_MS, Leaving, Timing, ms};
use super::{PacketIds, Playout, PlayoutDetails, PlayoutStats, Rendered};
use crate::media::grid::{PERIOD, Timers};
use crate::packet::VideoPart;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// Wait for a decodable frame before a key frame is requested (libwebrtc, `video_receive_stream2.h`).
const MAX_WAIT: Time = Time::from_secs(3);
/// The same while only a key frame can be decoded.
const MAX_WAIT_FOR_KEY: Time = Time::from_millis(200);
/// Without packets for this long a stream is inactive, and no key frame is requested.
const INACTIVE: Time = Time::from_secs(5);
/// A frame that is to be decoded this long before the next point of the grid does not wait for it, and one
/// that is this late may be skipped (libwebrtc, `frame_decode_timing.h`).
const MARGIN: Time = Time::from_millis(5);
/// Most frames kept. libwebrtc keeps this many complete ones (`video_stream_buffer_controller.cc`,
/// kMaxFramesBuffered) and 2,048 packets of incomplete ones (`packet_buffer.cc`); here both kinds count.
const MAX_FRAMES: usize = 800;

/// A frame on its way through the decoder.
struct Decoding {
    frame: Assembly,
    done: Time,
}

/// The next frame for the decoder.
struct Scheduled {
    frame: i64,
    /// When it goes to the decoder.
    release: Time,
    /// When it is to be shown.
    render: Time,
}

/// Receiving end of one video stream in Chromium 156.
///
/// Frames go to the decoder in order, released by a timer of 64 Hz that is early rather than late, so that
/// they can be shown at their capture time plus the current delay. That follows an estimate of jitter, which
/// ignores frames with requested packets but then contains most of a round trip.
///
/// Source: libwebrtc, `video_stream_buffer_controller.cc`, `decode_synchronizer.cc`,
/// `video_receive_stream2.cc`, `packet_buffer.cc`.
pub struct JitterBuffer {
    clock_rate: f64,
    timers: Timers,
    frames: VecDeque<Assembly>,
    /// Last frame that went to the decoder.
    released: Option<i64>,
    settled_seq: Option<i64>,
    scheduled: Option<Scheduled>,
    decoding: Option<Decoding>,
    timing: Timing,
    /// Whether no frame has been assembled yet.
    is_new: bool,
    needs_key: bool,
    /// Since when a key frame is to be requested without waiting.
    urgent: Option<Time>,
    key_deadline: Option<Time>,
    last_packet: Time,
    last_key_packet: Option<Time>,
    resolution: (u16, u16),
    freezes: Freezes,
    stats: PlayoutStats,
    details: PlayoutDetails,
}

impl JitterBuffer {
    /// Creates the buffer of a stream whose RTP clock has `clock_rate` ticks a second, in a browser whose
    /// timers these are.
    pub fn new(clock_rate: f64, timers: Timers) -> Self {
        JitterBuffer {
            clock_rate,
            timers,
            frames: VecDeque::new(),
            released: None,
            settled_seq: None,
            scheduled: None,
            decoding: None,
            timing: Timing::new(Time::ZERO),
            is_new: true,
            needs_key: true,
            urgent: None,
            key_deadline: None,
            last_packet: Time::ZERO,
            last_key_packet: None,
            resolution: (0, 0),
            freezes: Freezes::new(),
            stats: PlayoutStats::default(),
            details: PlayoutDetails::default(),
        }
    }

    /// Timestamp in ticks of 90 kHz.
    fn ticks(&self, timestamp: i64) -> i64 {
        match self.clock_rate == 90_000.0 {
            true => timestamp,
            false => (timestamp as f64 * 90_000.0 / self.clock_rate) as i64,
        }
    }

    /// Index of the frame in the buffer; makes room for a new one.
    fn index_of(&mut self, now: Time, frame: i64, timestamp: i64) -> usize {
        let mut behind = self.frames.len();
        while behind > 0 && self.frames[behind - 1].frame >= frame {
            behind -= 1;
            if self.frames[behind].frame == frame {
                return behind;
            }
        }
        let assembly = Assembly::new(now, frame, timestamp);
        match behind == self.frames.len() {
            true => self.frames.push_back(assembly),
            false => self.frames.insert(behind, assembly),
        }
        behind
    }

    /// Clears a full buffer for a key frame or, if nothing in it can be decoded, for any frame, and then requests a key
    /// frame. Returns whether there is room now.
    fn make_room(&mut self, now: Time, key: bool) -> bool {
        let is_stuck = self.decodable(0).is_none();
        if key || is_stuck {
            self.drop_until(self.frames.len());
            self.scheduled = None;
            self.urgent = self.urgent.or((!key).then_some(now));
        }
        key || is_stuck
    }

    /// Marks frames that are complete together with all that they depend on, from `index` on.
    fn extend(&mut self, index: usize) {
        for i in index..self.frames.len() {
            let frame = &self.frames[i];
            let before = match i.checked_sub(1).map(|i| &self.frames[i]) {
                Some(before) => before.continuous && before.frame + 1 == frame.frame,
                None => self.released == Some(frame.frame - 1),
            };
            let Some(received) = frame.complete.filter(|_| frame.key || before) else { return };
            if frame.continuous {
                continue;
            }
            let (requested, timestamp) = (frame.requested, self.ticks(frame.timestamp));
            self.settled_seq = self.settled_seq.max(frame.last_seq);
            self.frames[i].continuous = true;
            self.stats.frames_received += 1;
            if !requested {
                self.timing.on_continuous(received, timestamp);
            }
        }
    }

    /// Index of the first frame from `index` on that could be decoded next.
    fn decodable(&self, index: usize) -> Option<usize> {
        let next = self.released.map(|frame| frame + 1);
        let can =
            |f: &Assembly| f.continuous && (f.key || (Some(f.frame) == next && !self.needs_key));
        (index..self.frames.len()).find(|i| can(&self.frames[*i]))
    }

    /// Decides when the next frame goes to the decoder.
    fn schedule(&mut self, now: Time) {
        if self.decoding.is_some() {
            return;
        }
        while let Some(first) = self.decodable(0) {
            let frame = self.frames[first].frame;
            let is_scheduled = self.scheduled.as_ref().is_some_and(|next| next.frame == frame);
            if is_scheduled || self.schedule_at(now, first) {
                return;
            }
        }
    }

    /// Decides when the frame with this index goes to the decoder. Drops it, and returns false, if it is late and another
    /// one behind it can be decoded.
    #[inline(never)]
    fn schedule_at(&mut self, now: Time, index: usize) -> bool {
        let (frame, timestamp) = (self.frames[index].frame, self.frames[index].timestamp);
        let render = self.timing.render_time(now, self.ticks(timestamp));
        let decode = render.saturating_sub(self.timing.lead());
        if !self.needs_key && decode + MARGIN <= now && self.decodable(index + 1).is_some() {
            // A key frame behind it is complete as well.
            self.drop_until(index + 1);
            return false;
        }
        let limit = self.key_deadline.unwrap_or(Time::MAX).saturating_sub(Time::from_millis(1));
        let release = match self.needs_key {
            true => now,
            false => self.release_by(now, decode.min(limit).max(now)),
        };
        self.scheduled = Some(Scheduled { frame, release, render });
        true
    }

    /// When a frame that must be decoded by `decode` is released.
    fn release_by(&self, now: Time, decode: Time) -> Time {
        let tick = self.timers.grid.after(now);
        if decode <= now || decode < tick.saturating_sub(MARGIN) {
            return now;
        }
        // The first point such that the next one is too late
        tick.max(self.timers.grid.after(decode.saturating_sub(PERIOD)))
    }

    fn drop_until(&mut self, index: usize) {
        if index == 0 {
            return;
        }
        self.stats.frames_dropped += index as u64;
        self.frames.drain(..index);
    }

    /// Hands the scheduled frame to the decoder at the time of its release.
    fn start_decoding(&mut self) {
        let Some(Scheduled { frame, release: now, render }) = self.scheduled.take() else { return };
        let Some(index) = self.frames.iter().position(|f| f.frame == frame) else { return };
        self.drop_until(index);
        let Some(frame) = self.frames.pop_front() else { return };
        let timestamp = self.ticks(frame.timestamp);
        let Some(received) = frame.complete else { return };
        let timing = &mut self.timing;
        self.needs_key &= !frame.key;
        self.key_deadline = Some(now + MAX_WAIT);
        self.released = Some(frame.frame);
        let (size, requested) = (frame.size, frame.requested);
        timing.on_leaving(now, &Leaving { timestamp, received, size, requested, render });
        self.stats.jitter_buffer_emitted_count += 1;
        self.stats.jitter_buffer_delay += now.saturating_sub(frame.first_arrival).as_secs_f64();
        self.details.jitter_buffer_target_delay += timing.buffer_target_ms() / 1e3;
        self.details.jitter_buffer_minimum_delay += timing.jitter_ms() / 1e3;
        self.decoding = Some(Decoding { frame, done: now + DECODE });
    }

    fn finish_decoding(&mut self, decoding: Decoding) -> Rendered {
        let Decoding { frame, done } = decoding;
        let received = frame.complete.unwrap_or(done);
        self.timing.on_decoded();
        if frame.key {
            self.resolution = frame.resolution;
        }
        self.freezes.on_frame(done);
        let (stats, details, freezes) = (&mut self.stats, &mut self.details, &self.freezes);
        stats.frames_decoded += 1;
        stats.freeze_count = freezes.freezes;
        stats.total_freezes_duration = freezes.frozen_ms as f64 / 1e3;
        let assembly = received.saturating_sub(frame.first_arrival);
        details.key_frames_decoded += u64::from(frame.key);
        details.frames_assembled_from_multiple_packets += u64::from(assembly > Time::ZERO);
        details.total_assembly_time += assembly.as_secs_f64();
        details.total_decode_time += DECODE_MS / 1e3;
        details.total_processing_delay += done.saturating_sub(frame.first_arrival).as_secs_f64();
        details.total_inter_frame_delay = freezes.span_ms() as f64 / 1e3;
        details.total_squared_inter_frame_delay = freezes.squared_s2;
        details.pause_count = freezes.pauses;
        details.total_pauses_duration = freezes.paused_ms as f64 / 1e3;
        stats.details = Some(*details);
        Rendered {
            timestamp: frame.timestamp,
            received,
            rendered: done,
            decode: DECODE,
            size: Bytes(frame.size),
            resolution: self.resolution,
        }
    }
}

impl Playout for JitterBuffer {
    fn on_packet(
        &mut self,
        now: Time,
        part: &VideoPart,
        marker: bool,
        PacketIds { seq, frame, timestamp }: PacketIds,
        requested: bool,
    ) -> bool {
        self.catch_up(now);
        self.last_packet = now;
        if part.key {
            self.last_key_packet = Some(now);
        }
        if self.key_deadline.is_none() {
            // The timer has run since the stream was set up.
            self.key_deadline = Some(self.timers.task(MAX_WAIT_FOR_KEY).after(now));
        }
        if self.released.is_some_and(|released| frame <= released) {
            return false;
        }
        if self.frames.len() >= MAX_FRAMES
            && self.frames.iter().all(|known| known.frame != frame)
            && !self.make_room(now, part.key)
        {
            return false;
        }
        let index = self.index_of(now, frame, timestamp);
        let assembly = &mut self.frames[index];
        assembly.add(part, marker, seq);
        assembly.requested |= requested;
        if assembly.complete.is_none() && assembly.is_complete() {
            assembly.complete = Some(now);
            if self.is_new && !assembly.key {
                self.urgent = Some(now);
            }
            self.is_new = false;
            self.extend(index);
            self.schedule(now);
        }
        true
    }

    fn on_rtt(&mut self, rtt: Time) {
        self.timing.on_rtt(rtt);
    }

    fn set_min_delay(&mut self, delay: Time) {
        self.timing.min_playout_ms = ms(delay);
    }

    fn target_delay(&self) -> Time {
        Time::from_secs_f64(self.timing.target_ms() / 1e3)
    }

    fn poll_key_request(&mut self, now: Time) -> bool {
        self.catch_up(now);
        if self.urgent.take().is_some() {
            return true;
        }
        let Some(deadline) = self.key_deadline.filter(|at| *at <= now) else { return false };
        if self.decoding.is_some() {
            return false;
        }
        self.key_deadline =
            Some(deadline + if self.needs_key { MAX_WAIT_FOR_KEY } else { MAX_WAIT });
        let active = now < self.last_packet + INACTIVE;
        if !active {
            self.freezes.on_inactive();
        }
        let arriving = self.last_key_packet.is_some_and(|at| now < at + MAX_WAIT_FOR_KEY);
        active && !arriving
    }

    fn poll_timeout(&self) -> Option<Time> {
        let deadline = self.key_deadline.unwrap_or(Time::MAX);
        let next = match (&self.decoding, &self.scheduled) {
            (Some(decoding), _) => decoding.done,
            (None, Some(next)) if next.release < deadline => next.release + DECODE,
            _ => deadline,
        };
        let next = next.min(self.urgent.unwrap_or(Time::MAX));
        (next < Time::MAX).then_some(next)
    }

    fn next_silent(&self) -> Time {
        match (&self.decoding, &self.scheduled) {
            (None, Some(next)) => next.release,
            _ => Time::MAX,
        }
    }

    fn catch_up(&mut self, now: Time) {
        if self.next_silent() < now {
            self.start_decoding();
        }
    }

    fn poll(&mut self, now: Time) -> Option<Rendered> {
        loop {
            if let Some(decoding) = self.decoding.take_if(|decoding| decoding.done <= now) {
                let done = decoding.done;
                let rendered = self.finish_decoding(decoding);
                self.schedule(done);
                return Some(rendered);
            }
            if self.next_silent() > now {
                return None;
            }
            self.start_decoding();
        }
    }

    fn settled_seq(&self) -> Option<i64> {
        self.settled_seq
    }

    fn resolution(&self) -> (u16, u16) {
        self.resolution
    }

    fn stats(&self) -> &PlayoutStats {
        &self.stats
    }
}
