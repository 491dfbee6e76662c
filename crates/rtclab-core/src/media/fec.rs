//! FEC over blocks of frames: generates FEC packets at the sender, and recovers packets at the receiver.
//!
//! Source: libwebrtc 4d06db557a (2013), `rtp_rtcp/source/{producer_fec,forward_error_correction}.cc`, and
//! f3ae3eb62e (Chromium 156), `rtp_rtcp/source/ulpfec_generator.cc`. In 2013 a frame's first partition was
//! protected more, which is not modelled, and whose masks are interleaved here.

mod masks;

pub use masks::Masks;

use super::protection::Protection;
use crate::packet::{FecBlock, Rtp};
use crate::rtp::ulpfec::MAX_PACKETS;
use std::collections::VecDeque;
use std::sync::Arc;

/// A block ends early if its FEC exceeds the wanted rate by less than this, in 1/256 of the media.
const MAX_EXCESS: u32 = 50;
/// Above this rate of FEC, a block that ends early has at least [`MIN_PACKETS`].
const HIGH_RATE: u8 = 80;
/// Minimum number of media packets in a block with a high rate of FEC.
const MIN_PACKETS: usize = 4;
/// Maximum number of FEC packets that a receiver keeps.
const MAX_WAITING: usize = 48;
/// Number of media packets that a receiver remembers: more than a FEC packet can name.
const MAX_KNOWN: usize = 64;
/// FEC is outdated when media is this far ahead of the first packet it can name.
const OUTDATED: i16 = (MAX_KNOWN + MAX_PACKETS) as i16;

/// Which protection a block has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rates {
    /// The protection of its first frame, when the block started: in 2013.
    #[default]
    AtStart,
    /// The newest protection, or the protection of key frames if the block has one: in Chromium 156.
    Newest,
}

/// Generates FEC packets, block by block.
#[derive(Default)]
pub struct FecGenerator {
    block: Vec<Rtp>,
    frames: u32,
    has_key: bool,
    /// FEC packets per media packet in the current block, in 1/256.
    rate: u8,
    /// Maximum number of frames in the current block.
    max_frames: u32,
    masks: Masks,
    rates: Rates,
}

impl FecGenerator {
    /// A generator that chooses protected packets and the protection of a block in this way.
    pub fn new(masks: Masks, rates: Rates) -> Self {
        FecGenerator { masks, rates, ..FecGenerator::default() }
    }

    /// Whether a frame's packets are needed, because a block is open or one starts.
    pub fn wants(&self, protection: &Protection, key: bool) -> bool {
        !self.block.is_empty() || rate_of(protection, key) > 0
    }

    /// Adds a frame that was sent; returns the FEC packets to send after it.
    pub fn add_frame(
        &mut self,
        protection: &Protection,
        key: bool,
        packets: impl Iterator<Item = Rtp>,
    ) -> Vec<FecBlock> {
        let newest = self.rates == Rates::Newest;
        // In Chromium 156 the minimum size of a block depends on its frames before this one.
        let threshold = rate_of(protection, if newest { self.has_key } else { key });
        self.has_key |= key;
        if newest || self.block.is_empty() {
            let rate = rate_of(protection, if newest { self.has_key } else { key });
            (self.rate, self.max_frames) = (rate, protection.max_frames);
        }
        let free = MAX_PACKETS - self.block.len();
        self.block.extend(packets.take(free));
        self.frames += 1;
        if self.block.is_empty() || self.frames < self.max_frames && !self.is_full_enough(threshold)
        {
            return Vec::new();
        }
        let count = self.fec_packets();
        let fec = (0..count).filter_map(|i| {
            let total = self.block.len();
            let covered = |media: usize| self.masks.covers((i, count), (media, total));
            let packets = self.block.iter().enumerate();
            let protected = packets.filter(|(media, _)| covered(*media)).map(|(_, p)| p.clone());
            // A block is never longer than a mask.
            FecBlock::new(protected.collect::<Vec<_>>())
        });
        let fec = fec.collect();
        self.block.clear();
        (self.frames, self.has_key) = (0, false);
        fec
    }

    fn fec_packets(&self) -> usize {
        let count = (self.block.len() * usize::from(self.rate) + 128) >> 8;
        count.max(usize::from(self.rate > 0))
    }

