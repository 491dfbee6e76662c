use super::*;
use crate::network::NodeId;
use crate::packet::{Address, Datagram, Ecn, Past, Rtp, RtpPayload, Stun, StunForm, Via};
use crate::rtp::RtpHeader;

/// The only flow.
const FLOW: FlowId = FlowId(0);
/// When its connection ends.
const FLOW_END: Time = Time::from_millis(2_500);
/// 28 bytes of IPv4 and UDP, 12 of RTP, 80 of audio, 10 of SRTP.
const AUDIO_BYTES: i64 = 130;
/// What happens to a packet that arrives without a mark.
const WAITED: Fate =
    Fate { queued: Time::from_millis(12), waits: WaitsId::NONE, held: Time::ZERO, mark: None };

fn recorder(detail: Detail) -> Recorder {
    recorder_of_flow(detail, false)
}

fn recorder_of_flow(detail: Detail, forwarded: bool) -> Recorder {
    let flow = FlowConfig { name: "alice->bob".to_owned(), end: FLOW_END, forwarded };
    Recorder::new(detail, &[flow], &["alice.up".to_owned()])
}

fn transmit(first_sent: Time, content: Content) -> Transmit {
    let to = Address { node: NodeId(1), port: 1 };
    let datagram = Datagram::new(Ecn::NotCapable, content);
    Transmit { to, via: Via::Direct, past: Past::new(first_sent), datagram }
}

/// A packet of `kind` with the size of an audio packet.
fn rtp(at_ms: u64, kind: Kind) -> Transmit {
    let packet = Rtp {
        header: RtpHeader::default(),
        payload: RtpPayload::Audio { bytes: 80, has_fec: false },
        kind,
    };
    transmit(Time::from_millis(at_ms), Content::Rtp(packet))
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn table<'a>(tables: &'a [Table], name: &str) -> &'a Table {
    tables.iter().find(|table| table.name == name).expect("the table")
}

/// A text column of the table `packets`, with a dash for null.
fn packet_texts(texts: &[String], tables: &[Table], column: &str) -> Vec<String> {
    let columns = &table(tables, "packets").columns;
    match &columns.iter().find(|c| c.0 == column).expect("the column").1 {
        Column::Text(codes) => {
            let text = |code: &u32| texts.get(*code as usize).map_or("-", |text| text).to_owned();
            codes.iter().map(text).collect()
        }
        other => panic!("{column} is {other:?}"),
    }
}

fn ints(tables: &[Table], name: &str, column: &str) -> Vec<i64> {
    let columns = &table(tables, name).columns;
    match &columns.iter().find(|c| c.0 == column).expect("the column").1 {
        Column::Int(values) => values.clone(),
        other => panic!("{column} is {other:?}"),
    }
}

fn floats(tables: &[Table], name: &str, column: &str) -> Vec<f64> {
    let columns = &table(tables, name).columns;
    match &columns.iter().find(|c| c.0 == column).expect("the column").1 {
        Column::Float(values) => values.clone(),
        other => panic!("{column} is {other:?}"),
    }
}

