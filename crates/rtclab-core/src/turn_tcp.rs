//! TURN over TCP (RFC 8656, section 3.1), for a participant whose network lets no UDP out.
//!
//! The relay still sends and receives UDP at the other side. Datagrams in the connection arrive in order, each after
//! all before it: what is lost is repeated, and what comes behind it waits.

#[cfg(test)]
mod tests;

use crate::network::WaitsId;
use crate::packet::{
    Address, Content, Datagram, IP_UDP_BYTES, MAX_SEGMENT_BYTES, Past, Transmit, TurnSegment,
};
use crate::tcp::MessageStream;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;
use std::sync::Arc;

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
    /// In which queues.
    pub waits: WaitsId,
}

/// Datagrams whose last bytes are in the same segment, and the queues in which it waited.
#[derive(Clone)]
struct SegmentBatch {
    datagrams: Arc<[u32]>,
    queued: Time,
    waits: WaitsId,
}

/// One end of the connection between a client and its relay.
pub struct TurnStream {
    far: Address,
    stream: MessageStream<SegmentBatch>,
    is_client: bool,
    /// Whether the client has opened the connection, which it does when it has something to send.
    is_open: bool,
    /// Datagrams that wait for TCP, with the bytes of each that have not left.
    waiting: VecDeque<(u64, u32)>,
    /// Sum of these bytes.
    waiting_bytes: u64,
    arrived: VecDeque<Carried>,
}

impl TurnStream {
    /// Creates the end of a client.
    pub fn client(relay: Address) -> Self {
        Self::new(relay, MessageStream::connect(0), true)
    }

    /// Creates the end of a relay.
    pub fn relay(client: Address) -> Self {
        Self::new(client, MessageStream::listen(0), false)
    }

    fn new(far: Address, stream: MessageStream<SegmentBatch>, is_client: bool) -> Self {
        let (waiting, arrived) = (VecDeque::new(), VecDeque::new());
        TurnStream { far, stream, is_client, is_open: false, waiting, waiting_bytes: 0, arrived }
    }

    /// Whether this is the end of a client.
    pub fn is_client(&self) -> bool {
        self.is_client
    }

    /// Sends a datagram of this IP total length, with the header of its channel if it is relayed. Returns false if
    /// the buffer is full, so that it is dropped.
    pub fn send(&mut self, size: Bytes, datagram: u32) -> bool {
        let buffer = if self.is_client { CLIENT_BUFFER } else { RELAY_BUFFER };
        if self.waiting_bytes >= buffer.0 {
            return false;
        }
        self.is_open = true;
        let bytes = (size.0 - IP_UDP_BYTES).next_multiple_of(ALIGNMENT);
        self.waiting.push_back((bytes, datagram));
        self.waiting_bytes += bytes;
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

    /// Handles a segment from the far end.
    pub fn handle_segment(&mut self, now: Time, datagram: &Datagram, past: Past) {
        let Content::Turn(turn) = &datagram.content else { return };
        let TurnSegment { segment, datagrams } = turn.as_ref();
        self.is_open = true;
        let Past { queued, waits, .. } = past;
        let batch = SegmentBatch { datagrams: datagrams.clone(), queued, waits };
        self.stream.handle_segment(now, segment, Some(&batch));
        while let Some(SegmentBatch { datagrams, queued, waits }) = self.stream.read() {
            let carried = |&datagram| Carried { datagram, queued, waits };
            self.arrived.extend(datagrams.iter().map(carried));
        }
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.is_open {
            return None;
        }
        if !self.waiting.is_empty() && self.stream.has_room() {
            self.write();
        }
        let (segment, batch) = self.stream.poll(now)?;
        let datagrams = batch.map_or_else(|| Arc::from([]), |batch| batch.datagrams);
        let content = Content::Turn(Box::new(TurnSegment { segment, datagrams }));
        Some(Transmit::direct(now, self.far, content))
    }

    /// The next datagram that has arrived.
    pub fn poll_event(&mut self) -> Option<Carried> {
        self.arrived.pop_front()
    }

    /// Fills a segment with what waits. TCP sends what it has at once (TCP_NODELAY, which Chromium sets for all its
    /// sockets), and packs what has to wait.
    fn write(&mut self) {
        let (mut payload, mut datagrams) = (0, Vec::new());
        while let Some((bytes, datagram)) = self.waiting.front_mut() {
            let part = (*bytes).min(u64::from(MAX_SEGMENT_BYTES) - payload);
            payload += part;
            *bytes -= part;
            self.waiting_bytes -= part;
            if *bytes > 0 {
                break;
            }
            datagrams.push(*datagram);
            self.waiting.pop_front();
        }
        let (datagrams, queued, waits) = (datagrams.into(), Time::ZERO, WaitsId::NONE);
        let batch = SegmentBatch { datagrams, queued, waits };
        self.stream.write(Bytes(payload), batch);
    }
}
