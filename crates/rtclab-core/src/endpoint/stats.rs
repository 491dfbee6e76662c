//! Collects what getStats would report.

use super::Peer;
use super::config::Direction;
use super::format::{AUDIO_CLOCK, VIDEO_CLOCK};
use super::inbound::{InboundAudio, InboundVideo, Marks, OUTPUT_MS, Reception, Retransmitted};
use super::outbound::OutboundStream;
use super::statistics::{CandidatePair, InboundRtp, OutboundRtp, RemoteInboundRtp, Statistics};
use crate::media::playout::PlayoutDetails;
use crate::packet::Kind;
use crate::rtp::rtcp::{IntervalLoss, ReportBlock};
use crate::stack::FeedbackKind;
use crate::units::{Bytes, Time};

/// Most reporters on a stream that are told apart, as many as libwebrtc keeps receiver reference times of
/// (`rtcp_receiver.cc`, kMaxNumberOfStoredRrtrs).
const MAX_REPORTERS: usize = 300;

/// What the far end last reported about one stream.
#[derive(Clone, Debug, Default)]
struct Remote {
    ssrc: u32,
    block: Option<ReportBlock>,
    rtt: Option<Time>,
    /// The newest block of each reporter; a switching forwarder passes on the reports of many.
    reporters: Vec<(u32, ReportBlock)>,
}

impl Remote {
    /// Keeps the block; returns packets lost and expected since the one before.
    ///
    /// Returns `None` for the first block of a reporter, and for one that is older than the reporter's last:
    /// a report that was overtaken on its way says nothing new.
    ///
    /// With several reporters, each one's loss fraction applies to the packets since the last report of any
    /// of them: libwebrtc of 2013 kept the highest sequence number per reported stream, not per reporter
    /// (`bitrate_controller_impl.cc`).
    fn note(&mut self, reporter: u32, block: &ReportBlock) -> Option<IntervalLoss> {
        let Some((_, own)) = self.reporters.iter_mut().find(|(ssrc, _)| *ssrc == reporter) else {
            if self.reporters.len() == MAX_REPORTERS {
                return None;
            }
            self.reporters.push((reporter, *block));
            self.block = Some(*block);
            return None;
        };
        let since = block.since(own)?;
        *own = *block;
        let latest = self.block.replace(*block);
        if self.reporters.len() == 1 {
            return Some(since);
        }
        let latest = latest.and_then(|latest| block.since(&latest));
        let expected = latest.map_or(0, |since_any| since_any.expected);
        Some(IntervalLoss { lost: since.lost * expected / since.expected.max(1), expected })
    }
}

/// Totals of the connection as a whole.
#[derive(Default)]
pub(super) struct Counters {
    received_packets: u64,
    received_bytes: u64,
    /// RTCP packets of RFC 8888 received.
    pub(super) ccfb_messages: u64,
    remotes: Vec<Remote>,
    /// When statistics were last reported, or when the connection was established.
    reported: Time,
    /// Frames sent until then, by SSRC.
    frames_sent: Vec<(u32, u64)>,
    /// Frames shown until then, by SSRC.
    frames_shown: Vec<(u32, u64)>,
}

impl Counters {
    pub(super) fn received(&mut self, size: Bytes) {
        self.received_packets += 1;
        self.received_bytes += size.0;
    }

    /// Keeps the block; returns packets lost and expected since the one before.
    pub(super) fn on_report_block(
        &mut self,
        reporter: u32,
        block: &ReportBlock,
        rtt: Option<Time>,
    ) -> Option<IntervalLoss> {
        let index = self.remotes.iter().position(|remote| remote.ssrc == block.ssrc);
        let index = index.unwrap_or_else(|| {
            self.remotes.push(Remote { ssrc: block.ssrc, ..Remote::default() });
            self.remotes.len() - 1
        });
        let remote = &mut self.remotes[index];
        remote.rtt = rtt.or(remote.rtt);
        remote.note(reporter, block)
    }

