//! Tables with a row per packet, or per stream and second.

use super::capture::Interface;
use super::flow::Flow;
use super::texts::{Columns, Texts};
use super::watcher::{Monitor, SecondRow};
use crate::ecn::Ecn;
use crate::rtp::Protocol;
use crate::table::{Column, NO_TEXT, Table};

/// Names of [`Protocol`] in the order of its variants. `turn` does not occur, because TURN framing is
/// stripped.
const PROTOCOLS: [&str; 6] = ["stun", "dtls", "turn", "rtp", "rtcp", "other"];

impl Monitor {
    pub(super) fn second_table(&self) -> Table {
        let begin_ns = self.begin_ns.unwrap_or_default();
        let current = self.streams.iter().enumerate();
        let current = current.map(|(n, s)| SecondRow::of(n as u32, s, s.rates.current()));
        let mut rows: Vec<SecondRow> = self.seconds.iter().copied().chain(current).collect();
        rows.sort_by_key(|row| (row.second.index, row.stream));
        Columns::new("seconds", &rows)
            .int("at_ns", |row| begin_ns + i64::from(row.second.index) * 1_000_000_000)
            .int("stream", |row| i64::from(row.stream))
            .int("packets", |row| i64::from(row.second.packets))
            .int("bytes", |row| row.second.bytes as i64)
            .int("lost", |row| row.lost as i64)
            .float("jitter_ms", |row| row.jitter_ms)
            .table()
    }

    pub(super) fn packet_table(&mut self, interfaces: &[Interface], texts: &mut Texts) -> Table {
        let rows = self.rows.take();
        let flows = &self.flows.list;
        let mut of_flow = |name: &dyn Fn(&Flow) -> Option<String>| {
            let codes: Vec<u32> = flows
                .iter()
                .map(|flow| name(flow).map_or(NO_TEXT, |text| texts.code(&text).0))
                .collect();
            Column::Text(rows.flow.iter().map(|flow| codes[*flow as usize]).collect())
        };
        let interface = of_flow(&|flow| Some(flow.point.interface_name(interfaces)));
        let direction = of_flow(&|flow| flow.point.direction_name());
        let source = of_flow(&|flow| Some(flow.source.to_string()));
        let destination = of_flow(&|flow| Some(flow.destination.to_string()));
        let kinds: Vec<u32> = (self.contents().iter())
            .map(|stream| stream.kind.map_or(NO_TEXT, |(kind, _)| texts.code(kind.name()).0))
            .collect();
        let kind =
            rows.stream.iter().map(|s| usize::try_from(*s).map_or(NO_TEXT, |s| kinds[s])).collect();
        let protocols = PROTOCOLS.map(|name| texts.code(name).0);
        let protocol = rows.protocol.iter().map(|p: &Protocol| protocols[*p as usize]).collect();
        let codepoints = Ecn::ALL.map(|ecn| texts.code(ecn.name()).0);
        let ecn = rows.ecn.iter().map(|ecn| codepoints[*ecn as usize]).collect();
        let columns = vec![
            ("at_ns", Column::Int(rows.at_ns)),
            ("interface", interface),
            ("direction", direction),
            ("flow", Column::Int(rows.flow)),
            ("source", source),
            ("destination", destination),
            ("size_bytes", Column::Int(rows.size_bytes)),
            ("ecn", Column::Text(ecn)),
            ("protocol", Column::Text(protocol)),
            ("relayed", Column::Int(rows.relayed)),
            ("content_bytes", Column::Int(rows.content_bytes)),
            ("stream", Column::Int(rows.stream)),
            ("kind", Column::Text(kind)),
            ("ssrc", Column::Int(rows.ssrc)),
            ("payload_type", Column::Int(rows.payload_type)),
            ("seq", Column::Int(rows.seq)),
            ("seq_extended", Column::Int(rows.seq_extended)),
            ("rtp_timestamp", Column::Int(rows.rtp_timestamp)),
            ("marker", Column::Int(rows.marker)),
            ("transport_seq", Column::Int(rows.transport_seq)),
            ("abs_send_time", Column::Int(rows.abs_send_time)),
            ("relative_delay_ms", Column::Float(rows.relative_delay_ms)),
        ];
        Table { name: "packets", columns }
    }
}
