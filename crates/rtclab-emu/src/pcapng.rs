//! The pcapng file format (IETF draft-ietf-opsawg-pcapng), as far as a capture needs it.

use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const LINKTYPE_ETHERNET: u16 = 1;
const OPTION_END: u16 = 0;
const OPTION_IF_NAME: u16 = 2;
const OPTION_IF_TSRESOL: u16 = 9;
const OPTION_EPB_FLAGS: u16 = 2;

/// Which way a frame crossed a port, seen from the emulator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From the node.
    Inbound = 1,
    /// To the node.
    Outbound = 2,
}

/// A frame as the file keeps it.
#[derive(Debug)]
pub(crate) struct Captured {
    pub(crate) interface: u32,
    /// Nanoseconds since 1970.
    pub(crate) at_ns: u64,
    pub(crate) direction: Direction,
    /// Length on the wire.
    pub(crate) length: u32,
    /// The beginning of the frame.
    pub(crate) bytes: Vec<u8>,
}

/// Writes one section; little endian.
pub(crate) struct Writer<W> {
    output: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Begins the section with one interface per name.
    pub(crate) fn new(output: W, interfaces: &[String], snaplen: u32) -> io::Result<Self> {
        let mut writer = Writer { output, block: Vec::new() };
        writer.put(&BYTE_ORDER_MAGIC.to_le_bytes());
        writer.put(&1u16.to_le_bytes()); // major version
        writer.put(&0u16.to_le_bytes());
        writer.put(&u64::MAX.to_le_bytes()); // length of the section: not known
        writer.end_block(SECTION_HEADER)?;
        for name in interfaces {
            writer.put(&LINKTYPE_ETHERNET.to_le_bytes());
            writer.put(&[0, 0]);
            writer.put(&snaplen.to_le_bytes());
            writer.put_option(OPTION_IF_NAME, name.as_bytes());
            writer.put_option(OPTION_IF_TSRESOL, &[9]); // units of 10^-9 s
            writer.put_option(OPTION_END, &[]);
            writer.end_block(INTERFACE_DESCRIPTION)?;
        }
        Ok(writer)
    }

    pub(crate) fn packet(&mut self, captured: &Captured) -> io::Result<()> {
        self.put(&captured.interface.to_le_bytes());
        self.put(&((captured.at_ns >> 32) as u32).to_le_bytes());
        self.put(&(captured.at_ns as u32).to_le_bytes());
        self.put(&(captured.bytes.len() as u32).to_le_bytes());
        self.put(&captured.length.to_le_bytes());
        self.put(&captured.bytes);
        self.pad();
        self.put_option(OPTION_EPB_FLAGS, &(captured.direction as u32).to_le_bytes());
        self.put_option(OPTION_END, &[]);
        self.end_block(ENHANCED_PACKET)
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }

    fn put(&mut self, bytes: &[u8]) {
        self.block.extend_from_slice(bytes);
    }

    fn put_option(&mut self, code: u16, value: &[u8]) {
        self.put(&code.to_le_bytes());
        self.put(&(value.len() as u16).to_le_bytes());
        self.put(value);
        self.pad();
    }

    fn pad(&mut self) {
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Writes type, length, the collected body and the length again.
    fn end_block(&mut self, kind: u32) -> io::Result<()> {
        let length = (self.block.len() as u32 + 12).to_le_bytes();
        self.output.write_all(&kind.to_le_bytes())?;
        self.output.write_all(&length)?;
        self.output.write_all(&self.block)?;
        self.output.write_all(&length)?;
        self.block.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_parser::pcapng::{Block, EnhancedPacketBlock, parse_block_le};

    fn blocks(mut bytes: &[u8]) -> Vec<Block<'_>> {
        let mut blocks = Vec::new();
        while !bytes.is_empty() {
            let (rest, block) = parse_block_le(bytes).expect("a valid block");
            blocks.push(block);
            bytes = rest;
        }
        blocks
    }

    fn flags(packet: &EnhancedPacketBlock<'_>) -> Vec<u8> {
        let option =
            packet.options.iter().find(|o| o.code.0 == OPTION_EPB_FLAGS).expect("epb_flags");
        option.value.to_vec()
    }

    #[test]
    fn an_independent_reader_finds_what_was_written() {
        let mut file = Vec::new();
        let names = ["port0".to_owned(), "port1".to_owned()];
        let mut writer = Writer::new(&mut file, &names, 128).expect("memory takes everything");
        let sent = Captured {
            interface: 1,
            at_ns: 1_700_000_000_123_456_789,
            direction: Direction::Inbound,
            length: 1214,
            bytes: vec![7; 5],
        };
        let received =
            Captured { interface: 0, direction: Direction::Outbound, ..sent_copy(&sent) };
        writer.packet(&sent).expect("memory takes everything");
        writer.packet(&received).expect("memory takes everything");

        let blocks = blocks(&file);
        let [
            Block::SectionHeader(section),
            Block::InterfaceDescription(first),
            Block::InterfaceDescription(second),
            Block::EnhancedPacket(inbound),
            Block::EnhancedPacket(outbound),
        ] = blocks.as_slice()
        else {
            panic!("unexpected blocks: {blocks:?}")
        };
        assert_eq!((section.major_version, section.section_len), (1, -1));
        assert_eq!((first.if_tsresol, first.snaplen), (9, 128));
        let name = second.options.iter().find(|o| o.code.0 == OPTION_IF_NAME).expect("if_name");
        assert_eq!(&name.value[..5], b"port1");
        assert_eq!((inbound.if_id, inbound.caplen, inbound.origlen), (1, 5, 1214));
        let at_ns = u64::from(inbound.ts_high) << 32 | u64::from(inbound.ts_low);
        assert_eq!(at_ns, 1_700_000_000_123_456_789);
        assert_eq!(&inbound.data[..5], [7; 5]);
        assert_eq!((flags(inbound), flags(outbound)), (vec![1, 0, 0, 0], vec![2, 0, 0, 0]));
        assert_eq!(outbound.if_id, 0);
    }

    fn sent_copy(captured: &Captured) -> Captured {
        Captured { bytes: captured.bytes.clone(), ..*captured }
    }
}
