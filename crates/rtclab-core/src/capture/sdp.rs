//! Session descriptions that accompany a capture, so that its RTP can be interpreted.
//!
//! Source: RFC 8866; RFC 8285, section 5 (`extmap`); RFC 4588, section 8 (`apt`); RFC 5576, section 4 (`ssrc`).

use crate::endpoint::StreamConfig;
use crate::packet::{Address, payload_type};
use crate::rtp::ExtensionIds;
use crate::stack::FeedbackKind;
use std::fmt::{self, Write};
use std::net::SocketAddrV4;

const ABS_SEND_TIME: &str = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";
const TRANSPORT_SEQUENCE: &str =
    "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";

/// What one end sends.
pub struct Description {
    /// The end.
    pub from: Address,
    /// Name of the end's flow.
    pub flow: String,
    /// The streams it sends.
    pub streams: Vec<StreamConfig>,
    /// The arrival feedback that the other end returns.
    pub feedback: FeedbackKind,
}

/// Writes one session description for each end that sends media. `sockets` has the sockets of all ends.
pub(super) fn write(descriptions: &[Description], sockets: &[SocketAddrV4]) -> String {
    let mut text = String::new();
    for description in descriptions.iter().filter(|description| !description.streams.is_empty()) {
        let socket = sockets[description.from.port as usize];
        // Writing to a string does not fail.
        let _ = description.write(socket, &mut text);
    }
    text
}

impl Description {
    fn write(&self, socket: SocketAddrV4, text: &mut String) -> fmt::Result {
        let (ip, number) = (socket.ip(), self.from.port);
        write!(text, "v=0\r\no=- {number} 1 IN IP4 {ip}\r\ns={}\r\n", self.flow)?;
        write!(text, "c=IN IP4 {ip}\r\nt=0 0\r\n")?;
        for stream in &self.streams {
            if stream.is_video() {
                self.write_video(socket.port(), stream, text)?;
            } else {
                self.write_audio(socket.port(), text)?;
            }
            let cname = &self.flow;
            write!(text, "a=ssrc:{} cname:{cname}\r\na=sendonly\r\na=rtcp-mux\r\n", stream.ssrc)?;
        }
        Ok(())
    }

    fn write_video(&self, port: u16, stream: &StreamConfig, text: &mut String) -> fmt::Result {
        use payload_type::{RED, RED_RTX, RTX, ULPFEC, VIDEO};
        let red = stream.repair.uses_red();
        let separate = !stream.repair.on_original_ssrc();
        let wrapped = match (red, separate) {
            (true, true) => format!(" {RED} {RED_RTX} {ULPFEC}"),
            (true, false) => format!(" {RED} {ULPFEC}"),
            (false, _) => String::new(),
        };
        write!(text, "m=video {port} UDP/TLS/RTP/SAVPF {VIDEO} {RTX}{wrapped}\r\n")?;
        write!(text, "a=rtpmap:{VIDEO} VP8/90000\r\n")?;
        write!(text, "a=rtcp-fb:{VIDEO} nack\r\na=rtcp-fb:{VIDEO} nack pli\r\n")?;
        self.write_feedback(VIDEO, text)?;
        write!(text, "a=rtpmap:{RTX} rtx/90000\r\na=fmtp:{RTX} apt={VIDEO}\r\n")?;
        if red {
            write!(text, "a=rtpmap:{RED} red/90000\r\na=rtpmap:{ULPFEC} ulpfec/90000\r\n")?;
        }
        if red && separate {
            write!(text, "a=rtpmap:{RED_RTX} rtx/90000\r\na=fmtp:{RED_RTX} apt={RED}\r\n")?;
        }
        let (ssrc, repair) = (stream.ssrc, stream.repair_ssrc);
        write!(text, "a=ssrc-group:FID {ssrc} {repair}\r\na=ssrc:{repair} cname:{}\r\n", self.flow)
    }

    fn write_audio(&self, port: u16, text: &mut String) -> fmt::Result {
        use payload_type::AUDIO;
        write!(text, "m=audio {port} UDP/TLS/RTP/SAVPF {AUDIO}\r\n")?;
        write!(text, "a=rtpmap:{AUDIO} opus/48000/2\r\n")?;
        self.write_feedback(AUDIO, text)
    }

    /// Writes the feedback that congestion control gets, and the header extensions that this needs.
    fn write_feedback(&self, payload_type: u8, text: &mut String) -> fmt::Result {
        let ids = ExtensionIds::CHROMIUM;
        match self.feedback {
            FeedbackKind::TransportWide => {
                write!(text, "a=rtcp-fb:{payload_type} transport-cc\r\n")?;
            }
            FeedbackKind::Remb { .. } => write!(text, "a=rtcp-fb:{payload_type} goog-remb\r\n")?,
            // It is about all payload types (RFC 8888, section 6).
            FeedbackKind::Rfc8888 => write!(text, "a=rtcp-fb:* ack ccfb\r\n")?,
        }
        let number = ids.transport_sequence.filter(|_| self.feedback.has_transport_sequence());
        for (id, uri) in [(ids.abs_send_time, ABS_SEND_TIME), (number, TRANSPORT_SEQUENCE)] {
            if let Some(id) = id {
                write!(text, "a=extmap:{} {uri}\r\n", id.get())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::endpoint::{AudioConfig, Media};
    use crate::media::repair::Repair;
    use crate::network::NodeId;
    use crate::units::{Bitrate, Time};

    /// A description with RFC 8888 feedback has neither `transport-cc` nor its extension, and the other way around.
    #[test]
    fn feedback_and_the_extension_that_it_needs_are_described() {
        let described = |feedback| {
            let frame_ns = Time::from_millis(20);
            let audio = AudioConfig { bitrate_bps: Bitrate::from_kbps(32), frame_ns };
            let media = Media::Audio(audio);
            let stream = StreamConfig { ssrc: 1, repair_ssrc: 0, media, repair: Repair::None };
            let from = Address { node: NodeId(0), port: 0 };
            let flow = "alice->bob".to_owned();
            let sockets = [SocketAddrV4::new([10, 0, 0, 1].into(), 5_000)];
            write(&[Description { from, flow, streams: vec![stream], feedback }], &sockets)
        };
        for (feedback, line, has_extension) in [
            (FeedbackKind::TransportWide, "a=rtcp-fb:111 transport-cc\r\n", true),
            (FeedbackKind::Rfc8888, "a=rtcp-fb:* ack ccfb\r\n", false),
        ] {
            let text = described(feedback);
            assert_eq!(text.matches("a=rtcp-fb").count(), 1);
            assert!(text.contains(line), "{text}");
            assert_eq!(text.contains(TRANSPORT_SEQUENCE), has_extension);
            assert!(text.contains(ABS_SEND_TIME));
        }
    }
}
