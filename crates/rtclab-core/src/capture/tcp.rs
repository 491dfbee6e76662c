//! TCP headers in captures. Simulated segments are numbered per segment; headers count bytes.

use crate::ipv4::{Ends, Payload, TcpFields, TcpOptions, write_tcp};
use crate::packet::{Address, MAX_SEGMENT_BYTES, Segment, SegmentKind, Signalling};
use crate::units::Time;
use std::collections::HashMap;

/// A receive window that never limits: 8 MB with [`WINDOW_SCALE`].
const WINDOW: u16 = u16::MAX;
/// The window scale that Linux uses.
const WINDOW_SCALE: u8 = 7;
/// Maximum segment size: 1500 B less IPv4 and TCP headers.
const MAX_SEGMENT_OPTION: u16 = 1_460;

/// The client of a connection: the end that opens it and sends data.
pub(super) fn client(segment: &Segment, from: Address, to: Address) -> Address {
    match segment.kind {
        SegmentKind::Syn | SegmentKind::Data => from,
        SegmentKind::SynAck | SegmentKind::Ack => to,
    }
}

/// Header of a segment of signalling. The connection's handshake and acknowledgements are not simulated.
pub(super) fn of_signalling(at: Time, segment: Signalling) -> TcpFields<'static> {
    TcpFields {
        seq: 1 + u32::from(segment.index) * u32::from(Signalling::FULL_BYTES),
        ack: Some(1),
        psh: segment.index + 1 == segment.count,
        window: WINDOW,
        options: TcpOptions { timestamps: Some((milliseconds(at), 0)), ..TcpOptions::default() },
        ..TcpFields::default()
    }
}

/// State of connections that their segments do not carry.
#[derive(Default)]
pub(super) struct Connections {
    /// Last segment of each client's connection if it is not full: connection, segment number and payload
    /// bytes, by the client's port.
    short: HashMap<u32, (u32, u32, u16)>,
    /// TCP sequence numbers of the segments of streams of messages, and of the end of the last one, by the
    /// ports of sender and receiver.
    streams: HashMap<[u32; 2], Vec<u32>>,
}

impl Connections {
    /// Appends a segment; returns its length on the wire.
    pub(super) fn write(
        &mut self,
        out: &mut Vec<u8>,
        ends: Ends,
        client: Address,
        segment: &Segment,
    ) -> u32 {
        let Segment { kind, seq, ack, payload, connection, .. } = *segment;
        if kind == SegmentKind::Data && payload < MAX_SEGMENT_BYTES {
            self.short.insert(client.port, (connection, seq, payload));
        }
        let position = |number| self.position(client.port, connection, number);
        let echo = milliseconds(segment.echo);
        let mut options = TcpOptions {
            timestamps: Some((milliseconds(segment.sent), echo)),
            ..TcpOptions::default()
        };
        if matches!(kind, SegmentKind::Syn | SegmentKind::SynAck) {
            options.max_segment_bytes = Some(MAX_SEGMENT_OPTION);
            options.sack_permitted = true;
            options.window_scale = Some(WINDOW_SCALE);
        }
        // RFC 2883: the duplicate comes first. The simulator does not say which segment it was; the one just
        // below `ack` had certainly arrived.
        let duplicate = segment.duplicate.then(|| (position(ack.saturating_sub(1)), position(ack)));
        let sacked = segment.sacked().iter().map(|(from, to)| (position(*from), position(*to)));
        let sack: Vec<(u32, u32)> = duplicate.into_iter().chain(sacked).collect();
        options.sack = &sack;
        let fields = TcpFields {
            seq: match kind {
                SegmentKind::Syn | SegmentKind::SynAck => 0,
                SegmentKind::Data => position(seq),
                SegmentKind::Ack => 1,
            },
            ack: match kind {
                SegmentKind::Syn => None,
                SegmentKind::SynAck | SegmentKind::Data => Some(1),
                SegmentKind::Ack => Some(position(ack)),
            },
            syn: matches!(kind, SegmentKind::Syn | SegmentKind::SynAck),
            ecn: segment.ecn.bits(),
            window: WINDOW,
            options,
            ..TcpFields::default()
        };
        write_tcp(out, ends, &fields, Payload { bytes: &[], zeros: payload.into() })
    }

    /// Appends a segment of a connection that carries messages both ways; returns its length on the wire.
    pub(super) fn write_stream(
        &mut self,
        out: &mut Vec<u8>,
        ends: Ends,
        [from, to]: [u32; 2],
        segment: &Segment,
    ) -> u32 {
        let Segment { kind, seq, ack, payload, .. } = *segment;
        let own = self.streams.entry([from, to]).or_insert_with(|| vec![1]);
        if kind == SegmentKind::Data && seq as usize + 1 == own.len() {
            own.push(own[seq as usize].wrapping_add(payload.into()));
        }
        let next = own.get(seq as usize).copied().unwrap_or(1);
        let sent = own.last().copied().unwrap_or(1);
        let far = self.streams.get(&[to, from]);
        let position =
            |number: u32| far.and_then(|far| far.get(number as usize)).copied().unwrap_or(1);
        let opens = matches!(kind, SegmentKind::Syn | SegmentKind::SynAck);
        let sack: Vec<(u32, u32)> =
            segment.sacked().iter().map(|(from, to)| (position(*from), position(*to))).collect();
        let fields = TcpFields {
            seq: match kind {
                SegmentKind::Syn | SegmentKind::SynAck => 0,
                SegmentKind::Data => next,
                SegmentKind::Ack => sent,
            },
            ack: (kind != SegmentKind::Syn).then(|| position(ack)),
            syn: opens,
            psh: kind == SegmentKind::Data,
            window: WINDOW,
            options: TcpOptions {
                timestamps: Some((milliseconds(segment.sent), milliseconds(segment.echo))),
                max_segment_bytes: opens.then_some(MAX_SEGMENT_OPTION),
                sack_permitted: opens,
                window_scale: opens.then_some(WINDOW_SCALE),
                sack: &sack,
            },
            ..TcpFields::default()
        };
        write_tcp(out, ends, &fields, Payload { bytes: &[], zeros: payload.into() })
    }

    /// TCP sequence number of the first byte of segment `number`; the SYN has sequence number 0.
    fn position(&self, client: u32, connection: u32, number: u32) -> u32 {
        let full = u32::from(MAX_SEGMENT_BYTES);
        let missing = match self.short.get(&client) {
            Some((of, last, payload)) if *of == connection && *last < number => {
                full - u32::from(*payload)
            }
            _ => 0,
        };
        number.wrapping_mul(full).wrapping_add(1).wrapping_sub(missing)
    }
}

fn milliseconds(time: Time) -> u32 {
    (time.as_nanos() / 1_000_000) as u32
}
