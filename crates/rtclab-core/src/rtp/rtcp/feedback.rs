//! Requests for a key frame.
//!
//! Source: RFC 4585, section 6.3.1; RFC 5104, section 4.3.1.

use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};

/// Picture loss indication (PLI): a picture was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PictureLossIndication {
    /// SSRC of the requesting receiver.
    pub sender_ssrc: u32,
    /// SSRC of the video stream.
    pub media_ssrc: u32,
}

/// Full intra request (FIR): a key frame is required, for example because a receiver joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FullIntraRequest {
    /// SSRC of the requesting receiver.
    pub sender_ssrc: u32,
    /// SSRC of each stream with the sequence number of the command, which is the same in a repetition.
    pub commands: Vec<(u32, u8)>,
}

impl PictureLossIndication {
    pub(super) fn parse(mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let sender_ssrc = body.u32("PLI sender SSRC")?;
        Ok(PictureLossIndication { sender_ssrc, media_ssrc: body.u32("PLI media SSRC")? })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&self.sender_ssrc.to_be_bytes());
        out.extend_from_slice(&self.media_ssrc.to_be_bytes());
        Ok(())
    }
}

impl FullIntraRequest {
    pub(super) fn parse(mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let sender_ssrc = body.u32("FIR sender SSRC")?;
        body.u32("FIR unused SSRC")?;
        let mut commands = Vec::new();
        while !body.is_empty() {
            let ssrc = body.u32("FIR media SSRC")?;
            let [number, ..] = body.array::<4>("FIR command number")?;
            commands.push((ssrc, number));
        }
        Ok(FullIntraRequest { sender_ssrc, commands })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        out.extend_from_slice(&self.sender_ssrc.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        for (ssrc, number) in &self.commands {
            out.extend_from_slice(&ssrc.to_be_bytes());
            out.extend_from_slice(&[*number, 0, 0, 0]);
        }
        Ok(())
    }
}
