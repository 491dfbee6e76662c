//! Clients publish and subscribe through the server over loopback sockets.

mod call;

use call::Call;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use str0m::media::{Direction, Rid};

/// A VP8 key frame in one packet with its picture number (RFC 7741).
fn keyframe(picture: u16) -> Vec<u8> {
    frame(picture, 0, 100)
}

fn inter_frame(picture: u16, bytes: usize) -> Vec<u8> {
    frame(picture, 1, bytes)
}

fn frame(picture: u16, not_key: u8, bytes: usize) -> Vec<u8> {
    let [high, low] = picture.to_be_bytes();
    let mut payload = vec![0x90, 0x80, 0x80 | high, low, not_key];
    payload.resize(bytes, 0xab);
    payload
}

fn picture(payload: &[u8]) -> u16 {
    u16::from_be_bytes([payload[2] & 0x7f, payload[3]])
}

fn publish(call: &mut Call) -> usize {
    call.add(Direction::SendOnly, &[], None)
}

fn subscribe(call: &mut Call, publisher: usize) -> usize {
    call.add(Direction::RecvOnly, &[], Some(publisher))
}

fn numbers(call: &mut Call, client: usize, video: bool) -> Vec<(u16, u32)> {
    let packets = call.clients[client].received(video);
    packets.iter().map(|it| (it.header.sequence_number, it.header.timestamp)).collect()
}

