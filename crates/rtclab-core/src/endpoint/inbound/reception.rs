//! Reception counters of one stream, for reports and statistics.

use crate::packet::{Ecn, Rtp};
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
    jitter: f64,
    last_transit: Option<f64>,
    reported: (i64, u64),
    /// Middle bits of the NTP time of the stream's last sender report, and when it arrived.
    pub(super) sender_report: Option<(u32, Time)>,
    /// Detects retransmissions that arrive on the stream itself.
    retransmissions: Option<Retransmissions>,
}

/// Tells retransmissions from late packets. Retransmissions do not count as received, so that the sender
/// still sees the loss.
///
/// Source: libwebrtc 4d06db557a (2013), `rtp_rtcp/source/rtp_receiver.cc`.
#[derive(Default)]
struct Retransmissions {
    /// Arrival time and RTP timestamp of the last packet in order.
    last: (Time, u32),
    min_rtt: Option<Time>,
}

impl Retransmissions {
    /// Whether an out-of-order packet is later than reordering explains: by more than a third of the smallest
    /// round-trip time plus 1 ms, or, until one is known, by two standard deviations of the jitter.
    fn is_retransmission(&self, now: Time, timestamp: u32, jitter: f64, clock: u64) -> bool {
        let ticks = timestamp.wrapping_sub(self.last.1) as i32;
        let elapsed_ms = now.saturating_sub(self.last.0).as_secs_f64() * 1e3;
        let behind_ms = f64::from(ticks) * 1e3 / clock as f64;
        let tolerance_ms = match self.min_rtt {
            Some(rtt) => rtt.as_secs_f64() * 1e3 / 3.0 + 1.0,
            None => (2.0 * jitter.sqrt() * 1e3 / clock as f64).max(1.0),
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
        let Some(retransmissions) = &mut self.retransmissions else { return (seq, false) };
        if self.first.is_none() || seq > self.highest {
            retransmissions.last = (now, header.timestamp);
            return (seq, false);
        }
        (seq, retransmissions.is_retransmission(now, header.timestamp, self.jitter, clock))
    }

    /// Counts a packet by its unwrapped sequence number.
    pub(in crate::endpoint) fn count(&mut self, now: Time, packet: &Rtp, seq: i64, clock: u64) {
        self.first.get_or_insert(seq);
        self.highest = self.highest.max(seq);
        self.packets += 1;
        self.payload_bytes += packet.payload_bytes();
        self.header_bytes += packet.header_bytes();
        // RFC 3550, section 6.4.1; the clock offset cancels out in the difference of transit times.
        let transit = now.as_secs_f64() * clock as f64 - f64::from(packet.header.timestamp);
        if let Some(last) = self.last_transit {
            let difference = (transit - last).abs();
            // A timestamp wrap is not jitter.
            if difference < f64::from(u32::MAX / 2) {
                self.jitter += (difference - self.jitter) / 16.0;
            }
        }
        self.last_transit = Some(transit);
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
        self.jitter / clock as f64
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
            jitter: self.jitter as u32,
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
