//! Converts packets to and from their bytes on the wire, for captures and tests. The simulator never needs
//! the bytes itself.
//!
//! Everything is in clear. What SRTP and SRTCP add counts in [`super::Datagram::size`] but has no bytes here.
//! Encoded media have no bytes either.

use super::{
    Content, Dtls13, DtlsFlight, Kind, Rtcp, Rtp, RtpPayload, SRTP_BYTES, Stun, StunForm,
    VideoPart, payload_type,
};
use crate::rtp::stun::{
    Class, Message, attribute, method, write_binding_request, write_binding_success, write_padded,
    xor_address,
};
use crate::rtp::ulpfec::{FecPacket, Media};
use crate::rtp::vp8::{Descriptor, FrameHeader};
use crate::rtp::{ExtensionIds, Protocol, RtcpPacket, RtpHeader, classify, red, rtcp, rtx};
use std::net::{Ipv4Addr, SocketAddrV4};

/// Content type of a DTLS record that carries a handshake message: its first byte.
const DTLS_HANDSHAKE: u8 = 22;
/// Bytes of a DTLS record header (RFC 6347, section 4.1).
const DTLS_HEADER_BYTES: usize = 13;
/// First message of each flight: ClientHello, ServerHello, Certificate, Finished (RFC 5246, section 7.4).
const DTLS_MESSAGES: [u8; 4] = [1, 2, 11, 20];
/// Bytes of the header of a handshake message.
const DTLS_MESSAGE_HEADER_BYTES: u64 = 12;
/// Placeholder for XOR-MAPPED-ADDRESS where no address is known. Nobody reads it.
const MAPPED: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 9);

impl Content {
    /// Appends the UDP payload, as far as it has content. Appends nothing if the content is not carried over
    /// UDP.
    pub fn write(&self, out: &mut Vec<u8>) {
        match self {
            Content::Rtp(packet) => packet.write(out),
            Content::Rtcp(rtcp) => {
                for packet in rtcp.packets.iter() {
                    // Cannot fail: `Rtcp::new` refuses packets that do not fit their format.
                    let _ = packet.write(out);
                }
            }
            Content::Stun(stun) => stun.write([0; 8], MAPPED, out),
            Content::Dtls(DtlsFlight(flight)) => {
                // Version 1.2, epoch 0; the flight serves as the sequence number.
                let rest = self.ip_bytes().0 - super::IP_UDP_BYTES - DTLS_HEADER_BYTES as u64;
                out.extend_from_slice(&[DTLS_HANDSHAKE, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, 0, *flight]);
                out.extend_from_slice(&(rest as u16).to_be_bytes());
                // RFC 6347, 4.2.2: the whole flight as one message, in one fragment.
                let message = DTLS_MESSAGES[usize::from(*flight).min(DTLS_MESSAGES.len() - 1)];
                let [.., high, low] = (rest - DTLS_MESSAGE_HEADER_BYTES).to_be_bytes();
                out.extend_from_slice(&[message, 0, high, low, 0, *flight, 0, 0, 0, 0, high, low]);
            }
            Content::Dtls13(datagram) => datagram.write(out),
            Content::Signalling(_)
            | Content::WebSocket(_)
            | Content::Allocation(_)
            | Content::Binding
            | Content::Turn(_)
            | Content::Tcp(_)
            | Content::Udp(_) => {}
        }
    }

    /// Reads a UDP payload that is `udp_bytes` long on the wire, SRTP included. `bytes` may be shorter.
    ///
    /// Returns `None` for packets that no endpoint sends, and for FEC, whose block cannot be rebuilt from the
    /// XOR.
    pub fn read(bytes: &[u8], udp_bytes: u64) -> Option<Content> {
        match classify(bytes, udp_bytes as usize) {
            Protocol::Rtp => Rtp::read(bytes, udp_bytes).map(Content::Rtp),
            Protocol::Rtcp => {
                let packets: Vec<RtcpPacket> =
                    rtcp::parse_compound(bytes).collect::<Result<_, _>>().ok()?;
                Rtcp::new(packets).map(Content::Rtcp)
            }
            Protocol::Stun => Stun::read(bytes).map(Content::Stun),
            Protocol::Dtls => match Dtls13::read(bytes) {
                Some(datagram) => Some(Content::Dtls13(datagram)),
                None => Some(Content::Dtls(DtlsFlight(*bytes.get(10)?))),
            },
            Protocol::TurnChannel | Protocol::Other => None,
        }
    }
}

