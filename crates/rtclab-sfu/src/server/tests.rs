//! Simulcast over a narrow link, in virtual time: no sockets, no clock.

use super::*;
use serde_json::Value;
use serde_json::json;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr};
use str0m::change::{SdpAnswer, SdpPendingOffer};
use str0m::format::Codec;
use str0m::media::{Direction, MediaKind, Mid, Rid, Simulcast, SimulcastLayer};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{RtpPacket, RtpWrite, Vp8Descriptor};
use str0m::{Candidate, Event, Input, Output, Rtc};

/// Time that a timeout takes at least, so that time passes.
const LEAST: Duration = Duration::from_micros(1);
const DELAY: Duration = Duration::from_millis(20);
/// What a link queues before it drops.
const QUEUE: Duration = Duration::from_millis(200);
const FRAME_INTERVAL: Duration = Duration::from_millis(33);
/// Layers with the size of their frames: about 50, 240 and 970 kbit/s.
const LAYERS: [(&str, usize); 3] = [("q", 200), ("h", 1000), ("f", 4000)];
/// Fits the lowest layer only.
const NARROW_BPS: u64 = 100_000;
/// Fits all layers.
const WIDE_BPS: u64 = 3_000_000;
const PART_BYTES: usize = 1000;
const OVERHEAD_BYTES: usize = 28;
const PUBLISHER: u64 = 0;
const SUBSCRIBER: u64 = 1;
const TRIES: usize = 5;

fn port(number: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1)), number)
}

struct Client {
    rtc: Rtc,
    mid: Mid,
    address: SocketAddr,
    pending: Option<SdpPendingOffer>,
    packets: Vec<RtpPacket>,
    wants_key: bool,
    timeout: Instant,
    sent: Vec<Vec<u8>>,
}

impl Client {
    fn offer(
        direction: Direction,
        rids: &[&str],
        address: SocketAddr,
        now: Instant,
    ) -> (Self, String) {
        let mut rtc = Rtc::builder().set_rtp_mode(true).build(now);
        rtc.add_local_candidate(Candidate::host(address, "udp").expect("a candidate"));
        let mut simulcast = Simulcast::new();
        rids.iter().for_each(|rid| simulcast.add_send_layer(SimulcastLayer::new(rid)));
        let simulcast = (!rids.is_empty()).then_some(simulcast);
        let mut change = rtc.sdp_api();
        let mid = change.add_media(MediaKind::Video, direction, None, None, simulcast);
        let (offer, pending) = change.apply().expect("there are changes");
        let (pending, packets, sent) = (Some(pending), Vec::new(), Vec::new());
        (
            Self { rtc, mid, address, pending, packets, wants_key: true, timeout: now, sent },
            offer.to_sdp_string(),
        )
    }

    fn accept(&mut self, sdp: &str) {
        let answer = SdpAnswer::from_sdp_string(sdp).expect("an answer");
        let pending = self.pending.take().expect("an offer was made");
        self.rtc.sdp_api().accept_answer(pending, answer).expect("an acceptable answer");
        self.drain();
    }

    fn input(&mut self, input: Input) {
        self.rtc.handle_input(input).expect("a correct input");
        self.drain();
    }

    fn drain(&mut self) {
        loop {
            match self.rtc.poll_output().expect("the client is alive") {
                Output::Timeout(at) => {
                    self.timeout = at;
                    return;
                }
                Output::Transmit(transmit) => self.sent.push(transmit.contents.to_vec()),
                Output::Event(Event::RtpPacket(packet)) => self.packets.push(packet),
                Output::Event(Event::KeyframeRequest(_)) => self.wants_key = true,
                Output::Event(_) => {}
            }
        }
    }

