//! ECN of a sender: what it asks for, the codepoints of its segments, and what acknowledgements say about marks.

use crate::ecn::Ecn;
use crate::packet::EcnFlags;
use crate::tcp::Segment;
use crate::tcp::algorithm::EcnUse;

/// What the sender knows about ECN on its connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct SenderEcn {
    uses: EcnUse,
    /// Classic: whether the next new segment tells the receiver that the window has been reduced.
    tells_reduction: bool,
    /// Accurate: the ACE field up to which marks have been counted.
    ace: EcnFlags,
}

impl SenderEcn {
    /// ECN as the congestion control wants it.
    pub(super) fn new(uses: EcnUse) -> Self {
        SenderEcn { uses, tells_reduction: false, ace: EcnFlags::ace(0) }
    }

    /// Whether the receiver counts marks.
    pub(super) fn is_accurate(&self) -> bool {
        matches!(self.uses, EcnUse::Accurate(_))
    }

    /// The flags of an opening. As in Linux (`tcp_ecn_fallback`), one that is sent again does not ask any more, because
    /// a firewall may have dropped the first for its flags (RFC 3168, 6.1.1.1).
    pub(super) fn ask(&mut self, is_first: bool) -> EcnFlags {
        if !is_first {
            self.uses = EcnUse::None;
        }
        match self.uses {
            EcnUse::None => EcnFlags::NONE,
            EcnUse::Classic => EcnFlags::ASK_CLASSIC,
            EcnUse::Accurate(_) => EcnFlags::ASK_ACCURATE,
        }
    }

    /// Handles the answer to the opening. An answer of another kind means that ECN is not used.
    pub(super) fn on_answer(&mut self, answer: &Segment) {
        let accepted = match self.uses {
            EcnUse::None => false,
            EcnUse::Classic => answer.ecn == EcnFlags::ECHO,
            // RFC 9768, table 2: the four codepoints with which the opening may have arrived.
            EcnUse::Accurate(_) => matches!(answer.ecn.bits(), 0b010 | 0b011 | 0b100 | 0b110),
        };
        if !accepted {
            self.uses = EcnUse::None;
        }
    }

    /// Sets the flags of a data segment; returns its codepoint. With accurate ECN retransmissions are ECN-capable too,
    /// as in Linux.
    pub(super) fn mark_outgoing(&mut self, segment: &mut Segment, is_new: bool) -> Ecn {
        match self.uses {
            EcnUse::Classic if is_new => {
                if std::mem::take(&mut self.tells_reduction) {
                    segment.ecn = EcnFlags::REDUCED;
                }
                Ecn::Ect0
            }
            EcnUse::None | EcnUse::Classic => Ecn::NotCapable,
            EcnUse::Accurate(codepoint) => {
                // The acknowledgements that it receives are not counted.
                segment.ecn = EcnFlags::ace(0);
                codepoint
            }
        }
    }

    /// The next new segment tells the receiver that the window has been reduced, whatever the reason.
    pub(super) fn on_reduction(&mut self) {
        self.tells_reduction = self.uses == EcnUse::Classic;
    }

    /// How many of the `delivered` segments of an acknowledgement were marked. With classic ECN, one if the receiver
    /// has seen any.
    pub(super) fn marks(&mut self, ack: &Segment, delivered: u32) -> u32 {
        match self.uses {
            EcnUse::None => 0,
            EcnUse::Classic => u32::from(ack.ecn.has(EcnFlags::ECHO)),
            // It may be older than one that has arrived before.
            EcnUse::Accurate(_) if delivered == 0 => 0,
            EcnUse::Accurate(_) => {
                let counted = ack.ecn.marks_since(self.ace);
                self.ace = ack.ecn;
                // If the counter has gone round, because many acknowledgements were lost, these are too few. Linux counts
                // in this way with `tcp_ecn_unsafe_cep`, which the authors of Prague advise.
                counted.min(delivered)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::SegmentKind;
    use crate::units::Time;

    fn ack(bits: u8) -> Segment {
        let mut segment = Segment::new(0, SegmentKind::Ack, Time::ZERO);
        segment.ecn = EcnFlags::from_bits(bits);
        segment
    }

    #[test]
    fn the_field_counts_marks_modulo_eight_and_no_more_than_arrived() {
        let mut ecn = SenderEcn::new(EcnUse::Accurate(Ecn::Ect1));
        // From five on: the field, the segments delivered, the marks among them.
        let acks = [
            (5, 2, 0),
            (6, 2, 1),
            // Two marks, 8 mod 8.
            (0, 2, 2),
            // Not more than arrived; and the field is where it is.
            (7, 3, 3),
            (7, 2, 0),
            // Back by one is seven forward, and there can be two.
            (6, 2, 2),
            (7, 7, 1),
            // Nothing has arrived: it may be old.
            (3, 0, 0),
            (1, 2, 2),
            // Of 20, 3, 11 or 19: the smallest number.
            (4, 20, 3),
            (4, 15, 0),
        ];
        for (index, (bits, delivered, marks)) in acks.into_iter().enumerate() {
            assert_eq!(ecn.marks(&ack(bits), delivered), marks, "acknowledgement {index}");
        }
    }

    #[test]
    fn a_classic_echo_is_one_mark_and_without_agreement_there_is_none() {
        for bits in 0..8 {
            let echoes = u32::from(bits & 1);
            assert_eq!(SenderEcn::new(EcnUse::Classic).marks(&ack(bits), 2), echoes);
            assert_eq!(SenderEcn::new(EcnUse::None).marks(&ack(bits), 2), 0);
        }
    }
}
