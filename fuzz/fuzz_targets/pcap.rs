//! Capture files in the pcap format, with both byte orders and both resolutions.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::monitor::CaptureReader;

const MAGICS: [u32; 4] = [0xA1B2_C3D4, 0xD4C3_B2A1, 0xA1B2_3C4D, 0x4D3C_B2A1];

fuzz_target!(|input: &[u8]| {
    let Some((first, rest)) = input.split_first() else { return };
    let magic = MAGICS[usize::from(first % 4)].to_le_bytes();
    let file = [&magic[..], rest].concat();
    let Ok(mut reader) = CaptureReader::new(&file[..]) else { return };
    while let Ok(Some(frame)) = reader.next_frame() {
        assert!(frame.bytes.len() <= file.len());
        assert!(frame.at_ns >= 0);
    }
    assert!(reader.bytes_read() <= file.len() as u64);
});