#[test]
fn two_subscribers_get_every_packet_in_order_with_its_numbers() {
    let mut call = Call::start();
    let first = subscribe(&mut call, 1);
    let publisher = publish(&mut call);
    let second = subscribe(&mut call, publisher);
    call.connect_all();
    // The sequence number passes 65535, and the server does not see the first cycle of it.
    let sent: Vec<_> =
        (0..100_u32).map(|n| (65_500_u16.wrapping_add(n as u16), 7000 + 3000 * n)).collect();
    for (n, &(_, time)) in sent.iter().enumerate() {
        let payload = if n == 0 { keyframe(0) } else { inter_frame(n as u16, 1000) };
        call.clients[publisher].write(true, None, 65_500 + n as u64, time, &payload);
        call.clients[publisher].write(false, None, 100 + n as u64, 960 * n as u32, &[1, 2, 3]);
        call.run_for(Duration::from_millis(5));
    }
    for subscriber in [first, second] {
        call.run_until("a subscriber gets all packets", |call| {
            call.clients[subscriber].packets.len() >= 200
        });
        assert_eq!(numbers(&mut call, subscriber, true), sent);
        let audio: Vec<_> = (0..100).map(|n| (100 + n, 960 * u32::from(n))).collect();
        assert_eq!(numbers(&mut call, subscriber, false), audio);
        let pictures =
            call.clients[subscriber].received(true).into_iter().map(|it| picture(&it.payload));
        assert_eq!(pictures.collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
        let marked =
            call.clients[subscriber].received(true).into_iter().filter(|it| it.header.marker);
        assert_eq!(marked.count(), 50);
    }
    assert!(call.end(), "the server ends with its standard input");
}

#[test]
fn a_late_subscriber_makes_the_server_ask_for_a_key_frame() {
    let mut call = Call::start();
    let publisher = publish(&mut call);
    call.connect_all();
    for n in 0..20 {
        let payload = if n == 0 { keyframe(0) } else { inter_frame(n, 500) };
        call.clients[publisher].write(true, None, u64::from(n), 3000 * u32::from(n), &payload);
        call.run_for(Duration::from_millis(5));
    }
    assert_eq!(call.clients[publisher].keyframe_requests, []);
    let start = Instant::now();
    let late = subscribe(&mut call, publisher);
    call.run_until("the server asks", |call| !call.clients[publisher].keyframe_requests.is_empty());
    call.clients[publisher].write(true, None, 20, 60_000, &keyframe(20));
    call.run_until("the subscriber gets it", |call| call.clients[late].packets.len() == 1);
    assert_eq!(numbers(&mut call, late, true), [(20, 60_000)]);
    // It asks again only if a busy machine takes another half a second.
    let most = 1 + start.elapsed().as_millis() / 500;
    assert!((1..=most).contains(&(call.clients[publisher].keyframe_requests.len() as u128)));
}

#[test]
fn a_failed_connection_disturbs_no_other() {
    let mut call = Call::start();
    let publisher = publish(&mut call);
    let subscriber = subscribe(&mut call, publisher);
    call.connect_all();
    call.send(&json!({"connection": 8, "description": {"type": "offer", "sdp": "nonsense"}}));
    call.send(&json!({"connection": 9, "description": {"type": "answer", "sdp": ""}}));
    call.send(&json!("nonsense"));
    let errors = |call: &Call| -> Vec<Value> {
        let errors = call.messages.iter().filter(|it| it.get("error").is_some());
        errors.map(|it| it["connection"].clone()).collect()
    };
    call.run_until("three errors", |call| errors(call).len() == 3);
    assert_eq!(errors(&call), [json!(8), json!(9), Value::Null]);
    call.clients[publisher].write(true, None, 5, 90_000, &keyframe(0));
    call.run_until("media still pass", |call| call.clients[subscriber].packets.len() == 1);
}

#[test]
fn the_end_of_a_publication_ends_its_media_but_not_its_subscriptions() {
    let mut call = Call::start();
    let publisher = publish(&mut call);
    let subscriber = subscribe(&mut call, publisher);
    call.connect_all();
    call.clients[publisher].write(true, None, 5, 90_000, &keyframe(0));
    call.run_until("media pass", |call| call.clients[subscriber].packets.len() == 1);
    call.send(&json!({"connection": publisher, "close": true}));
    call.messages.clear();
    call.run_until("two more statistics", |call| statistics(call, subscriber).len() >= 2);
    call.clients[publisher].write(true, None, 6, 93_000, &inter_frame(1, 100));
    call.run_for(Duration::from_millis(300));
    assert_eq!(call.clients[subscriber].packets.len(), 1);
    assert!(call.messages.iter().all(|message| message.get("error").is_none()));
}

fn statistics(call: &Call, connection: usize) -> Vec<Value> {
    let all = call.messages.iter().filter_map(|message| message.get("statistics"));
    all.filter(|it| it["connection"] == json!(connection)).cloned().collect()
}

/// The high layer carries far more than the estimate that a connection starts with, and than loopback probes
/// find at once. Whatever the estimate then becomes, the subscriber has one continuous stream.
#[test]
fn a_subscriber_of_simulcast_begins_with_the_low_layer_and_gets_one_continuous_stream() {
    let mut call = Call::start();
    let publisher = call.add(Direction::SendOnly, &["q", "f"], None);
    let subscriber = subscribe(&mut call, publisher);
    call.connect_all();
    let start = Instant::now();
    let mut high_needs_key = true;
    for n in 0..150_u16 {
        let (time, low_key) = (3000 * u32::from(n), n % 15 == 0);
        high_needs_key |= call.clients[publisher].keyframe_requests.contains(&Some(Rid::from("f")));
        let low = if low_key { keyframe(100 + n) } else { inter_frame(100 + n, 200) };
        let high = if high_needs_key { keyframe(2000 + n) } else { inter_frame(2000 + n, 1100) };
        call.clients[publisher].keyframe_requests.clear();
        high_needs_key = false;
        call.clients[publisher].write(true, Some("q"), 1000 + u64::from(n), 500 + time, &low);
        for part in 0..4 {
            let seq = 40_000 + 4 * u64::from(n) + part;
            let payload = if part == 0 { high.clone() } else { vec![0x80, 0x00, 0xab] };
            call.clients[publisher].write(true, Some("f"), seq, 4_000_000 + time, &payload);
        }
        let next = start + Duration::from_millis(33) * u32::from(n + 1);
        call.run_until("the next picture", |_| Instant::now() >= next);
    }
    let received = call.clients[subscriber].received(true);
    let numbers: Vec<_> =
        received.iter().map(|it| (it.header.sequence_number, it.header.timestamp)).collect();
    assert!(numbers.len() > 100, "{}", numbers.len());
    assert!(received[0].payload.len() <= 200, "the first packet is of the low layer");
    for pair in numbers.windows(2) {
        assert_eq!(pair[1].0, pair[0].0 + 1, "no number is missing: {pair:?}");
        let step = pair[1].1.wrapping_sub(pair[0].1);
        assert!(step <= 9000, "pictures follow each other: {pair:?}");
    }
}
