use super::*;
use crate::config::MacAddress;
use crate::device::Sink;
use crate::packet_log::{HopLog, PacketLog};
use crate::segments::Outgoing;
use crate::segments::tests::tcp_frame;
use rtclab_core::network::NetworkConfig;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

const SEED: u64 = 7;
const ALICE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const BOB: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 3);
const BOB_MAC: MacAddress = MacAddress([2, 0x77, 0, 0, 0, 3]);

/// From alice to bob over two paths with capacity, queue, loss and jitter, and back over a path without
/// any of these.
fn network() -> NetworkConfig {
    serde_json::from_str(
        r#"{"nodes": ["alice", "bob", "carol"],
            "paths": [
              {"name": "up", "capacity": {"kind": "constant", "bps": 10000000},
               "queue": {"kind": "packets", "limit": 4},
               "delay": {"kind": "constant", "ns": 5000000},
               "loss": {"p": 0.0, "r": 1.0, "h": 0.8, "k": 0.8}},
              {"name": "down",
               "capacity": {"kind": "steps", "steps": [[0, 8000000], [20000000, 4000000]]},
               "delay": {"kind": "constant", "ns": 1000000}},
              {"name": "back"}],
            "routes": [{"from": "alice", "to": "bob", "paths": ["up", "down"]},
                       {"from": "bob", "to": "alice", "paths": ["back"]}]}"#,
    )
    .expect("a valid network")
}

fn ports() -> Vec<PortConfig> {
    [("alice", ALICE, MacAddress([2, 0x77, 0, 0, 0, 2])), ("bob", BOB, BOB_MAC)]
        .into_iter()
        .map(|(node, address, mac)| PortConfig {
            node: node.into(),
            interface: format!("to-{node}"),
            mac,
            address,
            gateway: false,
        })
        .collect()
}

/// An Ethernet frame with an IPv4 packet of `size` bytes.
fn frame(destination: Ipv4Addr, size: u16) -> Vec<u8> {
    let mut frame = vec![0; 14 + usize::from(size)];
    frame[12..15].copy_from_slice(&[0x08, 0x00, 0x45]);
    frame[16..18].copy_from_slice(&size.to_be_bytes());
    frame[30..34].copy_from_slice(&destination.octets());
    frame
}

/// A frame as the kernel passes it: TCP is left in one piece.
fn received(bytes: Vec<u8>) -> Frame {
    if bytes.get(23) == Some(&6) { Frame::tcp(bytes, 1_448) } else { Frame::whole(bytes) }
}

/// A device with its own clock, which wakes late every time.
struct ScriptedDevice {
    now: Time,
    script: VecDeque<(Time, PortId, Vec<u8>)>,
    wakes: u64,
    sent: Sender<(PortId, Vec<u8>)>,
    stop: Sender<Command>,
}

impl Device for ScriptedDevice {
    fn now(&mut self) -> Time {
        self.now
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let next = self.script.front().map(|(at, ..)| *at);
        let Some(wake) = next.into_iter().chain(until).min() else {
            self.stop.send(Command::Stop).expect("the loop is listening");
            return Ok(());
        };
        self.wakes += 1;
        let late = Time::from_micros(self.wakes * 700 % 2_900);
        self.now = self.now.max(wake.saturating_add(late));
        Ok(())
    }

    fn receive(&mut self, until: Time, sink: Sink<'_>) {
        let due = self.script.partition_point(|(at, ..)| *at <= until);
        for (at, port, frame) in self.script.drain(..due) {
            sink(port, Ok((at, received(frame))));
        }
    }

    fn send(&mut self, port: PortId, frame: &Outgoing<'_>) -> io::Result<()> {
        frame
            .packets()
            .into_iter()
            .try_for_each(|packet| self.sent.send((port, packet)).map_err(io::Error::other))
    }

    fn overflows(&mut self) -> u64 {
        0
    }
}

/// Frames with the times and ports at which they arrive.
type Script = Vec<(Time, PortId, Vec<u8>)>;

/// An empty log.
fn log() -> Option<LogStore> {
    Some(LogStore::new(std::env::temp_dir()))
}

/// Result of a loop with its log.
struct Ended {
    log: Option<PacketLog>,
    traffic: Vec<NodePair>,
    lateness: Lateness,
    counters: Counters,
    port_failures: Vec<PortFailure>,
    failure: Option<EngineError>,
}

