//! The two passes of a comparison: the first pairs streams, the second matches packets.

use super::clock::{self, ClockEstimate, Envelope};
use super::matching::{Fate, Matcher, Way};
use super::pairing::{self, Pair};
use super::points::{Points, Side};
use crate::monitor::capture::{CaptureError, CaptureReader, Direction, FRAMES_PER_PROGRESS, Frame};
use crate::monitor::config::MonitorConfig;
use crate::monitor::decapsulation;
use crate::monitor::watcher::Monitor;
use std::io::Read;

/// Error of a comparison: which capture could not be read, and why.
#[derive(Debug)]
pub struct CompareError(pub Side, pub CaptureError);

/// Opens a capture at its beginning. Called twice per capture, once for each pass.
pub type Open<'a, R> = &'a mut dyn FnMut(Side) -> Result<CaptureReader<R>, CaptureError>;

/// Result of the first pass at one point.
pub(super) struct Point {
    pub(super) monitor: Monitor,
    /// Index of each stream's pair, by the number of the stream.
    pair_of: Vec<Option<u32>>,
    first_ns: i64,
    last_ns: i64,
    facing: Facing,
}

/// Directions of the frames at a point, as stated by the capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Facing {
    /// There are no frames yet.
    NoFrames,
    /// All frames have this direction.
    All(Direction),
    /// Directions differ, or are not stated.
    Mixed,
}

/// State of a comparison over both passes.
pub(super) struct Comparison {
    points: Points,
    pub(super) config: MonitorConfig,
    pub(super) a: Point,
    pub(super) b: Point,
    pub(super) pairs: Vec<Pair>,
    /// Rough estimate of clock B minus clock A, from the first pass.
    clock_ns: i64,
    same_clock: bool,
    pub(super) matcher: Matcher,
    pub(super) fates: Vec<Fate>,
    to_b: Envelope,
    to_a: Envelope,
    pub(super) without_direction: u64,
    pub(super) faulty: bool,
}

impl Point {
    fn new(config: &MonitorConfig) -> Self {
        let config = MonitorConfig { packets: false, seconds: false, ..config.clone() };
        let monitor = Monitor::for_comparison(config);
        let (first_ns, last_ns) = (i64::MAX, i64::MIN);
        Point { monitor, pair_of: Vec::new(), first_ns, last_ns, facing: Facing::NoFrames }
    }

    fn watch(&mut self, frame: &Frame<'_>) {
        self.first_ns = self.first_ns.min(frame.at_ns);
        self.last_ns = self.last_ns.max(frame.at_ns);
        if self.facing != Facing::Mixed {
            self.facing = match (self.facing, direction(frame)) {
                (Facing::NoFrames, Some(first)) => Facing::All(first),
                (Facing::All(all), Some(this)) if all == this => Facing::All(all),
                _ => Facing::Mixed,
            };
        }
        self.monitor.handle_frame(frame);
    }
}

impl Comparison {
    pub(super) fn new(points: Points, config: &MonitorConfig) -> Self {
        Comparison {
            points,
            config: config.clone(),
            a: Point::new(config),
            b: Point::new(config),
            pairs: Vec::new(),
            clock_ns: 0,
            same_clock: points == Points::Directions,
            matcher: Matcher::default(),
            fates: Vec::new(),
            to_b: Envelope::default(),
            to_a: Envelope::default(),
            without_direction: 0,
            faulty: false,
        }
    }

    /// Returns the point at which a frame was captured, or `None` if a single capture does not state its
    /// direction.
    fn side(&self, capture: Side, frame: &Frame<'_>) -> Option<Side> {
        match self.points {
            Points::TwoCaptures => Some(capture),
            Points::Directions => match direction(frame)? {
                Direction::Inbound => Some(Side::A),
                Direction::Outbound => Some(Side::B),
            },
        }
    }

