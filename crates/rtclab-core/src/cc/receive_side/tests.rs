use super::*;
use crate::cc::gcc_2016::RECEIVER_2016;
use crate::cc::rrtcc_2013::RECEIVER_2013;
use crate::packet::Ecn;
use crate::rtp::AbsSendTime;

/// A receiver after ten seconds of 30 frames a second of 1250 bytes each: 300 kbit/s.
fn after_ten_seconds(config: ReceiveSideConfig) -> ReceiveSide {
    let mut receiver = ReceiveSide::new(config);
    for i in 0..300_u32 {
        let at = Time::from_micros(33_333 * u64::from(i));
        while receiver.poll_timeout().is_some_and(|due| due <= at) {
            receiver.on_timeout(at).expect("no error");
        }
        let packet = ReceivedPacket {
            at,
            ssrc: 1,
            seq: i as u16,
            audio: false,
            size: Bytes(1_312),
            payload: Bytes(1_250),
            rtp_timestamp: 3_000 * i,
            abs_send_time: Some(AbsSendTime::from_time(at)),
            transport_seq: None,
            ecn: Ecn::NotCapable,
        };
        receiver.on_packet(&packet).expect("no error");
    }
    receiver
}

#[test]
fn two_seconds_without_packets_discard_the_rate_in_2013_but_not_in_2016() {
    for (config, kept) in [(RECEIVER_2013, false), (RECEIVER_2016, true)] {
        let mut receiver = after_ten_seconds(config);
        let before = receiver.control.estimate();
        assert!(before.is_some() && receiver.filter.count() > 200);
        receiver.on_timeout(Time::from_secs(13)).expect("no error");
        assert_eq!((receiver.filter.count(), receiver.poll_timeout()), (0, None));
        assert_eq!(receiver.control.estimate(), before.filter(|_| kept));
    }
}
