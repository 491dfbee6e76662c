//! Reads descriptions of packets from SDP: codecs, repair streams, extension ids.
//!
//! Source: RFC 8866; RFC 8285, section 5 (`extmap`); RFC 4588, section 8 (`apt`); RFC 5576, section 4.2
//! (`ssrc-group`); RFC 3551, section 6 (payload types that need no description).

use std::collections::HashMap;

const ABS_SEND_TIME: &str = "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time";
const TRANSPORT_SEQUENCE: &str =
    "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01";
/// Maximum number of SSRC groups kept.
const MAX_GROUPS: usize = 4096;
/// Maximum length of a codec name; longer ones are cut.
const MAX_CODEC_BYTES: usize = 32;

/// Content of a payload type or stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PayloadKind {
    /// Video.
    Video,
    /// Audio.
    Audio,
    /// Retransmissions in a separate stream (RFC 4588).
    Rtx,
    /// Forward error correction in a separate stream or payload type.
    Fec,
}

impl PayloadKind {
    /// Name used in tables.
    pub const fn name(self) -> &'static str {
        match self {
            PayloadKind::Video => "video",
            PayloadKind::Audio => "audio",
            PayloadKind::Rtx => "rtx",
            PayloadKind::Fec => "fec",
        }
    }
}

/// A codec, as `a=rtpmap` describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codec {
    /// Encoding name, such as `VP8`, `opus` or `rtx`.
    pub name: String,
    /// RTP timestamp units per second; not 0.
    pub clock_rate: u32,
    /// Kind of content. Repair is recognised by the encoding name, media by the media section.
    pub kind: PayloadKind,
}

/// What one or more session descriptions say about packets. Offer and answer may follow each other in one
/// text. The default contains what is known without a description.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sdp {
    codecs: HashMap<u8, Codec>,
    groups: HashMap<u32, PayloadKind>,
    /// Extension id of abs-send-time, if described.
    pub abs_send_time: Option<u8>,
    /// Extension id of the transport-wide sequence number, if described.
    pub transport_sequence: Option<u8>,
}

/// Static payload types of RFC 3551, used unless an SDP redefines them.
const STATIC_CODECS: [(u8, &str, u32, PayloadKind); 24] = [
    (0, "PCMU", 8_000, PayloadKind::Audio),
    (3, "GSM", 8_000, PayloadKind::Audio),
    (4, "G723", 8_000, PayloadKind::Audio),
    (5, "DVI4", 8_000, PayloadKind::Audio),
    (6, "DVI4", 16_000, PayloadKind::Audio),
    (7, "LPC", 8_000, PayloadKind::Audio),
    (8, "PCMA", 8_000, PayloadKind::Audio),
    (9, "G722", 8_000, PayloadKind::Audio),
    (10, "L16", 44_100, PayloadKind::Audio),
    (11, "L16", 44_100, PayloadKind::Audio),
    (12, "QCELP", 8_000, PayloadKind::Audio),
    (13, "CN", 8_000, PayloadKind::Audio),
    (14, "MPA", 90_000, PayloadKind::Audio),
    (15, "G728", 8_000, PayloadKind::Audio),
    (16, "DVI4", 11_025, PayloadKind::Audio),
    (17, "DVI4", 22_050, PayloadKind::Audio),
    (18, "G729", 8_000, PayloadKind::Audio),
    (25, "CelB", 90_000, PayloadKind::Video),
    (26, "JPEG", 90_000, PayloadKind::Video),
    (28, "nv", 90_000, PayloadKind::Video),
    (31, "H261", 90_000, PayloadKind::Video),
    (32, "MPV", 90_000, PayloadKind::Video),
    (33, "MP2T", 90_000, PayloadKind::Video),
    (34, "H263", 90_000, PayloadKind::Video),
];

impl Default for Sdp {
    fn default() -> Self {
        let codec = |(number, name, clock_rate, kind): (u8, &str, u32, PayloadKind)| {
            (number, Codec { name: name.to_owned(), clock_rate, kind })
        };
        Sdp {
            codecs: STATIC_CODECS.into_iter().map(codec).collect(),
            groups: HashMap::new(),
            abs_send_time: None,
            transport_sequence: None,
        }
    }
}

impl Sdp {
    /// Parses a text. Unknown lines are ignored.
    pub fn parse(text: &str) -> Self {
        let mut sdp = Sdp::default();
        let mut media = PayloadKind::Video;
        for line in text.lines().map(str::trim) {
            if let Some(section) = line.strip_prefix("m=") {
                media = if section.starts_with("audio") {
                    PayloadKind::Audio
                } else {
                    PayloadKind::Video
                };
            } else if let Some(value) = line.strip_prefix("a=rtpmap:") {
                sdp.rtpmap(value, media);
            } else if let Some(value) = line.strip_prefix("a=extmap:") {
                sdp.extmap(value);
            } else if let Some(value) = line.strip_prefix("a=ssrc-group:") {
                sdp.ssrc_group(value);
            }
        }
        sdp
    }

