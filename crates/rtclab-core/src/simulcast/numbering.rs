//! Makes one continuous RTP stream of the layers that are forwarded one after the other.
//!
//! The first layer keeps its sequence numbers and timestamps, so that a packet before the server can be matched
//! with the one after it. A layer that follows another continues where that one ended. Within a layer, numbers
//! keep their distances: a packet that was lost or is late leaves a gap, and fills it when it comes.

use crate::units::{RemoteTime, Time};

const SEQ_CYCLE: u64 = 1 << 16;
/// A picture number has 15 bits (RFC 7741, 4.2).
const PICTURE_MASK: u16 = 0x7fff;

/// Numbers in the headers of a packet of video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Numbers {
    /// Sequence number, with the cycles of its 16 bits.
    pub seq: u64,
    /// RTP timestamp, in units of 1/90000 s.
    pub timestamp: u32,
    /// Picture number of VP8; `None` if it need not change or is not there.
    pub picture: Option<u16>,
    /// Number of the picture of the base layer in time (`TL0PICIDX` of VP8), likewise.
    pub tl0: Option<u8>,
}

/// What a sender report says about the clock of a layer's timestamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockReport {
    /// A moment on the sender's clock, which all its layers share.
    pub at: RemoteTime,
    /// The layer's timestamp at this moment.
    pub timestamp: u32,
}

/// The numbers of a received packet, and what else the numbering needs to know about it.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReceivedNumbers {
    /// The numbers that it came with.
    pub numbers: Numbers,
    /// When it came.
    pub at: Time,
    /// The newest report about the clock of its layer.
    pub clock: Option<ClockReport>,
}

/// The numbering of one forwarded stream.
#[derive(Debug)]
pub struct Numbering {
    /// First received number of the current layer. Older packets belong to nothing that is forwarded.
    first_seq: u64,
    seq_offset: u64,
    time_offset: u32,
    picture_offset: u16,
    tl0_offset: u8,
    last: Last,
}

/// The newest packet, as it was forwarded.
#[derive(Debug)]
struct Last {
    seq: u64,
    timestamp: u32,
    picture: u16,
    tl0: u8,
    at: Time,
    /// The newest report about the clock of its layer.
    clock: Option<ClockReport>,
}

impl Numbering {
    /// Begins with a stream, whose numbers stay as they are.
    ///
    /// The receiver counts the cycles of the 16-bit sequence number from 0, so the server does too.
    pub fn new(first: &ReceivedNumbers) -> Self {
        let Numbers { seq, timestamp, .. } = first.numbers;
        let cycles = seq / SEQ_CYCLE * SEQ_CYCLE;
        Numbering {
            first_seq: cycles,
            seq_offset: cycles.wrapping_neg(),
            time_offset: 0,
            picture_offset: 0,
            tl0_offset: 0,
            last: Last {
                seq: seq - cycles,
                timestamp,
                picture: 0,
                tl0: 0,
                at: first.at,
                clock: None,
            },
        }
    }

    /// Continues with another layer, from the first packet of its key frame.
    pub fn switch(&mut self, first: &ReceivedNumbers) {
        let Numbers { seq, timestamp, picture, tl0 } = first.numbers;
        self.first_seq = seq;
        self.seq_offset = (self.last.seq + 1).wrapping_sub(seq);
        self.time_offset = self.next_timestamp(first).wrapping_sub(timestamp);
        self.picture_offset = (self.last.picture + 1).wrapping_sub(picture.unwrap_or(0));
        self.tl0_offset = self.last.tl0.wrapping_add(1).wrapping_sub(tl0.unwrap_or(0));
        self.last.clock = None;
    }

    /// The numbers with which a packet of the current layer is forwarded; `None` if the packet is from before the
    /// switch to its layer.
    pub fn apply(&mut self, packet: &ReceivedNumbers) -> Option<Numbers> {
        let Numbers { seq, timestamp, picture, tl0 } = packet.numbers;
        if seq < self.first_seq {
            return None;
        }
        let picture = picture.map(|it| it.wrapping_add(self.picture_offset) & PICTURE_MASK);
        let numbers = Numbers {
            seq: seq.wrapping_add(self.seq_offset),
            timestamp: timestamp.wrapping_add(self.time_offset),
            picture,
            tl0: tl0.map(|it| it.wrapping_add(self.tl0_offset)),
        };
        if numbers.seq >= self.last.seq {
            self.last = Last {
                seq: numbers.seq,
                timestamp: numbers.timestamp,
                picture: numbers.picture.unwrap_or(self.last.picture),
                tl0: numbers.tl0.unwrap_or(self.last.tl0),
                at: packet.at,
                clock: packet.clock.or(self.last.clock),
            };
        }
        Some(numbers)
    }

