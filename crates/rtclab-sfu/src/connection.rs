//! One peer connection: a publication or a subscription.

use crate::keyframe::starts_keyframe;
use crate::message::Statistics;
use crate::outbox::Outbox;
use crate::publication::{Publication, PublishedPacket};
use crate::subscribed_medium::SubscribedMedium;
use rtclab_core::simulcast::LayerSwitch;
use rtclab_core::simulcast::layers;
use rtclab_core::simulcast::numbering::{ClockReport, Numbers, ReceivedNumbers};
use rtclab_core::units::{Bitrate, Bytes, RemoteTime, Time};
use std::net::SocketAddr;
use std::time::{Duration, Instant, SystemTime};
use str0m::bwe::{self, BweKind};
use str0m::change::SdpOffer;
use str0m::format::Codec;
use str0m::media::{KeyframeRequestKind, MediaAdded, Rid};
use str0m::net::{Protocol, Receive};
use str0m::rtp::{RtpPacket, Vp8Descriptor};
use str0m::{Candidate, Event, Input, Output, Rtc, RtcError};

/// Estimate before the first feedback (libwebrtc, `BitrateConstraints::start_bitrate_bps`).
const START: Bitrate = Bitrate::from_kbps(300);
/// How long sent packets are kept for retransmission. This and their number are str0m's defaults.
const STORED_FOR: Duration = Duration::from_secs(3);
const STORED_PACKETS: usize = 2000;
/// Largest share of retransmissions in the bytes that a stream sends in a second: as much as its media.
///
/// A browser that only receives does not know the round-trip time, and repeats its NACK every 100 ms
/// (libwebrtc, `nack_requester.cc`, `kDefaultRtt`). str0m answers each NACK. Without a limit, the copies keep
/// a queue of 300 ms full for the rest of the call. libwebrtc limits retransmissions to the target rate
/// (`RtpTransportControllerSend::UpdateControlState`), but str0m can limit only their share. Its default of
/// 0.15 cannot repair random loss of 20 %.
const MAX_REPEATED_SHARE: f32 = 0.5;
const STATISTICS_INTERVAL: Duration = Duration::from_secs(1);
/// Most timeouts of a connection that are handled at the same instant.
const MAX_TIMEOUTS_AT_ONCE: usize = 100;
const BREAK: Duration = Duration::from_millis(1);
const FROM_1900_TO_1970: Duration = Duration::from_secs(2_208_988_800);

/// One peer connection.
pub(crate) struct Connection {
    rtc: Rtc,
    /// When the server began. Times of packets count from then.
    epoch: Instant,
    timeout: Instant,
    /// The connection whose media this one wants; `None` publishes.
    pub(crate) forwards: Option<u64>,
    pub(crate) publication: Publication,
    forwarded: Vec<SubscribedMedium>,
    /// Packets that came and that no subscriber has been sent yet.
    pub(crate) received: Vec<PublishedPacket>,
    needs_keyframe: bool,
    estimate: Option<Bitrate>,
    rtt_s: Option<f64>,
    /// How often it was asked whether a datagram is its own, or driven.
    #[cfg(test)]
    pub(crate) visits: std::cell::Cell<u64>,
}

impl Connection {
    pub(crate) fn new(
        address: SocketAddr,
        forwards: Option<u64>,
        epoch: Instant,
        now: Instant,
    ) -> Result<Self, RtcError> {
        let config = Rtc::builder()
            .set_rtp_mode(true)
            // Pages find the server at the address in its answer. It need not look for them.
            .set_ice_lite(true)
            .set_stats_interval(Some(STATISTICS_INTERVAL))
            .enable_bwe(forwards.map(|_| bwe::Bitrate::bps(START.bps())));
        let mut rtc = config.build(now);
        rtc.add_local_candidate(Candidate::host(address, "udp")?);
        Ok(Self {
            rtc,
            epoch,
            timeout: now,
            forwards,
            publication: Publication::default(),
            forwarded: Vec::new(),
            received: Vec::new(),
            needs_keyframe: false,
            estimate: None,
            rtt_s: None,
            #[cfg(test)]
            visits: Default::default(),
        })
    }

    /// Answers an offer, the first or a later one.
    pub(crate) fn accept(&mut self, sdp: &str) -> Result<String, String> {
        let offer =
            SdpOffer::from_sdp_string(sdp).map_err(|error| format!("malformed offer: {error}"))?;
        let answer = self.rtc.sdp_api().accept_offer(offer);
        answer
            .map(|answer| answer.to_sdp_string())
            .map_err(|error| format!("cannot accept the offer: {error}"))
    }

