//! Logs written here and read back.

use super::*;
use crate::rtp::rtcp::{RtcpPacket, TransportFeedback};
use crate::table::NO_TEXT;
use crate::units::Time;
use delta::writing;
use proptest::prelude::*;

/// The beginning of a log of Chromium 156: 17 bytes, all there is if nobody connects.
const BEGIN: [u8; 17] = [
    0x82, 0x01, 0x0E, 0x08, 0x8C, 0xDF, 0xF1, 0x01, 0x10, 0x02, 0x18, 0xBD, 0xD9, 0xCD, 0x82, 0xA0,
    0x34,
];

fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value > 0x7F {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

fn integer(number: u32, value: u64, out: &mut Vec<u8>) {
    varint(u64::from(number) << 3, out);
    varint(value, out);
}

fn bytes(number: u32, value: &[u8], out: &mut Vec<u8>) {
    varint(u64::from(number) << 3 | 2, out);
    varint(value.len() as u64, out);
    out.extend_from_slice(value);
}

/// A batch of events of one kind, from their values by field.
fn batch(kind: &schema::EventKind, rows: usize, values: &[Vec<Option<u64>>]) -> Vec<u8> {
    let mut message = Vec::new();
    for (field, values) in kind.fields.iter().zip(values) {
        if let Some(first) = values[0] {
            integer(field.number, first, &mut message);
        }
        let calculated: Vec<_> = values
            .iter()
            .map(|value| value.map(|value| batch::to_column(&field.form, value)))
            .collect();
        let column = writing::column(calculated[0], &calculated[1..]);
        if !column.is_empty() {
            bytes(field.column, &column, &mut message);
        }
    }
    if rows > 1 {
        integer(kind.count, rows as u64 - 1, &mut message);
    }
    let mut out = Vec::new();
    bytes(kind.number, &message, &mut out);
    out
}

fn log(messages: &[u8]) -> EventLog {
    EventLog::read(&[&BEGIN, messages].concat()).unwrap()
}

fn kind(name: &str) -> &'static schema::EventKind {
    KINDS.iter().find(|kind| kind.name == name).unwrap()
}

fn column<'a>(log: &'a EventLog, table: &str, column: &str) -> &'a Column {
    let table = log.tables.iter().find(|of| of.name == table).unwrap();
    &table.columns.iter().find(|(name, _)| *name == column).unwrap().1
}

fn integers<'a>(log: &'a EventLog, table: &str, name: &str) -> &'a [i64] {
    match column(log, table, name) {
        Column::Int(values) => values,
        other => panic!("{other:?}"),
    }
}

fn texts<'a>(log: &'a EventLog, table: &str, name: &str) -> Vec<Option<&'a str>> {
    let Column::Text(codes) = column(log, table, name) else { panic!("{name} is not text") };
    let text = |code: &u32| (*code != NO_TEXT).then(|| log.texts[*code as usize].as_str());
    codes.iter().map(text).collect()
}

#[test]
fn a_log_that_only_began_gives_its_clock() {
    let log = log(&[]);
    assert_eq!(integers(&log, "begin", "at_ms"), [3_960_716]);
    assert_eq!(integers(&log, "begin", "utc_ms"), [1_795_301_797_053]);
    assert_eq!(log.faults, Faults::default());
}

#[test]
fn other_formats_are_refused_by_name() {
    let read = |file: &[u8]| EventLog::read(file).unwrap_err();
    assert_eq!(read(&[]), EventLogError::Empty);
    assert_eq!(read(&[0x0A, 0x02, 0x08, 0x01]), EventLogError::Legacy);
    let mut version_3 = Vec::new();
    varint(VERSION_3 << 1, &mut version_3);
    assert_eq!(read(&version_3), EventLogError::Version3);
    assert_eq!(read(b"{\"PeerConnections\":{}}"), EventLogError::NotALog);
    assert!(read(&version_3).to_string().contains("version 3"));
    assert!(read(&[0x0A]).to_string().contains("version 1"));
}

#[test]
fn a_batch_of_estimates_has_the_times_rates_and_states_of_its_bytes() {
    // The columns of Chromium 156 in the tests of columns; the states are 1 2 3 3 1.
    let mut message = Vec::new();
    integer(1, 3_620_425, &mut message);
    integer(2, 1_202_872, &mut message);
    integer(3, 1, &mut message);
    integer(4, 4, &mut message);
    bytes(101, &[0x05, 0xEF, 0xFF, 0xFE], &mut message);
    let rates = [0x55, 0x15, 0x26, 0x15, 0xC7, 0xD4, 0x16, 0xF6, 0x8B, 0x15, 0x45, 0xCD, 0xDD];
    bytes(102, &rates, &mut message);
    let states = [2, 3, 3, 1].map(Some);
    bytes(103, &writing::column(Some(1), &states), &mut message);
    let mut out = Vec::new();
    bytes(19, &message, &mut out);
    let log = log(&out);
    let times = [3_620_425, 3_620_484, 3_620_547, 3_620_610, 3_620_672];
    assert_eq!(integers(&log, "delay_based", "at_ms"), times);
    assert_eq!(integers(&log, "delay_based", "rate_bps")[..3], [1_202_872, 1_826_857, 1_647_000]);
    let states = ["normal", "underuse", "overuse", "overuse", "normal"].map(Some);
    assert_eq!(texts(&log, "delay_based", "detector_state"), states);
    assert_eq!(log.faults, Faults::default());
}

