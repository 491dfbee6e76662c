//! States that the parts of receive-side control tell each other.

/// What the detector says of the path; in the trace 0, 1 and 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Usage {
    #[default]
    Normal,
    Over,
    Under,
}

/// What is known of the largest rate that the path carries; in the trace 0, 1 and 2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Region {
    #[default]
    MaxUnknown,
    AboveMax,
    NearMax,
}
