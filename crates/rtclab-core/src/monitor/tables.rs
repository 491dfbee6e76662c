//! The tables `streams` and `flows`. Times are nanoseconds on the capture's clock.

use super::capture::{CaptureFaults, Interface};
use super::decapsulation::ip::Transport;
use super::demux::Relay;
use super::flow::Flow;
use super::kinds::Contains;
use super::legs::first_legs;
use super::stream::Stream;
use super::stream::extensions::LearnedId;
use super::texts::{Columns, Tables, Texts, origin};
use super::watcher::Monitor;
use crate::ecn::Ecn;
use crate::table::Table;

/// Input of a row of the table `streams`.
struct StreamRow<'a> {
    number: i64,
    stream: &'a Stream,
    flow: &'a Flow,
    leg_of: Option<u32>,
    contains: Contains,
}

fn id_of(learned: Option<LearnedId>) -> Option<i64> {
    learned.map(|learned| learned.id.into())
}

fn count_of(counts: &[u64; 4], ecn: Ecn) -> i64 {
    counts[ecn as usize] as i64
}

fn origin_of(learned: Option<LearnedId>) -> Option<String> {
    learned.map(|learned| origin(learned.inferred))
}

impl Monitor {
    /// Returns the tables `streams`, `flows`, `rtcp`, `reports` and `notes`, and `seconds` and `packets`
    /// if they are kept. The rows of `packets` are removed, so that the next call returns later ones
    /// only.
    pub fn tables(&mut self, interfaces: &[Interface], faults: &CaptureFaults) -> Tables {
        self.end_trials();
        let mut texts = Texts::default();
        let mut tables = vec![
            self.stream_table(interfaces, &mut texts),
            self.flow_table(interfaces, &mut texts),
            self.rtcp_table(&mut texts),
            self.report_table(),
            self.notes(faults, &mut texts),
        ];
        if self.config.seconds {
            tables.push(self.second_table());
        }
        if self.config.packets {
            tables.push(self.packet_table(interfaces, &mut texts));
        }
        Tables { texts: texts.list, tables }
    }

    fn stream_table(&self, interfaces: &[Interface], texts: &mut Texts) -> Table {
        let legs = first_legs(&self.streams);
        let (contents, ends) = (self.contents(), self.ends());
        let rows: Vec<StreamRow<'_>> = (self.streams.iter().enumerate())
            .map(|(number, stream)| StreamRow {
                number: number as i64,
                stream,
                flow: self.flow_of(stream),
                leg_of: legs[number],
                contains: contents[number],
            })
            .collect();
        let sdp = &self.config.sdp;
        Columns::new("streams", &rows)
            .int("stream", |r| r.number)
            .int("flow", |r| i64::from(r.stream.flow))
            .int("leg_of", |r| r.leg_of.map(i64::from))
            .text("interface", texts, |r| Some(r.flow.point.interface_name(interfaces)))
            .text("direction", texts, |r| r.flow.point.direction_name())
            .text("source", texts, |r| Some(ends.first(r.flow.source).to_string()))
            .text("destination", texts, |r| Some(ends.first(r.flow.destination).to_string()))
            .int("paths", |r| 1 + r.stream.other_flows.len() as i64)
            .text("relay", texts, |r| r.stream.relay.map(relay_name))
            .text("peer", texts, |r| self.peer(r))
            .int("ssrc", |r| i64::from(r.stream.ssrc))
            .int("payload_type", |r| i64::from(r.stream.payload_type()))
            .text("payload_types", texts, |r| Some(payload_types(r.stream)))
            .text("codec", texts, |r| sdp.codec(r.stream.payload_type()).map(|c| c.name.clone()))
            .text("kind", texts, |r| r.contains.kind.map(|(kind, _)| kind.name().to_owned()))
            .text("kind_origin", texts, |r| r.contains.kind.map(|(_, inferred)| origin(inferred)))
            .int("clock_rate", |r| r.contains.clock_rate.map(i64::from))
            .text("clock_rate_origin", texts, |r| {
                r.contains.clock_rate.map(|_| origin(r.contains.clock_is_inferred))
            })
            .int("first_ns", |r| r.stream.first_ns)
            .int("last_ns", |r| r.stream.last_ns)
            .int("packets", |r| r.stream.packets as i64)
            .int("bytes", |r| r.stream.bytes as i64)
            .int("payload_bytes", |r| r.stream.payload_bytes as i64)
            .int("not_ect", |r| count_of(&r.stream.ecn, Ecn::NotCapable))
            .int("ect0", |r| count_of(&r.stream.ecn, Ecn::Ect0))
            .int("ect1", |r| count_of(&r.stream.ecn, Ecn::Ect1))
            .int("ce", |r| count_of(&r.stream.ecn, Ecn::CongestionExperienced))
            .float("rate_mean_bps", |r| r.stream.rates.mean_bps())
            .float("rate_sd_bps", |r| r.stream.rates.deviation_bps())
            .int("expected", |r| r.stream.sequence.expected() as i64)
            .int("lost", |r| r.stream.sequence.lost() as i64)
            .int("duplicates", |r| r.stream.sequence.duplicates as i64)
            .int("reordered", |r| r.stream.sequence.reordered as i64)
            .int("restarts", |r| r.stream.sequence.restarts as i64)
            .float("jitter_ms", |r| r.contains.jitter.map(|jitter| jitter.last_ms))
            .float("jitter_mean_ms", |r| r.contains.jitter.map(|jitter| jitter.mean_ms))
            .float("jitter_max_ms", |r| r.contains.jitter.map(|jitter| jitter.max_ms))
            .int("markers", |r| r.stream.markers as i64)
            .int("frames", |r| r.stream.frames as i64)
            .float("frames_per_second", |r| frames_per_second(r.stream))
            .int("abs_send_time_id", |r| id_of(r.flow.extensions.abs_send_time))
            .text("abs_send_time_origin", texts, |r| origin_of(r.flow.extensions.abs_send_time))
            .int("transport_seq_id", |r| id_of(r.flow.extensions.transport_sequence))
            .text("transport_seq_origin", texts, |r| {
                origin_of(r.flow.extensions.transport_sequence)
            })
            .float("delay_above_min_mean_ms", |r| {
                r.stream.delay.as_ref().map(|d| d.mean_above_min_ms())
            })
            .float("delay_above_min_max_ms", |r| {
                r.stream.delay.as_ref().map(|d| d.max_above_min_ms())
            })
            .table()
    }

