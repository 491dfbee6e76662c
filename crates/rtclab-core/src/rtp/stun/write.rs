//! Writes STUN messages of connectivity checks and of simulated TURN allocations.

use super::{
    Class, HEADER_BYTES, MAGIC_COOKIE, TransactionId, attribute, fingerprint, join_type, method,
};
use crate::rtp::WriteError;
use std::net::SocketAddrV4;

/// Maximum size of USERNAME.
///
/// Source: RFC 8489, section 14.3.
const USERNAME_MAX_BYTES: usize = 508;
/// Size of the type and length fields of an attribute.
const ATTRIBUTE_HEADER_BYTES: usize = 4;

/// Appends a Binding request with USERNAME, PRIORITY (if given) and FINGERPRINT.
///
/// # Errors
///
/// [`WriteError`] if `username` is longer than 508 bytes.
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

/// Appends the success response to a Binding request from `mapped`, with XOR-MAPPED-ADDRESS and FINGERPRINT.
pub fn write_binding_success(
    transaction_id: &TransactionId,
    mapped: SocketAddrV4,
    out: &mut Vec<u8>,
) {
    let mut writer = Writer::begin(Class::Success, method::BINDING, transaction_id, out);
    writer.attribute(attribute::XOR_MAPPED_ADDRESS, &xor_address(mapped));
    writer.finish_with_fingerprint();
}

/// Appends a message of `total_bytes` with the given attributes, SOFTWARE as filler, and FINGERPRINT.
///
/// The attributes must leave four bytes for SOFTWARE, and `total_bytes` must be a multiple of four.
pub(crate) fn write_padded(
    (class, method): (Class, u16),
    transaction_id: &TransactionId,
    attributes: &[(u16, &[u8])],
    total_bytes: usize,
    out: &mut Vec<u8>,
) {
    let mut writer = Writer::begin(class, method, transaction_id, out);
    for (attribute_type, value) in attributes {
        writer.attribute(*attribute_type, value);
    }
    let written = writer.out.len() - writer.begin;
    let software = total_bytes - written - ATTRIBUTE_HEADER_BYTES - fingerprint::ATTRIBUTE_BYTES;
    writer.attribute(attribute::SOFTWARE, &vec![b' '; software]);
    writer.finish_with_fingerprint();
}

/// Value of an XOR-…-ADDRESS attribute.
pub(crate) fn xor_address(address: SocketAddrV4) -> [u8; 8] {
    let [p0, p1] = (address.port() ^ (MAGIC_COOKIE >> 16) as u16).to_be_bytes();
    let [a, b, c, d] = (address.ip().to_bits() ^ MAGIC_COOKIE).to_be_bytes();
    [0, 1, p0, p1, a, b, c, d]
}

/// A message that is being appended. Callers keep it below 64 KiB.
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
        // RFC 8489, 14.7: the length field includes the fingerprint before that is computed.
        let length = self.out.len() - self.begin - HEADER_BYTES + fingerprint::ATTRIBUTE_BYTES;
        self.out[self.begin + 2..][..2].copy_from_slice(&(length as u16).to_be_bytes());
        let value = fingerprint::fingerprint(&self.out[self.begin..]);
        self.out.extend_from_slice(&fingerprint::ATTRIBUTE_HEADER);
        self.out.extend_from_slice(&value.to_be_bytes());
    }
}