impl From<Finished> for Ended {
    fn from(finished: Finished) -> Self {
        let Finished { packets, traffic, lateness, counters, port_failures, failure } = finished;
        let log = packets.map(|log| log.finish().expect("a log"));
        Ended { log, traffic, lateness, counters, port_failures, failure }
    }
}

impl Ended {
    fn log(&self) -> &PacketLog {
        self.log.as_ref().expect("a log")
    }
}

/// Runs a script to its end. Returns the result of the loop and the frames written.
fn run(script: Script) -> (Ended, Vec<(PortId, Vec<u8>)>) {
    run_on(ports(), script, |device| device)
}

/// Runs a script to its end between these ports, on a device that is made of the scripted one.
fn run_on<D: Device>(
    ports: Vec<PortConfig>,
    script: Script,
    device: impl FnOnce(ScriptedDevice) -> D,
) -> (Ended, Vec<(PortId, Vec<u8>)>) {
    run_through(network(), ports, script, device)
}

/// Runs a script to its end through this network, as in [`run_on`].
fn run_through<D: Device>(
    network: NetworkConfig,
    ports: Vec<PortConfig>,
    script: Script,
    device: impl FnOnce(ScriptedDevice) -> D,
) -> (Ended, Vec<(PortId, Vec<u8>)>) {
    let (stop, commands) = channel();
    let (sent, written) = channel();
    let scripted = ScriptedDevice { now: Time::ZERO, script: script.into(), wakes: 0, sent, stop };
    let engine = Engine::new(device(scripted), (network, SEED), ports, log(), None);
    let finished = engine.expect("a valid network").run(&commands);
    (finished.into(), written.try_iter().collect())
}

/// Delivery times, queuing delays and drop times (or -1) of packets from alice to bob in virtual time.
fn in_virtual_time(packets: &[(Time, u64)]) -> [Vec<i64>; 3] {
    let mut network = Network::new(network(), SEED).expect("a valid network");
    let [mut delivered, mut queued_for, mut dropped] = [(); 3].map(|()| vec![-1; packets.len()]);
    let mut drain = |network: &mut Network<usize>, now| {
        while let Some(event) = network.poll(now) {
            match event {
                NetworkEvent::Delivered { at, queued, packet, .. } => {
                    delivered[packet.payload] = at.0 as i64;
                    queued_for[packet.payload] = queued.0 as i64;
                }
                NetworkEvent::Dropped { at, packet, .. } => dropped[packet.payload] = at.0 as i64,
            }
        }
    };
    for (index, (at, size)) in packets.iter().enumerate() {
        drain(&mut network, *at);
        let packet = Packet::new(Bytes(*size), index);
        network.handle_packet(*at, NodeId(0), NodeId(1), packet).expect("alice reaches bob");
    }
    drain(&mut network, Time::from_secs(10));
    [delivered, queued_for, dropped]
}

/// Bursts of different sizes: some packets are queued, some dropped at a full queue, some lost.
fn bursts() -> Vec<(Time, u64)> {
    (0..60).map(|i| (Time::from_micros(i / 8 * 6_000 + i * 13), 200 + i * 20)).collect()
}

#[test]
fn a_late_clock_gives_the_same_logical_times_as_virtual_time() {
    let packets = bursts();
    let script =
        packets.iter().map(|(at, size)| (*at, PortId(0), frame(BOB, *size as u16))).collect();
    let (finished, written) = run(script);
    let [delivered, queued, dropped] = in_virtual_time(&packets);
    assert_eq!(finished.log().delivered_ns, delivered);
    assert_eq!(finished.log().queued_ns, queued);
    assert!(queued.iter().any(|waited| *waited > 1_000_000), "the test needs a queue");
    let HopLog { packet, queued_ns, .. } = &finished.log().hops;
    let mut sums = vec![0; packets.len()];
    packet.iter().zip(queued_ns).for_each(|(row, waited)| sums[*row as usize] += waited);
    assert_eq!(sums, queued.iter().map(|waited| (*waited).max(0)).collect::<Vec<_>>());
    assert_eq!(finished.log().dropped_ns, dropped);
    assert_eq!(written.len(), delivered.iter().filter(|at| **at >= 0).count());
    assert!(dropped.iter().filter(|at| **at >= 0).count() > 5, "the test needs drops");
    // The device wakes at most 2.9 ms late, and lateness does not add up over two paths.
    let latest = finished.lateness.times.max();
    assert!(latest > Time::from_millis(1) && latest < Time::from_millis(6), "{latest:?}");
}

