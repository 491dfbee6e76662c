//! The network with datagrams in it: real bytes in, real bytes out, every packet recorded.

use crate::media::host::Host;
use crate::media::{Kind, MediaPacket};
use crate::network::{Network, NetworkEvent, NodeId};
use crate::path::Packet;
use crate::record::{FlowId, Label, PacketRecord, Recorder, RtpLabel};
use crate::rtp::vp8::{DESCRIPTOR_BYTES, Descriptor, FrameHeader};
use crate::rtp::{AbsSendTime, ExtensionIds, Extensions, Protocol, RtpHeader, rtx};
use crate::units::{Bytes, Time};

/// Headers of IPv4 and UDP.
const IP_UDP_BYTES: u64 = 28;
/// AES128_CM_HMAC_SHA1_80 adds a tag of ten bytes to RTP …
const SRTP_BYTES: u64 = 10;
/// … and four more of index to RTCP.
const SRTCP_BYTES: u64 = 14;
/// RTP header as Chromium sends it: fixed part, abs-send-time and transport-wide sequence number.
pub(super) const RTP_HEADER_BYTES: u64 = 24;
/// libwebrtc keeps an RTP packet, SRTP not counted, within this.
pub(super) const MAX_RTP_BYTES: u64 = 1_200;
/// Payload types in the order of [`Kind::ALL`]; padding goes on the retransmission stream.
const PAYLOAD_TYPES: [u8; 4] = [96, 111, 97, 97];

/// SSRCs of one sender, as its session description would give them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ssrcs {
    /// Video.
    pub video: u32,
    /// Retransmissions of video.
    pub rtx: u32,
    /// Audio.
    pub audio: u32,
}

impl Ssrcs {
    /// Those of the `index`-th sender.
    pub fn of(index: usize) -> Self {
        let base = (index as u32 + 1) * 1_000;
        Ssrcs { video: base + 1, rtx: base + 2, audio: base + 3 }
    }

    pub(super) fn get(&self, kind: Kind) -> u32 {
        match kind {
            Kind::Video => self.video,
            Kind::Audio => self.audio,
            Kind::Rtx | Kind::Padding => self.rtx,
        }
    }
}

/// IP total length of a packet of media.
pub(super) fn packet_size(kind: Kind, payload: u64) -> Bytes {
    let codec = match kind {
        Kind::Video => DESCRIPTOR_BYTES,
        Kind::Rtx => DESCRIPTOR_BYTES + rtx::OSN_BYTES,
        Kind::Audio | Kind::Padding => 0,
    };
    Bytes(IP_UDP_BYTES + RTP_HEADER_BYTES + codec as u64 + payload + SRTP_BYTES)
}

/// Bytes that a packet of video carries at most.
pub(super) const MAX_VIDEO_PAYLOAD: u64 =
    MAX_RTP_BYTES - RTP_HEADER_BYTES - DESCRIPTOR_BYTES as u64 - rtx::OSN_BYTES as u64;

struct Datagram {
    /// The headers; the encoded media behind them has a length but no content.
    bytes: Vec<u8>,
    size: Bytes,
    from: NodeId,
    record: Option<PacketRecord>,
}

/// A datagram that reached a node.
pub struct Arrival {
    /// When.
    pub at: Time,
    /// Who sent it.
    pub from: NodeId,
    /// Whom it reached.
    pub to: NodeId,
    /// Its bytes; give them back with [`Wire::recycle`].
    pub bytes: Vec<u8>,
    /// IP total length.
    pub size: Bytes,
}

/// The network and what is in flight on it.
pub struct Wire {
    network: Network<u32>,
    datagrams: Vec<Datagram>,
    free: Vec<u32>,
    spare: Vec<Vec<u8>>,
    /// Everything observed.
    pub recorder: Recorder,
    /// Machines of participants whose encoding takes time.
    pub hosts: Vec<(NodeId, Host)>,
}

/// One sender's end of a flow.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// The sender.
    pub from: NodeId,
    /// The receiver.
    pub to: NodeId,
    /// The flow between them.
    pub flow: FlowId,
}

impl Wire {
    /// An empty network.
    pub fn new(network: Network<u32>, recorder: Recorder) -> Self {
        Wire {
            network,
            datagrams: Vec::new(),
            free: Vec::new(),
            spare: Vec::new(),
            recorder,
            hosts: Vec::new(),
        }
    }

    /// When to call [`Wire::poll`] again.
    pub fn poll_timeout(&self) -> Option<Time> {
        self.network.poll_timeout()
    }

    /// The next datagram that arrived by `now`.
    pub fn poll(&mut self, now: Time) -> Option<Arrival> {
        loop {
            match self.network.poll(now)? {
                NetworkEvent::Delivered { at, to, packet } => {
                    let datagram = &mut self.datagrams[packet.payload as usize];
                    let (from, size) = (datagram.from, datagram.size);
                    let bytes = std::mem::take(&mut datagram.bytes);
                    if let Some(record) = datagram.record {
                        self.recorder.delivered(at, record, size);
                    }
                    self.free.push(packet.payload);
                    return Some(Arrival { at, from, to, bytes, size });
                }
                NetworkEvent::Dropped { at, path, cause, packet } => {
                    let datagram = &mut self.datagrams[packet.payload as usize];
                    if let Some(record) = datagram.record {
                        self.recorder.dropped(at, record, path, cause);
                    }
                    self.spare.push(std::mem::take(&mut datagram.bytes));
                    self.free.push(packet.payload);
                }
            }
        }
    }

    /// Takes the bytes of an [`Arrival`] back for later use.
    pub fn recycle(&mut self, bytes: Vec<u8>) {
        self.spare.push(bytes);
    }

