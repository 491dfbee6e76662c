//! Merges packets that were sent together into groups, and compares consecutive groups.

/// Which packets form a group.
///
/// Source: libwebrtc 4d06db557a, `overuse_detector.cc` (frames); 524ecc29dd, `inter_arrival.cc`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Grouping {
    /// Ticks of the sender's timestamp per millisecond.
    pub(crate) ticks_per_ms: f64,
    /// Packets sent within this time of the first packet of a group belong to it.
    pub(crate) length_ms: f64,
    /// Which packets that arrive in a burst after a backlog stay in one group.
    pub(crate) bursts: BurstRule,
}

/// Which packets that arrive in a burst stay in one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BurstRule {
    /// None beyond the length of the group.
    Split,
    /// All that arrive sooner after the last one than they were sent.
    Merged,
    /// The same, for at most 100 ms, with times between sending in whole milliseconds (libwebrtc since 2018).
    MergedFor100Ms,
}

impl Grouping {
    /// Packets of one frame: the same RTP timestamp, on a 90 kHz clock.
    pub(crate) const FRAMES: Grouping =
        Grouping { ticks_per_ms: 90.0, length_ms: 0.0, bursts: BurstRule::Split };
    /// Packets within 5 ms of abs-send-time, shifted from 24 to 32 bits.
    pub(crate) const BURSTS_OF_5_MS: Grouping = Grouping {
        ticks_per_ms: (1 << 26) as f64 / 1e3,
        length_ms: 5.0,
        bursts: BurstRule::Merged,
    };
    /// The same, as libwebrtc f3ae3eb62e (August 2026) groups them.
    pub(crate) const BURSTS_SINCE_2018: Grouping =
        Grouping { bursts: BurstRule::MergedFor100Ms, ..Grouping::BURSTS_OF_5_MS };
}

/// A packet that arrives within this time of the previous one of its group may belong to a burst.
const BURST_ARRIVAL_MS: i64 = 5;
/// With [`BurstRule::MergedFor100Ms`], a burst ends this long after the first arrival of its group.
const LONGEST_BURST_MS: i64 = 100;

/// Differences between two consecutive groups.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Deltas {
    /// Time between their last packets at the sender.
    pub(crate) send_ms: f64,
    /// Time between their last packets at the receiver.
    pub(crate) arrival_ms: f64,
    /// Size of the later group minus size of the earlier one, in bytes.
    pub(crate) size: f64,
}

#[derive(Clone, Copy)]
struct Group {
    first: u32,
    last: u32,
    first_arrival_ms: i64,
    complete_ms: i64,
    size: u64,
}

/// The group being received, and the complete one before it.
pub(crate) struct Groups {
    grouping: Grouping,
    current: Option<Group>,
    previous: Option<Group>,
}

impl Groups {
    pub(crate) fn new(grouping: Grouping) -> Self {
        Groups { grouping, current: None, previous: None }
    }

    /// Adds an arriving packet. If it starts a group, returns the differences between the two before it.
    pub(crate) fn on_packet(
        &mut self,
        timestamp: u32,
        arrival_ms: i64,
        size: u64,
    ) -> Option<Deltas> {
        let fresh = Group {
            first: timestamp,
            last: timestamp,
            first_arrival_ms: arrival_ms,
            complete_ms: arrival_ms,
            size,
        };
        let Some(current) = &mut self.current else {
            self.current = Some(fresh);
            return None;
        };
        if timestamp.wrapping_sub(current.first) > u32::MAX / 2 {
            // Sent before the group began: reordered or retransmitted.
            return None;
        }
        let grouping = self.grouping;
        let since_first = f64::from(timestamp.wrapping_sub(current.first)) / grouping.ticks_per_ms;
        let ticks = timestamp.wrapping_sub(current.last) as i32;
        let send_ms = f64::from(ticks) / grouping.ticks_per_ms;
        let gap_ms = arrival_ms - current.complete_ms;
        let burst = match grouping.bursts {
            BurstRule::Split => false,
            BurstRule::Merged => {
                ticks == 0 || (gap_ms <= BURST_ARRIVAL_MS && (gap_ms as f64) < send_ms)
            }
            BurstRule::MergedFor100Ms => {
                let send_ms = (send_ms + 0.5).floor() as i64;
                let length_ms = arrival_ms - current.first_arrival_ms;
                let catches_up = gap_ms <= BURST_ARRIVAL_MS && gap_ms < send_ms;
                send_ms == 0 || (catches_up && length_ms < LONGEST_BURST_MS)
            }
        };
        if since_first <= grouping.length_ms || burst {
            if timestamp.wrapping_sub(current.last) <= u32::MAX / 2 {
                current.last = timestamp;
            }
            current.complete_ms = arrival_ms;
            current.size += size;
            return None;
        }
        let complete = std::mem::replace(current, fresh);
        let deltas = self.previous.map(|previous| Deltas {
            send_ms: f64::from(complete.last.wrapping_sub(previous.last)) / grouping.ticks_per_ms,
            arrival_ms: (complete.complete_ms - previous.complete_ms) as f64,
            size: complete.size as f64 - previous.size as f64,
        });
        self.previous = Some(complete);
        deltas
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_complete_frames_give_one_difference_when_the_third_begins() {
        let mut groups = Groups::new(Grouping::FRAMES);
        let packets = [(0, 0, 1000), (0, 8, 500), (3000, 40, 900), (3000, 50, 800), (6000, 70, 1)];
        let deltas: Vec<_> =
            packets.iter().filter_map(|&(t, at, size)| groups.on_packet(t, at, size)).collect();
        // 3000 ticks = 33.3 ms; complete at 8 and 50 ms; 1700 - 1500 bytes
        assert_eq!(deltas, [Deltas { send_ms: 3000.0 / 90.0, arrival_ms: 42.0, size: 200.0 }]);
    }

    #[test]
    fn a_packet_of_an_older_frame_changes_nothing() {
        let mut groups = Groups::new(Grouping::FRAMES);
        for (timestamp, at) in [(0, 0), (3000, 33), (0, 60), (6000, 67)] {
            if let Some(deltas) = groups.on_packet(timestamp, at, 1000) {
                assert_eq!((deltas.arrival_ms, deltas.size), (33.0, 0.0));
            }
        }
    }

    #[test]
    fn timestamps_may_wrap() {
        let mut groups = Groups::new(Grouping::FRAMES);
        let start = u32::MAX - 2_999;
        let last = (0..3).filter_map(|i: u32| {
            groups.on_packet(start.wrapping_add(3000 * i), 33 * i64::from(i), 1000)
        });
        assert_eq!(last.last().map(|deltas| deltas.send_ms), Some(3000.0 / 90.0));
    }

    #[test]
    fn packets_sent_6_ms_apart_that_arrive_4_ms_apart_are_one_burst() {
        let ticks = |ms: f64| (ms * Grouping::BURSTS_OF_5_MS.ticks_per_ms) as u32;
        let count = |arrival_step: i64| {
            let mut groups = Groups::new(Grouping::BURSTS_OF_5_MS);
            let deltas = (0..10).filter_map(|i| {
                groups.on_packet(ticks(6.0 * f64::from(i)), arrival_step * i64::from(i), 1000)
            });
            deltas.count()
        };
        assert_eq!((count(4), count(6)), (0, 8));
    }
}
