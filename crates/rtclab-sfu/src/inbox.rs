//! What waits for the main thread: datagrams and lines, in a channel that holds a limited number.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender, TrySendError};
use std::time::{Duration, Instant};

/// Inputs that wait for the main thread. In a call of 32 people that send 500 kbit/s, these are the datagrams of
/// 100 ms. More are dropped: senders must see an overload as loss, not as a delay that grows for ever.
const MAX_WAITING: usize = 2048;

pub(crate) enum Input {
    Line(String),
    /// A datagram with the time of its arrival and its source.
    Datagram(Instant, SocketAddr, Vec<u8>),
    Failed(String),
    End,
}

/// The main thread's end.
pub(crate) struct Inbox {
    inputs: Receiver<Input>,
    used: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// The end of the thread that reads datagrams.
pub(crate) struct DatagramSender {
    inputs: SyncSender<Input>,
    used: Receiver<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// An inbox, and the ends of the threads that read lines and datagrams.
pub(crate) fn inbox() -> (Inbox, SyncSender<Input>, DatagramSender) {
    with_capacity(MAX_WAITING)
}

fn with_capacity(most: usize) -> (Inbox, SyncSender<Input>, DatagramSender) {
    let (sender, inputs) = mpsc::sync_channel(most);
    let (back, used) = mpsc::sync_channel(most);
    let dropped = Arc::new(AtomicU64::new(0));
    let datagrams = DatagramSender { inputs: sender.clone(), used, dropped: Arc::clone(&dropped) };
    (Inbox { inputs, used: back, dropped }, sender, datagrams)
}

impl Inbox {
    pub(crate) fn receive(&self, patience: Duration) -> Result<Input, RecvTimeoutError> {
        self.inputs.recv_timeout(patience)
    }

    /// Gives the buffer of a datagram back, so that the next one needs no memory of its own.
    pub(crate) fn recycle(&self, buffer: Vec<u8>) {
        // If as many wait as may be needed, this one is freed.
        let _ = self.used.try_send(buffer);
    }

    /// Number of datagrams that were dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }
}

impl DatagramSender {
    /// Passes a datagram on, or drops and counts it if too many wait. Returns a buffer for the next datagram; `None`
    /// if the main thread has ended.
    pub(crate) fn send(&self, at: Instant, source: SocketAddr, bytes: Vec<u8>) -> Option<Vec<u8>> {
        match self.inputs.try_send(Input::Datagram(at, source, bytes)) {
            Ok(()) => Some(self.used.try_recv().unwrap_or_default()),
            Err(TrySendError::Full(Input::Datagram(_, _, bytes))) => {
                self.dropped.fetch_add(1, Ordering::Relaxed);
                Some(bytes)
            }
            Err(_) => None,
        }
    }

    /// Says that no datagrams will come any more.
    pub(crate) fn fail(&self, reason: String) {
        let _ = self.inputs.send(Input::Failed(reason));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{IpAddr, Ipv4Addr};

    const MOST: usize = 8;
    const ADDRESS: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 1);

    /// Sends datagrams that contain their numbers, and returns how many buffers were made for them.
    fn send(datagrams: &DatagramSender, numbers: std::ops::Range<u8>) -> usize {
        let mut made = 0;
        let mut buffer = Vec::new();
        for n in numbers {
            made += usize::from(buffer.capacity() == 0);
            buffer.clear();
            buffer.push(n);
            buffer = datagrams.send(Instant::now(), ADDRESS, buffer).expect("somebody reads");
        }
        made
    }

    fn receive(inbox: &Inbox) -> Vec<u8> {
        let mut numbers = Vec::new();
        while let Ok(Input::Datagram(_, _, bytes)) = inbox.receive(Duration::ZERO) {
            numbers.push(bytes[0]);
            inbox.recycle(bytes);
        }
        numbers
    }

    #[test]
    fn datagrams_beyond_the_bound_are_dropped_and_counted_and_need_no_memory() {
        let (inbox, _lines, datagrams) = with_capacity(MOST);
        // One buffer for each datagram that waits, and one for all that are dropped.
        assert_eq!(send(&datagrams, 0..100), MOST + 1);
        assert_eq!((inbox.take_dropped(), inbox.take_dropped()), (92, 0));
        assert_eq!(receive(&inbox), [0, 1, 2, 3, 4, 5, 6, 7], "the oldest are kept");
        // The sender made one to begin with, because the others are in the channel.
        assert_eq!(send(&datagrams, 0..8), 1);
        assert_eq!(receive(&inbox).len(), 8);
        drop(inbox);
        assert_eq!(datagrams.send(Instant::now(), ADDRESS, Vec::new()), None);
    }

    #[test]
    fn lines_are_never_dropped() {
        let (inbox, lines, datagrams) = with_capacity(MOST);
        send(&datagrams, 0..100);
        let writer = std::thread::spawn(move || lines.send(Input::Line("a line".into())).is_ok());
        while let Ok(input) = inbox.receive(Duration::from_secs(20)) {
            if let Input::Line(line) = input {
                assert_eq!(line, "a line");
                break;
            }
        }
        assert!(writer.join().expect("no panic"));
    }
}
