//! System calls to Linux: packet sockets, clock and thread priority.

use crate::device::{Device, PortId, Sink};
use crate::segments::{Frame, Offload, Outgoing};
use rtclab_core::units::Time;
use std::ffi::{CString, c_int, c_void};
use std::io;
use std::mem::{size_of, zeroed};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// Receive buffer for bursts while the thread does not run: 300 ms at 100 Mbit/s. The kernel doubles it
/// and limits it to `net.core.rmem_max`.
const SOCKET_BUFFER: c_int = 4 << 20;
pub(crate) const MAX_FRAME: usize = 65_536;

pub(crate) fn check(result: c_int) -> io::Result<c_int> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Clock of a run: time since its beginning, on the monotonic clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    origin: Instant,
    /// Beginning of the run on the wall clock.
    pub(crate) epoch: SystemTime,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Clock { origin: Instant::now(), epoch: SystemTime::now() }
    }

    pub(crate) fn now(&self) -> Time {
        Time(self.origin.elapsed().as_nanos() as u64)
    }

    /// Converts a wall-clock time stamp to time of the run. The result is at most 1 s ago, so that
    /// setting the wall clock does no harm.
    fn time_of(&self, stamp: Option<SystemTime>) -> Time {
        let age = stamp
            .and_then(|stamp| SystemTime::now().duration_since(stamp).ok())
            .filter(|age| *age < Duration::from_secs(1))
            .unwrap_or_default();
        self.now().saturating_sub(Time(age.as_nanos() as u64))
    }
}

/// Wakes a waiting loop.
#[derive(Clone, Debug)]
pub(crate) struct Waker(Arc<OwnedFd>);

impl Waker {
    pub(crate) fn new() -> io::Result<Self> {
        // SAFETY: eventfd takes no pointers; a result that is not negative is a new descriptor that
        // nobody else owns.
        let fd = unsafe {
            OwnedFd::from_raw_fd(check(libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC))?)
        };
        Ok(Waker(Arc::new(fd)))
    }

    pub(crate) fn wake(&self) {
        let one = 1u64;
        // SAFETY: the pointer is to eight readable bytes. It fails only when the counter is full,
        // and then the loop is being woken already.
        unsafe { libc::write(self.0.as_raw_fd(), ptr::from_ref(&one).cast(), 8) };
    }

    fn reset(&self) {
        let mut count = 0u64;
        // SAFETY: the pointer is to eight writable bytes; the descriptor does not block.
        unsafe { libc::read(self.0.as_raw_fd(), ptr::from_mut(&mut count).cast(), 8) };
    }
}

/// A raw packet socket bound to one interface of the calling thread's network namespace.
pub(crate) struct PacketSocket(pub(crate) OwnedFd);

