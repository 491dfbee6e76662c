//! Releases packets at the pacing rate, in priority order, and runs probes.

mod burst;
mod prober;
mod queue;
mod tick_prober;
mod ticks;

use crate::cc::Probe;
use crate::packet::{Kind, VideoPart};
use crate::units::{Bitrate, Bytes, Time};
use burst::BurstPacer;
use ticks::TickPacer;

/// A packet of pure padding carries this many bytes (libwebrtc until 2024, kMaxPaddingLength).
const PADDING_BYTES: u64 = 224;
/// A packet of pure padding carries this many bytes in all of 70 event logs of Chromium 156.
const PADDING_BYTES_SINCE_2024: u64 = 255;
/// A new packet becomes the one that padding repeats unless it is this many bytes smaller, or more.
const REPEAT_HYSTERESIS: u16 = 100;
/// After this many further packets, a new packet becomes the one that padding repeats, whatever its size.
const REPEAT_MAX_AGE: u16 = 1 << 13;
/// Pacing rate without a pacer, as in libwebrtc in 2013: so fast that nothing waits.
const UNPACED: Bitrate = Bitrate::from_mbps(100_000);
/// How far packets may leave ahead of [`UNPACED`].
const UNPACED_BURST: Time = Time::from_millis(40);

/// How packets are paced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pacing {
    /// Packets leave at once (libjingle in 2013).
    None,
    /// Packets leave at a multiple of the target, all packets of a tick at once; audio does not count.
    ///
    /// Source: libwebrtc 524ecc29dd, `paced_sender.cc`, kMinPacketLimitMs.
    Ticks {
        /// Ratio of pacing rate to target, if the congestion control sets no pacing rate.
        factor: f64,
        /// Interval at which the queue is checked.
        tick: Time,
    },
    /// Packets leave in bursts, at a multiple of the target on average (since 2022).
    Burst {
        /// Ratio of pacing rate to target, if the congestion control sets no pacing rate.
        factor: f64,
        /// A burst takes this long at the pacing rate, if the congestion control does not say.
        burst: Time,
    },
}

impl Pacing {
    /// Pacing rate for a target.
    pub fn rate(self, target: Bitrate) -> Bitrate {
        match self {
            Pacing::None => UNPACED,
            Pacing::Ticks { factor, .. } | Pacing::Burst { factor, .. } => target.scaled(factor),
        }
    }

    fn burst(self) -> Time {
        match self {
            Pacing::None => UNPACED_BURST,
            Pacing::Ticks { tick, .. } => tick,
            Pacing::Burst { burst, .. } => burst,
        }
    }

    /// Bytes in a packet of pure padding.
    pub(crate) fn padding(self) -> Bytes {
        match self {
            Pacing::None | Pacing::Ticks { .. } => Bytes(PADDING_BYTES),
            Pacing::Burst { .. } => Bytes(PADDING_BYTES_SINCE_2024),
        }
    }

    fn tick(self) -> Time {
        match self {
            Pacing::None | Pacing::Burst { .. } => Time::ZERO,
            Pacing::Ticks { tick, .. } => tick,
        }
    }
}

/// A media packet on its way through the pacer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MediaPacket {
    /// Index of its stream at its sender.
    pub stream: u8,
    /// What it carries.
    pub kind: Kind,
    /// RTP sequence number; for a retransmission the number of the original.
    pub seq: u16,
    /// RTP timestamp.
    pub timestamp: u32,
    /// Last packet of its frame.
    pub marker: bool,
    /// Part of a frame. For other kinds of packets only its bytes count.
    pub part: VideoPart,
}

impl MediaPacket {
    /// Whether padding repeats `next` from now on, and not this packet: if it is less than 100 B smaller, or much
    /// newer (libwebrtc since 2024, `rtp_packet_history.cc`).
    pub(crate) fn yields_to(&self, next: &MediaPacket) -> bool {
        next.part.bytes + REPEAT_HYSTERESIS > self.part.bytes
            || next.seq.wrapping_sub(self.seq) > REPEAT_MAX_AGE
    }
}

/// What the pacer releases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Release {
    /// A packet from the queue.
    Media(MediaPacket),
    /// A video packet once more, as padding: until 2024 the last one, since then the last large one.
    Repeat,
    /// A packet of pure padding with this many bytes.
    Padding(u16),
}

/// How a sender pads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Padding {
    /// IP total length of pure padding without its payload.
    pub overhead: Bytes,
    /// Whether packets of sound can be followed by padding. Otherwise only packets of video can.
    pub follows_audio: bool,
}

impl Pacing {
    /// An empty pacer for a first target.
    pub fn pacer(self, target: Bitrate, padding: Padding) -> Box<dyn Pacer> {
        match self {
            Pacing::Burst { .. } => Box::new(BurstPacer::new(self, target, padding)),
            _ => Box::new(TickPacer::new(self, target, padding)),
        }
    }
}

/// The pacer of a sender.
pub trait Pacer: Send {
    /// FEC packets of a stream that were released and have not been returned by [`Pacer::poll`].
    fn leaving_fec(&self, _stream: u8) -> usize {
        0
    }

    /// Sets the rates from `now` on. The debt stays the same in bytes.
    fn set_rates(&mut self, now: Time, rate: Bitrate, padding_rate: Bitrate);

    /// Sets how far packets may leave ahead of the pacing rate; `None` restores the default of the stack.
    fn set_burst(&mut self, burst: Option<Time>);

    /// Sets whether the congestion window is full, so that only audio may leave.
    fn set_congested(&mut self, now: Time, congested: bool);

    /// Adds a probe to run as soon as there is something to send.
    fn add_probe(&mut self, now: Time, probe: Probe);

    /// Queues a packet; `size` is its IP total length. Returns whether older packets of its stream were
    /// dropped, because a key frame begins with it.
    fn push(&mut self, now: Time, packet: MediaPacket, size: Bytes) -> bool;

    /// Bytes waiting.
    fn queued(&self) -> Bytes;

    /// How long the queue takes to empty at the present rate; zero for pacers that encoders do not wait for.
    fn expected_queue(&self) -> Time {
        Time::ZERO
    }

    /// When to call [`Pacer::poll`] again.
    fn poll_timeout(&self) -> Option<Time>;

    /// The next packet that may leave by `now`, and the probe it belongs to.
    fn poll(&mut self, now: Time) -> Option<(Release, Option<u32>)>;
}
