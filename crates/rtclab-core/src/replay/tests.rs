//! Replays of logs made by hand.

use super::inputs::{Inputs, What};
use super::*;
use crate::catalogue::Catalogue;
use crate::cc::CongestionControlConfig;
use crate::event_log::{Faults, NO_VALUE};
use crate::packet::{Ecn, Kind};
use crate::rtp::AbsSendTime;
use crate::units::{Bitrate, Bytes};

const BOUNDS: RateBounds = RateBounds {
    start: Bitrate::from_kbps(300),
    min: Bitrate::from_kbps(30),
    max: Bitrate::from_kbps(1_700),
    audio: Bitrate::ZERO,
    has_video: true,
};
/// The log's clock when the transport became writable.
const WRITABLE_MS: i64 = 5_000;
const VIDEO: i64 = 7;

fn table(name: &'static str, columns: &[(&'static str, &[i64])]) -> Table {
    let columns = columns.iter().map(|(name, values)| (*name, Column::Int(values.to_vec())));
    Table { name, columns: columns.collect() }
}

/// A log of 990 B packets every 20 ms, with feedback after every third one that arrives 50 ms later.
struct Log {
    tables: Vec<Table>,
}

impl Log {
    fn of(packets: i64) -> Log {
        let seqs: Vec<i64> = (0..packets).collect();
        let at: Vec<i64> = seqs.iter().map(|seq| WRITABLE_MS + 100 + 20 * seq).collect();
        let all = |value: i64| vec![value; at.len()];
        let covered = packets / 3 * 3;
        let feedback: Vec<i64> = (0..covered).collect();
        let of =
            |value: &dyn Fn(i64) -> i64| feedback.iter().map(|seq| value(*seq)).collect::<Vec<_>>();
        let tables = vec![
            table("dtls_writable", &[("at_ms", &[WRITABLE_MS]), ("writable", &[1])]),
            table(
                "outgoing_rtp",
                &[
                    ("at_ms", &at),
                    ("ssrc", &all(VIDEO)),
                    ("payload_bytes", &all(950)),
                    ("header_bytes", &all(12)),
                    ("padding_bytes", &all(0)),
                    ("seq", &seqs),
                    ("rtp_timestamp", &seqs.iter().map(|seq| 1_800 * seq).collect::<Vec<_>>()),
                    ("transport_seq", &seqs),
                    ("abs_send_time", &all(NO_VALUE)),
                ],
            ),
            table(
                "transport_feedback",
                &[
                    ("at_ms", &of(&|seq| WRITABLE_MS + 100 + 20 * (seq / 3 * 3 + 2) + 100)),
                    ("sent", &of(&|_| 0)),
                    ("ssrc", &of(&|_| 1)),
                    ("feedback_count", &of(&|seq| seq / 3)),
                    ("transport_seq", &feedback),
                    ("arrival_ticks", &of(&|seq| 4 * (20 * seq + 50) + 3)),
                ],
            ),
        ];
        Log { tables }
    }

    /// The same with RFC 8888 feedback in place of transport-wide numbers and feedback. A report is made when its third packet
    /// arrives; the others have been held for 40 and 20 ms.
    fn by_stream(self) -> Log {
        let log = self.read();
        let source = |name, column: &str| -> Vec<i64> {
            let table = log.tables.iter().find(|known| known.name == name).expect("the table");
            let (_, values) = table.columns.iter().find(|(name, _)| *name == column).expect("it");
            match values {
                Column::Int(values) => values.clone(),
                _ => panic!("{column} is no integer column"),
            }
        };
        let seqs = source("transport_feedback", "transport_seq");
        let of = |value: &dyn Fn(i64) -> i64| seqs.iter().map(|s| value(*s)).collect::<Vec<_>>();
        let numbers = source("outgoing_rtp", "transport_seq");
        let none = vec![NO_VALUE; numbers.len()];
        let mut tables = log.tables;
        tables.retain(|table| table.name != "transport_feedback");
        for (name, column) in tables.iter_mut().flat_map(|table| &mut table.columns) {
            if *name == "transport_seq" {
                *column = Column::Int(none.clone());
            }
        }
        tables.push(table(
            "congestion_feedback",
            &[
                ("at_ms", &of(&|seq| WRITABLE_MS + 100 + 20 * (seq / 3 * 3 + 2) + 100)),
                ("sent", &of(&|_| 0)),
                ("ssrc", &of(&|_| 1)),
                ("report_timestamp", &of(&|seq| (20 * (seq / 3 * 3 + 2)) * 65_536 / 1_000)),
                ("media_ssrc", &of(&|_| VIDEO)),
                ("seq", &seqs),
                ("arrival_offset_ns", &of(&|seq| (2 - seq % 3) * 20_000_000)),
                ("ecn", &of(&|_| 1)),
            ],
        ));
        Log { tables }
    }

