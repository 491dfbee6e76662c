//! Call set-up until media may flow: signalling, connectivity checks and DTLS; consent checks afterwards.

mod bursts;
mod checks;
mod handshake;
mod handshake12;
mod page;
mod reflexive;
pub(crate) mod work;

use super::config::{Negotiation, Session};
use super::event::EndpointEvent;
use super::outbox::Outbox;
use crate::packet::{Address, Allocation, Content, Dtls13, DtlsFlight, Signal, Signalling, Stun};
use crate::units::Time;
use bursts::BurstSetup;
use page::PageSetup;

/// Steps of the set-up of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Nothing has happened yet.
    New,
    /// The descriptions have been exchanged.
    Signalled,
    /// A check was answered.
    IceConnected,
    /// Both sides have finished the handshake, as far as this side knows.
    DtlsConnected,
}

impl Step {
    /// The next step, and the event that reports it.
    pub(super) const fn next(self) -> (Step, EndpointEvent) {
        match self {
            Step::New => (Step::Signalled, EndpointEvent::Signalled),
            Step::Signalled => (Step::IceConnected, EndpointEvent::IceConnected),
            Step::IceConnected | Step::DtlsConnected => {
                (Step::DtlsConnected, EndpointEvent::DtlsConnected)
            }
        }
    }
}

/// Set-up of one end of a connection.
pub(super) struct Setup {
    pub(super) step: Step,
    /// Round-trip time of the last answered check.
    pub(super) check_rtt: Option<Time>,
    kind: Procedure,
}

enum Procedure {
    Bursts(BurstSetup),
    Page(Box<PageSetup>),
}

impl Setup {
    pub(super) fn new(session: &Session, relayed: bool) -> Self {
        let kind = match session.negotiation {
            Negotiation::Bursts => Procedure::Bursts(BurstSetup::new(session, relayed)),
            Negotiation::Page { seed, pace, browser, described, server } => {
                let behind_nat = session.behind_nat && !relayed;
                Procedure::Page(Box::new(
                    PageSetup::new((seed, pace), browser, described, relayed)
                        .behind_nat(behind_nat)
                        .with_server(server),
                ))
            }
        };
        Setup { step: Step::New, check_rtt: None, kind }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        match &self.kind {
            Procedure::Bursts(bursts) => bursts.poll_timeout(),
            Procedure::Page(page) => page.poll_timeout(),
        }
    }

    /// Whether this side sent the offer.
    pub(super) fn offered(&self) -> bool {
        match &self.kind {
            Procedure::Bursts(bursts) => bursts.offered(),
            Procedure::Page(page) => page.offered(),
        }
    }

    /// Whether media from the far end can be decrypted. A page's browser drops what arrives before it has
    /// finished its handshake.
    pub(super) fn decrypts(&self) -> bool {
        matches!(self.kind, Procedure::Bursts(_)) || self.step == Step::DtlsConnected
    }

    /// Whether nothing is left to be said through a page.
    pub(super) fn is_over(&self) -> bool {
        match &self.kind {
            Procedure::Bursts(_) => true,
            Procedure::Page(page) => page.is_over(),
        }
    }

    /// How long after the handshake the encoder takes pictures.
    pub(super) fn encoder_start(&self) -> Time {
        match &self.kind {
            Procedure::Bursts(_) => Time::ZERO,
            Procedure::Page(page) => page.encoder_start(),
        }
    }

