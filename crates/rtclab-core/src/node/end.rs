//! One type for all kinds of ends of connections.

use crate::endpoint::{EndpointEvent, Peer, Translator};
use crate::packet::{Address, Datagram, Past, Signal, Transmit};
use crate::signalling::{SignallingClient, SignallingEvent, SignallingServer};
use crate::tcp::{TcpClient, TcpEvent, TcpServer};
use crate::turn_tcp::{Carried, TurnStream};
use crate::udp::{UdpSink, UdpSource};
use crate::units::Time;

/// An end of a connection.
pub enum End {
    /// Sends media, plays it, or gives feedback on it.
    Peer(Box<Peer>),
    /// Passes everything on unchanged.
    Translator(Box<Translator>),
    /// Sends data over TCP.
    Client(Box<TcpClient>),
    /// Receives data over TCP.
    Server(Box<TcpServer>),
    /// Sends datagrams at a constant rate.
    Source(Box<UdpSource>),
    /// Receives datagrams.
    Sink(UdpSink),
    /// The WebSocket of a page.
    Page(Box<SignallingClient>),
    /// The signalling server.
    Signalling(Box<SignallingServer>),
    /// The TCP connection between a client and its TURN relay.
    Turn(Box<TurnStream>),
}

/// An event of an end.
pub(super) enum EndEvent {
    /// From a peer or a translator.
    Endpoint(EndpointEvent),
    /// From a TCP end.
    Tcp(TcpEvent),
    /// From a page or the signalling server.
    Signalling(SignallingEvent),
    /// A datagram came out of the TCP connection of a client with its relay.
    Carried(Carried),
}

/// Evaluates an expression on an end, whatever its kind.
macro_rules! each {
    ($end:expr, $inner:ident => $call:expr) => {
        match $end {
            End::Peer($inner) => $call,
            End::Translator($inner) => $call,
            End::Client($inner) => $call,
            End::Server($inner) => $call,
            End::Source($inner) => $call,
            End::Sink($inner) => $call,
            End::Page($inner) => $call,
            End::Signalling($inner) => $call,
            End::Turn($inner) => $call,
        }
    };
}

impl End {
    /// Handles a datagram to which `past` happened on its way.
    pub(super) fn handle_datagram(
        &mut self,
        now: Time,
        from: Address,
        datagram: &Datagram,
        past: Past,
    ) {
        match self {
            End::Peer(end) => end.handle_datagram(now, from, datagram),
            End::Translator(end) => end.handle_datagram(now, from, datagram),
            End::Client(end) => end.handle_datagram(now, from, datagram),
            End::Server(end) => end.handle_datagram(now, from, datagram),
            End::Source(end) => end.handle_datagram(now, from, datagram),
            End::Sink(end) => end.handle_datagram(now, from, datagram),
            End::Page(end) => end.handle_datagram(now, from, datagram),
            End::Signalling(end) => end.handle_datagram(now, from, datagram),
            End::Turn(end) => end.handle_segment(now, datagram, past),
        }
    }

    /// Tells an end of a call that the far end was at the signalling server before it.
    pub(super) fn handle_present(&mut self, now: Time) {
        match self {
            End::Peer(peer) => peer.handle_present(now),
            End::Translator(translator) => translator.handle_present(now),
            _ => {}
        }
    }

    /// Tells an end of a call what the far end says over signalling.
    pub(super) fn handle_signal(&mut self, now: Time, signal: Signal) {
        match self {
            End::Peer(peer) => peer.handle_signal(now, signal),
            End::Translator(translator) => translator.handle_signal(now, signal),
            _ => {}
        }
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        each!(self, end => end.handle_timeout(now));
    }

    pub(super) fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        each!(self, end => end.poll_transmit(now))
    }

    /// Whether there may be an event or a datagram to take.
    pub(super) fn is_pending(&self) -> bool {
        match self {
            End::Peer(peer) => peer.is_pending(),
            _ => true,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        each!(self, end => end.poll_timeout())
    }

    /// The part that is due first, for errors.
    pub(super) fn due(&self) -> &'static str {
        match self {
            End::Peer(peer) => peer.due(),
            End::Translator(_) => "translator",
            End::Client(_) => "TCP sender",
            End::Server(_) => "TCP receiver",
            End::Source(_) => "UDP source",
            End::Sink(_) => "UDP sink",
            End::Page(_) => "page",
            End::Signalling(_) => "signalling server",
            End::Turn(_) => "TURN over TCP",
        }
    }

    pub(super) fn poll_event(&mut self) -> Option<EndEvent> {
        match self {
            End::Peer(peer) => peer.poll_event().map(EndEvent::Endpoint),
            End::Translator(translator) => translator.poll_event().map(EndEvent::Endpoint),
            End::Client(client) => client.poll_event().map(EndEvent::Tcp),
            End::Server(server) => server.poll_event().map(EndEvent::Tcp),
            End::Source(_) | End::Sink(_) => None,
            End::Page(page) => page.poll_event().map(EndEvent::Signalling),
            End::Signalling(server) => server.poll_event().map(EndEvent::Signalling),
            End::Turn(turn) => turn.poll_event().map(EndEvent::Carried),
        }
    }
}
