//! Counts packets that went in, were delivered and were dropped, by pair of nodes and protocol, in bounded memory.

use crate::classify::LoggedProtocol;
use crate::histogram::Histogram;
use rtclab_core::ecn::Ecn;
use rtclab_core::network::NodeId;
use rtclab_core::path::{DropCause, Mark, MarkCause};
use rtclab_core::rtp::RtpHeader;
use rtclab_core::units::{Bytes, Time};
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Streams that are counted separately; when more appear, the oldest are settled. A large conference has some hundred.
const MOST_STREAMS: usize = 1_024;
/// Sequence numbers of a stream that are remembered while none follows another. Packets enter a network in the order
/// in which they are sent, except for retransmissions on the same SSRC.
const REMEMBERED: usize = 64;

/// Packets that went in, were delivered and were dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Number of packets that went in.
    pub packets: u64,
    /// Their IP total lengths.
    pub bytes: u64,
    /// Number of packets delivered.
    pub delivered: u64,
    /// Their IP total lengths.
    pub delivered_bytes: u64,
    /// Number of packets dropped for each of [`DropCause::ALL`].
    pub dropped: [u64; DropCause::ALL.len()],
    /// Number of delivered packets that went in ECN-capable.
    pub ecn_capable: u64,
    /// Number of packets delivered with a mark, for each of [`MarkCause::ALL`].
    pub marked: [u64; MarkCause::ALL.len()],
    /// When the first packet went in.
    pub first_sent: Option<Time>,
    /// When the last one was delivered.
    pub last_delivered: Option<Time>,
    /// Times from entry to delivery.
    pub delays: Histogram,
}

impl Traffic {
    /// Number of packets that are waiting, being sent or travelling.
    pub fn on_the_way(&self) -> u64 {
        self.packets - self.delivered - self.dropped.iter().sum::<u64>()
    }

    /// Bits delivered per second, from the first packet's entry to the last delivery; `None` if nothing was delivered or
    /// no time passed.
    pub fn delivered_bps(&self) -> Option<f64> {
        let over = self.last_delivered?.saturating_sub(self.first_sent?);
        (over > Time::ZERO).then(|| self.delivered_bytes as f64 * 8.0 / over.as_secs_f64())
    }

    fn merge(&mut self, other: &Traffic) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.delivered += other.delivered;
        self.delivered_bytes += other.delivered_bytes;
        add_each(&mut self.dropped, &other.dropped);
        self.ecn_capable += other.ecn_capable;
        add_each(&mut self.marked, &other.marked);
        self.first_sent = self.first_sent.into_iter().chain(other.first_sent).min();
        self.last_delivered = self.last_delivered.max(other.last_delivered);
        self.delays.merge(&other.delays);
    }
}

fn add_each<const N: usize>(sums: &mut [u64; N], counts: &[u64; N]) {
    sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
}

/// The packets from one node to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodePair {
    /// The sending node.
    pub from: NodeId,
    /// The receiving node.
    pub to: NodeId,
    /// All packets.
    pub all: Traffic,
    /// The packets of each protocol that occurred, in the order of [`LoggedProtocol::ALL`].
    pub protocols: Vec<(LoggedProtocol, Traffic)>,
}

/// Packets that are counted together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Group {
    /// A protocol that one packet tells.
    Protocol(LoggedProtocol),
    /// What may be an RTP stream, by its SSRC.
    Stream(u32),
}

/// A packet in the network, as it entered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entered {
    at: Time,
    nodes: (NodeId, NodeId),
    size: Bytes,
    ecn: Ecn,
    group: Group,
}

/// What may be an RTP stream.
#[derive(Default)]
struct Stream {
    /// The newest sequence numbers, oldest first, until one follows another.
    newest: VecDeque<u16>,
    is_rtp: bool,
    traffic: Traffic,
}

