//! The DTLS 1.2 handshake of a browser with a server, with certificates on both sides: two round trips for the client.
//!
//! A browser sends the ClientHello of DTLS 1.3, in two datagrams. Source: RFC 6347, section 4.2; when Janus 1.1.2 and
//! rtclab's SFU begin and answer was observed in the captures of meetings of three.

use super::handshake::TIMEOUTS;
use super::work::Work;
use crate::endpoint::config::ServerKind;
use crate::packet::{Dtls13, DtlsFlight};
use crate::units::Time;

/// First timeout of a server (RFC 6347, section 4.2.4.1); OpenSSL has the same.
const SERVER_TIMEOUT: Time = Time::from_secs(1);
const MAX_TIMEOUT: Time = Time::from_secs(60);

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Part {
    /// Of a ClientHello that offers DTLS 1.3.
    Hello(Dtls13),
    /// A whole flight.
    Flight(DtlsFlight),
}

/// One side of the handshake. The client sends the flights 0 and 2, the server 1 and 3.
pub(super) struct Handshake12 {
    is_client: bool,
    /// Which SFU this side is; `None` for a browser.
    server: Option<ServerKind>,
    begun: bool,
    /// Which of the two datagrams of a browser's ClientHello have arrived.
    hello: [bool; 2],
    /// The next flight, and when the work on it is done.
    next: Option<(Time, u8)>,
    /// The last flight that was sent, and when it is repeated.
    sent: Option<u8>,
    repeat: Option<Time>,
    first_timeout: Time,
    timeout: Time,
    pub(super) is_connected: bool,
}

impl Handshake12 {
    pub(super) fn new(is_client: bool, server: Option<ServerKind>) -> Self {
        Handshake12 {
            is_client,
            server,
            begun: false,
            hello: [false; 2],
            next: None,
            sent: None,
            repeat: None,
            first_timeout: SERVER_TIMEOUT,
            timeout: SERVER_TIMEOUT,
            is_connected: false,
        }
    }

    /// Begins; `rtt` was measured by the checks.
    pub(super) fn begin(&mut self, now: Time, rtt: Option<Time>, work: &Work) {
        if std::mem::replace(&mut self.begun, true) {
            return;
        }
        let (min, max) = TIMEOUTS;
        if self.server.is_none() {
            self.first_timeout = rtt.map_or(min, |rtt| (rtt * 2).clamp(min, max));
        }
        if self.is_client {
            self.next = Some((now + work.hello, 0));
        }
        self.answer_hello(now, work);
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.next.map(|(at, _)| at).into_iter().chain(self.repeat).min()
    }

    /// The datagrams that leave now.
    pub(super) fn poll(&mut self, now: Time) -> Vec<Part> {
        if let Some((_, flight)) = self.next.take_if(|(at, _)| *at <= now) {
            self.sent = Some(flight);
            self.timeout = self.first_timeout;
        } else if self.repeat.is_some_and(|at| at <= now) {
            self.timeout = (self.timeout * 2).min(MAX_TIMEOUT);
        } else {
            return Vec::new();
        }
        let Some(flight) = self.sent else { return Vec::new() };
        // Nothing answers the last flight. It is sent again when the one before it comes again.
        self.is_connected |= DtlsFlight(flight) == DtlsFlight::LAST;
        self.repeat = (DtlsFlight(flight) != DtlsFlight::LAST).then_some(now + self.timeout);
        match (flight, self.server) {
            (0, None) => {
                vec![Part::Hello(Dtls13::ClientHello), Part::Hello(Dtls13::ClientHelloEnd)]
            }
            _ => vec![Part::Flight(DtlsFlight(flight))],
        }
    }

    /// Handles a part of a browser's ClientHello. Janus loses what comes before it begins; rtclab's SFU keeps it.
    pub(super) fn on_hello(&mut self, now: Time, datagram: Dtls13, work: &Work) {
        if !self.begun && self.server == Some(ServerKind::Janus) {
            return;
        }
        match datagram {
            Dtls13::ClientHello => self.hello[0] = true,
            Dtls13::ClientHelloEnd => self.hello[1] = true,
            _ => {}
        }
        self.answer_hello(now, work);
    }

    fn answer_hello(&mut self, now: Time, work: &Work) {
        if self.begun && self.hello == [true; 2] {
            self.hello = [false; 2];
            self.on_flight(now, DtlsFlight(0), work);
        }
    }

    /// Handles a flight of the far end. A flight that was answered before is answered again.
    pub(super) fn on_flight(&mut self, now: Time, DtlsFlight(flight): DtlsFlight, work: &Work) {
        let is_of_client = flight % 2 == 0;
        if !self.begun || is_of_client == self.is_client {
            return;
        }
        let (is_last, answer) = (DtlsFlight(flight) == DtlsFlight::LAST, flight + 1);
        match self.sent {
            Some(sent) if is_last && answer == sent + 2 => {
                (self.is_connected, self.repeat) = (true, None);
            }
            None if flight == 0 => self.answer(now, answer, work),
            Some(sent) if !is_last && (sent == answer || sent + 2 == answer) => {
                self.answer(now, answer, work);
            }
            _ => {}
        }
    }

    fn answer(&mut self, now: Time, flight: u8, work: &Work) {
        let wait = if flight == 1 { work.answer_hello } else { work.finish };
        self.next = self.next.or(Some((now + wait, flight)));
        self.repeat = None;
    }
}
