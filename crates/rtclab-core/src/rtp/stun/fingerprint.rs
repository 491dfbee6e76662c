//! The FINGERPRINT attribute, which distinguishes STUN from other protocols on the same port.
//!
//! Source: RFC 8489, section 14.7.

use super::attribute;

pub(super) const ATTRIBUTE_BYTES: usize = 8;
pub(super) const ATTRIBUTE_HEADER: [u8; 4] =
    [(attribute::FINGERPRINT >> 8) as u8, attribute::FINGERPRINT as u8, 0, 4];

const XOR: u32 = 0x5354_554E;

/// Value of the attribute for the message before it, whose length field must already include it.
pub(super) fn fingerprint(message: &[u8]) -> u32 {
    crc32(message) ^ XOR
}

/// CRC-32 of ISO 3309 (Ethernet, zlib): reflected, polynomial 0x04C11DB7.
fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| crc >> 8 ^ CRC_TABLE[usize::from(crc as u8 ^ byte)])
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ 0xEDB8_8320 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_crc_of_the_digits_1_to_9_is_the_published_check_value() {
        assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
    }
}
