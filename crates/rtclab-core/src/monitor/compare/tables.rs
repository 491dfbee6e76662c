//! Tables of a comparison.

use super::clock::ClockEstimate;
use super::comparison::{Comparison, Point};
use super::matching::{Fate, PairCounts};
use super::pairing::Pair;
use super::samples::{DelayFigures, figures};
use crate::monitor::decapsulation::ip::Transport;
use crate::monitor::flow::Flow;
use crate::monitor::kinds::Contains;
use crate::monitor::notes::Notes;
use crate::monitor::stream::Stream;
use crate::monitor::texts::{Columns, Tables, Texts, ms, origin};
use crate::table::Table;

/// Input of a row of the table `streams`.
struct Row<'a> {
    number: i64,
    pair: &'a Pair,
    counts: &'a PairCounts,
    a: &'a Stream,
    b: &'a Stream,
    flow_a: &'a Flow,
    flow_b: &'a Flow,
    contains_a: Contains,
    contains_b: Contains,
    delay: Option<DelayFigures>,
    corrected: Option<DelayFigures>,
}

impl Point {
    fn stream(&self, number: u32) -> (&Stream, &Flow) {
        let stream = &self.monitor.streams[number as usize];
        (stream, self.monitor.flow_of(stream))
    }
}

/// Statistics of the delays minus the difference between the clocks. `None` if that is unknown.
fn corrected(pair: &Pair, counts: &PairCounts, clock: &ClockEstimate) -> Option<DelayFigures> {
    clock.offset_ns?;
    let sign = if pair.reverse { 1.0 } else { -1.0 };
    figures(counts.delays.iter().map(|(at_ns, delay_ns)| {
        // The difference is a function of A's time, which is the second time of a reverse pair.
        let a_ns = if pair.reverse { at_ns + delay_ns } else { at_ns };
        let difference = clock.difference_ns(a_ns).unwrap_or(0.0);
        // A drift estimated from corrupt times must not overflow.
        delay_ns.saturating_add((sign * difference).round() as i64).clamp(-(1 << 61), 1 << 61)
    }))
}

impl Comparison {
    pub(super) fn tables(&self) -> Tables {
        let clock = self.clock();
        let mut texts = Texts::default();
        let contents = [self.a.monitor.contents(), self.b.monitor.contents()];
        let rows: Vec<Row<'_>> = self
            .pairs
            .iter()
            .enumerate()
            .map(|(number, pair)| self.row(number, pair, &clock, &contents))
            .collect();
        let mut tables = vec![
            self.stream_table(&rows, &mut texts),
            histogram_table(&rows),
            clock_table(&clock, &mut texts),
            self.note_table(&rows, &mut texts),
        ];
        if self.config.packets {
            tables.push(self.packet_table(&rows, &mut texts));
        }
        Tables { texts: texts.list, tables }
    }