    fn with(mut self, more: Table) -> Log {
        self.tables.retain(|known| known.name != more.name);
        self.tables.push(more);
        self
    }

    fn read(self) -> EventLog {
        EventLog { tables: self.tables, texts: Vec::new(), faults: Faults::default() }
    }
}

fn control(name: &str) -> Choice<'static> {
    let config = CongestionControlConfig { name: name.to_owned(), options: Default::default() };
    Catalogue::ours().choose(Box::leak(Box::new(config))).expect("a control of ours")
}

fn sent(inputs: &Inputs) -> Vec<(Time, inputs::ReplayedPacket)> {
    let packet = |event: &inputs::ReplayInput| match event.what {
        What::Sent(packet) => Some((event.at, packet)),
        _ => None,
    };
    inputs.events.iter().filter_map(packet).collect()
}

fn ints<'a>(replayed: &'a Replayed, table: &str, column: &str) -> &'a [i64] {
    let table = replayed.tables.iter().find(|known| known.name == table).expect("the table");
    let (_, values) = table.columns.iter().find(|(name, _)| *name == column).expect("the column");
    match values {
        Column::Int(values) => values,
        _ => panic!("{column} is not an integer column"),
    }
}

#[test]
fn times_count_from_the_writable_transport_and_sizes_include_what_is_around_rtp() {
    let inputs = Inputs::read(&Log::of(3).read(), &[]).expect("a log");
    assert_eq!(inputs.begin_ms, WRITABLE_MS);
    let packets = sent(&inputs);
    let at: Vec<u64> = packets.iter().map(|(at, _)| at.as_millis()).collect();
    assert_eq!(at, [100, 120, 140]);
    assert!(packets.iter().all(|(_, packet)| packet.size == Bytes(950 + 12 + 20 + 8)));
}

#[test]
fn send_times_come_from_abs_send_time_rounded_down_after_the_way_to_the_socket() {
    // The clock of abs-send-time counts from 1900, modulo 64 s. The wall clock was at 1,795,301,797,053 ms
    // at the log's 5,000 ms; a packet leaves 1.9 ms after its time in the log, which is 102 ms and 0.2 later.
    let utc_ms = 1_795_301_797_053_i64;
    let left_ms = 100.0 + 1.9;
    let ntp_ms = (utc_ms + 2_208_988_800_000) as f64 + left_ms;
    let bits = (ntp_ms.rem_euclid(64_000.0) * 262.144).round() as i64;
    let log = Log::of(3)
        .with(table("begin", &[("at_ms", &[WRITABLE_MS]), ("utc_ms", &[utc_ms])]))
        .with(table(
            "outgoing_rtp",
            &[
                ("at_ms", &[WRITABLE_MS + 100]),
                ("ssrc", &[VIDEO]),
                ("payload_bytes", &[0]),
                ("header_bytes", &[20]),
                ("padding_bytes", &[255]),
                ("seq", &[1]),
                ("rtp_timestamp", &[0]),
                ("transport_seq", &[65_535]),
                ("abs_send_time", &[bits]),
            ],
        ));
    let packets = sent(&Inputs::read(&log.read(), &[]).expect("a log"));
    assert_eq!(packets[0].0, Time::from_millis(102));
    assert_eq!((packets[0].1.kind, packets[0].1.size), (Kind::Padding, Bytes(20 + 255 + 28)));
}