    /// When a picture taken now at `node` has been encoded.
    pub(super) fn encode(&mut self, now: Time, node: NodeId, pixels: u32) -> Time {
        let host = self.hosts.iter_mut().find(|(at, _)| *at == node);
        host.map_or(now, |(_, host)| host.encode(now, pixels))
    }

    /// An empty buffer.
    pub(super) fn buffer(&mut self) -> Vec<u8> {
        let mut bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(128));
        bytes.clear();
        bytes
    }

    /// Sends RTCP; returns its IP total length.
    pub(super) fn send_rtcp(&mut self, now: Time, port: Port, bytes: Vec<u8>) -> Bytes {
        let size = Bytes(IP_UDP_BYTES + bytes.len() as u64 + SRTCP_BYTES);
        let label = Label { flow: port.flow, size, protocol: Protocol::Rtcp, rtp: None };
        self.send(now, port, bytes, size, Some(label));
        size
    }

    /// Sends a datagram of connection set-up of `udp_bytes` in all.
    pub(super) fn send_setup(
        &mut self,
        now: Time,
        port: Port,
        protocol: Protocol,
        bytes: Vec<u8>,
        udp_bytes: usize,
    ) {
        let size = Bytes(IP_UDP_BYTES + udp_bytes.max(bytes.len()) as u64);
        let label = Label { flow: port.flow, size, protocol, rtp: None };
        self.send(now, port, bytes, size, Some(label));
    }

    /// Sends a datagram of signalling, which belongs to no flow.
    pub fn send_signalling(
        &mut self,
        now: Time,
        from: NodeId,
        to: NodeId,
        bytes: Vec<u8>,
        size: Bytes,
    ) {
        self.send(now, Port { from, to, flow: FlowId(0) }, bytes, size, None);
    }

    /// Sends RTP; returns its IP total length. `seq` is that of the stream it goes on.
    pub(super) fn send_media(
        &mut self,
        now: Time,
        port: Port,
        ssrcs: &Ssrcs,
        seq: u16,
        transport_seq: u16,
        packet: &MediaPacket,
    ) -> Bytes {
        let mut bytes = self.buffer();
        let header = RtpHeader {
            marker: packet.marker,
            padding: packet.kind == Kind::Padding,
            payload_type: PAYLOAD_TYPES[packet.kind as usize],
            seq,
            timestamp: packet.timestamp,
            ssrc: ssrcs.get(packet.kind),
            extensions: Extensions {
                abs_send_time: Some(AbsSendTime::from_time(now)),
                transport_sequence: Some(transport_seq),
                audio_level: None,
            },
        };
        header.write(&ExtensionIds::CHROMIUM, &mut bytes);
        if packet.kind == Kind::Rtx {
            rtx::write(packet.seq, &mut bytes);
        }
        if matches!(packet.kind, Kind::Video | Kind::Rtx) {
            write_vp8(packet, &mut bytes);
        }
        let size = packet_size(packet.kind, u64::from(packet.payload));
        let rtp = RtpLabel {
            kind: packet.kind,
            ssrc: header.ssrc,
            payload_type: header.payload_type,
            seq,
            timestamp: header.timestamp,
            marker: header.marker,
        };
        let label = Label { flow: port.flow, size, protocol: Protocol::Rtp, rtp: Some(rtp) };
        self.send(now, port, bytes, size, Some(label));
        size
    }

    fn send(&mut self, now: Time, port: Port, bytes: Vec<u8>, size: Bytes, label: Option<Label>) {
        let record = label.map(|label| self.recorder.sent(now, &label));
        let datagram = Datagram { bytes, size, from: port.from, record };
        let id = match self.free.pop() {
            Some(id) => {
                self.datagrams[id as usize] = datagram;
                id
            }
            None => {
                self.datagrams.push(datagram);
                self.datagrams.len() as u32 - 1
            }
        };
        // Without a route the packet vanishes, as on a host without one; the scenario checks routes.
        let packet = Packet { size, payload: id };
        if self.network.handle_packet(now, port.from, port.to, packet).is_err() {
            self.free.push(id);
        }
    }
}

fn write_vp8(packet: &MediaPacket, out: &mut Vec<u8>) {
    let descriptor = Descriptor {
        partition_start: packet.first,
        picture_id: Some(packet.picture_id),
        ..Descriptor::default()
    };
    descriptor.write(out);
    if packet.first {
        let (width, height) = packet.resolution;
        let header =
            if packet.key { FrameHeader::Key { width, height } } else { FrameHeader::Delta };
        header.write(out);
    }
}

/// A packet of media as the receiver reads it; `None` for padding and for what is no VP8.
pub(super) fn read_vp8(
    header: &RtpHeader,
    seq: u16,
    payload: &[u8],
    size: u64,
) -> Option<MediaPacket> {
    let (descriptor, len) = Descriptor::parse(payload).ok()?;
    let first = descriptor.begins_frame();
    let frame = if first { FrameHeader::parse(&payload[len..]).ok()? } else { FrameHeader::Delta };
    let (key, resolution) = match frame {
        FrameHeader::Key { width, height } => (true, (width, height)),
        FrameHeader::Delta => (false, (0, 0)),
    };
    Some(MediaPacket {
        kind: Kind::Video,
        seq,
        timestamp: header.timestamp,
        marker: header.marker,
        first,
        key,
        picture_id: descriptor.picture_id?,
        resolution,
        payload: size.saturating_sub(len as u64) as u16,
    })
}

/// Bytes of RTP payload in a datagram of IP total length `size` with a header of `header` bytes.
pub(super) fn payload_size(size: Bytes, header: usize) -> u64 {
    size.0.saturating_sub(IP_UDP_BYTES + SRTP_BYTES + header as u64)
}
