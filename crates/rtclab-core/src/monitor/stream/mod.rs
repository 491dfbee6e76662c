//! An RTP stream seen at a point.

pub(crate) mod clock;
pub(crate) mod extensions;
pub(crate) mod rate;
pub(crate) mod send_time;
pub(crate) mod sequence;
pub(crate) mod sketch;
pub(crate) mod steps;

use super::demux::Relay;
use super::repair::Likeness;
use super::sdp::PayloadKind;
use crate::ecn::Ecn;
use clock::RtpClock;
use extensions::Values;
use rate::{Second, SecondRates};
use send_time::RelativeDelay;
use sequence::{Order, Sequence};
use sketch::{PacketName, Sketch};
use steps::Steps;

/// Maximum number of payload types counted separately in a stream.
const MAX_PAYLOAD_TYPES: usize = 8;
/// Number of packets remembered to find out whether others continue a stream.
const LATEST_PACKETS: usize = 16;

/// An RTP packet: fields of its header, and where and when it was seen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RtpSeen {
    pub(crate) at_ns: i64,
    pub(crate) flow: u32,
    pub(crate) ssrc: u32,
    pub(crate) seq: u16,
    pub(crate) timestamp: u32,
    pub(crate) payload_type: u8,
    /// Clock rate of the payload type, if an SDP or RFC 3551 gives one.
    pub(crate) clock_rate: Option<u32>,
    pub(crate) marker: bool,
    /// IP total length.
    pub(crate) ip_bytes: u32,
    pub(crate) ecn: Ecn,
    /// Length after the RTP header, including the SRTP authentication tag.
    pub(crate) payload_bytes: u32,
    pub(crate) relay: Option<Relay>,
    pub(crate) extensions: Values,
    pub(crate) likeness: Likeness,
    /// Row in the table of packets, if that is kept.
    pub(crate) row: usize,
}

/// State of a stream, of constant size but for the list of its flows.
#[derive(Clone, Debug)]
pub(crate) struct Stream {
    /// The flow in which it began.
    pub(crate) flow: u32,
    /// Other flows that carried it on: see [`paths`](super::paths).
    pub(crate) other_flows: Vec<u32>,
    pub(crate) ssrc: u32,
    pub(crate) first_ns: i64,
    pub(crate) last_ns: i64,
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) payload_bytes: u64,
    /// Number of packets by ECN codepoint, in the order of [`Ecn::ALL`].
    pub(crate) ecn: [u64; 4],
    pub(crate) markers: u64,
    pub(crate) frames: u64,
    pub(crate) sequence: Sequence,
    pub(crate) clock: RtpClock,
    pub(crate) steps: Steps,
    pub(crate) rates: SecondRates,
    pub(crate) delay: Option<RelativeDelay>,
    pub(crate) relay: Option<Relay>,
    shared_timestamps: u64,
    /// Number of packets that repeat one of another stream, and that protect some.
    repeats: u64,
    protects: u64,
    unpadded: u64,
    last_timestamp: u32,
    payload_types: [(u8, u64); MAX_PAYLOAD_TYPES],
    pub(crate) sketch: Sketch,
    /// The packets that were counted last, in no order.
    pub(crate) latest: [PacketName; LATEST_PACKETS],
    /// Last packet whose sequence number was far from the others.
    stray: Option<RtpSeen>,
}

/// Result of adding a packet to a stream.
#[derive(Clone, Debug)]
pub(crate) struct StreamUpdate {
    pub(crate) extended_seq: i64,
    /// Place of the packet in the sequence. If it is [`Order::Stray`], the packet was not counted.
    pub(crate) order: Order,
    pub(crate) relative_delay_ms: Option<f64>,
    /// The second that ended before this packet, if any.
    pub(crate) ended: Option<Second>,
    /// An earlier stray packet that is accepted now, with its result.
    pub(crate) before: Option<Box<(RtpSeen, StreamUpdate)>>,
}

impl StreamUpdate {
    fn new(extended_seq: i64, order: Order) -> Self {
        StreamUpdate { extended_seq, order, relative_delay_ms: None, ended: None, before: None }
    }
}

impl Stream {
    /// Creates a stream. Its first packet, `first`, must still be [received](Self::receive).
    pub(crate) fn new(first: &RtpSeen, begin_ns: i64, sketch: usize) -> Self {
        Stream {
            flow: first.flow,
            other_flows: Vec::new(),
            ssrc: first.ssrc,
            first_ns: first.at_ns,
            last_ns: first.at_ns,
            packets: 0,
            bytes: 0,
            payload_bytes: 0,
            ecn: [0; 4],
            markers: 0,
            frames: 0,
            sequence: Sequence::starting_at(first.seq, first.at_ns),
            clock: RtpClock::starting_at(first.at_ns, first.timestamp, first.clock_rate),
            steps: Steps::default(),
            rates: SecondRates::starting_at(second_of(first.at_ns, begin_ns)),
            delay: None,
            relay: first.relay,
            shared_timestamps: 0,
            repeats: 0,
            protects: 0,
            unpadded: 0,
            last_timestamp: first.timestamp.wrapping_sub(1),
            payload_types: [(0, 0); MAX_PAYLOAD_TYPES],
            sketch: Sketch::of(sketch),
            latest: [PacketName { seq: first.seq, timestamp: first.timestamp }; LATEST_PACKETS],
            stray: None,
        }
    }

