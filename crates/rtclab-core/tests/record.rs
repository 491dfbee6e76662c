//! The tables of a run agree with each other.

use crate::support::{LINK, call};
use rtclab_core::record::{Column, Detail, NO_INT, Table};
use rtclab_core::sim::{SimConfig, SimResult, simulate};
use rtclab_core::units::Time;

fn column<'a>(result: &'a SimResult, table: &str, name: &str) -> &'a Column {
    let named = |t: &&Table| t.name == table;
    let table = result.tables.iter().find(named).expect("the table");
    &table.columns.iter().find(|column| column.0 == name).expect("the column").1
}

fn ints<'a>(result: &'a SimResult, table: &str, name: &str) -> &'a [i64] {
    let Column::Int(values) = column(result, table, name) else { panic!("{name} is no integer") };
    values
}

/// Values of a column in the rows of a flow.
fn of_flow(result: &SimResult, table: &str, flow: &str, name: &str) -> Vec<i64> {
    let code = result.texts.iter().position(|text| text == flow).map(|code| code as u32);
    let Column::Text(flows) = column(result, table, "flow") else { panic!("no text") };
    let rows = flows.iter().zip(ints(result, table, name));
    rows.filter(|(flow, _)| Some(**flow) == code).map(|(_, value)| *value).collect()
}

fn sum(result: &SimResult, flow: &str, name: &str) -> i64 {
    of_flow(result, "flow_seconds", flow, name).iter().sum()
}

/// A call of 10 s with losses, which bob leaves after 6.5 s.
fn call_that_bob_leaves() -> SimConfig {
    let lossy = format!(r#"{LINK}, "loss": {{"p": 0.0, "r": 1.0, "h": 0.95, "k": 0.95}}"#);
    let mut config = call(&lossy, 10, 1);
    config.participants[1].leave_ns = LEFT;
    config
}

const LEFT: Time = Time::from_millis(6_500);

#[test]
fn the_tables_of_seconds_and_packets_agree_for_each_flow() {
    let result = simulate(&call_that_bob_leaves()).expect("a run");
    for flow in ["alice->bob", "bob->alice"] {
        let of = |name| of_flow(&result, "packets", flow, name);
        let (sent, delivered, dropped) = (of("sent_ns"), of("delivered_ns"), of("dropped_ns"));
        let sizes = of("size_bytes");
        let left = LEFT.0 as i64;
        let in_time: Vec<bool> = delivered.iter().map(|at| *at != NO_INT && *at < left).collect();
        let bytes: i64 =
            sizes.iter().zip(&in_time).filter(|(_, in_time)| **in_time).map(|(b, _)| b).sum();
        let arrived = in_time.iter().filter(|in_time| **in_time).count() as i64;
        let lost = dropped.iter().filter(|at| **at != NO_INT).count() as i64;
        assert_eq!(sum(&result, flow, "sent_packets"), sent.len() as i64, "{flow}");
        assert_eq!(sum(&result, flow, "sent_bytes"), sizes.iter().sum::<i64>(), "{flow}");
        assert_eq!(sum(&result, flow, "delivered_packets"), arrived, "{flow}");
        assert_eq!(sum(&result, flow, "delivered_bytes"), bytes, "{flow}");
        assert_eq!(sum(&result, flow, "dropped_packets"), lost, "{flow}");
        let histogram: i64 = of_flow_histogram(&result, flow);
        assert_eq!(histogram, arrived, "{flow}");
        // Everything else arrived too late, after the connection had ended.
        let late = delivered.iter().filter(|at| **at >= left).count() as i64;
        assert_eq!(sent.len() as i64, arrived + lost + late, "{flow}");
        assert!(lost > 0 && late > 0, "{flow}: {lost} lost, {late} late");
    }
}

fn of_flow_histogram(result: &SimResult, flow: &str) -> i64 {
    of_flow(result, "delay_histogram", flow, "packets").iter().sum()
}

#[test]
fn flows_end_when_one_participant_leaves() {
    let result = simulate(&call_that_bob_leaves()).expect("a run");
    assert_eq!(ints(&result, "flows", "end_ns"), [LEFT.0 as i64; 2]);
    for (flow, begin) in ["alice->bob", "bob->alice"].iter().zip(ints(&result, "flows", "begin_ns"))
    {
        let sent = of_flow(&result, "packets", flow, "sent_ns");
        assert_eq!(sent.iter().min(), Some(begin));
        assert!(sent.iter().all(|at| *at < LEFT.0 as i64));
        let delivered = of_flow(&result, "flow_seconds", flow, "delivered_packets");
        assert!(delivered[6] > 0);
        assert_eq!(delivered[7..], [0; 3]);
    }
}

#[test]
fn a_record_of_seconds_has_the_same_rows_except_packets_and_single_decisions() {
    let mut config = call_that_bob_leaves();
    let packets = simulate(&config).expect("a run");
    config.record = Detail::Seconds;
    let seconds = simulate(&config).expect("a run");
    for table in &seconds.tables {
        let other = packets.tables.iter().find(|t| t.name == table.name).expect("the table");
        if table.name != "controller" {
            // NaN differs from itself, so printed tables are compared.
            assert_eq!(format!("{table:?}"), format!("{other:?}"));
        }
    }
    // Neither packets nor the queues in which they waited.
    assert_eq!(packets.tables.len(), seconds.tables.len() + 2);
}