/// The columns of each table are those in docs/trace.md. Exceptions: only live runs know `written_ns` of
/// packets and `memory_bytes` of hosts, and the intervals of flows go into the manifest.
#[test]
fn tables_have_the_columns_of_the_contract() {
    const WHOSE: [&str; 3] = ["at_ns", "participant", "flow"];
    let expected: [(&str, &[&str], &[&str]); 15] = [
        ("flows", &["flow", "begin_ns", "end_ns"], &[]),
        (
            "flow_seconds",
            &["at_ns", "flow"],
            &[
                "sent_packets",
                "sent_bytes",
                "delivered_packets",
                "delivered_bytes",
                "dropped_packets",
                "media_sent_packets",
                "media_dropped_packets",
                "fec_sent_packets",
                "fec_dropped_packets",
                "ect_packets",
                "ect_delivered_packets",
                "marked_packets",
                "aqm_dropped_packets",
                "one_way_delay_min_ms",
                "one_way_delay_mean_ms",
                "one_way_delay_max_ms",
            ],
        ),
        ("delay_histogram", &["flow", "one_way_delay_ms", "packets"], &[]),
        ("queuing_histogram", &["flow", "queuing_delay_ms", "packets"], &[]),
        (
            "packets",
            &["sent_ns", "flow", "size_bytes", "protocol", "ecn", "kind", "ssrc", "payload_type"],
            &[
                "seq",
                "rtp_timestamp",
                "marker",
                "packet",
                "delivered_ns",
                "queued_ns",
                "queued_path",
                "held_ns",
                "dropped_ns",
                "drop_cause",
                "drop_path",
                "mark_path",
                "mark_cause",
            ],
        ),
        ("hops", &["flow", "packet", "path", "queued_ns"], &[]),
        (
            "outbound_rtp",
            &WHOSE,
            &[
                "ssrc",
                "kind",
                "packetsSent",
                "bytesSent",
                "headerBytesSent",
                "retransmittedPacketsSent",
                "retransmittedBytesSent",
                "targetBitrate",
                "framesEncoded",
                "keyFramesEncoded",
                "framesSent",
                "hugeFramesSent",
                "qpSum",
                "totalEncodeTime",
                "qualityLimitationReason",
                "qualityLimitationResolutionChanges",
                "frameWidth",
                "frameHeight",
                "framesPerSecond",
                "nackCount",
                "pliCount",
                "packetsSentWithEct1",
            ],
        ),
        (
            "inbound_rtp",
            &WHOSE,
            &[
                "ssrc",
                "kind",
                "packetsReceived",
                "packetsLost",
                "bytesReceived",
                "headerBytesReceived",
                "jitter",
                "framesReceived",
                "framesDecoded",
                "framesDropped",
                "keyFramesDecoded",
                "framesAssembledFromMultiplePackets",
                "totalAssemblyTime",
                "totalDecodeTime",
                "totalProcessingDelay",
                "totalInterFrameDelay",
                "totalSquaredInterFrameDelay",
                "frameWidth",
                "frameHeight",
                "framesPerSecond",
                "freezeCount",
                "totalFreezesDuration",
                "pauseCount",
                "totalPausesDuration",
                "nackCount",
                "pliCount",
                "jitterBufferDelay",
                "jitterBufferEmittedCount",
                "retransmittedPacketsReceived",
                "retransmittedBytesReceived",
                "packetsRepaired",
                "fecPacketsReceived",
                "fecBytesReceived",
                "fecPacketsDiscarded",
                "jitterBufferTargetDelay",
                "jitterBufferMinimumDelay",
                "totalPlayoutDelay",
                "totalSamplesCount",
                "totalSoundDelay",
                "totalSamplesReceived",
                "concealedSamples",
                "silentConcealedSamples",
                "concealmentEvents",
                "insertedSamplesForDeceleration",
                "removedSamplesForAcceleration",
                "packetsReceivedWithEct1",
                "packetsReceivedWithCe",
            ],
        ),
        (
            "remote_inbound_rtp",
            &WHOSE,
            &[
                "ssrc",
                "kind",
                "roundTripTime",
                "fractionLost",
                "packetsLost",
                "jitter",
                "packetsReportedAsLost",
                "packetsReportedAsLostButRecovered",
                "packetsWithBleachedEct1Marking",
            ],
        ),
        (
            "candidate_pair",
            &WHOSE,
            &[
                "currentRoundTripTime",
                "availableOutgoingBitrate",
                "bytesSent",
                "bytesReceived",
                "packetsSent",
                "packetsReceived",
                "ccfbMessagesReceived",
            ],
        ),
        (
            "frames",
            &["flow", "ssrc", "rtp_timestamp", "captured_ns", "received_ns", "rendered_ns"],
            &["encode_begin_ns", "encoded_ns", "decode_ns", "width", "height", "size_bytes"],
        ),
        ("controller", &WHOSE, &["name", "value"]),
        ("events", &WHOSE, &["event", "detail"]),
        (
            "tcp",
            &["at_ns", "flow"],
            &[
                "connections",
                "cwnd_segments",
                "srtt_ms",
                "delivered_bytes",
                "retransmitted_segments",
                "timeouts",
                "objects",
            ],
        ),
        ("host", &["at_ns", "participant", "cpu_percent"], &[]),
    ];
    let (_, tables) = recorder(Detail::Packets).finish(Time::from_secs(1));
    let found: Vec<(&str, Vec<&str>)> = tables
        .iter()
        .map(|table| (table.name, table.columns.iter().map(|column| column.0).collect()))
        .collect();
    let expected: Vec<(&str, Vec<&str>)> =
        expected.iter().map(|(name, a, b)| (*name, [*a, *b].concat())).collect();
    assert_eq!(found, expected);
    // Without packets, all other tables are the same.
    let (_, tables) = recorder(Detail::Seconds).finish(Time::from_secs(1));
    let names: Vec<&str> = tables.iter().map(|table| table.name).collect();
    let of_seconds = |name: &&str| !["packets", "hops"].contains(name);
    let others: Vec<&str> = expected.iter().map(|(name, _)| *name).filter(of_seconds).collect();
    assert_eq!(names, others);
}

