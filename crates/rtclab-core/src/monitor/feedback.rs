//! Counts packets described by RTCP feedback without storing an entry for each.
//!
//! A transport-wide report of 40 bytes can describe 65,535 packets.

use crate::rtp::rtcp::{RtcpPacket, parse_compound};

/// RTCP header, SSRC of the sender, SSRC of the media source.
const FEEDBACK_HEADER_BYTES: usize = 12;

/// Name of a packet type or feedback format. REMB is recognised by the content of the packet, which is given
/// only if it is not encrypted.
pub(super) fn kind(packet_type: u8, count: u8, packet: Option<&[u8]>) -> &'static str {
    match (packet_type, count) {
        (200, _) => "SR",
        (201, _) => "RR",
        (202, _) => "SDES",
        (203, _) => "BYE",
        (204, _) => "APP",
        (205, 1) => "NACK",
        (205, 3) => "TMMBR",
        (205, 4) => "TMMBN",
        (205, 11) => "CCFB",
        (205, 15) => "TWCC",
        (205, _) => "RTPFB",
        (206, 1) => "PLI",
        (206, 4) => "FIR",
        (206, 15) if packet.is_some_and(|p| p.get(12..16) == Some(b"REMB")) => "REMB",
        (206, 15) => "AFB",
        (206, _) => "PSFB",
        (207, _) => "XR",
        _ => "other",
    }
}

/// Sums over RTCP packets of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    /// Number of media packets that feedback describes, or of report blocks in SR and RR.
    pub(crate) items: u64,
    /// Number of those packets that were lost.
    pub(crate) lost: u64,
    /// Last bit rate in a REMB.
    pub(crate) bitrate_bps: Option<u64>,
}

impl Figures {
    /// Counts of a single unencrypted packet.
    pub(super) fn of(kind: &str, packet: &[u8]) -> Self {
        let body = packet.get(FEEDBACK_HEADER_BYTES..).unwrap_or_default();
        let reported = |items, lost| Figures { items, lost, bitrate_bps: None };
        match kind {
            "SR" | "RR" => reported(u64::from(packet[0] & 31), 0),
            "NACK" => {
                let lost = words(body).map(|word| 1 + u64::from((word as u16).count_ones())).sum();
                reported(lost, lost)
            }
            "TWCC" => transport_wide(body),
            "CCFB" => congestion_control(packet.get(8..).unwrap_or_default()),
            "REMB" => match parse_compound(packet).next() {
                Some(Ok(RtcpPacket::Remb(remb))) => {
                    Figures { bitrate_bps: Some(remb.bitrate.bps()), ..Figures::default() }
                }
                _ => Figures::default(),
            },
            _ => Figures::default(),
        }
    }

    pub(super) fn add(&mut self, other: &Figures) {
        self.items += other.items;
        self.lost += other.lost;
        self.bitrate_bps = other.bitrate_bps.or(self.bitrate_bps);
    }
}

fn words(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|word| u32::from_be_bytes([word[0], word[1], word[2], word[3]]))
}

/// Counts a transport-wide report; a run of equal symbols takes one step.
fn transport_wide(body: &[u8]) -> Figures {
    let Some((header, chunks)) = body.split_first_chunk::<8>() else { return Figures::default() };
    let announced = u64::from(u16::from_be_bytes([header[2], header[3]]));
    let mut figures = Figures::default();
    for chunk in chunks.chunks_exact(2).map(|chunk| u16::from_be_bytes([chunk[0], chunk[1]])) {
        let left = announced - figures.items;
        if left == 0 {
            break;
        }
        let (covered, lost) = match (chunk >> 15, chunk >> 14 & 1) {
            (0, _) => {
                let run = u64::from(chunk & 0x1FFF).min(left);
                (run, if chunk >> 13 & 3 == 0 { run } else { 0 })
            }
            (_, 0) => (
                left.min(14),
                (0..left.min(14)).filter(|i| chunk >> (13 - i) & 1 == 0).count() as u64,
            ),
            (_, _) => (
                left.min(7),
                (0..left.min(7)).filter(|i| chunk >> (12 - 2 * i) & 3 == 0).count() as u64,
            ),
        };
        figures.items += covered;
        figures.lost += lost;
    }
    figures
}

/// Counts RFC 8888 feedback. `body` begins with the SSRC of the first stream and ends with the report
/// timestamp.
fn congestion_control(mut body: &[u8]) -> Figures {
    let mut figures = Figures::default();
    while let Some((header, rest)) = body.split_first_chunk::<8>() {
        let count = usize::from(u16::from_be_bytes([header[6], header[7]]));
        let blocks = rest.chunks_exact(2).take(count);
        figures.items += blocks.len() as u64;
        figures.lost += blocks.filter(|block| block[0] & 0x80 == 0).count() as u64;
        body = rest.get(count.next_multiple_of(2) * 2..).unwrap_or_default();
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ecn::Ecn;
    use crate::rtp::rtcp::{
        ArrivalOffset, CcfbArrival, CongestionFeedback, StreamArrivals, TransportFeedback,
    };
    use crate::units::Time;

    fn figures(kind: &str, packet: &RtcpPacket) -> (u64, u64) {
        let mut bytes = Vec::new();
        packet.write(&mut bytes).unwrap();
        let figures = Figures::of(kind, &bytes);
        (figures.items, figures.lost)
    }

    #[test]
    fn losses_in_transport_wide_feedback_are_counted_in_every_kind_of_chunk() {
        let report = |pattern: &dyn Fn(usize) -> bool, len| {
            let arrivals: Vec<Option<Time>> =
                (0..len).map(|i| pattern(i).then(|| Time::from_millis(20 * i as u64))).collect();
            let (feedback, _) = TransportFeedback::from_arrivals((1, 2), 0, 5, &arrivals);
            figures("TWCC", &RtcpPacket::TransportFeedback(feedback))
        };
        assert_eq!(report(&|_| true, 100), (100, 0)); // a run
        assert_eq!(report(&|i| i == 0 || i == 99, 100), (100, 98));
        assert_eq!(report(&|i| i % 2 == 0, 14), (14, 7)); // a vector of single bits
        assert_eq!(report(&|i| i % 7 == 0, 35), (35, 30)); // deltas of 140 ms: vectors of two bits
    }

    #[test]
    fn a_short_report_of_65535_lost_packets_counts_only_those_that_its_chunks_cover() {
        // Base 0, 65535 packets, runs of 8191 "not received": eight cover 65528.
        let mut packet =
            vec![0x8F, 205, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0xFF, 0xFF, 0, 0, 0, 0];
        (0..8).for_each(|_| packet.extend_from_slice(&[0x1F, 0xFF]));
        let counted = Figures::of("TWCC", &packet);
        assert_eq!((counted.items, counted.lost), (65_528, 65_528));
    }

    #[test]
    fn congestion_feedback_counts_packets_that_did_not_arrive() {
        let here = Some(CcfbArrival { ecn: Ecn::NotCapable, offset: ArrivalOffset::UNAVAILABLE });
        let stream = |arrivals| StreamArrivals { ssrc: 1, begin_seq: 0, arrivals };
        let streams = vec![stream(vec![here, None, here]), stream(vec![None, None])];
        let feedback = CongestionFeedback { streams, ..CongestionFeedback::default() };
        assert_eq!(figures("CCFB", &RtcpPacket::CongestionFeedback(feedback)), (5, 3));
    }
}
