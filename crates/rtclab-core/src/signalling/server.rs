//! The signalling server, which passes messages between pages.

use super::SignallingEvent;
use crate::packet::{Address, Content, Datagram, Message, Signal, Transmit, WebSocketSegment};
use crate::tcp::MessageStream;
use crate::units::Time;
use std::collections::VecDeque;

/// How long the server works on a message. It works on one at a time.
///
/// Measured on a server in Python as in `endpoint/setup/work.rs`: 0.6 ms until a message is passed on, and
/// 0.3 ms between two messages.
const WORK: Time = Time::from_micros(500);

/// Messages that may wait for the server's work; it drops what comes then. They are work for 50 s, for which no page
/// waits.
const MAX_WAITING: usize = 100_000;

/// Configuration of a signalling server.
#[derive(Clone, Debug)]
pub struct SignallingServerConfig {
    /// Addresses of the pages.
    pub pages: Vec<Address>,
    /// For each end of a call, by the port of its address, the index of its page; `None` for an end at the
    /// server itself.
    pub page_of: Vec<Option<usize>>,
}

/// The signalling server.
pub struct SignallingServer {
    config: SignallingServerConfig,
    /// One for each page.
    streams: Vec<MessageStream<Message>>,
    /// Indices of the pages that have come, in their order.
    present: Vec<usize>,
    /// Messages to send, with their page and the time when the work on them is done, in order.
    queue: VecDeque<(Time, usize, Message)>,
    events: VecDeque<SignallingEvent>,
}

impl SignallingServer {
    /// Creates a server.
    pub fn new(config: SignallingServerConfig) -> Self {
        SignallingServer {
            streams: config.pages.iter().map(|_| MessageStream::listen(0)).collect(),
            present: Vec::new(),
            queue: VecDeque::new(),
            events: VecDeque::new(),
            config,
        }
    }

    /// When to call [`SignallingServer::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let streams = self.streams.iter().filter_map(MessageStream::poll_timeout);
        streams.chain(self.queue.front().map(|(at, ..)| *at)).min()
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        while self.queue.front().is_some_and(|(at, ..)| *at <= now) {
            if let Some((_, page, message)) = self.queue.pop_front() {
                self.streams[page].write(message.bytes_down(), message);
            }
        }
        for stream in &mut self.streams {
            stream.handle_timeout(now);
        }
    }

    /// Handles a segment from a page.
    pub fn handle_datagram(&mut self, now: Time, from: Address, datagram: &Datagram) {
        let Content::WebSocket(frame) = &datagram.content else { return };
        let WebSocketSegment { segment, message } = frame.as_ref();
        let Some(page) = self.config.pages.iter().position(|page| *page == from) else { return };
        self.streams[page].handle_segment(now, segment, message.as_ref());
        while let Some(message) = self.streams[page].read() {
            match message {
                Message::Request => self.admit(now, page),
                Message::Signal(signal) => self.pass(now, signal, WORK),
                Message::Accepted | Message::Present(_) => {}
            }
        }
    }

    /// Passes on what an end of a call at the server itself has to say, which is no work.
    pub fn send(&mut self, now: Time, signal: Signal) {
        self.pass(now, signal, Time::ZERO);
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        let mut both = self.streams.iter_mut().zip(&self.config.pages);
        both.find_map(|(stream, page)| {
            let (segment, message) = stream.poll(now)?;
            let content = Content::WebSocket(Box::new(WebSocketSegment { segment, message }));
            Some(Transmit::direct(now, *page, content))
        })
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<SignallingEvent> {
        self.events.pop_front()
    }

    fn admit(&mut self, now: Time, page: usize) {
        if self.present.contains(&page) {
            return;
        }
        let before = self.present.iter().map(|page| self.config.pages[*page].port).collect();
        self.present.push(page);
        self.enqueue(now, page, Message::Accepted, WORK);
        self.enqueue(now, page, Message::Present(before), WORK);
    }

    fn pass(&mut self, now: Time, signal: Signal, work: Time) {
        match self.config.page_of.get(signal.to as usize) {
            Some(Some(page)) => self.enqueue(now, *page, Message::Signal(signal), work),
            Some(None) => self.events.push_back(SignallingEvent::Signal(signal)),
            None => {}
        }
    }

    /// When the work on all messages is done.
    #[cfg(test)]
    pub(super) fn busy_until(&self) -> Time {
        self.queue.back().map_or(Time::ZERO, |(at, ..)| *at)
    }

    fn enqueue(&mut self, now: Time, page: usize, message: Message, work: Time) {
        if self.queue.len() >= MAX_WAITING {
            return;
        }
        let free = self.queue.back().map_or(now, |(at, ..)| now.max(*at));
        self.queue.push_back((free + work, page, message));
    }
}
