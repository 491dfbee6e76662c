//! The pacer until 2019: a budget per tick, or no pacing.
//!
//! Based on libwebrtc 524ecc29dd (2016), `modules/pacing/paced_sender.cc`.

use super::tick_prober::TickProber;
use super::{MediaPacket, Pacer, Pacing, Padding, Release};
use crate::cc::Probe;
use crate::packet::Kind;
use crate::units::{Bitrate, Bytes, Time};
use std::collections::VecDeque;

/// libwebrtc: debt never grows beyond this.
const MAX_DEBT: Time = Time::from_millis(500);
/// libwebrtc: the rate is raised so that the queue empties within this time.
const QUEUE_LIMIT: Time = Time::from_secs(2);
/// libwebrtc: padding aims at this interval.
const PADDING_INTERVAL: Time = Time::from_millis(5);
/// libwebrtc, `rtp_packet_history.cc`: padding repeats a media packet of up to this many times the wanted
/// size; otherwise it is pure padding.
const MAX_PADDING_FACTOR: u64 = 3;

/// Queue of packets in priority order: audio, retransmissions, video.
pub(super) struct TickPacer {
    pacing: Pacing,
    rate: Bitrate,
    /// Packets may leave this far ahead of the pacing rate.
    burst: Time,
    /// Interval at which the queue is checked; zero for whenever a packet is due.
    tick: Time,
    /// When the queue is checked next, if there are ticks.
    next_tick: Time,
    /// Whether the congestion window is full, so that only audio leaves.
    congested: bool,
    padding_rate: Bitrate,
    queues: [VecDeque<(MediaPacket, Bytes)>; 3],
    queued: u64,
    /// When everything sent so far would have left at the pacing rate.
    debt_free: Time,
    /// When everything sent so far would have left at the padding rate.
    padding_due: Time,
    prober: TickProber,
    /// IP total length of the last video packet, zero before the first.
    last_video: Bytes,
    padding: Padding,
}

impl TickPacer {
    /// An empty pacer for a first target. Until 2016 only packets of video could be followed by padding.
    pub(super) fn new(pacing: Pacing, target: Bitrate, padding: Padding) -> Self {
        TickPacer {
            pacing,
            rate: pacing.rate(target),
            burst: pacing.burst(),
            tick: pacing.tick(),
            next_tick: Time::ZERO,
            congested: false,
            padding,
            padding_rate: Bitrate::ZERO,
            queues: Default::default(),
            queued: 0,
            debt_free: Time::ZERO,
            padding_due: Time::ZERO,
            prober: TickProber::default(),
            last_video: Bytes::ZERO,
        }
    }
}

impl Pacer for TickPacer {
    fn set_rates(&mut self, now: Time, rate: Bitrate, padding_rate: Bitrate) {
        if rate != self.rate && rate.0 > 0 {
            let owed = self.debt_free.saturating_sub(now).0 as f64 * self.rate.0 as f64;
            self.debt_free = now + Time((owed / rate.0 as f64) as u64);
            self.rate = rate;
        }
        if padding_rate.0 > 0 && self.padding_rate.0 == 0 {
            self.padding_due = now;
        }
        self.padding_rate = padding_rate;
    }

    fn set_burst(&mut self, burst: Option<Time>) {
        self.burst = burst.unwrap_or(self.pacing.burst());
    }

    fn set_congested(&mut self, _now: Time, congested: bool) {
        self.congested = congested;
    }

    fn add_probe(&mut self, now: Time, probe: Probe) {
        self.prober.add(now, probe);
    }

    fn push(&mut self, now: Time, packet: MediaPacket, size: Bytes) -> bool {
        let queue = match packet.kind {
            Kind::Audio => 0,
            Kind::Rtx | Kind::Padding => 1,
            Kind::Video | Kind::Fec => 2,
        };
        if self.queued == 0 && self.tick > Time::ZERO {
            self.next_tick = self.next_tick.max(Time(now.0.next_multiple_of(self.tick.0)));
        }
        self.queues[queue].push_back((packet, size));
        self.queued += size.0;
        if packet.kind == Kind::Video {
            self.last_video = size;
        }
        if self.last_video > Bytes::ZERO {
            self.prober.on_packet(now, size);
        }
        false
    }

    fn queued(&self) -> Bytes {
        Bytes(self.queued)
    }

    fn poll_timeout(&self) -> Option<Time> {
        if !self.queues[0].is_empty() {
            return Some(Time::ZERO);
        }
        if self.congested {
            return None;
        }
        let probe = self.prober.next().unwrap_or(Time::MAX);
        let media = match self.queued {
            0 => Time::MAX,
            _ if self.tick > Time::ZERO => self.next_tick,
            _ => Time(self.debt_free.0.saturating_sub(self.burst.0)),
        };
        let padding = match self.may_pad() {
            true => self.padding_due.max(Time(self.debt_free.0.saturating_sub(self.burst.0))),
            false => Time::MAX,
        };
        let next = probe.min(media).min(padding);
        (next < Time::MAX).then_some(next)
    }