    /// Its name in ICE, which the answer to the last offer has told the page.
    pub(crate) fn name(&mut self) -> String {
        self.rtc.direct_api().local_ice_credentials().ufrag
    }

    /// Whether a datagram belongs to this connection.
    pub(crate) fn accepts(&self, datagram: &Input) -> bool {
        self.count_visit();
        self.rtc.accepts(datagram)
    }

    /// Handles a datagram that arrived at `at`.
    pub(crate) fn receive(
        &mut self,
        at: Instant,
        datagram: Input,
        outbox: &mut Outbox,
    ) -> Result<(), RtcError> {
        self.rtc.handle_input(datagram)?;
        self.drive(at, outbox)
    }

    /// When [`Connection::drive`] must be called.
    pub(crate) fn poll_timeout(&self) -> Instant {
        self.publication.poll_timeout().map_or(self.timeout, |at| at.min(self.timeout))
    }

    /// Whether the subscriber has come to need a key frame since the last call.
    pub(crate) fn take_needs_keyframe(&mut self) -> bool {
        std::mem::take(&mut self.needs_keyframe)
    }

    fn count_visit(&self) {
        #[cfg(test)]
        self.visits.set(self.visits.get() + 1);
    }

    /// Sends what is due, and handles what happened. To be called after everything that changes the state.
    pub(crate) fn drive(&mut self, now: Instant, outbox: &mut Outbox) -> Result<(), RtcError> {
        self.count_visit();
        self.catch_up(now, outbox)?;
        while let Some((mid, rid)) = self.publication.poll_keyframe(now) {
            if let Some(stream) = self.rtc.direct_api().stream_rx_by_mid(mid, rid) {
                stream.request_keyframe(KeyframeRequestKind::Pli);
            }
            self.rtc.handle_input(Input::Timeout(now))?;
            self.catch_up(now, outbox)?;
        }
        Ok(())
    }

    fn catch_up(&mut self, now: Instant, outbox: &mut Outbox) -> Result<(), RtcError> {
        for _ in 0..MAX_TIMEOUTS_AT_ONCE {
            self.timeout = self.drain(outbox)?;
            if self.timeout > now {
                return Ok(());
            }
            self.rtc.handle_input(Input::Timeout(now))?;
        }
        self.timeout = self.drain(outbox)?.max(now + BREAK);
        Ok(())
    }

    fn drain(&mut self, outbox: &mut Outbox) -> Result<Instant, RtcError> {
        loop {
            match self.rtc.poll_output()? {
                Output::Timeout(at) => return Ok(at),
                Output::Transmit(transmit) => {
                    outbox.datagrams.push((transmit.destination, transmit.contents.into()));
                }
                Output::Event(event) => self.handle_event(event),
            }
        }
    }

    fn handle_event(&mut self, event: Event) {
        match event {
            Event::MediaAdded(media) => self.add_media(&media),
            Event::Connected | Event::KeyframeRequest(_) => self.needs_keyframe = true,
            Event::RtpPacket(packet) => {
                let received = self.classify(packet);
                self.received.extend(received);
            }
            Event::EgressBitrateEstimate(BweKind::Twcc { estimate, .. }) => {
                self.estimate = Some(Bitrate(estimate.as_u64()));
            }
            Event::MediaEgressStats(statistics) => {
                self.rtt_s = statistics.rtt.map(|rtt| rtt.as_secs_f64()).or(self.rtt_s);
            }
            _ => {}
        }
    }

    fn add_media(&mut self, media: &MediaAdded) {
        if self.forwards.is_none() {
            self.publication.add(media);
            return;
        }
        if let Some(stream) = self.rtc.direct_api().stream_tx_by_mid(media.mid, None) {
            // No pacing: packets leave as they arrive.
            stream.set_unpaced(true);
            stream.set_rtx_cache(STORED_PACKETS, STORED_FOR, Some(MAX_REPEATED_SHARE));
        }
        self.forwarded.push(SubscribedMedium::new(media.mid, media.kind));
    }

    fn classify(&mut self, packet: RtpPacket) -> Option<PublishedPacket> {
        let pt = packet.header.payload_type;
        let params = *self.rtc.codec_config().find(|params| params.pt() == pt)?;
        let mut direct = self.rtc.direct_api();
        let stream = direct.stream_rx(&packet.header.ssrc)?;
        let (mid, rid) = (stream.mid(), stream.rid());
        let kind = self.rtc.media(mid)?.kind();
        let codec = params.spec().codec;
        let starts_keyframe = starts_keyframe(codec, &packet.payload);
        let bytes = packet.header.header_len + packet.payload.len();
        self.publication.count(mid, rid, Bytes(bytes as u64), starts_keyframe);
        let has_numbers = rid.is_some() && codec == Codec::Vp8;
        let vp8 = has_numbers.then(|| Vp8Descriptor::parse(&packet.payload).ok()).flatten();
        let numbers = numbers(&packet, vp8.as_ref(), self.epoch);
        Some(PublishedPacket { kind, rid, params, starts_keyframe, packet, numbers, vp8 })
    }

