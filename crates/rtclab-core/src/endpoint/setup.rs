//! From "call" to "media may flow": signalling, connectivity checks, DTLS; and consent afterwards.
//!
//! The messages have the sizes and the order of a call between two Chromiums with trickled host
//! candidates. STUN is real; descriptions and DTLS records are opaque bytes of the right length.

use super::turn::Allocation;
use super::wire::{Port, Socket, Wire};
use crate::network::NodeId;
use crate::rtp::Protocol;
use crate::rtp::stun::{Class, Message, write_binding_request, write_binding_success};
use crate::units::{Bytes, Time};
use std::net::{Ipv4Addr, SocketAddrV4};

/// A session description with candidates, in one WebSocket message over TCP.
const DESCRIPTION_BYTES: usize = 4_000;
/// Bytes of it per segment, and of IP and TCP headers.
const SEGMENT_BYTES: usize = 1_400;
const TCP_IP_BYTES: u64 = 52;
/// Repeats a description that was not answered; TCP's first timeout (RFC 6298).
const DESCRIPTION_TIMEOUT: Time = Time::from_secs(1);
/// libwebrtc, `p2p_constants.cc`: interval of checks while not connected …
const CHECK_INTERVAL: Time = Time::from_millis(50);
/// … and when connected and stable.
const CONSENT_INTERVAL: Time = Time::from_millis(2_500);
/// libwebrtc starts the DTLS timer here and doubles it.
const DTLS_TIMEOUT: Time = Time::from_millis(50);
/// Flights of DTLS 1.2 with certificates on both sides: ClientHello; ServerHello to
/// ServerHelloDone; Certificate to Finished; ChangeCipherSpec and Finished.
const FLIGHT_BYTES: [usize; 4] = [160, 680, 760, 120];
/// First byte of a handshake record.
const DTLS_HANDSHAKE: u8 = 22;
/// First byte of our stand-in for TCP; no UDP protocol of a call begins with it.
const SIGNALLING: u8 = 0xf0;

/// Steps of a call's set-up, as in table `events`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// Nothing yet.
    New,
    /// The descriptions are exchanged.
    Signalled,
    /// A check was answered.
    IceConnected,
    /// Both have finished the handshake, as far as this side knows.
    DtlsConnected,
}

impl Step {
    /// Name in table `events`.
    pub(super) const fn event(self) -> &'static str {
        match self {
            Step::New => "joined",
            Step::Signalled => "signalling_done",
            Step::IceConnected => "ice_connected",
            Step::DtlsConnected => "dtls_connected",
        }
    }
}

pub(super) struct Setup {
    port: Port,
    /// Where the other side's datagrams arrive here.
    socket: Socket,
    core: NodeId,
    /// What is left to arrange with a relay.
    allocation: Option<Allocation>,
    /// Sends the offer, and is the DTLS server (RFC 8842: the answerer chooses to be active).
    offerer: bool,
    pub(super) step: Step,
    segments: u8,
    next_description: Option<Time>,
    next_check: Option<Time>,
    pending_check: Option<(u32, Time)>,
    checks: u32,
    flight: usize,
    next_flight: Option<(Time, Time)>,
    /// Round trip of the last answered check.
    pub(super) check_rtt: Option<Time>,
}

impl Setup {
    pub(super) fn new(
        port: Port,
        socket: Socket,
        core: NodeId,
        offerer: bool,
        start: Time,
    ) -> Self {
        Setup {
            port,
            socket,
            core,
            allocation: port.relay.map(Allocation::new),
            offerer,
            step: Step::New,
            segments: 0,
            next_description: offerer.then_some(start),
            next_check: None,
            pending_check: None,
            checks: 0,
            flight: 0,
            next_flight: None,
            check_rtt: None,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        let allocation = self.allocation.as_ref().and_then(Allocation::poll_timeout);
        let flight = self.next_flight.map(|f| f.0);
        let timers = [self.next_description, self.next_check, flight, allocation];
        timers.into_iter().flatten().min()
    }

    pub(super) fn on_timeout(&mut self, now: Time, wire: &mut Wire) {
        if self.next_description.is_some_and(|at| at <= now) {
            self.send_description(now, wire);
        }
        if let Some(allocation) = &mut self.allocation {
            allocation.on_timeout(now, (self.port.from, self.socket), wire);
        }
        if self.next_check.is_some_and(|at| at <= now) {
            self.send_check(now, wire);
        }
        if let Some((at, timeout)) = self.next_flight
            && at <= now
        {
            self.send_flight(now, timeout * 2, wire);
        }
    }

    /// A segment of the other side's description, or a relay's answer.
    pub(super) fn on_signalling(&mut self, now: Time, bytes: &[u8], wire: &mut Wire) {
        let Some(&[first, index, count]) = bytes.first_chunk::<3>() else { return };
        if first != SIGNALLING {
            self.on_relay_answer(now, bytes, wire);
            return;
        }
        if index < 8 {
            self.segments |= 1 << index;
        }
        if self.segments.count_ones() < u32::from(count) || self.step > Step::New {
            // The offer came again: the answer was lost.
            if !self.offerer && self.step == Step::Signalled && index + 1 == count {
                self.send_description(now, wire);
            }
            return;
        }
        self.step = Step::Signalled;
        match &mut self.allocation {
            Some(allocation) => allocation.begin(now, (self.port.from, self.socket), wire),
            None => self.next_check = Some(now),
        }
        if self.offerer {
            self.next_description = None;
        } else {
            self.send_description(now, wire);
            self.next_description = None;
        }
    }

    pub(super) fn on_stun(&mut self, now: Time, bytes: &[u8], wire: &mut Wire) {
        let Ok(message) = Message::parse(bytes) else { return };
        match message.class {
            // RFC 8656, section 9: a relay lets nothing in from whom it has no permission for.
            Class::Request if self.allocation.is_some() => {}
            Class::Request => {
                let mut out = wire.buffer();
                let mapped = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 9);
                write_binding_success(&message.transaction_id, mapped, &mut out);
                let len = out.len();
                wire.send_setup(now, self.port, Protocol::Stun, out, len);
            }
            Class::Success => self.on_check_answered(now, &message, wire),
            Class::Indication | Class::Error => {}
        }
    }