#[test]
fn a_probe_begins_with_padding_counts_bursts_and_has_the_packets_that_chromium_counted() {
    // The beginning of a log of Chromium 156: size with headers, time, and whether it is audio. The results of
    // its three probes are sums of exactly these packets: 4 to 10, 11 to 17 and 26 to 34.
    let sent: [(i64, i64, bool); 18] = [
        (311, 67, false),
        (1108, 71, false),
        (136, 79, true),
        (1109, 79, false),
        (1109, 90, false),
        (136, 101, true),
        (1109, 101, false),
        (311, 111, false),
        (1109, 111, false),
        (136, 117, true),
        (1109, 117, false),
        (1109, 123, false),
        (1109, 128, false),
        (691, 133, false),
        (136, 139, true),
        (311, 194, false),
        (801, 194, false),
        (802, 199, false),
    ];
    let of = |value: &dyn Fn(&(i64, i64, bool)) -> i64| sent.iter().map(value).collect::<Vec<_>>();
    let is_padding = |bytes: i64| bytes == 311;
    let log = Log::of(3)
        .with(table(
            "probe_created",
            &[
                ("at_ms", &[WRITABLE_MS, WRITABLE_MS, WRITABLE_MS + 171]),
                ("probe", &[1, 2, 3]),
                ("rate_bps", &[900_000, 1_800_000, 3_499_200]),
                ("min_packets", &[5, 5, 5]),
                ("min_bytes", &[1_688, 3_375, 6_561]),
            ],
        ))
        .with(table("audio_send_config", &[("ssrc", &[9])]))
        .with(table(
            "outgoing_rtp",
            &[
                ("at_ms", &of(&|(_, at, _)| WRITABLE_MS + at)),
                ("ssrc", &of(&|(_, _, audio)| if *audio { 9 } else { VIDEO })),
                ("payload_bytes", &of(&|(size, ..)| if is_padding(*size) { 0 } else { size - 56 })),
                ("header_bytes", &of(&|_| 28)),
                ("padding_bytes", &of(&|(size, ..)| if is_padding(*size) { 255 } else { 0 })),
                ("seq", &(4..22).collect::<Vec<_>>()),
                ("rtp_timestamp", &of(&|_| 0)),
                ("transport_seq", &(4..22).collect::<Vec<_>>()),
                ("abs_send_time", &of(&|_| NO_VALUE)),
            ],
        ));
    let packets = sent_packets_of(log);
    let wanted = [[Some(1); 7], [Some(2); 7]].concat();
    assert_eq!(packets[..14], wanted);
    assert_eq!(packets[14..], [None, Some(3), Some(3), Some(3)]);
}

#[test]
fn a_probe_ends_when_a_burst_is_more_than_10_ms_late_for_its_rate() {
    // 990 B at 900 kbit/s take 8.8 ms, so that a packet every 20 ms is at first 11.2 ms late.
    let log = Log::of(6).with(table(
        "probe_created",
        &[
            ("at_ms", &[WRITABLE_MS]),
            ("probe", &[1]),
            ("rate_bps", &[900_000]),
            ("min_packets", &[5]),
            ("min_bytes", &[1_688]),
        ],
    ));
    assert_eq!(sent_packets_of(log), [Some(1), None, None, None, None, None]);
}

/// The number of each packet's probe.
fn sent_packets_of(log: Log) -> Vec<Option<u32>> {
    let inputs = Inputs::read(&log.read(), &[]).expect("a log");
    sent(&inputs).iter().map(|(_, packet)| packet.cluster.map(|cluster| cluster.id)).collect()
}

#[test]
fn arrivals_are_whole_milliseconds_after_the_first() {
    let log = Log::of(3).with(table(
        "transport_feedback",
        &[
            ("at_ms", &[WRITABLE_MS + 200; 4]),
            ("sent", &[0; 4]),
            ("ssrc", &[1; 4]),
            ("feedback_count", &[0; 4]),
            ("transport_seq", &[0, 1, 2, 3]),
            // 2 ms before the clock of 2^32 ticks wraps, and after.
            ("arrival_ticks", &[(1 << 32) - 8, (1 << 32) - 1, 3, NO_VALUE]),
        ],
    ));
    let inputs = Inputs::read(&log.read(), &[]).expect("a log");
    let arrivals = inputs.events.iter().find_map(|event| match &event.what {
        What::Transport(all) => Some(all.iter().map(|one| one.arrival_ms).collect::<Vec<_>>()),
        _ => None,
    });
    assert_eq!(arrivals, Some(vec![Some(0), Some(1), Some(2), None]));
}