    fn peer(&self, row: &StreamRow<'_>) -> Option<String> {
        let peer = match row.stream.relay? {
            Relay::Indication(peer) => peer,
            Relay::Channel(number) => {
                self.stun.peer((row.flow.source, row.flow.destination), number)
            }
        };
        peer.map(|peer| peer.to_string())
    }

    fn flow_table(&self, interfaces: &[Interface], texts: &mut Texts) -> Table {
        let rows: Vec<(usize, &Flow)> = self.flows.list.iter().enumerate().collect();
        let mut streams = vec![0; rows.len()];
        for stream in &self.streams {
            streams[stream.flow as usize] += 1;
            stream.other_flows.iter().for_each(|flow| streams[*flow as usize] += 1);
        }
        Columns::new("flows", &rows)
            .int("flow", |(number, _)| *number as i64)
            .text("interface", texts, |(_, f)| Some(f.point.interface_name(interfaces)))
            .text("direction", texts, |(_, f)| f.point.direction_name())
            .text("transport", texts, |(_, f)| {
                Some(if f.transport == Transport::Udp { "udp" } else { "tcp" }.to_owned())
            })
            .text("source", texts, |(_, f)| Some(f.source.to_string()))
            .text("destination", texts, |(_, f)| Some(f.destination.to_string()))
            .int("first_ns", |(_, f)| f.first_ns)
            .int("last_ns", |(_, f)| f.last_ns)
            .int("packets", |(_, f)| f.packets as i64)
            .int("bytes", |(_, f)| f.bytes as i64)
            .int("not_ect", |(_, f)| count_of(&f.ecn, Ecn::NotCapable))
            .int("ect0", |(_, f)| count_of(&f.ecn, Ecn::Ect0))
            .int("ect1", |(_, f)| count_of(&f.ecn, Ecn::Ect1))
            .int("ce", |(_, f)| count_of(&f.ecn, Ecn::CongestionExperienced))
            .int("stun", |(_, f)| f.stun as i64)
            .int("dtls", |(_, f)| f.dtls as i64)
            .int("rtp", |(_, f)| f.rtp as i64)
            .int("rtcp", |(_, f)| f.rtcp as i64)
            .int("other", |(_, f)| f.other() as i64)
            .int("relayed", |(_, f)| f.relayed as i64)
            .int("fragments", |(_, f)| f.fragments as i64)
            .int("streams", |(number, _)| streams[*number])
            .int("stun_rtt_count", |(_, f)| f.stun_rtt.count as i64)
            .float("stun_rtt_min_ms", |(_, f)| f.stun_rtt.min_ms())
            .float("stun_rtt_mean_ms", |(_, f)| f.stun_rtt.mean_ms())
            .float("stun_rtt_max_ms", |(_, f)| f.stun_rtt.max_ms())
            .table()
    }
}

fn relay_name(relay: Relay) -> String {
    match relay {
        Relay::Channel(number) => format!("channel {number:#06x}"),
        Relay::Indication(_) => "indication".to_owned(),
    }
}

/// Payload types with their numbers of packets as text, the most frequent first: `96: 1200, 97: 3`.
fn payload_types(stream: &Stream) -> String {
    let types = stream.payload_types();
    let texts: Vec<String> = types.iter().map(|(pt, count)| format!("{pt}: {count}")).collect();
    texts.join(", ")
}

fn frames_per_second(stream: &Stream) -> Option<f64> {
    let seconds = (stream.last_ns - stream.first_ns) as f64 / 1e9;
    (stream.frames > 1 && seconds > 0.0).then(|| (stream.frames - 1) as f64 / seconds)
}
