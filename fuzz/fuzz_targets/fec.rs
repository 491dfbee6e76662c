//! RED and ULPFEC. A parsed packet must survive writing and parsing, and recovery must accept any packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::rtp::red;
use rtclab_core::rtp::ulpfec::{FecPacket, MAX_PACKETS, Media};

fuzz_target!(|payload: &[u8]| {
    let fec = red::parse(payload).map_or(payload, |(_, data)| data);
    let Ok(fec) = FecPacket::parse(fec) else { return };
    let mut written = Vec::new();
    fec.write(&mut written);
    assert!(written.len() <= fec.wire_bytes());
    let again = FecPacket::parse(&written).unwrap();
    assert_eq!(again, fec);
    assert!((1..=MAX_PACKETS).contains(&fec.protected().count()));
    let media = Media { bytes: payload, len: payload.len() };
    if let Some((bytes, len)) = fec.recover((1, fec.seq_base), [media]) {
        assert!(bytes.len() <= len);
        assert!(FecPacket::protect([Media { bytes: &bytes, len }]).is_ok());
    }
});
