//! The two points that are compared.

/// One of the two points.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first capture, or what comes in.
    A,
    /// The second capture, or what goes out.
    B,
}

/// Where the two points are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Points {
    /// In two captures, each with a clock of its own.
    TwoCaptures,
    /// In capture [`Side::A`], which tells frames that come in from those that go out: one clock, and every
    /// packet comes in first.
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
