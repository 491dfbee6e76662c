//! Streams that change their addresses or come over several at once: after a switch of networks, a new NAT
//! binding, or over several paths.
//!
//! A flow carries on a stream of another flow if it has the same SSRC, its sequence numbers and
//! timestamps continue those of the stream, and the stream has not had its packets elsewhere. The last
//! condition tells a path from the other leg of a relay, or from what a server forwards to another
//! receiver: these have the same packets again. They may come first for a moment, so a flow is judged
//! after a while.

use super::flow::Flow;
use super::stream::{RtpSeen, Stream};
use super::watcher::Monitor;
use std::collections::HashMap;
use std::net::SocketAddr;

/// After a longer silence a stream is not continued.
const MOST_SILENT_NS: i64 = 60_000_000_000;
/// Fastest clock of RTP timestamps, per second.
const FASTEST_CLOCK: i64 = 90_000;
/// Maximum difference of the delays of two paths.
const MOST_SKEW_S: i64 = 1;
/// One of this many packets may have been seen elsewhere, or have a number that does not fit into the stream.
const MOST_STRANGE: usize = 10;
/// Maximum number of packets ahead without a silence, and further ones per second of silence (20 Mbit/s).
const MOST_AHEAD: i64 = 100;
const FASTEST_PACKETS: i64 = 2_000;

/// Whether packets of another flow continue a stream.
pub(crate) fn continues(stream: &Stream, packets: &[RtpSeen]) -> bool {
    let last = packets[packets.len() - 1];
    let silent_ns = (packets[0].at_ns - stream.last_ns).max(0);
    if silent_ns > MOST_SILENT_NS {
        return false;
    }
    let elapsed_ns = (last.at_ns - stream.last_ns).max(0);
    let sampled = i64::from(stream.timestamp_after(last.timestamp));
    let ahead = i64::from(stream.sequence.ahead(last.seq));
    let most_sampled = FASTEST_CLOCK * elapsed_ns / 1_000_000_000 + FASTEST_CLOCK * MOST_SKEW_S;
    let most_ahead = FASTEST_PACKETS * elapsed_ns / 1_000_000_000 + MOST_AHEAD;
    let is_near = (-FASTEST_CLOCK * MOST_SKEW_S..=most_sampled).contains(&sampled)
        && ahead <= most_ahead
        && stream.sequence.is_in_window(last.seq);
    let strange =
        |packet: &&RtpSeen| stream.sequence.has(packet.seq) || !is_in_order(stream, packet);
    is_near && packets.iter().filter(strange).count() * MOST_STRANGE < packets.len()
}

/// Whether a packet has its place among the latest of a stream: its timestamp is as late as its number is.
fn is_in_order(stream: &Stream, packet: &RtpSeen) -> bool {
    stream.latest.iter().all(|other| {
        let ahead = packet.seq.wrapping_sub(other.seq) as i16;
        let later = packet.timestamp.wrapping_sub(other.timestamp) as i32;
        i32::from(ahead.signum()) * later.signum() >= 0
    })
}

/// The addresses of an end that has several, by the first one of them.
#[derive(Default)]
pub(crate) struct Ends(HashMap<SocketAddr, SocketAddr>);

impl Ends {
    /// The first address of the end that has this one.
    pub(crate) fn first(&self, address: SocketAddr) -> SocketAddr {
        let mut first = address;
        while let Some(earlier) = self.0.get(&first) {
            first = *earlier;
        }
        first
    }

    fn join(&mut self, flows: &[Flow], (a, b): (SocketAddr, SocketAddr)) {
        let (a, b) = (self.first(a), self.first(b));
        if a == b {
            return;
        }
        let has = |flow: &Flow, address| flow.source == address || flow.destination == address;
        match flows.iter().find(|flow| has(flow, a) || has(flow, b)) {
            Some(flow) if has(flow, a) => self.0.insert(b, a),
            _ => self.0.insert(a, b),
        };
    }
}

impl Monitor {
    /// The ends of all streams that came over several flows.
    pub(crate) fn ends(&self) -> Ends {
        let (mut ends, flows) = (Ends::default(), &self.flows.list);
        for stream in &self.streams {
            let first = &flows[stream.flow as usize];
            for other in stream.other_flows.iter().map(|flow| &flows[*flow as usize]) {
                ends.join(flows, (first.source, other.source));
                ends.join(flows, (first.destination, other.destination));
            }
        }
        ends
    }

    /// Takes the first packets of an SSRC in a flow: as a stream, or as the continuation of one in
    /// another flow.
    pub(super) fn begin(&mut self, packets: Vec<RtpSeen>) {
        if self.continued_by(&packets).is_none() {
            return self.admit(&packets);
        }
        if let Some(packets) = self.trials.begin(packets) {
            self.judge(&packets);
        }
    }

    /// Judges the flows that are still on trial.
    pub(crate) fn end_trials(&mut self) {
        self.trials.take().iter().for_each(|packets| self.judge(packets));
    }

    pub(super) fn judge(&mut self, packets: &[RtpSeen]) {
        match self.continued_by(packets) {
            Some(number) => self.carry_on(number, packets),
            None => self.admit(packets),
        }
    }

    /// The stream that these packets of another flow continue.
    fn continued_by(&self, packets: &[RtpSeen]) -> Option<u32> {
        let direction = |flow: u32| self.flows.list[flow as usize].point.direction;
        let same_way = |stream: &Stream| direction(stream.flow) == direction(packets[0].flow);
        let known = self.by_ssrc.get(&packets[0].ssrc)?;
        known.iter().copied().find(|number| {
            let stream = &self.streams[*number as usize];
            same_way(stream) && continues(stream, packets)
        })
    }

    fn carry_on(&mut self, number: u32, packets: &[RtpSeen]) {
        let (flow, ssrc) = (packets[0].flow, packets[0].ssrc);
        self.stream_index.insert((flow, ssrc), number);
        self.streams[number as usize].other_flows.push(flow);
        let reordered = self.streams[number as usize].sequence.reordered;
        packets.iter().for_each(|packet| self.receive(number, packet));
        // They are late because they were kept.
        self.streams[number as usize].sequence.reordered = reordered;
    }
}
