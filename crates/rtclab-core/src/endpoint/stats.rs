//! The rows of getStats, once a second, with the names of W3C webrtc-stats.

use super::rtp_format::Ssrcs;
use super::sender::{AUDIO_CLOCK, VIDEO_CLOCK};
use super::wire::Wire;
use super::{Peer, Port};
use crate::media::Kind;
use crate::record::{Cell, NO_INT, Stats};
use crate::rtp::rtcp::ReportBlock;
use crate::units::{Bytes, Time};

/// What the other side last said of one stream.
#[derive(Clone, Debug, Default)]
struct Remote {
    block: Option<ReportBlock>,
    rtt: Option<Time>,
    /// The last block of each who reports; a switching forwarder passes on the reports of many.
    reporters: Vec<(u32, ReportBlock)>,
}

impl Remote {
    /// Keeps the block; returns packets lost and expected since the one before.
    ///
    /// Of several reporters each tells its own share of losses, which counts for the packets since anyone's
    /// last report: libwebrtc of 2013 kept the highest sequence number per stream reported on, not per
    /// reporter (`bitrate_controller_impl.cc`).
    fn note(&mut self, reporter: u32, block: &ReportBlock) -> Option<(u64, u64)> {
        let latest = self.block.replace(*block);
        let Some((_, own)) = self.reporters.iter_mut().find(|(ssrc, _)| *ssrc == reporter) else {
            self.reporters.push((reporter, *block));
            return None;
        };
        let before = std::mem::replace(own, *block);
        let expected = block.highest_seq.wrapping_sub(before.highest_seq);
        let lost = (block.cumulative_lost - before.cumulative_lost).max(0) as u64;
        if self.reporters.len() == 1 {
            return Some((lost, u64::from(expected)));
        }
        let since = |latest: ReportBlock| block.highest_seq.wrapping_sub(latest.highest_seq) as i32;
        let counted = latest.map_or(0, since).max(0) as u64;
        Some((lost * counted / u64::from(expected.max(1)), counted))
    }
}

/// Totals that belong to the connection and not to a half.
#[derive(Default)]
pub(super) struct Counters {
    received: (u64, u64),
    video: Remote,
    audio: Remote,
    frames: (u64, u64),
}

impl Counters {
    pub(super) fn received(&mut self, size: Bytes) {
        self.received.0 += 1;
        self.received.1 += size.0;
    }

    /// Keeps the block; returns packets lost and expected since the one before.
    pub(super) fn on_report_block(
        &mut self,
        ssrcs: Ssrcs,
        reporter: u32,
        block: &ReportBlock,
        rtt: Option<Time>,
    ) -> Option<(u64, u64)> {
        let remote = match block.ssrc {
            ssrc if ssrc == ssrcs.video => &mut self.video,
            ssrc if ssrc == ssrcs.audio => &mut self.audio,
            _ => return None,
        };
        remote.rtt = rtt.or(remote.rtt);
        remote.note(reporter, block)
    }
}

fn int(value: u64) -> Cell {
    Cell::Int(value as i64)
}

fn seconds(time: Option<Time>) -> Cell {
    Cell::Float(time.map_or(f64::NAN, Time::as_secs_f64))
}

impl Peer {
    pub(super) fn receiver_ssrc(&self) -> u32 {
        self.receiver.remote_video()
    }

    pub(super) fn write_stat_rows(&mut self, now: Time, wire: &mut Wire) {
        if self.config.video.is_some() {
            self.write_outbound(now, Kind::Video, wire);
        }
        if self.config.audio.is_some() {
            self.write_outbound(now, Kind::Audio, wire);
        }
        for kind in [Kind::Video, Kind::Audio] {
            self.write_inbound(now, kind, wire);
            self.write_remote_inbound(now, kind, wire);
        }
        let sent = &self.sender.totals;
        let packets = sent.iter().map(|t| t.packets).sum();
        let bytes = sent.iter().map(|t| t.payload_bytes + t.header_bytes).sum();
        let row = [
            int(now.0),
            Cell::Text(self.config.participant),
            Cell::Text(wire.recorder.flow_text(self.port.flow)),
            seconds(self.setup.check_rtt),
            Cell::Float(self.sender.target().0 as f64),
            int(bytes),
            int(self.stats.received.1),
            int(packets),
            int(self.stats.received.0),
        ];
        wire.recorder.stats(Stats::CandidatePair, &row);
    }

    fn head(&self, now: Time, port: Port, ssrc: u32, kind: Kind, wire: &Wire) -> [Cell; 5] {
        [
            int(now.0),
            Cell::Text(self.config.participant),
            Cell::Text(wire.recorder.flow_text(port.flow)),
            Cell::Int(i64::from(ssrc)),
            Cell::Text(wire.recorder.kind_text(kind)),
        ]
    }