    /// How long after it was decoded the page hears of the first picture.
    pub(super) fn show_delay(&self) -> Time {
        match &self.kind {
            Procedure::Bursts(_) => Time::ZERO,
            Procedure::Page(page) => page.show_delay(),
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time, outbox: &mut Outbox) {
        match &mut self.kind {
            Procedure::Bursts(bursts) => bursts.handle_timeout(now, outbox),
            Procedure::Page(page) => page.handle_timeout(now, outbox),
        }
        self.update();
    }

    /// Handles what arrives, if it belongs to the set-up.
    pub(super) fn on_content(
        &mut self,
        now: Time,
        from: Address,
        content: &Content,
        outbox: &mut Outbox,
    ) {
        match content {
            Content::Stun(stun) => self.on_stun(now, from, *stun, outbox),
            Content::Dtls(flight) => self.on_dtls(now, *flight, outbox),
            Content::Dtls13(datagram) => self.on_dtls13(now, *datagram, outbox),
            Content::Signalling(segment) => self.on_signalling(now, *segment, outbox),
            Content::Allocation(answer) => self.on_allocation(now, *answer, outbox),
            Content::Binding => self.on_binding(outbox),
            Content::Rtp(_)
            | Content::Rtcp(_)
            | Content::Tcp(_)
            | Content::Udp(_)
            | Content::WebSocket(_)
            | Content::Turn(_) => {}
        }
    }

    /// Handles a segment of the far end's description.
    fn on_signalling(&mut self, now: Time, segment: Signalling, outbox: &mut Outbox) {
        if let Procedure::Bursts(bursts) = &mut self.kind {
            bursts.on_signalling(now, segment, outbox);
        }
        self.update();
    }

    /// Handles the news that the far end was at the signalling server before this one, which therefore calls.
    pub(super) fn on_present(&mut self, now: Time, outbox: &mut Outbox) {
        if let Procedure::Page(page) = &mut self.kind {
            page.on_present(now, outbox);
        }
    }

    /// Handles what the far end says over the signalling server.
    pub(super) fn on_signal(&mut self, now: Time, signal: Signal, outbox: &mut Outbox) {
        if let Procedure::Page(page) = &mut self.kind {
            page.on_signal(now, signal.kind, outbox);
        }
        self.update();
    }

    /// Handles a check of the far end, or the answer to an own one.
    fn on_stun(&mut self, now: Time, from: Address, stun: Stun, outbox: &mut Outbox) {
        if !stun.success {
            outbox.send_to(from);
        }
        match &mut self.kind {
            Procedure::Bursts(bursts) => bursts.on_stun(now, stun, outbox),
            Procedure::Page(page) => page.on_stun(now, stun, outbox),
        }
        self.update();
    }

    /// Handles a flight of DTLS 1.2.
    fn on_dtls(&mut self, now: Time, flight: DtlsFlight, outbox: &mut Outbox) {
        match &mut self.kind {
            Procedure::Bursts(bursts) => bursts.on_dtls(now, flight, outbox),
            Procedure::Page(page) => page.on_flight(now, flight),
        }
        self.update();
    }

    /// Handles a datagram of DTLS 1.3.
    fn on_dtls13(&mut self, now: Time, datagram: Dtls13, outbox: &mut Outbox) {
        if let Procedure::Page(page) = &mut self.kind {
            page.on_dtls(now, datagram, outbox);
        }
        self.update();
    }

    /// The step at which others may subscribe to what this end of a server receives; `None` if nobody waits for it.
    pub(super) fn publishes_at(&self) -> Option<Step> {
        match &self.kind {
            Procedure::Bursts(_) => None,
            Procedure::Page(page) => page.publishes_at(),
        }
    }

    /// Handles the news that this end of a server may offer what another one receives.
    pub(super) fn on_published(&mut self, outbox: &mut Outbox) {
        if let Procedure::Page(page) = &mut self.kind {
            page.on_published(outbox);
        }
    }

    fn on_allocation(&mut self, now: Time, answer: Allocation, outbox: &mut Outbox) {
        match &mut self.kind {
            Procedure::Bursts(bursts) => bursts.on_allocation(now, answer, outbox),
            Procedure::Page(page) => page.on_allocation(now, answer, outbox),
        }
        self.update();
    }

    /// Handles the answer of the STUN server.
    fn on_binding(&mut self, outbox: &mut Outbox) {
        if let Procedure::Page(page) = &mut self.kind {
            page.on_binding(outbox);
        }
    }

    fn update(&mut self) {
        (self.step, self.check_rtt) = match &self.kind {
            Procedure::Bursts(bursts) => (bursts.step, bursts.check_rtt),
            Procedure::Page(page) => (page.step(), page.check_rtt()),
        };
    }
}
