//! Infers the ids of header extensions if no SDP describes them.

use crate::monitor::sdp::Sdp;
use crate::rtp::AbsSendTime;
use crate::rtp::extension::Elements;

/// Number of ids in the one-byte form, the only form in which ids are inferred.
const IDS: usize = 15;
/// Minimum number of packets before an id is judged.
const ENOUGH_PACKETS: u32 = 20;
/// Minimum time for which abs-send-time is compared with the capture's clock.
const ENOUGH_NS: i64 = 500_000_000;
/// Number of packets after which the observation of an undecided id starts over.
const PATIENCE_PACKETS: u32 = 500;

/// An extension id, and whether it was inferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LearnedId {
    pub(crate) id: u8,
    pub(crate) inferred: bool,
}

/// Values of the known extensions of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Values {
    pub(crate) abs_send_time: Option<AbsSendTime>,
    pub(crate) transport_sequence: Option<u16>,
}

/// Observation of a 3-byte extension that may be abs-send-time, which grows by 2^18 per second.
#[derive(Clone, Copy, Debug, Default)]
struct Timelike {
    packets: u32,
    first_at_ns: i64,
    last: i32,
    progress: i64,
}

/// Observation of a 2-byte extension that may be the transport-wide sequence number, which grows by one
/// per packet of the flow.
#[derive(Clone, Copy, Debug, Default)]
struct Counting {
    packets: u32,
    last: u16,
    by_one: u32,
}

/// Extension ids of one flow. All its streams share them, and the transport-wide sequence numbers.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learner {
    pub(crate) abs_send_time: Option<LearnedId>,
    pub(crate) transport_sequence: Option<LearnedId>,
    timelike: [Timelike; IDS],
    counting: [Counting; IDS],
}

impl Learner {
    pub(crate) fn new(sdp: &Sdp) -> Self {
        let known = |id: Option<u8>| id.map(|id| LearnedId { id, inferred: false });
        Learner {
            abs_send_time: known(sdp.abs_send_time),
            transport_sequence: known(sdp.transport_sequence),
            ..Learner::default()
        }
    }

    /// Reads the known extensions of a packet and observes the unknown ones.
    #[inline]
    pub(crate) fn read(&mut self, at_ns: i64, elements: Elements<'_>) -> Values {
        let mut values = Values::default();
        let is = |known: Option<LearnedId>, id| known.is_some_and(|known| known.id == id);
        for (id, data) in elements {
            match *data {
                [a, b, c] => {
                    let bits = u32::from_be_bytes([0, a, b, c]);
                    if self.abs_send_time.is_none() {
                        self.learn_time(at_ns, id, bits);
                    }
                    if is(self.abs_send_time, id) {
                        values.abs_send_time = Some(AbsSendTime::from_bits(bits));
                    }
                }
                [a, b] => {
                    let seq = u16::from_be_bytes([a, b]);
                    if self.transport_sequence.is_none() {
                        self.learn_sequence(id, seq);
                    }
                    if is(self.transport_sequence, id) {
                        values.transport_sequence = Some(seq);
                    }
                }
                _ => {}
            }
        }
        values
    }

    fn learn_time(&mut self, at_ns: i64, id: u8, bits: u32) {
        let Some(found) = self.timelike.get_mut(usize::from(id)) else { return };
        if found.packets == 0 || found.packets > PATIENCE_PACKETS {
            *found = Timelike { packets: 1, first_at_ns: at_ns, last: bits as i32, progress: 0 };
            return;
        }
        found.packets += 1;
        // Signed difference, within half the range of 24 bits.
        found.progress += i64::from((bits as i32 - found.last) << 8 >> 8);
        found.last = bits as i32;
        let elapsed_ns = at_ns - found.first_at_ns;
        if found.packets < ENOUGH_PACKETS || elapsed_ns < ENOUGH_NS {
            return;
        }
        let per_second = found.progress as f64 * 1e9 / elapsed_ns as f64;
        // A tolerance of a quarter for the network: delay may grow by 125 ms in half a second.
        if (0.75..1.25).contains(&(per_second / f64::from(1 << 18))) {
            self.abs_send_time = Some(LearnedId { id, inferred: true });
        }
    }

    fn learn_sequence(&mut self, id: u8, seq: u16) {
        let Some(found) = self.counting.get_mut(usize::from(id)) else { return };
        if found.packets == 0 || found.packets > PATIENCE_PACKETS {
            *found = Counting { packets: 1, last: seq, by_one: 0 };
            return;
        }
        found.packets += 1;
        found.by_one += u32::from(seq == found.last.wrapping_add(1));
        found.last = seq;
        // At least two of three packets: the others are lost or reordered.
        if found.packets >= ENOUGH_PACKETS && found.by_one * 3 >= found.packets * 2 {
            self.transport_sequence = Some(LearnedId { id, inferred: true });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rtp::extension::ONE_BYTE_PROFILE;
    use crate::units::Time;

    /// Feeds 40 packets, 25 ms apart. Ids 2 and 3 are as in Chromium. Id 4 is a constant, and 5 is a
    /// number that grows by two in every second packet.
    fn learn(learner: &mut Learner) -> Values {
        let mut values = Values::default();
        for index in 0..40u16 {
            let time = Time::from_millis(63_800 + 25 * u64::from(index));
            let [_, a, b, c] = AbsSendTime::from_time(time).bits().to_be_bytes();
            let [high, low] = (65_530 + u32::from(index)).to_be_bytes()[2..] else {
                unreachable!()
            };
            let data =
                [0x22, a, b, c, 0x31, high, low, 0x42, 0, 1, 2, 0x51, 0, index as u8 / 2 * 2];
            values = learner
                .read(1_000_000 * time.as_millis() as i64, Elements::new(ONE_BYTE_PROFILE, &data));
        }
        values
    }

    #[test]
    fn ids_are_inferred_from_how_their_values_grow() {
        let mut learner = Learner::default();
        let values = learn(&mut learner);
        assert_eq!(learner.abs_send_time, Some(LearnedId { id: 2, inferred: true }));
        assert_eq!(learner.transport_sequence, Some(LearnedId { id: 3, inferred: true }));
        assert_eq!(values.transport_sequence, Some(33)); // 65530 + 39 - 65536
        let sent = AbsSendTime::from_time(Time::from_millis(63_800 + 25 * 39));
        assert_eq!(values.abs_send_time, Some(sent));
    }

    #[test]
    fn ids_from_an_sdp_are_used_and_not_marked_as_inferred() {
        let mut sdp = Sdp::default();
        (sdp.abs_send_time, sdp.transport_sequence) = (Some(4), Some(5));
        let mut learner = Learner::new(&sdp);
        let values = learn(&mut learner);
        assert_eq!(values.abs_send_time.map(AbsSendTime::bits), Some(0x00_0102));
        assert_eq!(values.transport_sequence, Some(38));
        assert_eq!(learner.abs_send_time, Some(LearnedId { id: 4, inferred: false }));
    }

    #[test]
    fn nothing_is_inferred_from_two_seconds_of_constants() {
        let mut learner = Learner::default();
        for index in 0..100 {
            let data = [0x22, 0, 0, 1, 0x31, 0, 7];
            learner.read(index * 20_000_000, Elements::new(ONE_BYTE_PROFILE, &data));
        }
        assert_eq!((learner.abs_send_time, learner.transport_sequence), (None, None));
    }
}
