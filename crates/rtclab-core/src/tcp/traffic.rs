//! The two ends of cross traffic: a transfer without end, or objects with pauses between them.
//!
//! Neither end knows the network. Both have the five methods of an endpoint.

use super::algorithm::Algorithm;
use super::receiver::TcpReceiver;
use super::sender::{SenderConfig, TcpSender};
use crate::ecn::Ecn;
use crate::limits::{self, Checked};
use crate::packet::{Address, Content, Datagram, Segment, SegmentKind, Transmit};
use crate::units::{Bytes, Time};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use serde::{Deserialize, Serialize};

/// Interval between statistics. They are reported at its multiples.
const STATISTICS_INTERVAL: Time = Time::from_secs(1);

/// Objects sent one after another, each over its own connection (RFC 8868, section 5, short TCP).
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectsConfig {
    /// Minimum size. Sizes are uniformly distributed.
    pub min_bytes: Bytes,
    /// Maximum size.
    pub max_bytes: Bytes,
    /// Mean of the exponentially distributed pauses between objects.
    pub mean_idle_ns: Time,
    /// Whether to begin with a pause.
    pub idle_first: bool,
}

impl ObjectsConfig {
    pub(crate) fn check(&self) -> Checked {
        let (min, max) = (self.min_bytes, self.max_bytes);
        let expected = format!("1 to max_bytes = {} B", max.0);
        let in_order = Bytes::ZERO < min && min <= max;
        limits::require(in_order, "min_bytes", format_args!("{} B", min.0), expected)?;
        limits::size("max_bytes", max)?;
        limits::time("mean_idle_ns", self.mean_idle_ns)
    }
}

/// What a client sends, and when.
#[derive(Clone, Copy, Debug)]
pub struct TcpClientConfig {
    /// Congestion control.
    pub congestion_control: Algorithm,
    /// Whether to use classic ECN, if [that is a choice](Algorithm::may_use_ecn).
    pub ecn: bool,
    /// When to begin.
    pub start: Time,
    /// When to stop sending new data.
    pub stop: Time,
    /// Objects to send. `None` is a transfer without end.
    pub objects: Option<ObjectsConfig>,
    /// Seed of sizes, pauses and congestion control.
    pub seed: u64,
}

/// Figures of one end. The figures of a connection are the sum over its two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpStatistics {
    /// Number of open connections.
    pub connections: u64,
    /// Sum of the congestion windows of open connections, in segments.
    pub window: u64,
    /// Smoothed round trips of open connections: the sum, and the number of connections that have one.
    pub smoothed_rtts: (Time, u64),
    /// Bytes delivered to the application, since the beginning.
    pub delivered: u64,
    /// Segments sent again, since the beginning.
    pub retransmitted: u64,
    /// Retransmission timeouts, since the beginning.
    pub timeouts: u64,
    /// Objects transferred, since the beginning.
    pub objects: u64,
}

impl TcpStatistics {
    /// The sum of the figures of two ends.
    #[must_use]
    pub fn plus(&self, other: &TcpStatistics) -> TcpStatistics {
        let ((sum, count), (other_sum, other_count)) = (self.smoothed_rtts, other.smoothed_rtts);
        TcpStatistics {
            connections: self.connections + other.connections,
            window: self.window + other.window,
            smoothed_rtts: (sum + other_sum, count + other_count),
            delivered: self.delivered + other.delivered,
            retransmitted: self.retransmitted + other.retransmitted,
            timeouts: self.timeouts + other.timeouts,
            objects: self.objects + other.objects,
        }
    }
}

/// An event that a TCP end reports to its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpEvent {
    /// The figures at the end of a second.
    Statistics(TcpStatistics),
}

/// When statistics are due, and whether they are waiting to be polled.
struct Reporting {
    next: Time,
    due: bool,
}

impl Reporting {
    fn new() -> Self {
        Reporting { next: STATISTICS_INTERVAL, due: false }
    }

    fn handle_timeout(&mut self, now: Time) {
        if self.next <= now {
            self.next += STATISTICS_INTERVAL;
            self.due = true;
        }
    }
}

/// The end that sends data, over one connection after another or over one without end.
pub struct TcpClient {
    config: TcpClientConfig,
    server: Address,
    /// Number and sender of the open connection.
    connection: Option<(u32, TcpSender)>,
    /// Number of connections opened so far.
    opened: u32,
    /// When the next connection begins if none is open.
    begin: Time,
    closed: bool,
    rng: Pcg64Mcg,
    /// Figures of the connections that have ended.
    past: TcpStatistics,
    reporting: Reporting,
}

impl TcpClient {
    /// Creates a client that sends to `server`.
    pub fn new(config: TcpClientConfig, server: Address) -> Self {
        let mut rng = Pcg64Mcg::seed_from_u64(config.seed);
        let idle = config.objects.filter(|objects| objects.idle_first);
        let pause = idle.map_or(Time::ZERO, |objects| exponential(&mut rng, objects.mean_idle_ns));
        TcpClient {
            server,
            connection: None,
            opened: 0,
            begin: config.start.saturating_add(pause),
            closed: false,
            rng,
            past: TcpStatistics::default(),
            reporting: Reporting::new(),
            config,
        }
    }

