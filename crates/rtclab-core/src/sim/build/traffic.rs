//! The ends of cross traffic.

use super::super::config::{SimConfig, SimError, TrafficConfig};
use super::{EndRecord, Ends, Flows, Names, TRAFFIC_STREAM};
use crate::network::{Network, NodeId, derive_seed};
use crate::node::End;
use crate::packet::Address;
use crate::record::{FlowConfig, FlowId};
use crate::tcp::{TcpClient, TcpClientConfig, TcpServer};
use crate::udp::{ConstantRate, UdpSink, UdpSource};
use crate::units::Time;

/// What the sending end of cross traffic does.
enum TrafficSender {
    Tcp(TcpClientConfig),
    /// Packets at this rate, from the first time on and before the second one.
    Udp(ConstantRate, [Time; 2]),
}

/// The ends of cross traffic. Their indices follow the indices of the calls.
pub(super) struct Traffic {
    senders: Vec<(TrafficSender, [Address; 2], [FlowId; 2])>,
}

impl Traffic {
    pub(super) fn new(
        config: &SimConfig,
        network: &Network<u32>,
        names: &Names<'_>,
        flows: &mut Flows,
        first_port: u32,
    ) -> Result<Self, SimError> {
        let seed = derive_seed(config.seed, TRAFFIC_STREAM);
        let mut senders = Vec::new();
        for traffic in &config.traffic {
            let [from, to] = [names.get(&traffic.sender)?, names.get(&traffic.receiver)?];
            if traffic.udp.is_none() {
                check_takes_time(traffic, network, [from, to])?;
            }
            let mut flow_ids = |flow: &String| {
                let data = flows.get(flow.clone(), traffic.stop_ns);
                // Nothing acknowledges UDP: its receiver sends no flow.
                let acks = match traffic.udp {
                    Some(_) => data,
                    None => flows.get(format!("{flow} acks"), traffic.stop_ns),
                };
                [data, acks]
            };
            let ids: Vec<[FlowId; 2]> = traffic.flows.iter().map(&mut flow_ids).collect();
            let of_connections = ids.iter().cycle().take(traffic.connections as usize);
            for (number, &of_flow) in of_connections.enumerate() {
                let port = first_port + 2 * senders.len() as u32;
                let sender = match traffic.udp {
                    Some(rate) => udp_sender(traffic, rate, number as u64),
                    None => TrafficSender::Tcp(TcpClientConfig {
                        congestion_control: traffic.congestion_control,
                        ecn: traffic.ecn,
                        start: traffic.start_ns,
                        stop: traffic.stop_ns,
                        objects: traffic.objects,
                        seed: derive_seed(seed, senders.len() as u64),
                    }),
                };
                let ends = [Address { node: from, port }, Address { node: to, port: port + 1 }];
                senders.push((sender, ends, of_flow));
            }
        }
        Ok(Traffic { senders })
    }

    /// Adds all ends.
    pub(super) fn add_to(self, ends: &mut Ends, flows: &[FlowConfig]) {
        for (sender, [from, to], [data, acks]) in self.senders {
            let pair = match sender {
                TrafficSender::Tcp(config) => [
                    End::Client(Box::new(TcpClient::new(config, to))),
                    End::Server(Box::new(TcpServer::new(from))),
                ],
                TrafficSender::Udp(rate, [first, stop]) => [
                    End::Source(Box::new(UdpSource::new(rate, first, stop, to))),
                    End::Sink(UdpSink),
                ],
            };
            for (end, (node, flow)) in pair.into_iter().zip([(from.node, data), (to.node, acks)]) {
                let owner = flows[flow.0 as usize].name.clone();
                ends.add(end, EndRecord { data_flow: data, ..EndRecord::new(node, flow, owner) });
            }
        }
    }
}

/// The sender of one of several connections over UDP. Their first packets are spread evenly over an interval,
/// so that all connections together send at equal intervals too.
fn udp_sender(traffic: &TrafficConfig, rate: ConstantRate, number: u64) -> TrafficSender {
    let interval = rate.after(1).unwrap_or(Time::ZERO);
    let offset = Time(interval.0 / u64::from(traffic.connections.max(1)) * number);
    TrafficSender::Udp(rate, [traffic.start_ns.saturating_add(offset), traffic.stop_ns])
}

/// Sending and acknowledging must take time, or virtual time would stand still.
fn check_takes_time(
    traffic: &TrafficConfig,
    network: &Network<u32>,
    [from, to]: [NodeId; 2],
) -> Result<(), SimError> {
    let mut routes = [(from, to), (to, from)].into_iter().filter_map(|(a, b)| network.route(a, b));
    if routes.all(|route| route.iter().all(|path| network.path_config(*path).is_instant())) {
        let TrafficConfig { sender, receiver, .. } = traffic;
        return Err(SimError::Instant(format!(
            "TCP from `{sender}` to `{receiver}` and back takes no time; expected a capacity or a delay on the way"
        )));
    }
    Ok(())
}
