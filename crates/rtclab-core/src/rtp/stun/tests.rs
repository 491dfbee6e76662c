use super::*;
use std::net::SocketAddrV4;

/// The sample IPv4 response of RFC 5769, section 2.2, with the address 192.0.2.1:32853.
const RFC_5769_RESPONSE: [u8; 80] = [
    0x01, 0x01, 0x00, 0x3c, 0x21, 0x12, 0xa4, 0x42, 0xb7, 0xe7, 0xa7, 0x01, 0xbc, 0x34, 0xd6, 0x86,
    0xfa, 0x87, 0xdf, 0xae, 0x80, 0x22, 0x00, 0x0b, 0x74, 0x65, 0x73, 0x74, 0x20, 0x76, 0x65, 0x63,
    0x74, 0x6f, 0x72, 0x20, 0x00, 0x20, 0x00, 0x08, 0x00, 0x01, 0xa1, 0x47, 0xe1, 0x12, 0xa6, 0x43,
    0x00, 0x08, 0x00, 0x14, 0x2b, 0x91, 0xf5, 0x99, 0xfd, 0x9e, 0x90, 0xc3, 0x8c, 0x74, 0x89, 0xf9,
    0x2a, 0xf9, 0xba, 0x53, 0xf0, 0x6b, 0xe7, 0xd7, 0x80, 0x28, 0x00, 0x04, 0xc0, 0x7d, 0x4c, 0x96,
];

#[test]
fn the_sample_response_of_rfc_5769_is_parsed() {
    let message = Message::parse(&RFC_5769_RESPONSE).unwrap();
    assert_eq!((message.class, message.method), (Class::Success, method::BINDING));
    let software = message.attribute(0x8022).unwrap();
    assert_eq!(software, Some(&b"test vector"[..]));
    let mapped = message.xor_address(attribute::XOR_MAPPED_ADDRESS).unwrap();
    assert_eq!(mapped, Some("192.0.2.1:32853".parse().unwrap()));
    assert_eq!(message.fingerprint_is_valid(), Some(true));
}

#[test]
fn a_changed_byte_makes_the_fingerprint_wrong() {
    let mut bytes = RFC_5769_RESPONSE;
    bytes[30] ^= 1;
    assert_eq!(Message::parse(&bytes).unwrap().fingerprint_is_valid(), Some(false));
}

#[test]
fn an_ipv6_address_is_also_masked_with_the_transaction_id() {
    // RFC 5769, section 2.3: [2001:db8:1234:5678:11:2233:4455:6677]:32853.
    let value = [
        0x00, 0x02, 0xa1, 0x47, 0x01, 0x13, 0xa9, 0xfa, 0xa5, 0xd3, 0xf1, 0x79, 0xbc, 0x25, 0xf4,
        0xb5, 0xbe, 0xd2, 0xb9, 0xd9,
    ];
    let id = Message::parse(&RFC_5769_RESPONSE).unwrap().transaction_id;
    let expected = "[2001:db8:1234:5678:11:2233:4455:6677]:32853".parse().unwrap();
    assert_eq!(parse_xor_address(&value, &id), Ok(expected));
}

#[test]
fn a_binding_request_has_username_priority_and_a_valid_fingerprint() {
    let mut bytes = vec![0xFF];
    write_binding_request(&[7; 12], "bob:alice", Some(0x6E00_01FF), &mut bytes).unwrap();
    // One byte that was there before, 20 header, 4 + 12 username (9 padded to 12), 4 + 4 priority, 8
    // fingerprint.
    assert_eq!(bytes.len(), 1 + 20 + 16 + 8 + 8);
    assert_eq!(bytes[1..5], [0x00, 0x01, 0, 32]);
    let message = Message::parse(&bytes[1..]).unwrap();
    assert_eq!((message.class, message.method), (Class::Request, method::BINDING));
    assert_eq!(message.transaction_id, [7; 12]);
    let types: Vec<u16> = message.attributes().map(|attribute| attribute.unwrap().0).collect();
    assert_eq!(types, [attribute::USERNAME, attribute::PRIORITY, attribute::FINGERPRINT]);
    assert_eq!(message.attribute(attribute::USERNAME), Ok(Some(&b"bob:alice"[..])));
    assert_eq!(message.fingerprint_is_valid(), Some(true));
}

#[test]
fn a_binding_success_carries_the_source_address_of_the_request() {
    let mapped = SocketAddrV4::new([192, 0, 2, 1].into(), 32_853);
    let mut bytes = Vec::new();
    write_binding_success(&[7; 12], mapped, &mut bytes);
    assert_eq!(bytes[..4], [0x01, 0x01, 0, 20]);
    assert_eq!(bytes[20..32], RFC_5769_RESPONSE[36..48]);
    let message = Message::parse(&bytes).unwrap();
    assert_eq!(message.xor_address(attribute::XOR_MAPPED_ADDRESS), Ok(Some(mapped.into())));
    assert_eq!(message.fingerprint_is_valid(), Some(true));
}

#[test]
fn a_username_of_509_bytes_is_refused_and_nothing_is_written() {
    let mut out = Vec::new();
    let limit = |out: &mut Vec<u8>, len| {
        write_binding_request(&[0; 12], &"x".repeat(len), None, out).map_err(|error| error.limit)
    };
    assert_eq!((limit(&mut out, 509), out.len()), (Err(508), 0));
    assert_eq!((limit(&mut out, 508), out.len()), (Ok(()), 20 + 4 + 508 + 8));
}

#[test]
fn types_interleave_class_and_method() {
    // Binding success, Data indication, Allocate error, and the highest method.
    assert_eq!(split_type(0x0101), (Class::Success, 0x001));
    assert_eq!(split_type(0x0017), (Class::Indication, 0x007));
    assert_eq!(split_type(0x0113), (Class::Error, 0x003));
    assert_eq!(split_type(0x3EEF), (Class::Request, 0xFFF));
    for message_type in 0..0x4000 {
        let (class, method) = split_type(message_type);
        assert_eq!(join_type(class, method), message_type);
    }
}

#[test]
fn a_wrong_cookie_length_or_type_is_refused() {
    for (offset, byte) in [(0, 0x40), (3, 0x3D), (3, 0x40), (4, 0x20)] {
        let mut bytes = RFC_5769_RESPONSE;
        bytes[offset] = byte;
        assert!(Message::parse(&bytes).is_err(), "byte {offset} = {byte}");
    }
}

#[test]
fn an_attribute_longer_than_the_message_ends_the_attributes_with_an_error() {
    // The second attribute begins at byte 36. A value of 40 bytes just fits, 41 do not.
    let second = |len| {
        let mut bytes = RFC_5769_RESPONSE;
        bytes[39] = len;
        let attributes: Vec<_> = Message::parse(&bytes).unwrap().attributes().collect();
        assert_eq!(attributes.len(), 2);
        attributes[1].map(|(_, value)| value.len())
    };
    let field = "STUN attribute value";
    assert_eq!(second(40), Ok(40));
    assert_eq!(second(41), Err(ParseError::Truncated { field, offset: 40, needed: 41, got: 40 }));
}