/// Ten packets of 1500 bytes come as one frame: 10 · 1448 bytes behind headers of 20 + 32 bytes.
#[test]
fn the_packets_of_a_frame_are_queued_dropped_and_delivered_one_by_one() {
    let stretch = tcp_frame((0, 3), 0x18, 14_480);
    let (finished, written) = run(vec![(Time::ZERO, PortId(0), stretch)]);
    let [delivered, queued, dropped] = in_virtual_time(&[(Time::ZERO, 1_500); 10]);
    assert_eq!(finished.log().size_bytes, [1_500; 10]);
    assert_eq!(finished.log().delivered_ns, delivered);
    assert_eq!(finished.log().queued_ns, queued);
    assert_eq!(finished.log().dropped_ns, dropped);
    // The queue has four places, and one packet is being sent.
    assert!(dropped[5..].iter().all(|at| *at == 0), "{dropped:?}");
    assert_eq!(written.len(), delivered.iter().filter(|at| **at >= 0).count());
    assert!(written.iter().all(|(_, packet)| packet.len() == 1_514));
}

/// The path back takes no time, so all ten packets leave at once.
#[test]
fn packets_of_a_frame_that_leave_together_are_written_as_one() {
    let mut stretch = tcp_frame((0, 3), 0x18, 14_480);
    stretch[30..34].copy_from_slice(&ALICE.octets());
    let frames = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&frames);
    let script = vec![(Time::ZERO, PortId(1), stretch)];
    let (finished, written) = run_on(ports(), script, |device| Counting { device, frames });
    assert_eq!((counted.load(Relaxed), written.len()), (1, 10));
    assert_eq!(finished.lateness.times.count(), 10);
}

/// A device that counts the frames written.
struct Counting {
    device: ScriptedDevice,
    frames: Arc<AtomicUsize>,
}

impl Device for Counting {
    fn now(&mut self) -> Time {
        self.device.now()
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        self.device.wait(until)
    }

    fn receive(&mut self, until: Time, sink: Sink<'_>) {
        self.device.receive(until, sink);
    }

    fn send(&mut self, port: PortId, frame: &Outgoing<'_>) -> io::Result<()> {
        self.frames.fetch_add(1, Relaxed);
        self.device.send(port, frame)
    }

    fn overflows(&mut self) -> u64 {
        self.device.overflows()
    }
}

/// What became of the packets is counted from the log, in which each has a row.
#[test]
fn without_a_log_no_packet_has_a_row_and_the_counts_are_those_of_a_log() {
    let script: Script =
        bursts().iter().map(|(at, size)| (*at, PortId(0), frame(BOB, *size as u16))).collect();
    let (logged, written) = run(script.clone());
    let (stop, commands) = channel();
    let (sent, written_without) = channel();
    let device = ScriptedDevice { now: Time::ZERO, script: script.into(), wakes: 0, sent, stop };
    let engine = Engine::new(device, (network(), SEED), ports(), None, None);
    let finished = Ended::from(engine.expect("a valid network").run(&commands));
    assert_eq!(finished.log, None);
    assert_eq!(written_without.try_iter().collect::<Vec<_>>(), written);
    assert_eq!(finished.traffic, logged.traffic);
    assert_eq!(finished.lateness, logged.lateness);

    let log = logged.log();
    let delays = || {
        let times = log.delivered_ns.iter().zip(&log.sent_ns);
        times.filter(|(delivered, _)| **delivered >= 0).map(|(delivered, sent)| delivered - sent)
    };
    let pair =
        finished.traffic.iter().find(|pair| pair.from == NodeId(0)).expect("alice's packets");
    let all = &pair.all;
    assert_eq!((pair.to, all.packets, all.on_the_way()), (NodeId(1), 60, 0));
    assert_eq!(all.bytes, log.size_bytes.iter().map(|size| u64::from(*size)).sum::<u64>());
    assert_eq!(all.delivered, delays().count() as u64);
    assert_eq!(all.delays.max().0 as i64, delays().max().expect("a delivery"));
    for (index, dropped) in all.dropped.iter().enumerate() {
        let rows = log.drop_cause.iter().filter(|cause| **cause as usize == index);
        assert_eq!(*dropped, rows.count() as u64);
    }
    assert_eq!(finished.lateness.times.count(), all.delivered);
}