    /// Timestamp for the first packet of another layer: the time of its capture, on the clock of what was
    /// forwarded last. Sender reports relate the clocks of the layers to each other. Before there are any,
    /// the time since the last packet came replaces them. It is later than the timestamp of the last packet.
    fn next_timestamp(&self, first: &ReceivedNumbers) -> u32 {
        let last = self.last.timestamp;
        let clocks = self.last.clock.zip(first.clock);
        let by_reports = clocks.map(|(old, new)| {
            let since_report = first.numbers.timestamp.wrapping_sub(new.timestamp);
            let report = old.timestamp.wrapping_add(self.time_offset);
            report.wrapping_add(ticks_between(old.at.0, new.at.0)).wrapping_add(since_report)
        });
        let next =
            by_reports.unwrap_or_else(|| last.wrapping_add(ticks_between(self.last.at, first.at)));
        let ahead = next.wrapping_sub(last);
        if ahead == 0 || ahead > u32::MAX / 2 { last.wrapping_add(1) } else { next }
    }
}

/// Ticks of 1/90000 s from one time to another, rounded to nearest. As timestamps, ticks wrap, and those into the past
/// are large.
fn ticks_between(from: Time, to: Time) -> u32 {
    let nanos = i128::from(to.as_nanos()) - i128::from(from.as_nanos());
    (nanos * 9 + 50_000).div_euclid(100_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(seq: u64, timestamp: u32, at_ms: u64) -> ReceivedNumbers {
        let numbers = Numbers { seq, timestamp, ..Numbers::default() };
        ReceivedNumbers { numbers, at: Time::from_millis(at_ms), clock: None }
    }

    fn reported(packet: ReceivedNumbers, at_ms: u64, timestamp: u32) -> ReceivedNumbers {
        let at = RemoteTime(Time::from_millis(at_ms));
        ReceivedNumbers { clock: Some(ClockReport { at, timestamp }), ..packet }
    }

    /// Forwards a packet of one layer and one of another, and returns the numbers of the second.
    fn after_switch(old: ReceivedNumbers, new: ReceivedNumbers) -> Option<(u64, u32)> {
        let mut numbering = Numbering::new(&old);
        numbering.apply(&old);
        numbering.switch(&new);
        numbering.apply(&new).map(|it| (it.seq, it.timestamp))
    }

    #[test]
    fn the_first_layer_keeps_its_numbers_but_for_the_cycles_of_sequence_numbers() {
        let first = received(65_536 + 3, 900, 0);
        let mut numbering = Numbering::new(&first);
        let mut seq = |seq| numbering.apply(&received(seq, 900, 0)).map(|it| it.seq);
        assert_eq!(seq(65_536 + 3), Some(3));
        assert_eq!(seq(65_536 + 1), Some(1), "a late packet");
        assert_eq!(seq(65_535), None, "the receiver knows no cycle before the first");
        assert_eq!(seq(2 * 65_536), Some(65_536));
    }

    #[test]
    fn without_reports_a_layer_follows_by_the_time_of_arrival() {
        // 20 ms are 1800 ticks.
        let (old, new) = (received(100, 5_000, 40), received(9_000, 70, 60));
        assert_eq!(after_switch(old, new), Some((101, 6_800)));
        let reported_old = reported(old, 0, 0);
        assert_eq!(after_switch(reported_old, new), Some((101, 6_800)), "one report is not enough");
    }

    #[test]
    fn with_reports_a_layer_follows_by_the_time_of_capture() {
        // The old packet was captured 100 ms after 10.00 s, the new one 100 ms after 10.05 s. They came together.
        let old = reported(received(100, 1_000 + 9_000, 40), 10_000, 1_000);
        let new = reported(received(9_000, 50 + 9_000, 40), 10_050, 50);
        assert_eq!(after_switch(old, new), Some((101, 10_000 + 4_500)));
    }

    #[test]
    fn a_layer_that_was_captured_earlier_follows_by_one_tick() {
        let old = reported(received(100, 10_000, 40), 10_000, 10_000);
        let new = reported(received(9_000, 9_000, 50), 9_900, 9_000);
        assert_eq!(after_switch(old, new), Some((101, 10_001)));
    }
}
