//! Packet status chunks of transport-wide feedback: which packets arrived, and how wide their deltas are.
//!
//! Source: draft-holmer-rmcat-transport-wide-cc-extensions-01, section 3.1. Chunks are chosen as in libwebrtc
//! (`modules/rtp_rtcp/source/rtcp_packet/transport_feedback.cc`, `LastChunk`).

use crate::rtp::ParseError;

/// Status of one packet. Its 2-bit number on the wire equals the size of its delta in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Symbol {
    #[default]
    NotReceived,
    SmallDelta,
    LargeDelta,
}

impl Symbol {
    fn from_bits(bits: u16, offset: usize) -> Result<Symbol, ParseError> {
        match bits {
            0 => Ok(Symbol::NotReceived),
            1 => Ok(Symbol::SmallDelta),
            2 => Ok(Symbol::LargeDelta),
            _ => Err(ParseError::Invalid {
                field: "TWCC packet status",
                offset,
                expected: "0, 1 or 2",
                got: bits.into(),
            }),
        }
    }

    fn bits(self) -> u16 {
        self as u16
    }
}

const RUN_LENGTH_MAX: usize = 0x1FFF;
const ONE_BIT_SYMBOLS: usize = 14;
const TWO_BIT_SYMBOLS: usize = 7;
const CHUNK_BYTES: usize = 2;

/// A chunk read from the wire.
#[derive(Clone, Copy)]
pub(super) struct Chunk(pub(super) u16);

impl Chunk {
    /// Number of packets that the chunk covers. If it is a vector and the last chunk, it may cover fewer.
    pub(super) fn capacity(self) -> usize {
        match (self.0 >> 15, self.0 >> 14 & 1) {
            (0, _) => usize::from(self.0) & RUN_LENGTH_MAX,
            (_, 0) => ONE_BIT_SYMBOLS,
            (_, _) => TWO_BIT_SYMBOLS,
        }
    }

    /// Status of the packet at `index`, which must be below [`capacity`](Self::capacity).
    pub(super) fn symbol(self, index: usize, offset: usize) -> Result<Symbol, ParseError> {
        let bits = match (self.0 >> 15, self.0 >> 14 & 1) {
            (0, _) => self.0 >> 13 & 3,
            (_, 0) => self.0 >> (ONE_BIT_SYMBOLS - 1 - index) & 1,
            (_, _) => self.0 >> (2 * (TWO_BIT_SYMBOLS - 1 - index)) & 3,
        };
        Symbol::from_bits(bits, offset)
    }
}

/// Collects symbols until they fill a chunk.
///
/// Seven symbols always fit, in a 2-bit vector. Up to 14 fit in a 1-bit vector if none is large. Up to 8191
/// fit in a run if all are equal.
#[derive(Default)]
pub(super) struct ChunkWriter {
    symbols: [Symbol; ONE_BIT_SYMBOLS],
    len: usize,
    all_equal: bool,
    has_large: bool,
}

impl ChunkWriter {
    /// Adds a symbol. Appends a chunk to `out` if earlier symbols must be written to make room.
    pub(super) fn push(&mut self, symbol: Symbol, out: &mut Vec<u8>) {
        if !self.has_room_for(symbol) {
            self.emit(out);
        }
        self.add(symbol);
    }

    /// Size of the chunks of these symbols.
    pub(super) fn wire_bytes(symbols: impl ExactSizeIterator<Item = Symbol>) -> usize {
        match symbols.len() {
            0 => 0,
            1..=TWO_BIT_SYMBOLS => CHUNK_BYTES,
            _ => {
                let (mut chunks, mut bytes) = (ChunkWriter::default(), Vec::new());
                symbols.for_each(|symbol| chunks.push(symbol, &mut bytes));
                chunks.finish(&mut bytes);
                bytes.len()
            }
        }
    }

    /// Appends the remaining symbols.
    pub(super) fn finish(mut self, out: &mut Vec<u8>) {
        match self.len {
            0 => {}
            _ if self.all_equal => self.emit(out),
            1..=TWO_BIT_SYMBOLS => put(self.two_bit_vector(self.len), out),
            _ => put(self.one_bit_vector(), out),
        }
    }

    fn has_room_for(&self, symbol: Symbol) -> bool {
        self.len < TWO_BIT_SYMBOLS
            || (self.len < ONE_BIT_SYMBOLS && !self.has_large && symbol != Symbol::LargeDelta)
            || (self.len < RUN_LENGTH_MAX && self.all_equal && self.symbols[0] == symbol)
    }

