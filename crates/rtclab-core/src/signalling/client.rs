//! The WebSocket of a page.

use super::SignallingEvent;
use crate::endpoint::setup::work::{Durations, Range};
use crate::packet::{Address, Content, Datagram, Message, Signal, Transmit, WebSocketSegment};
use crate::tcp::MessageStream;
use crate::units::Time;
use std::collections::VecDeque;

/// From the moment when the page joins to the SYN. Measured as in `endpoint/setup/work.rs` (quartiles 4.2, 7.6
/// and 13 ms).
const OPEN: Range = (2.4, 24.0);
/// From the server's SYN to the request for a WebSocket (0.4, 1.2, 3.4 ms).
const REQUEST: Range = (0.14, 10.8);

/// Configuration of a page's WebSocket.
#[derive(Clone, Copy, Debug)]
pub struct SignallingClientConfig {
    /// Address of the server.
    pub server: Address,
    /// When the page opens it.
    pub open: Time,
    /// When the page is closed.
    pub close: Time,
    /// Whether there is a browser; a server works in no time.
    pub browser: bool,
    /// Seed of the times that the browser works.
    pub seed: u64,
    /// Seed of how fast the machine works, the same for all pages of a run.
    pub pace: u64,
}

/// The WebSocket of a page.
pub struct SignallingClient {
    config: SignallingClientConfig,
    stream: MessageStream<Message>,
    /// When the connection is opened, until then.
    open: Option<Time>,
    /// How long the browser works before it asks for a WebSocket.
    work: Time,
    /// When the page asks for a WebSocket; `None` before the connection is open, and afterwards.
    request: Option<Time>,
    requested: bool,
    events: VecDeque<SignallingEvent>,
}

impl SignallingClient {
    /// Creates a WebSocket that is not yet open.
    pub fn new(config: SignallingClientConfig) -> Self {
        let mut durations = Durations::new(config.seed, config.pace);
        let mut work = |range: Range| match config.browser {
            true => durations.draw(range),
            false => Time::ZERO,
        };
        let open = config.open + work(OPEN);
        SignallingClient {
            stream: MessageStream::connect(0),
            open: (open < config.close).then_some(open),
            work: work(REQUEST),
            request: None,
            requested: false,
            events: VecDeque::new(),
            config,
        }
    }

    /// When to call [`SignallingClient::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let stream = if self.is_open() { self.stream.poll_timeout() } else { self.open };
        stream.into_iter().chain(self.request).min().filter(|at| *at < self.config.close)
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.open.take_if(|at| *at <= now);
        if self.request.take_if(|at| *at <= now).is_some() {
            self.stream.write(Message::Request.bytes_up(), Message::Request);
        }
        self.stream.handle_timeout(now);
    }

    /// Handles a segment from the server.
    pub fn handle_datagram(&mut self, now: Time, _from: Address, datagram: &Datagram) {
        let Content::WebSocket(frame) = &datagram.content else { return };
        let WebSocketSegment { segment, message } = frame.as_ref();
        if now >= self.config.close {
            return;
        }
        self.stream.handle_segment(now, segment, message.as_ref());
        if self.stream.is_connected() && !self.requested {
            self.requested = true;
            self.request = Some(now + self.work);
        }
        while let Some(message) = self.stream.read() {
            match message {
                Message::Present(pages) => self.events.push_back(SignallingEvent::Present(pages)),
                Message::Signal(signal) => self.events.push_back(SignallingEvent::Signal(signal)),
                Message::Request | Message::Accepted => {}
            }
        }
    }

    /// Sends something that an end of a call at this page has to say.
    pub fn send(&mut self, signal: Signal) {
        let message = Message::Signal(signal);
        self.stream.write(message.bytes_up(), message);
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        if !self.is_open() || now >= self.config.close {
            return None;
        }
        let (segment, message) = self.stream.poll(now)?;
        let content = Content::WebSocket(Box::new(WebSocketSegment { segment, message }));
        Some(Transmit::direct(now, self.config.server, content))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<SignallingEvent> {
        self.events.pop_front()
    }

    fn is_open(&self) -> bool {
        self.open.is_none() && self.config.open < self.config.close
    }
}
