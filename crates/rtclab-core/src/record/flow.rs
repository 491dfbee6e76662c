//! Counts per flow: when it existed, packets per second, and histograms of delays.

use super::{Fate, FlowConfig, Nothing, PacketHandle};
use crate::ecn::Ecn;
use crate::packet::Kind;
use crate::path::DropCause;
use crate::table::{Row, Rows, Table, Text, row};
use crate::units::{Bytes, Time};
use std::collections::BTreeMap;

/// Width of a bin of a histogram of delays.
const DELAY_BIN: Time = Time::from_micros(100);
/// Number of bins that are kept as an array: 1 s. Longer delays are rare.
const NEAR_BINS: u64 = 10_000;

row! {
    /// When a flow existed: from its first packet to the end of its connection or of the run.
    pub(super) struct Span / SpanColumns {
        flow: Text = "flow",
        begin: Option<Time> = "begin_ns",
        end: Time = "end_ns",
    }
}

row! {
    /// A flow, and the beginning of a second.
    pub(super) struct SecondKey / SecondKeyColumns {
        at: Time = "at_ns",
        flow: Text = "flow",
    }
}

row! {
    /// What a flow sent, received and lost in a second.
    pub(super) struct SecondCounts / SecondCountsColumns {
        sent_packets: u64 = "sent_packets",
        sent_bytes: u64 = "sent_bytes",
        delivered_packets: u64 = "delivered_packets",
        delivered_bytes: u64 = "delivered_bytes",
        dropped_packets: u64 = "dropped_packets",
        media_sent: u64 = "media_sent_packets",
        media_dropped: u64 = "media_dropped_packets",
        fec_sent: u64 = "fec_sent_packets",
        fec_dropped: u64 = "fec_dropped_packets",
        ect: u64 = "ect_packets",
        ect_delivered: u64 = "ect_delivered_packets",
        marked: u64 = "marked_packets",
        aqm_dropped: u64 = "aqm_dropped_packets",
        delay_min_ms: Option<f64> = "one_way_delay_min_ms",
        delay_mean_ms: Option<f64> = "one_way_delay_mean_ms",
        delay_max_ms: Option<f64> = "one_way_delay_max_ms",
    }
}

row! {
    /// A bin of a flow's histogram of one-way delays.
    pub(super) struct DelayBin / DelayBinColumns {
        flow: Text = "flow",
        lower_ms: f64 = "one_way_delay_ms",
        packets: u32 = "packets",
    }
}

row! {
    /// A bin of a flow's histogram of queuing delays.
    pub(super) struct QueuingBin / QueuingBinColumns {
        flow: Text = "flow",
        lower_ms: f64 = "queuing_delay_ms",
        packets: u32 = "packets",
    }
}

/// Number of packets by delay. Its size depends on the number of different delays and not on the longest.
#[derive(Clone, Default)]
pub(super) struct Histogram {
    /// Packets with a delay of less than [`NEAR_BINS`] bins.
    near: Vec<u32>,
    /// Packets with longer delays, by bin.
    far: BTreeMap<u64, u32>,
}

impl Histogram {
    pub(super) fn add(&mut self, delay: Time) {
        let bin = delay.0 / DELAY_BIN.0;
        if bin >= NEAR_BINS {
            *self.far.entry(bin).or_default() += 1;
            return;
        }
        let index = bin as usize;
        if self.near.len() <= index {
            self.near.resize(index + 1, 0);
        }
        self.near[index] += 1;
    }

    /// Number of bins in memory.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.near.len() + self.far.len()
    }

    /// The occupied bins in order: lower edge in ms, and number of packets.
    pub(super) fn bins(&self) -> impl Iterator<Item = (f64, u32)> {
        let near = (0..).zip(&self.near).filter(|(_, packets)| **packets > 0);
        let far = self.far.iter().map(|(bin, packets)| (*bin, packets));
        near.chain(far).map(|(bin, packets)| (bin as f64 / 10.0, *packets))
    }
}

/// Whether a packet is a first transmission, and of what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum First {
    #[default]
    None,
    Media,
    Fec,
}

impl First {
    pub(super) fn of(kind: Option<Kind>) -> Self {
        match kind {
            Some(Kind::Video | Kind::Audio) => First::Media,
            Some(Kind::Fec) => First::Fec,
            Some(Kind::Rtx | Kind::Padding) | None => First::None,
        }
    }
}

#[derive(Clone, Default)]
struct Volume {
    packets: u64,
    bytes: u64,
}

impl Volume {
    fn add(&mut self, size: Bytes) {
        self.packets += 1;
        self.bytes += size.0;
    }
}

/// Packets of one kind.
#[derive(Clone, Default)]
struct Fates {
    sent: u64,
    dropped: u64,
}

#[derive(Clone, Default)]
struct Second {
    sent: Volume,
    delivered: Volume,
    dropped: u64,
    /// Media packets, first transmissions only.
    media: Fates,
    fec: Fates,
    /// ECN-capable packets sent.
    ect: u64,
    /// ECN-capable packets delivered.
    ect_delivered: u64,
    /// Packets delivered with a mark.
    marked: u64,
    /// Packets dropped because a queue signalled congestion.
    aqm_dropped: u64,
    /// Smallest and largest delay, the sum of all delays in ns, and their number.
    delay: Option<(Time, Time, u64, u64)>,
}