    fn is_full_enough(&self, threshold: u8) -> bool {
        let packets = self.block.len();
        let overhead = (self.fec_packets() << 8) / packets.max(1);
        let min = if threshold > HIGH_RATE { MIN_PACKETS } else { 1 };
        let several = packets >= 2 * self.frames as usize;
        (overhead as u32) < u32::from(self.rate) + MAX_EXCESS
            && packets >= min + usize::from(several)
    }
}

fn rate_of(protection: &Protection, key: bool) -> u8 {
    if key { protection.key } else { protection.delta }
}

/// Recovers packets of one stream.
pub struct FecDecoder {
    /// Sequence numbers of the known packets, indexed modulo the length.
    known: Vec<Option<u16>>,
    waiting: VecDeque<Arc<FecBlock>>,
    /// FEC packets that arrived.
    pub received: u64,
    /// FEC packets that were of no use, because nothing that they protect was missing, or too much.
    pub discarded: u64,
}

impl Default for FecDecoder {
    fn default() -> Self {
        FecDecoder {
            known: vec![None; MAX_KNOWN],
            waiting: VecDeque::new(),
            received: 0,
            discarded: 0,
        }
    }
}

impl FecDecoder {
    /// Takes a media packet that arrived or was recovered.
    pub fn on_media(&mut self, seq: u16) {
        // The packets that these protect are no longer remembered. After sequence numbers wrap, these would
        // be taken for FEC of other packets.
        let behind = |fec: &FecBlock| seq.wrapping_sub(fec.seq_base()) as i16;
        while self.waiting.front().is_some_and(|fec| behind(fec) >= OUTDATED) {
            self.waiting.pop_front();
            self.discarded += 1;
        }
        self.known[usize::from(seq) % MAX_KNOWN] = Some(seq);
    }

    /// Takes a FEC packet that arrived.
    pub fn on_fec(&mut self, block: Arc<FecBlock>) {
        self.received += 1;
        self.waiting.push_back(block);
        if self.waiting.len() > MAX_WAITING {
            self.waiting.pop_front();
            self.discarded += 1;
        }
    }

    /// The next packet that can be recovered; it is known from then on.
    pub fn poll(&mut self) -> Option<Rtp> {
        let mut i = 0;
        while i < self.waiting.len() {
            let packets = self.waiting[i].packets();
            let mut missing = packets.iter().filter(|packet| !self.knows(packet.header.seq));
            let (first, second) = (missing.next().cloned(), missing.next());
            if second.is_some() {
                i += 1;
                continue;
            }
            self.waiting.remove(i);
            match first {
                Some(packet) => {
                    self.on_media(packet.header.seq);
                    return Some(packet);
                }
                None => self.discarded += 1,
            }
        }
        None
    }

    fn knows(&self, seq: u16) -> bool {
        self.known[usize::from(seq) % MAX_KNOWN] == Some(seq)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Kind, RtpPayload, VideoPart};
    use crate::rtp::RtpHeader;

    const QUARTER: Protection = Protection { key: 170, delta: 64, max_frames: 6 };

    fn packet(seq: u16) -> Rtp {
        let part = VideoPart { bytes: 1_000 + seq, ..VideoPart::default() };
        let header = RtpHeader { payload_type: 96, seq, ssrc: 7, ..RtpHeader::default() };
        Rtp { header, payload: RtpPayload::Video(part), kind: Kind::Video }
    }

    fn block_of_four() -> Arc<FecBlock> {
        let mut generator = FecGenerator::default();
        Arc::new(generator.add_frame(&QUARTER, false, (1..=4).map(packet)).remove(0))
    }

    /// Blocks made from `frames` frames of `packets` packets: numbers of media and FEC packets in each.
    fn blocks(protection: Protection, key: bool, packets: u16, frames: u16) -> Vec<(usize, usize)> {
        let mut generator = FecGenerator::default();
        let mut blocks = Vec::new();
        let mut media = 0;
        for frame in 0..frames {
            let seqs = frame * packets..(frame + 1) * packets;
            media += usize::from(packets);
            let fec = generator.add_frame(&protection, key, seqs.map(packet));
            if !fec.is_empty() {
                blocks.push((media, fec.len()));
                media = 0;
            }
        }
        blocks
    }

    /// One FEC packet for two media packets is 128/256, 64 above the wanted rate; for four it is 64/256.
    #[test]
    fn a_block_grows_until_its_fec_is_close_to_the_wanted_rate() {
        assert_eq!(blocks(QUARTER, false, 2, 6), [(4, 1); 3]);
        // 256/256 and 128/256 and 85/256: the third is 21 above
        assert_eq!(blocks(QUARTER, false, 1, 6), [(3, 1); 2]);
        // 20 x 170 / 256 = 13.3
        assert_eq!(blocks(QUARTER, true, 20, 1), [(20, 13)]);
    }