#[test]
fn the_loss_of_reports_is_what_they_add_and_the_round_trip_leaves_out_what_the_far_end_held() {
    let log = Log::of(3)
        .with(table(
            "sender_reports",
            &[("at_ms", &[WRITABLE_MS]), ("sent", &[1]), ("ntp", &[0x1234_5678_9ABC_DEF0])],
        ))
        .with(table(
            "report_blocks",
            &[
                ("at_ms", &[WRITABLE_MS + 100, WRITABLE_MS + 600]),
                ("sent", &[0, 0]),
                ("media_ssrc", &[VIDEO, VIDEO]),
                ("fraction_lost", &[0, 26]),
                ("packets_lost", &[5, 15]),
                ("highest_seq", &[1_000, 1_100]),
                ("last_sender_report", &[0, 0x5678_9ABC]),
                // 500 ms of 65,536 to the second.
                ("delay_since_last_sender_report", &[0, 32_768]),
            ],
        ));
    let inputs = Inputs::read(&log.read(), &[]).expect("a log");
    let reports: Vec<_> = (inputs.events.iter())
        .filter_map(|event| match &event.what {
            What::Reports(one) => Some((one.loss.lost, one.loss.expected, one.fraction, one.rtt)),
            _ => None,
        })
        .collect();
    assert_eq!(reports, [(0, 0, 0, None), (10, 100, 26, Some(Time::from_millis(100)))]);
}

/// The second report was sent before the first one.
#[test]
fn a_report_that_was_overtaken_adds_nothing() {
    let report_blocks = table(
        "report_blocks",
        &[
            ("at_ms", &[WRITABLE_MS + 100, WRITABLE_MS + 200, WRITABLE_MS + 300]),
            ("sent", &[0, 0, 0]),
            ("media_ssrc", &[VIDEO, VIDEO, VIDEO]),
            ("fraction_lost", &[0, 0, 0]),
            ("packets_lost", &[10, 5, 12]),
            ("highest_seq", &[1_000, 990, 1_100]),
            ("last_sender_report", &[0, 0, 0]),
            ("delay_since_last_sender_report", &[0, 0, 0]),
        ],
    );
    let inputs = Inputs::read(&Log::of(3).with(report_blocks).read(), &[]).expect("a log");
    let reports: Vec<_> = (inputs.events.iter())
        .filter_map(|event| match &event.what {
            What::Reports(one) => Some((one.loss.lost, one.loss.expected)),
            _ => None,
        })
        .collect();
    assert_eq!(reports, [(0, 0), (0, 0), (2, 100)]);
}

#[test]
fn the_target_begins_at_the_start_rate_and_follows_the_feedback() {
    let replayed =
        replay_log(&Log::of(500).read(), &[], &control("goog-cc"), BOUNDS).expect("a replay");
    assert_eq!(replayed.begin_ms, WRITABLE_MS);
    let (at, targets) =
        (ints(&replayed, "target", "at_ns"), ints(&replayed, "target", "target_bps"));
    assert_eq!((at[0], targets[0]), (0, 300_000));
    assert!(at.is_sorted() && at.len() > 10);
    // 400 kbit/s arrive without queuing: the target is above the start, and at most half above the rate.
    let last = targets[targets.len() - 1];
    assert!((400_000..=600_000 + 10_000).contains(&last), "{last}");
    assert_eq!(ints(&replayed, "probes", "rate_bps")[..2], [900_000, 1_800_000]);
    assert_eq!(
        replayed,
        replay_log(&Log::of(500).read(), &[], &control("goog-cc"), BOUNDS).expect("again")
    );
}