#[test]
fn events_of_all_flushes_are_in_order_of_time() {
    let values =
        |times: [u64; 2]| [times.map(Some).to_vec(), vec![Some(5), Some(6)], vec![None; 2]];
    let later = batch(kind("remote_estimate"), 2, &values([30, 40]));
    let earlier = batch(kind("remote_estimate"), 2, &values([10, 35]));
    let log = log(&[later, earlier].concat());
    assert_eq!(integers(&log, "remote_estimate", "at_ms"), [10, 30, 35, 40]);
    assert_eq!(integers(&log, "remote_estimate", "lower_kbps"), [5, 5, 6, 6]);
    assert_eq!(integers(&log, "remote_estimate", "upper_kbps"), [NO_VALUE; 4]);
}

#[test]
fn a_log_that_was_cut_off_gives_what_it_holds_and_says_so() {
    let whole = batch(kind("remote_estimate"), 1, &[vec![Some(10)], vec![Some(5)], vec![None]]);
    for cut in 1..whole.len() {
        let log = log(&[&whole[..], &whole[..cut]].concat());
        assert_eq!(integers(&log, "remote_estimate", "at_ms"), [10]);
        assert_eq!(log.faults, Faults { truncated_bytes: cut as u64, ..Faults::default() });
    }
}

#[test]
fn unknown_messages_fields_and_values_are_counted_and_skipped() {
    let mut message = Vec::new();
    integer(1, 10, &mut message);
    integer(2, 9, &mut message);
    integer(77, 1, &mut message);
    let mut out = Vec::new();
    bytes(27, &message, &mut out);
    bytes(77, &[1, 2, 3], &mut out);
    let log = log(&out);
    assert_eq!(integers(&log, "dtls_state", "at_ms"), [10]);
    assert_eq!(texts(&log, "dtls_state", "state"), [None]);
    let expected =
        Faults { unknown_messages: 1, unknown_fields: 1, unknown_values: 1, ..Faults::default() };
    assert_eq!(log.faults, expected);
}

#[test]
fn a_damaged_message_is_left_out_alone() {
    let good = batch(kind("remote_estimate"), 1, &[vec![Some(10)], vec![Some(5)], vec![None]]);
    let mut message = Vec::new();
    integer(1, 20, &mut message);
    integer(4, 3, &mut message);
    bytes(101, &[0xC0, 0x00], &mut message);
    let mut bad = Vec::new();
    bytes(33, &message, &mut bad);
    let log = log(&[bad, good].concat());
    assert_eq!(integers(&log, "remote_estimate", "at_ms"), [10]);
    assert_eq!(log.faults, Faults { damaged_messages: 1, ..Faults::default() });
}

#[test]
fn a_few_bytes_cannot_claim_billions_of_events() {
    for claimed in [u64::from(u32::MAX), u64::MAX, 100_000] {
        let mut message = Vec::new();
        integer(1, 20, &mut message);
        integer(11, claimed, &mut message);
        let mut out = Vec::new();
        bytes(3, &message, &mut out);
        let log = log(&out);
        assert_eq!(integers(&log, "outgoing_rtp", "at_ms"), [0i64; 0]);
        assert_eq!(log.faults, Faults { refused_messages: 1, ..Faults::default() });
    }
}

/// RTCP of both directions in one log, as Chromium writes it.
fn rtcp_log(datagrams: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut message = Vec::new();
    integer(1, datagrams[0].0, &mut message);
    bytes(2, &datagrams[0].1, &mut message);
    integer(3, datagrams.len() as u64 - 1, &mut message);
    let times: Vec<_> = datagrams.iter().map(|(at, _)| Some(*at)).collect();
    bytes(101, &writing::column(times[0], &times[1..]), &mut message);
    let mut column = Vec::new();
    datagrams[1..].iter().for_each(|(_, blob)| varint(blob.len() as u64, &mut column));
    datagrams[1..].iter().for_each(|(_, blob)| column.extend_from_slice(blob));
    bytes(102, &column, &mut message);
    let mut out = Vec::new();
    bytes(4, &message, &mut out);
    out
}