    fn poll(&mut self, now: Time) -> Option<(Release, Option<u32>)> {
        self.prober.drop_stale(now);
        if let Some((packet, size)) = self.queues[0].pop_front() {
            // libwebrtc does not hold audio back.
            match self.tick {
                Time::ZERO => self.account(now, size),
                _ => self.queued -= size.0,
            }
            return Some((Release::Media(packet), None));
        }
        if self.congested {
            return None;
        }
        let probing = self.prober.next().is_some_and(|at| at <= now);
        if probing {
            return Some(self.release_probe(now));
        }
        if self.queued > 0 && self.may_leave(now) {
            let (packet, size) = self.pop()?;
            self.account(now, size);
            return Some((Release::Media(packet), None));
        }
        if self.may_pad() && self.padding_due <= now {
            let (release, size) = self.padding(self.padding_rate.bytes_in(PADDING_INTERVAL));
            self.account_sent(now, size);
            return Some((release, None));
        }
        None
    }
}

impl TickPacer {
    /// Whether padding is wanted and nothing else is waiting. It follows the first video packet, whose size it
    /// needs (libwebrtc: timestamps would be wrong without one).
    fn may_pad(&self) -> bool {
        self.padding_rate.0 > 0 && self.queued == 0 && self.last_video.0 > 0
    }

    /// Whether the first packet of the queue may leave now; if not, it is checked again at the next tick.
    fn may_leave(&mut self, now: Time) -> bool {
        if self.tick == Time::ZERO {
            return now.saturating_add(self.burst) >= self.debt_free;
        }
        if now < self.next_tick {
            return false;
        }
        // libwebrtc: packets leave as long as the budget of the tick is above zero.
        let may = now.saturating_add(self.burst) > self.debt_free;
        if !may {
            self.next_tick = Time((now.0 / self.tick.0 + 1) * self.tick.0);
        }
        may
    }

    fn padding(&self, wanted: Bytes) -> (Release, Bytes) {
        if self.last_video.0 <= MAX_PADDING_FACTOR * wanted.0 {
            (Release::Repeat, self.last_video)
        } else {
            let payload = self.pacing.padding();
            (Release::Padding(payload.0 as u16), Bytes(self.padding.overhead.0 + payload.0))
        }
    }

    fn release_probe(&mut self, now: Time) -> (Release, Option<u32>) {
        let (id, wanted) = self.prober.current().unwrap_or((0, Bytes::ZERO));
        let (release, size) = match self.pop() {
            Some((packet, size)) => {
                self.queued -= size.0;
                (Release::Media(packet), size)
            }
            None => self.padding(wanted),
        };
        self.account_sent(now, size);
        self.prober.on_sent(now, size);
        (release, Some(id))
    }

    fn pop(&mut self) -> Option<(MediaPacket, Bytes)> {
        self.queues.iter_mut().find_map(VecDeque::pop_front)
    }

    fn account(&mut self, now: Time, size: Bytes) {
        self.queued -= size.0;
        self.account_sent(now, size);
    }

