//! The receiver of a connection: reassembly, delayed and selective acknowledgements.

use crate::ecn::Ecn;
use crate::packet::{EcnFlags, MAX_SACK_BLOCKS, MAX_SEGMENT_BYTES, Segment, SegmentKind};
use crate::units::{Bytes, Time};

/// Delay of acknowledgements (Linux, `TCP_DELACK_MIN`).
const DELAYED_ACK: Time = Time::from_millis(40);
/// RFC 5681: at least every second full segment is acknowledged.
const SEGMENTS_PER_ACK: u32 = 2;
/// Linux, `TCP_MAX_QUICKACKS`: number of initial acknowledgements that are not delayed.
const QUICK_ACKS: u32 = 16;
/// Linux, `tcp_rmem[2]`: maximum receive buffer, by default 6 MiB on a machine with enough memory. It ends slow start where
/// nothing is lost.
const RECEIVE_BUFFER: u32 = 6 << 20;
/// Linux: memory that a full segment occupies in the receive buffer. Linux advertises as much window as fits with
/// this overhead: 3.98 MB, measured on Linux 6.18 with a buffer of 6 MiB between network namespaces.
const BUFFERED_SEGMENT: u32 = 2304;
/// Linux, `__tcp_ecn_check_ce`: acknowledgements that are not delayed after the first mark of classic ECN.
const QUICK_ECHOES: u32 = 2;
/// Maximum receive window.
pub(super) const RECEIVE_WINDOW_SEGMENTS: u32 = RECEIVE_BUFFER / BUFFERED_SEGMENT;

/// What acknowledgements say about marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Echo {
    /// ECN is not in use.
    Nothing,
    /// Classic ECN (RFC 3168, 6.1.3). The echo is `latched` from a mark on until the sender says that it has reduced its
    /// window.
    Classic { latched: bool },
    /// Accurate ECN (RFC 9768, 3.2): the number of marked segments. Acknowledgements get the codepoint of the data.
    Accurate { marked: u32, codepoint: Ecn },
}

impl Echo {
    fn flags(self) -> EcnFlags {
        match self {
            Echo::Nothing | Echo::Classic { latched: false } => EcnFlags::NONE,
            Echo::Classic { latched: true } => EcnFlags::ECHO,
            Echo::Accurate { marked, .. } => EcnFlags::ace(marked),
        }
    }

    /// The flags that accept an opening. An opening with accurate ECN always arrives without a codepoint.
    fn answer(self) -> EcnFlags {
        match self {
            Echo::Nothing => EcnFlags::NONE,
            Echo::Classic { .. } => EcnFlags::ECHO,
            Echo::Accurate { .. } => EcnFlags::REDUCED,
        }
    }

    /// The codepoint of acknowledgements.
    fn codepoint(self) -> Ecn {
        match self {
            Echo::Nothing | Echo::Classic { .. } => Ecn::NotCapable,
            Echo::Accurate { codepoint, .. } => codepoint,
        }
    }
}

/// Receiver of one connection.
pub struct TcpReceiver {
    connection: u32,
    next: u32,
    /// Segments that arrived above `next`, as `[from, to)`, most recent first.
    blocks: Vec<(u32, u32)>,
    /// Number and payload of the last segment, if it has arrived and is not full.
    last: Option<(u32, u16)>,
    unacknowledged: u32,
    quick: u32,
    last_ack: u32,
    echo: Time,
    delayed: Option<Time>,
    ready: bool,
    duplicate: bool,
    synchronised: bool,
    answer: bool,
    ecn: Echo,
}

impl TcpReceiver {
    /// Creates a receiver that waits for its connection to be opened.
    pub fn new(connection: u32) -> Self {
        TcpReceiver {
            connection,
            next: 0,
            blocks: Vec::new(),
            last: None,
            unacknowledged: 0,
            quick: QUICK_ACKS,
            last_ack: 0,
            echo: Time::ZERO,
            delayed: None,
            ready: false,
            duplicate: false,
            synchronised: false,
            answer: false,
            ecn: Echo::Nothing,
        }
    }

    /// Bytes passed to the application, in order.
    pub fn delivered(&self) -> Bytes {
        let full = u64::from(MAX_SEGMENT_BYTES);
        let short = self.last.filter(|(seq, _)| *seq < self.next);
        let missing = short.map_or(0, |(_, payload)| full - u64::from(payload));
        Bytes(u64::from(self.next) * full - missing)
    }

    /// Number of the first segment that is missing.
    pub fn next(&self) -> u32 {
        self.next
    }

    /// Begins to receive on a connection that this end has opened, and acknowledges its acceptance.
    pub(super) fn synchronise(&mut self, segment: &Segment) {
        self.echo = segment.sent;
        self.ready |= !self.synchronised || segment.kind == SegmentKind::SynAck;
        self.synchronised = true;
    }

    /// Number of the segment expected next, and the timestamp to echo.
    pub(super) fn acknowledged(&self) -> (u32, Time) {
        (self.next, self.echo)
    }