/// A media packet that was sent 30 ms before, and a retransmission that the forwarder sent 10 ms before.
#[test]
fn delays_of_a_forwarded_flow_are_of_media_only() {
    for (forwarded, delays, mean) in [(true, vec![30.0], 30.0), (false, vec![10.0, 30.0], 20.0)] {
        let mut recorder = recorder_of_flow(Detail::Seconds, forwarded);
        for (at, kind) in [(10, Kind::Video), (30, Kind::Rtx)] {
            let record = recorder.sent(FLOW, &rtp(at, kind)).expect("a packet of a flow");
            recorder.delivered(
                ms(40),
                record,
                Bytes(AUDIO_BYTES as u64),
                WAITED,
                &Waits::default(),
            );
        }
        let (_, tables) = recorder.finish(Time::from_secs(1));
        assert_eq!(ints(&tables, "flow_seconds", "delivered_packets"), [2]);
        assert_eq!(floats(&tables, "flow_seconds", "one_way_delay_mean_ms"), [mean]);
        assert_eq!(floats(&tables, "flow_seconds", "one_way_delay_min_ms"), [delays[0]]);
        assert_eq!(floats(&tables, "delay_histogram", "one_way_delay_ms"), delays);
        let waited = ints(&tables, "queuing_histogram", "packets");
        assert_eq!(waited.iter().sum::<i64>(), delays.len() as i64);
    }
}

/// Of three packets, one arrives 30 ms later, one is dropped and one is still in flight.
#[test]
fn a_sent_packet_is_delivered_dropped_or_in_flight() {
    for detail in [Detail::Packets, Detail::Seconds] {
        let mut recorder = recorder(detail);
        let records = [10, 20, 990].map(|at| recorder.sent(FLOW, &rtp(at, Kind::Audio)));
        let [first, second, _] = records.map(|record| record.expect("a packet of a flow"));
        recorder.delivered(ms(40), first, Bytes(AUDIO_BYTES as u64), WAITED, &Waits::default());
        recorder.dropped(ms(50), second, PathId(0), DropCause::Queue);
        let (texts, tables) = recorder.finish(Time::from_secs(1));
        let of = |column| ints(&tables, "flow_seconds", column);
        assert_eq!((of("sent_packets"), of("sent_bytes")), (vec![3], vec![3 * AUDIO_BYTES]));
        assert_eq!(of("delivered_packets"), [1]);
        assert_eq!(of("delivered_bytes"), [AUDIO_BYTES]);
        assert_eq!(of("dropped_packets"), [1]);
        assert_eq!(floats(&tables, "flow_seconds", "one_way_delay_mean_ms"), [30.0]);
        assert_eq!(ints(&tables, "delay_histogram", "packets"), [1]);
        assert_eq!(floats(&tables, "delay_histogram", "one_way_delay_ms"), [30.0]);
        assert_eq!(floats(&tables, "queuing_histogram", "queuing_delay_ms"), [12.0]);
        assert_eq!(ints(&tables, "queuing_histogram", "packets"), [1]);
        if detail == Detail::Seconds {
            continue;
        }
        let of = |column| ints(&tables, "packets", column);
        assert_eq!(of("sent_ns"), [10_000_000, 20_000_000, 990_000_000]);
        assert_eq!(of("delivered_ns"), [40_000_000, NO_INT, NO_INT]);
        assert_eq!(of("queued_ns"), [12_000_000, NO_INT, NO_INT]);
        assert_eq!(of("dropped_ns"), [NO_INT, 50_000_000, NO_INT]);
        let texts_of = |column| packet_texts(&texts, &tables, column);
        assert_eq!(texts_of("drop_cause"), ["-", "queue", "-"]);
        assert_eq!(texts_of("drop_path"), ["-", "alice.up", "-"]);
        assert_eq!(texts_of("kind"), ["audio"; 3]);
        assert_eq!(texts_of("protocol"), ["rtp"; 3]);
    }
}