    /// Adds a packet. `begin_ns` is the beginning of the capture.
    #[inline]
    pub(crate) fn receive(&mut self, packet: &RtpSeen, begin_ns: i64) -> StreamUpdate {
        let (extended_seq, order) = self.sequence.receive(packet.seq, packet.at_ns);
        let mut received = StreamUpdate::new(extended_seq, order);
        if order == Order::Stray {
            self.stray = Some(*packet);
            return received;
        }
        if order == Order::Restart {
            if let Some(stray) = self.stray.take() {
                let mut first = StreamUpdate::new(extended_seq - 1, Order::Newest);
                self.count(&stray, &mut first, begin_ns);
                received.before = Some(Box::new((stray, first)));
            }
        }
        self.count(packet, &mut received, begin_ns);
        received
    }

    #[inline]
    fn count(&mut self, packet: &RtpSeen, received: &mut StreamUpdate, begin_ns: i64) {
        if self.packets > 0 {
            self.clock.update(packet.at_ns, packet.timestamp, packet.clock_rate);
        }
        self.first_ns = self.first_ns.min(packet.at_ns);
        self.last_ns = self.last_ns.max(packet.at_ns);
        self.packets += 1;
        self.bytes += u64::from(packet.ip_bytes);
        self.payload_bytes += u64::from(packet.payload_bytes);
        self.ecn[packet.ecn as usize] += 1;
        self.markers += u64::from(packet.marker);
        self.shared_timestamps += u64::from(packet.likeness.shares_timestamp);
        self.repeats += u64::from(packet.likeness.repeats);
        self.protects += u64::from(packet.likeness.protects);
        self.unpadded += u64::from(!packet.likeness.padded);
        self.step(packet, received);
        self.relay = packet.relay.or(self.relay);
        if matches!(received.order, Order::Newest | Order::Restart)
            && packet.timestamp != self.last_timestamp
        {
            self.frames += 1;
            self.last_timestamp = packet.timestamp;
        }
        self.count_payload_type(packet.payload_type);
        let name = PacketName { seq: packet.seq, timestamp: packet.timestamp };
        self.latest[self.packets as usize % LATEST_PACKETS] = name;
        self.sketch.consider(name, packet.at_ns);
        received.relative_delay_ms =
            packet.extensions.abs_send_time.map(|sent| match &mut self.delay {
                Some(delay) => delay.update(packet.at_ns, sent),
                none => {
                    *none = Some(RelativeDelay::starting_at(packet.at_ns, sent));
                    0.0
                }
            });
        received.ended = self.rates.add(second_of(packet.at_ns, begin_ns), packet.ip_bytes);
    }

    /// Follows the timestamps of packets whose clock is not described.
    #[inline]
    fn step(&mut self, packet: &RtpSeen, received: &StreamUpdate) {
        if received.order == Order::Restart {
            self.steps.interrupt();
        }
        let is_ahead = matches!(received.order, Order::Newest | Order::Restart);
        if is_ahead && packet.clock_rate.is_none() {
            let place = (received.extended_seq, packet.timestamp);
            self.steps.add(packet.at_ns, place, packet.payload_type);
        }
    }

    /// Difference of a timestamp from the one of the newest packet, within half the range.
    pub(crate) fn timestamp_after(&self, timestamp: u32) -> i32 {
        timestamp.wrapping_sub(self.last_timestamp) as i32
    }

    /// Adds the bytes of a later fragment of a counted packet.
    pub(crate) fn add_bytes(&mut self, ip_bytes: u32) {
        self.bytes += u64::from(ip_bytes);
        self.rates.add_bytes(ip_bytes);
    }

    #[inline]
    fn count_payload_type(&mut self, payload_type: u8) {
        let slots = &mut self.payload_types;
        if let Some(slot) =
            slots.iter_mut().find(|(known, count)| *known == payload_type || *count == 0)
        {
            *slot = (payload_type, slot.1 + 1);
        }
    }

    /// Payload types with their number of packets, the most frequent first.
    pub(crate) fn payload_types(&self) -> Vec<(u8, u64)> {
        let mut found: Vec<_> =
            self.payload_types.iter().copied().filter(|(_, count)| *count > 0).collect();
        found.sort_by_key(|(payload_type, count)| (u64::MAX - count, *payload_type));
        found
    }

    /// Most frequent payload type.
    pub(crate) fn payload_type(&self) -> u8 {
        self.payload_types().first().map_or(0, |(payload_type, _)| *payload_type)
    }

    /// Whether the stream repairs another one of its flow, by what most of its packets repeat or protect.
    pub(crate) fn repair(&self) -> Option<PayloadKind> {
        if self.protects * 2 >= self.packets && self.protects >= self.repeats {
            return Some(PayloadKind::Fec);
        }
        // A sender may fill pauses with padding, which repeats nothing.
        let shares = self.shared_timestamps * 5 >= self.packets * 4;
        (shares && self.repeats * 2 >= self.unpadded).then_some(PayloadKind::Rtx)
    }
}

/// Whole seconds since the beginning of the capture; 0 for earlier times.
#[inline]
pub(crate) fn second_of(at_ns: i64, begin_ns: i64) -> u32 {
    u32::try_from((at_ns - begin_ns).max(0) / 1_000_000_000).unwrap_or(u32::MAX)
}
