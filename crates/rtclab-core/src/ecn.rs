//! Explicit congestion notification: the two bits of an IP header by which a queue marks packets instead of
//! dropping them.

/// The ECN field of an IP header. Source: RFC 3168, section 5; RFC 9331 for ECT(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotCapable = 0,
    /// ECT(1): low latency, low loss, scalable throughput.
    Ect1 = 1,
    /// ECT(0): classic congestion control.
    Ect0 = 2,
    /// Congestion experienced.
    CongestionExperienced = 3,
}

impl Ecn {
    /// All codepoints, in the order of their bits.
    pub const ALL: [Ecn; 4] = [Ecn::NotCapable, Ecn::Ect1, Ecn::Ect0, Ecn::CongestionExperienced];

    /// The codepoint in the lowest two bits of `field`. Other bits are ignored.
    pub const fn from_bits(field: u8) -> Self {
        match field & 3 {
            0 => Ecn::NotCapable,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::CongestionExperienced,
        }
    }

    /// The two bits.
    pub const fn bits(self) -> u8 {
        self as u8
    }

    /// Name used in traces.
    pub const fn name(self) -> &'static str {
        match self {
            Ecn::NotCapable => "not-ect",
            Ecn::Ect1 => "ect1",
            Ecn::Ect0 => "ect0",
            Ecn::CongestionExperienced => "ce",
        }
    }

    /// Whether a queue may mark a packet with this codepoint, which a marked packet is, too (RFC 3168, section 5).
    pub const fn is_capable(self) -> bool {
        !matches!(self, Ecn::NotCapable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codepoints_have_the_bits_of_rfc_3168_and_other_bits_of_their_byte_are_ignored() {
        for (ecn, bits) in Ecn::ALL.into_iter().zip([0b00, 0b01, 0b10, 0b11]) {
            assert_eq!(ecn.bits(), bits);
            assert_eq!(Ecn::from_bits(0b1011_1000 | bits), ecn);
        }
    }
}
