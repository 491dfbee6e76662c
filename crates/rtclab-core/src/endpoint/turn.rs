//! What a client arranges with its TURN relay before media can pass it.

use super::wire::{Socket, Wire};
use crate::network::NodeId;
use crate::units::Time;

/// Requests and their answers, one after the other. RFC 8656: Allocate, refused for want of credentials
/// (section 7.2); Allocate with them; CreatePermission and ChannelBind together (sections 9 and 12).
const ROUND_TRIPS: u8 = 3;
/// UDP payload of an Allocate with credentials, for all of them and their answers: header 20, transport 8,
/// user name, realm and nonce some 60, integrity 24, fingerprint 8.
const MESSAGE_BYTES: usize = 120;
/// RFC 8489, section 6.2.1: first timeout of a request, doubled each time.
const REQUEST_TIMEOUT: Time = Time::from_millis(500);
/// First byte of our stand-in for these messages; no UDP protocol of a call begins with it.
const RELAY_REQUEST: u8 = 0xf1;

/// The exchanges with one relay, abbreviated: each message comes back as its own answer.
pub(super) struct Allocation {
    relay: NodeId,
    answered: u8,
    /// When to repeat the request, and after how long that is.
    repeat: Option<(Time, Time)>,
}

impl Allocation {
    pub(super) fn new(relay: NodeId) -> Self {
        Allocation { relay, answered: 0, repeat: None }
    }

    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.repeat.map(|(at, _)| at)
    }

    pub(super) fn begin(&mut self, now: Time, local: (NodeId, Socket), wire: &mut Wire) {
        self.request(now, REQUEST_TIMEOUT, local, wire);
    }

    pub(super) fn on_timeout(&mut self, now: Time, local: (NodeId, Socket), wire: &mut Wire) {
        if let Some((at, timeout)) = self.repeat
            && at <= now
        {
            self.request(now, timeout * 2, local, wire);
        }
    }

    /// An answer came; returns whether media may pass.
    pub(super) fn on_answer(
        &mut self,
        now: Time,
        bytes: &[u8],
        local: (NodeId, Socket),
        wire: &mut Wire,
    ) -> bool {
        if bytes.get(1) != Some(&self.answered) {
            return false;
        }
        self.answered += 1;
        if self.answered < ROUND_TRIPS {
            self.request(now, REQUEST_TIMEOUT, local, wire);
        }
        self.answered == ROUND_TRIPS
    }

    fn request(&mut self, now: Time, timeout: Time, local: (NodeId, Socket), wire: &mut Wire) {
        let mut bytes = wire.buffer();
        bytes.extend_from_slice(&[RELAY_REQUEST, self.answered, ROUND_TRIPS]);
        wire.send_relay_request(now, local, self.relay, bytes, MESSAGE_BYTES);
        self.repeat = Some((now + timeout, timeout));
    }
}