/// A device of in-process channels, with the real clock.
struct ChannelDevice {
    origin: Instant,
    input: Receiver<(Time, Vec<u8>)>,
    pending: Option<(Time, Vec<u8>)>,
    output: Sender<Vec<u8>>,
    stop: Sender<Command>,
}

impl Device for ChannelDevice {
    fn now(&mut self) -> Time {
        Time(self.origin.elapsed().as_nanos() as u64)
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let limit = until.map_or(Duration::from_secs(1), |until| {
            Duration::from_nanos(until.saturating_sub(self.now()).0)
        });
        match self.input.recv_timeout(limit) {
            Ok(frame) => self.pending = Some(frame),
            Err(RecvTimeoutError::Disconnected) if until.is_none() => {
                self.stop.send(Command::Stop).expect("the loop is listening");
            }
            Err(_) => {}
        }
        Ok(())
    }

    fn receive(&mut self, _until: Time, sink: Sink<'_>) {
        for (at, frame) in self.pending.take().into_iter().chain(self.input.try_iter()) {
            sink(PortId(0), Ok((at, received(frame))));
        }
    }

    fn send(&mut self, _port: PortId, frame: &Outgoing<'_>) -> io::Result<()> {
        self.output.send(frame.on_wire()).map_err(io::Error::other)
    }

    fn overflows(&mut self) -> u64 {
        0
    }
}

#[test]
fn the_real_clock_gives_the_same_logical_times_as_virtual_time() {
    let origin = Instant::now();
    let (to_device, input) = channel();
    let (output, written) = channel();
    let (stop, commands) = channel();
    let device = ChannelDevice { origin, input, pending: None, output, stop };
    let engine =
        Engine::new(device, (network(), SEED), ports(), log(), None).expect("a valid network");
    let thread = std::thread::spawn(move || engine.run(&commands));
    for (at, size) in bursts() {
        // Spins, because this tests real time: 60 frames in 43 ms.
        while origin.elapsed() < Duration::from_nanos(at.0) {
            std::hint::spin_loop();
        }
        let now = Time(origin.elapsed().as_nanos() as u64);
        to_device.send((now, frame(BOB, size as u16))).expect("the device is listening");
    }
    drop(to_device);
    let finished = Ended::from(thread.join().expect("no panic"));
    let log = finished.log();
    let packets: Vec<_> = (log.sent_ns.iter().map(|at| Time(*at as u64)))
        .zip(log.size_bytes.iter().map(|s| u64::from(*s)))
        .collect();
    let [delivered, _, dropped] = in_virtual_time(&packets);
    assert_eq!(packets.len(), 60);
    assert_eq!(log.delivered_ns, delivered);
    assert_eq!(log.dropped_ns, dropped);
    assert_eq!(written.try_iter().count(), delivered.iter().filter(|at| **at >= 0).count());
    assert!(log.written_ns.iter().zip(&log.delivered_ns).all(|(written, at)| written >= at));
}

#[test]
fn a_delivered_frame_is_addressed_to_its_node_and_otherwise_unchanged() {
    let sent = frame(BOB, 1200);
    let (finished, written) = run(vec![(Time::ZERO, PortId(0), sent.clone())]);
    let [(port, received)] = written.as_slice() else { panic!("{} frames", written.len()) };
    assert_eq!(*port, PortId(1));
    assert_eq!(received[..6], BOB_MAC.0);
    assert_eq!(received[12..], sent[12..]);
    assert_eq!(finished.log().size_bytes, [1200]);
    assert_eq!((finished.log().from[0], finished.log().to[0]), (0, 1));
}

