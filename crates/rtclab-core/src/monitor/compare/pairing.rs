//! Pairs the streams of two points, finds their direction, and estimates roughly how the clocks differ.

use super::points::Side;
use crate::monitor::decapsulation::ip::Transport;
use crate::monitor::flow::Flow;
use crate::monitor::stream::Stream;
use crate::monitor::stream::sketch::PacketName;
use crate::monitor::watcher::Monitor;
use std::collections::{HashMap, HashSet};
use std::net::IpAddr;

/// A stream that was seen at both points.
#[derive(Clone, Debug)]
pub(super) struct Pair {
    pub(super) a: u32,
    pub(super) b: u32,
    /// True if packets pass B first.
    pub(super) reverse: bool,
    /// The point that packets pass first, if addresses or hop limits show it.
    first: Option<Side>,
    /// Smallest time at B minus time at A, among the packets in both sketches.
    least_ns: i64,
    most_ns: i64,
    /// Source and destination address at A.
    hosts: (IpAddr, IpAddr),
}

fn streams_by_ssrc(monitor: &Monitor) -> HashMap<u32, Vec<u32>> {
    let mut found: HashMap<u32, Vec<u32>> = HashMap::new();
    let of_udp = |stream: &Stream| monitor.flow_of(stream).transport == Transport::Udp;
    for (number, stream) in monitor.streams.iter().enumerate().filter(|(_, s)| of_udp(s)) {
        found.entry(stream.ssrc).or_default().push(number as u32);
    }
    found
}

/// Number of packets in both sketches, and the smallest and largest time at B minus time at A. `None`
/// without common packets.
fn common(a: &Stream, b: &Stream) -> Option<(usize, i64, i64)> {
    let times: HashMap<PacketName, i64> = a.sketch.packets().collect();
    let packets = b.sketch.packets();
    let mut differences: Vec<i64> =
        packets.filter_map(|(name, at_ns)| times.get(&name).map(|a_ns| at_ns - a_ns)).collect();
    differences.sort_unstable();
    Some((differences.len(), *differences.first()?, *differences.last()?))
}

/// Pairs streams of the same SSRC, each at most once. Streams with the same addresses at both points come
/// first, so that each leg of a relayed call is paired with itself. Then come those with the most packets in
/// common.
pub(super) fn pairs(a: &Monitor, b: &Monitor) -> Vec<Pair> {
    /// Maximum number of streams per SSRC and point that are considered.
    const MAX_SAME_SSRC: usize = 32;
    let at_b = streams_by_ssrc(b);
    let mut candidates = Vec::new();
    for (ssrc, at_a) in streams_by_ssrc(a) {
        let at_b = at_b.get(&ssrc).map_or(&[][..], Vec::as_slice);
        for a_number in at_a.iter().take(MAX_SAME_SSRC) {
            for b_number in at_b.iter().take(MAX_SAME_SSRC) {
                candidates.extend(candidate((a, *a_number), (b, *b_number)));
            }
        }
    }
    candidates.sort_by_key(|(rank, pair)| (*rank, pair.a, pair.b));
    let (mut a_taken, mut b_taken) = (vec![false; a.streams.len()], vec![false; b.streams.len()]);
    let mut pairs: Vec<Pair> = Vec::new();
    for (_, pair) in candidates {
        if !a_taken[pair.a as usize] && !b_taken[pair.b as usize] {
            (a_taken[pair.a as usize], b_taken[pair.b as usize]) = (true, true);
            pairs.push(pair);
        }
    }
    pairs.sort_by_key(|pair| pair.a);
    pairs
}

