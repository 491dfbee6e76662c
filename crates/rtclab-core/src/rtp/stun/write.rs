//! Writing the messages of connectivity checks.

use super::{
    Class, HEADER_BYTES, MAGIC_COOKIE, TransactionId, attribute, fingerprint, join_type, method,
};
use crate::rtp::WriteError;
use std::net::SocketAddrV4;

/// The most that USERNAME may have.
///
/// Source: RFC 8489, section 14.3.
const USERNAME_MAX_BYTES: usize = 508;

/// Appends a Binding request: USERNAME, PRIORITY when given, FINGERPRINT.
///
/// # Errors
///
/// [`WriteError`] when `username` is longer than 508 bytes.
pub fn write_binding_request(
    transaction_id: &TransactionId,
    username: &str,
    priority: Option<u32>,
    out: &mut Vec<u8>,
) -> Result<(), WriteError> {
    WriteError::check("bytes of USERNAME", username.len(), USERNAME_MAX_BYTES)?;
    let mut writer = Writer::begin(Class::Request, method::BINDING, transaction_id, out);
    writer.attribute(attribute::USERNAME, username.as_bytes());
    if let Some(priority) = priority {
        writer.attribute(attribute::PRIORITY, &priority.to_be_bytes());
    }
    writer.finish_with_fingerprint();
    Ok(())
}

/// Appends the success response to a Binding request that came from `mapped`: XOR-MAPPED-ADDRESS,
/// FINGERPRINT.
pub fn write_binding_success(
    transaction_id: &TransactionId,
    mapped: SocketAddrV4,
    out: &mut Vec<u8>,
) {
    let mut writer = Writer::begin(Class::Success, method::BINDING, transaction_id, out);
    let [p0, p1] = (mapped.port() ^ (MAGIC_COOKIE >> 16) as u16).to_be_bytes();
    let [a, b, c, d] = (mapped.ip().to_bits() ^ MAGIC_COOKIE).to_be_bytes();
    writer.attribute(attribute::XOR_MAPPED_ADDRESS, &[0, 1, p0, p1, a, b, c, d]);
    writer.finish_with_fingerprint();
}

/// A message being appended; callers keep it below 64 KiB.
struct Writer<'a> {
    out: &'a mut Vec<u8>,
    begin: usize,
}

impl<'a> Writer<'a> {
    fn begin(class: Class, method: u16, id: &TransactionId, out: &'a mut Vec<u8>) -> Self {
        let begin = out.len();
        out.extend_from_slice(&join_type(class, method).to_be_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&MAGIC_COOKIE.to_be_bytes());
        out.extend_from_slice(id);
        Writer { out, begin }
    }

    fn attribute(&mut self, attribute_type: u16, value: &[u8]) {
        self.out.extend_from_slice(&attribute_type.to_be_bytes());
        self.out.extend_from_slice(&(value.len() as u16).to_be_bytes());
        self.out.extend_from_slice(value);
        self.out.resize(self.out.len() + value.len().next_multiple_of(4) - value.len(), 0);
    }

    fn finish_with_fingerprint(self) {
        // RFC 8489, 14.7: the length field counts the fingerprint before it is computed.
        let length = self.out.len() - self.begin - HEADER_BYTES + fingerprint::ATTRIBUTE_BYTES;
        self.out[self.begin + 2..][..2].copy_from_slice(&(length as u16).to_be_bytes());
        let value = fingerprint::fingerprint(&self.out[self.begin..]);
        self.out.extend_from_slice(&fingerprint::ATTRIBUTE_HEADER);
        self.out.extend_from_slice(&value.to_be_bytes());
    }
}
