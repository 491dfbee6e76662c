//! The ECN codepoint of RTP packets.

use crate::cc::PacketReport;
use crate::packet::Ecn;
use crate::stack::FeedbackKind;

/// What reports have told about ECN on the path. Only RFC 8888 reports codepoints, so without it nothing is known.
///
/// The control says which codepoint it wants, and the sender looks whether the path keeps it. Before the first report
/// all packets are ECT(1), also for a control that does not answer marks, such as goog-cc. Source: libwebrtc f3ae3eb,
/// `rtp_transport_controller_send.cc`. It would begin again on another route of ICE, which no call here changes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EcnPath {
    /// No report has come.
    #[default]
    Unreported,
    /// No packet that left ECN-capable has been reported as Not-ECT.
    Kept,
    /// One has, so that marks may be lost too: all packets leave as Not-ECT from now on.
    Bleached,
}

impl EcnPath {
    /// The codepoint that a packet leaves with if the control wants this one.
    pub(super) fn codepoint(self, feedback: FeedbackKind, wanted: Ecn) -> Ecn {
        match self {
            EcnPath::Unreported
                if feedback == FeedbackKind::Rfc8888 && wanted == Ecn::NotCapable =>
            {
                Ecn::Ect1
            }
            EcnPath::Unreported | EcnPath::Kept => wanted,
            EcnPath::Bleached => Ecn::NotCapable,
        }
    }

    /// Takes the packets of a report that has codepoints.
    pub(super) fn on_reports(&mut self, reports: &[PacketReport]) {
        let is_bleached = |report: &PacketReport| {
            report.sent.ecn != Ecn::NotCapable && report.ecn == Some(Ecn::NotCapable)
        };
        if reports.iter().any(is_bleached) {
            *self = EcnPath::Bleached;
        } else if *self == EcnPath::Unreported && !reports.is_empty() {
            *self = EcnPath::Kept;
        }
    }
}