    /// Sends frame `n` of all layers: key frames of all if one is wanted, as libwebrtc does.
    fn send_frame(&mut self, n: u16, now: Instant) {
        let params = self.rtc.codec_config().find(|it| it.spec().codec == Codec::Vp8).expect("VP8");
        let (pt, key) = (params.pt(), std::mem::take(&mut self.wants_key));
        for (index, (rid, bytes)) in LAYERS.into_iter().enumerate() {
            let picture = (1000 * (index as u16 + 1) + n).to_be_bytes();
            let time = 1_000_000 * index as u32 + 2970 * u32::from(n);
            let parts = bytes.div_ceil(PART_BYTES);
            for part in 0..parts {
                let start = if part == 0 { 0x10 } else { 0 };
                let first = [0x80 | start, 0x80, 0x80 | picture[0], picture[1], u8::from(!key)];
                let mut payload = first.to_vec();
                payload.resize(bytes.min(PART_BYTES), 0xab);
                let seq = 20_000 * index as u64 + n as u64 * parts as u64 + part as u64;
                let mut direct = self.rtc.direct_api();
                let stream = direct
                    .stream_tx_by_mid(self.mid, Some(Rid::from(rid)))
                    .expect("it was offered");
                let write =
                    RtpWrite::new(pt, seq.into(), time, now, payload).marker(part + 1 == parts);
                stream.write_rtp(write.nackable(true));
                self.drain();
                self.input(Input::Timeout(now));
            }
        }
    }
}

/// A link of limited rate with a drop-tail queue.
#[derive(Default)]
struct Link {
    bps: Option<u64>,
    free_at: Option<Instant>,
    flying: VecDeque<(Instant, Vec<u8>)>,
    /// Every how many datagrams one is lost.
    loses_one_of: Option<usize>,
    count: usize,
}

impl Link {
    fn push(&mut self, now: Instant, bytes: Vec<u8>) {
        self.count += 1;
        if self.loses_one_of.is_some_and(|period| self.count % period == 0) {
            return;
        }
        let start = self.free_at.unwrap_or(now).max(now);
        if start > now + QUEUE {
            return;
        }
        let bits = 8 * (bytes.len() + OVERHEAD_BYTES) as u64;
        let busy = self.bps.map_or(0.0, |bps| bits as f64 / bps as f64);
        self.free_at = Some(start + Duration::from_secs_f64(busy));
        self.flying.push_back((start + Duration::from_secs_f64(busy) + DELAY, bytes));
    }

    fn pop(&mut self, now: Instant) -> Option<Vec<u8>> {
        let due = self.flying.front().is_some_and(|(at, _)| *at <= now);
        due.then(|| self.flying.pop_front()).flatten().map(|(_, bytes)| bytes)
    }
}

/// A publisher with three layers, the server, and a subscriber behind a link of `bps`.
struct Lab {
    now: Instant,
    start: Instant,
    server: SfuServer,
    clients: [Client; 2],
    up: [Link; 2],
    down: [Link; 2],
    frames: u16,
    statistics: Vec<Value>,
}

impl Lab {
    fn new() -> Self {
        let now = Instant::now();
        let mut server = SfuServer::new(port(1), now);
        let rids = LAYERS.map(|(rid, _)| rid);
        let (publisher, first) = Client::offer(Direction::SendOnly, &rids, port(2), now);
        let (subscriber, second) = Client::offer(Direction::RecvOnly, &[], port(3), now);
        let mut outbox = Outbox::default();
        for (id, sdp, forwards) in [(PUBLISHER, first, None), (SUBSCRIBER, second, Some(PUBLISHER))]
        {
            let description = json!({"type": "offer", "sdp": sdp});
            let line = json!({"connection": id, "description": description, "forwards": forwards});
            server.handle_line(now, &line.to_string(), &mut outbox);
        }
        let mut clients = [publisher, subscriber];
        for (client, message) in clients.iter_mut().zip(&outbox.messages) {
            client.accept(message["description"]["sdp"].as_str().expect("an answer"));
        }
        let (up, down, statistics) = Default::default();
        Self { now, start: now, server, clients, up, down, frames: 0, statistics }
    }

    /// Lets virtual time pass. The link to the subscriber has a rate of `bps`.
    fn run(&mut self, seconds: u64, bps: u64) {
        self.down[SUBSCRIBER as usize].bps = Some(bps);
        let end = self.now + Duration::from_secs(seconds);
        while self.now < end {
            self.now = self.next().clamp(self.now + LEAST, end);
            self.step();
        }
    }

