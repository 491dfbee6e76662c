//! The inputs of a congestion control in an RTC event log, in order of time.

use super::ReplayError;
use crate::event_log::{EventLog, NO_VALUE};
use crate::packet::{Ecn, Kind};
use crate::rtp::rtcp::{IntervalLoss, ReportBlock};
use crate::rtp::{AbsSendTime, SeqUnwrapper, Unwrapper};
use crate::stack::FeedbackKind;
use crate::table::Column;
use crate::transport_history::{Departure, HeldArrival, RtpNumber};
use crate::units::{Bitrate, Bytes, RemoteTime, Time};
use std::collections::{HashMap, HashSet, VecDeque};

/// A longer log can only mean that one of its times is wrong.
const LONGEST: Time = Time::from_secs(24 * 3600);
/// Headers of IPv4 and UDP, and of IPv6 and UDP. The browser knows its first route before the keys of SRTP, so
/// that it does not count the tag; replays of its logs agree with its rates without the tag.
const IPV4_BYTES: i64 = 20 + 8;
const IPV6_BYTES: i64 = 40 + 8;
/// abs-send-time counts 2^-18 s modulo 64 s.
const ABS_SEND_TIME_PER_MS: f64 = 262.144;
const ABS_SEND_TIME_RANGE_MS: f64 = 64_000.0;
/// Seconds from 1900 to 1970 (RFC 868).
const NTP_TO_UNIX_MS: f64 = 2_208_988_800_000.0;
/// A packet leaves the socket this long after its abs-send-time was written: the median measured in
/// Chromium 156 on an idle machine.
const TO_SOCKET_MS: f64 = 0.2;
/// abs-send-time is used if it is this close to the time at which the log says that the packet was sent.
const PLAUSIBLE_MS: f64 = 1_000.0;
/// Lengths of a tick of transport-wide feedback: four make a millisecond.
const TICKS_PER_MS: i64 = 4;
/// The pacer sends a probe in bursts that take at least this long at its rate (min_probe_delta).
const BURST_MS: i64 = 2;
/// Packets further apart belong to different bursts.
const BURST_GAP_MS: i64 = 1;
/// A probe ends early when a burst is later than this (max_probe_delay).
const PROBE_DELAY_MS: i64 = 10;
/// A probe that could not begin is given up (kProbeClusterTimeout).
const PROBE_TIMEOUT_MS: i64 = 5_000;
/// Time at which the first packet of those reported is said to have arrived.
const FIRST_MS: i64 = 100_000;
/// The most that an IP packet can have.
const MOST_BYTES: i64 = 65_535;

/// An input, and when the browser had it.
pub(super) struct ReplayInput {
    pub(super) at: Time,
    pub(super) what: What,
}

pub(super) enum What {
    Sent(ReplayedPacket),
    Transport(Vec<Acknowledged>),
    Congestion(CongestionReport),
    Reports(Reports),
    Remb(Bitrate),
    /// The route has changed, and the control starts anew.
    Route,
}

/// A packet that was sent.
#[derive(Clone, Copy)]
pub(super) struct ReplayedPacket {
    /// Transport-wide sequence number, unwrapped; its place in order of sending if packets have none.
    pub(super) seq: i64,
    pub(super) size: Bytes,
    pub(super) kind: Kind,
    pub(super) cluster: Option<BrowserProbe>,
    pub(super) rtp: Rtp,
}

impl ReplayedPacket {
    pub(super) fn departure(&self, at: Time, probe: Option<u32>) -> Departure<()> {
        let &ReplayedPacket { seq: transport_seq, size, kind, rtp, .. } = self;
        let (rtp, ecn) = ((rtp.ssrc, rtp.seq), Ecn::NotCapable);
        Departure { transport_seq, at, size, kind, probe, ecn, rtp, tag: () }
    }
}

