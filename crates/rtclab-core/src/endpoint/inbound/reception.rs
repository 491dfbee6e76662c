//! Reception counters of one stream, for reports and statistics.

use crate::packet::{Ecn, Kind, Rtp};
use crate::rtp::rtcp::ReportBlock;
use crate::rtp::{RtpHeader, SeqUnwrapper};
use crate::units::Time;

/// Packets of one stream by ECN codepoint, retransmissions included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::endpoint) struct Marks {
    pub(in crate::endpoint) ect1: u64,
    pub(in crate::endpoint) congestion_experienced: u64,
}

impl Marks {
    pub(super) fn count(&mut self, ecn: Ecn) {
        self.ect1 += u64::from(ecn == Ecn::Ect1);
        self.congestion_experienced += u64::from(ecn == Ecn::CongestionExperienced);
    }
}

/// Reception of one stream, counted as in RFC 3550, appendix A.
#[derive(Default)]
pub(in crate::endpoint) struct Reception {
    pub(in crate::endpoint) unwrapper: SeqUnwrapper,
    first: Option<i64>,
    highest: i64,
    pub(in crate::endpoint) packets: u64,
    pub(in crate::endpoint) payload_bytes: u64,
    pub(in crate::endpoint) header_bytes: u64,
    jitter: Jitter,
    reported: (i64, u64),
    /// Middle bits of the NTP time of the stream's last sender report, and when it arrived.
    pub(super) sender_report: Option<(u32, Time)>,
    /// Detects retransmissions that arrive on the stream itself.
    retransmissions: Option<Retransmissions>,
}

/// A stream that has been silent for this long is left out of reports (libwebrtc, `receive_statistics_impl.cc`,
/// kStatisticsTimeoutMs).
const SILENT: Time = Time::from_secs(8);

/// Interarrival jitter, computed as in libwebrtc from 2013 to 2026 (`receive_statistics_impl.cc`, `UpdateCounters` and
/// `UpdateJitter`): with the first packet in order of each RTP timestamp, against the packet in order before it. RFC 3550,
/// section 6.4.1, computes it with every packet.
#[derive(Default)]
struct Jitter {
    /// Ticks of the RTP clock, times 16.
    ticks_q4: i32,
    /// Arrival time and RTP timestamp of the last packet in order.
    last: Option<(Time, u32)>,
}

impl Jitter {
    /// Larger differences do not count: 5 s of a 90 kHz clock.
    const LARGEST: u32 = 450_000;

    /// Takes a packet in order.
    fn on_packet(&mut self, now: Time, timestamp: u32, clock: u64) {
        let Some((at, before)) = self.last.replace((now, timestamp)) else { return };
        if timestamp == before {
            return;
        }
        let elapsed = u128::from(now.saturating_sub(at).0) * u128::from(clock) / 1_000_000_000;
        let sent = timestamp.wrapping_sub(before);
        let difference = ((elapsed as u32).wrapping_sub(sent) as i32).unsigned_abs();
        if difference < Self::LARGEST {
            self.ticks_q4 += (difference as i32 * 16 - self.ticks_q4 + 8) >> 4;
        }
    }

    fn ticks(&self) -> u32 {
        (self.ticks_q4 >> 4) as u32
    }
}

/// Tells retransmissions from late packets. Retransmissions do not count as received, so that the sender
/// still sees the loss.
///
/// Source: libwebrtc 4d06db557a (2013), `rtp_rtcp/source/rtp_receiver.cc`.
#[derive(Default)]
struct Retransmissions {
    min_rtt: Option<Time>,
}

impl Retransmissions {
    /// Whether an out-of-order packet is later than reordering explains: by more than a third of the smallest
    /// round-trip time plus 1 ms, or, until one is known, by two standard deviations of the jitter.
    fn is_retransmission(&self, now: Time, timestamp: u32, jitter: &Jitter, clock: u64) -> bool {
        let Some((at, last)) = jitter.last else { return false };
        let ticks = timestamp.wrapping_sub(last) as i32;
        let elapsed_ms = now.saturating_sub(at).as_secs_f64() * 1e3;
        let behind_ms = f64::from(ticks) * 1e3 / clock as f64;
        let tolerance_ms = match self.min_rtt {
            Some(rtt) => rtt.as_secs_f64() * 1e3 / 3.0 + 1.0,
            None => (2.0 * f64::from(jitter.ticks()).sqrt() * 1e3 / clock as f64).max(1.0),
        };
        elapsed_ms > behind_ms + tolerance_ms
    }
}

impl Reception {
    /// For a stream on which retransmissions keep the original sequence number.
    pub(in crate::endpoint) fn with_retransmissions() -> Self {
        Reception { retransmissions: Some(Retransmissions::default()), ..Reception::default() }
    }

