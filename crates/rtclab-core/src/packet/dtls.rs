//! Datagrams of a DTLS 1.3 handshake.

/// A datagram of the DTLS 1.3 handshake between two Chromium browsers: certificates on both sides, and a
/// key share of X25519MLKEM768, which makes the ClientHello longer than a datagram.
///
/// Source: RFC 9147, section 5; sizes measured on calls of Chromium 156.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dtls13 {
    /// First datagram of the ClientHello.
    ClientHello,
    /// Its second datagram.
    ClientHelloEnd,
    /// First datagram from ServerHello to Finished of the server.
    ServerHello,
    /// The rest of these messages.
    ServerFinished,
    /// Certificate to Finished of the client.
    ClientFinished,
    /// Acknowledges records (RFC 9147, section 7).
    Acknowledgement {
        /// Number of records.
        records: u8,
        /// Whether the client's last flight is among them, which ends the handshake.
        last: bool,
    },
}

impl Dtls13 {
    /// All datagrams of a handshake without loss, in order.
    pub const ALL: [Dtls13; 6] = [
        Dtls13::ClientHello,
        Dtls13::ClientHelloEnd,
        Dtls13::ServerHello,
        Dtls13::ServerFinished,
        Dtls13::ClientFinished,
        Dtls13::Acknowledgement { records: 1, last: true },
    ];

    /// UDP payload, in bytes.
    pub(super) fn udp_bytes(self) -> u64 {
        match self {
            Dtls13::ClientHello => 1_200,
            Dtls13::ClientHelloEnd => 263,
            Dtls13::ServerHello => 1_199,
            Dtls13::ServerFinished => 518,
            Dtls13::ClientFinished => 455,
            // 16 B for each record.
            Dtls13::Acknowledgement { records, .. } => 24 + 16 * u64::from(records),
        }
    }

    /// Whether its records are encrypted, with the short header of RFC 9147, section 4.
    fn is_encrypted(self) -> bool {
        matches!(
            self,
            Dtls13::ServerFinished | Dtls13::ClientFinished | Dtls13::Acknowledgement { .. }
        )
    }

    /// Its place in [`Dtls13::ALL`], and which records it acknowledges, if any.
    fn number(self) -> (u8, u8) {
        match self {
            Dtls13::ClientHello => (0, 0),
            Dtls13::ClientHelloEnd => (1, 0),
            Dtls13::ServerHello => (2, 0),
            Dtls13::ServerFinished => (3, 0),
            Dtls13::ClientFinished => (4, 0),
            Dtls13::Acknowledgement { records, last } => (5, records | if last { LAST } else { 0 }),
        }
    }

    /// Appends the header of the first record, whose sequence number is the place in [`Dtls13::ALL`].
    pub(super) fn write(self, out: &mut Vec<u8>) {
        const HANDSHAKE: u8 = 22;
        let (number, records) = self.number();
        if self.is_encrypted() {
            let [.., high, low] = (self.udp_bytes() - SHORT_HEADER_BYTES).to_be_bytes();
            out.extend_from_slice(&[SHORT_HEADER, records, number, high, low]);
            // Readers expect at least a full header and a byte, as in RFC 6347.
            out.extend_from_slice(&[0; 9]);
            return;
        }
        let [.., high, low] = (self.udp_bytes() - HEADER_BYTES).to_be_bytes();
        out.extend_from_slice(&[HANDSHAKE, 0xFE, 0xFD, 0, 0, 0, 0, 0, 0, MARK, number, high, low]);
        let message = if number < 2 { 1 } else { 2 };
        out.push(message);
    }

    /// Reads what [`Dtls13::write`] wrote.
    pub(super) fn read(bytes: &[u8]) -> Option<Dtls13> {
        let (number, records) = match bytes.first()? {
            &SHORT_HEADER => (*bytes.get(2)?, *bytes.get(1)?),
            _ if bytes.get(9) == Some(&MARK) => (*bytes.get(10)?, 0),
            _ => return None,
        };
        Some(match *Self::ALL.get(usize::from(number))? {
            Dtls13::Acknowledgement { .. } => {
                Dtls13::Acknowledgement { records: records & !LAST, last: records & LAST != 0 }
            }
            datagram => datagram,
        })
    }
}

/// Marks the acknowledgement that ends the handshake, in captures.
const LAST: u8 = 0x80;
/// Length of a full record header.
const HEADER_BYTES: u64 = 13;
/// RFC 9147, section 4: 001, no connection id, sequence number of 16 bits, length, epoch 2.
const SHORT_HEADER: u8 = 0b0010_1110;
/// Length of the short header with these fields.
const SHORT_HEADER_BYTES: u64 = 5;
/// Distinguishes these records from records of DTLS 1.2 in captures: upper half of the sequence number.
const MARK: u8 = 13;