impl PacketSocket {
    /// Opens a socket for the emulator, which does not receive what it sends itself.
    fn open(interface: &str) -> io::Result<Self> {
        let (socket, index) = Self::unbound(interface)?;
        socket.set_option(libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, 1)?;
        // The queueing discipline of a device that has just come up drops frames without an error.
        socket.set_option(libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, 1)?;
        // An `Offload` precedes each frame.
        socket.set_option(libc::SOL_PACKET, libc::PACKET_VNET_HDR, 1)?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_SNDBUF, SOCKET_BUFFER)?;
        socket.bind(index)?;
        Ok(socket)
    }

    /// Opens a socket that receives all frames in both directions.
    pub(crate) fn listen(interface: &str) -> io::Result<Self> {
        let (socket, index) = Self::unbound(interface)?;
        socket.bind(index)?;
        Ok(socket)
    }

    /// Opens a socket that is not bound yet. Also returns the index of the interface.
    fn unbound(interface: &str) -> io::Result<(Self, u32)> {
        let name = CString::new(interface).map_err(io::Error::other)?;
        // SAFETY: `name` is a terminated string that outlives the call.
        let index = unsafe { libc::if_nametoindex(name.as_ptr()) };
        if index == 0 {
            return Err(io::Error::last_os_error());
        }
        let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // Protocol 0: nothing is received before the socket is bound to its interface.
        // SAFETY: socket takes no pointers; a result that is not negative is a new descriptor.
        let fd = unsafe { OwnedFd::from_raw_fd(check(libc::socket(libc::AF_PACKET, kind, 0))?) };
        let socket = PacketSocket(fd);
        socket.set_option(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, 1)?;
        socket.set_option(libc::SOL_SOCKET, libc::SO_RCVBUF, SOCKET_BUFFER)?;
        Ok((socket, index))
    }

    fn set_option(&self, level: c_int, name: c_int, value: c_int) -> io::Result<()> {
        let (pointer, length) = (ptr::from_ref(&value).cast::<c_void>(), size_of::<c_int>());
        // SAFETY: the pointer is to `length` readable bytes.
        let result =
            unsafe { libc::setsockopt(self.0.as_raw_fd(), level, name, pointer, length as u32) };
        check(result).map(drop)
    }

    fn bind(&self, interface: u32) -> io::Result<()> {
        // SAFETY: all-zero bytes are a valid sockaddr_ll.
        let mut address: libc::sockaddr_ll = unsafe { zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = interface as i32;
        let (pointer, length) = (ptr::from_ref(&address).cast(), size_of::<libc::sockaddr_ll>());
        // SAFETY: the pointer is to a socket address of `length` bytes.
        check(unsafe { libc::bind(self.0.as_raw_fd(), pointer, length as u32) }).map(drop)
    }

    /// Receives a frame. Returns it with the wall-clock time at which the kernel received it, or `None` if there is
    /// no frame.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<Option<(Frame, Option<SystemTime>)>> {
        let mut offload = Offload::default();
        let mut parts = [
            libc::iovec {
                iov_base: ptr::from_mut(&mut offload).cast(),
                iov_len: size_of::<Offload>(),
            },
            libc::iovec { iov_base: buffer.as_mut_ptr().cast(), iov_len: buffer.len() },
        ];
        // An array of u64 has the alignment that cmsghdr requires.
        let mut control = [0u64; 16];
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut message: libc::msghdr = unsafe { zeroed() };
        message.msg_iov = parts.as_mut_ptr();
        message.msg_iovlen = parts.len();
        message.msg_control = control.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&control);
        loop {
            // SAFETY: the message points to `offload`, of which any bytes are a value, to `buffer` and to `control`,
            // all writable in the lengths stated.
            let length = unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, 0) };
            if length >= 0 {
                let length = (length as usize).saturating_sub(size_of::<Offload>());
                let frame = Frame::new(buffer[..length].to_vec(), offload);
                // SAFETY: recvmsg has just filled the message in.
                return Ok(Some((frame, unsafe { timestamp(&message) })));
            }
            let error = io::Error::last_os_error();
            match error.kind() {
                io::ErrorKind::WouldBlock => return Ok(None),
                io::ErrorKind::Interrupted => {}
                _ => return Err(error),
            }
        }
    }

    fn send(&self, frame: &Outgoing<'_>) -> io::Result<()> {
        let part = |bytes: &[u8]| libc::iovec {
            iov_base: bytes.as_ptr().cast_mut().cast(),
            iov_len: bytes.len(),
        };
        let parts = [part(frame.offload.as_bytes()), part(frame.head()), part(frame.payload)];
        // SAFETY: writev reads from the parts, which are as long as stated and outlive the call.
        let sent =
            unsafe { libc::writev(self.0.as_raw_fd(), parts.as_ptr(), parts.len() as c_int) };
        if sent < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Number of frames dropped since the last call because the buffer was full.
    pub(crate) fn take_drops(&self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of::<libc::tpacket_stats>() as u32;
        // SAFETY: the pointer is to `length` writable bytes of a plain structure.
        let result = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                ptr::from_mut(&mut statistics).cast(),
                &raw mut length,
            )
        };
        if result == 0 { statistics.tp_drops.into() } else { 0 }
    }
}

/// Time at which the kernel received a message.
///
/// # Safety
/// `message` must have been filled in by recvmsg, its control buffer still alive.
pub(crate) unsafe fn timestamp(message: &libc::msghdr) -> Option<SystemTime> {
    // SAFETY: the caller vouches for the message; the macros walk within its control buffer, and the
    // data of a SCM_TIMESTAMPNS header is a timespec, read without regard to alignment.
    unsafe {
        let mut header = libc::CMSG_FIRSTHDR(message);
        while let Some(found) = header.as_ref() {
            if found.cmsg_level == libc::SOL_SOCKET && found.cmsg_type == libc::SCM_TIMESTAMPNS {
                let stamp = libc::CMSG_DATA(header).cast::<libc::timespec>().read_unaligned();
                return Some(
                    SystemTime::UNIX_EPOCH
                        + Duration::new(stamp.tv_sec as u64, stamp.tv_nsec as u32),
                );
            }
            header = libc::CMSG_NXTHDR(message, header);
        }
    }
    None
}