#[test]
fn transport_feedback_gives_the_arrival_of_every_packet() {
    let arrivals = [Some(Time::from_millis(64_000)), None, Some(Time::from_micros(64_010_250))];
    let (feedback, covered) = TransportFeedback::from_arrivals((1, 2), 3, 65_535, &arrivals);
    assert_eq!(covered, 3);
    let mut datagram = Vec::new();
    RtcpPacket::TransportFeedback(feedback).write(&mut datagram).unwrap();
    // Blocks that the log leaves out may leave nothing.
    let log = log(&rtcp_log(&[(100, Vec::new()), (110, datagram), (120, Vec::new())]));
    assert_eq!(integers(&log, "transport_feedback", "at_ms"), [110; 3]);
    assert_eq!(integers(&log, "transport_feedback", "transport_seq"), [65_535, 0, 1]);
    let ticks = [64_000 * 4, NO_VALUE, 64_000 * 4 + 41];
    assert_eq!(integers(&log, "transport_feedback", "arrival_ticks"), ticks);
    assert_eq!(texts(&log, "rtcp", "type"), [Some("TWCC")]);
    assert_eq!(log.faults, Faults::default());
}

#[test]
fn feedback_cannot_claim_more_packets_than_the_log_has_room_for() {
    let mut feedback = TransportFeedback { statuses: vec![None; 65_535], ..Default::default() };
    feedback.statuses[0] = Some(0);
    let mut datagram = Vec::new();
    RtcpPacket::TransportFeedback(feedback).write(&mut datagram).unwrap();
    assert!(datagram.len() < 64);
    let log = log(&rtcp_log(&[(100, datagram)]));
    assert_eq!(integers(&log, "transport_feedback", "at_ms"), [0i64; 0]);
    assert_eq!(log.faults, Faults { invalid_rtcp: 1, ..Faults::default() });
}

/// Fields of a random batch: kind, number of events, and values within what their type can have.
fn any_batch() -> impl Strategy<Value = (usize, usize, Vec<Vec<Option<u64>>>)> {
    let flat = |kind: &schema::EventKind| {
        let plain = |form: &Form| !matches!(form, Form::Message(_) | Form::Blob | Form::Choice(_));
        kind.count > 0 && kind.fields.iter().all(|field| plain(&field.form))
    };
    let kinds: Vec<usize> = (0..KINDS.len()).filter(|at| flat(&KINDS[*at])).collect();
    (proptest::sample::select(kinds), 1usize..40).prop_flat_map(|(kind, rows)| {
        let columns: Vec<_> = KINDS[kind]
            .fields
            .iter()
            .map(|field| {
                let most = match field.form {
                    Form::Signed32 => u64::from(u32::MAX),
                    Form::Signed64 => i64::MAX as u64,
                    _ => u64::from(u16::MAX),
                };
                let value = match field.form {
                    Form::LessOne => 1..=255u64,
                    _ => 0..=most,
                };
                let present = if field.name == "at_ms" { 1.0 - f64::EPSILON } else { 0.8 };
                proptest::collection::vec(proptest::option::weighted(present, value), rows)
            })
            .collect();
        (Just(kind), Just(rows), columns)
    })
}

proptest! {
    #[test]
    fn batches_are_read_as_they_were_written((at, rows, values) in any_batch()) {
        let kind = &KINDS[at];
        let log = log(&batch(kind, rows, &values));
        prop_assert_eq!(log.faults, Faults::default());
        let times: Vec<i64> = values[0].iter().map(|at| at.unwrap() as i64).collect();
        let mut order: Vec<usize> = (0..rows).collect();
        order.sort_by_key(|row| times[*row]);
        for (field, values) in kind.fields.iter().zip(&values) {
            let expected: Vec<i64> = order
                .iter()
                .map(|row| match (values[*row], &field.form) {
                    (None, _) => NO_VALUE,
                    (Some(value), Form::Signed32) => i64::from(value as i32),
                    (Some(value), _) => value as i64,
                })
                .collect();
            prop_assert_eq!(integers(&log, kind.name, field.name), &expected[..], "{}", field.name);
        }
    }

    #[test]
    fn any_bytes_after_the_beginning_give_a_log(
        rest in proptest::collection::vec(any::<u8>(), 0..200),
    ) {
        let log = log(&rest);
        for table in &log.tables {
            for (_, column) in &table.columns {
                let rows = match column {
                    Column::Int(values) => values.len(),
                    Column::Text(codes) => codes.len(),
                    Column::Float(values) => values.len(),
                };
                prop_assert!(rows <= EVENTS + EVENTS_PER_BYTE * (rest.len() + BEGIN.len()));
            }
        }
    }
}
