//! VP8 payload descriptor and frame header, after an RTX header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::rtp::rtx;
use rtclab_core::rtp::vp8::{Descriptor, FrameHeader};

fuzz_target!(|payload: &[u8]| {
    let media = rtx::parse(payload).map_or(payload, |(_, media)| media);
    if let Ok((descriptor, len)) = Descriptor::parse(media) {
        let mut written = Vec::new();
        descriptor.write(&mut written);
        assert_eq!(Descriptor::parse(&written), Ok((descriptor, written.len())));
        if let Ok(header) = FrameHeader::parse(&media[len..]) {
            let mut written = Vec::new();
            header.write(&mut written);
            assert_eq!(FrameHeader::parse(&written), Ok(header));
        }
    }
});
