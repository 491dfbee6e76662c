//! Writes captured frames in a thread of its own, so that a slow disk delays no packet.

use crate::device::PortId;
use rtclab_core::pcapng::{self, Direction, Interface, Packet, link_type};
use rtclab_core::units::Time;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};

/// Maximum number of frames waiting for the disk: 6 s at 10,000 frames per second, below 10 MB.
const BACKLOG: usize = 65_536;

/// A frame on its way to the file.
struct Captured {
    interface: u32,
    /// Nanoseconds since 1970.
    at_ns: u64,
    direction: Direction,
    /// Length of the frame on the wire.
    wire_bytes: u32,
    /// The beginning of the frame.
    bytes: Vec<u8>,
}

/// The loop's side of a capture, which takes frames without blocking.
pub(crate) struct Capture {
    sender: SyncSender<Captured>,
    snaplen: usize,
    /// Time zero of the run, in nanoseconds since 1970.
    epoch_ns: u64,
    /// Number of frames dropped because the backlog was full.
    pub(crate) dropped: u64,
}

/// The writer has stopped because of an error, which its thread returns.
#[derive(Debug)]
pub(crate) struct CaptureEnded;

impl Capture {
    /// Creates the file and starts the thread.
    pub(crate) fn start(
        path: &Path,
        interfaces: &[String],
        snaplen: u32,
        epoch_ns: u64,
    ) -> io::Result<(Self, JoinHandle<io::Result<()>>)> {
        let file = BufWriter::new(File::create(path)?);
        let mut header = Vec::new();
        let named =
            |name: &String| Interface { link_type: link_type::ETHERNET, name: Some(name.clone()) };
        let interfaces: Vec<Interface> = interfaces.iter().map(named).collect();
        pcapng::write_section(&mut header, &interfaces, snaplen);
        let (sender, receiver) = sync_channel(BACKLOG);
        let thread = thread::Builder::new()
            .name("rtclab-capture".into())
            .spawn(move || write(file, header, receiver))?;
        Ok((Capture { sender, snaplen: snaplen as usize, epoch_ns, dropped: 0 }, thread))
    }

    /// Captures the beginning of a frame that crossed a port at `at`, a time of the run.
    pub(crate) fn record(
        &mut self,
        at: Time,
        port: PortId,
        direction: Direction,
        frame: &[u8],
    ) -> Result<(), CaptureEnded> {
        let captured = Captured {
            interface: port.0 as u32,
            at_ns: self.epoch_ns + at.0,
            direction,
            wire_bytes: frame.len() as u32,
            bytes: frame[..frame.len().min(self.snaplen)].to_vec(),
        };
        match self.sender.try_send(captured) {
            Ok(()) => Ok(()),
            Err(TrySendError::Full(_)) => {
                self.dropped += 1;
                Ok(())
            }
            Err(TrySendError::Disconnected(_)) => Err(CaptureEnded),
        }
    }
}

/// Writes `header` and then each frame, through the same buffer.
fn write(mut file: BufWriter<File>, header: Vec<u8>, frames: Receiver<Captured>) -> io::Result<()> {
    let mut buffer = header;
    for captured in frames {
        let packet = Packet {
            interface: captured.interface,
            at_ns: captured.at_ns,
            direction: captured.direction,
            wire_bytes: captured.wire_bytes,
            bytes: &captured.bytes,
            zeros: 0,
        };
        packet.write(&mut buffer);
        file.write_all(&buffer)?;
        buffer.clear();
    }
    file.write_all(&buffer)?; // the header, if there were no frames
    file.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_ends_the_capture_with_its_error() {
        let interfaces = ["port0".to_owned()];
        let (mut capture, thread) =
            Capture::start(Path::new("/dev/full"), &interfaces, 128, 0).expect("it opens");
        // The writer fails at its first full buffer. Frames beyond the backlog until then are dropped.
        while capture.record(Time::ZERO, PortId(0), Direction::Inbound, &[0; 200]).is_ok() {
            thread::yield_now();
        }
        let error = thread.join().expect("no panic").expect_err("the disk is full");
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }
}