/// Five packets with ECT(1) come at once, and each takes 1 ms at 10 Mbit/s. They wait 0 to 4 ms, so the last three wait
/// for longer than the threshold of 1 ms.
#[test]
fn a_packet_that_a_queue_marks_leaves_with_ce_and_a_valid_checksum_unless_a_path_bleaches_it() {
    for (ecn, codepoints, marks) in
        [("keep", [1, 1, 3, 3, 3], [-1, -1, 0, 0, 0]), ("bleach", [0; 5], [-1; 5])]
    {
        let network = serde_json::from_str(&format!(
            r#"{{"nodes": ["alice", "bob"],
                "paths": [{{"name": "up", "capacity": {{"kind": "constant", "bps": 10000000}},
                           "aqm": {{"kind": "step"}}}},
                          {{"name": "down", "ecn": "{ecn}"}}],
                "routes": [{{"from": "alice", "to": "bob", "paths": ["up", "down"]}}]}}"#,
        ))
        .expect("a valid network");
        let mut sent = frame(BOB, 1250);
        sent[15] = 1;
        let script = (0..5).map(|_| (Time::ZERO, PortId(0), sent.clone())).collect();
        let (finished, written) = run_through(network, ports(), script, |device| device);
        let left: Vec<u8> = written.iter().map(|(_, frame)| frame[15]).collect();
        assert_eq!(left, codepoints, "{ecn}");
        for (_, frame) in &written {
            // The sum of a header's words is the same before and after.
            let sum = |frame: &[u8]| {
                let words = frame[14..34].chunks_exact(2);
                let words = words.map(|word| u16::from_be_bytes([word[0], word[1]]));
                words.map(u64::from).sum::<u64>() % 0xffff
            };
            assert_eq!(sum(frame), sum(&sent), "{ecn}");
        }
        assert_eq!(finished.log().ecn, [1; 5]);
        assert_eq!(finished.log().mark_path, marks, "{ecn}");
        let threshold = rtclab_core::path::MarkCause::Threshold as i8;
        let causes = marks.map(|path| if path < 0 { -1 } else { threshold });
        assert_eq!(finished.log().mark_cause, causes, "{ecn}");
    }
}

#[test]
fn an_arp_request_is_answered_at_the_port_at_which_it_came() {
    let mut request = vec![0xff; 6];
    request.extend([2, 0x77, 0, 0, 0, 2, 0x08, 0x06, 0, 1, 0x08, 0x00, 6, 4, 0, 1]);
    request.extend([2, 0x77, 0, 0, 0, 2, 10, 77, 0, 2, 0, 0, 0, 0, 0, 0, 10, 77, 0, 3]);
    let FrameContent::ArpRequest { reply } = parse(&request) else { panic!("no request") };
    let (finished, written) = run(vec![(Time::ZERO, PortId(0), request)]);
    assert_eq!(written, [(PortId(0), reply)]);
    assert_eq!(finished.counters, Counters { arp_answered: 1, ..Counters::default() });
}

#[test]
fn frames_without_a_route_are_counted_and_not_written() {
    let mut ipv6 = frame(BOB, 100);
    ipv6[12..14].copy_from_slice(&[0x86, 0xdd]);
    let multicast = frame(Ipv4Addr::new(224, 0, 0, 251), 100);
    let script = vec![(Time::ZERO, PortId(0), ipv6), (Time::ZERO, PortId(1), multicast)];
    let (finished, written) = run(script);
    let expected = Counters { not_ipv4: 1, no_route: 1, ..Counters::default() };
    assert_eq!(finished.counters, expected);
    assert_eq!(written, []);
    assert_eq!(finished.log(), &PacketLog::default());
}

#[test]
fn a_gateway_gets_the_packets_to_addresses_that_no_node_has_unless_they_are_for_many() {
    let mut ports = ports();
    ports[1].gateway = true;
    let elsewhere = Ipv4Addr::new(203, 0, 113, 5);
    let several = [Ipv4Addr::new(224, 0, 0, 251), Ipv4Addr::BROADCAST];
    let from_alice = [elsewhere, several[0], several[1], BOB].map(|to| (PortId(0), to));
    let script = [from_alice.as_slice(), &[(PortId(1), elsewhere)]].concat();
    let script = script.into_iter().map(|(port, to)| (Time::ZERO, port, frame(to, 100))).collect();
    let (finished, written) = run_on(ports, script, |device| device);
    let written: Vec<_> =
        written.iter().map(|(port, frame)| (port.0, &frame[..6], &frame[30..34])).collect();
    let at_bob = |to: &'static [u8]| (1, &BOB_MAC.0[..], to);
    assert_eq!(written, [at_bob(&[203, 0, 113, 5]), at_bob(&[10, 77, 0, 3])]);
    assert_eq!(finished.counters, Counters { no_route: 3, ..Counters::default() });
}

