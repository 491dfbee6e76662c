//! Receiver estimated maximum bit rate (REMB).
//!
//! Source: draft-alvestrand-rmcat-remb-03, section 2.2.

use crate::rtp::cursor::Cursor;
use crate::rtp::{ParseError, WriteError};
use crate::units::Bitrate;

/// The receiver's estimate of the available bit rate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remb {
    /// SSRC of the estimating receiver.
    pub sender_ssrc: u32,
    /// Estimate for all streams together. Written with 18 significant bits, rounded down (4 ppm).
    pub bitrate: Bitrate,
    /// SSRCs of the streams, at most 255.
    pub ssrcs: Vec<u32>,
}

const IDENTIFIER: [u8; 4] = *b"REMB";
const MANTISSA_BITS: u32 = 18;

impl Remb {
    /// The bit rate as REMB carries it: rounded down to 18 significant bits.
    pub fn rounded(bitrate: Bitrate) -> Bitrate {
        let bits = u64::BITS - bitrate.bps().leading_zeros();
        let exponent = bits.saturating_sub(MANTISSA_BITS);
        Bitrate(bitrate.bps() >> exponent << exponent)
    }

    /// Whether this application-layer feedback is REMB.
    pub(super) fn is_remb(mut body: Cursor<'_>) -> bool {
        body.take(8, "SSRCs").is_ok() && body.array("identifier") == Ok(IDENTIFIER)
    }

    pub(super) fn parse(mut body: Cursor<'_>) -> Result<Self, ParseError> {
        let sender_ssrc = body.u32("REMB sender SSRC")?;
        body.u32("REMB unused SSRC")?;
        body.u32("REMB identifier")?;
        let offset = body.offset();
        let word = body.u32("REMB bit rate")?;
        let mantissa = u64::from(word & 0x3_FFFF);
        let exponent = word >> MANTISSA_BITS & 63;
        if mantissa.leading_zeros() < exponent && mantissa > 0 {
            return Err(ParseError::Invalid {
                field: "REMB exponent",
                offset,
                expected: "a bit rate below 2^64",
                got: exponent.into(),
            });
        }
        let ssrcs = (0..word >> 24).map(|_| body.u32("REMB SSRC")).collect::<Result<_, _>>()?;
        Ok(Remb { sender_ssrc, bitrate: Bitrate(mantissa << exponent), ssrcs })
    }

    pub(super) fn write(&self, out: &mut Vec<u8>) -> Result<(), WriteError> {
        WriteError::check("REMB SSRCs", self.ssrcs.len(), usize::from(u8::MAX))?;
        // The smallest exponent with which the mantissa fits.
        let bits = u64::BITS - self.bitrate.bps().leading_zeros();
        let exponent = bits.saturating_sub(MANTISSA_BITS);
        let mantissa = (self.bitrate.bps() >> exponent) as u32;
        let word = (self.ssrcs.len() as u32) << 24 | exponent << MANTISSA_BITS | mantissa;
        out.extend_from_slice(&self.sender_ssrc.to_be_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&IDENTIFIER);
        out.extend_from_slice(&word.to_be_bytes());
        self.ssrcs.iter().for_each(|ssrc| out.extend_from_slice(&ssrc.to_be_bytes()));
        Ok(())
    }
}