/// Of six packets, one of each codepoint and two more with ECT(1), one is marked on the way, one is dropped by the
/// queue's discipline and one because the queue is full. The last one is still in flight.
#[test]
fn marks_and_drops_of_a_discipline_are_counted_with_the_ecn_capable_packets() {
    use Ecn::{CongestionExperienced, Ect0, Ect1, NotCapable};
    let size = Bytes(AUDIO_BYTES as u64);
    let mark = Some(Mark { path: 0, cause: MarkCause::Coupled });
    for detail in [Detail::Packets, Detail::Seconds] {
        let mut recorder = recorder(detail);
        let records = [NotCapable, Ect0, Ect1, CongestionExperienced, Ect1, Ect1].map(|ecn| {
            let mut transmit = rtp(10, Kind::Audio);
            transmit.datagram.ecn = ecn;
            recorder.sent(FLOW, &transmit).expect("a packet of a flow")
        });
        recorder.delivered(ms(1_020), records[0], size, WAITED, &Waits::default());
        recorder.dropped(ms(1_020), records[1], PathId(0), DropCause::Aqm);
        recorder.delivered(ms(1_030), records[2], size, Fate { mark, ..WAITED }, &Waits::default());
        recorder.delivered(ms(1_040), records[3], size, WAITED, &Waits::default());
        recorder.dropped(ms(2_050), records[4], PathId(0), DropCause::Queue);
        let (texts, tables) = recorder.finish(Time::from_secs(3));
        let of = |column| ints(&tables, "flow_seconds", column);
        // Sent in the first second; delivered and dropped when that happened.
        assert_eq!(of("ect_packets"), [5, 0, 0]);
        assert_eq!(of("delivered_packets"), [0, 3, 0]);
        assert_eq!(of("ect_delivered_packets"), [0, 2, 0]);
        assert_eq!(of("marked_packets"), [0, 1, 0]);
        assert_eq!(of("dropped_packets"), [0, 1, 1]);
        assert_eq!(of("aqm_dropped_packets"), [0, 1, 0]);
        if detail == Detail::Packets {
            let texts_of = |column| packet_texts(&texts, &tables, column);
            assert_eq!(texts_of("ecn"), ["not-ect", "ect0", "ect1", "ce", "ect1", "ect1"]);
            assert_eq!(texts_of("mark_path"), ["-", "-", "alice.up", "-", "-", "-"]);
            assert_eq!(texts_of("mark_cause"), ["-", "-", "coupled", "-", "-", "-"]);
            assert_eq!(texts_of("drop_cause"), ["-", "aqm", "-", "-", "queue", "-"]);
        }
    }
}

/// A delivery counts in the second of its arrival. It does not count once the connection has ended.
#[test]
fn packets_that_arrive_after_the_end_of_the_connection_are_not_delivered() {
    let mut recorder = recorder(Detail::Seconds);
    for (sent, arrives) in [(990, ms(1_010)), (2_400, FLOW_END - Time(1)), (2_400, FLOW_END)] {
        let record = recorder.sent(FLOW, &rtp(sent, Kind::Audio)).expect("a packet of a flow");
        recorder.delivered(arrives, record, Bytes(AUDIO_BYTES as u64), WAITED, &Waits::default());
    }
    let (_, tables) = recorder.finish(Time::from_secs(4));
    assert_eq!(ints(&tables, "flow_seconds", "sent_packets"), [1, 0, 2, 0]);
    assert_eq!(ints(&tables, "flow_seconds", "delivered_packets"), [0, 1, 1, 0]);
    assert_eq!(ints(&tables, "delay_histogram", "packets").iter().sum::<i64>(), 2);
}

/// Bins of 0.1 ms: 60 s is bin 600,000, which as the end of an array would take 2.4 MB.
#[test]
fn one_very_late_packet_costs_a_flow_one_bin_and_keeps_its_delay() {
    let mut histogram = flow::Histogram::default();
    for ms in [0, 999, 999, 60_000, 3_600_000, 1_000] {
        histogram.add(Time::from_millis(ms));
    }
    let bins: Vec<_> = histogram.bins().collect();
    let expected = [(0.0, 1), (999.0, 2), (1_000.0, 1), (60_000.0, 1), (3_600_000.0, 1)];
    assert_eq!(bins, expected);
    assert!(histogram.len() <= 9_991 + 3, "{} bins", histogram.len());
}