    /// Forwards a packet of the publication that this connection wants.
    pub(crate) fn forward(
        &mut self,
        received: &PublishedPacket,
        now: Instant,
        outbox: &mut Outbox,
    ) -> Result<(), RtcError> {
        if !self.rtc.is_connected() {
            return Ok(());
        }
        let Some(forwarded) = self.forwarded.iter_mut().find(|it| it.kind == received.kind) else {
            return Ok(());
        };
        let Some(params) = self.rtc.codec_config().match_params(received.params) else {
            return Ok(());
        };
        let pt = params.pt();
        if !self.rtc.media(forwarded.mid).is_some_and(|media| media.remote_pts().contains(&pt)) {
            return Ok(());
        }
        let Some(write) = forwarded.write(received, pt) else { return Ok(()) };
        if let Some(stream) = self.rtc.direct_api().stream_tx_by_mid(forwarded.mid, None) {
            stream.write_rtp(write);
        }
        self.drive(now, outbox)
    }

    /// Chooses the layer, and sets what the estimator looks for: the rate at which the highest layer is
    /// chosen. Returns whether a key frame is needed for a switch.
    pub(crate) fn choose_layer(
        &mut self,
        layers: &[(Rid, Option<Bitrate>)],
        single: Bitrate,
    ) -> bool {
        let desired = layers::desired(layers, single);
        self.rtc.bwe().set_desired_bitrate(bwe::Bitrate::bps(desired.bps()));
        let budget = layers::budget(self.estimate.unwrap_or(START), single);
        let Some(video) = self.video_mut() else { return false };
        video.choose(layers, budget);
        video.is_switching()
    }

    /// The layer that needs a key frame; `None` without simulcast.
    pub(crate) fn wanted_layer(&self) -> Option<Rid> {
        self.video().and_then(LayerSwitch::target)
    }

    /// What the server knows about it, under its number.
    pub(crate) fn statistics(&self, connection: u64, at_ms: u64) -> Statistics {
        Statistics {
            at_ms,
            connection,
            estimate_bps: self.estimate.map(Bitrate::bps),
            layer: self.video().and_then(LayerSwitch::layer).map(|rid| rid.to_string()),
            rtt_s: self.rtt_s,
        }
    }

    fn video(&self) -> Option<&LayerSwitch<Rid>> {
        self.forwarded.iter().find(|it| it.kind.is_video()).map(|it| &it.stream)
    }

    fn video_mut(&mut self) -> Option<&mut LayerSwitch<Rid>> {
        self.forwarded.iter_mut().find(|it| it.kind.is_video()).map(|it| &mut it.stream)
    }
}

/// The numbers of a packet, in the form that core takes.
fn numbers(packet: &RtpPacket, vp8: Option<&Vp8Descriptor>, epoch: Instant) -> ReceivedNumbers {
    let at = packet.timestamp.saturating_duration_since(epoch);
    ReceivedNumbers {
        numbers: Numbers {
            seq: *packet.seq_no,
            timestamp: packet.header.timestamp,
            picture: vp8.and_then(Vp8Descriptor::picture_id),
            tl0: vp8.and_then(Vp8Descriptor::tl0_pic_idx),
        },
        at: Time(at.as_nanos() as u64),
        clock: packet.last_sender_info.map(|report| ClockReport {
            at: since_1900(report.ntp_time),
            timestamp: report.rtp_time.numer() as u32,
        }),
    }
}

/// The time of a sender's clock, which begins in 1900 (RFC 3550, 4).
fn since_1900(at: SystemTime) -> RemoteTime {
    let since = at.duration_since(SystemTime::UNIX_EPOCH - FROM_1900_TO_1970);
    RemoteTime(Time(since.unwrap_or_default().as_nanos() as u64))
}

/// A datagram in the form that str0m takes; `None` if it belongs to no protocol of WebRTC.
pub(crate) fn datagram(
    source: SocketAddr,
    destination: SocketAddr,
    bytes: &[u8],
) -> Option<Receive<'_>> {
    let contents = bytes.try_into().ok()?;
    Some(Receive { proto: Protocol::Udp, source, destination, contents })
}
