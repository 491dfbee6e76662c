//! Three layers, each with numbers of its own, and a receiver whose wishes change with each frame.

use super::numbering::{ClockReport, Numbers, ReceivedNumbers};
use super::*;
use crate::units::{RemoteTime, Time};
use proptest::prelude::*;

const FRAME_INTERVAL: Time = Time::from_millis(33);
const FRAME_TICKS: u32 = 2970;
/// Packets change places with those up to this many before or after them.
const DISORDER: usize = 12;

/// One layer: its first numbers, and whether the sender reports about its clock.
#[derive(Clone, Copy, Debug)]
struct Layer {
    first: Numbers,
    reports: bool,
}

#[derive(Clone, Debug)]
struct Frame {
    is_key: bool,
    /// Number of packets in each layer.
    packets: [u64; 3],
    /// The layer that the receiver wants from this frame on.
    wanted: usize,
}

/// A packet on its way to the server.
#[derive(Clone, Copy, Debug)]
struct Sent {
    layer: usize,
    frame: usize,
    starts_key_frame: bool,
    wanted: usize,
    received: ReceivedNumbers,
}

fn layers() -> impl Strategy<Value = [Layer; 3]> {
    let numbers = (0..200_000_u64, any::<u32>(), 0..0x8000_u16, any::<u8>());
    let numbers = numbers.prop_map(|(seq, timestamp, picture, tl0)| Numbers {
        seq,
        timestamp,
        picture: Some(picture),
        tl0: Some(tl0),
    });
    let layer = (numbers, any::<bool>()).prop_map(|(first, reports)| Layer { first, reports });
    [layer.clone(), layer.clone(), layer]
}

/// The first is a key frame, so that something is forwarded.
fn frames() -> impl Strategy<Value = Vec<Frame>> {
    let packets = [1..4_u64, 1..4, 1..4];
    let frame = (prop::bool::weighted(0.3), packets, 0..3_usize);
    let frame = frame.prop_map(|(is_key, packets, wanted)| Frame { is_key, packets, wanted });
    prop::collection::vec(frame, 1..80).prop_map(|mut frames| {
        frames[0].is_key = true;
        frames
    })
}

/// All packets in the order in which they are sent. They take no time.
fn send(layers: [Layer; 3], frames: &[Frame]) -> Vec<Sent> {
    let mut sent = Vec::new();
    let mut seqs = layers.map(|layer| layer.first.seq);
    for (index, frame) in frames.iter().enumerate() {
        for (layer, &Layer { first, reports }) in layers.iter().enumerate() {
            let (n, at) = (index as u32, FRAME_INTERVAL * index as u64);
            let timestamp = first.timestamp.wrapping_add(FRAME_TICKS * n);
            // Clocks of senders begin at any time.
            let clock = ClockReport { at: RemoteTime(at + Time::from_secs(1000)), timestamp };
            for part in 0..frame.packets[layer] {
                let numbers = Numbers {
                    seq: seqs[layer] + part,
                    timestamp,
                    picture: first.picture.map(|it| it.wrapping_add(n as u16) & 0x7fff),
                    tl0: first.tl0.map(|it| it.wrapping_add(n as u8)),
                };
                let received = ReceivedNumbers { numbers, at, clock: reports.then_some(clock) };
                let starts_key_frame = frame.is_key && part == 0;
                let wanted = frame.wanted;
                sent.push(Sent { layer, frame: index, starts_key_frame, wanted, received });
            }
            seqs[layer] += frame.packets[layer];
        }
    }
    sent
}

/// What the receiver gets, in the order in which it is forwarded.
fn forward(sent: &[Sent]) -> Vec<(Sent, Numbers)> {
    let mut stream = LayerSwitch::default();
    let mut forwarded = Vec::new();
    for packet in sent {
        stream.choose(&[(packet.wanted, Some(Bitrate(1)))], Bitrate(2));
        let numbers = stream.forward(Some(packet.layer), packet.starts_key_frame, &packet.received);
        forwarded.extend(numbers.map(|numbers| (*packet, numbers)));
    }
    forwarded
}

