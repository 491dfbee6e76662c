//! The TFRC equation: the rate that a TCP flow would have.

use crate::units::{Bitrate, Time};

/// Packet size that libwebrtc assumes, in bits.
const PACKET_BITS: f64 = 1_000.0 * 8.0;

/// Rate for a round-trip time and a fraction of packets lost; `None` if either is zero.
///
/// Source: RFC 5348, section 3.1, with b = 1 and t_RTO = 4 R.
pub(crate) fn rate(rtt: Time, loss: f64) -> Option<Bitrate> {
    if rtt == Time::ZERO || loss <= 0.0 {
        return None;
    }
    let rtt_s = rtt.as_secs_f64();
    let timeout_s = 4.0 * rtt_s;
    let timeouts = 3.0 * (3.0 * loss / 8.0).sqrt() * loss * (1.0 + 32.0 * loss * loss);
    let rate = PACKET_BITS / (rtt_s * (2.0 * loss / 3.0).sqrt() + timeout_s * timeouts);
    Some(Bitrate(rate as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_for_the_losses_in_the_papers_match_the_equation() {
        // Loss in 1/255; kbit/s for round trips of 5, 10, 50, 100, 200, 400 and 1000 ms.
        let table = [
            (26.0, [2761, 1380, 276, 138, 69, 35, 14]),
            (48.0, [979, 489, 98, 49, 24, 12, 5]),
            (92.0, [184, 92, 18, 9, 5, 2, 1]),
        ];
        for (loss, rates) in table {
            for (rtt, expected) in [5, 10, 50, 100, 200, 400, 1_000].into_iter().zip(rates) {
                let rate = rate(Time::from_millis(rtt), loss / 255.0).expect("a rate");
                let kbps = rate.0 as f64 / 1e3;
                assert!((kbps - f64::from(expected)).abs() < 0.6, "{loss}, {rtt} ms: {kbps}");
            }
        }
    }

    #[test]
    fn there_is_no_rate_without_loss_or_without_a_round_trip_time() {
        assert_eq!((rate(Time::ZERO, 0.1), rate(Time::from_millis(5), 0.0)), (None, None));
    }
}
