//! The table `notes`: what was skipped, limits that were reached, and faults of the file.

use super::capture::CaptureFaults;
use super::decapsulation::Tunnel;
use super::decapsulation::ip::Transport;
use super::flow::MAX_FLOWS;
use super::texts::{Columns, Texts};
use super::watcher::Monitor;
use crate::table::Table;
use std::cmp::Reverse;

/// Note of a monitor that has seen no frame.
const NO_PACKETS: &str = "the capture has no packets";

/// Maximum number of notes about what was not read.
const MAX_UNREAD: usize = 20;

/// Notes in display order.
#[derive(Default)]
pub(crate) struct Notes(Vec<(String, Option<u64>)>);

impl Notes {
    /// Adds a note with a count, unless the count is 0.
    pub(crate) fn count(&mut self, text: &str, count: u64) {
        if count > 0 {
            self.0.push((text.to_owned(), Some(count)));
        }
    }

    /// Adds a note without a count.
    pub(crate) fn add(&mut self, text: String) {
        self.0.push((text, None));
    }

    /// Returns the table `notes`.
    pub(crate) fn table(&self, texts: &mut Texts) -> Table {
        Columns::new("notes", &self.0)
            .text("note", texts, |(text, _)| Some(text.clone()))
            .int("count", |(_, count)| count.map(|count| count as i64))
            .table()
    }
}

impl Monitor {
    /// Returns the notes of this monitor as a table.
    pub(crate) fn notes(&self, faults: &CaptureFaults, texts: &mut Texts) -> Table {
        let mut notes = Notes::default();
        let mut count = |text: &str, number| notes.count(text, number);
        let counts = self.counts;
        count("frames", counts.frames);
        for (text, number) in self.unread_in_words() {
            count(&text, number);
        }
        for (tunnel, number) in Tunnel::ALL.into_iter().zip(counts.inside) {
            count(&format!("packets inside {}", tunnel.name()), number);
        }
        count(
            "packets to ports of tunnels, cut off by the capture before it shows what is inside",
            counts.cut_inside,
        );
        count(
            "packets whose payload the capture cut, counted with their length",
            counts.cut_payloads,
        );
        count("later fragments of IP packets, counted with the first", counts.later_fragments);
        let tcp = self.flows.list.iter().filter(|flow| flow.transport == Transport::Tcp);
        count("TCP segments, not reassembled", tcp.map(|flow| flow.packets).sum());
        count(
            "RTP packets not counted because their sequence number is far from their stream's",
            counts.stray_packets,
        );
        count("packets of RTP streams above the limit of streams", counts.streams_over_limit);
        count("packets of flows above the limit of flows", self.flows.packets_over_limit);
        count(
            "possible RTP sources forgotten because there were too many",
            self.probation.forgotten,
        );
        count(
            "STUN requests and channel bindings forgotten because there were too many",
            self.stun.forgotten,
        );
        count("RTCP packets or report blocks above the limit of rows", self.rtcp.over_limit);
        count("inconsistent records of the capture, skipped", faults.malformed);
        count("records of the capture above 1 MiB, skipped", faults.oversized);
        count(
            "packets without a time (simple packet blocks), which makes rates and jitter meaningless",
            faults.untimed,
        );
        count("frames dropped by the kernel because its buffer was full", faults.dropped);
        count("packets of interfaces that the capture does not describe", faults.unknown_interface);
        if counts.streams_over_limit > 0 {
            notes.add(format!("only the first {} streams are shown", self.config.max_streams));
        }
        if self.flows.packets_over_limit > 0 {
            notes.add(format!(
                "only the first {MAX_FLOWS} flows and those with RTP streams are shown"
            ));
        }
        if faults.cut_short {
            notes.add("the capture ends within a record".to_owned());
        }
        if let Some(offset) = faults.corrupt_at {
            notes.add(format!("the capture is corrupt at byte {offset}; the rest was not read"));
        }
        if counts.frames == 0 {
            notes.add(NO_PACKETS.to_owned());
        }
        notes.table(texts)
    }

    /// What was not read and how often, the most frequent first.
    pub(crate) fn unread_in_words(&self) -> Vec<(String, u64)> {
        let mut unread: Vec<_> = self.unread.iter().map(|(what, count)| (*count, *what)).collect();
        unread.sort_unstable_by_key(|(count, what)| (Reverse(*count), *what));
        let others = unread.split_off(unread.len().min(MAX_UNREAD));
        let words = unread.into_iter().map(|(count, what)| (what.in_words(), count));
        let rest = others.iter().map(|(count, _)| count).sum();
        words.chain([("frames of other kinds are not read".to_owned(), rest)]).collect()
    }
}
