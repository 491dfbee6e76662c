//! What Chromium 156 does with a report besides congestion control.

use super::SendingHalf;
use crate::endpoint::format::packet_size;
use crate::packet::Kind;
use crate::units::Time;

impl SendingHalf {
    /// Forgets packets that have arrived, and sends again those at the end of the report that have not: the
    /// far end may not notice their loss before the next packet.
    ///
    /// Source: libwebrtc, `rtp_video_sender.cc`, OnPacketFeedbackVector.
    pub(super) fn on_outcomes(&mut self, now: Time) {
        for index in 0..self.streams.len() {
            let outcomes = self.history.outcomes().iter();
            let own = outcomes.filter(|outcome| usize::from(outcome.tag.stream) == index);
            let own = own.filter_map(|outcome| Some((outcome.tag.video?, outcome.has_arrived)));
            let tail = own.clone().rev().take_while(|(packet, has_arrived)| {
                // A lost retransmission ends the search, as if it had arrived.
                !has_arrived && !packet.retransmission
            });
            let mut lost: Vec<u16> = tail.map(|(packet, _)| packet.seq).collect();
            lost.reverse();
            let arrived = own.filter(|(_, has_arrived)| *has_arrived).map(|(packet, _)| packet.seq);
            let stream = &mut self.streams[index];
            let repair = stream.config.repair;
            let Some(video) = stream.video_mut() else { continue };
            let rtt = self.rtt.unwrap_or(Time::ZERO);
            for seq in lost {
                if let Some(packet) = video.store.retransmit(now, seq, rtt, repair) {
                    let size = packet_size(
                        self.stack.feedback,
                        repair,
                        Kind::Rtx,
                        u64::from(packet.part.bytes),
                    );
                    self.pacer.push(now, packet, size);
                }
            }
            arrived.for_each(|seq| video.store.acknowledge(seq));
        }
    }
}
