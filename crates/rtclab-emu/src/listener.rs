//! Captures frames at an interface: the live counterpart of a capture file.

use crate::socket::{MAX_FRAME, PacketSocket, check, timestamp};
use rtclab_core::monitor::{Direction, Frame};
use rtclab_core::pcapng::link_type;
use std::io::{self, ErrorKind};
use std::mem::{size_of, size_of_val, zeroed};
use std::os::fd::AsRawFd;
use std::ptr;
use std::time::{Duration, Instant, SystemTime};

/// Receives every frame at one interface of the network namespace in which it was opened, and sends nothing.
pub struct Listener {
    socket: PacketSocket,
    buffer: Vec<u8>,
    dropped: u64,
}

/// Description of the frame in the buffer.
struct FrameInfo {
    length: usize,
    address: libc::sockaddr_ll,
    stamp: Option<SystemTime>,
}

impl Listener {
    /// Opens an interface. This needs permission to open packet sockets (`CAP_NET_RAW` in the namespace).
    ///
    /// # Errors
    ///
    /// There is no such interface, or permission is missing.
    pub fn open(interface: &str) -> io::Result<Self> {
        let socket = PacketSocket::listen(interface)?;
        Ok(Listener { socket, buffer: vec![0; MAX_FRAME], dropped: 0 })
    }

    /// Passes every frame to `sink` for the given time.
    ///
    /// # Errors
    ///
    /// The interface was removed.
    pub fn listen(&mut self, time: Duration, sink: &mut dyn FnMut(&Frame<'_>)) -> io::Result<()> {
        let start = Instant::now();
        while let Some(left) = time.checked_sub(start.elapsed()) {
            let Some(info) = self.receive()? else {
                self.wait(left)?;
                continue;
            };
            if let Some(frame) = frame(&info, &self.buffer) {
                sink(&frame);
            }
        }
        Ok(())
    }

    /// Number of frames dropped by the kernel so far because its buffer was full.
    pub fn dropped(&mut self) -> u64 {
        self.dropped += self.socket.take_drops();
        self.dropped
    }

    fn wait(&self, time: Duration) -> io::Result<()> {
        let mut entry =
            libc::pollfd { fd: self.socket.0.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // At least 1 ms, because 0 would make this a busy loop.
        let milliseconds = time.as_millis().clamp(1, 1000) as i32;
        // SAFETY: the pointer is to the one entry stated.
        match check(unsafe { libc::poll(&raw mut entry, 1, milliseconds) }) {
            Err(error) if error.kind() != ErrorKind::Interrupted => Err(error),
            _ => Ok(()),
        }
    }

    fn receive(&mut self) -> io::Result<Option<FrameInfo>> {
        let mut part =
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        // An array of u64 has the alignment that cmsghdr requires.
        let mut control = [0u64; 16];
        // SAFETY: all-zero bytes are a valid sockaddr_ll and a valid msghdr.
        let (mut address, mut message): (libc::sockaddr_ll, libc::msghdr) =
            unsafe { (zeroed(), zeroed()) };
        message.msg_name = ptr::from_mut(&mut address).cast();
        message.msg_namelen = size_of::<libc::sockaddr_ll>() as u32;
        message.msg_iov = &raw mut part;
        message.msg_iovlen = 1;
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        // MSG_TRUNC makes recvmsg return the length on the wire, even if the buffer is smaller.
        // SAFETY: the message points to the address, the buffer and the control bytes, all writable in the
        // lengths stated.
        let length =
            unsafe { libc::recvmsg(self.socket.0.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        if length < 0 {
            let error = io::Error::last_os_error();
            let nothing = [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind());
            return if nothing { Ok(None) } else { Err(error) };
        }
        // SAFETY: recvmsg has just filled the message in.
        let stamp = unsafe { timestamp(&message) };
        Ok(Some(FrameInfo { length: length as usize, address, stamp }))
    }
}

/// Makes a [`Frame`]; `None` for a frame sent by the loopback device, which is received again.
fn frame<'a>(info: &FrameInfo, buffer: &'a [u8]) -> Option<Frame<'a>> {
    let outgoing = info.address.sll_pkttype == libc::PACKET_OUTGOING;
    let link_type = match info.address.sll_hatype {
        libc::ARPHRD_LOOPBACK if outgoing => return None,
        libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => link_type::ETHERNET,
        // Tunnels have no link header.
        _ => link_type::RAW,
    };
    let since_1970 =
        info.stamp.unwrap_or_else(SystemTime::now).duration_since(SystemTime::UNIX_EPOCH);
    Some(Frame {
        at_ns: since_1970.unwrap_or_default().as_nanos() as i64,
        interface: 0,
        link_type,
        direction: Some(if outgoing { Direction::Outbound } else { Direction::Inbound }),
        wire_bytes: info.length as u32,
        bytes: &buffer[..info.length.min(buffer.len())],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn direction(device: u16, packet_type: u8) -> Option<(u16, Option<Direction>, usize)> {
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        (address.sll_hatype, address.sll_pkttype) = (device, packet_type);
        let info = FrameInfo { length: 100, address, stamp: None };
        frame(&info, &[0; 60]).map(|f| (f.link_type, f.direction, f.bytes.len()))
    }

    #[test]
    fn frames_have_the_direction_and_the_link_type_of_their_device() {
        let (inbound, outbound) = (Some(Direction::Inbound), Some(Direction::Outbound));
        assert_eq!(direction(libc::ARPHRD_ETHER, 0), Some((link_type::ETHERNET, inbound, 60)));
        assert_eq!(direction(libc::ARPHRD_ETHER, 4), Some((link_type::ETHERNET, outbound, 60)));
        assert_eq!(direction(libc::ARPHRD_NONE, 0), Some((link_type::RAW, inbound, 60)));
        assert_eq!(direction(libc::ARPHRD_LOOPBACK, 0), Some((link_type::ETHERNET, inbound, 60)));
        assert_eq!(direction(libc::ARPHRD_LOOPBACK, 4), None);
    }

    #[test]
    fn an_interface_that_does_not_exist_is_an_error() {
        assert!(Listener::open("no-such-device").is_err());
    }
}