    /// The unwrapped sequence number, and whether the packet is a retransmission on this stream.
    pub(in crate::endpoint) fn identify(
        &mut self,
        now: Time,
        header: &RtpHeader,
        clock: u64,
    ) -> (i64, bool) {
        let seq = self.unwrapper.unwrap(header.seq);
        let again = !self.is_in_order(seq)
            && self.retransmissions.as_ref().is_some_and(|retransmissions| {
                retransmissions.is_retransmission(now, header.timestamp, &self.jitter, clock)
            });
        (seq, again)
    }

    fn is_in_order(&self, seq: i64) -> bool {
        self.first.is_none() || seq > self.highest
    }

    /// Counts a packet by its unwrapped sequence number.
    pub(in crate::endpoint) fn count(&mut self, now: Time, packet: &Rtp, seq: i64, clock: u64) {
        if self.is_in_order(seq) {
            self.jitter.on_packet(now, packet.header.timestamp, clock);
            self.highest = seq;
        }
        self.first.get_or_insert(seq);
        self.packets += 1;
        if packet.kind != Kind::Padding {
            self.payload_bytes += packet.payload_bytes();
        }
        self.header_bytes += packet.header_bytes();
    }

    /// Takes a measured round-trip time.
    pub(in crate::endpoint) fn on_rtt(&mut self, rtt: Time) {
        if let Some(Retransmissions { min_rtt, .. }) = &mut self.retransmissions {
            *min_rtt = Some(min_rtt.map_or(rtt, |min| min.min(rtt)));
        }
    }

    /// What a report block says about the stream's last sender report: its time, and how long ago it came in
    /// 1/65536 s.
    pub(super) fn echo(&self, now: Time) -> (u32, u32) {
        self.sender_report.map_or((0, 0), |(middle, at)| {
            // In two steps, whose products fit into 64 bits.
            let since = now.saturating_sub(at).0;
            let (seconds, rest) = (since / 1_000_000_000, since % 1_000_000_000);
            (middle, (seconds * 65_536 + rest * 65_536 / 1_000_000_000) as u32)
        })
    }

    fn expected(&self) -> i64 {
        self.first.map_or(0, |first| self.highest - first + 1)
    }

    pub(in crate::endpoint) fn lost(&self) -> i64 {
        self.expected() - self.packets as i64
    }

    pub(in crate::endpoint) fn jitter_s(&self, clock: u64) -> f64 {
        f64::from(self.jitter.ticks()) / clock as f64
    }

    /// Whether packets in order have arrived of late, so that reports have a block for the stream.
    pub(super) fn is_active(&self, now: Time) -> bool {
        self.jitter.last.is_some_and(|(at, _)| now.saturating_sub(at) < SILENT)
    }

