//! Reception of one audio stream: statistics and playout.

use super::reception::Reception;
use crate::endpoint::config::{Media, StreamConfig};
use crate::endpoint::format::AUDIO_CLOCK;
use crate::media::neteq::{NetEq, NetEqStats};
use crate::packet::Rtp;
use crate::rtp::TimestampUnwrapper;
use crate::units::Time;

/// An inbound audio stream.
pub(in crate::endpoint) struct InboundAudio {
    pub(in crate::endpoint) config: StreamConfig,
    pub(in crate::endpoint) reception: Reception,
    timestamps: TimestampUnwrapper,
    /// `None` if the receiver plays nothing, or if its era has no model of playout.
    playout: Option<NetEq>,
}

impl InboundAudio {
    pub(super) fn new(config: StreamConfig, plays: bool) -> Self {
        let playout = match config.media {
            Media::Audio(audio) => plays.then(|| NetEq::new(audio.frame_ns)),
            Media::Video(_) => None,
        };
        let (reception, timestamps) = (Reception::default(), TimestampUnwrapper::default());
        InboundAudio { config, reception, timestamps, playout }
    }

    pub(super) fn on_packet(&mut self, now: Time, packet: &Rtp) {
        let (seq, _) = self.reception.identify(now, &packet.header, AUDIO_CLOCK);
        self.reception.count(now, packet, seq, AUDIO_CLOCK);
        if let Some(playout) = &mut self.playout {
            playout.on_packet(now, self.timestamps.unwrap(packet.header.timestamp));
        }
    }

    /// Totals of playout, if there is one.
    pub(in crate::endpoint) fn playout_stats(&mut self, now: Time) -> Option<NetEqStats> {
        self.playout.as_mut().map(|playout| playout.stats(now))
    }
}