    /// Starts the interval of the first report when the connection is established.
    pub(super) fn begin(&mut self, now: Time) {
        self.reported = now;
    }
}

/// Growth per second of a stream's count since the last call.
fn growth(counts: &mut Vec<(u32, u64)>, ssrc: u32, count: u64, elapsed: Time) -> f64 {
    let known = counts.iter_mut().find(|(known, _)| *known == ssrc);
    let before = match known {
        Some((_, before)) => std::mem::replace(before, count),
        None => {
            counts.push((ssrc, count));
            0
        }
    };
    (count - before) as f64 / elapsed.as_secs_f64()
}

fn seconds(time: Option<Time>) -> Option<f64> {
    time.map(Time::as_secs_f64)
}

impl Peer {
    /// The statistics as of now; [`Peer::poll_event`] returns them once a second.
    pub(super) fn statistics(&mut self, now: Time) -> Statistics {
        let counters = &mut self.counters;
        // Out and in at both ends.
        let in_hosts = self.config.sends.stack.socket_way * 4;
        let elapsed = now.saturating_sub(counters.reported);
        let uses_ecn = |direction: &Direction| direction.stack.feedback == FeedbackKind::Rfc8888;
        let sends_ecn = uses_ecn(&self.config.sends);
        let receives_ecn = uses_ecn(&self.config.receives);
        let (mut packets_sent, mut bytes_sent) = (0, 0);
        let mut outbound = Vec::new();
        for stream in &self.sender.streams {
            let row = OutboundRtp {
                packets_sent_with_ect1: sends_ecn.then_some(stream.sent_with_ect1),
                ..outbound_rtp(elapsed, stream, &mut counters.frames_sent)
            };
            packets_sent += row.packets_sent;
            bytes_sent += row.bytes_sent + row.header_bytes_sent;
            outbound.push(row);
        }
        let videos = self.receiver.videos.iter().filter(|video| video.reception.packets > 0);
        let mut inbound: Vec<_> = videos
            .map(|v| (inbound_video(elapsed, v, &mut counters.frames_shown), v.marks))
            .collect();
        let audios = self.receiver.audios.iter_mut().filter(|audio| audio.reception.packets > 0);
        inbound.extend(audios.map(|audio| (inbound_audio(now, audio), audio.marks)));
        let with_marks = |(row, marks): (InboundRtp, Marks)| InboundRtp {
            packets_received_with_ect1: receives_ecn.then_some(marks.ect1),
            packets_received_with_ce: receives_ecn.then_some(marks.congestion_experienced),
            ..row
        };
        let inbound = inbound.into_iter().map(with_marks).collect();
        let kind_of = |ssrc: u32| {
            let stream = self.sender.streams.iter().find(|stream| stream.config.ssrc == ssrc);
            stream.map(|stream| kind(stream.config.is_video()))
        };
        let remotes = counters.remotes.iter();
        let remote_inbound = remotes
            .filter_map(|remote| {
                let row = remote_inbound(remote, in_hosts, &kind_of)?;
                let reported = self.sender.reported(remote.ssrc);
                Some(RemoteInboundRtp {
                    packets_reported_as_lost: reported.map(|r| r.lost),
                    packets_reported_as_lost_but_recovered: reported.map(|r| r.recovered),
                    packets_with_bleached_ect1_marking: reported.map(|r| r.bleached),
                    ..row
                })
            })
            .collect();
        counters.reported = now;
        Statistics {
            outbound,
            inbound,
            remote_inbound,
            candidate_pair: CandidatePair {
                current_round_trip_time: seconds(self.setup.check_rtt.map(|rtt| rtt + in_hosts)),
                available_outgoing_bitrate: self.sender.target().0 as f64,
                bytes_sent,
                bytes_received: counters.received_bytes,
                packets_sent,
                packets_received: counters.received_packets,
                ccfb_messages_received: sends_ecn.then_some(counters.ccfb_messages),
            },
        }
    }
}

