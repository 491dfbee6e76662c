//! A selective forwarding unit for live calls: one UDP socket, many peer connections.
//!
//! `rtclab-sfu --listen ADDRESS` binds a UDP socket on `ADDRESS` and speaks JSON with its caller, one object a
//! line ([`message`] has the format). Each connection is one peer connection: either a publication, whose
//! media the server receives, or a subscription, on which it forwards what one publication sends. The end
//! of standard input ends the server.
//!
//! [`server::SfuServer`] does no I/O and reads no clock. The threads here wait for it: one for datagrams, one
//! for lines, and the main thread, which hands both to the server and wakes it at its timeouts. Datagrams
//! wait in a channel instead of a socket with a read timeout, because the kernel rounds such a timeout to
//! its tick. The channel is bounded; the server says how many datagrams it dropped. [`rtclab_core::simulcast`]
//! knows which layer a subscriber gets, and how the packets are numbered.

mod connection;
mod inbox;
mod keyframe;
mod message;
mod outbox;
mod publication;
mod server;
mod sources;
mod subscribed_medium;
mod timeouts;

use inbox::{DatagramSender, Input};
use outbox::Outbox;
use server::SfuServer;
use std::io::{BufRead, Write};
use std::net::{IpAddr, UdpSocket};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender};
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

const USAGE: &str = "usage: rtclab-sfu --listen ADDRESS";
const MAX_DATAGRAM_BYTES: usize = 2000;

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
    let receiving = Arc::clone(&socket);
    let (inbox, lines, datagrams) = inbox::inbox();
    thread::spawn(move || read_lines(&lines));
    thread::spawn(move || read_datagrams(&receiving, &datagrams));

    let mut server = SfuServer::new(local, Instant::now());
    let mut outbox = Outbox::default();
    outbox.messages.push(message::listening(local));
    loop {
        write(&socket, &mut outbox)?;
        let wait = server.poll_timeout().saturating_duration_since(Instant::now());
        match inbox.receive(wait) {
            Ok(Input::Line(line)) => server.handle_line(Instant::now(), &line, &mut outbox),
            Ok(Input::Datagram(at, source, bytes)) => {
                server.handle_datagram(at, source, &bytes, &mut outbox);
                inbox.recycle(bytes);
            }
            Ok(Input::Failed(reason)) => return Err(reason),
            Ok(Input::End) | Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        server.count_dropped(inbox.take_dropped());
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

fn read_datagrams(socket: &UdpSocket, datagrams: &DatagramSender) {
    let mut buffer = vec![0; MAX_DATAGRAM_BYTES];
    loop {
        match socket.recv_from(&mut buffer) {
            Ok((size, source)) => {
                buffer.truncate(size);
                match datagrams.send(Instant::now(), source, buffer) {
                    Some(next) => buffer = next,
                    None => return,
                }
                buffer.resize(MAX_DATAGRAM_BYTES, 0);
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return datagrams.fail(format!("cannot read the UDP socket: {error}")),
        }
    }
}

fn unix_ms() -> u64 {
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_1970.as_millis()).unwrap_or(u64::MAX)
}
