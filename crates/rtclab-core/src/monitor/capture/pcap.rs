//! The classic pcap format: one header, one interface, one record per packet.

use super::buffer::{Buffer, CAPACITY};
use super::record::{ByteOrder, CaptureFaults, Record, clamp_time};
use crate::pcapng::Interface;
use std::io::{self, Read};

const MAGIC_MICROSECONDS: u32 = 0xA1B2_C3D4;
const MAGIC_NANOSECONDS: u32 = 0xA1B2_3C4D;
/// Written by a patched libpcap of the 1990s, whose record headers are 8 bytes longer.
const MAGIC_MODIFIED: u32 = 0xA1B2_CD34;
const FILE_HEADER_BYTES: usize = 24;

pub(super) struct Pcap {
    order: ByteOrder,
    ns_per_unit: i128,
    record_header_bytes: usize,
}

impl Pcap {
    /// Reads the file header. Returns `None` if the file does not begin with one.
    pub(super) fn open<R: Read>(
        buffer: &mut Buffer<R>,
        interfaces: &mut Vec<Interface>,
    ) -> io::Result<Option<Self>> {
        if !buffer.ensure(FILE_HEADER_BYTES)? {
            return Ok(None);
        }
        let header = buffer.data();
        let known = |big_endian| {
            let order = ByteOrder { big_endian };
            match order.u32(header, 0) {
                MAGIC_MICROSECONDS => Some((order, 1_000, 16)),
                MAGIC_NANOSECONDS => Some((order, 1, 16)),
                MAGIC_MODIFIED => Some((order, 1_000, 24)),
                _ => None,
            }
        };
        let Some((order, ns_per_unit, record_header_bytes)) = known(false).or_else(|| known(true))
        else {
            return Ok(None);
        };
        // The upper bits describe the frame check sequence at the end of frames, which is not read here.
        let link_type = order.u32(header, 20) as u16;
        interfaces.push(Interface { link_type, name: None });
        buffer.consume(FILE_HEADER_BYTES);
        Ok(Some(Pcap { order, ns_per_unit, record_header_bytes }))
    }

    #[inline]
    pub(super) fn next_record<R: Read>(
        &mut self,
        buffer: &mut Buffer<R>,
        faults: &mut CaptureFaults,
    ) -> io::Result<Option<Record>> {
        if !buffer.ensure(self.record_header_bytes)? {
            faults.cut_short = !buffer.data().is_empty();
            return Ok(None);
        }
        let header = buffer.data();
        let captured_bytes = self.order.u32(header, 8) as usize;
        if captured_bytes > CAPACITY - self.record_header_bytes {
            // Nothing marks the beginning of a record, so reading cannot resume.
            faults.corrupt_at = Some(buffer.consumed());
            return Ok(None);
        }
        let seconds = i128::from(self.order.u32(header, 0)) * 1_000_000_000;
        let fraction = i128::from(self.order.u32(header, 4)) * self.ns_per_unit;
        let wire_bytes = self.order.u32(header, 12);
        let record_bytes = self.record_header_bytes + captured_bytes;
        if !buffer.ensure(record_bytes)? {
            faults.cut_short = true;
            return Ok(None);
        }
        Ok(Some(Record {
            at_ns: clamp_time(seconds + fraction),
            interface: 0,
            direction: None,
            wire_bytes: wire_bytes.max(captured_bytes as u32),
            data: self.record_header_bytes..record_bytes,
            record_bytes,
        }))
    }
}