    /// Codec of a payload type, if known.
    pub fn codec(&self, payload_type: u8) -> Option<&Codec> {
        self.codecs.get(&payload_type)
    }

    /// Kind of a stream according to its `ssrc-group`.
    pub fn group_kind(&self, ssrc: u32) -> Option<PayloadKind> {
        self.groups.get(&ssrc).copied()
    }

    fn rtpmap(&mut self, value: &str, media: PayloadKind) {
        let Some((payload_type, encoding)) = value.split_once(' ') else { return };
        let mut parts = encoding.trim().split('/');
        let (Some(name), Some(clock_rate)) = (parts.next(), parts.next()) else { return };
        let (Ok(payload_type), Ok(clock_rate)) = (payload_type.parse(), clock_rate.parse()) else {
            return;
        };
        if payload_type > 127 || clock_rate == 0 {
            return;
        }
        let kind = match name.to_ascii_lowercase().as_str() {
            "rtx" => PayloadKind::Rtx,
            // RED is not in this list, because it carries the media as well as the repair.
            "ulpfec" | "flexfec" | "flexfec-03" | "parityfec" => PayloadKind::Fec,
            _ => media,
        };
        let name = name.chars().take(MAX_CODEC_BYTES).collect();
        self.codecs.insert(payload_type, Codec { name, clock_rate, kind });
    }

    fn extmap(&mut self, value: &str) {
        let mut words = value.split_whitespace();
        let (Some(id), Some(uri)) = (words.next(), words.next()) else { return };
        // A direction may follow the id, as in `3/sendonly`.
        let id = id.split('/').next().and_then(|id| id.parse().ok()).filter(|id| *id > 0);
        match uri {
            ABS_SEND_TIME => self.abs_send_time = id,
            TRANSPORT_SEQUENCE => self.transport_sequence = id,
            _ => {}
        }
    }

    /// Parses `FID media rtx` or `FEC-FR media fec`. The first SSRC is the media.
    fn ssrc_group(&mut self, value: &str) {
        let mut words = value.split_whitespace();
        let kind = match words.next() {
            Some("FID") => PayloadKind::Rtx,
            Some("FEC-FR") => PayloadKind::Fec,
            _ => return,
        };
        for ssrc in words.skip(1).filter_map(|word| word.parse().ok()) {
            if self.groups.len() < MAX_GROUPS {
                self.groups.insert(ssrc, kind);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "v=0\r\n\
        m=audio 9 UDP/TLS/RTP/SAVPF 111 63\r\n\
        a=rtpmap:111 opus/48000/2\r\n\
        a=rtpmap:63 red/48000/2\r\n\
        a=extmap:2 http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time\r\n\
        m=video 9 UDP/TLS/RTP/SAVPF 96 97 116\r\n\
        a=rtpmap:96 VP8/90000\r\n\
        a=rtpmap:97 rtx/90000\r\n\
        a=fmtp:97 apt=96\r\n\
        a=rtpmap:116 red/90000\r\n\
        a=rtpmap:117 ulpfec/90000\r\n\
        a=rtpmap:200 VP9/90000\r\n\
        a=rtpmap:98 VP9/0\r\n\
        a=extmap:3/sendonly http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01\r\n\
        a=ssrc-group:FID 1001 1002\r\n\
        a=ssrc-group:SIM 1001 1003\r\n";

    #[test]
    fn codecs_repair_and_extension_ids_are_found() {
        let sdp = Sdp::parse(TEXT);
        let codec = |pt| sdp.codec(pt).map(|c| (c.name.as_str(), c.clock_rate, c.kind));
        assert_eq!(codec(111), Some(("opus", 48_000, PayloadKind::Audio)));
        assert_eq!(codec(63), Some(("red", 48_000, PayloadKind::Audio)));
        assert_eq!(codec(96), Some(("VP8", 90_000, PayloadKind::Video)));
        assert_eq!(codec(97), Some(("rtx", 90_000, PayloadKind::Rtx)));
        assert_eq!(codec(116), Some(("red", 90_000, PayloadKind::Video)));
        assert_eq!(codec(117), Some(("ulpfec", 90_000, PayloadKind::Fec)));
        assert_eq!((sdp.abs_send_time, sdp.transport_sequence), (Some(2), Some(3)));
        assert_eq!(sdp.group_kind(1002), Some(PayloadKind::Rtx));
        assert_eq!((sdp.group_kind(1001), sdp.group_kind(1003)), (None, None));
    }

    #[test]
    fn payload_types_above_127_and_clocks_of_zero_are_ignored() {
        let sdp = Sdp::parse(TEXT);
        assert_eq!((sdp.codec(200), sdp.codec(98)), (None, None));
        assert_eq!(sdp.codec(0).map(|codec| codec.name.as_str()), Some("PCMU"));
        assert_eq!(Sdp::parse("a=rtpmap:\na=extmap:\na=ssrc-group:\nm="), Sdp::default());
    }
}
