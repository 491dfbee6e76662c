//! From packets to pictures on the screen: assembly, continuity, de-jitter, freezes.

mod assembly;
mod buffer;
mod extrapolator;
mod freezes;
mod jitter;
mod peak;
mod rtt;
mod timing;

pub use buffer::JitterBuffer;
pub use peak::PeakPlayout;
pub use rtt::{RecentRtt, RttFilter};

use super::grid::Timers;
use crate::packet::VideoPart;
use crate::units::{Bytes, Time};

/// How long a receiver holds pictures back so that they can be shown evenly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlayoutRule {
    /// As long as the latest picture was late, halved every 5 s: see [`PeakPlayout`].
    Peak,
    /// As in Chromium 156: see [`JitterBuffer`].
    JitterEstimate,
}

impl PlayoutRule {
    /// The receiving end of a stream whose RTP clock has `clock_rate` ticks a second.
    ///
    /// The timers belong to the browser that plays it.
    pub fn start(self, clock_rate: f64, timers: Timers) -> Box<dyn Playout> {
        match self {
            PlayoutRule::Peak => Box::new(PeakPlayout::new(clock_rate)),
            PlayoutRule::JitterEstimate => Box::new(JitterBuffer::new(clock_rate, timers)),
        }
    }
}

/// A picture that was shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rendered {
    /// RTP timestamp, unwrapped.
    pub timestamp: i64,
    /// When its last packet arrived.
    pub received: Time,
    /// When it was shown.
    pub rendered: Time,
    /// How long it was in the decoder.
    pub decode: Time,
    /// Encoded size.
    pub size: Bytes,
    /// Width and height.
    pub resolution: (u16, u16),
}

/// Totals, under the names of W3C webrtc-stats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlayoutStats {
    /// Complete pictures.
    pub frames_received: u64,
    /// Pictures decoded and shown.
    pub frames_decoded: u64,
    /// Pictures dropped.
    pub frames_dropped: u64,
    /// Freezes.
    pub freeze_count: u64,
    /// Seconds spent in freezes.
    pub total_freezes_duration: f64,
    /// Seconds spent in the de-jitter buffer, summed over pictures.
    pub jitter_buffer_delay: f64,
    /// Pictures that have left the de-jitter buffer.
    pub jitter_buffer_emitted_count: u64,
    /// Totals that Chromium 156 reports and browsers until 2016 did not.
    pub details: Option<PlayoutDetails>,
}

/// Totals that Chromium 156 reports and browsers until 2016 did not, under the names of W3C webrtc-stats.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PlayoutDetails {
    /// Key frames decoded.
    pub key_frames_decoded: u64,
    /// Decoded pictures whose packets did not all arrive at the same time.
    pub frames_assembled_from_multiple_packets: u64,
    /// Seconds from the first to the last packet, summed over these pictures.
    pub total_assembly_time: f64,
    /// Seconds spent decoding.
    pub total_decode_time: f64,
    /// Seconds from the first packet to the end of decoding, summed over pictures.
    pub total_processing_delay: f64,
    /// Seconds from the first picture to the last.
    pub total_inter_frame_delay: f64,
    /// Sum of the squares of the intervals between pictures, in s².
    pub total_squared_inter_frame_delay: f64,
    /// Pauses: intervals in which the sender sent nothing for 5 s.
    pub pause_count: u64,
    /// Seconds spent in pauses.
    pub total_pauses_duration: f64,
    /// Delay that the de-jitter buffer aims at in seconds, summed over pictures.
    pub jitter_buffer_target_delay: f64,
    /// Delay that the network alone would demand in seconds, summed over pictures.
    pub jitter_buffer_minimum_delay: f64,
}

/// Which packet of which frame. All numbers are unwrapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketIds {
    /// RTP sequence number.
    pub seq: i64,
    /// Number of the frame.
    pub frame: i64,
    /// RTP timestamp.
    pub timestamp: i64,
}

/// Receiving end of one video stream.
pub trait Playout: Send {
    /// Adds a part of a frame that was not received before; returns whether the frame can still be shown.
    /// `requested` says whether the packet had been requested again.
    fn on_packet(
        &mut self,
        now: Time,
        part: &VideoPart,
        marker: bool,
        ids: PacketIds,
        requested: bool,
    ) -> bool;

    /// Takes the longest recent round trip; see [`RecentRtt`].
    fn on_rtt(&mut self, _rtt: Time) {}

    /// Sets the least time from capture to display that synchronisation with audio needs.
    fn set_min_delay(&mut self, _delay: Time) {}

    /// Delay from the arrival of a typical picture to its display that the buffer aims at.
    fn target_delay(&self) -> Time;

    /// Whether the receiver should request a key frame now.
    fn poll_key_request(&mut self, now: Time) -> bool;

    /// When to call [`Playout::poll`] or [`Playout::poll_key_request`] again.
    fn poll_timeout(&self) -> Option<Time>;

    /// When the next picture goes to the decoder, which is [silent](crate#silent-timeouts): nobody sees the picture before
    /// it is shown.
    fn next_silent(&self) -> Time {
        Time::MAX
    }

    /// Makes up for a picture that went to the decoder before `now`.
    fn catch_up(&mut self, _now: Time) {}

    /// The next picture shown by `now`.
    fn poll(&mut self, now: Time) -> Option<Rendered>;

    /// Sequence number up to which no packet is needed any more.
    fn settled_seq(&self) -> Option<i64>;

    /// Width and height of the last picture shown.
    fn resolution(&self) -> (u16, u16);

    /// Totals so far.
    fn stats(&self) -> &PlayoutStats;
}

#[cfg(test)]
mod tests;