    fn account_sent(&mut self, now: Time, size: Bytes) {
        let drain = Bitrate(self.queued * 8 * 1_000 / QUEUE_LIMIT.as_millis());
        let rate = self.rate.max(drain);
        let occupied = rate.time_for(size).unwrap_or(MAX_DEBT);
        self.debt_free = (self.debt_free.max(now) + occupied).min(now + MAX_DEBT);
        if let Some(occupied) = self.padding_rate.time_for(size) {
            self.padding_due = (self.padding_due.max(now) + occupied).min(now + MAX_DEBT);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::VideoPart;

    fn video(seq: u16) -> MediaPacket {
        MediaPacket {
            stream: 0,
            kind: Kind::Video,
            seq,
            timestamp: 0,
            marker: false,
            part: VideoPart { bytes: 1000, ..VideoPart::default() },
        }
    }

    const PADDING: Padding = Padding { overhead: Bytes(1), follows_audio: false };

    fn paced(rate: Bitrate) -> TickPacer {
        let pacing = Pacing::Ticks { factor: 1.0, tick: Time::from_millis(5) };
        TickPacer::new(pacing, rate, PADDING)
    }

    fn run(pacer: &mut TickPacer, until: Time) -> Vec<(Time, Release, Option<u32>)> {
        run_from(pacer, Time::ZERO, until)
    }

    fn run_from(
        pacer: &mut TickPacer,
        mut now: Time,
        until: Time,
    ) -> Vec<(Time, Release, Option<u32>)> {
        let mut out = Vec::new();
        while let Some(at) = pacer.poll_timeout() {
            now = now.max(at);
            if now > until {
                break;
            }
            while let Some((release, probe)) = pacer.poll(now) {
                out.push((now, release, probe));
            }
        }
        out
    }

    #[test]
    fn with_ticks_of_5_ms_as_many_packets_leave_together_as_the_budget_of_a_tick_allows() {
        // 2 Mbit/s = 1250 B a tick, 1000 B each; left after each: 250, -750; -500; -250; 0; 250.
        let pacing = Pacing::Ticks { factor: 1.0, tick: Time::from_millis(5) };
        let mut pacer = TickPacer::new(pacing, Bitrate::from_mbps(2), PADDING);
        for seq in 0..6 {
            pacer.push(Time::from_millis(1), video(seq), Bytes(1000));
        }
        let at: Vec<_> =
            run(&mut pacer, Time::from_secs(1)).iter().map(|s| s.0.as_millis()).collect();
        assert_eq!(at, [5, 5, 10, 15, 20, 25]);
    }

    #[test]
    fn audio_overtakes_video_and_is_not_held_back() {
        let mut pacer = paced(Bitrate::from_kbps(100));
        for seq in 0..3 {
            pacer.push(Time::ZERO, video(seq), Bytes(1250));
        }
        let audio = MediaPacket { kind: Kind::Audio, ..video(100) };
        pacer.push(Time::ZERO, audio, Bytes(120));
        let first = pacer.poll(Time::ZERO).map(|r| r.0);
        assert_eq!(first, Some(Release::Media(audio)));
    }

    #[test]
    fn a_full_window_holds_back_everything_but_audio() {
        let mut pacer = paced(Bitrate::from_mbps(1));
        pacer.push(Time::ZERO, video(0), Bytes(1250));
        pacer.set_congested(Time::ZERO, true);
        assert_eq!((pacer.poll_timeout(), pacer.poll(Time::ZERO)), (None, None));
        let audio = MediaPacket { kind: Kind::Audio, ..video(100) };
        pacer.push(Time::ZERO, audio, Bytes(120));
        assert_eq!(pacer.poll(Time::ZERO).map(|r| r.0), Some(Release::Media(audio)));
        assert_eq!(pacer.poll(Time::ZERO), None);
        pacer.set_congested(Time::ZERO, false);
        assert_eq!(pacer.poll(Time::ZERO).map(|r| r.0), Some(Release::Media(video(0))));
    }

    /// Until the first video packet and while media waits, padding cannot leave, so nothing is due for it.
    #[test]
    fn padding_is_due_only_when_it_can_leave() {
        let mut pacer = paced(Bitrate::from_kbps(800));
        pacer.set_rates(Time::ZERO, Bitrate::from_kbps(800), Bitrate::from_kbps(400));
        assert_eq!(pacer.poll_timeout(), None);
        // Two packets of 1000 B take 10 ms each at 800 kbit/s, on ticks of 5 ms with half a packet of credit.
        let at = Time::from_millis;
        for seq in [0, 1] {
            pacer.push(at(100), video(seq), Bytes(1000));
        }
        assert_eq!(pacer.poll_timeout(), Some(at(100)));
        assert!(pacer.poll(at(100)).is_some() && pacer.poll(at(100)).is_none());
        assert_eq!(pacer.poll_timeout(), Some(at(105)));
        // Padding of 225 B at 400 kbit/s leaves every 4.5 ms, once the 2000 B of media have paid for 40 ms.
        let out = run_from(&mut pacer, at(105), at(200));
        let (media, padding): (Vec<_>, Vec<_>) =
            out.iter().partition(|(_, release, _)| matches!(release, Release::Media(_)));
        assert_eq!(media.len(), 1);
        let times: Vec<u64> =
            padding.iter().map(|(at, _, _): &(Time, _, _)| at.as_micros()).collect();
        let expected: Vec<u64> = (0..14).map(|n| 140_000 + n * 4_500).collect();
        assert_eq!(times, expected);
    }

    #[test]
    fn a_probe_at_900_kbps_sends_five_batches_at_that_rate_and_pads_what_is_missing() {
        // 15 ms at 900 kbit/s = 1687 B; five batches of at least 225 B (2 ms)
        let probe = Probe {
            id: 3,
            rate: Bitrate::from_kbps(900),
            min_packets: 5,
            min_bytes: Bytes(1687),
            min_spacing: Time::from_millis(2),
        };
        let mut pacer = paced(Bitrate::from_kbps(750));
        pacer.add_probe(Time::ZERO, probe);
        pacer.push(Time::ZERO, video(0), Bytes(1125));
        let out = run(&mut pacer, Time::from_secs(1));
        // 1125 B of media take 10 ms at 900 kbit/s, then padding of 225 B each 2 ms
        let at: Vec<_> = out.iter().map(|s| s.0.as_millis()).collect();
        assert_eq!(at, [0, 10, 12, 14, 16]);
        assert!(out.iter().all(|s| s.2 == Some(3)));
        assert_eq!(out.iter().filter(|s| matches!(s.1, Release::Padding(_))).count(), 4);
    }

    #[test]
    fn a_queue_of_more_than_two_seconds_raises_the_rate() {
        // 500 kB at 1 Mbit/s would take 4 s; the queue must be gone in little more than 2 s
        let mut pacer = paced(Bitrate::from_mbps(1));
        for seq in 0..400 {
            pacer.push(Time::ZERO, video(seq), Bytes(1250));
        }
        let last = run(&mut pacer, Time::from_secs(10)).last().map(|s| s.0);
        let last = last.unwrap_or_default();
        assert!(Time::from_millis(2000) < last && last < Time::from_millis(3500), "{last}");
    }
}