impl Stream {
    fn see(&mut self, seq: u16) {
        if self.is_rtp {
            return;
        }
        let neighbours = [seq.wrapping_add(1), seq.wrapping_sub(1)];
        self.is_rtp = self.newest.iter().any(|other| neighbours.contains(other));
        if self.is_rtp {
            self.newest = VecDeque::new();
            return;
        }
        if self.newest.len() == REMEMBERED {
            self.newest.pop_front();
        }
        self.newest.push_back(seq);
    }
}

type StreamKey = (NodeId, NodeId, u32);

/// Counts packets by pair of nodes and protocol.
///
/// One packet of random UDP may look like RTP or RTCP. So RTP is RTP only if its SSRC also has the next or the previous
/// sequence number, and RTCP is RTCP only if there is RTP. Everything else is [`LoggedProtocol::Other`].
///
/// Source: RFC 3550, appendix A.1 (`MIN_SEQUENTIAL`).
#[derive(Default)]
pub(crate) struct Tally {
    settled: BTreeMap<(NodeId, NodeId, LoggedProtocol), Traffic>,
    streams: HashMap<StreamKey, Stream>,
    /// The keys of the streams, in the order in which they are to be settled.
    oldest_first: VecDeque<StreamKey>,
}

impl Tally {
    /// Counts a packet that enters the network.
    pub(crate) fn enter(
        &mut self,
        at: Time,
        nodes: (NodeId, NodeId),
        size: Bytes,
        ecn: Ecn,
        (protocol, rtp): (LoggedProtocol, Option<RtpHeader>),
    ) -> Entered {
        let group = match rtp {
            Some(header) => {
                self.stream((nodes.0, nodes.1, header.ssrc)).see(header.seq);
                Group::Stream(header.ssrc)
            }
            None => Group::Protocol(protocol),
        };
        let entered = Entered { at, nodes, size, ecn, group };
        let traffic = self.traffic_of(&entered);
        traffic.packets += 1;
        traffic.bytes += size.0;
        traffic.first_sent.get_or_insert(at);
        entered
    }

    /// Counts the delivery of a packet.
    pub(crate) fn delivered(&mut self, packet: &Entered, at: Time, mark: Option<Mark>) {
        let traffic = self.traffic_of(packet);
        traffic.delivered += 1;
        traffic.delivered_bytes += packet.size.0;
        traffic.ecn_capable += u64::from(packet.ecn != Ecn::NotCapable);
        if let Some(mark) = mark {
            traffic.marked[mark.cause as usize] += 1;
        }
        traffic.last_delivered = traffic.last_delivered.max(Some(at));
        traffic.delays.add(at.saturating_sub(packet.at));
    }

    /// Counts the drop of a packet.
    pub(crate) fn dropped(&mut self, packet: &Entered, cause: DropCause) {
        self.traffic_of(packet).dropped[cause as usize] += 1;
    }

    /// The packets between each of these pairs of nodes.
    pub(crate) fn finish(mut self, pairs: &[(NodeId, NodeId)]) -> Vec<NodePair> {
        for (key, stream) in std::mem::take(&mut self.streams) {
            self.settle(key, &stream);
        }
        if self.settled.keys().all(|(.., protocol)| *protocol != LoggedProtocol::Rtp) {
            for (from, to) in pairs {
                if let Some(rtcp) = self.settled.remove(&(*from, *to, LoggedProtocol::Rtcp)) {
                    self.settled((*from, *to), LoggedProtocol::Other).merge(&rtcp);
                }
            }
        }
        pairs.iter().map(|nodes| self.pair(*nodes)).collect()
    }

    fn pair(&mut self, (from, to): (NodeId, NodeId)) -> NodePair {
        let protocols: Vec<_> = (LoggedProtocol::ALL.into_iter())
            .filter_map(|name| Some((name, self.settled.remove(&(from, to, name))?)))
            .collect();
        let mut all = Traffic::default();
        protocols.iter().for_each(|(_, traffic)| all.merge(traffic));
        NodePair { from, to, all, protocols }
    }

    fn traffic_of(&mut self, packet: &Entered) -> &mut Traffic {
        match packet.group {
            Group::Protocol(protocol) => self.settled(packet.nodes, protocol),
            Group::Stream(ssrc) => &mut self.stream((packet.nodes.0, packet.nodes.1, ssrc)).traffic,
        }
    }

