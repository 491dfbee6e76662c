//! Capture files in the pcapng format. The input follows a valid section header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::monitor::CaptureReader;

/// A section header block of 28 bytes, little-endian, with unknown section length.
const SECTION: [u8; 28] = [
    0x0A, 0x0D, 0x0D, 0x0A, 28, 0, 0, 0, 0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 0xFF, 0xFF, 0xFF,
    0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 28, 0, 0, 0,
];

fuzz_target!(|input: &[u8]| {
    let file = [&SECTION[..], input].concat();
    let Ok(mut reader) = CaptureReader::new(&file[..]) else { return };
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.bytes.len() <= file.len());
    }
    for interface in 0..reader.interfaces().len() {
        assert!(
            reader.interfaces()[interface]
                .name
                .as_ref()
                .is_none_or(|name| name.len() <= file.len() * 3)
        );
    }
});