/// Returns a possible pair with its rank. The lowest rank is the best.
fn candidate(
    (a, a_number): (&Monitor, u32),
    (b, b_number): (&Monitor, u32),
) -> Option<((bool, usize), Pair)> {
    let (stream_a, stream_b) = (&a.streams[a_number as usize], &b.streams[b_number as usize]);
    let (count, least_ns, most_ns) = common(stream_a, stream_b)?;
    let (flow_a, flow_b) = (a.flow_of(stream_a), b.flow_of(stream_b));
    let same = (flow_a.source, flow_a.destination) == (flow_b.source, flow_b.destination);
    let hosts = (flow_a.source.ip(), flow_a.destination.ip());
    let first = first_of(flow_a, flow_b);
    let reverse = first == Some(Side::B);
    let pair = Pair { a: a_number, b: b_number, reverse, first, least_ns, most_ns, hosts };
    Some(((!same, usize::MAX - count), pair))
}

/// Returns the point that a stream passes first, without using clocks. Routers decrement the hop limit, and a
/// relay sends from the address at which it receives.
fn first_of(a: &Flow, b: &Flow) -> Option<Side> {
    let side = |a_first| Some(if a_first { Side::A } else { Side::B });
    if (a.source, a.destination) == (b.source, b.destination) {
        return if a.hop_limit == b.hop_limit { None } else { side(a.hop_limit > b.hop_limit) };
    }
    let relayed = (a.destination.ip() == b.source.ip(), b.destination.ip() == a.source.ip());
    if relayed.0 == relayed.1 { None } else { side(relayed.0) }
}

/// Orients the pairs if one capture holds a box's inbound frames and the other its outbound frames.
/// Returns whether that is the case.
///
/// At a host, one direction of a call is inbound and the other outbound. If both are inbound, the capture
/// is of a box between the hosts. If no packet leaves before it arrives, the other capture is of the same
/// box and uses the same clock.
pub(super) fn orient_one_box(pairs: &mut [Pair], inbound: Option<Side>) -> bool {
    let Some(inbound) = inbound else { return false };
    let hosts: HashSet<(IpAddr, IpAddr)> = pairs.iter().map(|pair| pair.hosts).collect();
    let both_ways = hosts.iter().any(|(a, b)| a != b && hosts.contains(&(*b, *a)));
    let reverse = inbound == Side::B;
    let causal =
        pairs.iter().all(|pair| if reverse { pair.most_ns <= 0 } else { pair.least_ns >= 0 });
    if both_ways && causal {
        pairs.iter_mut().for_each(|pair| pair.reverse = reverse);
    }
    both_ways && causal
}

/// Sets the direction of each pair and returns a rough estimate of clock B minus clock A.
///
/// If addresses and hop limits do not show the direction, the times do. Of the streams in opposite directions
/// between two hosts, those with the larger difference (time at B minus time at A) go from A to B. The reason
/// is that the sum of both delays is a round-trip time, which cannot be negative whatever the clocks show.
pub(super) fn orient(pairs: &mut [Pair]) -> i64 {
    /// Smallest time at B minus time at A, for either direction between two hosts.
    type Directions = [Option<i64>; 2];
    let mut groups: HashMap<(IpAddr, IpAddr), Directions> = HashMap::new();
    let key = |hosts: (IpAddr, IpAddr)| {
        if hosts.0 <= hosts.1 { (hosts, 0) } else { ((hosts.1, hosts.0), 1) }
    };
    for pair in pairs.iter() {
        let (hosts, side) = key(pair.hosts);
        let least = &mut groups.entry(hosts).or_default()[side];
        *least = Some(least.map_or(pair.least_ns, |least| least.min(pair.least_ns)));
    }
    for pair in pairs.iter_mut().filter(|pair| pair.first.is_none()) {
        let (hosts, side) = key(pair.hosts);
        let [Some(low), Some(high)] = groups[&hosts] else { continue };
        pair.reverse = side == if low >= high { 1 } else { 0 };
    }
    let to_b = pairs.iter().filter(|pair| !pair.reverse).map(|pair| pair.least_ns).min();
    let to_a = pairs.iter().filter(|pair| pair.reverse).map(|pair| pair.most_ns).max();
    match (to_b, to_a) {
        (Some(to_b), Some(to_a)) => to_b / 2 + to_a / 2,
        (one, other) => one.or(other).unwrap_or(0),
    }
}
