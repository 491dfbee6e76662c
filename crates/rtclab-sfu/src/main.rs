//! A selective forwarding unit for live calls: one UDP socket, many peer connections.
//!
//! `rtclab-sfu --listen ADDRESS` binds a UDP socket on `ADDRESS` and speaks JSON with its caller, one object a
//! line ([`message`] has the format). Each connection is one peer connection: either a publication, whose
//! media the server receives, or a subscription, on which it forwards what one publication sends. The end
//! of standard input ends the server.
//!
//! [`server::Server`] does no I/O and reads no clock. The threads here wait for it: one for datagrams, one
//! for lines, and the main thread, which hands both to the server and wakes it at its timeouts. Datagrams
//! wait in a channel instead of a socket with a read timeout, because the kernel rounds such a timeout to
//! its tick. The channel is bounded; the server says how many datagrams it dropped.

mod connection;
mod forwarded;
mod keyframe;
mod layers;
mod message;
mod numbering;
mod outbox;
mod publication;
mod server;
mod sources;
mod timeouts;

use outbox::Outbox;
use server::Server;
use std::io::{BufRead, Write};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, SyncSender, TrySendError};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const USAGE: &str = "usage: rtclab-sfu --listen ADDRESS";
const MAX_DATAGRAM_BYTES: usize = 2000;
/// Inputs that wait for the main thread. In a call of 32 people that send 500 kbit/s, these are the datagrams of
/// 100 ms. More are dropped: senders must see an overload as loss, not as a delay that grows for ever.
const MAX_WAITING: usize = 2048;

enum Input {
    Line(String),
    Datagram(Instant, SocketAddr, Vec<u8>),
    Failed(String),
    End,
}

fn main() -> ExitCode {
    match address(std::env::args().skip(1)).and_then(serve) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            eprintln!("rtclab-sfu: {reason}");
            ExitCode::FAILURE
        }
    }
}

fn address(mut arguments: impl Iterator<Item = String>) -> Result<IpAddr, String> {
    match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (Some("--listen"), Some(text), None) => {
            text.parse().map_err(|_| format!("`{text}` is not an IP address; {USAGE}"))
        }
        _ => Err(USAGE.to_owned()),
    }
}

fn serve(address: IpAddr) -> Result<(), String> {
    let socket = UdpSocket::bind((address, 0))
        .map_err(|error| format!("cannot bind a UDP socket on {address}: {error}"))?;
    let local = socket.local_addr().map_err(|error| error.to_string())?;
    let socket = Arc::new(socket);
    let (sender, inputs) = mpsc::sync_channel(MAX_WAITING);
    let dropped = Arc::new(AtomicU64::new(0));
    let (lines, datagrams) = (sender.clone(), sender);
    let (receiving, counting) = (Arc::clone(&socket), Arc::clone(&dropped));
    thread::spawn(move || read_lines(&lines));
    thread::spawn(move || read_datagrams(&receiving, &datagrams, &counting));

    let mut server = Server::new(local, Instant::now());
    let mut outbox = Outbox::default();
    outbox.messages.push(message::listening(local));
    loop {
        write(&socket, &mut outbox)?;
        let wait = server.poll_timeout().saturating_duration_since(Instant::now());
        match inputs.recv_timeout(wait) {
            Ok(Input::Line(line)) => server.handle_line(Instant::now(), &line, &mut outbox),
            Ok(Input::Datagram(at, source, bytes)) => {
                server.handle_datagram(at, source, &bytes, &mut outbox);
            }
            Ok(Input::Failed(reason)) => return Err(reason),
            Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        server.count_dropped(dropped.swap(0, Ordering::Relaxed));
        server.handle_timeout(Instant::now(), unix_ms(), &mut outbox);
    }
}

fn write(socket: &UdpSocket, outbox: &mut Outbox) -> Result<(), String> {
    for (destination, bytes) in outbox.datagrams.drain(..) {
        // A datagram that cannot be sent is a lost datagram.
        let _ = socket.send_to(&bytes, destination);
    }
    if outbox.messages.is_empty() {
        return Ok(());
    }
    let mut output = std::io::stdout().lock();
    for message in outbox.messages.drain(..) {
        writeln!(output, "{message}")
            .map_err(|error| format!("cannot write to standard output: {error}"))?;
    }
    output.flush().map_err(|error| format!("cannot write to standard output: {error}"))
}

fn read_lines(inputs: &SyncSender<Input>) {
    for line in std::io::stdin().lock().lines() {
        let input = match line {
            Ok(line) => Input::Line(line),
            Err(error) => Input::Failed(format!("cannot read standard input: {error}")),
        };
        if inputs.send(input).is_err() {
            return;
        }
    }
    let _ = inputs.send(Input::End);
}

fn read_datagrams(socket: &UdpSocket, inputs: &SyncSender<Input>, dropped: &AtomicU64) {
    let mut buffer = [0; MAX_DATAGRAM_BYTES];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((size, source)) => {
                let bytes = buffer[..size].to_vec();
                if !offer(inputs, Input::Datagram(Instant::now(), source, bytes), dropped) {
                    return;
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => {
                let reason = format!("cannot read the UDP socket: {error}");
                let _ = inputs.send(Input::Failed(reason));
                return;
            }
        }
    }
}

/// Puts a datagram into the channel, or drops and counts it if the channel is full. Returns whether the main
/// thread is still there.
fn offer(inputs: &SyncSender<Input>, datagram: Input, dropped: &AtomicU64) -> bool {
    match inputs.try_send(datagram) {
        Ok(()) => true,
        Err(TrySendError::Full(_)) => {
            dropped.fetch_add(1, Ordering::Relaxed);
            true
        }
        Err(TrySendError::Disconnected(_)) => false,
    }
}

fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_beyond_the_bound_are_dropped_and_counted() {
        let (sender, inputs) = mpsc::sync_channel(2);
        let dropped = AtomicU64::new(0);
        let datagram = |n| {
            let source = SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 1);
            Input::Datagram(Instant::now(), source, vec![n])
        };
        assert!((0..5).all(|n| offer(&sender, datagram(n), &dropped)));
        assert_eq!(dropped.load(Ordering::Relaxed), 3);
        let kept: Vec<u8> = inputs
            .try_iter()
            .map(|input| match input {
                Input::Datagram(_, _, bytes) => bytes[0],
                _ => unreachable!("only datagrams were sent"),
            })
            .collect();
        assert_eq!(kept, [0, 1], "the oldest are kept");
        drop(inputs);
        assert!(!offer(&sender, datagram(0), &dropped));
    }
}