impl Second {
    fn first(&mut self, first: First) -> Option<&mut Fates> {
        match first {
            First::None => None,
            First::Media => Some(&mut self.media),
            First::Fec => Some(&mut self.fec),
        }
    }

    fn row(&self) -> SecondCounts {
        let ms = |ns: f64| ns / 1e6;
        SecondCounts {
            sent_packets: self.sent.packets,
            sent_bytes: self.sent.bytes,
            delivered_packets: self.delivered.packets,
            delivered_bytes: self.delivered.bytes,
            dropped_packets: self.dropped,
            media_sent: self.media.sent,
            media_dropped: self.media.dropped,
            fec_sent: self.fec.sent,
            fec_dropped: self.fec.dropped,
            ect: self.ect,
            ect_delivered: self.ect_delivered,
            marked: self.marked,
            aqm_dropped: self.aqm_dropped,
            delay_min_ms: self.delay.map(|(min, ..)| ms(min.0 as f64)),
            delay_mean_ms: self.delay.map(|(_, _, sum, count)| ms(sum as f64 / count as f64)),
            delay_max_ms: self.delay.map(|(_, max, ..)| ms(max.0 as f64)),
        }
    }
}

/// Counts of one flow.
#[derive(Clone)]
pub(super) struct FlowCounts {
    pub(super) text: Text,
    begin: Option<Time>,
    /// When the connection ends. Packets that arrive later are received by nobody.
    end: Time,
    /// See [`FlowConfig::forwarded`].
    forwarded: bool,
    seconds: Vec<Second>,
    delays: Histogram,
    queuing_delays: Histogram,
}

impl FlowCounts {
    pub(super) fn new(text: Text, config: &FlowConfig) -> Self {
        let &FlowConfig { end, forwarded, .. } = config;
        let (delays, queuing_delays) = (Histogram::default(), Histogram::default());
        FlowCounts {
            text,
            begin: None,
            end,
            forwarded,
            seconds: Vec::new(),
            delays,
            queuing_delays,
        }
    }

    pub(super) fn sent(&mut self, at: Time, size: Bytes, first: First, ecn: Ecn) {
        self.begin.get_or_insert(at);
        let second = self.second(at);
        second.sent.add(size);
        second.ect += u64::from(ecn.is_capable());
        if let Some(count) = second.first(first) {
            count.sent += 1;
        }
    }

    pub(super) fn delivered(&mut self, at: Time, record: &PacketHandle, size: Bytes, fate: Fate) {
        if at >= self.end {
            return;
        }
        let second = self.second(at);
        second.delivered.add(size);
        second.ect_delivered += u64::from(record.ecn.is_capable());
        second.marked += u64::from(fate.mark.is_some());
        if self.forwarded && record.first == First::None {
            return;
        }
        let delay = at.saturating_sub(record.sent);
        let second = self.second(at);
        let (min, max, sum, count) = second.delay.unwrap_or((Time::MAX, Time::ZERO, 0, 0));
        second.delay = Some((min.min(delay), max.max(delay), sum + delay.0, count + 1));
        self.delays.add(delay);
        self.queuing_delays.add(fate.queued);
    }

    pub(super) fn dropped(&mut self, at: Time, first: First, cause: DropCause) {
        let second = self.second(at);
        second.dropped += 1;
        second.aqm_dropped += u64::from(cause == DropCause::Aqm);
        if let Some(count) = second.first(first) {
            count.dropped += 1;
        }
    }

    fn second(&mut self, at: Time) -> &mut Second {
        let index = (at.0 / 1_000_000_000) as usize;
        if self.seconds.len() <= index {
            self.seconds.resize(index + 1, Second::default());
        }
        &mut self.seconds[index]
    }
}

/// The tables `flows`, `flow_seconds`, `delay_histogram` and `queuing_histogram`. Every second up to `end` has
/// a row.
pub(super) fn tables(flows: &mut [FlowCounts], end: Time) -> [Table; 4] {
    let mut spans = rows::<Span>("flows");
    let mut seconds = Rows::<SecondKey, SecondCounts>::new("flow_seconds");
    let mut delays = rows::<DelayBin>("delay_histogram");
    let mut queuing_delays = rows::<QueuingBin>("queuing_histogram");
    for flow in flows {
        flow.second(Time(end.0.saturating_sub(1)));
        let FlowCounts { text, begin, .. } = *flow;
        spans.push(Span { flow: text, begin, end: flow.end.min(end) }, Nothing {});
        for (index, second) in flow.seconds.iter().enumerate() {
            let at = Time::from_secs(index as u64);
            seconds.push(SecondKey { at, flow: text }, second.row());
        }
        for (lower_ms, packets) in flow.delays.bins() {
            delays.push(DelayBin { flow: text, lower_ms, packets }, Nothing {});
        }
        for (lower_ms, packets) in flow.queuing_delays.bins() {
            queuing_delays.push(QueuingBin { flow: text, lower_ms, packets }, Nothing {});
        }
    }
    [spans.finish(), seconds.finish(), delays.finish(), queuing_delays.finish()]
}

fn rows<A: Row>(name: &'static str) -> Rows<A, Nothing> {
    Rows::new(name)
}
