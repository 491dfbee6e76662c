//! Recognises datagrams of DTLS records by the headers of the records.
//!
//! The first byte alone is no proof: digits, spaces and most punctuation of ASCII lie in its range.
//!
//! Source: RFC 6347, section 4.1; RFC 9147, section 4.

/// Content types of records with a full header: change_cipher_spec to ACK (RFC 9147, section 14).
const CONTENT_TYPES: std::ops::RangeInclusive<u8> = 20..=26;
/// Content type of a record with a connection ID, whose length is not in the record (RFC 9146, section 4).
const WITH_CONNECTION_ID: u8 = 25;
/// Length of a full header.
const FULL_HEADER_BYTES: usize = 13;
/// Most bytes in a record after its header (RFC 6347, section 4.1).
const MOST_BYTES: usize = (1 << 14) + 2048;

/// First three bits of the short header of DTLS 1.3, `001CSLEE`.
const SHORT_HEADER: u8 = 0b0010_0000;
/// Whether a connection ID follows.
const CONNECTION_ID: u8 = 0b0001_0000;
/// Whether the sequence number has 16 bits rather than 8.
const LONG_SEQUENCE: u8 = 0b0000_1000;
/// Whether the header has a length.
const LENGTH: u8 = 0b0000_0100;
/// Fewest encrypted bytes after a short header (RFC 9147, section 4.2.3).
const LEAST_ENCRYPTED_BYTES: usize = 16;

/// Whether a datagram of `wire_bytes` is a sequence of DTLS records, as far as `bytes` has it. A capture may
/// have cut the rest off.
///
/// The lengths of the records must add up to the datagram's. A record may leave out its length only after
/// another record. Records with a connection ID are not recognised, because its length is known to the two
/// ends alone; browsers do not use it.
pub(super) fn are_records(bytes: &[u8], wire_bytes: usize) -> bool {
    let mut at = 0;
    while at < wire_bytes {
        let rest = bytes.get(at..).unwrap_or_default();
        match record_bytes(rest, wire_bytes - at, at == 0) {
            Some(Length::Known(len)) => at += len,
            Some(Length::Cut) => return true,
            None => return false,
        }
    }
    at > 0
}

/// Length of a record, with its header.
enum Length {
    Known(usize),
    /// The capture cut the header off before its length.
    Cut,
}