    fn row<'a>(
        &'a self,
        number: usize,
        pair: &'a Pair,
        clock: &ClockEstimate,
        [at_a, at_b]: &[Vec<Contains>; 2],
    ) -> Row<'a> {
        let counts = &self.matcher.pairs[number];
        let ((a, flow_a), (b, flow_b)) = (self.a.stream(pair.a), self.b.stream(pair.b));
        Row {
            number: number as i64,
            pair,
            counts,
            a,
            b,
            flow_a,
            flow_b,
            contains_a: at_a[pair.a as usize],
            contains_b: at_b[pair.b as usize],
            delay: figures(counts.delays.iter().map(|(_, delay_ns)| delay_ns)),
            corrected: corrected(pair, counts, clock),
        }
    }

    fn stream_table(&self, rows: &[Row<'_>], texts: &mut Texts) -> Table {
        let sdp = &self.config.sdp;
        let (ends_a, ends_b) = (self.a.monitor.ends(), self.b.monitor.ends());
        let jitter = |contains: &Contains| contains.jitter.map(|jitter| jitter.last_ms);
        let columns = Columns::new("streams", rows)
            .int("stream", |r| r.number)
            .int("ssrc", |r| i64::from(r.a.ssrc))
            .int("payload_type", |r| i64::from(r.a.payload_type()))
            .text("codec", texts, |r| sdp.codec(r.a.payload_type()).map(|c| c.name.clone()))
            .text("kind", texts, |r| r.contains_a.kind.map(|(kind, _)| kind.name().to_owned()))
            .text("kind_origin", texts, |r| r.contains_a.kind.map(|(_, inferred)| origin(inferred)))
            .int("clock_rate", |r| r.contains_a.clock_rate.map(i64::from))
            .text("source_a", texts, |r| Some(ends_a.first(r.flow_a.source).to_string()))
            .text("destination_a", texts, |r| Some(ends_a.first(r.flow_a.destination).to_string()))
            .text("source_b", texts, |r| Some(ends_b.first(r.flow_b.source).to_string()))
            .text("destination_b", texts, |r| Some(ends_b.first(r.flow_b.destination).to_string()))
            .text("direction", texts, |r| {
                Some(if r.pair.reverse { "b->a" } else { "a->b" }.to_owned())
            })
            .int("first_ns", |r| if r.pair.reverse { r.b.first_ns } else { r.a.first_ns })
            .int("packets_a", |r| r.a.packets as i64)
            .int("packets_b", |r| r.b.packets as i64)
            .int("bytes_a", |r| r.a.bytes as i64)
            .int("bytes_b", |r| r.b.bytes as i64)
            .float("rate_mean_a_bps", |r| r.a.rates.mean_bps())
            .float("rate_sd_a_bps", |r| r.a.rates.deviation_bps())
            .float("rate_mean_b_bps", |r| r.b.rates.mean_bps())
            .float("rate_sd_b_bps", |r| r.b.rates.deviation_bps())
            .float("jitter_a_ms", |r| jitter(&r.contains_a))
            .float("jitter_b_ms", |r| jitter(&r.contains_b))
            .int("matched", |r| r.counts.matched as i64)
            .int("lost", |r| r.counts.lost as i64)
            .int("added", |r| r.counts.added as i64)
            .int("outside", |r| r.counts.outside as i64);
        delay_columns(columns).table()
    }

    fn note_table(&self, rows: &[Row<'_>], texts: &mut Texts) -> Table {
        let mut notes = Notes::default();
        let mut count = |text, number| notes.count(text, number);
        let of_tcp = |point: &Point| {
            let monitor = &point.monitor;
            let is = |stream: &&Stream| monitor.flow_of(stream).transport == Transport::Tcp;
            monitor.streams.iter().filter(is).count()
        };
        let unpaired =
            |point: &Point| (point.monitor.streams.len() - of_tcp(point) - rows.len()) as u64;
        count("streams at A only", unpaired(&self.a));
        count("streams at B only", unpaired(&self.b));
        count("streams over TCP, not compared", (of_tcp(&self.a) + of_tcp(&self.b)) as u64);
        count(
            "packets counted as unmatched early because too many were waiting",
            self.matcher.given_up,
        );
        count(
            "packets near the ends of a capture counted before all delays were known, because there were too many",
            self.matcher.settled_early,
        );
        count("frames without a direction, not compared", self.without_direction);
        for (side, point) in [("A", &self.a), ("B", &self.b)].iter().filter(|_| rows.is_empty()) {
            for (text, number) in point.monitor.unread_in_words() {
                notes.count(&format!("{side}: {text}"), number);
            }
        }
        if rows.iter().any(|row| row.delay.is_some_and(|delay| delay.min_ms < 0.0)) {
            notes.add("some delays are negative: the clocks differ".to_owned());
        }
        if self.faulty {
            notes.add("a capture is damaged: monitor it alone for details".to_owned());
        }
        notes.table(texts)
    }

    fn packet_table(&self, rows: &[Row<'_>], texts: &mut Texts) -> Table {
        let kinds: Vec<Option<&'static str>> =
            rows.iter().map(|row| row.contains_a.kind.map(|(kind, _)| kind.name())).collect();
        let delay_ms = |fate: &Fate| Some((fate.second_ns? - fate.first_ns?) as f64 / 1e6);
        Columns::new("packets", &self.fates)
            .int("stream", |fate| i64::from(fate.pair))
            .text("kind", texts, |fate| kinds[fate.pair as usize].map(str::to_owned))
            .int("ssrc", |fate| i64::from(fate.packet.header.ssrc))
            .int("payload_type", |fate| i64::from(fate.packet.header.payload_type))
            .int("seq", |fate| i64::from(fate.packet.header.seq))
            .int("rtp_timestamp", |fate| i64::from(fate.packet.header.timestamp))
            .int("marker", |fate| i64::from(fate.packet.header.marker))
            .int("size_bytes", |fate| i64::from(fate.packet.ip_bytes))
            .int("sent_ns", |fate| fate.first_ns)
            .int("delivered_ns", |fate| fate.second_ns)
            .text("ecn", texts, |fate| fate.first_ecn.map(|ecn| ecn.name().to_owned()))
            .text("delivered_ecn", texts, |fate| fate.second_ecn.map(|ecn| ecn.name().to_owned()))
            .float("one_way_delay_ms", delay_ms)
            .table()
    }
}

/// Adds the columns of both sets of statistics: by the uncorrected clocks, and corrected.
fn delay_columns<'a, 'b>(columns: Columns<'a, Row<'b>>) -> Columns<'a, Row<'b>> {
    columns
        .float("one_way_delay_mean_ms", |r| r.delay.map(|d| d.mean_ms))
        .float("one_way_delay_sd_ms", |r| r.delay.map(|d| d.deviation_ms))
        .float("one_way_delay_min_ms", |r| r.delay.map(|d| d.min_ms))
        .float("one_way_delay_p50_ms", |r| r.delay.map(|d| d.p50_ms))
        .float("one_way_delay_p95_ms", |r| r.delay.map(|d| d.p95_ms))
        .float("one_way_delay_p99_ms", |r| r.delay.map(|d| d.p99_ms))
        .float("one_way_delay_max_ms", |r| r.delay.map(|d| d.max_ms))
        .float("corrected_one_way_delay_mean_ms", |r| r.corrected.map(|d| d.mean_ms))
        .float("corrected_one_way_delay_sd_ms", |r| r.corrected.map(|d| d.deviation_ms))
        .float("corrected_one_way_delay_min_ms", |r| r.corrected.map(|d| d.min_ms))
        .float("corrected_one_way_delay_p50_ms", |r| r.corrected.map(|d| d.p50_ms))
        .float("corrected_one_way_delay_p95_ms", |r| r.corrected.map(|d| d.p95_ms))
        .float("corrected_one_way_delay_p99_ms", |r| r.corrected.map(|d| d.p99_ms))
        .float("corrected_one_way_delay_max_ms", |r| r.corrected.map(|d| d.max_ms))
}

fn histogram_table(rows: &[Row<'_>]) -> Table {
    let bins: Vec<(i64, i64, u64)> = (rows.iter())
        .flat_map(|row| {
            row.counts.delays.histogram().into_iter().map(|(bin, count)| (row.number, bin, count))
        })
        .collect();
    Columns::new("delay_histogram", &bins)
        .int("stream", |(stream, ..)| *stream)
        .float("one_way_delay_ms", |(_, bin, _)| *bin as f64 / 10.0)
        .int("packets", |(.., count)| *count as i64)
        .table()
}

fn clock_table(clock: &ClockEstimate, texts: &mut Texts) -> Table {
    Columns::new("clock", &[*clock])
        .text("method", texts, |c| Some(c.method.to_owned()))
        .int("at_ns", |c| c.at_ns)
        .float("offset_ms", |c| c.offset_ns.map(ms))
        .float("offset_error_ms", |c| c.offset_error_ns.map(ms))
        .float("drift_ppm", |c| c.drift.map(|drift| drift * 1e6))
        .table()
}
