//! RTP header, extensions and padding. A parsed header must survive writing and parsing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::rtp::{ExtensionIds, RtpHeader, RtpPacket, classify, header};

fuzz_target!(|datagram: &[u8]| {
    let ids = ExtensionIds::CHROMIUM;
    classify(datagram, datagram.len());
    if let Ok((_, elements, len)) = header::parse_raw(datagram) {
        assert!(len <= datagram.len());
        assert!(elements.map(|(_, data)| data.len()).sum::<usize>() < len);
    }
    if let Ok(packet) = RtpPacket::parse(datagram, &ids) {
        let bytes = packet.header_bytes + packet.payload.len() + packet.padding_bytes;
        assert_eq!(bytes, datagram.len());
    }
    if let Ok((header, _)) = RtpHeader::parse(datagram, &ids) {
        let mut written = Vec::new();
        header.write(&ids, &mut written);
        assert_eq!(RtpHeader::parse(&written, &ids), Ok((header, written.len())));
    }
});