    fn add(&mut self, symbol: Symbol) {
        if let Some(slot) = self.symbols.get_mut(self.len) {
            *slot = symbol;
        }
        self.all_equal = self.len == 0 || (self.all_equal && symbol == self.symbols[0]);
        self.has_large = (self.len > 0 && self.has_large) || symbol == Symbol::LargeDelta;
        self.len += 1;
    }

    fn emit(&mut self, out: &mut Vec<u8>) {
        if self.all_equal {
            put(self.symbols[0].bits() << 13 | self.len as u16, out);
            self.len = 0;
        } else if self.len == ONE_BIT_SYMBOLS {
            put(self.one_bit_vector(), out);
            self.len = 0;
        } else {
            put(self.two_bit_vector(TWO_BIT_SYMBOLS), out);
            let (symbols, len) = (self.symbols, self.len);
            self.len = 0;
            symbols[TWO_BIT_SYMBOLS..len].iter().for_each(|&symbol| self.add(symbol));
        }
    }

    fn one_bit_vector(&self) -> u16 {
        let symbols = self.symbols[..self.len].iter().enumerate();
        symbols.fold(0b10 << 14, |chunk, (index, symbol)| {
            chunk | symbol.bits() << (ONE_BIT_SYMBOLS - 1 - index)
        })
    }

    fn two_bit_vector(&self, len: usize) -> u16 {
        let symbols = self.symbols[..len].iter().enumerate();
        symbols.fold(0b11 << 14, |chunk, (index, symbol)| {
            chunk | symbol.bits() << (2 * (TWO_BIT_SYMBOLS - 1 - index))
        })
    }
}

fn put(chunk: u16, out: &mut Vec<u8>) {
    out.extend_from_slice(&chunk.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::Symbol::{LargeDelta as L, NotReceived as N, SmallDelta as S};
    use super::*;

    fn chunks(symbols: &[Symbol]) -> Vec<u16> {
        let mut out = Vec::new();
        let mut writer = ChunkWriter::default();
        symbols.iter().for_each(|&symbol| writer.push(symbol, &mut out));
        writer.finish(&mut out);
        out.chunks(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]])).collect()
    }

    #[test]
    fn equal_symbols_become_a_run_of_at_most_8191() {
        assert_eq!(chunks(&[S; 20]), [0b001 << 13 | 20]);
        assert_eq!(chunks(&[L; 1]), [0b010 << 13 | 1]);
        assert_eq!(chunks(&[N; 8191]), [8191]);
        assert_eq!(chunks(&[N; 8192]), [8191, 1]);
    }

    #[test]
    fn fourteen_mixed_symbols_without_a_large_delta_become_a_1_bit_vector() {
        let symbols = [S, S, N, S, S, S, S, S, S, S, S, S, S, S];
        assert_eq!(chunks(&symbols), [0b10_11_01_11_11_11_11_11]);
        // The fifteenth begins the next chunk.
        assert_eq!(
            chunks(&[&symbols[..], &[S]].concat()),
            [0b10_11_01_11_11_11_11_11, 1 << 13 | 1]
        );
    }

    #[test]
    fn a_large_delta_among_others_makes_2_bit_vectors_of_seven() {
        assert_eq!(chunks(&[S, L, N]), [0b11_01_10_00_00_00_00_00]);
        assert_eq!(chunks(&[S, S, S, S, S, S, L, S]), [0b11_01_01_01_01_01_01_10, 1 << 13 | 1]);
    }

    #[test]
    fn a_large_delta_after_mixed_small_ones_splits_them_at_seven() {
        // After nine symbols for a 1-bit vector comes a large one: seven are written, two stay with it.
        let symbols = [S, N, S, S, S, S, S, S, N, L];
        assert_eq!(chunks(&symbols), [0b11_01_00_01_01_01_01_01, 0b11_01_00_10_00_00_00_00]);
    }

    #[test]
    fn a_run_broken_after_fourteen_is_written_as_a_run() {
        assert_eq!(chunks(&[[S; 15].as_slice(), &[N]].concat()), [1 << 13 | 15, 1]);
        // With fewer than seven equal symbols, other symbols still fit in a vector.
        assert_eq!(chunks(&[S, S, N]), [0b11_01_01_00_00_00_00_00]);
    }

    #[test]
    fn eight_to_fourteen_mixed_symbols_at_the_end_are_a_1_bit_vector() {
        assert_eq!(chunks(&[S, N, S, N, S, N, S, N]), [0b10_10_10_10_10_00_00_00]);
    }

    #[test]
    fn status_3_is_refused() {
        assert!(Chunk(0b0110_0000_0000_0001).symbol(0, 20).is_err());
        assert!(Chunk(0b11_11_00_00_00_00_00_00).symbol(0, 20).is_err());
    }
}
