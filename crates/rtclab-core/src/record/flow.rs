//! Counts per flow: when it existed, packets per second, and a histogram of delays.

use super::Nothing;
use crate::packet::Kind;
use crate::table::{Row, Rows, Table, Text, row};
use crate::units::{Bytes, Time};

/// Width of a bin of the delay histogram.
const DELAY_BIN: Time = Time::from_micros(100);
/// Delays above this share the last bin.
const MAX_DELAY_BINS: usize = 600_000;

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
        delay_min_ms: Option<f64> = "one_way_delay_min_ms",
        delay_mean_ms: Option<f64> = "one_way_delay_mean_ms",
        delay_max_ms: Option<f64> = "one_way_delay_max_ms",
    }
}

row! {
    /// A bin of a flow's delay histogram.
    pub(super) struct Bin / BinColumns {
        flow: Text = "flow",
        lower_ms: f64 = "one_way_delay_ms",
        packets: u32 = "packets",
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
struct Second {
    /// Packets and bytes sent.
    sent: (u64, u64),
    /// Packets and bytes delivered.
    delivered: (u64, u64),
    dropped: u64,
    /// Media packets sent and dropped, first transmissions only.
    media: (u64, u64),
    /// FEC packets sent and dropped.
    fec: (u64, u64),
    /// Smallest and largest delay, and the sum of all delays in ns.
    delay: Option<(Time, Time, u64)>,
}

impl Second {
    fn first(&mut self, first: First) -> Option<&mut (u64, u64)> {
        match first {
            First::None => None,
            First::Media => Some(&mut self.media),
            First::Fec => Some(&mut self.fec),
        }
    }

    fn row(&self) -> SecondCounts {
        let ms = |ns: f64| ns / 1e6;
        let mean = |sum: u64| ms(sum as f64 / self.delivered.0 as f64);
        SecondCounts {
            sent_packets: self.sent.0,
            sent_bytes: self.sent.1,
            delivered_packets: self.delivered.0,
            delivered_bytes: self.delivered.1,
            dropped_packets: self.dropped,
            media_sent: self.media.0,
            media_dropped: self.media.1,
            fec_sent: self.fec.0,
            fec_dropped: self.fec.1,
            delay_min_ms: self.delay.map(|(min, _, _)| ms(min.0 as f64)),
            delay_mean_ms: self.delay.map(|(_, _, sum)| mean(sum)),
            delay_max_ms: self.delay.map(|(_, max, _)| ms(max.0 as f64)),
        }
    }
}

/// Counts of one flow.
pub(super) struct Flow {
    pub(super) text: Text,
    begin: Option<Time>,
    /// When the connection ends. Packets that arrive later are received by nobody.
    end: Time,
    seconds: Vec<Second>,
    /// Number of packets per bin of the delay histogram.
    delays: Vec<u32>,
}

impl Flow {
    pub(super) fn new(text: Text, end: Time) -> Self {
        Flow { text, begin: None, end, seconds: Vec::new(), delays: Vec::new() }
    }

    pub(super) fn sent(&mut self, at: Time, size: Bytes, first: First) {
        self.begin.get_or_insert(at);
        let second = self.second(at);
        second.sent.0 += 1;
        second.sent.1 += size.0;
        if let Some(count) = second.first(first) {
            count.0 += 1;
        }
    }

    pub(super) fn delivered(&mut self, at: Time, delay: Time, size: Bytes) {
        if at >= self.end {
            return;
        }
        let bin = ((delay.0 / DELAY_BIN.0) as usize).min(MAX_DELAY_BINS - 1);
        if self.delays.len() <= bin {
            self.delays.resize(bin + 1, 0);
        }
        self.delays[bin] += 1;
        let second = self.second(at);
        second.delivered.0 += 1;
        second.delivered.1 += size.0;
        let (min, max, sum) = second.delay.unwrap_or((Time::MAX, Time::ZERO, 0));
        second.delay = Some((min.min(delay), max.max(delay), sum + delay.0));
    }

    pub(super) fn dropped(&mut self, at: Time, first: First) {
        let second = self.second(at);
        second.dropped += 1;
        if let Some(count) = second.first(first) {
            count.1 += 1;
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

/// The tables `flows`, `flow_seconds` and `delay_histogram`. Every second up to `end` has a row.
pub(super) fn tables(flows: &mut [Flow], end: Time) -> [Table; 3] {
    let mut spans = rows::<Span>("flows");
    let mut seconds = Rows::<SecondKey, SecondCounts>::new("flow_seconds");
    let mut histogram = rows::<Bin>("delay_histogram");
    for flow in flows {
        flow.second(Time(end.0.saturating_sub(1)));
        let Flow { text, begin, .. } = *flow;
        spans.push(Span { flow: text, begin, end: flow.end.min(end) }, Nothing {});
        for (index, second) in flow.seconds.iter().enumerate() {
            let at = Time::from_secs(index as u64);
            seconds.push(SecondKey { at, flow: text }, second.row());
        }
        for (index, &packets) in flow.delays.iter().enumerate().filter(|(_, n)| **n > 0) {
            let lower_ms = index as f64 / 10.0;
            histogram.push(Bin { flow: text, lower_ms, packets }, Nothing {});
        }
    }
    [spans.finish(), seconds.finish(), histogram.finish()]
}

fn rows<A: Row>(name: &'static str) -> Rows<A, Nothing> {
    Rows::new(name)
}