    /// When something happens next.
    fn next(&self) -> Instant {
        let links =
            self.up.iter().chain(&self.down).filter_map(|link| Some(link.flying.front()?.0));
        let clients = self.clients.iter().map(|client| client.timeout);
        let frame = self.start + FRAME_INTERVAL * u32::from(self.frames);
        let frame = if frame > self.now { frame } else { self.now + FRAME_INTERVAL };
        links.chain(clients).fold(self.server.poll_timeout().min(frame), Instant::min)
    }

    fn step(&mut self) {
        let (now, server_address) = (self.now, port(1));
        let publisher = &mut self.clients[0];
        if publisher.rtc.is_connected()
            && now >= self.start + FRAME_INTERVAL * u32::from(self.frames)
        {
            publisher.send_frame(self.frames, now);
            self.frames += 1;
        }
        let mut outbox = Outbox::default();
        for (client, (up, down)) in
            self.clients.iter_mut().zip(self.up.iter_mut().zip(&mut self.down))
        {
            while let Some(bytes) = down.pop(now) {
                let contents = bytes.as_slice().try_into().expect("a datagram of WebRTC");
                let (source, destination) = (server_address, client.address);
                let receive = Receive { proto: Protocol::Udp, source, destination, contents };
                client.input(Input::Receive(now, receive));
            }
            if client.timeout <= now {
                client.input(Input::Timeout(now));
            }
            client.sent.drain(..).for_each(|bytes| up.push(now, bytes));
            while let Some(bytes) = up.pop(now) {
                self.server.handle_datagram(now, client.address, &bytes, &mut outbox);
            }
        }
        self.server.handle_timeout(now, 0, &mut outbox);
        for (destination, bytes) in outbox.datagrams {
            let receiver = self.clients.iter().position(|client| client.address == destination);
            self.down[receiver.expect("a client")].push(now, bytes);
        }
        self.statistics.extend(outbox.messages);
    }

    /// Estimates in bit/s and layers of the statistics, oldest first.
    fn history(&self) -> Vec<(Option<u64>, &str)> {
        let all = self.statistics.iter().map(|it| &it["statistics"]);
        all.map(|it| (it["estimate_bps"].as_u64(), it["layer"].as_str().unwrap_or("none")))
            .collect()
    }

    /// The layers of the last statistics, oldest first.
    fn layers(&self, last: usize) -> Vec<&str> {
        let all: Vec<_> = self.history().into_iter().map(|(_, layer)| layer).collect();
        all[all.len() - last..].to_vec()
    }
}

#[test]
fn the_layer_follows_the_rate_of_the_link_to_the_subscriber() {
    let mut lab = Lab::new();
    lab.run(20, NARROW_BPS);
    assert_eq!(lab.layers(10), ["q"; 10], "only the lowest layer fits");
    lab.run(40, WIDE_BPS);
    assert_eq!(lab.layers(5), ["f"; 5], "the highest layer fits: {:?}", lab.history());
    lab.run(20, NARROW_BPS);
    assert_eq!(lab.layers(5), ["q"; 5], "only the lowest layer fits again: {:?}", lab.history());
}

/// A lab that began with the lowest layer and ended with the highest.
///
/// In about 3 of 100 labs the estimate of str0m 0.24 never rises again after the narrow link. Labs differ in
/// the random numbers of their connections, so several are tried.
fn switched() -> Lab {
    for _ in 0..TRIES {
        let mut lab = Lab::new();
        lab.run(10, NARROW_BPS);
        lab.run(40, WIDE_BPS);
        if (lab.layers(41)[0], lab.layers(1)[0]) == ("q", "f") {
            return lab;
        }
    }
    panic!("none of {TRIES} labs switched from the lowest layer to the highest");
}