#[test]
fn a_port_of_an_unknown_node_is_rejected() {
    let mut ports = ports();
    ports[1].node = "dave".into();
    assert_eq!(
        rejected(ports),
        r#"port `to-bob` belongs to unknown node `dave`; expected one of ["alice", "bob", "carol"]"#
    );
}

#[test]
fn a_second_gateway_is_rejected() {
    let mut ports = ports();
    ports.iter_mut().for_each(|port| port.gateway = true);
    let expected = "ports `to-alice` and `to-bob` are both gateways; expected at most one";
    assert_eq!(rejected(ports), expected);
}

/// The error for these ports.
fn rejected(ports: Vec<PortConfig>) -> String {
    let (sent, _written) = channel();
    let (stop, _commands) = channel();
    let device = ScriptedDevice { now: Time::ZERO, script: VecDeque::new(), wakes: 0, sent, stop };
    Engine::new(device, (network(), SEED), ports, log(), None).err().expect("an error")
}

#[test]
fn a_frame_leaves_at_the_port_of_its_address_if_a_node_has_two() {
    let mut ports = ports();
    let (address, mac) = (Ipv4Addr::new(10, 77, 0, 13), MacAddress([2, 0x77, 0, 0, 0, 13]));
    let interface = "also-to-bob".into();
    ports.push(PortConfig { node: "bob".into(), interface, mac, address, gateway: false });
    let script = [address, BOB].map(|to| (Time::ZERO, PortId(0), frame(to, 100))).to_vec();
    let (_, written) = run_on(ports, script, |device| device);
    let written: Vec<_> = written.iter().map(|(port, frame)| (port.0, &frame[..6])).collect();
    assert_eq!(written, [(2, &mac.0[..]), (1, &BOB_MAC.0[..])]);
}

/// A device that fails in part after 10 ms.
struct Failing {
    device: ScriptedDevice,
    /// What fails: a port, or waiting for all of them.
    what: Option<PortId>,
}

impl Failing {
    fn failed(&mut self) -> io::Result<()> {
        let fails = self.device.now >= Time::from_millis(10);
        if fails { Err(io::ErrorKind::NetworkDown.into()) } else { Ok(()) }
    }
}

impl Device for Failing {
    fn now(&mut self) -> Time {
        self.device.now()
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        if self.what.is_none() {
            self.failed()?;
        }
        self.device.wait(until)
    }

    fn receive(&mut self, until: Time, sink: Sink<'_>) {
        if let (Some(port), Err(error)) = (self.what, self.failed()) {
            sink(port, Err(error));
        }
        self.device.receive(until, sink);
    }

    fn send(&mut self, port: PortId, frame: &Outgoing<'_>) -> io::Result<()> {
        self.device.send(port, frame)
    }

    fn overflows(&mut self) -> u64 {
        3
    }
}

/// One packet from alice to bob every 10 ms; returns the loop's result and how many were written.
fn run_failing(what: Option<PortId>) -> (Ended, usize) {
    let script = (0..5).map(|i| (Time::from_millis(10 * i), PortId(0), frame(BOB, 100)));
    let (finished, written) = run_on(ports(), script.collect(), |device| Failing { device, what });
    (finished, written.len())
}

#[test]
fn a_port_that_fails_is_named_and_the_others_go_on() {
    let (finished, written) = run_failing(Some(PortId(1)));
    assert!(finished.failure.is_none(), "{:?}", finished.failure);
    assert_eq!((finished.log().sent_ns.len(), written), (5, 5));
    let failure = &finished.port_failures[0];
    assert_eq!(failure.interface, "to-bob");
    assert!(failure.at >= Time::from_millis(10), "{}", failure.at);
    assert_eq!(failure.error.kind(), io::ErrorKind::NetworkDown);
}

#[test]
fn an_error_that_ends_the_loop_leaves_the_log_and_the_counters() {
    let (finished, written) = run_failing(None);
    assert!(matches!(finished.failure, Some(EngineError::Device(_))), "{:?}", finished.failure);
    // The packet of 0 ms left after 6 ms, the packet of 10 ms entered at the moment of the error.
    assert_eq!((finished.log().sent_ns.len(), written), (2, 1));
    assert_eq!(finished.counters.receive_overflows, 3);
}