/// What a receiver reads in a packet.
#[derive(Clone, Copy)]
pub(super) struct Rtp {
    pub(super) ssrc: u32,
    pub(super) seq: u16,
    pub(super) timestamp: u32,
    pub(super) abs_send_time: Option<AbsSendTime>,
    /// Payload and padding.
    pub(super) payload: Bytes,
}

/// A probe that the browser made.
#[derive(Clone, Copy)]
pub(super) struct BrowserProbe {
    pub(super) id: u32,
    pub(super) rate: Bitrate,
}

/// An entry of transport-wide feedback.
pub(super) struct Acknowledged {
    pub(super) seq: u16,
    /// Arrival in whole milliseconds since the first one of the log; `None` if it had not arrived.
    pub(super) arrival_ms: Option<i64>,
}

impl Acknowledged {
    /// Its number on the wire, and when it arrived; others may have arrived before the first that was reported.
    pub(super) fn arrival(&self) -> (u16, Option<RemoteTime>) {
        let since_start = |ms: i64| RemoteTime(Time::from_millis((FIRST_MS + ms).max(0) as u64));
        (self.seq, self.arrival_ms.map(since_start))
    }
}

/// Feedback of RFC 8888.
pub(super) struct CongestionReport {
    /// Time of the report, in 1/65536 s.
    pub(super) timestamp: u32,
    /// The packets that it names; `None` if they had not arrived.
    pub(super) entries: Vec<(RtpNumber, Option<HeldArrival>)>,
}

/// The report blocks of one RTCP datagram about our streams, taken together.
pub(super) struct Reports {
    pub(super) loss: IntervalLoss,
    pub(super) fraction: u8,
    pub(super) rtt: Option<Time>,
}

/// Everything that a control is told, in order of time.
pub(super) struct Inputs {
    /// Time of the log at which the inputs have time zero: when the browser's own control began.
    pub(super) begin_ms: i64,
    /// Whether anything but audio was sent.
    pub(super) has_video: bool,
    /// Whether any packet has an absolute send time.
    pub(super) has_send_times: bool,
    /// The feedback on packets that came in.
    pub(super) feedback: FeedbackKind,
    pub(super) events: Vec<ReplayInput>,
}

/// Order of inputs of the same millisecond, as in libwebrtc's own analysis of logs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    Route,
    Heard,
    Sent,
}

impl Inputs {
    /// `sent_ms` is as for [`replay_log`](super::replay_log).
    pub(super) fn read(log: &EventLog, sent_ms: &[i64]) -> Result<Inputs, ReplayError> {
        let source = LogTables(log);
        let mut all: Vec<(i64, Rank, What)> = Vec::new();
        let feedback = source.feedback();
        let is_by_stream =
            feedback.first().is_some_and(|(_, what)| matches!(what, What::Congestion(_)));
        let mut packets = match is_by_stream {
            true => source.packets(sent_ms),
            false => source.numbered_packets(sent_ms),
        };
        if packets.is_empty() {
            return Err(ReplayError::Log(match is_by_stream {
                true => "the log has no sent packet",
                false => "the log has no sent packet with a transport-wide sequence number",
            }));
        }
        source.assign_probes(&mut packets);
        let has_send_times = packets.iter().any(|sent| sent.packet.rtp.abs_send_time.is_some());
        let has_video = packets.iter().any(|sent| sent.packet.kind != Kind::Audio);
        if feedback.is_empty() {
            return Err(ReplayError::Log(
                "the log has no feedback on packets: neither transport-wide (RTCP 205/15) nor RFC 8888 (205/11)",
            ));
        }
        all.extend(source.routes().into_iter().map(|at| (at, Rank::Route, What::Route)));
        all.extend(feedback.into_iter().map(|(at, what)| (at, Rank::Heard, what)));
        all.extend(source.reports().into_iter().map(|(at, r)| (at, Rank::Heard, What::Reports(r))));
        all.extend(source.rembs().into_iter().map(|(at, r)| (at, Rank::Heard, What::Remb(r))));
        all.extend(packets.into_iter().map(|p| (p.send_ms, Rank::Sent, What::Sent(p.packet))));
        all.sort_by_key(|(at, rank, _)| (*at, *rank));
        let first_ms = all.first().map_or(0, |(at, _, _)| *at);
        let last_ms = all.last().map_or(0, |(at, _, _)| *at);
        // What was sent before the control began, such as the first audio, is unknown to it.
        let begin_ms = source.control_began_ms().unwrap_or(first_ms);
        all.retain(|(at, _, _)| *at >= begin_ms);
        let after = |at: i64| Time::from_millis(at.saturating_sub(begin_ms).max(0) as u64);
        if after(last_ms) > LONGEST {
            return Err(ReplayError::Log("the log spans more than a day"));
        }
        let events =
            all.into_iter().map(|(at, _, what)| ReplayInput { at: after(at), what }).collect();
        let feedback =
            if is_by_stream { FeedbackKind::Rfc8888 } else { FeedbackKind::TransportWide };
        Ok(Inputs { begin_ms, has_video, has_send_times, feedback, events })
    }
}

