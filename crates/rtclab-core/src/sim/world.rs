//! What is outside of the nodes: the network with the datagrams in it, and the record.

use super::PendingRequest;
use super::compositions::{Compositions, Picture};
use super::config::SimError;
use super::links::{FlightId, Links};
use crate::capture::{Capture, Passing};
use crate::endpoint::EndpointEvent;
use crate::network::{NodeId, PathId};
use crate::node::{Departing, NodeEvent};
use crate::packet::Address;
use crate::path::DropCause;
use crate::record::{FlowId, RecordSource, Recorder};
use crate::units::Time;

/// Number of an end of a connection in a run, and its port. The two ends of a connection have adjacent numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndId(pub(super) u32);

impl EndId {
    /// One end of the connection with this index: the side that offers, or the side that answers.
    pub(super) fn of(connection: usize, offers: bool) -> Self {
        EndId(2 * connection as u32 + u32::from(!offers))
    }

    /// The other end of the connection.
    pub(super) fn far(self) -> Self {
        EndId(self.0 ^ 1)
    }

    /// Index of the connection.
    pub(super) fn connection(self) -> usize {
        self.0 as usize / 2
    }

    /// Whether this is the end of the side that offers.
    pub(super) fn offers(self) -> bool {
        self.0 % 2 == 0
    }
}

/// What the record knows of an end.
pub(super) struct EndRecord {
    /// Its node.
    pub(super) node: NodeId,
    /// The flow that it sends.
    pub(super) flow: FlowId,
    /// The data flow that TCP statistics of either end belong to.
    pub(super) data_flow: FlowId,
    /// The participant or server that its events are recorded for; `None` if they are not recorded.
    pub(super) source: Option<RecordSource>,
    /// Name of the participant or server; empty if it is none.
    pub(super) participant: String,
    /// Congestion control, participant and flow, for errors.
    pub(super) control: String,
    /// Whose end it is, for errors: participant and flow, or a node.
    pub(super) owner: String,
}

/// The network and the record of a run.
pub(super) struct World {
    pub(super) links: Links,
    /// What is known of the ends, by their ports.
    pub(super) ends: Vec<EndRecord>,
    pub(super) compositions: Compositions,
    pub(super) recorder: Recorder,
    pub(super) capture: Option<Capture>,
    /// Requests for decisions that have not been answered.
    pub(super) requests: Vec<PendingRequest>,
    /// Why the run cannot go on.
    pub(super) failure: Option<SimError>,
}

impl World {
    /// A datagram has reached its destination.
    pub(super) fn delivered(&mut self, at: Time, id: FlightId) {
        if let Some(capture) = &mut self.capture {
            if let Some(flight) = self.links.flight(id) {
                capture.delivered(at, flight.passing());
            }
        }
    }

    /// A datagram has reached a server or relay, which may pass it on.
    pub(super) fn passed(&mut self, at: Time, node: NodeId, id: FlightId) {
        if let Some(capture) = &mut self.capture {
            if let Some(flight) = self.links.flight(id) {
                capture.passed(at, node, flight.passing());
            }
        }
    }

    pub(super) fn dropped(&mut self, at: Time, id: FlightId, path: PathId, cause: DropCause) {
        if let Some(record) = self.links.flight(id).and_then(|flight| flight.record) {
            self.recorder.dropped(at, record, path, cause);
        }
        self.links.end(id);
    }

    /// Passes a datagram on from a server or relay.
    pub(super) fn pass(&mut self, now: Time, node: NodeId, id: FlightId) {
        if let Some(capture) = &mut self.capture {
            if let Some(flight) = self.links.flight(id) {
                capture.forwarded(now, node, flight.passing());
            }
        }
        self.links.pass(now, node, id);
    }

    /// Sends a datagram of a node into the network.
    pub(super) fn launch(&mut self, now: Time, departing: Departing) {
        let Departing { end, from, transmit, .. } = departing;
        let record = self.recorder.sent(self.ends[end as usize].flow, &transmit);
        if let Some(capture) = &mut self.capture {
            capture.sent(now, Passing::sent(from, &transmit));
        }
        self.links.launch(now, from, transmit, record);
    }

    /// Keeps a datagram that goes into a TCP connection with a relay; returns its sender and its number.
    pub(super) fn hold(&mut self, now: Time, departing: Departing) -> (Address, FlightId) {
        let Departing { end, from, transmit, .. } = departing;
        let record = self.recorder.sent(self.ends[end as usize].flow, &transmit);
        (from, self.links.hold(now, from, transmit, record))
    }

    /// Handles an event of a node, apart from [`NodeEvent::Carried`].
    pub(super) fn handle_event(&mut self, now: Time, event: NodeEvent) {
        match event {
            NodeEvent::Tcp(port, figures) => {
                self.recorder.tcp(now, self.ends[port as usize].data_flow, figures);
            }
            NodeEvent::Composed { end, at, of } => self.compositions.composed(end, at, &of),
            NodeEvent::Endpoint(port, event) => self.record(now, EndId(port), event),
            NodeEvent::Carried(..) => {}
        }
    }

    fn record(&mut self, now: Time, end: EndId, event: EndpointEvent) {
        let EndRecord { source, control, .. } = &self.ends[end.0 as usize];
        match (event, source) {
            (EndpointEvent::Failed(error), _) => {
                let what = control.clone();
                self.failure.get_or_insert(SimError::Control { at: now, what, error });
            }
            (EndpointEvent::FrameRendered { ssrc, frame }, Some(source)) => {
                let picture = self.compositions.shown(end.far().0, source.captured(&frame));
                let captured = picture.map(|Picture { captured, .. }| captured);
                self.recorder.frame(source, ssrc, &frame, captured);
                self.compositions.decoded(end.0, picture);
            }
            (EndpointEvent::DecisionRequested(request), _) => {
                let EndRecord { participant, flow, .. } = &self.ends[end.0 as usize];
                let (participant, flow) = (participant.clone(), self.recorder.flow_name(*flow));
                let flow = flow.to_owned();
                self.requests.push(PendingRequest { end: end.0, participant, flow, request });
            }
            (event, Some(source)) => self.recorder.event(now, source, event),
            (_, None) => {}
        }
    }
}