proptest! {
    #[test]
    fn without_loss_all_numbers_are_consecutive_and_times_follow_the_capture(
        layers in layers(),
        frames in frames(),
    ) {
        let forwarded = forward(&send(layers, &frames));
        let (first, begin) = forwarded[0];
        prop_assert_eq!(begin.seq, first.received.numbers.seq % 65_536);
        prop_assert_eq!(begin.timestamp, first.received.numbers.timestamp);
        let mut switches = 0;
        for pair in forwarded.windows(2) {
            let ((old, before), (new, after)) = (pair[0], pair[1]);
            prop_assert_eq!(after.seq, before.seq + 1);
            switches += u32::from(old.layer != new.layer);
            let pictures = u16::from((old.layer, old.frame) != (new.layer, new.frame));
            let picture = before.picture.map(|it| it.wrapping_add(pictures) & 0x7fff);
            prop_assert_eq!(after.picture, picture);
            prop_assert_eq!(after.tl0, before.tl0.map(|it| it.wrapping_add(pictures as u8)));
            // A frame that is forwarded in two layers makes two pictures, the second one tick later.
            let ahead = after.timestamp.wrapping_sub(before.timestamp);
            prop_assert_eq!(ahead == 0, pictures == 0);
            let capture = FRAME_TICKS * (new.frame - first.frame) as u32;
            let late = after.timestamp.wrapping_sub(begin.timestamp).wrapping_sub(capture);
            prop_assert!(late <= switches, "{late} ticks late after {switches} switches");
        }
    }

    #[test]
    fn with_loss_and_disorder_no_number_is_sent_twice_and_no_time_goes_back(
        layers in layers(),
        frames in frames(),
        fates in prop::collection::vec((0..DISORDER, prop::bool::weighted(0.9)), 720),
    ) {
        let sent = send(layers, &frames);
        let mut arriving: Vec<_> = sent
            .iter()
            .zip(fates)
            .enumerate()
            .filter(|(_, (_, (_, arrives)))| *arrives)
            .map(|(index, (packet, (delay, _)))| (index + delay, *packet))
            .collect();
        arriving.sort_by_key(|(place, _)| *place);
        let arriving: Vec<_> = arriving.into_iter().map(|(_, packet)| packet).collect();
        let mut forwarded = forward(&arriving);
        // A packet keeps its distance from the key frame with which its layer began, and none is from before
        // that frame. The first layer has no such begin.
        let mut turn: Option<(Sent, Numbers)> = None;
        for pair in forwarded.windows(2) {
            let ((old, _), (new, numbers)) = (pair[0], pair[1]);
            if old.layer != new.layer {
                prop_assert!(new.starts_key_frame && new.layer == new.wanted);
                turn = Some((new, numbers));
            }
            if let Some((begin, begin_numbers)) = turn {
                let distance = new.received.numbers.seq.checked_sub(begin.received.numbers.seq);
                prop_assert!(distance.is_some());
                prop_assert_eq!(numbers.seq.checked_sub(begin_numbers.seq), distance);
            }
        }
        forwarded.sort_by_key(|(_, numbers)| numbers.seq);
        for pair in forwarded.windows(2) {
            let (before, after) = (pair[0].1, pair[1].1);
            prop_assert!(before.seq < after.seq, "{before:?} and {after:?}");
            let ahead = after.timestamp.wrapping_sub(before.timestamp);
            prop_assert!(ahead <= u32::MAX / 2, "{before:?} and {after:?}");
        }
    }
}

/// A packet with its number, and the same number as timestamp.
fn packet(seq: u64) -> ReceivedNumbers {
    ReceivedNumbers {
        numbers: Numbers { seq, timestamp: seq as u32, ..Numbers::default() },
        ..ReceivedNumbers::default()
    }
}

#[test]
fn a_stream_without_layers_is_forwarded_from_its_first_packet() {
    let mut stream = LayerSwitch::<u8>::default();
    assert_eq!(stream.forward(None, false, &packet(7)).map(|it| it.seq), Some(7));
    stream.choose(&[], Bitrate::from_mbps(1));
    assert_eq!(stream.forward(None, false, &packet(8)).map(|it| it.seq), Some(8));
    assert!(!stream.is_switching());
}

#[test]
fn the_old_layer_is_forwarded_until_the_key_frame_of_the_new_one_and_not_afterwards() {
    let mut stream = LayerSwitch::default();
    let mut forward = |wanted, layer, key, seq| {
        stream.choose(&[(wanted, Some(Bitrate(1)))], Bitrate(2));
        stream.forward(Some(layer), key, &packet(seq)).map(|it| it.seq)
    };
    assert_eq!(forward(0, 0, true, 10), Some(10));
    assert_eq!(forward(1, 1, false, 500), None, "no key frame");
    assert_eq!(forward(1, 0, false, 12), Some(12), "11 is late");
    assert_eq!(forward(1, 1, true, 501), Some(13));
    assert_eq!(forward(1, 0, false, 11), None, "the late packet of the old layer");
    assert_eq!(forward(1, 1, false, 503), Some(15));
    assert_eq!(forward(1, 1, false, 502), Some(14), "a late packet of the new layer");
    assert_eq!(forward(1, 1, false, 500), None, "from before the key frame");
}
