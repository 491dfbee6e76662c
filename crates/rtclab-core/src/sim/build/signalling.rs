//! The pages of participants, and the signalling server.

use super::super::config::SimConfig;
use super::super::world::EndId;
use super::{EndRecord, Ends, PACE_STREAM, PAGE_STREAM, Wire, calls};
use crate::endpoint::Session;
use crate::network::{NodeId, derive_seed};
use crate::node::End;
use crate::packet::Address;
use crate::record::FlowId;
use crate::signalling::{
    SignallingClient, SignallingClientConfig, SignallingServer, SignallingServerConfig,
};
use crate::units::Time;

/// Adds a page for each node whose ends of calls meet over signalling, and the server.
pub(super) fn add(config: &SimConfig, core: NodeId, meets: &[(EndId, Session)], ends: &mut Ends) {
    if meets.is_empty() {
        return;
    }
    let node_of = |ends: &Ends, end: EndId| ends.records[end.0 as usize].node;
    let mut nodes: Vec<NodeId> = Vec::new();
    for &(end, _) in meets {
        let node = node_of(ends, end);
        if node != core && !nodes.contains(&node) {
            nodes.push(node);
        }
    }
    let first = ends.next_port();
    let page_at = |node: NodeId| nodes.iter().position(|other| *other == node);
    let meeting = meets.iter().map(|(end, _)| (*end, page_at(node_of(ends, *end))));
    let mut page_of = vec![None; first as usize];
    for (end, page) in meeting {
        page_of[end.0 as usize] = page;
    }
    let port_of = |end: EndId| page_of[end.0 as usize].map(|page| first + page as u32);
    for &(end, session) in meets {
        ends.wire(end.0, Wire::Meet { page: port_of(end), far_page: port_of(end.far()) });
        if session.offerer && port_of(end).is_none() && port_of(end.far()).is_none() {
            ends.wire(end.0, Wire::Present);
        }
    }
    let server = Address { node: core, port: first + nodes.len() as u32 };
    for &node in &nodes {
        let sessions = meets.iter().filter(|(end, _)| node_of(ends, *end) == node);
        let sessions: Vec<Session> = sessions.map(|(_, session)| *session).collect();
        let page = SignallingClient::new(page(config, server, node, &sessions));
        ends.add(End::Page(Box::new(page)), record(config, node));
    }
    let pages = (first..).zip(&nodes).map(|(port, &node)| Address { node, port }).collect();
    let server = SignallingServer::new(SignallingServerConfig { pages, page_of });
    ends.add(End::Signalling(Box::new(server)), record(config, core));
}

/// What the record knows of an end of signalling, which belongs to no flow.
fn record(config: &SimConfig, node: NodeId) -> EndRecord {
    EndRecord::new(node, FlowId(0), config.network.nodes[node.0 as usize].clone())
}

/// The page at a node. A participant comes to the server when it joins, a server when its first call begins.
fn page(
    config: &SimConfig,
    server: Address,
    node: NodeId,
    sessions: &[Session],
) -> SignallingClientConfig {
    let name = &config.network.nodes[node.0 as usize];
    let participant = config.participants.iter().find(|participant| participant.name == *name);
    let joins = participant.map(|own| own.join_ns + calls::joins_after(config, node));
    let first_call = sessions.iter().map(|session| session.start).min();
    SignallingClientConfig {
        server,
        open: joins.or(first_call).unwrap_or(Time::ZERO),
        close: sessions.iter().map(|session| session.end).max().unwrap_or(Time::ZERO),
        browser: participant.is_some(),
        seed: derive_seed(config.seed, PAGE_STREAM + u64::from(node.0)),
        pace: derive_seed(config.seed, PACE_STREAM),
    }
}
