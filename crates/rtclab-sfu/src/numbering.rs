//! Makes one continuous RTP stream of the layers that are forwarded one after the other.
//!
//! The first stream keeps its sequence numbers and timestamps, so that a packet before the server can be
//! matched with the one after it. A layer that follows another continues where that one ended.

use std::time::{Instant, SystemTime};
use str0m::rtp::rtcp::SenderInfo;
use str0m::rtp::{RtpPacket, Vp8Descriptor, Vp8Patch};

/// Clock rate of video in RTP.
const TICKS_PER_S: f64 = 90_000.0;
const SEQ_CYCLE: u64 = 1 << 16;
const PICTURE_ID_MASK: u16 = 0x7fff;

/// What is forwarded instead of the fields of a received packet.
#[derive(Debug)]
pub(crate) struct Numbers {
    pub(crate) seq: u64,
    pub(crate) time: u32,
    pub(crate) vp8: Option<Vp8Patch>,
}

/// The numbering of one forwarded stream.
#[derive(Debug)]
pub(crate) struct Numbering {
    /// First received number of the current layer. Older packets belong to nothing that is forwarded.
    first_seq: u64,
    seq_offset: u64,
    time_offset: u32,
    picture_offset: u16,
    tl0_offset: u8,
    last: Last,
}

/// The newest packet, as it was forwarded.
#[derive(Debug)]
struct Last {
    seq: u64,
    time: u32,
    picture: u16,
    tl0: u8,
    at: Instant,
    /// The newest sender report of its layer.
    sender: Option<SenderInfo>,
}

impl Numbering {
    /// Begins with a stream, whose numbers stay as they are.
    ///
    /// The receiver counts the cycles of the 16-bit sequence number from 0, so the server does too.
    pub(crate) fn new(packet: &RtpPacket) -> Self {
        let cycles = *packet.seq_no / SEQ_CYCLE * SEQ_CYCLE;
        Self {
            first_seq: cycles,
            seq_offset: cycles.wrapping_neg(),
            time_offset: 0,
            picture_offset: 0,
            tl0_offset: 0,
            last: Last {
                seq: *packet.seq_no - cycles,
                time: packet.header.timestamp,
                picture: 0,
                tl0: 0,
                at: packet.timestamp,
                sender: None,
            },
        }
    }

    /// Continues with another layer, from the first packet of its key frame.
    pub(crate) fn switch(&mut self, packet: &RtpPacket, is_vp8: bool) {
        self.first_seq = *packet.seq_no;
        self.seq_offset = (self.last.seq + 1).wrapping_sub(*packet.seq_no);
        self.time_offset = self.next_time(packet).wrapping_sub(packet.header.timestamp);
        self.last.sender = None;
        let Some(vp8) = descriptor(packet, is_vp8) else { return };
        self.picture_offset = (self.last.picture + 1).wrapping_sub(vp8.picture_id().unwrap_or(0));
        self.tl0_offset =
            self.last.tl0.wrapping_add(1).wrapping_sub(vp8.tl0_pic_idx().unwrap_or(0));
    }

    /// The numbers with which a packet is forwarded; `None` if it is from before the switch to its layer.
    pub(crate) fn apply(&mut self, packet: &RtpPacket, is_vp8: bool) -> Option<Numbers> {
        if *packet.seq_no < self.first_seq {
            return None;
        }
        let seq = packet.seq_no.wrapping_add(self.seq_offset);
        let time = packet.header.timestamp.wrapping_add(self.time_offset);
        let vp8 = descriptor(packet, is_vp8);
        let newest = seq >= self.last.seq;
        if newest {
            (self.last.seq, self.last.time, self.last.at) = (seq, time, packet.timestamp);
            self.last.sender = packet.last_sender_info.or(self.last.sender);
        }
        let vp8 = vp8.and_then(|vp8| self.patch(&vp8, newest));
        Some(Numbers { seq, time, vp8 })
    }

    fn patch(&mut self, vp8: &Vp8Descriptor, newest: bool) -> Option<Vp8Patch> {
        let mut patch = vp8.patch();
        if let Some(received) = vp8.picture_id() {
            let picture = received.wrapping_add(self.picture_offset) & PICTURE_ID_MASK;
            patch = patch.picture_id(picture);
            self.last.picture = if newest { picture } else { self.last.picture };
        }
        if let Some(received) = vp8.tl0_pic_idx() {
            let tl0 = received.wrapping_add(self.tl0_offset);
            patch = patch.tl0_pic_idx(tl0);
            self.last.tl0 = if newest { tl0 } else { self.last.tl0 };
        }
        patch.build().ok()
    }

    /// Timestamp for the first packet of another layer: the time of its capture, on the clock of what was
    /// forwarded last. Sender reports relate the clocks of the layers to each other. Before there are any,
    /// the time since the last packet came replaces them.
    fn next_time(&self, packet: &RtpPacket) -> u32 {
        let waited_s = packet.timestamp.saturating_duration_since(self.last.at).as_secs_f64();
        let by_arrival = self.last.time.wrapping_add((waited_s * TICKS_PER_S) as u32);
        let by_reports = self.last.sender.zip(packet.last_sender_info).map(|(old, new)| {
            let since_new = packet.header.timestamp.wrapping_sub(new.rtp_time.numer() as u32);
            let between =
                (seconds_between(old.ntp_time, new.ntp_time) * TICKS_PER_S).round() as i64;
            (old.rtp_time.numer() as u32)
                .wrapping_add(self.time_offset)
                .wrapping_add(between as u32)
                .wrapping_add(since_new)
        });
        let time = by_reports.unwrap_or(by_arrival);
        let ahead = time.wrapping_sub(self.last.time);
        if ahead == 0 || ahead > u32::MAX / 2 { self.last.time.wrapping_add(1) } else { time }
    }
}

fn seconds_between(from: SystemTime, to: SystemTime) -> f64 {
    match to.duration_since(from) {
        Ok(later) => later.as_secs_f64(),
        Err(earlier) => -earlier.duration().as_secs_f64(),
    }
}

fn descriptor(packet: &RtpPacket, is_vp8: bool) -> Option<Vp8Descriptor> {
    is_vp8.then(|| Vp8Descriptor::parse(&packet.payload).ok()).flatten()
}