    pub(super) fn on_dtls(&mut self, now: Time, bytes: &[u8], wire: &mut Wire) {
        let Some(flight) = bytes.get(1).map(|flight| usize::from(*flight)) else { return };
        if flight + 1 == FLIGHT_BYTES.len() {
            self.next_flight = None;
            self.step = Step::DtlsConnected;
        } else if flight + 1 >= self.flight {
            self.flight = flight + 1;
            self.send_flight(now, DTLS_TIMEOUT, wire);
            if self.flight + 1 == FLIGHT_BYTES.len() {
                // The last flight is not acknowledged; it is repeated when the third comes again.
                self.next_flight = None;
                self.step = Step::DtlsConnected;
            }
        }
    }

    fn on_relay_answer(&mut self, now: Time, bytes: &[u8], wire: &mut Wire) {
        let Some(allocation) = &mut self.allocation else { return };
        if allocation.on_answer(now, bytes, (self.port.from, self.socket), wire) {
            self.allocation = None;
            self.next_check = Some(now);
        }
    }

    fn on_check_answered(&mut self, now: Time, message: &Message<'_>, wire: &mut Wire) {
        let Some((check, sent)) = self.pending_check else { return };
        if message.transaction_id != transaction_id(check) {
            return;
        }
        self.pending_check = None;
        self.check_rtt = Some(now.saturating_sub(sent));
        if self.step < Step::IceConnected {
            self.step = Step::IceConnected;
            if !self.offerer {
                self.send_flight(now, DTLS_TIMEOUT, wire);
            }
        }
        self.next_check = Some(now + CONSENT_INTERVAL);
    }

    fn send_description(&mut self, now: Time, wire: &mut Wire) {
        let count = DESCRIPTION_BYTES.div_ceil(SEGMENT_BYTES);
        for index in 0..count {
            let mut bytes = wire.buffer();
            bytes.extend_from_slice(&[SIGNALLING, index as u8, count as u8]);
            let len = SEGMENT_BYTES.min(DESCRIPTION_BYTES - index * SEGMENT_BYTES);
            let size = Bytes(len as u64 + TCP_IP_BYTES);
            wire.send_signalling(now, self.port, self.core, bytes, size);
        }
        self.next_description = Some(now + DESCRIPTION_TIMEOUT);
    }

    fn send_check(&mut self, now: Time, wire: &mut Wire) {
        self.checks += 1;
        // While connecting, an earlier check may still be answered; its answer connects as well.
        if self.pending_check.is_none() || self.step >= Step::IceConnected {
            self.pending_check = Some((self.checks, now));
        }
        let id = self.pending_check.map_or(self.checks, |(check, _)| check);
        let mut bytes = wire.buffer();
        // Lengths as in Chromium: two fragments of four characters.
        if write_binding_request(&transaction_id(id), "abcd:efgh", Some(1), &mut bytes).is_ok() {
            let len = bytes.len();
            wire.send_setup(now, self.port, Protocol::Stun, bytes, len);
        }
        let interval =
            if self.step < Step::IceConnected { CHECK_INTERVAL } else { CONSENT_INTERVAL };
        self.next_check = Some(now + interval);
    }

    fn send_flight(&mut self, now: Time, timeout: Time, wire: &mut Wire) {
        let mut bytes = wire.buffer();
        bytes.extend_from_slice(&[DTLS_HANDSHAKE, self.flight as u8]);
        bytes.resize(20, 0);
        wire.send_setup(now, self.port, Protocol::Dtls, bytes, FLIGHT_BYTES[self.flight]);
        self.next_flight = Some((now + timeout, timeout));
    }
}

fn transaction_id(check: u32) -> [u8; 12] {
    let mut id = [0; 12];
    id[8..].copy_from_slice(&check.to_be_bytes());
    id
}