#[test]
fn a_flow_begins_with_its_first_packet_and_ends_with_its_connection_or_the_run() {
    for (run_ms, end_ns) in [(2_000, 2_000_000_000), (4_000, 2_500_000_000)] {
        let mut recorder = recorder(Detail::Seconds);
        recorder.sent(FLOW, &rtp(120, Kind::Audio));
        recorder.sent(FLOW, &rtp(140, Kind::Audio));
        let (_, tables) = recorder.finish(ms(run_ms));
        assert_eq!(ints(&tables, "flows", "begin_ns"), [120_000_000]);
        assert_eq!(ints(&tables, "flows", "end_ns"), [end_ns]);
    }
}

#[test]
fn a_flow_without_packets_never_begins_but_has_all_its_seconds() {
    let (_, tables) = recorder(Detail::Seconds).finish(ms(2_100));
    assert_eq!(ints(&tables, "flows", "begin_ns"), [NO_INT]);
    let seconds = [0, 1, 2].map(|second| second * 1_000_000_000);
    assert_eq!(ints(&tables, "flow_seconds", "at_ns"), seconds);
    assert_eq!(ints(&tables, "flow_seconds", "sent_packets"), [0; 3]);
    assert!(floats(&tables, "flow_seconds", "one_way_delay_mean_ms").iter().all(|ms| ms.is_nan()));
}

#[test]
fn only_first_transmissions_count_as_media_or_fec() {
    let mut recorder = recorder(Detail::Seconds);
    for kind in Kind::ALL {
        let record = recorder.sent(FLOW, &rtp(10, kind)).expect("a packet of a flow");
        recorder.dropped(ms(20), record, PathId(0), DropCause::Loss);
    }
    let (_, tables) = recorder.finish(Time::from_secs(1));
    let of = |column| ints(&tables, "flow_seconds", column)[0];
    // Media are video and audio. Retransmissions and padding count as neither.
    assert_eq!([of("media_sent_packets"), of("media_dropped_packets")], [2, 2]);
    assert_eq!([of("fec_sent_packets"), of("fec_dropped_packets")], [1, 1]);
    assert_eq!([of("sent_packets"), of("dropped_packets")], [5, 5]);
}

#[test]
fn the_size_includes_the_framing_of_a_relay() {
    let mut recorder = recorder(Detail::Packets);
    let mut relayed = rtp(10, Kind::Audio);
    relayed.via = Via::Relay(NodeId(2));
    recorder.sent(FLOW, &relayed);
    let (_, tables) = recorder.finish(Time::from_secs(1));
    assert_eq!(ints(&tables, "packets", "size_bytes"), [AUDIO_BYTES + 4]);
    assert_eq!(ints(&tables, "flow_seconds", "sent_bytes"), [AUDIO_BYTES + 4]);
}

/// Signalling and requests to a relay belong to no flow.
#[test]
fn packets_of_no_flow_have_no_row() {
    let mut recorder = recorder(Detail::Packets);
    let segment = crate::packet::Signalling { index: 0, count: 1, bytes: 100 };
    let request = crate::packet::Allocation { step: 0 };
    for content in [Content::Signalling(segment), Content::Allocation(request)] {
        assert!(recorder.sent(FLOW, &transmit(ms(1), content)).is_none());
    }
    let stun = Content::Stun(Stun { success: false, check: 1, form: StunForm::Bare });
    assert!(recorder.sent(FLOW, &transmit(ms(2), stun)).is_some());
    let (_, tables) = recorder.finish(Time::from_secs(1));
    assert_eq!(ints(&tables, "packets", "sent_ns"), [2_000_000]);
    assert_eq!(ints(&tables, "flows", "begin_ns"), [2_000_000]);
}

/// Only participants join and leave. Events of a connection are recorded for servers too.
#[test]
fn servers_do_not_join_or_leave() {
    for (is_participant, expected) in [(true, 3), (false, 1)] {
        let mut recorder = recorder(Detail::Seconds);
        let participant = recorder.text("bob");
        let source = RecordSource {
            participant,
            is_participant,
            sends: FLOW,
            receives: FLOW,
            timestamp_offset: 0,
        };
        for event in [
            EndpointEvent::Joined,
            EndpointEvent::DtlsConnected,
            EndpointEvent::Left,
            EndpointEvent::KeyFrameRequested,
        ] {
            recorder.event(ms(5), &source, event);
        }
        let (_, tables) = recorder.finish(Time::from_secs(1));
        assert_eq!(ints(&tables, "events", "at_ns"), vec![5_000_000; expected]);
    }
}
