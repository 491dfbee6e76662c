//! What streams contain, without a session description: audio, video, retransmissions and FEC.

use crate::monitor_support::{BEGIN_NS, Pcap, Results, Rtp, ethernet, ipv4_udp, watch};
use rtclab_core::monitor::MonitorConfig;

const ALICE: (u8, u16) = (1, 5000);
const BOB: (u8, u16) = (2, 6000);
const MEDIA_BYTES: usize = 900;

/// Frames of a capture: time in ms, source, destination, datagram.
type Sent = (u32, (u8, u16), (u8, u16), Vec<u8>);

fn watched(mut sent: Vec<Sent>) -> Results {
    sent.sort_by_key(|(at_ms, ..)| *at_ms);
    let mut pcap = Pcap::new(1);
    for (at_ms, from, to, bytes) in sent {
        let at_ns = BEGIN_NS + i64::from(at_ms) * 1_000_000;
        pcap.frame(at_ns, &ethernet(&ipv4_udp(from, to, &bytes)));
    }
    watch(&pcap.bytes, MonitorConfig::default())
}

/// Text that looks random, as in SRTP.
fn encrypted(seed: u32, len: usize) -> Vec<u8> {
    let mut random = u64::from(seed) << 20 | 0x9E37;
    let mut byte = || {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (random >> 56) as u8
    };
    (0..len).map(|_| byte()).collect()
}

fn with_payload(header: Rtp, sources: &[u32], payload: &[u8]) -> Vec<u8> {
    let mut bytes = Rtp { payload_bytes: 0, ..header }.bytes();
    bytes[0] |= sources.len() as u8;
    sources.iter().for_each(|source| bytes.extend_from_slice(&source.to_be_bytes()));
    bytes.extend_from_slice(payload);
    bytes
}

/// Media of SSRC 7, two packets each time, and beside each pair a packet of SSRC 8 with the same timestamp.
/// `beside` makes its contributing sources and payload of the number of the second packet of the pair.
fn pairs_and(beside: impl Fn(u16) -> (Vec<u32>, Vec<u8>)) -> Results {
    let mut sent = Vec::new();
    for picture in 0..60u32 {
        let seq = 30_000 + 2 * picture as u16;
        let media = Rtp {
            ssrc: 7,
            payload_type: 96,
            seq,
            timestamp: 90_000 + picture * 3000,
            marker: false,
            payload_bytes: MEDIA_BYTES,
        };
        let at_ms = picture * 33;
        for part in 0..2 {
            let media = Rtp { seq: seq + part, marker: part == 1, ..media };
            let payload = encrypted(u32::from(media.seq), MEDIA_BYTES);
            sent.push((at_ms, ALICE, BOB, with_payload(media, &[], &payload)));
        }
        let (sources, payload) = beside(seq + 1);
        let header = Rtp { ssrc: 8, payload_type: 97, seq: picture as u16, ..media };
        sent.push((at_ms + 5, ALICE, BOB, with_payload(header, &sources, &payload)));
    }
    watched(sent)
}

#[test]
fn repair_is_told_by_what_it_repeats_or_protects_and_not_by_its_timestamp() {
    let of_seq = |seq: u16, len| encrypted(u32::from(seq) + 77, len);
    type Beside<'a> = &'a dyn Fn(u16) -> (Vec<u32>, Vec<u8>);
    let cases: [(&str, &str, Beside<'_>); 8] = [
        ("RTX in clear, of a packet that was lost", "rtx", &|seq| {
            (vec![], [&seq.to_be_bytes()[..], &of_seq(seq, 700)].concat())
        }),
        ("RTX in SRTP", "rtx", &|seq| (vec![], of_seq(seq, MEDIA_BYTES + 2))),
        ("FlexFEC of draft 03 in clear", "fec", &|seq| {
            let mut payload = of_seq(seq, MEDIA_BYTES + 20);
            payload[0] &= 0x3F;
            payload[8..12].copy_from_slice(&[1, 0, 0, 0]);
            payload[12..16].copy_from_slice(&7u32.to_be_bytes());
            payload[16..18].copy_from_slice(&(seq - 1).to_be_bytes());
            (vec![], payload)
        }),
        ("FlexFEC of RFC 8627 in SRTP", "fec", &|seq| (vec![7], of_seq(seq, MEDIA_BYTES + 12))),
        ("ULPFEC in clear", "fec", &|seq| {
            let mut payload = of_seq(seq, MEDIA_BYTES + 14);
            payload[2..4].copy_from_slice(&(seq - 1).to_be_bytes());
            (vec![], payload)
        }),
        ("FlexFEC of RFC 8627 in clear, without sources", "fec", &|seq| {
            let mut payload = of_seq(seq, MEDIA_BYTES + 12);
            payload[0] &= 0x3F;
            payload[8..10].copy_from_slice(&(seq - 1).to_be_bytes());
            (vec![], payload)
        }),
        ("another layer of the pictures", "video", &|seq| (vec![], of_seq(seq, 300))),
        ("something longer", "video", &|seq| (vec![], of_seq(seq, MEDIA_BYTES + 40))),
    ];
    for (what, kind, beside) in cases {
        let results = pairs_and(beside);
        assert_eq!(results.text("streams", "kind"), ["video", kind], "{what}");
    }
}

#[test]
fn silence_names_no_packets_of_another_stream() {
    let mut sent = Vec::new();
    for index in 0..60 {
        let silence = |ssrc| with_payload(opus(ssrc, index, index * 960 + ssrc), &[], &[0; 80]);
        sent.push((index * 20, ALICE, BOB, silence(7)));
        sent.push((index * 20, ALICE, BOB, silence(8)));
    }
    assert_eq!(watched(sent).text("streams", "kind"), ["audio", "audio"]);
}

fn opus(ssrc: u32, index: u32, timestamp: u32) -> Rtp {
    Rtp { ssrc, payload_type: 122, seq: index as u16, timestamp, marker: false, payload_bytes: 100 }
}

#[test]
fn the_next_ssrc_of_audio_with_its_timestamps_is_no_retransmission() {
    let mut sent = Vec::new();
    for index in 0..100 {
        let at_ms = index * 20;
        sent.push((at_ms, ALICE, BOB, opus(7, index, index * 960).bytes()));
        let other = Rtp { payload_bytes: 60 + index as usize % 30, ..opus(8, index, index * 960) };
        sent.push((at_ms, ALICE, BOB, other.bytes()));
    }
    assert_eq!(watched(sent).text("streams", "kind"), ["audio", "audio"]);
}

#[test]
fn a_stream_too_short_to_tell_is_as_the_others_of_its_payload_type_between_the_hosts() {
    let mut sent: Vec<Sent> =
        (0..200).map(|i| (i * 20, ALICE, BOB, opus(7, i, i * 960).bytes())).collect();
    // Comfort noise whose timestamps stop, then two packets of another call between other hosts.
    for index in 0..8 {
        sent.push((5 + index * 400, BOB, ALICE, opus(9, index, index * 960).bytes()));
    }
    for index in 0..2 {
        let alone = opus(11, index, index * 7777).bytes();
        sent.push((6 + index * 20, BOB, ALICE, alone.clone()));
        sent.push((4000 + index * 20, (3, 1), (4, 1), alone));
    }
    let results = watched(sent);
    assert_eq!(results.text("streams", "kind"), ["audio", "audio", "audio", ""]);
    assert_eq!(results.int("streams", "clock_rate")[..3], [48_000; 3]);
}