#[test]
fn switches_leave_numbers_times_and_pictures_continuous() {
    let lab = switched();
    let mut packets: Vec<_> = lab.clients[1].packets.iter().collect();
    packets.sort_by_key(|packet| *packet.seq_no);
    for pair in packets.windows(2) {
        assert_eq!(*pair[1].seq_no, *pair[0].seq_no + 1, "no number is missing");
        let picture =
            |packet: &RtpPacket| Vp8Descriptor::parse(&packet.payload).expect("VP8").picture_id();
        let pictures =
            picture(pair[1]).expect("sent").wrapping_sub(picture(pair[0]).expect("sent"));
        assert!(pictures <= 1, "no picture is missing");
        let ticks = pair[1].header.timestamp.wrapping_sub(pair[0].header.timestamp);
        let expected = if pictures == 0 { 0..1 } else { 1..2 * 2970 + 1 };
        assert!(expected.contains(&ticks), "{ticks} ticks between neighbours");
    }
}

/// Runs the lab for 10 s with losses after the connections are up, and counts the missing numbers.
fn missing(lose: impl Fn(&mut Lab)) -> usize {
    let mut lab = Lab::new();
    lab.run(1, WIDE_BPS);
    lose(&mut lab);
    lab.run(8, WIDE_BPS);
    (lab.up, lab.down) = Default::default();
    lab.run(1, WIDE_BPS);
    let numbers: std::collections::BTreeSet<u64> =
        lab.clients[1].packets.iter().map(|packet| *packet.seq_no).collect();
    let (first, last) = (numbers.first().expect("packets"), numbers.last().expect("packets"));
    assert!(last - first > 250, "{first} to {last}");
    (last - first) as usize + 1 - numbers.len()
}

#[test]
fn what_a_subscriber_misses_is_sent_again() {
    assert_eq!(missing(|lab| lab.down[SUBSCRIBER as usize].loses_one_of = Some(20)), 0);
}

#[test]
fn what_the_server_misses_is_sent_again_and_forwarded() {
    assert_eq!(missing(|lab| lab.up[PUBLISHER as usize].loses_one_of = Some(20)), 0);
}

/// Everybody publishes and subscribes to everybody else; datagrams take no time.
struct Meeting {
    now: Instant,
    server: SfuServer,
    /// Publications, then subscriptions.
    clients: Vec<Client>,
    messages: Vec<Value>,
}

impl Meeting {
    /// A meeting in which all connections are up.
    fn new(people: u64) -> Self {
        let now = Instant::now();
        let server = SfuServer::new(port(1), now);
        let mut meeting = Self { now, server, clients: Vec::new(), messages: Vec::new() };
        (0..people).for_each(|_| meeting.add(None));
        for from in 0..people {
            (1..people).for_each(|_| meeting.add(Some(from)));
        }
        meeting.run(Duration::from_millis(500));
        assert!(meeting.clients.iter().all(|client| client.rtc.is_connected()));
        meeting
    }

    fn add(&mut self, forwards: Option<u64>) {
        let id = self.clients.len();
        let direction = if forwards.is_none() { Direction::SendOnly } else { Direction::RecvOnly };
        let (mut client, sdp) = Client::offer(direction, &[], port(2 + id as u16), self.now);
        let description = json!({"type": "offer", "sdp": sdp});
        let line = json!({"connection": id, "description": description, "forwards": forwards});
        let mut outbox = Outbox::default();
        self.server.handle_line(self.now, &line.to_string(), &mut outbox);
        let answer = &outbox.messages[0]["description"]["sdp"];
        client.accept(answer.as_str().expect("an answer"));
        self.clients.push(client);
    }

    /// Lets everybody do what is due in `duration`.
    fn run(&mut self, duration: Duration) {
        let end = self.now + duration;
        while self.now < end {
            self.now += Duration::from_millis(5);
            for client in self.clients.iter_mut().filter(|client| client.timeout <= self.now) {
                client.input(Input::Timeout(self.now));
            }
            let mut outbox = Outbox::default();
            self.server.handle_timeout(self.now, 0, &mut outbox);
            loop {
                for client in &mut self.clients {
                    for bytes in client.sent.drain(..) {
                        let (source, now) = (client.address, self.now);
                        self.server.handle_datagram(now, source, &bytes, &mut outbox);
                    }
                }
                if outbox.datagrams.is_empty() {
                    break;
                }
                self.deliver(&mut outbox);
            }
            self.messages.extend(outbox.messages);
        }
    }