    /// Creates a report block and starts a new interval.
    pub(in crate::endpoint) fn report(&mut self, ssrc: u32) -> ReportBlock {
        let (expected, received) =
            (self.expected() - self.reported.0, self.packets - self.reported.1);
        self.reported = (self.expected(), self.packets);
        let lost = (expected - received as i64).max(0);
        // In libwebrtc, from 2013 (`rtp_receiver.cc`) to 2026, 255 means all; in RFC 3550, 256 would.
        let fraction_lost = if expected > 0 { lost * 255 / expected } else { 0 };
        ReportBlock {
            ssrc,
            fraction_lost: fraction_lost as u8,
            cumulative_lost: self.lost() as i32,
            highest_seq: self.highest as u32,
            jitter: self.jitter.ticks(),
            ..ReportBlock::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Kind, RtpPayload, VideoPart};

    const CLOCK: u64 = 90_000;

    /// Loss reported after frames of two packets each, 33 ms apart, and then `late` packets, given as
    /// (sequence number, arrival in ms).
    fn lost_after(rtt_ms: u64, late: &[(u16, u64)]) -> (u8, i64) {
        let mut reception = Reception::with_retransmissions();
        reception.on_rtt(Time::from_millis(rtt_ms));
        let mut receive = |seq: u16, ms| {
            let timestamp = u32::from(seq / 2) * 33 * 90;
            let header = RtpHeader { seq, timestamp, ..RtpHeader::default() };
            let payload = RtpPayload::Video(VideoPart::default());
            let packet = Rtp { header, payload, kind: Kind::Video };
            let at = Time::from_millis(ms);
            let (whole, again) = reception.identify(at, &packet.header, CLOCK);
            if !again {
                reception.count(at, &packet, whole, CLOCK);
            }
        };
        for seq in (0..10).filter(|seq| late.iter().all(|late| late.0 != *seq)) {
            receive(seq, u64::from(seq / 2) * 33);
        }
        late.iter().for_each(|(seq, ms)| receive(*seq, *ms));
        let block = reception.report(1);
        (block.fraction_lost, reception.lost())
    }

    /// The jitter in 1/16 ticks after packets, given as (sequence number, frame, arrival in ms), of frames 30 ms apart.
    fn jitter_q4(packets: &[(u16, u32, u64)]) -> i32 {
        let mut reception = Reception::default();
        for &(seq, frame, ms) in packets {
            let header = RtpHeader { seq, timestamp: frame * 30 * 90, ..RtpHeader::default() };
            let payload = RtpPayload::Video(VideoPart::default());
            let packet = Rtp { header, payload, kind: Kind::Video };
            let at = Time::from_millis(ms);
            let (whole, _) = reception.identify(at, &packet.header, CLOCK);
            reception.count(at, &packet, whole, CLOCK);
        }
        reception.jitter.ticks_q4
    }

    /// From the last packet of the first frame, at 6 ms, to the first one of the second frame, at 35 ms, are 29 ms: 1 ms
    /// less than between the frames, or 90 ticks. The sixteenth of it is 90 in Q4. By RFC 3550 the packet at 6 ms would add
    /// 540 ticks.
    #[test]
    fn jitter_is_between_the_last_packet_of_a_frame_and_the_first_of_the_next() {
        assert_eq!(jitter_q4(&[(0, 0, 0), (1, 0, 6)]), 0);
        assert_eq!(jitter_q4(&[(0, 0, 0), (1, 0, 6), (2, 1, 35)]), 90);
        assert_eq!(jitter_q4(&[(0, 0, 0), (1, 0, 6), (2, 1, 35), (3, 1, 60)]), 90);
    }

    /// Packets 2 and 3 change places: 3 comes 29 ms after 1, and 2 counts for nothing.
    #[test]
    fn packets_out_of_order_change_no_jitter() {
        let swapped = [(0, 0, 0), (1, 0, 6), (3, 1, 35), (2, 1, 59), (4, 2, 65)];
        let without: Vec<_> = swapped.into_iter().filter(|(seq, ..)| *seq != 2).collect();
        assert_eq!(jitter_q4(&swapped), jitter_q4(&without));
        // 90, and then none for 30 ms between frames 30 ms apart: (0 - 90 + 8) >> 4 = -6
        assert_eq!(jitter_q4(&swapped), 84);
    }

    /// 5 s between frames 30 ms apart are 447,300 ticks too many, 5.03 s are 450,000.
    #[test]
    fn a_jump_of_five_seconds_is_no_jitter() {
        assert_eq!(jitter_q4(&[(0, 0, 0), (1, 1, 5_000)]), 447_300);
        assert_eq!(jitter_q4(&[(0, 0, 0), (1, 1, 5_030)]), 0);
    }

    #[test]
    fn a_stream_is_reported_until_eight_seconds_after_its_last_packet() {
        let mut reception = Reception::default();
        assert!(!reception.is_active(Time::ZERO));
        let header = RtpHeader::default();
        let payload = RtpPayload::Video(VideoPart::default());
        let packet = Rtp { header, payload, kind: Kind::Video };
        reception.count(Time::from_secs(1), &packet, 0, CLOCK);
        assert!(reception.is_active(Time(8_999_999_999)));
        assert!(!reception.is_active(Time::from_secs(9)));
    }

    /// 400 hours are 1,440,000 s, and so 94,371,840,000 units, whose lowest 32 bits are 4,177,526,784.
    #[test]
    fn a_sender_report_of_two_weeks_ago_is_echoed() {
        let reception = Reception { sender_report: Some((7, Time::ZERO)), ..Reception::default() };
        let echo = reception.echo(Time::from_secs(400 * 3_600) + Time::from_millis(500));
        assert_eq!(echo, (7, (94_371_840_000_u64 + 32_768) as u32));
    }

    /// The last packet in order, number 9 at 132 ms, belongs to the frame of number 8.
    #[test]
    fn a_packet_later_than_a_third_of_the_round_trip_is_a_retransmission_and_stays_lost() {
        // 90 / 3 + 1 = 31 ms
        assert_eq!(lost_after(90, &[(8, 132 + 31)]), (0, 0));
        assert_eq!(lost_after(90, &[(8, 132 + 32)]), (25, 1));
        // One frame older: 33 ms earlier
        assert_eq!(lost_after(90, &[(6, 132)]), (25, 1));
        assert_eq!(lost_after(99, &[(6, 133)]), (0, 0));
    }
}