/// A sent packet and its times in the log.
struct LoggedPacket {
    /// When it left the socket, in whole milliseconds.
    send_ms: i64,
    /// When the log was written.
    at_ms: i64,
    packet: ReplayedPacket,
}

/// A probe that the browser's pacer sends.
///
/// The pacer begins it with a small packet of padding, if it can send padding, and then counts whatever it
/// sends, audio too. It sends in bursts of at least 2 ms at the rate of the probe. A probe ends when it has its
/// number of bursts, which the log calls packets, and of bytes (libwebrtc, modules/pacing/bitrate_prober.cc and
/// pacing_controller.cc; confirmed by the results that logs of Chromium 156 have for each probe).
struct OpenProbe {
    created_ms: i64,
    cluster: BrowserProbe,
    bursts_left: i64,
    bytes_left: i64,
    /// Size at which a burst ends.
    burst_bytes: i64,
    began_ms: i64,
    bytes_sent: i64,
    /// When the current burst began, and its bytes; `None` before the first packet.
    burst: Option<(i64, i64)>,
}

impl OpenProbe {
    /// Whether the pacer has given it up: it could not begin, or a burst came too late for its rate.
    fn is_late(&self, at_ms: i64) -> bool {
        if self.burst.is_none() {
            return at_ms.saturating_sub(self.created_ms) > PROBE_TIMEOUT_MS;
        }
        let taken_ms = 8 * 1_000 * self.bytes_sent / (self.cluster.rate.0 as i64).max(1);
        at_ms.saturating_sub(self.began_ms) > taken_ms + PROBE_DELAY_MS
    }

    /// Adds a packet; returns whether it is the last one.
    fn takes_last(&mut self, at_ms: i64, bytes: i64) -> bool {
        self.burst = match self.burst {
            Some((began_ms, so_far))
                if so_far < self.burst_bytes && at_ms - began_ms <= BURST_GAP_MS =>
            {
                Some((began_ms, so_far + bytes))
            }
            _ => Some((at_ms, bytes)),
        };
        if self.bytes_sent == 0 {
            self.began_ms = at_ms;
        }
        self.bytes_sent += bytes;
        self.bytes_left -= bytes;
        let is_full = self.burst.is_some_and(|(_, so_far)| so_far >= self.burst_bytes);
        self.bursts_left -= i64::from(is_full);
        self.bursts_left <= 0 && self.bytes_left <= 0
    }
}

/// The tables of a log.
struct LogTables<'a>(&'a EventLog);

