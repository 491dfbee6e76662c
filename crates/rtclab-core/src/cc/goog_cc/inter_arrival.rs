//! Groups of packets sent together, and the delays between them.
//!
//! Source: libwebrtc, `inter_arrival_delta.cc`.

use super::arithmetic::{MS, SECOND};
use std::mem;

/// Packets sent within this time form a group.
const GROUP: i64 = 5 * MS;
/// Packets that arrive together join the group if they are no further apart than this.
const BURST_GAP: i64 = 5 * MS;
/// Longest group of packets that arrive together.
const BURST: i64 = 100 * MS;
/// The far end's clock jumped if groups arrived this much further apart than their reports.
const CLOCK_JUMP: i64 = 3 * SECOND;
/// Reordered packets in succession after which the groups start anew.
const MAX_REORDERED: u32 = 3;

#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: i64,
    last_sent: i64,
    first_arrival: i64,
    last_arrival: i64,
    /// When the last packet of the group was reported.
    reported: i64,
}

/// Times between two groups, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Deltas {
    /// Between their last send times.
    pub(super) send: i64,
    /// Between their last arrivals.
    pub(super) arrival: i64,
}

/// Splits packets into groups.
#[derive(Debug, Default)]
pub(super) struct InterArrival {
    current: Option<Group>,
    previous: Option<Group>,
    reordered: u32,
}

impl InterArrival {
    /// Adds a packet. Returns the deltas of the two groups before when it starts a new one.
    pub(super) fn add(&mut self, sent: i64, arrival: i64, reported: i64) -> Option<Deltas> {
        let group = Group {
            first_sent: sent,
            last_sent: sent,
            first_arrival: arrival,
            last_arrival: arrival,
            reported,
        };
        let Some(current) = &mut self.current else {
            self.current = Some(group);
            return None;
        };
        if sent < current.first_sent {
            return None;
        }
        if !current.is_ended_by(sent, arrival) {
            current.last_sent = current.last_sent.max(sent);
            current.last_arrival = arrival;
            current.reported = reported;
            return None;
        }
        let deltas = match &self.previous {
            None => None,
            Some(previous) => {
                let deltas = Deltas {
                    send: current.last_sent - previous.last_sent,
                    arrival: current.last_arrival - previous.last_arrival,
                };
                if deltas.arrival - (current.reported - previous.reported) >= CLOCK_JUMP {
                    *self = Self::default();
                    return None;
                }
                if deltas.arrival < 0 {
                    self.reordered += 1;
                    if self.reordered >= MAX_REORDERED {
                        *self = Self::default();
                    }
                    return None;
                }
                self.reordered = 0;
                Some(deltas)
            }
        };
        self.previous = Some(mem::replace(current, group));
        deltas
    }
}

impl Group {
    /// Whether a packet begins the next group.
    fn is_ended_by(&self, sent: i64, arrival: i64) -> bool {
        !self.is_joined_by(sent, arrival) && sent - self.first_sent > GROUP
    }

    /// Whether a packet arrived together with this group, although it was sent later.
    fn is_joined_by(&self, sent: i64, arrival: i64) -> bool {
        let (send_gap, gap) = (sent - self.last_sent, arrival - self.last_arrival);
        send_gap == 0 || gap < send_gap && gap <= BURST_GAP && arrival - self.first_arrival < BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add_ms(groups: &mut InterArrival, sent: i64, arrival: i64, reported: i64) -> Option<Deltas> {
        groups.add(sent * MS, arrival * MS, reported * MS)
    }

    fn delta(send: i64, arrival: i64) -> Option<Deltas> {
        Some(Deltas { send: send * MS, arrival: arrival * MS })
    }

    #[test]
    fn the_third_group_gives_the_first_delta_between_the_last_packets_of_the_two_before() {
        let mut groups = InterArrival::default();
        assert_eq!(add_ms(&mut groups, 0, 50, 60), None);
        assert_eq!(add_ms(&mut groups, 5, 57, 60), None);
        assert_eq!(add_ms(&mut groups, 20, 72, 80), None);
        assert_eq!(add_ms(&mut groups, 40, 95, 100), delta(15, 15));
        assert_eq!(add_ms(&mut groups, 60, 115, 120), delta(20, 23));
    }

    #[test]
    fn packets_that_arrive_together_form_one_group_up_to_100_ms() {
        let mut groups = InterArrival::default();
        add_ms(&mut groups, 0, 200, 300);
        for i in 1..25 {
            // Sent 10 ms apart, arriving 4 ms apart: 24 * 4 = 96 ms.
            assert_eq!(add_ms(&mut groups, 10 * i, 200 + 4 * i, 300), None);
        }
        assert!(groups.previous.is_none());
        add_ms(&mut groups, 250, 300, 300);
        assert!(groups.previous.is_some());
    }

    #[test]
    fn a_packet_sent_before_the_group_is_ignored() {
        let mut groups = InterArrival::default();
        add_ms(&mut groups, 20, 70, 80);
        assert_eq!(add_ms(&mut groups, 19, 90, 100), None);
        assert_eq!(groups.current.map(|group| group.last_arrival), Some(70 * MS));
    }

    #[test]
    fn three_packets_in_a_row_behind_a_negative_delta_start_anew() {
        let mut groups = InterArrival::default();
        add_ms(&mut groups, 0, 100, 100);
        add_ms(&mut groups, 20, 120, 120);
        // Arrived long before: it joins the group and sets its last arrival.
        add_ms(&mut groups, 21, 60, 120);
        for sent in [40, 60] {
            assert_eq!(add_ms(&mut groups, sent, 160, 160), None);
            assert!(groups.current.is_some());
        }
        assert_eq!(add_ms(&mut groups, 80, 160, 160), None);
        assert!(groups.current.is_none() && groups.previous.is_none());
    }

    #[test]
    fn arrivals_three_seconds_further_apart_than_their_reports_start_anew() {
        for (jump, resets) in [(2_999, false), (3_000, true)] {
            let mut groups = InterArrival::default();
            add_ms(&mut groups, 0, 50, 100);
            add_ms(&mut groups, 20, 70 + jump, 120);
            let deltas = add_ms(&mut groups, 40, 90 + jump, 140);
            assert_eq!(deltas.is_none(), resets, "{jump}");
            assert_eq!(groups.current.is_none(), resets, "{jump}");
        }
    }
}
