//! Which ECN codepoint a control sends with.

use super::control::PacketReport;
use crate::ecn::Ecn;

/// A codepoint that is sent until feedback shows that marks would not come back.
///
/// libwebrtc f3ae3eb62e (`call/rtp_transport_controller_send.cc`) stops for good when one packet arrives as
/// Not-ECT, because something on the path clears the field. Feedback without a field for ECN is no different: whoever
/// does not hear marks must not ask for them (RFC 9331, section 4.2).
#[derive(Clone, Copy, Debug)]
pub(super) struct EcnUse(Ecn);

impl EcnUse {
    /// Sends with this codepoint at first.
    pub(super) fn new(codepoint: Ecn) -> Self {
        EcnUse(codepoint)
    }

    /// The codepoint for packets that leave now.
    pub(super) fn codepoint(self) -> Ecn {
        self.0
    }

    /// Looks at how packets arrived.
    pub(super) fn on_reports(&mut self, reports: &[PacketReport]) {
        let is_deaf = |report: &PacketReport| {
            report.received.is_some() && report.ecn.is_none_or(|arrived| arrived == Ecn::NotCapable)
        };
        if self.0 != Ecn::NotCapable && reports.iter().any(is_deaf) {
            self.0 = Ecn::NotCapable;
        }
    }
}