    /// Hands the server's datagrams to the clients.
    fn deliver(&mut self, outbox: &mut Outbox) {
        for (destination, bytes) in outbox.datagrams.drain(..) {
            let client = &mut self.clients[usize::from(destination.port()) - 2];
            let contents = bytes.as_slice().try_into().expect("a datagram of WebRTC");
            let receive = Receive { proto: Protocol::Udp, source: port(1), destination, contents };
            client.input(Input::Receive(self.now, receive));
        }
    }

    /// Sends a packet that names the publisher.
    fn publish(&mut self, publisher: u64, seq: u64) {
        let client = &mut self.clients[publisher as usize];
        let params =
            client.rtc.codec_config().find(|it| it.spec().codec == Codec::Vp8).expect("VP8");
        let payload = [0x10, 0, publisher as u8, seq as u8];
        let write = RtpWrite::new(params.pt(), seq.into(), 3000 * seq as u32, self.now, payload);
        let mut direct = client.rtc.direct_api();
        direct.stream_tx_by_mid(client.mid, None).expect("it was offered").write_rtp(write);
        client.drain();
        client.input(Input::Timeout(self.now));
    }
}

#[test]
fn everybody_of_12_people_gets_every_packet_of_everybody_else() {
    const PEOPLE: u64 = 12;
    let mut meeting = Meeting::new(PEOPLE);
    for seq in 0..3 {
        (0..PEOPLE).for_each(|publisher| meeting.publish(publisher, seq));
        meeting.run(Duration::from_millis(30));
    }
    let subscriptions = meeting.clients[PEOPLE as usize..].chunks(PEOPLE as usize - 1);
    for (publisher, subscriptions) in subscriptions.enumerate() {
        for client in subscriptions {
            let got: Vec<_> =
                client.packets.iter().map(|it| (it.payload[2], it.payload[3])).collect();
            assert_eq!(got, [0, 1, 2].map(|seq| (publisher as u8, seq)));
        }
    }
    assert_eq!(meeting.messages, Vec::<Value>::new(), "no error");
}

impl Meeting {
    /// Passes a datagram to the server, and returns how often the server visited which connections.
    fn visits(&mut self, source: SocketAddr, bytes: &[u8], outbox: &mut Outbox) -> Vec<(u64, u64)> {
        self.server.connections.values().for_each(|it| it.visits.set(0));
        self.server.handle_datagram(self.now, source, bytes, outbox);
        let all = self.server.connections.iter().map(|(&id, it)| (id, it.visits.get()));
        all.filter(|&(_, visits)| visits > 0).collect()
    }
}

