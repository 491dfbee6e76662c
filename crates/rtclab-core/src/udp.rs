//! Cross traffic over UDP: a source that sends at a constant rate, and a sink that answers nothing.
//!
//! Neither end knows the network. Both have the methods of an endpoint, except that they have no events.

use crate::limits::{self, Checked};
use crate::packet::{Address, Content, Datagram, IP_UDP_BYTES, Transmit};
use crate::units::{Bitrate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// How fast a source sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConstantRate {
    /// Rate of IP packets.
    pub rate_bps: Bitrate,
    /// IP total length of each packet. The smallest possible is the length of the headers.
    pub packet_bytes: Bytes,
}

/// Largest IP packet (RFC 791).
const LARGEST_PACKET: u64 = 65_535;

impl ConstantRate {
    pub(crate) fn check(&self) -> Checked {
        let (rate, size) = (self.rate_bps.0, self.packet_bytes.0);
        let fits = (IP_UDP_BYTES..=LARGEST_PACKET).contains(&size);
        let expected = format!("{IP_UDP_BYTES} to {LARGEST_PACKET} B");
        limits::require(fits, "packet_bytes", format_args!("{size} B"), expected)?;
        let expected = "at most a packet per nanosecond";
        let is_slow = rate / 1_000_000_000 <= self.packet_bytes.bits();
        limits::require(is_slow, "rate_bps", format_args!("{rate} bit/s"), expected)
    }

    /// Time between the first packet and packet `number`, counted from 0. It is rounded up to whole
    /// nanoseconds from the exact value, so the rate has no error that grows. `None` at a rate of 0.
    pub fn after(&self, number: u64) -> Option<Time> {
        self.rate_bps.time_for(Bytes(self.packet_bytes.0.saturating_mul(number)))
    }
}

/// The end that sends packets of one size at equal intervals.
pub struct UdpSource {
    rate: ConstantRate,
    first: Time,
    stop: Time,
    sink: Address,
    /// Number of packets sent so far.
    sent: u64,
}

impl UdpSource {
    /// Creates a source whose packets leave for `sink` from `first` on, all of them before `stop`.
    pub fn new(rate: ConstantRate, first: Time, stop: Time, sink: Address) -> Self {
        UdpSource { rate, first, stop, sink, sent: 0 }
    }

    /// When to call [`UdpSource::poll_transmit`].
    pub fn poll_timeout(&self) -> Option<Time> {
        let next = self.first.saturating_add(self.rate.after(self.sent)?);
        (next < self.stop).then_some(next)
    }

    /// Does nothing: packets that are due wait to be polled.
    pub fn handle_timeout(&mut self, _now: Time) {}

    /// Ignores a datagram: nobody answers a source.
    pub fn handle_datagram(&mut self, _now: Time, _from: Address, _datagram: &Datagram) {}

    /// The next packet that is due.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.poll_timeout().filter(|due| *due <= now)?;
        self.sent += 1;
        let payload = self.rate.packet_bytes.0.saturating_sub(IP_UDP_BYTES);
        Some(Transmit::direct(now, self.sink, Content::Udp(Bytes(payload))))
    }
}

/// The end that receives packets and sends nothing.
pub struct UdpSink;

impl UdpSink {
    /// Nothing is ever due.
    pub fn poll_timeout(&self) -> Option<Time> {
        None
    }

    /// Does nothing.
    pub fn handle_timeout(&mut self, _now: Time) {}

    /// Receives a packet. The driver records it.
    pub fn handle_datagram(&mut self, _now: Time, _from: Address, _datagram: &Datagram) {}

    /// There is never anything to send.
    pub fn poll_transmit(&mut self, _now: Time) -> Option<Transmit> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::NodeId;

    const SINK: Address = Address { node: NodeId(1), port: 1 };

    fn times(rate_bps: u64, packet_bytes: u64, first: Time, stop: Time) -> Vec<Time> {
        let rate = ConstantRate { rate_bps: Bitrate(rate_bps), packet_bytes: Bytes(packet_bytes) };
        let mut source = UdpSource::new(rate, first, stop, SINK);
        let mut times = Vec::new();
        while let Some(due) = source.poll_timeout() {
            let sent = source.poll_transmit(due).expect("a packet that is due");
            assert_eq!(sent.wire_size(), Bytes(packet_bytes));
            assert_eq!(source.poll_transmit(due), None, "one packet at a time");
            times.push(due);
        }
        times
    }

    #[test]
    fn a_megabit_of_1250_byte_packets_is_one_packet_per_10_ms() {
        let (first, stop) = (Time::from_secs(1), Time::from_millis(1_050));
        let expected = [1_000, 1_010, 1_020, 1_030, 1_040].map(Time::from_millis);
        assert_eq!(times(1_000_000, 1_250, first, stop), expected);
    }

    /// 9600 bits at 7 Mbit/s take 1 371 428.57 ns: 70 000 000 bits in 10 s are 7291.67 packets.
    #[test]
    fn intervals_that_are_no_whole_nanoseconds_do_not_change_the_rate() {
        let times = times(7_000_000, 1_200, Time::ZERO, Time::from_secs(10));
        assert_eq!(times.len(), 7_292);
        assert_eq!(times[7_000], Time(9_600_000_000));
    }

    #[test]
    fn a_rate_of_zero_sends_nothing() {
        assert_eq!(times(0, 1_200, Time::ZERO, Time::from_secs(1)), []);
    }
}