    pub(super) fn first_pass<R: Read>(
        &mut self,
        capture: Side,
        open: Open<'_, R>,
        read_before: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<u64, CaptureError> {
        let mut reader = open(capture)?;
        let mut frames = 0u64;
        while let Some(frame) = reader.next_frame()? {
            match self.side(capture, &frame) {
                Some(Side::A) => self.a.watch(&frame),
                Some(Side::B) => self.b.watch(&frame),
                None => self.without_direction += 1,
            }
            frames += 1;
            if frames % FRAMES_PER_PROGRESS == 0 && !progress(read_before + reader.bytes_read()) {
                break;
            }
        }
        self.faulty |= reader.faults() != Default::default();
        Ok(read_before + reader.bytes_read())
    }

    pub(super) fn find_pairs(&mut self) {
        self.a.monitor.end_trials();
        self.b.monitor.end_trials();
        self.pairs = pairing::pairs(&self.a.monitor, &self.b.monitor);
        if self.points == Points::TwoCaptures {
            let inbound = self.inbound_side();
            self.same_clock = pairing::orient_one_box(&mut self.pairs, inbound);
            if !self.same_clock {
                self.clock_ns = pairing::orient(&mut self.pairs);
            }
        }
        self.matcher = Matcher::new(self.pairs.iter().map(|pair| self.way(pair)));
        self.a.pair_of = vec![None; self.a.monitor.streams.len()];
        self.b.pair_of = vec![None; self.b.monitor.streams.len()];
        for (number, pair) in self.pairs.iter().enumerate() {
            self.a.pair_of[pair.a as usize] = Some(number as u32);
            self.b.pair_of[pair.b as usize] = Some(number as u32);
        }
    }

    fn way(&self, pair: &Pair) -> Way {
        let span = |point: &Point| (point.first_ns, point.last_ns);
        let (a, b, clock_ns) = (span(&self.a), span(&self.b), self.clock_ns);
        if pair.reverse {
            Way { reverse: true, clock_ns: -clock_ns, first_span: b, second_span: a }
        } else {
            Way { reverse: false, clock_ns, first_span: a, second_span: b }
        }
    }

    /// Returns the capture that holds inbound frames only, if the other one holds outbound frames only.
    fn inbound_side(&self) -> Option<Side> {
        use Direction::{Inbound, Outbound};
        match (self.a.facing, self.b.facing) {
            (Facing::All(Inbound), Facing::All(Outbound)) => Some(Side::A),
            (Facing::All(Outbound), Facing::All(Inbound)) => Some(Side::B),
            _ => None,
        }
    }

    pub(super) fn second_pass<R: Read>(
        &mut self,
        open: Open<'_, R>,
        read_before: u64,
        progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), CompareError> {
        let failed = |side| move |error| CompareError(side, error);
        let mut readers = Vec::new();
        for side in self.points.captures() {
            readers.push((*side, open(*side).map_err(failed(*side))?));
        }
        // Time of the last frame read from each capture, on the common clock. The capture that lags is
        // read next.
        let mut next: Vec<Option<i64>> = vec![Some(i64::MIN); readers.len()];
        let mut frames = 0u64;
        while let Some(index) = earliest(&next) {
            let (capture, reader) = &mut readers[index];
            let Some(frame) = reader.next_frame().map_err(failed(*capture))? else {
                next[index] = None;
                continue;
            };
            next[index] = Some(self.handle(*capture, &frame));
            if let Some(read_ns) = next.iter().flatten().min() {
                self.expire(*read_ns);
            }
            frames += 1;
            let read =
                || read_before + readers.iter().map(|(_, reader)| reader.bytes_read()).sum::<u64>();
            if frames % FRAMES_PER_PROGRESS == 0 && !progress(read()) {
                break;
            }
        }
        self.finish();
        Ok(())
    }

    /// Matches the packet in a frame, if it belongs to a pair. Returns the frame's time on the common
    /// clock, which is A's.
    fn handle(&mut self, capture: Side, frame: &Frame<'_>) -> i64 {
        let Some(side) = self.side(capture, frame) else { return frame.at_ns };
        let (point, common_ns) = match side {
            Side::A => (&self.a, frame.at_ns),
            Side::B => (&self.b, frame.at_ns.saturating_sub(self.clock_ns)),
        };
        let Some((stream, packet)) = point.monitor.identify(frame) else { return common_ns };
        let Some(pair) = point.pair_of[stream as usize] else { return common_ns };
        let Some(fate) = self.matcher.receive((pair, side), common_ns, &packet) else {
            return common_ns;
        };
        if let (Some(first_ns), Some(second_ns)) = (fate.first_ns, fate.second_ns) {
            // The envelopes take times on A's clock.
            if self.pairs[pair as usize].reverse {
                self.to_a.add(second_ns, second_ns - first_ns);
            } else {
                self.to_b.add(first_ns, second_ns - first_ns);
            }
        }
        if self.config.packets {
            self.fates.push(fate);
        }
        common_ns
    }

    /// Expires waiting packets, now that both captures have been read up to `read_ns`.
    fn expire(&mut self, read_ns: i64) {
        let (keep, fates) = (self.config.packets, &mut self.fates);
        self.matcher.expire(read_ns, &mut |fate| {
            if keep {
                fates.push(fate);
            }
        });
    }

    fn finish(&mut self) {
        let (keep, fates) = (self.config.packets, &mut self.fates);
        self.matcher.finish(&mut |fate| {
            if keep {
                fates.push(fate);
            }
        });
    }

    pub(super) fn clock(&self) -> ClockEstimate {
        if !self.same_clock {
            return clock::estimate(&self.to_b, &self.to_a);
        }
        ClockEstimate {
            method: "same clock",
            offset_ns: Some(0.0),
            offset_error_ns: Some(0.0),
            drift: Some(0.0),
            at_ns: self.a.first_ns.max(0),
        }
    }
}

/// Direction of a frame, from the capture or from its link header.
fn direction(frame: &Frame<'_>) -> Option<Direction> {
    frame.direction.or_else(|| decapsulation::open(frame).point.direction)
}

/// Index of the capture that has been read the least far, among those that have not ended.
pub(super) fn earliest(next: &[Option<i64>]) -> Option<usize> {
    let left = next.iter().enumerate().filter_map(|(index, at)| at.map(|at| (at, index)));
    left.min().map(|(_, index)| index)
}