fn kind(video: bool) -> Kind {
    if video { Kind::Video } else { Kind::Audio }
}

fn outbound_rtp(
    elapsed: Time,
    stream: &OutboundStream,
    frames_sent: &mut Vec<(u32, u64)>,
) -> OutboundRtp {
    let ssrc = stream.config.ssrc;
    // W3C includes retransmissions and FEC in the totals; libwebrtc sends padding on their stream.
    let sum = |of: fn(&super::outbound::SentTotals) -> u64| stream.totals.iter().map(of).sum();
    let is_video = stream.config.is_video();
    let video = stream.video();
    let retransmitted = stream.totals[Kind::Rtx as usize];
    let resolution = video.map(|video| video.encoder.resolution());
    let frames = video.map(|video| video.frames);
    let encoder = video.and_then(|video| video.encoder.statistics());
    OutboundRtp {
        ssrc,
        kind: kind(is_video),
        packets_sent: sum(|totals| totals.packets),
        bytes_sent: sum(|totals| totals.payload_bytes),
        header_bytes_sent: sum(|totals| totals.header_bytes),
        retransmitted_packets_sent: retransmitted.packets,
        retransmitted_bytes_sent: retransmitted.payload_bytes,
        target_bitrate: stream.target().map(|rate| rate.0 as f64),
        frames_encoded: encoder.map(|encoder| encoder.frames).or(frames),
        key_frames_encoded: video
            .map(|video| encoder.map_or(video.key_frames, |encoder| encoder.key_frames)),
        frames_sent: frames,
        huge_frames_sent: encoder.map(|encoder| encoder.huge_frames),
        qp_sum: encoder.map(|encoder| encoder.qp_sum),
        total_encode_time: encoder.map(|encoder| encoder.encode_time.as_secs_f64()),
        quality_limitation_reason: encoder.map(|encoder| encoder.limitation),
        quality_limitation_resolution_changes: encoder.map(|_| 0),
        frame_width: resolution.map(|(width, _)| u64::from(width)),
        frame_height: resolution.map(|(_, height)| u64::from(height)),
        frames_per_second: frames.map(|count| growth(frames_sent, ssrc, count, elapsed)),
        nack_count: is_video.then_some(stream.nack_count),
        pli_count: is_video.then_some(stream.pli_count),
        packets_sent_with_ect1: None,
    }
}

fn inbound(
    ssrc: u32,
    kind: Kind,
    reception: &Reception,
    retransmitted: Retransmitted,
    clock: u64,
) -> InboundRtp {
    InboundRtp {
        ssrc,
        kind,
        packets_received: reception.packets + retransmitted.packets,
        packets_lost: reception.lost(),
        bytes_received: reception.payload_bytes + retransmitted.payload_bytes,
        header_bytes_received: reception.header_bytes + retransmitted.header_bytes,
        jitter: reception.jitter_s(clock),
        frames_received: None,
        frames_decoded: None,
        frames_dropped: None,
        key_frames_decoded: None,
        frames_assembled_from_multiple_packets: None,
        total_assembly_time: None,
        total_decode_time: None,
        total_processing_delay: None,
        total_inter_frame_delay: None,
        total_squared_inter_frame_delay: None,
        frame_width: None,
        frame_height: None,
        frames_per_second: None,
        freeze_count: None,
        total_freezes_duration: None,
        pause_count: None,
        total_pauses_duration: None,
        nack_count: None,
        pli_count: None,
        jitter_buffer_delay: None,
        jitter_buffer_emitted_count: None,
        jitter_buffer_target_delay: None,
        jitter_buffer_minimum_delay: None,
        retransmitted_packets_received: None,
        retransmitted_bytes_received: None,
        packets_repaired: None,
        fec_packets_received: None,
        fec_bytes_received: None,
        fec_packets_discarded: None,
        total_playout_delay: None,
        total_samples_count: None,
        total_sound_delay: None,
        total_samples_received: None,
        concealed_samples: None,
        silent_concealed_samples: None,
        concealment_events: None,
        inserted_samples_for_deceleration: None,
        removed_samples_for_acceleration: None,
        packets_received_with_ect1: None,
        packets_received_with_ce: None,
    }
}

