//! The ECN codepoint of RTP packets.

use crate::cc::PacketReport;
use crate::packet::Ecn;
use crate::stack::FeedbackKind;

/// What reports have told about ECN on the path.
///
/// The control says which codepoint it wants. The sender looks whether the path keeps it, and whether marks come back:
/// only RFC 8888 reports codepoints, and a sender that hears of no marks must not ask for them (RFC 9331, section 4.1).
/// A control that answers no marks, such as goog-cc, wants none, and then Chromium 156 sends none, also before the first
/// report. Source: libwebrtc f3ae3eb, `rtp_transport_controller_send.cc`; it would begin again on another route of ICE,
/// which no call here changes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum EcnPath {
    /// No packet that left ECN-capable has been reported as Not-ECT.
    #[default]
    Kept,
    /// One has, so that marks may be lost too: all packets leave as Not-ECT from now on.
    Bleached,
}

impl EcnPath {
    /// The codepoint that a packet leaves with if the control wants this one.
    pub(super) fn codepoint(self, feedback: FeedbackKind, wanted: Ecn) -> Ecn {
        match (self, feedback) {
            (EcnPath::Kept, FeedbackKind::Rfc8888) => wanted,
            _ => Ecn::NotCapable,
        }
    }

    /// Takes the packets of a report that has codepoints.
    pub(super) fn on_reports(&mut self, reports: &[PacketReport]) {
        let is_bleached = |report: &PacketReport| {
            report.sent.ecn != Ecn::NotCapable && report.ecn == Some(Ecn::NotCapable)
        };
        if reports.iter().any(is_bleached) {
            *self = EcnPath::Bleached;
        }
    }
}
