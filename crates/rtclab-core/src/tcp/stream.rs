//! A connection that carries messages both ways.

use super::receiver::TcpReceiver;
use super::sender::TcpSender;
use crate::ecn::Ecn;
use crate::packet::{Segment, SegmentKind};
use crate::units::{Bytes, Time};
use std::collections::{BTreeMap, VecDeque};

/// One end of a connection that carries messages of type `M` both ways, in order.
///
/// It does not use ECN. A message travels with its last segment, and is read when that segment and all before it have arrived.
pub struct MessageStream<M> {
    sender: TcpSender,
    receiver: TcpReceiver,
    /// Messages written and not acknowledged, by the number of their last segment.
    written: BTreeMap<u32, M>,
    /// Messages that have arrived but wait for an earlier segment.
    waiting: BTreeMap<u32, M>,
    readable: VecDeque<M>,
    /// Whether this end opens the connection.
    opens: bool,
}

impl<M: Clone> MessageStream<M> {
    /// Creates an end that opens the connection as soon as it is polled.
    pub fn connect(connection: u32) -> Self {
        Self::new(connection, true)
    }

    /// Creates an end that waits for the other to open the connection.
    pub fn listen(connection: u32) -> Self {
        Self::new(connection, false)
    }

    fn new(connection: u32, opens: bool) -> Self {
        MessageStream {
            sender: TcpSender::of_messages(connection),
            receiver: TcpReceiver::new(connection),
            written: BTreeMap::new(),
            waiting: BTreeMap::new(),
            readable: VecDeque::new(),
            opens,
        }
    }

    /// Whether the connection is open for messages of this end.
    pub fn is_connected(&self) -> bool {
        self.sender.is_connected()
    }

    /// Whether the window has room for another segment.
    pub fn has_room(&self) -> bool {
        self.sender.has_room()
    }

    /// Appends a message of this length.
    pub fn write(&mut self, bytes: Bytes, message: M) {
        let last = self.sender.write(bytes);
        self.written.insert(last, message);
    }

    /// The next message from the far end.
    pub fn read(&mut self) -> Option<M> {
        self.readable.pop_front()
    }

    /// Handles a segment from the far end, and the message that it ends.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment, message: Option<&M>) {
        match segment.kind {
            SegmentKind::Syn => self.receiver.handle_segment(now, segment, Ecn::NotCapable),
            SegmentKind::SynAck => {
                self.sender.handle_segment(now, segment);
                self.receiver.synchronise(segment);
            }
            SegmentKind::Ack => {
                self.begin(now, segment);
                self.sender.handle_segment(now, segment);
                self.forget_acknowledged();
            }
            SegmentKind::Data => {
                self.begin(now, segment);
                self.receive(now, segment, message);
            }
        }
    }

    /// When to call [`MessageStream::handle_timeout`] and [`MessageStream::poll`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let sender = self.sender.poll_timeout();
        sender.into_iter().chain(self.receiver.poll_timeout()).min()
    }

    /// Acts on expired timers.
    pub fn handle_timeout(&mut self, now: Time) {
        self.sender.handle_timeout(now);
    }

    /// The next segment that may leave by `now`, and the message that it ends.
    pub fn poll(&mut self, now: Time) -> Option<(Segment, Option<M>)> {
        if let Some((segment, _)) = self.receiver.poll(now) {
            return Some((segment, None));
        }
        let (mut segment, _) = match self.opens || self.sender.is_connected() {
            true => self.sender.poll(now)?,
            false => return None,
        };
        if segment.kind == SegmentKind::Data {
            (segment.ack, segment.echo) = self.receiver.acknowledged();
        }
        let message = self.written.get(&segment.seq).cloned();
        Some((segment, message.filter(|_| segment.kind == SegmentKind::Data)))
    }

    /// The end that waits learns the round trip from the first segment after its acceptance.
    fn begin(&mut self, now: Time, segment: &Segment) {
        if !self.opens {
            self.sender.accept(now.saturating_sub(segment.echo));
        }
    }

    /// Messages that it keeps, in either direction.
    #[cfg(test)]
    pub(super) fn kept(&self) -> usize {
        self.written.len().max(self.sender.written()) + self.waiting.len()
    }

    fn forget_acknowledged(&mut self) {
        while let Some(first) =
            self.written.first_entry().filter(|it| *it.key() < self.sender.una())
        {
            first.remove();
        }
    }

    fn receive(&mut self, now: Time, segment: &Segment, message: Option<&M>) {
        if let Some(message) = message {
            if segment.seq >= self.receiver.next() && self.receiver.is_in_window(segment.seq) {
                self.waiting.insert(segment.seq, message.clone());
            }
        }
        self.receiver.handle_segment(now, segment, Ecn::NotCapable);
        while let Some(first) = self.waiting.first_entry() {
            if *first.key() >= self.receiver.next() {
                break;
            }
            self.readable.push_back(first.remove());
        }
    }
}
