//! Counts the packets of a stream by their sequence numbers.
//!
//! Source: RFC 3550, appendix A.1 and A.3; reordering as in RFC 4737, section 3.

/// A packet at least this far ahead may begin a new sequence (RFC 3550, A.1).
const MAX_DROPOUT: u16 = 3000;
/// How far behind the newest a packet can be recognised as late or duplicate. RFC 3550 has 100, which
/// retransmissions under the original number exceed (Chromium of 2013).
const WINDOW: usize = 1024;
/// After a pause of this length, any distance ahead below half the range is a loss and not a new sequence.
const OUTAGE_NS: i64 = 500_000_000;
const CYCLE: i64 = 1 << 16;

/// Order of a packet relative to those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Ahead of all others.
    Newest,
    /// Behind the newest, and not seen before.
    Late,
    /// Seen before.
    Duplicate,
    /// Far from all others. Counted only if the next packet follows it.
    Stray,
    /// Follows a stray packet: the two begin a new sequence.
    Restart,
}

/// Sequence numbers of a stream, extended by the number of wraps. That number begins at 1, so that packets
/// before the first one also have positive numbers.
#[derive(Clone, Debug)]
pub(crate) struct Sequence {
    base: i64,
    newest: i64,
    newest_at_ns: i64,
    /// Bit `n % WINDOW` is set if packet `n` among the last `WINDOW` numbers has been seen.
    seen: [u64; WINDOW / 64],
    /// Sequence number that would follow the last stray packet.
    next_of_stray: Option<u16>,
    /// Packets expected in sequences that have ended.
    expected_before: u64,
    /// Number of packets counted, including duplicates.
    pub(crate) received: u64,
    pub(crate) duplicates: u64,
    pub(crate) reordered: u64,
    pub(crate) restarts: u64,
}

impl Sequence {
    /// Creates a sequence. Its first packet, `first`, must still be [received](Self::receive).
    pub(crate) fn starting_at(first: u16, at_ns: i64) -> Self {
        let base = CYCLE + i64::from(first);
        Sequence {
            base,
            newest: base - 1,
            newest_at_ns: at_ns,
            seen: [0; WINDOW / 64],
            next_of_stray: None,
            expected_before: 0,
            received: 0,
            duplicates: 0,
            reordered: 0,
            restarts: 0,
        }
    }

    /// Counts a packet. Returns its extended number and its order.
    #[inline]
    pub(crate) fn receive(&mut self, seq: u16, at_ns: i64) -> (i64, Order) {
        let ahead = seq.wrapping_sub(self.newest as u16);
        if ahead != 0 && ahead < MAX_DROPOUT {
            return (self.advance(ahead, at_ns), Order::Newest);
        }
        let behind = ahead.wrapping_neg();
        if usize::from(behind) < WINDOW {
            return self.late(behind);
        }
        if ahead < 0x8000 && at_ns - self.newest_at_ns >= OUTAGE_NS {
            return (self.advance(ahead, at_ns), Order::Newest);
        }
        self.stray(seq, at_ns)
    }

    fn advance(&mut self, ahead: u16, at_ns: i64) -> i64 {
        for skipped in 1..=i64::from(ahead).min(WINDOW as i64) {
            self.set_seen(self.newest + skipped, false);
        }
        self.newest += i64::from(ahead);
        self.newest_at_ns = at_ns;
        self.set_seen(self.newest, true);
        self.next_of_stray = None;
        self.received += 1;
        self.newest
    }

    fn late(&mut self, behind: u16) -> (i64, Order) {
        let number = self.newest - i64::from(behind);
        self.received += 1;
        if self.is_seen(number) {
            self.duplicates += 1;
            return (number, Order::Duplicate);
        }
        self.set_seen(number, true);
        self.reordered += 1;
        self.base = self.base.min(number);
        (number, Order::Late)
    }

    fn stray(&mut self, seq: u16, at_ns: i64) -> (i64, Order) {
        if self.next_of_stray != Some(seq) {
            self.next_of_stray = Some(seq.wrapping_add(1));
            return (self.newest, Order::Stray);
        }
        self.expected_before += self.expected_now();
        // The number of wraps is one that the old sequence cannot reach.
        let cycles = (self.newest / CYCLE + 2) * CYCLE;
        self.base = cycles + i64::from(seq) - 1;
        self.newest = self.base;
        self.seen = [0; WINDOW / 64];
        self.set_seen(self.newest, true);
        self.received += 1;
        self.restarts += 1;
        (self.advance(1, at_ns), Order::Restart)
    }

    fn expected_now(&self) -> u64 {
        (self.newest - self.base + 1) as u64
    }

