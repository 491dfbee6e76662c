//! STUN messages and TURN framing.
#![no_main]

use libfuzzer_sys::fuzz_target;
use rtclab_core::rtp::stun::{ChannelData, Message, attribute, peer_data};

fuzz_target!(|datagram: &[u8]| {
    if let Ok(channel) = ChannelData::parse(datagram) {
        assert!(channel.data.len() + ChannelData::HEADER_BYTES <= datagram.len());
    }
    if let Ok(message) = Message::parse(datagram) {
        let values = message.attributes().flatten().map(|(_, value)| value.len() + 4);
        assert!(values.sum::<usize>() <= datagram.len() - 20);
        message.fingerprint_is_valid();
        let _ = message.xor_address(attribute::XOR_MAPPED_ADDRESS);
        let _ = peer_data(&message);
    }
});