/// Packet sockets on real interfaces, with the real clock.
pub(crate) struct PacketDevice {
    sockets: Vec<PacketSocket>,
    waker: Waker,
    clock: Clock,
    poll: Vec<libc::pollfd>,
    buffer: Vec<u8>,
    overflows: u64,
}

impl PacketDevice {
    /// Opens every interface. An error comes with the name of the interface.
    pub(crate) fn open<'a>(
        interfaces: impl IntoIterator<Item = &'a str>,
        clock: Clock,
        waker: Waker,
    ) -> Result<Self, (String, io::Error)> {
        let sockets = interfaces
            .into_iter()
            .map(|name| PacketSocket::open(name).map_err(|error| (name.to_owned(), error)))
            .collect::<Result<Vec<_>, _>>()?;
        let entry = |fd: RawFd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 };
        let poll = std::iter::once(waker.0.as_raw_fd())
            .chain(sockets.iter().map(|socket| socket.0.as_raw_fd()))
            .map(entry)
            .collect();
        Ok(PacketDevice { sockets, waker, clock, poll, buffer: vec![0; MAX_FRAME], overflows: 0 })
    }
}

impl Device for PacketDevice {
    fn now(&mut self) -> Time {
        self.clock.now()
    }

    fn wait(&mut self, until: Option<Time>) -> io::Result<()> {
        let timeout = until.map(|until| {
            let nanos = until.saturating_sub(self.clock.now()).0;
            libc::timespec {
                tv_sec: (nanos / 1_000_000_000) as libc::time_t,
                tv_nsec: (nanos % 1_000_000_000) as libc::c_long,
            }
        });
        let timeout = timeout.as_ref().map_or(ptr::null(), ptr::from_ref);
        let count = self.poll.len() as libc::nfds_t;
        // SAFETY: `poll` holds `count` entries; the timeout is null or lives until the call returns.
        let result = unsafe { libc::ppoll(self.poll.as_mut_ptr(), count, timeout, ptr::null()) };
        match check(result) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        if self.poll[0].revents != 0 {
            self.waker.reset();
        }
        Ok(())
    }

    fn receive(&mut self, until: Time, sink: Sink<'_>) {
        // The first entry is the waker. Frames that arrive after `wait` are left for the next round.
        let sockets = self.sockets.iter().zip(&mut self.poll[1..]).enumerate();
        for (index, (socket, entry)) in sockets.filter(|(_, (_, entry))| entry.revents != 0) {
            let port = PortId(index);
            loop {
                match socket.receive(&mut self.buffer) {
                    Ok(None) => break,
                    Ok(Some((frame, stamp))) => {
                        let at = self.clock.time_of(stamp);
                        sink(port, Ok((at, frame)));
                        if at > until {
                            break;
                        }
                    }
                    Err(error) => {
                        // An interface that is down says so once and may come up again. Any other error
                        // could come back at once for ever.
                        if error.kind() != io::ErrorKind::NetworkDown {
                            entry.fd = -1; // which ppoll ignores
                        }
                        sink(port, Err(error));
                        break;
                    }
                }
            }
        }
    }

    fn send(&mut self, port: PortId, frame: &Outgoing<'_>) -> io::Result<()> {
        self.sockets[port.0].send(frame)
    }

    fn overflows(&mut self) -> u64 {
        self.overflows += self.sockets.iter().map(PacketSocket::take_drops).sum::<u64>();
        self.overflows
    }
}

/// Requests exact timers and precedence over ordinary threads, as far as that is allowed.
///
/// Real-time scheduling needs privileges that an ordinary user lacks; a short time slice does not. Since
/// Linux 6.12, a thread with a short slice runs soon after it wakes, however busy the others are.
pub(crate) fn prioritise_this_thread() {
    const REALTIME_PRIORITY: c_int = 1;
    const SLICE_NS: u64 = 100_000; // the shortest that Linux grants
    // SAFETY: both parameters are plain structures for which all-zero bytes are valid; their pointers
    // live through the calls, and `size` states how long the second one is. All of the calls may
    // fail, and the emulator then runs like any other thread.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1);
        let mut realtime: libc::sched_param = zeroed();
        realtime.sched_priority = REALTIME_PRIORITY;
        let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK; // not for threads that it starts
        if libc::sched_setscheduler(0, policy, &raw const realtime) != 0 {
            let mut slice: libc::sched_attr = zeroed();
            slice.size = size_of::<libc::sched_attr>() as u32;
            slice.sched_policy = libc::SCHED_OTHER as u32;
            slice.sched_runtime = SLICE_NS;
            libc::syscall(libc::SYS_sched_setattr, 0, &raw const slice, 0);
        }
    }
}
