//! The pcapng format: sections in either byte order, each with its own interfaces.

use super::buffer::{Buffer, CAPACITY};
use super::record::{ByteOrder, CaptureFaults, Record, clamp_time};
use crate::pcapng::block::{ENHANCED_PACKET, INTERFACE_DESCRIPTION, SECTION_HEADER};
use crate::pcapng::{BYTE_ORDER_MAGIC, Direction, Interface, option};
use std::io::{self, Read};

const OBSOLETE_PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;

const OPTION_IF_TSOFFSET: u16 = 14;
/// Code of the flags in an obsolete packet block.
const OPTION_PACK_FLAGS: u16 = 2;

/// Block type and length before the body, and the length again after it.
const FRAMING_BYTES: usize = 12;
/// Maximum number of interfaces per section and in total. Packets of further ones are counted as faults.
const MAX_INTERFACES: usize = 4096;
const MAX_NAME_BYTES: usize = 64;

#[derive(Default)]
pub(super) struct Pcapng {
    order: ByteOrder,
    /// Interfaces of the current section.
    interfaces: Vec<SectionInterface>,
    seen_section: bool,
}

#[derive(Clone, Copy)]
struct SectionInterface {
    /// Index of the interface over all sections, as in [`Record`].
    global: u32,
    snaplen: u32,
    resolution: Resolution,
    offset_ns: i128,
}

/// Unit of the time stamps of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Resolution {
    /// A unit of this many nanoseconds.
    Nanos(u64),
    /// A unit of 10^-(9 + this) s, shorter than a nanosecond.
    Decimal(u32),
    /// A unit of 2^-(this) s.
    Binary(u32),
}

impl Resolution {
    /// Parses `if_tsresol`. The highest bit selects powers of two instead of powers of ten.
    fn from_option(value: u8) -> Self {
        match (value & 0x80, u32::from(value & 0x7F)) {
            (0, exponent @ 0..=9) => Resolution::Nanos(10u64.pow(9 - exponent)),
            (0, exponent) => Resolution::Decimal(exponent - 9),
            (_, exponent) => Resolution::Binary(exponent),
        }
    }

    #[inline]
    fn nanos(self, units: u64) -> i128 {
        match self {
            Resolution::Nanos(per_unit) => i128::from(units) * i128::from(per_unit),
            // 10^38 is the largest power of ten in 128 bits. From 10^20 on, the result is 0 anyway.
            Resolution::Decimal(digits) => i128::from(units) / 10i128.pow(digits.min(38)),
            Resolution::Binary(bits) => (i128::from(units) * 1_000_000_000) >> bits.min(127),
        }
    }
}

impl Pcapng {
    pub(super) fn next_record<R: Read>(
        &mut self,
        buffer: &mut Buffer<R>,
        interfaces: &mut Vec<Interface>,
        faults: &mut CaptureFaults,
    ) -> io::Result<Option<Record>> {
        loop {
            if !buffer.ensure(FRAMING_BYTES)? {
                faults.cut_short = !buffer.data().is_empty();
                return Ok(None);
            }
            let Some((kind, len)) = self.block_header(buffer.data()) else {
                faults.corrupt_at = Some(buffer.consumed());
                return Ok(None);
            };
            if len as usize > CAPACITY {
                faults.oversized += 1;
                faults.cut_short = !buffer.skip(len.into())?;
                if faults.cut_short {
                    return Ok(None);
                }
                continue;
            }
            if !buffer.ensure(len as usize)? {
                faults.cut_short = true;
                return Ok(None);
            }
            let body = &buffer.data()[8..len as usize - 4];
            match self.block(kind, body, interfaces) {
                Block::Packet(record) => {
                    faults.untimed += u64::from(kind == SIMPLE_PACKET);
                    let data = record.data.start + 8..record.data.end + 8;
                    return Ok(Some(Record { data, record_bytes: len as usize, ..record }));
                }
                Block::Nothing => {}
                Block::Malformed => faults.malformed += 1,
                Block::UnknownInterface => faults.unknown_interface += 1,
            }
            buffer.consume(len as usize);
        }
    }

    /// Returns type and total length of a block. A section header sets the byte order from here on.
    fn block_header(&mut self, bytes: &[u8]) -> Option<(u32, u32)> {
        // The section header type is a palindrome: it reads the same in both byte orders.
        if bytes.starts_with(&SECTION_HEADER.to_le_bytes()) {
            let orders = [ByteOrder { big_endian: false }, ByteOrder { big_endian: true }];
            self.order = orders.into_iter().find(|o| o.u32(bytes, 8) == BYTE_ORDER_MAGIC)?;
            self.seen_section = true;
        }
        let (kind, len) = (self.order.u32(bytes, 0), self.order.u32(bytes, 4));
        let plausible = len as usize >= FRAMING_BYTES && len % 4 == 0;
        (self.seen_section && plausible).then_some((kind, len))
    }

    fn block(&mut self, kind: u32, body: &[u8], interfaces: &mut Vec<Interface>) -> Block {
        match kind {
            SECTION_HEADER => {
                self.interfaces.clear();
                Block::Nothing
            }
            INTERFACE_DESCRIPTION => self.interface(body, interfaces),
            ENHANCED_PACKET if body.len() >= 20 => {
                let interface = self.order.u32(body, 0);
                self.packet(body, interface, option::EPB_FLAGS)
            }
            OBSOLETE_PACKET if body.len() >= 20 => {
                let interface = self.order.u16(body, 0);
                self.packet(body, interface.into(), OPTION_PACK_FLAGS)
            }
            SIMPLE_PACKET if body.len() >= 4 => self.simple_packet(body),
            ENHANCED_PACKET | OBSOLETE_PACKET | SIMPLE_PACKET => Block::Malformed,
            _ => Block::Nothing,
        }
    }

