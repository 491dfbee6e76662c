//! Reception of one audio stream: statistics and playout.

use super::reception::{Marks, Reception};
use super::transit::Transit;
use crate::endpoint::config::{Media, StreamConfig};
use crate::endpoint::format::AUDIO_CLOCK;
use crate::media::neteq::{NetEq, NetEqStats};
use crate::packet::{Rtp, RtpPayload};
use crate::rtp::TimestampUnwrapper;
use crate::units::Time;

/// An inbound audio stream.
pub(in crate::endpoint) struct InboundAudio {
    pub(in crate::endpoint) config: StreamConfig,
    pub(in crate::endpoint) reception: Reception,
    pub(in crate::endpoint) marks: Marks,
    timestamps: TimestampUnwrapper,
    pub(super) transit: Transit,
    /// `None` if the receiver plays nothing, or if its era has no model of playout.
    playout: Option<NetEq>,
}

impl InboundAudio {
    pub(super) fn new(config: StreamConfig, plays: bool) -> Self {
        let playout = match config.media {
            Media::Audio(audio) => plays.then(|| NetEq::new(audio.frame_ns)),
            Media::Video(_) => None,
        };
        InboundAudio {
            config,
            reception: Reception::default(),
            marks: Marks::default(),
            timestamps: TimestampUnwrapper::default(),
            transit: Transit::default(),
            playout,
        }
    }

    pub(super) fn on_packet(&mut self, now: Time, packet: &Rtp) {
        let (seq, _) = self.reception.identify(now, &packet.header, AUDIO_CLOCK);
        self.reception.count(now, packet, seq, AUDIO_CLOCK);
        let RtpPayload::Audio { has_fec, .. } = packet.payload else { return };
        if let Some(playout) = &mut self.playout {
            let timestamp = self.timestamps.unwrap(packet.header.timestamp);
            self.transit.note(now, timestamp, AUDIO_CLOCK);
            playout.on_packet(now, timestamp, has_fec);
        }
    }

    /// Length of a packet's sound.
    pub(in crate::endpoint) fn frame(&self) -> Time {
        match self.config.media {
            Media::Audio(audio) => audio.frame_ns,
            Media::Video(_) => Time::ZERO,
        }
    }

    pub(super) fn is_played(&self) -> bool {
        self.playout.is_some()
    }

    /// Time from arrival to output, in ms.
    pub(super) fn delay_ms(&mut self, now: Time) -> Option<i64> {
        self.playout.as_mut().map(|playout| playout.delay_ms(now))
    }

    /// Sets the least delay that synchronisation with video needs.
    pub(super) fn set_min_delay(&mut self, now: Time, delay: Time) {
        if let Some(playout) = &mut self.playout {
            playout.set_min_delay(now, delay);
        }
    }

    /// Totals of playout, if there is one.
    pub(in crate::endpoint) fn playout_stats(&mut self, now: Time) -> Option<NetEqStats> {
        self.playout.as_mut().map(|playout| playout.stats(now))
    }
}
