//! The DTLS 1.3 handshake, with one round trip for the client.
//!
//! Source: RFC 9147, section 5; libwebrtc, `p2p/dtls/dtls_transport.cc` (timeout).

use super::work::Work;
use crate::packet::Dtls13;
use crate::units::Time;

/// Bounds of the first timeout, which is twice the round trip of the checks.
const TIMEOUTS: (Time, Time) = (Time::from_millis(50), Time::from_secs(3));
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
    /// What is sent when the work on the far end's flight, or on the own key share, is done.
    ready: Option<Time>,
    flight: Option<&'static [Dtls13]>,
    repeat: Option<Time>,
    /// Whether media may flow, as far as this side knows.
    pub(super) is_connected: bool,
}

const CLIENT_HELLO: &[Dtls13] = &[Dtls13::ClientHello, Dtls13::ClientHelloEnd];
const SERVER_FLIGHT: &[Dtls13] = &[Dtls13::ServerHello, Dtls13::ServerFinished];
const CLIENT_FINISHED: &[Dtls13] = &[Dtls13::ClientFinished];
const ACKNOWLEDGEMENT: &[Dtls13] = &[Dtls13::Acknowledgement];

impl Handshake {
    pub(super) fn new(is_client: bool) -> Self {
        Handshake {
            is_client,
            begun: false,
            first_timeout: TIMEOUTS.0,
            timeout: TIMEOUTS.0,
            arrived: [false; 2],
            ready: None,
            flight: None,
            repeat: None,
            is_connected: false,
        }
    }

    /// Begins; `rtt` is that of the checks.
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
        self.ready.into_iter().chain(self.repeat).min()
    }

    /// The datagrams that leave now.
    pub(super) fn poll(&mut self, now: Time) -> &'static [Dtls13] {
        if self.ready.take_if(|at| *at <= now).is_some() {
            self.flight = Some(match (self.is_client, self.flight) {
                (true, None) => CLIENT_HELLO,
                (true, Some(_)) => CLIENT_FINISHED,
                (false, _) => SERVER_FLIGHT,
            });
            // The client has verified the server's flight.
            self.is_connected |= self.flight == Some(CLIENT_FINISHED);
            self.timeout = self.first_timeout;
            self.repeat = Some(now + self.timeout);
            return self.flight.unwrap_or_default();
        }
        if self.repeat.is_some_and(|at| at <= now) {
            self.timeout = (self.timeout * 2).min(MAX_TIMEOUT);
            self.repeat = Some(now + self.timeout);
            return self.flight.unwrap_or_default();
        }
        &[]
    }

    /// Handles a datagram from the far end; returns the answer to be sent at once.
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        datagram: Dtls13,
        work: &Work,
    ) -> &'static [Dtls13] {
        match (self.is_client, datagram) {
            (false, Dtls13::ClientHello) => self.arrived[0] = true,
            (false, Dtls13::ClientHelloEnd) => self.arrived[1] = true,
            (true, Dtls13::ServerHello) => self.arrived[0] = true,
            (true, Dtls13::ServerFinished) => self.arrived[1] = true,
            (false, Dtls13::ClientFinished) if self.flight.is_some() => {
                self.repeat = None;
                self.is_connected = true;
                return ACKNOWLEDGEMENT;
            }
            (true, Dtls13::Acknowledgement) if self.is_connected => self.repeat = None,
            _ => {}
        }
        if !self.is_client {
            self.answer_hello(now, work);
        } else if self.flight == Some(CLIENT_HELLO) && self.arrived == [true; 2] {
            // Until then the ClientHello is repeated, also if a part of the answer has arrived.
            self.repeat = None;
            self.ready = self.ready.or(Some(now + work.finish));
        }
        &[]
    }

    /// The server answers when it has the whole ClientHello. It keeps an early one until it may begin.
    fn answer_hello(&mut self, now: Time, work: &Work) {
        if self.begun && self.arrived == [true; 2] && self.flight.is_none() {
            self.ready = self.ready.or(Some(now + work.answer_hello));
        }
    }
}
