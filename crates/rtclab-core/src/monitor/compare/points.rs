//! The two points that are compared.

/// One of the two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first capture, or the inbound frames of a single one.
    A,
    /// The second capture, or the outbound frames of a single one.
    B,
}

/// How the two points were captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// In two captures, each with its own clock.
    TwoCaptures,
    /// In a single capture, opened as [`Side::A`], that states the direction of frames. It has one clock, and
    /// every packet is inbound before it is outbound.
    Directions,
}

impl Points {
    pub(super) fn captures(self) -> &'static [Side] {
        match self {
            Points::TwoCaptures => &[Side::A, Side::B],
            Points::Directions => &[Side::A],
        }
    }
}
