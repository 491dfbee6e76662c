//! All RTCP packets. A parsed packet must survive writing and parsing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::rtp::RtcpPacket;
use rtclab_core::rtp::rtcp::{NtpTime, parse_compound};

fuzz_target!(|datagram: &[u8]| {
    for packet in parse_compound(datagram).flatten() {
        let mut written = Vec::new();
        packet.write(&mut written).expect("what was parsed fits");
        assert_eq!(parse_compound(&written).next(), Some(Ok(packet.clone())));
        match packet {
            RtcpPacket::TransportFeedback(feedback) => {
                assert_eq!(feedback.arrivals().count(), feedback.statuses.len());
            }
            RtcpPacket::ReceiverReport(report) => {
                report.blocks.iter().for_each(|block| {
                    block.round_trip(NtpTime(0));
                });
            }
            _ => {}
        }
    }
});
