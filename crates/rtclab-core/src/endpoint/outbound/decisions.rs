//! Decisions of the congestion control, and what follows them: pacer, encoders and protection.

use super::stream::OutboundStream;
use super::{SendingHalf, packets};
use crate::cc::{self, ControlError, Decision, DecisionRequest};
use crate::endpoint::config::{Media, StreamConfig};
use crate::media::repair::Retransmission;
use crate::stack::{RateAccounting, RtcpSchedule, StackProfile};
use crate::units::{Bitrate, Time};

impl SendingHalf {
    /// What the congestion control asks to be decided outside, after feedback or a timeout.
    pub(in crate::endpoint) fn poll_request(&mut self, now: Time) -> Option<Box<DecisionRequest>> {
        std::mem::take(&mut self.may_ask).then(|| self.controller.poll_request(now)).flatten()
    }

    pub(in crate::endpoint) fn handle_decision(
        &mut self,
        now: Time,
        decision: Decision,
    ) -> Result<(), ControlError> {
        self.controller.handle_decision(now, decision)?;
        self.apply_decision(now)
    }

    /// Rate that the congestion control allows.
    pub(in crate::endpoint) fn target(&self) -> Bitrate {
        self.decision.target
    }

    /// Applies what a packet that was sent has changed, at once, as libwebrtc posts the update of its controller's
    /// OnSentPacket. The share of repair waits for the control's next update, as there.
    pub(super) fn apply_if_changed(&mut self, now: Time) -> Result<(), ControlError> {
        if !self.controller.is_changed_by_sending() {
            self.follow_window(now);
            return Ok(());
        }
        match self.controller.decision() == self.decision {
            true => self.follow_window_and_probes(now),
            false => self.apply_decision(now),
        }
    }

    /// Takes the control's probes, and holds media back while its window is full.
    fn follow_window_and_probes(&mut self, now: Time) -> Result<(), ControlError> {
        for probe in cc::probes(self.controller.as_mut())? {
            self.pacer.add_probe(now, probe);
        }
        self.follow_window(now);
        Ok(())
    }

    /// Holds media back while the control's window is full.
    fn follow_window(&mut self, now: Time) {
        let full = self.decision.window.is_some_and(|window| self.history.in_flight() >= window);
        self.pacer.set_congested(now, full);
    }

    pub(super) fn apply_decision(&mut self, now: Time) -> Result<(), ControlError> {
        let decision = self.controller.decision();
        decision.check()?;
        self.decision = decision;
        self.follow_window_and_probes(now)?;
        let share = match (self.stack.retransmission, self.applied) {
            // Since 2024 the share waits for the control's next update.
            (Retransmission::Since2024, Some((applied, share))) if applied == decision => share,
            _ => self.repair.at(now),
        };
        if self.applied == Some((decision, share)) {
            return Ok(());
        }
        self.applied = Some((decision, share));
        let pacing_rate = decision.pacing_rate.unwrap_or(self.stack.pacing.rate(decision.target));
        self.pacer.set_rates(now, pacing_rate, decision.padding_rate);
        self.pacer.set_burst(decision.pacing_burst);
        self.allocate(&decision, share);
        // libwebrtc f3ae3eb62e, `rtp_video_sender.cc`, OnBitrateUpdated: every new rate changes the protection.
        if self.stack.rtcp == RtcpSchedule::PerMedia {
            self.protect(now);
        }
        Ok(())
    }

    /// Splits the target evenly among the video streams; what a stream cannot use goes to the others.
    fn allocate(&mut self, decision: &Decision, repair_share: f64) {
        let (stack, feedback) = (self.stack, self.stack.feedback);
        let audio = |stream: &StreamConfig| audio_rate(stream, stack);
        let audio: u64 = self.direction.streams.iter().filter_map(audio).sum();
        let (mut left, accounting) = (decision.target.0, self.stack.rate_accounting);
        if accounting == RateAccounting::Packets {
            left = left.saturating_sub(audio);
        }
        let for_media = 1.0 - repair_share;
        self.media_rate = Bitrate::ZERO;
        let streams = &self.streams;
        let most = |index: &usize| streams[*index].video().map_or(0, |v| v.encoder.max_rate().0);
        self.by_need.sort_by_key(most);
        // Streams that can use least come first, and leave the rest to the others.
        for (others, &index) in (0..self.by_need.len() as u64).rev().zip(&self.by_need) {
            let stream = &mut self.streams[index];
            let repair = stream.config.repair;
            let Some(video) = stream.video_mut() else { continue };
            let max = video.encoder.max_rate().0;
            let share = if others == 0 { left } else { (left / (others + 1)).min(max) };
            left -= share;
            let media = match accounting {
                RateAccounting::Packets => {
                    packets::without_headers(Bitrate(share), feedback, repair)
                }
                RateAccounting::Payloads => Bitrate(share),
            };
            video.fec.rate = media;
            let media = media.scaled(for_media);
            self.media_rate = Bitrate(self.media_rate.0 + media.0);
            video.encoder.set_target(media);
            video.encoder.set_drop_ratio(decision.drop_ratio);
        }
    }

    /// Tells the control when another resolution has changed what the encoders can use.
    pub(super) fn follow_media_limit(&mut self, now: Time) -> Result<(), ControlError> {
        let videos = self.streams.iter().filter_map(OutboundStream::video);
        let limit = Bitrate(videos.map(|video| video.encoder.max_rate().0).sum());
        if limit != self.media_limit && limit > Bitrate::ZERO {
            self.media_limit = limit;
            self.controller.on_media_limit(now, limit);
            self.applied = None;
            self.apply_decision(now)?;
        }
        Ok(())
    }
}

fn audio_rate(stream: &StreamConfig, stack: &StackProfile) -> Option<u64> {
    match stream.media {
        Media::Audio(config) => Some(config.wire_rate(stack).0),
        Media::Video(_) => None,
    }
}