/// Length of the record at the beginning of `bytes`, when `wire_bytes` are left in the datagram. `None`
/// if it is no record.
fn record_bytes(bytes: &[u8], wire_bytes: usize, first: bool) -> Option<Length> {
    let cut = bytes.len() < wire_bytes;
    let Some(&kind) = bytes.first() else { return (cut && !first).then_some(Length::Cut) };
    if CONTENT_TYPES.contains(&kind) && kind != WITH_CONNECTION_ID {
        // DTLS 1.0 and 1.2, and what 1.3 may write for compatibility.
        let version = bytes.get(1..3)?;
        if version[0] != 0xFE || !matches!(version[1], 0xFF | 0xFD | 0xFC) {
            return None;
        }
        let Some(length) = bytes.get(11..13) else { return cut.then_some(Length::Cut) };
        let len = usize::from(u16::from_be_bytes([length[0], length[1]]));
        let fits = (1..=MOST_BYTES).contains(&len) && FULL_HEADER_BYTES + len <= wire_bytes;
        return fits.then_some(Length::Known(FULL_HEADER_BYTES + len));
    }
    if kind & 0b1110_0000 != SHORT_HEADER || kind & CONNECTION_ID != 0 {
        return None;
    }
    let sequence_bytes = if kind & LONG_SEQUENCE == 0 { 1 } else { 2 };
    if kind & LENGTH == 0 {
        let enough = wire_bytes > sequence_bytes + LEAST_ENCRYPTED_BYTES;
        return (!first && enough).then_some(Length::Known(wire_bytes));
    }
    let at = 1 + sequence_bytes;
    let Some(length) = bytes.get(at..at + 2) else {
        return (cut && !first).then_some(Length::Cut);
    };
    let len = usize::from(u16::from_be_bytes([length[0], length[1]]));
    let fits = (LEAST_ENCRYPTED_BYTES..=MOST_BYTES).contains(&len) && at + 2 + len <= wire_bytes;
    fits.then_some(Length::Known(at + 2 + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record with a full header that states `len` bytes and has as many.
    fn full(kind: u8, version: [u8; 2], len: u16) -> Vec<u8> {
        let mut record = vec![kind, version[0], version[1], 0, 0, 0, 0, 0, 0, 0, 1];
        record.extend_from_slice(&len.to_be_bytes());
        record.resize(FULL_HEADER_BYTES + usize::from(len), 0xA5);
        record
    }

    /// A record of DTLS 1.3 with a sequence number of 16 bits and a length, as browsers write it.
    fn short(len: u16) -> Vec<u8> {
        let mut record = vec![0b0010_1110, 0, 1];
        record.extend_from_slice(&len.to_be_bytes());
        record.resize(5 + usize::from(len), 0xA5);
        record
    }

    fn whole(datagram: &[u8]) -> bool {
        are_records(datagram, datagram.len())
    }

    #[test]
    fn content_types_20_to_26_with_a_version_of_dtls_are_records_and_no_others() {
        let types: Vec<u8> =
            (0..=255).filter(|kind| whole(&full(*kind, [0xFE, 0xFD], 40))).collect();
        assert_eq!(types, [20, 21, 22, 23, 24, 26]);
        for minor in 0..=255 {
            let known = [0xFF, 0xFD, 0xFC].contains(&minor);
            assert_eq!(whole(&full(22, [0xFE, minor], 40)), known, "version 0xFE{minor:02X}");
        }
        assert!(!whole(&full(22, [0x03, 0x03], 40)), "TLS over TCP");
    }

    #[test]
    fn the_lengths_of_all_records_add_up_to_the_datagram() {
        let two = [full(22, [0xFE, 0xFD], 30), short(16)].concat();
        assert!(whole(&two));
        assert!(!whole(&two[..two.len() - 1]));
        assert!(!whole(&[&two[..], &[0]].concat()));
        assert!(!whole(&full(23, [0xFE, 0xFD], 0)));
        assert!(whole(&full(20, [0xFE, 0xFD], 1)));
        assert!(!whole(&short(15)));
        assert!(whole(&short(16)));
    }

    #[test]
    fn a_record_leaves_out_its_length_only_after_another() {
        let without = [&[0b0010_0010, 7][..], &[0xA5; 16]].concat();
        assert!(!whole(&without));
        assert!(whole(&[short(20), without.clone()].concat()));
        assert!(!whole(&[short(20), without[..17].to_vec()].concat()));
    }

    #[test]
    fn a_connection_id_hides_the_length_so_that_the_record_is_not_recognised() {
        let mut record = short(40);
        record[0] |= CONNECTION_ID;
        assert!(!whole(&record));
    }

    #[test]
    fn a_capture_may_cut_a_datagram_off_anywhere_after_the_version_or_the_short_header() {
        let [full, short] =
            [full(22, [0xFE, 0xFD], 40), short(40)].map(|first| [first, short(30)].concat());
        let cuts = |datagram: &[u8]| -> Vec<usize> {
            let seen = |len: &usize| !are_records(&datagram[..*len], datagram.len());
            (0..=datagram.len()).filter(seen).collect()
        };
        assert_eq!(cuts(&full), [0, 1, 2]);
        assert_eq!(cuts(&short), [0, 1, 2, 3, 4]);
    }

    #[test]
    fn text_is_not_dtls_whatever_its_length() {
        let text = "1 2 3 4 5, -6.5; /path/to 7:8 = 9 <tag> 'quoted' (10) #11 $12 %13 &14 *15 +16";
        for begin in 0..text.len() {
            for end in begin..=text.len() {
                assert!(!whole(&text.as_bytes()[begin..end]), "{:?}", &text[begin..end]);
            }
        }
    }
}