fn inbound_audio(now: Time, audio: &mut InboundAudio) -> InboundRtp {
    let retransmitted = Retransmitted::default();
    let playout = audio.playout_stats(now);
    let row = inbound(audio.config.ssrc, Kind::Audio, &audio.reception, retransmitted, AUDIO_CLOCK);
    let Some(playout) = playout else { return row };
    let output_s = OUTPUT_MS as f64 / 1e3;
    let since_begin_s = output_s + audio.frame().as_secs_f64();
    let emitted = playout.jitter_buffer_emitted_count as f64;
    InboundRtp {
        total_playout_delay: Some(playout.total_samples_received as f64 * output_s),
        total_samples_count: Some(playout.total_samples_received),
        total_sound_delay: Some(playout.transit + emitted * since_begin_s),
        jitter_buffer_delay: Some(playout.jitter_buffer_delay),
        jitter_buffer_emitted_count: Some(playout.jitter_buffer_emitted_count),
        jitter_buffer_target_delay: Some(playout.jitter_buffer_target_delay),
        jitter_buffer_minimum_delay: Some(playout.jitter_buffer_minimum_delay),
        total_samples_received: Some(playout.total_samples_received),
        concealed_samples: Some(playout.concealed_samples),
        silent_concealed_samples: Some(playout.silent_concealed_samples),
        concealment_events: Some(playout.concealment_events),
        inserted_samples_for_deceleration: Some(playout.inserted_samples_for_deceleration),
        removed_samples_for_acceleration: Some(playout.removed_samples_for_acceleration),
        ..row
    }
}

fn inbound_video(
    elapsed: Time,
    video: &InboundVideo,
    frames_shown: &mut Vec<(u32, u64)>,
) -> InboundRtp {
    let ssrc = video.config.ssrc;
    let fec = video.fec_counters();
    let row = InboundRtp {
        nack_count: Some(video.nack_count),
        pli_count: Some(video.pli_count),
        retransmitted_packets_received: Some(video.retransmitted.packets),
        retransmitted_bytes_received: Some(video.retransmitted.payload_bytes),
        packets_repaired: Some(video.repaired),
        fec_packets_received: fec.map(|(packets, _, _)| packets),
        fec_bytes_received: fec.map(|(_, bytes, _)| bytes),
        fec_packets_discarded: fec.map(|(_, _, discarded)| discarded),
        ..inbound(ssrc, Kind::Video, &video.reception, video.retransmitted, VIDEO_CLOCK)
    };
    if !video.plays {
        return row;
    }
    let playout = video.playout.stats();
    let (width, height) = video.playout.resolution();
    let row = with_details(row, playout.details.as_ref());
    InboundRtp {
        frames_received: Some(playout.frames_received),
        frames_decoded: Some(playout.frames_decoded),
        frames_dropped: Some(playout.frames_dropped),
        frame_width: Some(u64::from(width)),
        frame_height: Some(u64::from(height)),
        frames_per_second: Some(growth(frames_shown, ssrc, playout.frames_decoded, elapsed)),
        freeze_count: Some(playout.freeze_count),
        total_freezes_duration: Some(playout.total_freezes_duration),
        jitter_buffer_delay: Some(playout.jitter_buffer_delay),
        jitter_buffer_emitted_count: Some(playout.jitter_buffer_emitted_count),
        ..row
    }
}

