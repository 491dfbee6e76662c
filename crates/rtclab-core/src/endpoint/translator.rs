//! An end of a connection that passes everything on unchanged, both ways: a switching MCU of 2013.

use super::config::{Addresses, Session};
use super::event::EndpointEvent;
use super::outbox::Outbox;
use super::setup::{Setup, Step};
use crate::packet::{Address, Datagram, Past, Signal, Transmit};
use crate::units::Time;

/// An end of a connection that passes RTP and RTCP on as they are (RFC 7667, section 3.2.1: transport translator).
///
/// It adds nothing of its own, so requests and reports of a receiver go to the original sender.
pub struct Translator {
    session: Session,
    setup: Setup,
    /// When the set-up is due, as of the last call that concerned it.
    next_setup: Option<Time>,
    begun: bool,
    outbox: Outbox,
}

impl Translator {
    /// Creates an end whose connection has not started.
    pub fn new(addresses: Addresses, session: Session) -> Self {
        Translator {
            setup: Setup::new(&session, addresses.relay.is_some()),
            session,
            next_setup: None,
            begun: false,
            outbox: Outbox::new(addresses, None),
        }
    }

    /// When to call [`Translator::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let due = if self.begun { self.next_setup } else { Some(self.session.start) };
        due.filter(|at| *at < self.session.end)
    }

    /// The next datagram to send.
    pub fn poll_transmit(&mut self, _now: Time) -> Option<Transmit> {
        self.outbox.poll()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.outbox.poll_signal().map(EndpointEvent::Signal)
    }

    /// Handles everything that is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.begun = true;
        self.setup.handle_timeout(now, &mut self.outbox);
        self.next_setup = self.setup.poll_timeout();
    }

    /// Handles a datagram from the far end. Media and RTCP are ignored here: the node hands them to
    /// [`Translator::pass_on`] of the ends that pass them on.
    pub fn handle_datagram(&mut self, now: Time, from: Address, datagram: &Datagram) {
        if now >= self.session.end {
            return;
        }
        self.setup.on_content(now, from, &datagram.content, &mut self.outbox);
        self.next_setup = self.setup.poll_timeout();
    }

    /// Learns that the far end was at the signalling server before this one, which therefore calls.
    pub fn handle_present(&mut self, now: Time) {
        self.setup.on_present(now, &mut self.outbox);
        self.next_setup = self.setup.poll_timeout();
    }

    /// Handles what the far end says over signalling.
    pub fn handle_signal(&mut self, now: Time, signal: Signal) {
        if now < self.session.end {
            self.setup.on_signal(now, signal, &mut self.outbox);
            self.next_setup = self.setup.poll_timeout();
        }
    }

    /// Passes on what arrived at another end of this node.
    pub fn pass_on(&mut self, now: Time, past: Past, datagram: &Datagram) {
        if self.setup.step == Step::DtlsConnected && now < self.session.end {
            self.outbox.forward(past, datagram.clone());
        }
    }
}
