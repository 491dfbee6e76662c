//! TURN over TCP (RFC 8656, section 3.1), for a participant whose network lets no UDP out.
//!
//! The relay still sends and receives UDP at the other side. Datagrams in the connection arrive in order, each after
//! all before it: what is lost is repeated, and what comes behind it waits.

use crate::packet::{Address, Content, Datagram, IP_UDP_BYTES, Transmit, TurnSegment};
use crate::tcp::Stream;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// RFC 8656, section 12.5: over TCP, messages are padded to a multiple of this.
const ALIGNMENT: u64 = 4;
/// Bytes that may wait for TCP in a browser, which drops what comes then (Chromium, `ipc_socket_factory.cc`,
/// `kMaximumInFlightBytes`). The send buffer of the kernel, which grows with the window, does not count.
const CLIENT_BUFFER: Bytes = Bytes(64 * 1024);
/// Bytes that may wait for TCP in a relay (coturn 4.6, `ns_ioalib_impl.h`, `BUFFEREVENT_MAX_UDP_TO_TCP_WRITE`).
const RELAY_BUFFER: Bytes = Bytes(32 * 1024);

/// A datagram that came out of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Carried {
    /// The driver's number of the datagram.
    pub datagram: u32,
    /// How long the segment that brought it waited in queues.
    pub queued: Time,
}

/// One end of the connection between a client and its relay.
pub struct TurnStream {
    far: Address,
    stream: Stream<Carried>,
    is_client: bool,
    /// Whether the client has opened the connection, which it does when it has something to send.
    is_open: bool,
    arrived: VecDeque<Carried>,
}

impl TurnStream {
    /// Creates the end of a client.
    pub fn client(relay: Address) -> Self {
        Self::new(relay, Stream::connect(0), true)
    }

    /// Creates the end of a relay.
    pub fn relay(client: Address) -> Self {
        Self::new(client, Stream::listen(0), false)
    }

    fn new(far: Address, stream: Stream<Carried>, is_client: bool) -> Self {
        TurnStream { far, stream, is_client, is_open: false, arrived: VecDeque::new() }
    }

    /// Whether this is the end of a client.
    pub fn is_client(&self) -> bool {
        self.is_client
    }

    /// Sends a datagram of this IP total length, with the header of its channel if it is relayed. Returns false if
    /// the buffer is full, so that it is dropped.
    pub fn send(&mut self, size: Bytes, datagram: u32) -> bool {
        let buffer = if self.is_client { CLIENT_BUFFER } else { RELAY_BUFFER };
        if self.stream.unsent() >= buffer {
            return false;
        }
        let bytes = Bytes((size.0 - IP_UDP_BYTES).next_multiple_of(ALIGNMENT));
        self.is_open = true;
        self.stream.write(bytes, Carried { datagram, queued: Time::ZERO });
        true
    }

    /// When to call [`TurnStream::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        self.stream.poll_timeout()
    }

    /// Acts on expired timers.
    pub fn handle_timeout(&mut self, now: Time) {
        self.stream.handle_timeout(now);
    }

    /// Handles a segment from the far end, which has waited in queues for a total of `queued`.
    pub fn handle_segment(&mut self, now: Time, datagram: &Datagram, queued: Time) {
        let Content::Turn(TurnSegment { segment, datagram }) = datagram.content else { return };
        self.is_open = true;
        let carried = datagram.map(|datagram| Carried { datagram, queued });
        self.stream.handle_segment(now, &segment, carried.as_ref());
        while let Some(carried) = self.stream.read() {
            self.arrived.push_back(carried);
        }
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.is_open {
            return None;
        }
        let (segment, carried) = self.stream.poll(now)?;
        let datagram = carried.map(|carried| carried.datagram);
        Some(Transmit::direct(now, self.far, Content::Turn(TurnSegment { segment, datagram })))
    }

    /// The next datagram that has arrived.
    pub fn poll_event(&mut self) -> Option<Carried> {
        self.arrived.pop_front()
    }
}