    fn write_outbound(&mut self, now: Time, kind: Kind, wire: &mut Wire) {
        let totals = self.sender.totals[kind as usize];
        let video = self.sender.encoder.as_ref().filter(|_| kind == Kind::Video);
        // W3C counts retransmissions and FEC in the totals too; libwebrtc sends padding on their stream.
        let (mut rtx, mut padding, mut fec) = Default::default();
        if video.is_some() {
            rtx = self.sender.totals[Kind::Rtx as usize];
            padding = self.sender.totals[Kind::Padding as usize];
            fec = self.sender.totals[Kind::Fec as usize];
        }
        let mut row = self.head(now, self.port, self.ssrcs.get(kind), kind, wire).to_vec();
        row.extend([
            int(totals.packets + rtx.packets + padding.packets + fec.packets),
            int(totals.payload_bytes + rtx.payload_bytes + fec.payload_bytes),
            int(totals.header_bytes + rtx.header_bytes + padding.header_bytes + fec.header_bytes),
            int(rtx.packets),
            int(rtx.payload_bytes),
        ]);
        match video {
            Some(encoder) => {
                let (width, height) = encoder.resolution();
                let rate = totals.frames - self.stats.frames.0;
                self.stats.frames.0 = totals.frames;
                row.extend([
                    Cell::Float(encoder.target().0 as f64),
                    int(totals.frames),
                    int(totals.key_frames),
                    int(totals.frames),
                    int(u64::from(width)),
                    int(u64::from(height)),
                    Cell::Float(rate as f64),
                    int(self.sender.nack_count),
                    int(self.sender.pli_count),
                ]);
            }
            None => {
                row.push(Cell::Float(f64::NAN));
                row.extend([Cell::Int(NO_INT); 5]);
                row.push(Cell::Float(f64::NAN));
                row.extend([Cell::Int(NO_INT); 2]);
            }
        }
        wire.recorder.stats(Stats::Outbound, &row);
    }

    fn write_inbound(&mut self, now: Time, kind: Kind, wire: &mut Wire) {
        let receiver = &self.receiver;
        let (stream, clock, ssrc) = match kind {
            Kind::Audio => (&receiver.audio, AUDIO_CLOCK, receiver.remote_audio()),
            _ => (&receiver.video, VIDEO_CLOCK, receiver.remote_video()),
        };
        if stream.packets == 0 {
            return;
        }
        let rtx = match kind {
            Kind::Video => receiver.retransmitted,
            _ => Default::default(),
        };
        let mut row = self.head(now, self.back, ssrc, kind, wire).to_vec();
        row.extend([
            int(stream.packets + rtx.packets),
            Cell::Int(stream.lost()),
            int(stream.payload_bytes + rtx.payload_bytes),
            int(stream.header_bytes + rtx.header_bytes),
            Cell::Float(stream.jitter_s(clock)),
        ]);
        if kind == Kind::Video && receiver.plays() {
            let playout = receiver.playout.stats();
            let (width, height) = receiver.playout.resolution();
            let rate = playout.frames_decoded - self.stats.frames.1;
            self.stats.frames.1 = playout.frames_decoded;
            row.extend([
                int(playout.frames_received),
                int(playout.frames_decoded),
                int(playout.frames_dropped),
                int(u64::from(width)),
                int(u64::from(height)),
                Cell::Float(rate as f64),
                int(playout.freeze_count),
                Cell::Float(playout.total_freezes_duration),
                int(receiver.nack_count),
                int(receiver.pli_count),
                Cell::Float(playout.jitter_buffer_delay),
                int(playout.frames_decoded),
                int(rtx.packets),
            ]);
            row.extend(
                receiver.repair_counters().map(|count| count.map_or(Cell::Int(NO_INT), int)),
            );
        } else {
            let of_video =
                |count: u64| if kind == Kind::Video { int(count) } else { Cell::Int(NO_INT) };
            row.extend([Cell::Int(NO_INT); 5]);
            row.extend([Cell::Float(f64::NAN), Cell::Int(NO_INT), Cell::Float(f64::NAN)]);
            row.extend([of_video(receiver.nack_count), of_video(receiver.pli_count)]);
            row.extend([Cell::Float(f64::NAN), Cell::Int(NO_INT), of_video(rtx.packets)]);
            let repaired =
                receiver.repair_counters().map(|count| count.filter(|_| kind == Kind::Video));
            row.extend(repaired.map(|count| count.map_or(Cell::Int(NO_INT), int)));
        }
        wire.recorder.stats(Stats::Inbound, &row);
    }

    fn write_remote_inbound(&mut self, now: Time, kind: Kind, wire: &mut Wire) {
        let (remote, clock) = match kind {
            Kind::Audio => (&self.stats.audio, AUDIO_CLOCK),
            _ => (&self.stats.video, VIDEO_CLOCK),
        };
        let Some(block) = remote.block else { return };
        let mut row = self.head(now, self.port, block.ssrc, kind, wire).to_vec();
        row.extend([
            seconds(remote.rtt),
            Cell::Float(f64::from(block.fraction_lost) / 256.0),
            Cell::Int(i64::from(block.cumulative_lost)),
            Cell::Float(f64::from(block.jitter) / clock as f64),
        ]);
        wire.recorder.stats(Stats::RemoteInbound, &row);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(highest_seq: u32, cumulative_lost: i32) -> ReportBlock {
        ReportBlock { highest_seq, cumulative_lost, ..ReportBlock::default() }
    }

    #[test]
    fn a_lone_reporter_tells_losses_since_its_last_report() {
        let mut remote = Remote::default();
        assert_eq!(remote.note(1, &block(100, 0)), None);
        assert_eq!(remote.note(1, &block(200, 10)), Some((10, 100)));
        // Cumulative loss that falls, as duplicates make it, is no loss.
        assert_eq!(remote.note(1, &block(250, 8)), Some((0, 50)));
    }

    #[test]
    fn each_of_two_reporters_tells_its_own_share_of_the_packets_since_the_last_report_of_either() {
        let mut remote = Remote::default();
        remote.note(1, &block(100, 0));
        remote.note(2, &block(100, 0));
        // Reporter 1 loses nothing of 100, reporter 2 loses 30 of 150, which counts for the 50 since.
        assert_eq!(remote.note(1, &block(200, 0)), Some((0, 100)));
        assert_eq!(remote.note(2, &block(250, 30)), Some((10, 50)));
        // An older report than the last counts for nothing.
        assert_eq!(remote.note(1, &block(240, 4)), Some((0, 0)));
    }
}