impl Rtp {
    /// Appends the packet, as far as it has content.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.header.write(&ExtensionIds::CHROMIUM, out);
        let wrapped = self.is_in_red();
        match &self.payload {
            RtpPayload::Video(part) => {
                if wrapped {
                    red::write(payload_type::VIDEO, out);
                }
                part.write(out);
            }
            RtpPayload::Rtx { original_seq, part } => {
                rtx::write(*original_seq, out);
                if wrapped {
                    red::write(payload_type::VIDEO, out);
                }
                part.write(out);
            }
            RtpPayload::Fec(block) => {
                red::write(payload_type::ULPFEC, out);
                let packets: Vec<(Vec<u8>, usize)> = block
                    .packets()
                    .iter()
                    .map(|packet| {
                        let mut bytes = Vec::new();
                        packet.write(&mut bytes);
                        (bytes, packet.rtp_bytes() as usize)
                    })
                    .collect();
                let media = packets.iter().map(|(bytes, len)| Media { bytes, len: *len });
                // Cannot fail: `FecBlock::new` refuses blocks that are too long.
                if let Ok(fec) = FecPacket::protect(media) {
                    fec.write(out);
                }
            }
            RtpPayload::Audio { .. } | RtpPayload::Padding(_) => {}
        }
    }

    fn read(bytes: &[u8], udp_bytes: u64) -> Option<Rtp> {
        let (header, len) = RtpHeader::parse(bytes, &ExtensionIds::CHROMIUM).ok()?;
        let rest = &bytes[len..];
        let payload_bytes = udp_bytes.checked_sub(SRTP_BYTES + len as u64)?;
        let (kind, payload) = match header.payload_type {
            payload_type::AUDIO | payload_type::RTX if header.padding => {
                (Kind::Padding, RtpPayload::Padding(payload_bytes as u16))
            }
            payload_type::AUDIO => {
                (Kind::Audio, RtpPayload::Audio { bytes: payload_bytes as u16, has_fec: false })
            }
            payload_type::VIDEO => {
                (Kind::Video, RtpPayload::Video(VideoPart::read(rest, payload_bytes)?))
            }
            payload_type::RED => {
                let (block, part) = red::parse(rest).ok()?;
                let bytes = payload_bytes.checked_sub(red::HEADER_BYTES as u64)?;
                let video = (block == payload_type::VIDEO).then(|| VideoPart::read(part, bytes))?;
                (Kind::Video, RtpPayload::Video(video?))
            }
            payload_type::RTX => {
                let (original_seq, part) = rtx::parse(rest).ok()?;
                let bytes = payload_bytes.checked_sub(rtx::OSN_BYTES as u64)?;
                let part = VideoPart::read(part, bytes)?;
                (Kind::Rtx, RtpPayload::Rtx { original_seq, part })
            }
            payload_type::RED_RTX => {
                let (original_seq, wrapped) = rtx::parse(rest).ok()?;
                let (block, part) = red::parse(wrapped).ok()?;
                let bytes =
                    payload_bytes.checked_sub((rtx::OSN_BYTES + red::HEADER_BYTES) as u64)?;
                let part =
                    (block == payload_type::VIDEO).then(|| VideoPart::read(part, bytes))??;
                (Kind::Rtx, RtpPayload::Rtx { original_seq, part })
            }
            _ => return None,
        };
        Some(Rtp { header, payload, kind })
    }
}

impl VideoPart {
    fn write(&self, out: &mut Vec<u8>) {
        let descriptor = Descriptor {
            partition_start: self.first,
            picture_id: Some(self.picture_id),
            ..Descriptor::default()
        };
        descriptor.write(out);
        if self.first {
            let (width, height) = self.resolution;
            let header =
                if self.key { FrameHeader::Key { width, height } } else { FrameHeader::Delta };
            header.write(out);
        }
    }

    fn read(payload: &[u8], payload_bytes: u64) -> Option<VideoPart> {
        let (descriptor, len) = Descriptor::parse(payload).ok()?;
        let first = descriptor.begins_frame();
        let frame =
            if first { FrameHeader::parse(&payload[len..]).ok()? } else { FrameHeader::Delta };
        let (key, resolution) = match frame {
            FrameHeader::Key { width, height } => (true, (width, height)),
            FrameHeader::Delta => (false, (0, 0)),
        };
        let bytes = payload_bytes.checked_sub(len as u64)? as u16;
        Some(VideoPart { first, key, picture_id: descriptor.picture_id?, resolution, bytes })
    }
}

impl Stun {
    /// Appends the message. `requester` distinguishes the checks of one end from the checks of all others, and
    /// `mapped` is the address that the check came from.
    pub(crate) fn write(self, requester: [u8; 8], mapped: SocketAddrV4, out: &mut Vec<u8>) {
        let mut id = [0; 12];
        id[..8].copy_from_slice(&requester);
        id[8..].copy_from_slice(&self.check.to_be_bytes());
        if self.form != StunForm::Bare {
            self.write_full(&id, mapped, out);
        } else if self.success {
            write_binding_success(&id, mapped, out);
        } else {
            // Cannot fail: the user name is shorter than the limit.
            let _ = write_binding_request(&id, Self::USERNAME, Some(1), out);
        }
    }

    /// Appends the message with the attributes that tell it from others, padded to its size.
    fn write_full(self, id: &[u8; 12], mapped: SocketAddrV4, out: &mut Vec<u8>) {
        let (class, mapped) = match self.success {
            true => (Class::Success, xor_address(mapped)),
            false => (Class::Request, [0; 8]),
        };
        let mut attributes: Vec<(u16, &[u8])> = match self.success {
            true => vec![(attribute::XOR_MAPPED_ADDRESS, &mapped)],
            false => vec![(attribute::USERNAME, Self::USERNAME.as_bytes())],
        };
        if self.form == StunForm::Nominating && !self.success {
            attributes.push((attribute::USE_CANDIDATE, &[]));
        }
        let bytes = self.udp_bytes() as usize;
        write_padded((class, method::BINDING), id, &attributes, bytes, out);
    }

    fn read(bytes: &[u8]) -> Option<Stun> {
        let message = Message::parse(bytes).ok()?;
        let success = match message.class {
            Class::Request => false,
            Class::Success => true,
            Class::Indication | Class::Error => return None,
        };
        let check = u32::from_be_bytes(*message.transaction_id.last_chunk()?);
        // The bare forms are shorter than all others of the same class.
        let body = u16::from_be_bytes([*bytes.get(2)?, *bytes.get(3)?]);
        let form = match (success, body) {
            (_, ..=35) => StunForm::Bare,
            (false, 80..) => StunForm::Nominating,
            _ => StunForm::Full,
        };
        Some(Stun { success, check, form })
    }
}

#[cfg(test)]
mod tests;