    /// When to call [`TcpClient::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let TcpClientConfig { stop, objects, .. } = self.config;
        let due = match &self.connection {
            None => (self.begin < stop).then_some(self.begin),
            Some((_, sender)) => {
                let stop = (!self.closed && objects.is_none()).then_some(stop);
                [sender.poll_timeout(), stop].into_iter().flatten().min()
            }
        };
        Some(due.map_or(self.reporting.next, |due| due.min(self.reporting.next)))
    }

    /// Acts on what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        self.reporting.handle_timeout(now);
        let TcpClientConfig { stop, objects, .. } = self.config;
        if self.connection.is_none() && self.begin <= now && self.begin < stop {
            self.open();
        }
        let Some((_, sender)) = &mut self.connection else { return };
        if now >= stop && objects.is_none() && !self.closed {
            self.closed = true;
            sender.close();
        }
        sender.handle_timeout(now);
    }

    /// Handles a segment from the server.
    pub fn handle_datagram(&mut self, now: Time, _from: Address, datagram: &Datagram) {
        let Content::Tcp(segment) = &datagram.content else { return };
        let current = self.connection.as_mut().filter(|(id, _)| *id == segment.connection);
        let Some((_, sender)) = current else { return };
        sender.handle_segment(now, segment);
        if sender.is_finished() {
            self.past = self.statistics();
            self.connection = None;
            self.begin = Time::MAX;
            if let Some(objects) = self.config.objects {
                self.past.objects += 1;
                let pause = exponential(&mut self.rng, objects.mean_idle_ns);
                self.begin = now.saturating_add(pause);
            }
        }
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        let (_, sender) = self.connection.as_mut()?;
        sender.poll(now).map(|segment| transmit(now, self.server, segment))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<TcpEvent> {
        std::mem::take(&mut self.reporting.due).then(|| TcpEvent::Statistics(self.statistics()))
    }

    fn open(&mut self) {
        let size = self.config.objects.map(|objects| {
            let (min, max) = (objects.min_bytes.0, objects.max_bytes.0);
            Bytes(self.rng.random_range(min..=max.max(min)))
        });
        // Numbers wrap after 2^32 objects.
        let id = self.opened;
        self.opened = id.wrapping_add(1);
        let sender = TcpSender::new(SenderConfig {
            connection: id,
            congestion_control: self.config.congestion_control,
            ecn: self.config.ecn,
            size,
            seed: self.rng.random(),
        });
        self.connection = Some((id, sender));
    }

    fn statistics(&self) -> TcpStatistics {
        let past = TcpStatistics {
            connections: 0,
            window: 0,
            smoothed_rtts: (Time::ZERO, 0),
            ..self.past
        };
        let Some((_, sender)) = &self.connection else { return past };
        let rtt = sender.smoothed_rtt();
        TcpStatistics {
            connections: 1,
            window: u64::from(sender.window().segments),
            smoothed_rtts: (rtt.unwrap_or(Time::ZERO), u64::from(rtt.is_some())),
            retransmitted: past.retransmitted + sender.retransmissions(),
            timeouts: past.timeouts + sender.timeouts(),
            ..past
        }
    }
}

/// The end that receives data, on the newest connection opened to it.
pub struct TcpServer {
    client: Address,
    connection: Option<(u32, TcpReceiver)>,
    /// Bytes delivered by connections that have ended.
    delivered_before: u64,
    reporting: Reporting,
}

impl TcpServer {
    /// Creates a server for `client`.
    pub fn new(client: Address) -> Self {
        TcpServer { client, connection: None, delivered_before: 0, reporting: Reporting::new() }
    }

    /// When to call [`TcpServer::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.reporting.next;
        let receiver = self.connection.as_ref().and_then(|(_, receiver)| receiver.poll_timeout());
        Some(receiver.map_or(next, |at| at.min(next)))
    }

    /// Acts on what is due, except for delayed acknowledgements, which wait to be polled.
    pub fn handle_timeout(&mut self, now: Time) {
        self.reporting.handle_timeout(now);
    }

    /// Handles a segment from the client.
    pub fn handle_datagram(&mut self, now: Time, _from: Address, datagram: &Datagram) {
        let Content::Tcp(segment) = &datagram.content else { return };
        let id = segment.connection;
        if segment.kind == SegmentKind::Syn && self.is_new(id) {
            self.delivered_before = self.delivered();
            self.connection = Some((id, TcpReceiver::new(id)));
        }
        let current = self.connection.as_mut().filter(|(current, _)| *current == id);
        if let Some((_, receiver)) = current {
            receiver.handle_segment(now, segment, datagram.ecn);
        }
    }

    /// The next segment to send.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        let (_, receiver) = self.connection.as_mut()?;
        receiver.poll(now).map(|segment| transmit(now, self.client, segment))
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<TcpEvent> {
        let delivered = self.delivered();
        let statistics = TcpStatistics { delivered, ..TcpStatistics::default() };
        std::mem::take(&mut self.reporting.due).then_some(TcpEvent::Statistics(statistics))
    }

    /// Whether a connection is newer than the current one. The SYN of an older one may arrive late.
    fn is_new(&self, id: u32) -> bool {
        self.connection.as_ref().is_none_or(|(now, _)| id.wrapping_sub(*now) as i32 > 0)
    }

    fn delivered(&self) -> u64 {
        let now = self.connection.as_ref().map_or(0, |(_, receiver)| receiver.delivered().0);
        self.delivered_before + now
    }
}

fn transmit(now: Time, to: Address, (segment, ecn): (Segment, Ecn)) -> Transmit {
    let mut transmit = Transmit::direct(now, to, Content::Tcp(segment));
    transmit.datagram.ecn = ecn;
    transmit
}

fn exponential(rng: &mut Pcg64Mcg, mean: Time) -> Time {
    let uniform: f64 = rng.random();
    Time::from_secs_f64(-mean.as_secs_f64() * libm::log(1.0 - uniform))
}
