//! The DTLS 1.3 handshake, with one round trip for the client.
//!
//! Source: RFC 9147, sections 5 and 7; libwebrtc, `p2p/dtls/dtls_transport.cc` (timeout). When which part is
//! repeated or acknowledged was observed in calls of Chromium 156 that lost datagrams.

use super::work::Work;
use crate::packet::Dtls13;
use crate::units::Time;

/// Bounds of the first timeout, which is twice the round trip of the checks.
pub(super) const TIMEOUTS: (Time, Time) = (Time::from_millis(50), Time::from_secs(3));
/// Maximum number of records in an acknowledgement here.
const MAX_RECORDS: u8 = 32;
/// Maximum of the timeout, which doubles each time (RFC 9147, section 5.8.2; BoringSSL).
const MAX_TIMEOUT: Time = Time::from_secs(60);

/// One side of the handshake.
pub(super) struct Handshake {
    is_client: bool,
    /// Whether it may begin: the checks have succeeded, and the far end's fingerprint is known.
    begun: bool,
    /// Timeout of a flight that was sent once.
    first_timeout: Time,
    timeout: Time,
    /// Which of the two datagrams of the far end's first flight have arrived.
    arrived: [bool; 2],
    /// When the work on the far end's flight, or on the own key share, is done.
    ready: Option<Time>,
    flight: Flight,
    /// When the flight is repeated.
    repeat: Option<Time>,
    /// When the datagrams that arrived again are acknowledged.
    acknowledge: Option<Time>,
    /// Number of records that arrived again.
    copies: u8,
    /// Whether media may flow, as far as this side knows.
    pub(super) is_connected: bool,
}

/// What a side sends until it gets an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Flight {
    /// Nothing yet.
    None,
    /// The client's first flight.
    ClientHello,
    /// The server's flight.
    ServerHello,
    /// What is left of it when the client has acknowledged its first datagram.
    ServerFinished,
    /// The client's last flight.
    ClientFinished,
}

impl Flight {
    fn datagrams(self) -> Vec<Dtls13> {
        match self {
            Flight::None => Vec::new(),
            Flight::ClientHello => vec![Dtls13::ClientHello, Dtls13::ClientHelloEnd],
            Flight::ServerHello => vec![Dtls13::ServerHello, Dtls13::ServerFinished],
            Flight::ServerFinished => vec![Dtls13::ServerFinished],
            Flight::ClientFinished => vec![Dtls13::ClientFinished],
        }
    }
}

impl Handshake {
    pub(super) fn new(is_client: bool) -> Self {
        Handshake {
            is_client,
            begun: false,
            first_timeout: TIMEOUTS.0,
            timeout: TIMEOUTS.0,
            arrived: [false; 2],
            ready: None,
            flight: Flight::None,
            repeat: None,
            acknowledge: None,
            copies: 0,
            is_connected: false,
        }
    }

    /// Begins; `rtt` was measured by the checks.
    pub(super) fn begin(&mut self, now: Time, rtt: Option<Time>, work: &Work) {
        if self.begun {
            return;
        }
        self.begun = true;
        let (min, max) = TIMEOUTS;
        self.first_timeout = rtt.map_or(min, |rtt| (rtt * 2).clamp(min, max));
        if self.is_client {
            self.ready = Some(now + work.hello);
        } else {
            self.answer_hello(now, work);
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        [self.ready, self.acknowledge, self.repeat].into_iter().flatten().min()
    }

    /// The datagrams that leave now.
    pub(super) fn poll(&mut self, now: Time) -> Vec<Dtls13> {
        let mut datagrams = Vec::new();
        if self.acknowledge.take_if(|at| *at <= now).is_some() {
            datagrams.push(Dtls13::Acknowledgement { records: self.copies, last: false });
        }
        if self.ready.take_if(|at| *at <= now).is_some() {
            self.flight = match (self.is_client, self.flight) {
                (true, Flight::None) => Flight::ClientHello,
                (true, _) => Flight::ClientFinished,
                (false, _) => Flight::ServerHello,
            };
            // The client has verified the server's flight, which its last one acknowledges.
            if self.flight == Flight::ClientFinished {
                self.is_connected = true;
                self.acknowledge = None;
            }
            self.timeout = self.first_timeout;
            self.repeat = Some(now + self.timeout);
            datagrams.extend(self.flight.datagrams());
        } else if self.repeat.is_some_and(|at| at <= now) {
            self.timeout = (self.timeout * 2).min(MAX_TIMEOUT);
            self.repeat = Some(now + self.timeout);
            datagrams.extend(self.flight.datagrams());
        }
        datagrams
    }

    /// Handles a datagram from the far end; returns the answer to be sent at once.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        datagram: Dtls13,
        work: &Work,
    ) -> Option<Dtls13> {
        match (self.is_client, datagram) {
            (false, Dtls13::ClientHello) => self.on_hello(now, 0, work),
            (false, Dtls13::ClientHelloEnd) => self.on_hello(now, 1, work),
            (false, Dtls13::ClientFinished) if self.flight != Flight::None => {
                (self.repeat, self.acknowledge) = (None, None);
                self.is_connected = true;
                self.copies = (self.copies + 1).min(MAX_RECORDS);
                return Some(Dtls13::Acknowledgement { records: self.copies, last: true });
            }
            (false, Dtls13::Acknowledgement { .. }) if self.flight == Flight::ServerHello => {
                self.flight = Flight::ServerFinished;
            }
            (true, Dtls13::ServerHello) => self.on_server_hello(now),
            // Without the ServerHello, the client has no keys to read this.
            (true, Dtls13::ServerFinished) => self.arrived[1] |= self.arrived[0],
            (true, Dtls13::Acknowledgement { last: true, .. }) => self.repeat = None,
            _ => {}
        }
        if self.is_client && self.flight == Flight::ClientHello && self.arrived == [true; 2] {
            // Until then the ClientHello is repeated, also if a part of the answer has arrived.
            self.repeat = None;
            self.ready = self.ready.or(Some(now + work.finish));
        }
        None
    }

    fn on_server_hello(&mut self, now: Time) {
        let is_copy = std::mem::replace(&mut self.arrived[0], true);
        if is_copy && self.flight == Flight::ClientHello {
            // One record in clear and one that is encrypted.
            self.on_copy(now, 2);
        }
    }

    fn on_hello(&mut self, now: Time, part: usize, work: &Work) {
        if std::mem::replace(&mut self.arrived[part], true) && self.flight != Flight::None {
            self.on_copy(now, 1);
        }
        self.answer_hello(now, work);
    }

    /// The server answers when it has the whole ClientHello. It keeps an early one until it may begin.
    fn answer_hello(&mut self, now: Time, work: &Work) {
        if self.begun && self.arrived == [true; 2] && self.flight == Flight::None {
            self.ready = self.ready.or(Some(now + work.answer_hello));
        }
    }

    /// A copy of what has arrived before says that an answer was lost. It is acknowledged after a quarter of the
    /// timeout, so that the far end repeats only what is missing.
    fn on_copy(&mut self, now: Time, records: u8) {
        if !self.is_connected {
            self.copies =
                if self.is_client { records } else { (self.copies + records).min(MAX_RECORDS) };
            self.acknowledge = self.acknowledge.or(Some(now + Time(self.timeout.0 / 4)));
        }
    }
}