/// A log whose packets leave every 20 ms and arrive `apart_ms` after one another, as their feedback says.
fn arriving_apart(packets: i64, apart_ms: i64) -> Log {
    let log = Log::of(packets);
    let (seqs, covered): (Vec<i64>, Vec<i64>) =
        ((0..packets).collect(), (0..packets / 3 * 3).collect());
    let of = |seqs: &[i64], value: &dyn Fn(i64) -> i64| {
        seqs.iter().map(|s| value(*s)).collect::<Vec<_>>()
    };
    let all = |value: i64| vec![value; seqs.len()];
    let send_time =
        |seq: i64| i64::from(AbsSendTime::from_time(Time::from_millis(20 * seq as u64)).bits());
    log.with(table(
        "outgoing_rtp",
        &[
            ("at_ms", &of(&seqs, &|seq| WRITABLE_MS + 100 + 20 * seq)),
            ("ssrc", &all(VIDEO)),
            ("payload_bytes", &all(950)),
            ("header_bytes", &all(12)),
            ("padding_bytes", &all(0)),
            ("seq", &seqs),
            ("rtp_timestamp", &of(&seqs, &|seq| 1_800 * seq)),
            ("transport_seq", &seqs),
            ("abs_send_time", &of(&seqs, &send_time)),
        ],
    ))
    .with(table(
        "transport_feedback",
        &[
            ("at_ms", &of(&covered, &|seq| WRITABLE_MS + 200 + apart_ms * (seq / 3 * 3 + 2))),
            ("sent", &of(&covered, &|_| 0)),
            ("ssrc", &of(&covered, &|_| 1)),
            ("feedback_count", &of(&covered, &|seq| seq / 3)),
            ("transport_seq", &covered),
            ("arrival_ticks", &of(&covered, &|seq| 4 * (apart_ms * seq + 50))),
        ],
    ))
}

#[test]
fn a_receiving_half_gets_the_arrivals_of_the_feedback_and_its_rembs_bound_the_target() {
    // 950 B of payload every 20 ms are 380 kbit/s; every 22 ms 345 kbit/s arrive, and the queue grows.
    for name in ["rrtcc-2013", "gcc-2016", "remb"] {
        let run = |apart_ms| {
            let log = arriving_apart(1_000, apart_ms).read();
            replay_log(&log, &[], &control(name), BOUNDS).expect("a replay")
        };
        let (free, full) = (run(20), run(22));
        let last =
            |replayed: &Replayed, table, column| *ints(replayed, table, column).last().unwrap();
        assert!(last(&free, "remb", "rate_bps") > 400_000, "{name}");
        assert!(last(&full, "remb", "rate_bps") < 345_000, "{name}");
        assert!(last(&full, "target", "target_bps") <= 345_000, "{name}");
    }
}

#[test]
fn a_log_without_absolute_send_times_cannot_feed_a_control_that_needs_them() {
    let failure = |name| {
        let replayed = replay_log(&Log::of(500).read(), &[], &control(name), BOUNDS);
        replayed.err().map(|error| error.to_string())
    };
    assert!(failure("remb").expect("an error").contains("needs the extension abs-send-time"));
    // It groups packets by their RTP timestamps instead.
    assert_eq!(failure("rrtcc-2013"), None);
}

#[test]
fn a_change_of_route_begins_anew_at_the_start_rate() {
    let changed_ms = WRITABLE_MS + 5_000;
    let log = Log::of(500).with(table(
        "route_change",
        &[("at_ms", &[changed_ms]), ("connected", &[1]), ("overhead_bytes", &[58])],
    ));
    let replayed = replay_log(&log.read(), &[], &control("goog-cc"), BOUNDS).expect("a replay");
    let at = ints(&replayed, "target", "at_ns");
    let changed = at.iter().position(|at| *at == 5_000_000_000).expect("a target at the change");
    assert_eq!(ints(&replayed, "target", "target_bps")[changed], 300_000);
}

#[test]
fn a_log_without_packets_or_feedback_or_of_days_cannot_be_replayed() {
    let failure = |log: Log| {
        let error =
            replay_log(&log.read(), &[], &control("goog-cc"), BOUNDS).expect_err("an error");
        error.to_string()
    };
    assert!(failure(Log { tables: Vec::new() }).contains("no sent packet"));
    assert!(failure(Log::of(2)).contains("no feedback on packets: neither transport-wide"));
    let mut without = Log::of(3).by_stream();
    without.tables.retain(|table| table.name != "outgoing_rtp");
    assert_eq!(failure(without), "the log has no sent packet");
    let late = table(
        "route_change",
        &[("at_ms", &[90_000_000]), ("connected", &[1]), ("overhead_bytes", &[58])],
    );
    assert!(failure(Log::of(3).with(late)).contains("more than a day"));
}