impl<'a> LogTables<'a> {
    fn column(&self, table: &str, column: &str) -> Option<&'a Column> {
        let table = self.0.tables.iter().find(|known| known.name == table)?;
        table.columns.iter().find(|(name, _)| *name == column).map(|(_, column)| column)
    }

    /// An integer column; empty if the log has no such table.
    fn ints(&self, table: &str, column: &str) -> &'a [i64] {
        match self.column(table, column) {
            Some(Column::Int(values)) => values,
            _ => &[],
        }
    }

    /// A text column; empty if the log has no such table.
    fn texts(&self, table: &str, column: &str) -> Vec<&'a str> {
        let text = |code: &u32| self.0.texts.get(*code as usize).map_or("", String::as_str);
        match self.column(table, column) {
            Some(Column::Text(codes)) => codes.iter().map(text).collect(),
            _ => Vec::new(),
        }
    }

    /// When the browser's control began: its first target, or else when DTLS became writable.
    fn control_began_ms(&self) -> Option<i64> {
        if let Some(first) = self.ints("target", "at_ms").first() {
            return Some(*first);
        }
        let at = self.ints("dtls_writable", "at_ms").iter();
        let mut known = at.zip(self.ints("dtls_writable", "writable"));
        known.find(|(_, writable)| **writable == 1).map(|(at, _)| *at)
    }

    fn routes(&self) -> Vec<i64> {
        let connected = self.ints("route_change", "connected").iter();
        let at = self.ints("route_change", "at_ms").iter();
        at.zip(connected).filter(|(_, connected)| **connected == 1).map(|(at, _)| *at).collect()
    }

    /// The bytes around each RTP packet from the given times on, in order.
    fn overheads(&self) -> Vec<(i64, i64)> {
        let table = "candidate_pair_config";
        let (changes, families) = (self.texts(table, "change"), self.texts(table, "remote_family"));
        let pairs = self.ints(table, "at_ms").iter().zip(changes.iter().zip(families));
        let selected = pairs.filter(|(_, (change, _))| **change == "selected");
        let of_pair = |(at, (_, family)): (&i64, (&&str, &str))| {
            (*at, if family == "ipv6" { IPV6_BYTES } else { IPV4_BYTES })
        };
        let mut known: Vec<(i64, i64)> = selected.map(of_pair).collect();
        let told = self.ints("route_change", "overhead_bytes").iter();
        known.extend(self.ints("route_change", "at_ms").iter().copied().zip(told.copied()));
        known.sort_by_key(|(at, _)| *at);
        known
    }

    /// The sent packets with a transport-wide sequence number, in order of sending.
    fn numbered_packets(&self, sent_ms: &[i64]) -> Vec<LoggedPacket> {
        let numbers = self.ints("outgoing_rtp", "transport_seq");
        let at = self.ints("outgoing_rtp", "at_ms");
        let mut rows: Vec<usize> = (0..at.len()).filter(|row| numbers[*row] >= 0).collect();
        rows.sort_by_key(|row| at[*row]);
        let mut unwrapper = SeqUnwrapper::default();
        let mut packets = self.read_packets(sent_ms, &rows);
        for (sent, row) in packets.iter_mut().zip(rows) {
            sent.packet.seq = unwrapper.unwrap(numbers[row] as u16);
        }
        packets.sort_by_key(|sent| sent.packet.seq);
        packets.dedup_by_key(|sent| sent.packet.seq);
        packets
    }

    /// All sent packets, numbered in order of sending: of packets of the same millisecond, abs-send-time knows it.
    fn packets(&self, sent_ms: &[i64]) -> Vec<LoggedPacket> {
        let (at, clock) = (self.ints("outgoing_rtp", "at_ms"), self.abs_send_clock());
        let abs_send_time = self.ints("outgoing_rtp", "abs_send_time");
        let mut rows: Vec<usize> = (0..at.len()).collect();
        let left_ms = |row: &usize| clock.left_ms(at[*row], abs_send_time[*row]);
        rows.sort_by(|a, b| left_ms(a).total_cmp(&left_ms(b)));
        let mut packets = self.read_packets(sent_ms, &rows);
        packets.iter_mut().zip(0..).for_each(|(sent, seq)| sent.packet.seq = seq);
        packets
    }

    /// The packets in these rows, not numbered yet.
    fn read_packets(&self, sent_ms: &[i64], rows: &[usize]) -> Vec<LoggedPacket> {
        let ints = |name| self.ints("outgoing_rtp", name);
        let audio: HashSet<i64> = self.ints("audio_send_config", "ssrc").iter().copied().collect();
        let rtx: HashSet<i64> =
            self.ints("video_send_config", "rtx_ssrc").iter().copied().collect();
        let (at, abs_send_time) = (ints("at_ms"), ints("abs_send_time"));
        let (payload, padding) = (ints("payload_bytes"), ints("padding_bytes"));
        let clock = self.abs_send_clock();
        let overheads = self.overheads();
        rows.iter()
            .map(|&row| {
                let overhead = overheads.iter().take_while(|(since, _)| *since <= at[row]).last();
                let overhead = overhead.map_or(IPV4_BYTES, |(_, bytes)| *bytes);
                let parts = [payload[row], ints("header_bytes")[row], padding[row], overhead];
                let size: i64 = parts.iter().map(|bytes| (*bytes).clamp(0, MOST_BYTES)).sum();
                let ssrc = ints("ssrc")[row];
                let kind = match () {
                    () if audio.contains(&ssrc) => Kind::Audio,
                    () if payload[row] == 0 && padding[row] > 0 => Kind::Padding,
                    () if rtx.contains(&ssrc) => Kind::Rtx,
                    () => Kind::Video,
                };
                let seen = sent_ms.get(row).copied().filter(|known| *known != NO_VALUE);
                let send_ms = seen.unwrap_or_else(|| clock.send_ms(at[row], abs_send_time[row]));
                let size = Bytes(size.min(MOST_BYTES) as u64);
                let content = payload[row].saturating_add(padding[row]).clamp(0, MOST_BYTES);
                let known = Some(abs_send_time[row]).filter(|bits| *bits != NO_VALUE);
                let rtp = Rtp {
                    ssrc: ssrc as u32,
                    seq: ints("seq")[row] as u16,
                    timestamp: ints("rtp_timestamp")[row] as u32,
                    abs_send_time: known.map(|bits| AbsSendTime::from_bits(bits as u32)),
                    payload: Bytes(content as u64),
                };
                let packet = ReplayedPacket { seq: 0, size, kind, cluster: None, rtp };
                LoggedPacket { send_ms, at_ms: at[row], packet }
            })
            .collect()
    }

    /// The clock of abs-send-time: the clock of the log plus the difference to the wall clock when it began.
    fn abs_send_clock(&self) -> AbsSendClock {
        let begin = self.ints("begin", "at_ms").first().zip(self.ints("begin", "utc_ms").first());
        AbsSendClock { ahead_ms: begin.map(|(at, utc)| (*utc - *at) as f64 + NTP_TO_UNIX_MS) }
    }

    /// Gives packets to the browser's probes, because the log does not store to which probe a packet belongs.
    fn assign_probes(&self, packets: &mut [LoggedPacket]) {
        let ints = |name| self.ints("probe_created", name);
        let mut waiting: VecDeque<OpenProbe> = (0..ints("at_ms").len())
            .map(|row| {
                let rate = ints("rate_bps")[row].max(0);
                OpenProbe {
                    created_ms: ints("at_ms")[row],
                    cluster: BrowserProbe {
                        id: ints("probe")[row].max(0) as u32,
                        rate: Bitrate(rate as u64),
                    },
                    bursts_left: ints("min_packets")[row],
                    bytes_left: ints("min_bytes")[row],
                    burst_bytes: rate / 8 * BURST_MS / 1_000,
                    began_ms: 0,
                    bytes_sent: 0,
                    burst: None,
                }
            })
            .collect();
        let pads = packets.iter().any(|sent| sent.packet.kind == Kind::Padding);
        let first_kind = if pads { Kind::Padding } else { Kind::Video };
        for sent in packets.iter_mut() {
            while waiting.front().is_some_and(|probe| probe.is_late(sent.at_ms)) {
                waiting.pop_front();
            }
            let Some(probe) = waiting.front_mut() else { return };
            let begins = probe.created_ms <= sent.at_ms && sent.packet.kind == first_kind;
            if probe.burst.is_none() && !begins {
                continue;
            }
            sent.packet.cluster = Some(probe.cluster);
            if probe.takes_last(sent.at_ms, sent.packet.size.0 as i64) {
                waiting.pop_front();
            }
        }
    }

    /// The feedback on packets that came in: RFC 8888 if there is no transport-wide feedback.
    fn feedback(&self) -> Vec<(i64, What)> {
        let numbered = self.transport_feedback();
        if !numbered.is_empty() {
            return numbered.into_iter().map(|(at, all)| (at, What::Transport(all))).collect();
        }
        let by_stream = self.congestion_feedback().into_iter();
        by_stream.map(|(at, report)| (at, What::Congestion(report))).collect()
    }

    /// The RFC 8888 feedback that came in, one entry per RTCP packet.
    fn congestion_feedback(&self) -> Vec<(i64, CongestionReport)> {
        let ints = |name| self.ints("congestion_feedback", name);
        let (at, sent, timestamps) = (ints("at_ms"), ints("sent"), ints("report_timestamp"));
        let mut all: Vec<(i64, CongestionReport)> = Vec::new();
        let mut last = None;
        for row in (0..at.len()).filter(|row| sent[*row] == 0) {
            let key = (at[row], timestamps[row], ints("ssrc")[row]);
            if last != Some(key) {
                let timestamp = timestamps[row] as u32;
                all.push((at[row], CongestionReport { timestamp, entries: Vec::new() }));
                last = Some(key);
            }
            let (held, ecn) = (ints("arrival_offset_ns")[row], ints("ecn")[row]);
            let held = (held != NO_VALUE).then_some(Time(held.max(0) as u64));
            let ecn = (ecn != NO_VALUE).then(|| Ecn::from_bits(ecn as u8));
            let arrival = ecn.map(|ecn| HeldArrival { held, ecn });
            let number = (ints("media_ssrc")[row] as u32, ints("seq")[row] as u16);
            if let Some((_, report)) = all.last_mut() {
                report.entries.push((number, arrival));
            }
        }
        all
    }

    /// The transport-wide feedback that came in, one entry per RTCP packet.
    fn transport_feedback(&self) -> Vec<(i64, Vec<Acknowledged>)> {
        let ints = |name| self.ints("transport_feedback", name);
        let (at, sent, count) = (ints("at_ms"), ints("sent"), ints("feedback_count"));
        let mut all: Vec<(i64, Vec<Acknowledged>)> = Vec::new();
        let (mut last, mut first_ms) = (None, None);
        let mut unwrapper = Unwrapper::<32>::default();
        for row in (0..at.len()).filter(|row| sent[*row] == 0) {
            let key = (at[row], count[row], ints("ssrc")[row]);
            if last != Some(key) {
                all.push((at[row], Vec::new()));
                last = Some(key);
            }
            let ticks = ints("arrival_ticks")[row];
            let arrival_ms = (ticks != NO_VALUE).then(|| {
                let whole = unwrapper.unwrap(ticks as u32).div_euclid(TICKS_PER_MS);
                whole - *first_ms.get_or_insert(whole)
            });
            if let Some((_, entries)) = all.last_mut() {
                entries.push(Acknowledged { seq: ints("transport_seq")[row] as u16, arrival_ms });
            }
        }
        all
    }

    /// Incoming report blocks about our streams, taken together by time, with what they add to the last ones.
    fn reports(&self) -> Vec<(i64, Reports)> {
        let ints = |name| self.ints("report_blocks", name);
        let sender_reports = self.sender_reports();
        let mut last: HashMap<i64, ReportBlock> = HashMap::new();
        let mut all: Vec<(i64, Reports)> = Vec::new();
        for row in (0..ints("at_ms").len()).filter(|row| ints("sent")[*row] == 0) {
            let (at, ssrc) = (ints("at_ms")[row], ints("media_ssrc")[row]);
            let block = ReportBlock {
                cumulative_lost: ints("packets_lost")[row] as i32,
                highest_seq: ints("highest_seq")[row] as u32,
                ..ReportBlock::default()
            };
            let since = last.get(&ssrc).map(|before| block.since(before));
            if all.last().is_none_or(|(known, _)| *known != at) {
                all.push((at, Reports { loss: IntervalLoss::default(), fraction: 0, rtt: None }));
            }
            let Some((_, together)) = all.last_mut() else { continue };
            if let Some(Some(since)) = since {
                together.loss += since;
            }
            if since != Some(None) {
                last.insert(ssrc, block);
            }
            together.fraction = together.fraction.max(ints("fraction_lost")[row] as u8);
            let answered = sender_reports.get(&(ints("last_sender_report")[row] as u32));
            let held_ms = ints("delay_since_last_sender_report")[row] as f64 / 65.536;
            let rtt_ms = answered.map(|sent| at.saturating_sub(*sent) as f64 - held_ms);
            together.rtt = rtt_ms.map(|ms| Time::from_secs_f64(ms.max(1.0) / 1e3)).or(together.rtt);
        }
        all.iter_mut().for_each(|(_, together)| {
            together.loss.lost = together.loss.lost.min(together.loss.expected)
        });
        all
    }

    /// When each of our sender reports left, by the middle 32 bits of its NTP time.
    fn sender_reports(&self) -> HashMap<u32, i64> {
        let ints = |name| self.ints("sender_reports", name);
        let rows = (0..ints("at_ms").len()).filter(|row| ints("sent")[*row] == 1);
        rows.map(|row| ((ints("ntp")[row] as u64 >> 16) as u32, ints("at_ms")[row])).collect()
    }

    fn rembs(&self) -> Vec<(i64, Bitrate)> {
        let ints = |name| self.ints("rtcp", name);
        let rows = (0..ints("at_ms").len()).filter(|row| ints("sent")[*row] == 0);
        let known = rows.filter(|row| ints("rate_bps")[*row] != NO_VALUE);
        known
            .map(|row| (ints("at_ms")[row], Bitrate(ints("rate_bps")[row].max(0) as u64)))
            .collect()
    }
}