/// Set-up takes long, so one test asks all questions: what does the server visit for media, for feedback, for a new
/// address and for a stranger?
#[test]
fn a_datagram_visits_only_connections_that_it_concerns_among_1024() {
    const PEOPLE: u64 = 32;
    let mut meeting = Meeting::new(PEOPLE);
    assert_eq!(meeting.server.connections.len(), 1024);
    let mut outbox = Outbox::default();
    for publisher in 0..PEOPLE {
        meeting.publish(publisher, 0);
        let client = &mut meeting.clients[publisher as usize];
        let (source, sent) = (client.address, std::mem::take(&mut client.sent));
        assert_eq!(sent.len(), 1);
        // The publication is asked and driven, each of its subscriptions is driven.
        let first = PEOPLE + (PEOPLE - 1) * publisher;
        let subscriptions = (first..first + PEOPLE - 1).map(|subscription| (subscription, 1));
        let expected: Vec<_> = std::iter::once((publisher, 2)).chain(subscriptions).collect();
        assert_eq!(meeting.visits(source, &sent[0], &mut outbox), expected);
    }
    meeting.deliver(&mut outbox);
    assert!(meeting.clients[PEOPLE as usize..].iter().all(|client| client.packets.len() == 1));

    meeting.now += Duration::from_secs(1);
    for id in PEOPLE..1024 {
        let client = &mut meeting.clients[id as usize];
        client.input(Input::Timeout(meeting.now));
        let (source, sent) = (client.address, std::mem::take(&mut client.sent));
        assert!(!sent.is_empty(), "feedback is due");
        for bytes in sent {
            assert_eq!(meeting.visits(source, &bytes, &mut outbox), [(id, 2)]);
        }
    }

    meeting.add(None);
    let client = &mut meeting.clients[1024];
    client.input(Input::Timeout(meeting.now));
    let (source, check) = (client.address, client.sent[0].clone());
    assert_eq!(meeting.visits(source, &check, &mut outbox), [(1024, 2)]);
    for stranger in [&[0x80, 96, 0, 0][..], &[22, 0, 0, 0], &check[..20]] {
        assert_eq!(meeting.visits(port(9999), stranger, &mut outbox), []);
    }
}

impl Meeting {
    /// Lets the server handle all datagrams of the clients, as the main loop does, and returns their number and how
    /// long it took. Clients get what the server sends.
    fn serve(&mut self) -> (u32, Duration) {
        let Self { now, server, clients, .. } = self;
        let sent = clients.iter_mut().map(|client| (client.address, client.sent.split_off(0)));
        let sent: Vec<_> = sent.collect();
        let mut outbox = Outbox::default();
        let begin = Instant::now();
        for (source, datagrams) in &sent {
            for bytes in datagrams {
                server.handle_datagram(*now, *source, bytes, &mut outbox);
                server.handle_timeout(*now, 0, &mut outbox);
            }
        }
        let took = begin.elapsed();
        self.deliver(&mut outbox);
        (sent.iter().map(|(_, datagrams)| datagrams.len() as u32).sum(), took)
    }
}

/// `cargo test --profile server -p rtclab-sfu -- --ignored --nocapture how_long`
#[test]
#[ignore = "measures and asserts nothing"]
fn how_long_the_server_takes_for_a_datagram() {
    for people in [4, 12, 32] {
        let mut meeting = Meeting::new(people);
        // The least of many rounds, because a busy machine interrupts some of them.
        let (mut copy, mut feedback) = (Duration::MAX, Duration::MAX);
        for seq in 0..300 {
            meeting.run(Duration::from_millis(20));
            (0..people).for_each(|publisher| meeting.publish(publisher, seq));
            let (datagrams, took) = meeting.serve();
            copy = copy.min(took / (datagrams * (people as u32 - 1)));
            meeting.now += Duration::from_millis(100);
            meeting.server.handle_timeout(meeting.now, 0, &mut Outbox::default());
            for client in &mut meeting.clients {
                client.input(Input::Timeout(meeting.now));
            }
            let (datagrams, took) = meeting.serve();
            feedback = feedback.min(took / datagrams);
        }
        let (begin, now) = (Instant::now(), meeting.now);
        for _ in 0..1000 {
            let datagram = [0x80, 96, 0, 0];
            meeting.server.handle_datagram(now, port(9999), &datagram, &mut Outbox::default());
        }
        let stranger = begin.elapsed() / 1000;
        println!(
            "{people} people: {copy:?} for a copy of a packet, {feedback:?} for feedback, \
             {stranger:?} for a datagram from an unknown address"
        );
    }
}

#[test]
fn datagrams_that_were_dropped_are_reported_once() {
    let start = Instant::now();
    let mut server = SfuServer::new(port(1), start);
    let mut outbox = Outbox::default();
    server.count_dropped(3);
    server.count_dropped(4);
    for s in 1..=2 {
        server.handle_timeout(start + Duration::from_secs(s), 1000 * s, &mut outbox);
    }
    assert_eq!(outbox.messages, [json!({"overload": {"at_ms": 1000, "dropped": 7}})]);
}
