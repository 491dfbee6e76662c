//! States that the parts of receive-side control share.

/// How the detector sees the path, as 0, 1 and 2 in the trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Usage {
    #[default]
    Normal,
    Over,
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
