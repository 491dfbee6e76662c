//! All ends of all connections: who a datagram is for, and who passes it on.

use super::Peer;
use super::forwarder::{Forwarder, Forwarding, Request};
use super::wire::{Arrival, Socket, Wire};
use crate::timeouts::Timeouts;
use crate::units::Time;

/// One end of a connection.
pub enum End {
    /// Makes media, shows them, or gives feedback on them.
    Peer(Box<Peer>),
    /// Passes on what the end with this index receives, if any; see [`Ends::new`].
    Forwarder(Box<Forwarder>, Option<usize>),
}

/// All ends, by [`Socket`].
pub struct Ends {
    ends: Vec<End>,
    /// Those that pass on what each end receives.
    outputs: Vec<Vec<usize>>,
    timeouts: Timeouts,
}

impl Ends {
    /// The end at an index listens at the [`Socket`] of that number.
    pub fn new(ends: Vec<End>) -> Self {
        let mut outputs = vec![Vec::new(); ends.len()];
        for (index, end) in ends.iter().enumerate() {
            if let End::Forwarder(_, Some(source)) = end
                && let Some(outputs) = outputs.get_mut(*source)
            {
                outputs.push(index);
            }
        }
        let timeouts = Timeouts::new(ends.iter().map(End::poll_timeout));
        Ends { ends, outputs, timeouts }
    }

    /// When to call [`Ends::handle_timeout`]; `Time::MAX` for never.
    pub fn poll_timeout(&self) -> Time {
        self.timeouts.earliest().1
    }

    /// Does what is due first.
    pub fn handle_timeout(&mut self, now: Time, wire: &mut Wire) {
        let (index, _) = self.timeouts.earliest();
        match &mut self.ends[index] {
            End::Peer(peer) => peer.handle_timeout(now, wire),
            End::Forwarder(forwarder, _) => forwarder.handle_timeout(now, wire),
        }
        self.update_timeout(index);
    }

    /// A datagram arrived.
    pub fn handle_arrival(&mut self, arrival: Arrival, wire: &mut Wire) {
        let Socket(index) = arrival.socket;
        let index = usize::from(index);
        match &mut self.ends[index] {
            End::Peer(peer) => {
                peer.handle_datagram(arrival.at, &arrival.bytes, arrival.size, wire);
                if arrival.rtp.is_some() {
                    self.pass_down(index, &arrival, wire);
                }
            }
            End::Forwarder(forwarder, source) => {
                let source = *source;
                match (forwarder.handle_datagram(&arrival, wire), source) {
                    (Some(request), Some(source)) => {
                        self.pass_up(source, request, &arrival, wire);
                    }
                    (Some(Request::Pass), None) => self.pass_down(index, &arrival, wire),
                    (Some(Request::KeyFrame), None) | (None, _) => {}
                }
            }
        }
        self.update_timeout(index);
        wire.recycle(arrival.bytes);
    }

    /// Writes the statistics of the second that ends now.
    pub fn write_stats(&mut self, now: Time, wire: &mut Wire) {
        for end in &mut self.ends {
            if let End::Peer(peer) = end {
                peer.write_stats(now, wire);
            }
        }
    }

    fn pass_down(&mut self, source: usize, arrival: &Arrival, wire: &mut Wire) {
        for &output in &self.outputs[source] {
            if let End::Forwarder(forwarder, _) = &mut self.ends[output] {
                forwarder.forward(arrival, wire);
            }
        }
    }

    fn pass_up(&mut self, source: usize, request: Request, arrival: &Arrival, wire: &mut Wire) {
        match &mut self.ends[source] {
            End::Peer(peer) => {
                if request == Request::KeyFrame {
                    peer.request_key_frame(arrival.at, wire);
                }
            }
            End::Forwarder(forwarder, _) => {
                if forwarder.forwarding() == Forwarding::Switching {
                    forwarder.forward(arrival, wire);
                }
            }
        }
    }

    fn update_timeout(&mut self, index: usize) {
        self.timeouts.set(index, self.ends[index].poll_timeout());
    }
}

impl End {
    fn poll_timeout(&self) -> Option<Time> {
        match self {
            End::Peer(peer) => peer.poll_timeout(),
            End::Forwarder(forwarder, _) => forwarder.poll_timeout(),
        }
    }
}