    fn interface(&mut self, body: &[u8], interfaces: &mut Vec<Interface>) -> Block {
        if body.len() < 8 {
            return Block::Malformed;
        }
        if self.interfaces.len() == MAX_INTERFACES {
            return Block::Nothing;
        }
        let mut described = Interface { link_type: self.order.u16(body, 0), name: None };
        let mut resolution = Resolution::Nanos(1_000);
        let mut offset_ns = 0;
        for (code, value) in Options::new(self.order, &body[8..]) {
            match (code, value) {
                (option::IF_NAME, _) => {
                    let name = &value[..value.len().min(MAX_NAME_BYTES)];
                    described.name = Some(String::from_utf8_lossy(name).into_owned());
                }
                (option::IF_TSRESOL, [value, ..]) => resolution = Resolution::from_option(*value),
                (OPTION_IF_TSOFFSET, [_, _, _, _, _, _, _, _]) => {
                    let words = (self.order.u32(value, 0), self.order.u32(value, 4));
                    let (high, low) =
                        if self.order.big_endian { words } else { (words.1, words.0) };
                    let seconds = (u64::from(high) << 32 | u64::from(low)) as i64;
                    offset_ns = i128::from(seconds) * 1_000_000_000;
                }
                _ => {}
            }
        }
        let Some(global) = self.global_index(described, interfaces) else { return Block::Nothing };
        let snaplen = self.order.u32(body, 4);
        self.interfaces.push(SectionInterface { global, snaplen, resolution, offset_ns });
        Block::Nothing
    }

    /// Returns the index of an identical interface of an earlier section, so that its flows continue, or
    /// a new one.
    fn global_index(&self, described: Interface, known: &mut Vec<Interface>) -> Option<u32> {
        let taken = |index: usize| self.interfaces.iter().any(|i| i.global as usize == index);
        let same = (0..known.len()).find(|&index| known[index] == described && !taken(index));
        let index = same.or_else(|| {
            (known.len() < MAX_INTERFACES).then(|| {
                known.push(described);
                known.len() - 1
            })
        })?;
        Some(index as u32)
    }

    /// Parses an enhanced or obsolete packet block; they differ only in their first word and the code of
    /// the flags.
    #[inline]
    fn packet(&self, body: &[u8], interface: u32, flags_option: u16) -> Block {
        let Some(interface) = self.interfaces.get(interface as usize) else {
            return Block::UnknownInterface;
        };
        let units = u64::from(self.order.u32(body, 4)) << 32 | u64::from(self.order.u32(body, 8));
        let captured_bytes = self.order.u32(body, 12) as usize;
        let Some(options) = body.get(20 + captured_bytes.next_multiple_of(4)..) else {
            return Block::Malformed;
        };
        let flags = Options::new(self.order, options).find(|(code, _)| *code == flags_option);
        let direction =
            flags.filter(|(_, value)| value.len() == 4).and_then(|(_, value)| {
                match self.order.u32(value, 0) & 3 {
                    1 => Some(Direction::Inbound),
                    2 => Some(Direction::Outbound),
                    _ => None,
                }
            });
        Block::Packet(Record {
            at_ns: clamp_time(interface.resolution.nanos(units) + interface.offset_ns),
            interface: interface.global,
            direction,
            wire_bytes: self.order.u32(body, 16).max(captured_bytes as u32),
            data: 20..20 + captured_bytes,
            record_bytes: 0,
        })
    }

    /// Parses a simple packet block. It belongs to the first interface and has no time, so `at_ns` is 0.
    fn simple_packet(&self, body: &[u8]) -> Block {
        let Some(interface) = self.interfaces.first() else { return Block::UnknownInterface };
        let wire_bytes = self.order.u32(body, 0);
        let limit = if interface.snaplen == 0 { u32::MAX } else { interface.snaplen };
        let captured_bytes = (wire_bytes.min(limit) as usize).min(body.len() - 4);
        Block::Packet(Record {
            at_ns: 0,
            interface: interface.global,
            direction: None,
            wire_bytes,
            data: 4..4 + captured_bytes,
            record_bytes: 0,
        })
    }
}

enum Block {
    /// A packet, with its data range relative to the beginning of the block's body.
    Packet(Record),
    Nothing,
    Malformed,
    UnknownInterface,
}

/// Iterates over the options of a block as (code, value), up to the first one that does not fit.
struct Options<'a> {
    order: ByteOrder,
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    fn new(order: ByteOrder, rest: &'a [u8]) -> Self {
        Options { order, rest }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (header, rest) = self.rest.split_at_checked(4)?;
        let (code, len) = (self.order.u16(header, 0), usize::from(self.order.u16(header, 2)));
        if code == option::END {
            return None;
        }
        let (value, _) = rest.split_at_checked(len)?;
        self.rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((code, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resolutions_are_powers_of_ten_or_of_two() {
        let nanos = |option, units| Resolution::from_option(option).nanos(units);
        assert_eq!((nanos(6, 1), nanos(9, 1), nanos(0, 1)), (1_000, 1, 1_000_000_000));
        assert_eq!((nanos(12, 2_500), nanos(127, u64::MAX)), (2, 0));
        // At 2^10 units per second, 512 units are half a second.
        assert_eq!((nanos(0x8A, 512), nanos(0xFF, u64::MAX)), (500_000_000, 0));
    }
}
