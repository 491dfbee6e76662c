//! `replay_log` and `replay_arrivals`: decisions of a congestion control on recorded packets, as arrays.

use crate::control::{self, Controls};
use crate::sim::to_dict;
use numpy::PyReadonlyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rtclab_core::catalogue::{Catalogue, Choice};
use rtclab_core::cc::{CongestionControlConfig, RateBounds, ReceivedPacket};
use rtclab_core::event_log::EventLog;
use rtclab_core::packet::Ecn;
use rtclab_core::replay;
use rtclab_core::rtp::AbsSendTime;
use rtclab_core::units::{Bitrate, Bytes, Time};
use std::collections::BTreeMap;

/// Start, smallest and largest rate of video, and the rate of audio, in bit/s.
type Bounds = (u64, u64, u64, u64);

/// Feeds the packets and feedback of an RTC event log to a congestion control.
///
/// `sent_ms` tells when packets left the socket, for each row of the log's `outgoing_rtp`; it may be empty.
/// Returns the tables `target`, `values` and `probes`, `remb` if the control has a receiving half, and the time of the log in ms at their time zero.
///
/// Raises ValueError if the log or the congestion control is invalid.
#[pyfunction]
#[pyo3(signature = (content, sent_ms, name, options, bounds, controls = None))]
pub(crate) fn replay_log<'py>(
    py: Python<'py>,
    content: &[u8],
    sent_ms: PyReadonlyArray1<'py, i64>,
    name: &str,
    options: BTreeMap<String, f64>,
    bounds: Bounds,
    controls: Option<Controls>,
) -> PyResult<(Bound<'py, PyDict>, i64)> {
    let config = CongestionControlConfig { name: name.to_owned(), options };
    let sent_ms = sent_ms.as_array().to_vec();
    let replayed = with_control(py, &config, controls, |control| {
        let log = EventLog::read(content).map_err(|error| error.to_string())?;
        replay::replay_log(&log, &sent_ms, &control, rate_bounds(bounds))
            .map_err(|error| error.to_string())
    })?;
    let begin_ms = replayed.begin_ms;
    Ok((to_dict(py, replayed.tables, replayed.texts)?, begin_ms))
}

/// Feeds packets that arrived to the receiver half of a congestion control.
///
/// `packets` has the columns `at_ns`, `ssrc`, `seq`, `audio`, `size_bytes`, `payload_bytes`, `rtp_timestamp`,
/// `abs_send_time` and `transport_seq` (-1 for none), in order of arrival. Returns the tables `remb` and
/// `values`.
///
/// Raises ValueError if a column is missing or the congestion control is invalid.
#[pyfunction]
#[pyo3(signature = (packets, rtt_ns, name, options, bounds, controls = None))]
pub(crate) fn replay_arrivals<'py>(
    py: Python<'py>,
    packets: &Bound<'py, PyDict>,
    rtt_ns: Option<u64>,
    name: &str,
    options: BTreeMap<String, f64>,
    bounds: Bounds,
    controls: Option<Controls>,
) -> PyResult<Bound<'py, PyDict>> {
    let config = CongestionControlConfig { name: name.to_owned(), options };
    let packets = received(packets)?;
    let replayed = with_control(py, &config, controls, |control| {
        replay::replay_arrivals(&packets, rtt_ns.map(Time), &control, rate_bounds(bounds))
            .map_err(|error| error.to_string())
    })?;
    to_dict(py, replayed.tables, replayed.texts)
}

/// Replays with the control of a configuration; releases the GIL meanwhile, unless the caller's own are passed.
fn with_control<T: Send>(
    py: Python<'_>,
    config: &CongestionControlConfig,
    controls: Option<Controls>,
    replay: impl FnOnce(Choice<'_>) -> Result<T, String> + Send,
) -> PyResult<T> {
    let choose = |catalogue: &Catalogue| {
        replay(catalogue.choose(config).map_err(|error| error.to_string())?)
    };
    let replayed = match controls {
        None => py.detach(|| choose(crate::catalogue())),
        Some(controls) => choose(&control::catalogue(Some(controls))?),
    };
    replayed.map_err(PyValueError::new_err)
}

fn rate_bounds((start, min, max, audio): Bounds) -> RateBounds {
    RateBounds {
        start: Bitrate(start),
        min: Bitrate(min),
        max: Bitrate(max),
        audio: Bitrate(audio),
        has_video: true,
    }
}

fn received(columns: &Bound<'_, PyDict>) -> PyResult<Vec<ReceivedPacket>> {
    let column = |name: &str| -> PyResult<Vec<i64>> {
        let values = columns.get_item(name)?;
        let values = values.ok_or_else(|| PyValueError::new_err(format!("no column `{name}`")))?;
        Ok(values.extract::<PyReadonlyArray1<'_, i64>>()?.as_array().to_vec())
    };
    let (at, ssrc, seq) = (column("at_ns")?, column("ssrc")?, column("seq")?);
    let (audio, size) = (column("audio")?, column("size_bytes")?);
    let (payload, rtp_timestamp) = (column("payload_bytes")?, column("rtp_timestamp")?);
    let (abs_send_time, transport_seq) = (column("abs_send_time")?, column("transport_seq")?);
    let lengths =
        [&ssrc, &seq, &audio, &size, &payload, &rtp_timestamp, &abs_send_time, &transport_seq];
    if lengths.iter().any(|values| values.len() != at.len()) {
        return Err(PyValueError::new_err("the columns have different lengths"));
    }
    let known = |value: i64| (value >= 0).then_some(value);
    let packet = |row: usize| ReceivedPacket {
        at: Time(at[row].max(0) as u64),
        ssrc: ssrc[row] as u32,
        seq: seq[row] as u16,
        audio: audio[row] != 0,
        size: Bytes(size[row].max(0) as u64),
        payload: Bytes(payload[row].max(0) as u64),
        rtp_timestamp: rtp_timestamp[row] as u32,
        abs_send_time: known(abs_send_time[row]).map(|bits| AbsSendTime::from_bits(bits as u32)),
        transport_seq: known(transport_seq[row]).map(|seq| seq as u16),
        ecn: Ecn::NotCapable,
    };
    Ok((0..at.len()).map(packet).collect())
}