    #[test]
    fn a_block_ends_with_its_last_frame_whatever_its_rate_of_fec() {
        assert_eq!(blocks(Protection { delta: 10, ..QUARTER }, false, 1, 12), [(5, 1); 2]);
        let short = Protection { delta: 10, max_frames: 2, ..QUARTER };
        assert_eq!(blocks(short, false, 1, 4), [(2, 1); 2]);
    }

    fn protected(delta: u8) -> Protection {
        Protection { key: 255, delta, max_frames: 6 }
    }

    /// Three packets with 128/256 of protection are no full block, because 4 + 1 packets are the minimum above
    /// 80/256. Then the protection falls: 6 x 64 / 256 = 1.5, which libwebrtc rounds to 2. Or it rises:
    /// 6 x 240 / 256 = 5.6. Or a key frame comes: 6 x 255 / 256 = 6.
    #[test]
    fn in_chromium_156_a_block_has_the_newest_protection_and_that_of_its_key_frame() {
        let fec = |rates, before, (after, key)| {
            let mut generator = FecGenerator::new(Masks::Listed, rates);
            let first = generator.add_frame(&protected(before), false, (0..3).map(packet));
            assert!(first.is_empty());
            generator.add_frame(&protected(after), key, (3..6).map(packet)).len()
        };
        let newest = |after, key| fec(Rates::Newest, 128, (after, key));
        assert_eq!([newest(64, false), newest(240, false), newest(64, true)], [2, 6, 6]);
        assert_eq!(fec(Rates::AtStart, 128, (240, false)), 3);
    }

    /// A block that is open when the protection ends gets no FEC.
    #[test]
    fn in_chromium_156_a_block_without_protection_is_dropped() {
        let mut generator = FecGenerator::new(Masks::Listed, Rates::Newest);
        assert!(generator.add_frame(&protected(128), false, (0..3).map(packet)).is_empty());
        let none = Protection { key: 0, delta: 0, max_frames: 6 };
        assert!(generator.add_frame(&none, false, (3..4).map(packet)).is_empty());
        assert!(!generator.wants(&none, false));
    }

    #[test]
    fn one_lost_packet_of_four_is_recovered() {
        let fec = block_of_four();
        for lost in 1..=4 {
            let mut decoder = FecDecoder::default();
            for seq in (1..=4).filter(|seq| *seq != lost) {
                decoder.on_media(seq);
            }
            decoder.on_fec(fec.clone());
            assert_eq!(decoder.poll(), Some(packet(lost)));
            assert_eq!((decoder.poll(), decoder.discarded), (None, 0));
        }
    }

    #[test]
    fn two_lost_packets_of_four_are_recovered_only_after_one_is_retransmitted() {
        let fec = block_of_four();
        let mut decoder = FecDecoder::default();
        decoder.on_media(1);
        decoder.on_media(4);
        decoder.on_fec(fec);
        assert_eq!(decoder.poll(), None);
        decoder.on_media(3);
        assert_eq!(decoder.poll(), Some(packet(2)));
    }

    #[test]
    fn fec_is_not_kept_until_sequence_numbers_wrap() {
        let fec = block_of_four();
        let mut decoder = FecDecoder::default();
        decoder.on_media(1);
        decoder.on_media(2);
        decoder.on_fec(fec);
        // 3 and 4 never arrive; 65,536 packets later, other packets have these numbers.
        for seq in (5..=u16::MAX).chain(0..=3) {
            decoder.on_media(seq);
            assert_eq!(decoder.poll(), None, "at {seq}");
        }
        assert_eq!(decoder.discarded, 1);
    }

    #[test]
    fn fec_is_discarded_if_nothing_is_missing() {
        let fec = block_of_four();
        let mut decoder = FecDecoder::default();
        (1..=4).for_each(|seq| decoder.on_media(seq));
        decoder.on_fec(fec);
        assert_eq!((decoder.poll(), decoder.received, decoder.discarded), (None, 1, 1));
    }

    #[test]
    fn without_protection_no_packets_are_wanted() {
        let generator = FecGenerator::default();
        let none = Protection { key: 0, delta: 0, max_frames: 6 };
        assert!(!generator.wants(&none, true) && generator.wants(&QUARTER, false));
    }
}
