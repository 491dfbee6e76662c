//! The tables `rtcp` and `reports`.

use super::rtcp_log::{KindCount, KindKey, ReportKey, Reports};
use super::texts::{Columns, Texts};
use super::watcher::Monitor;
use crate::table::Table;
use std::collections::HashMap;

impl Monitor {
    pub(super) fn rtcp_table(&self, texts: &mut Texts) -> Table {
        let mut rows: Vec<(KindKey, KindCount)> =
            self.rtcp.kinds.iter().map(|(k, c)| (*k, *c)).collect();
        rows.sort_by_key(|(key, _)| *key);
        Columns::new("rtcp", &rows)
            .int("flow", |(key, _)| i64::from(key.flow))
            .int("ssrc", |(key, _)| i64::from(key.sender))
            .text("type", texts, |(key, _)| Some(key.kind.to_owned()))
            .int("packets", |(_, count)| count.packets as i64)
            .int("encrypted", |(_, count)| count.encrypted as i64)
            .int("bytes", |(_, count)| count.bytes as i64)
            .int("items", |(_, count)| count.figures.items as i64)
            .int("lost", |(_, count)| count.figures.lost as i64)
            .float("remb_bps", |(_, count)| count.figures.bitrate_bps.map(|bps| bps as f64))
            .table()
    }

    pub(super) fn report_table(&self) -> Table {
        let mut rows: Vec<(ReportKey, Reports)> =
            self.rtcp.reports.iter().map(|(k, r)| (*k, *r)).collect();
        rows.sort_by_key(|(key, _)| *key);
        let contents = self.contents();
        let rates: HashMap<u32, Option<u32>> =
            self.streams.iter().zip(contents).map(|(s, c)| (s.ssrc, c.clock_rate)).collect();
        let jitter = |key: &ReportKey, units: u32| {
            let rate = rates.get(&key.ssrc).copied().flatten()?;
            Some(f64::from(units) * 1e3 / f64::from(rate))
        };
        Columns::new("reports", &rows)
            .int("flow", |(key, _)| i64::from(key.flow))
            .int("reporter_ssrc", |(key, _)| i64::from(key.reporter))
            .int("ssrc", |(key, _)| i64::from(key.ssrc))
            .int("reports", |(_, r)| r.count as i64)
            .float("packets_lost", |(_, r)| f64::from(r.last.cumulative_lost))
            .float("fraction_lost_mean", |(_, r)| {
                r.fraction_lost_sum as f64 / r.count as f64 / 256.0
            })
            .float("fraction_lost_max", |(_, r)| f64::from(r.fraction_lost_max) / 256.0)
            .float("jitter_ms", |(key, r)| jitter(key, r.last.jitter))
            .int("rtt_count", |(_, r)| r.rtt.count as i64)
            .float("rtt_min_ms", |(_, r)| r.rtt.min_ms())
            .float("rtt_mean_ms", |(_, r)| r.rtt.mean_ms())
            .float("rtt_max_ms", |(_, r)| r.rtt.max_ms())
            .table()
    }
}