    /// Handles a segment that arrived with the codepoint `ecn`.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment, ecn: Ecn) {
        if segment.kind == SegmentKind::Syn {
            if !self.synchronised {
                self.ecn = match segment.ecn {
                    EcnFlags::ASK_CLASSIC => Echo::Classic { latched: false },
                    EcnFlags::ASK_ACCURATE => {
                        Echo::Accurate { marked: 0, codepoint: Ecn::NotCapable }
                    }
                    _ => Echo::Nothing,
                };
            }
            self.synchronised = true;
            self.answer = true;
            self.echo = segment.sent;
            return;
        }
        if segment.kind != SegmentKind::Data || !self.synchronised {
            return;
        }
        if !self.is_in_window(segment.seq) {
            self.ready = true;
            return;
        }
        self.note_ecn(segment, ecn);
        // RFC 7323, 4.3: echo the first segment since the last acknowledgement, so that the RTT includes its
        // delay.
        if segment.seq <= self.last_ack {
            self.echo = segment.sent;
        }
        if segment.payload < MAX_SEGMENT_BYTES {
            self.last = Some((segment.seq, segment.payload));
        }
        let had_holes = !self.blocks.is_empty();
        if segment.seq < self.next || self.contains(segment.seq) {
            self.duplicate = true;
            self.ready = true;
        } else if segment.seq == self.next {
            self.accept();
            let due = self.unacknowledged >= SEGMENTS_PER_ACK || self.quick > 0 || had_holes;
            self.ready |= due;
            if !due {
                self.delayed = self.delayed.or(Some(now + DELAYED_ACK));
            }
        } else {
            self.insert(segment.seq);
            self.ready = true;
        }
    }

    /// Whether a segment is not beyond the receive window. One that is beyond is dropped and answered with an
    /// acknowledgement (RFC 9293, section 3.10.7.4).
    pub(super) fn is_in_window(&self, seq: u32) -> bool {
        seq < self.next.saturating_add(RECEIVE_WINDOW_SEGMENTS)
    }

    /// The next segment to send, if any, and its codepoint.
    pub fn poll(&mut self, now: Time) -> Option<(Segment, Ecn)> {
        if self.answer {
            self.answer = false;
            let mut segment = Segment::new(self.connection, SegmentKind::SynAck, now);
            segment.echo = self.echo;
            segment.ecn = self.ecn.answer();
            return Some((segment, Ecn::NotCapable));
        }
        if !(self.ready || self.delayed.is_some_and(|at| at <= now)) {
            return None;
        }
        let mut segment = Segment::new(self.connection, SegmentKind::Ack, now);
        segment.ack = self.next;
        segment.echo = self.echo;
        segment.duplicate = self.duplicate;
        segment.ecn = self.ecn.flags();
        let room = MAX_SACK_BLOCKS - usize::from(self.duplicate);
        for (slot, block) in segment.sack.iter_mut().zip(self.blocks.iter().take(room)) {
            *slot = *block;
            segment.sack_blocks += 1;
        }
        self.last_ack = self.next;
        self.quick = self.quick.saturating_sub(1);
        self.unacknowledged = 0;
        self.delayed = None;
        self.ready = false;
        self.duplicate = false;
        Some((segment, self.ecn.codepoint()))
    }

    /// When to call [`TcpReceiver::poll`] if no segment arrives before.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.delayed
    }

    /// Notes the codepoint and the flags of a data segment.
    fn note_ecn(&mut self, segment: &Segment, ecn: Ecn) {
        let is_marked = ecn == Ecn::CongestionExperienced;
        match &mut self.ecn {
            Echo::Nothing => {}
            Echo::Classic { latched } => {
                if segment.ecn.has(EcnFlags::REDUCED) {
                    *latched = false;
                    // Linux, `tcp_ecn_accept_cwr`.
                    self.ready = true;
                }
                if is_marked && !*latched {
                    *latched = true;
                    self.quick = self.quick.max(QUICK_ECHOES);
                }
            }
            Echo::Accurate { marked, .. } if is_marked => *marked = marked.wrapping_add(1),
            Echo::Accurate { codepoint, .. } => *codepoint = ecn,
        }
    }

    fn accept(&mut self) {
        self.next += 1;
        self.unacknowledged += 1;
        if let Some(index) = self.blocks.iter().position(|(from, _)| *from == self.next) {
            self.next = self.blocks.remove(index).1;
        }
    }

    fn contains(&self, seq: u32) -> bool {
        self.blocks.iter().any(|(from, to)| (*from..*to).contains(&seq))
    }

    /// Merges a segment with the adjacent blocks. The result becomes the most recent block.
    fn insert(&mut self, seq: u32) {
        let (mut from, mut to) = (seq, seq + 1);
        self.blocks.retain(|&(a, b)| {
            let beside = b == seq || a == seq + 1;
            if beside {
                from = from.min(a);
                to = to.max(b);
            }
            !beside
        });
        self.blocks.insert(0, (from, to));
    }
}