    fn settled(&mut self, (from, to): (NodeId, NodeId), protocol: LoggedProtocol) -> &mut Traffic {
        self.settled.entry((from, to, protocol)).or_default()
    }

    fn stream(&mut self, key: StreamKey) -> &mut Stream {
        if !self.streams.contains_key(&key) {
            self.make_room();
            self.oldest_first.push_back(key);
        }
        self.streams.entry(key).or_default()
    }

    /// Settles the oldest streams if there are many, but none that has a packet in the network, which will be looked
    /// for. Two for each new one, so that after a flood there are no more than before it.
    fn make_room(&mut self) {
        for _ in 0..2 {
            if self.streams.len() < MOST_STREAMS {
                return;
            }
            let Some(key) = self.oldest_first.pop_front() else { return };
            match self.streams.remove(&key) {
                Some(stream) if stream.traffic.on_the_way() == 0 => self.settle(key, &stream),
                Some(stream) => {
                    self.streams.insert(key, stream);
                    self.oldest_first.push_back(key);
                }
                None => {}
            }
        }
    }

    fn settle(&mut self, (from, to, _): StreamKey, stream: &Stream) {
        let protocol = if stream.is_rtp { LoggedProtocol::Rtp } else { LoggedProtocol::Other };
        self.settled((from, to), protocol).merge(&stream.traffic);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    const NODES: (NodeId, NodeId) = (NodeId(0), NodeId(1));

    fn rtp(ssrc: u32, seq: u16) -> (LoggedProtocol, Option<RtpHeader>) {
        let header = RtpHeader { ssrc, seq, ..RtpHeader::default() };
        (LoggedProtocol::Rtp, Some(header))
    }

    fn other(protocol: LoggedProtocol) -> (LoggedProtocol, Option<RtpHeader>) {
        (protocol, None)
    }

    /// Number of packets that went in, by protocol.
    fn packets(pair: &NodePair) -> Vec<(LoggedProtocol, u64)> {
        pair.protocols.iter().map(|(name, traffic)| (*name, traffic.packets)).collect()
    }

    fn entered(
        tally: &mut Tally,
        at_ms: u64,
        what: (LoggedProtocol, Option<RtpHeader>),
    ) -> Entered {
        tally.enter(Time::from_millis(at_ms), NODES, Bytes(1_000), Ecn::Ect1, what)
    }

    /// Five packets of 1000 B, every 10 ms: three arrive after 20, 40 and 60 ms, one is dropped, one is on the way.
    #[test]
    fn what_went_in_is_what_arrived_was_dropped_or_is_on_the_way() {
        let mut tally = Tally::default();
        let sent: Vec<Entered> =
            (0..5).map(|i| entered(&mut tally, 10 * i, rtp(7, i as u16))).collect();
        for (packet, (at_ms, cause)) in sent.iter().zip([
            (20, None),
            (50, Some(MarkCause::Classic)),
            (80, Some(MarkCause::Coupled)),
        ]) {
            let mark = cause.map(|cause| Mark { path: 0, cause });
            tally.delivered(packet, Time::from_millis(at_ms), mark);
        }
        tally.dropped(&sent[3], DropCause::Aqm);
        let [pair] = &tally.finish(&[NODES])[..] else { panic!("one pair") };
        let all = &pair.all;
        assert_eq!(
            (all.packets, all.delivered, all.dropped, all.on_the_way()),
            (5, 3, [0, 0, 1], 1)
        );
        assert_eq!((all.bytes, all.delivered_bytes), (5_000, 3_000));
        assert_eq!((all.ecn_capable, all.marked), (3, [1, 0, 1]));
        assert_eq!(all.delivered_bps(), Some(3_000.0 * 8.0 / 0.08));
        let delays = [all.delays.quantile(50), all.delays.quantile(95)];
        // The median is at most 0.2 % above 40 ms.
        assert!(
            (Time::from_millis(40)..Time::from_micros(40_080)).contains(&delays[0]),
            "{delays:?}"
        );
        assert_eq!(delays[1], Time::from_millis(60));
        assert_eq!(pair.protocols, [(LoggedProtocol::Rtp, all.clone())]);
    }

    #[test]
    fn without_an_arrival_there_is_no_rate() {
        let mut tally = Tally::default();
        entered(&mut tally, 0, other(LoggedProtocol::Dtls));
        let pairs = tally.finish(&[NODES, (NODES.1, NODES.0)]);
        assert_eq!(packets(&pairs[0]), [(LoggedProtocol::Dtls, 1)]);
        assert_eq!(pairs[0].all.delivered_bps(), None);
        assert_eq!((pairs[1].all.packets, pairs[1].protocols.len()), (0, 0));
    }

    proptest! {
        /// The streams' sequence numbers wrap, and come in any order; other SSRCs never have two that follow.
        #[test]
        fn random_udp_is_neither_rtp_nor_rtcp_but_streams_and_their_reports_stay(
            packets_of_all in (0u64..20, 0u64..20, prop::collection::vec(2u64..6, 0..3))
                .prop_flat_map(|(random, rtcp, streams)| {
                    let mut all: Vec<_> = (0..random).map(|i| rtp(100 + i as u32, 7)).collect();
                    // Constants are no counter.
                    all.extend([rtp(99, 1_000), rtp(99, 1_000), rtp(99, 1_002)]);
                    all.extend((0..rtcp).map(|_| other(LoggedProtocol::Rtcp)));
                    for (ssrc, length) in (0u32..).zip(&streams) {
                        all.extend((0..*length).map(|i| rtp(ssrc, 65_535u16.wrapping_add(i as u16))));
                    }
                    (Just((random, rtcp, streams)), Just(all).prop_shuffle())
                })
        ) {
            let ((random, rtcp, streams), all) = packets_of_all;
            let mut tally = Tally::default();
            for what in all {
                entered(&mut tally, 0, what);
            }
            let of_streams: u64 = streams.iter().sum();
            let has_rtp = of_streams > 0;
            let others = random + 3 + if has_rtp { 0 } else { rtcp };
            let mut expected = vec![];
            expected.extend(has_rtp.then_some((LoggedProtocol::Rtp, of_streams)));
            expected.extend((has_rtp && rtcp > 0).then_some((LoggedProtocol::Rtcp, rtcp)));
            expected.push((LoggedProtocol::Other, others));
            prop_assert_eq!(packets(&tally.finish(&[NODES])[0]), expected);
        }
    }

    /// One stream of RTP in random UDP, of which each packet has another SSRC and stays in the network for a second.
    #[test]
    fn a_flood_of_other_ssrcs_neither_fills_memory_nor_hides_a_stream() {
        const PACKETS: u64 = 100_000;
        const IN_NETWORK: u64 = 5_000;
        let mut tally = Tally::default();
        let mut in_network = VecDeque::new();
        let mut most = 0;
        let mut random = HashSet::new();
        for i in 0..PACKETS {
            let ssrc = 1_000 + (i as u32).wrapping_mul(2_654_435_761) / 2;
            random.insert(ssrc);
            in_network.push_back(entered(&mut tally, i, rtp(ssrc, 0)));
            if i % 50 == 0 {
                in_network.push_back(entered(&mut tally, i, rtp(1, (i / 50) as u16)));
            }
            while in_network.len() as u64 > IN_NETWORK {
                let packet = in_network.pop_front().expect("a packet");
                tally.delivered(&packet, Time::from_millis(i), None);
            }
            most = most.max(tally.streams.len());
        }
        assert!(most <= MOST_STREAMS + 2 * IN_NETWORK as usize, "{most} streams in memory");
        let [pair] = &tally.finish(&[NODES])[..] else { panic!("one pair") };
        let stream = PACKETS / 50;
        assert_eq!(pair.all.packets, PACKETS + stream);
        assert_eq!(pair.all.on_the_way(), IN_NETWORK);
        assert_eq!(packets(pair)[0], (LoggedProtocol::Rtp, stream));
    }
}