/// Adds the totals that Chromium 156 reports and browsers until 2016 did not.
fn with_details(row: InboundRtp, details: Option<&PlayoutDetails>) -> InboundRtp {
    let Some(details) = details else { return row };
    InboundRtp {
        key_frames_decoded: Some(details.key_frames_decoded),
        frames_assembled_from_multiple_packets: Some(
            details.frames_assembled_from_multiple_packets,
        ),
        total_assembly_time: Some(details.total_assembly_time),
        total_decode_time: Some(details.total_decode_time),
        total_processing_delay: Some(details.total_processing_delay),
        total_inter_frame_delay: Some(details.total_inter_frame_delay),
        total_squared_inter_frame_delay: Some(details.total_squared_inter_frame_delay),
        pause_count: Some(details.pause_count),
        total_pauses_duration: Some(details.total_pauses_duration),
        jitter_buffer_target_delay: Some(details.jitter_buffer_target_delay),
        jitter_buffer_minimum_delay: Some(details.jitter_buffer_minimum_delay),
        ..row
    }
}

fn remote_inbound(
    remote: &Remote,
    in_hosts: Time,
    kind_of: &impl Fn(u32) -> Option<Kind>,
) -> Option<RemoteInboundRtp> {
    let (block, kind) = (remote.block?, kind_of(remote.ssrc)?);
    let clock = if kind == Kind::Audio { AUDIO_CLOCK } else { VIDEO_CLOCK };
    Some(RemoteInboundRtp {
        ssrc: remote.ssrc,
        kind,
        round_trip_time: seconds(remote.rtt.map(|rtt| rtt + in_hosts)),
        fraction_lost: f64::from(block.fraction_lost) / 256.0,
        packets_lost: i64::from(block.cumulative_lost),
        jitter: f64::from(block.jitter) / clock as f64,
        packets_reported_as_lost: None,
        packets_reported_as_lost_but_recovered: None,
        packets_with_bleached_ect1_marking: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(lost: u64, expected: u64) -> Option<IntervalLoss> {
        Some(IntervalLoss { lost, expected })
    }

    fn block(highest_seq: u32, cumulative_lost: i32) -> ReportBlock {
        ReportBlock { highest_seq, cumulative_lost, ..ReportBlock::default() }
    }

    #[test]
    fn a_single_reporter_counts_losses_since_its_last_report() {
        let mut remote = Remote::default();
        assert_eq!(remote.note(1, &block(100, 0)), None);
        assert_eq!(remote.note(1, &block(200, 10)), loss(10, 100));
        // A cumulative loss that falls, because of duplicates, counts as no loss.
        assert_eq!(remote.note(1, &block(250, 8)), loss(0, 50));
    }

    #[test]
    fn an_overtaken_report_is_ignored() {
        let mut remote = Remote::default();
        remote.note(1, &block(100, 0));
        assert_eq!(remote.note(1, &block(200, 10)), loss(10, 100));
        assert_eq!(remote.note(1, &block(190, 5)), None);
        assert_eq!(remote.note(1, &block(300, 12)), loss(2, 100));
    }

    #[test]
    fn three_hundred_reporters_are_told_apart() {
        let mut remote = Remote::default();
        (0..1_000).for_each(|reporter| assert_eq!(remote.note(reporter, &block(100, 0)), None));
        assert_eq!(remote.note(299, &block(200, 10)), loss(10, 100));
        assert_eq!(remote.note(300, &block(200, 10)), None);
    }

    #[test]
    fn with_two_reporters_loss_fractions_apply_to_packets_since_the_last_report_of_either() {
        let mut remote = Remote::default();
        remote.note(1, &block(100, 0));
        remote.note(2, &block(100, 0));
        // Reporter 1 loses 0 of 100, reporter 2 loses 30 of 150, which applies to the 50 since then.
        assert_eq!(remote.note(1, &block(200, 0)), loss(0, 100));
        assert_eq!(remote.note(2, &block(250, 30)), loss(10, 50));
        // A report that covers fewer packets than the other reporter's last one applies to none.
        assert_eq!(remote.note(1, &block(240, 4)), loss(0, 0));
    }
}