    /// Number of packets from the first to the newest (RFC 3550, A.3).
    pub(crate) fn expected(&self) -> u64 {
        self.expected_before + self.expected_now()
    }

    /// Number of packets never seen: those expected minus those received, without duplicates.
    pub(crate) fn lost(&self) -> u64 {
        self.expected().saturating_sub(self.received - self.duplicates)
    }

    /// Distance of a number from the newest, within half the range.
    pub(crate) fn ahead(&self, seq: u16) -> i16 {
        seq.wrapping_sub(self.newest as u16) as i16
    }

    /// Whether it is known if a packet with this number has been seen: it is ahead or not too far behind.
    pub(crate) fn is_in_window(&self, seq: u16) -> bool {
        i64::from(self.ahead(seq)) > -(WINDOW as i64)
    }

    /// Whether a packet with this number has been seen recently.
    pub(crate) fn has(&self, seq: u16) -> bool {
        let ahead = i64::from(self.ahead(seq));
        ahead <= 0 && self.is_in_window(seq) && self.is_seen(self.newest + ahead)
    }

    fn is_seen(&self, number: i64) -> bool {
        let bit = number as usize % WINDOW;
        self.seen[bit / 64] >> (bit % 64) & 1 == 1
    }

    #[inline]
    fn set_seen(&mut self, number: i64, seen: bool) {
        let bit = number as usize % WINDOW;
        let mask = 1 << (bit % 64);
        if seen {
            self.seen[bit / 64] |= mask;
        } else {
            self.seen[bit / 64] &= !mask;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sequence after packets that arrive 1 ms apart.
    fn after(numbers: &[u16]) -> Sequence {
        let mut sequence = Sequence::starting_at(numbers[0], 0);
        for (index, seq) in numbers.iter().enumerate() {
            sequence.receive(*seq, index as i64 * 1_000_000);
        }
        sequence
    }

    fn counts(numbers: &[u16]) -> (u64, u64, u64, u64) {
        let sequence = after(numbers);
        (sequence.received, sequence.lost(), sequence.duplicates, sequence.reordered)
    }

    #[test]
    fn gaps_count_as_lost_also_across_a_wrap() {
        assert_eq!(counts(&[1, 2, 5]), (3, 2, 0, 0));
        assert_eq!(counts(&[65_534, 1, 2]), (3, 2, 0, 0));
    }

    #[test]
    fn late_packets_fill_gaps_and_duplicates_do_not() {
        assert_eq!(counts(&[1, 2, 4, 3, 5]), (5, 0, 0, 1));
        assert_eq!(counts(&[1, 2, 4, 3, 3, 5]), (6, 0, 1, 1));
        assert_eq!(counts(&[65_535, 1, 0, 65_535]), (4, 0, 1, 1));
        assert_eq!(counts(&[1, 2, 4, 4, 5]), (5, 1, 1, 0));
    }

    #[test]
    fn a_packet_from_before_the_first_moves_the_beginning() {
        assert_eq!(counts(&[0, 65_534, 1]), (3, 1, 0, 1));
    }

    #[test]
    fn packets_are_late_up_to_1023_behind_and_newest_up_to_2999_ahead() {
        let order =
            |distance: u16| after(&[10_000, 10_001]).receive(10_001u16.wrapping_add(distance), 3).1;
        assert_eq!(order(2999), Order::Newest);
        assert_eq!(order(3000), Order::Stray);
        assert_eq!(order(0u16.wrapping_sub(1023)), Order::Late);
        assert_eq!(order(0u16.wrapping_sub(1024)), Order::Stray);
    }

    #[test]
    fn a_stray_packet_counts_only_when_its_successor_follows() {
        assert_eq!(counts(&[1, 2, 30_000, 3]), (3, 0, 0, 0));
        let restarted = after(&[1, 2, 30_000, 30_001, 30_003]);
        assert_eq!((restarted.received, restarted.lost(), restarted.restarts), (5, 1, 1));
    }

    #[test]
    fn after_a_pause_a_long_gap_is_loss() {
        let mut sequence = after(&[1, 2]);
        assert_eq!(sequence.receive(10_002, 2_000_000_000).1, Order::Newest);
        assert_eq!((sequence.lost(), sequence.restarts), (9_999, 0));
    }

    #[test]
    fn extended_numbers_count_wraps_from_one() {
        let mut sequence = after(&[65_535]);
        assert_eq!(sequence.receive(0, 1), (131_072, Order::Newest));
        assert_eq!(sequence.receive(65_534, 2), (131_070, Order::Late));
    }
}