#[test]
fn an_estimator_gets_arrivals_and_sends_rembs_near_the_rate_that_arrives() {
    // 1000 B every 20 ms are 400 kbit/s. With a constant delay the estimate rises to 1.5 times that.
    let packet = |index: u64| cc::ReceivedPacket {
        at: Time::from_millis(100 + 20 * index),
        ssrc: 7,
        seq: index as u16,
        audio: false,
        size: Bytes(1_000),
        payload: Bytes(950),
        rtp_timestamp: (1_800 * index) as u32,
        abs_send_time: Some(AbsSendTime::from_time(Time::from_millis(50 + 20 * index))),
        transport_seq: None,
        ecn: Ecn::NotCapable,
    };
    let packets: Vec<_> = (0..1_000).map(packet).collect();
    let replayed = replay_arrivals(&packets, None, &control("gcc-2016"), BOUNDS).expect("a replay");
    let rates = ints(&replayed, "remb", "rate_bps");
    let last = rates[rates.len() - 1];
    assert!((400_000..=620_000).contains(&last), "{last}");
    let error = replay_arrivals(&packets, None, &control("goog-cc"), BOUNDS).expect_err("an error");
    assert!(error.to_string().contains("`goog-cc` estimates at the sender"));
}

/// The same arrivals by either feedback, to a millisecond: the control decides nearly the same.
#[test]
fn a_log_with_rfc_8888_feedback_is_replayed_like_one_with_transport_wide_feedback() {
    let targets = |log: Log| {
        let replayed = replay_log(&log.read(), &[], &control("goog-cc"), BOUNDS).expect("a replay");
        ints(&replayed, "target", "target_bps").to_vec()
    };
    let (numbered, by_stream) = (targets(Log::of(500)), targets(Log::of(500).by_stream()));
    assert!(numbered.len() > 10 && by_stream.len() > 10);
    let last = |targets: &[i64]| targets[targets.len() - 1] as f64;
    let ratio = last(&by_stream) / last(&numbered);
    assert!((0.98..1.02).contains(&ratio), "{ratio}");
}

/// The first report arrives 240 ms after the control began. Its packets were held for 40, 20 and 0 ms; the second report
/// was made 60 ms, 3932 ticks, after it.
#[test]
fn arrivals_in_rfc_8888_feedback_count_from_the_first_report() {
    let inputs = Inputs::read(&Log::of(6).by_stream().read(), &[]).expect("a log");
    let mut history = TransportHistory::new(inputs.feedback);
    let mut received = Vec::new();
    for event in &inputs.events {
        match &event.what {
            What::Sent(packet) => {
                history.sent(packet.departure(event.at, None));
            }
            What::Congestion(report) => {
                let entries = report.entries.iter().copied();
                history.acknowledge_by_number(event.at, report.timestamp, entries);
                let of = |r: PacketReport| {
                    let at = r.received.expect("all arrived").0.as_micros();
                    (r.sent.transport_seq, at, r.held.map(Time::as_millis), r.ecn)
                };
                received.extend(history.reports().map(of));
            }
            _ => {}
        }
    }
    let ecn = Some(Ecn::Ect1);
    let expected = [
        (0, 200_000, Some(40), ecn),
        (1, 220_000, Some(20), ecn),
        (2, 240_000, Some(0), ecn),
        (3, 259_990, Some(40), ecn),
        (4, 279_990, Some(20), ecn),
        (5, 299_990, Some(0), ecn),
    ];
    let micros = |at: u64| at / 10 * 10;
    let received: Vec<_> =
        received.into_iter().map(|(seq, at, held, ecn)| (seq, micros(at), held, ecn)).collect();
    assert_eq!(received, expected);
    assert_eq!(history.in_flight(), Bytes(0));
}