/// Turns abs-send-time into times of the log.
struct AbsSendClock {
    /// How far its clock is ahead of the log's; `None` if the log does not say.
    ahead_ms: Option<f64>,
}

impl AbsSendClock {
    /// When a packet left the socket, in whole milliseconds of the log's clock.
    fn send_ms(&self, at_ms: i64, abs_send_time: i64) -> i64 {
        match self.later_ms(at_ms, abs_send_time) {
            Some(later_ms) => at_ms + (later_ms + TO_SOCKET_MS).floor() as i64,
            None => at_ms,
        }
    }

    /// When a packet left the pacer, in milliseconds of the log's clock, as finely as is known.
    fn left_ms(&self, at_ms: i64, abs_send_time: i64) -> f64 {
        at_ms as f64 + self.later_ms(at_ms, abs_send_time).unwrap_or(0.0)
    }

    /// How much later than the log says a packet left the pacer; `None` if its abs-send-time does not say.
    fn later_ms(&self, at_ms: i64, abs_send_time: i64) -> Option<f64> {
        let ahead_ms = self.ahead_ms.filter(|_| abs_send_time != NO_VALUE)?;
        let there_ms = abs_send_time as f64 / ABS_SEND_TIME_PER_MS - ahead_ms;
        let range = ABS_SEND_TIME_RANGE_MS;
        let later_ms = (there_ms - at_ms as f64 + range / 2.0).rem_euclid(range) - range / 2.0;
        (later_ms.abs() <= PLAUSIBLE_MS).then_some(later_ms)
    }
}
