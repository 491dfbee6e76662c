//! States that the parts of a control share.

/// How the detector sees the path; receive-side controls show it as 0, 1 and 2 in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Usage {
    /// The queue neither grows nor shrinks.
    #[default]
    Normal,
    /// The queue grows.
    Over,
    /// The queue shrinks.
    Under,
}

/// What is known about the largest rate that the path carries, as 0, 1 and 2 in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Region {
    #[default]
    MaxUnknown,
    AboveMax,
    NearMax,
}
