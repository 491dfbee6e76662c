//! The serialiser: the time for which a packet occupies the link.

use crate::limits::{self, Checked};
use crate::units::{Bitrate, Bytes, Time};
use serde::{Deserialize, Serialize};

/// Rate of a link as a function of time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Capacity {
    /// A constant rate.
    Constant {
        /// Rate; at 0 the link stops.
        bps: Bitrate,
    },
    /// A piecewise constant rate. The first one also holds before its own step.
    Steps {
        /// `(from, rate)`, times strictly increasing.
        steps: Vec<(Time, Bitrate)>,
    },
    /// Delivery opportunities as recorded by Mahimahi. Each one carries up to `bytes` of the first packet
    /// and those behind it. An opportunity without packets is lost.
    Opportunities {
        /// Times of the opportunities in one period, non-decreasing and at most `period`.
        times: Vec<Time>,
        /// Time after which the list repeats.
        period: Time,
        /// Bytes per opportunity: 1500 for IP packets (Mahimahi's 1504 count its 4-byte TUN header).
        bytes: Bytes,
    },
}

impl Capacity {
    pub(super) fn check(&self) -> Checked {
        match self {
            Capacity::Constant { bps } => limits::rate("bps", *bps),
            Capacity::Steps { steps } => {
                limits::increasing("steps", steps.iter().map(|step| step.0))?;
                steps.iter().try_for_each(|step| limits::rate("steps", step.1))
            }
            Capacity::Opportunities { times, period, bytes } => {
                limits::duration("period", *period)?;
                limits::size("bytes", *bytes)?;
                limits::require(*bytes > Bytes::ZERO, "bytes", "0 B", "at least 1 B")?;
                let (first, last) = (times.first(), times.last());
                limits::require(first.is_some(), "times", "an empty list", "at least one time")?;
                limits::require(times.is_sorted(), "times", "a decreasing list", "times in order")?;
                let last = last.copied().unwrap_or_default();
                let expected = format!("at most the period of {} ns", period.0);
                limits::require(last <= *period, "times", format_args!("{} ns", last.0), expected)
            }
        }
    }

    /// Smallest rate that ever converts a queue limit in time to bytes.
    pub(super) fn least_rate(&self) -> Bitrate {
        match self {
            Capacity::Constant { bps } => *bps,
            Capacity::Steps { steps } => {
                steps.iter().map(|step| step.1).filter(|rate| rate.0 > 0).min().unwrap_or_default()
            }
            Capacity::Opportunities { times, period, bytes } => mean_rate(times, *period, *bytes),
        }
    }
}

/// Unit of work: bit/s times ns, so that rate times time needs no rounding.
const WORK_PER_BIT: u128 = 1_000_000_000;

/// State of the serialiser for the packet in service.
pub(super) struct Serialiser {
    capacity: Option<Capacity>,
    /// Packets leave at multiples of this time. `started` and `finish` stay exact, so that the next packet
    /// can use the rest of a tick.
    tick: Option<Time>,
    started: Time,
    size: Bytes,
    work: u128,
    finish: Time,
    opportunity: Opportunity,
}

/// Position in a Mahimahi trace: the next unused opportunity, and the rest of the one in use.
#[derive(Clone, Copy, Default)]
struct Opportunity {
    next: u64,
    at: Time,
    left: Bytes,
}

impl Serialiser {
    pub(super) fn new(capacity: Option<Capacity>, tick: Option<Time>) -> Self {
        Serialiser {
            capacity,
            tick,
            started: Time::ZERO,
            size: Bytes::ZERO,
            work: 0,
            finish: Time::ZERO,
            opportunity: Opportunity::default(),
        }
    }

    /// Starts to serialise a packet of `size` at `now`.
    pub(super) fn start(&mut self, now: Time, size: Bytes) {
        self.started = match self.tick {
            None => now,
            Some(tick) => self.start_in_tick(now, tick),
        };
        self.size = size;
        self.work = u128::from(size.bits()) * WORK_PER_BIT;
        self.finish = self.compute_finish();
    }

    /// When a packet of `size` is finished that starts at `start` on a plain path; [`Time::MAX`] if the link stops for good.
    #[inline]
    pub(super) fn finish_from(&self, start: Time, size: Bytes) -> Time {
        let work = u128::from(size.bits()) * WORK_PER_BIT;
        match &self.capacity {
            None => start,
            Some(Capacity::Constant { bps }) => finish_at(start, work, *bps),
            Some(Capacity::Steps { steps }) => finish_over_steps(steps, start, work),
            Some(Capacity::Opportunities { .. }) => Time::MAX,
        }
    }

    /// Time at which the packet in service is finished; [`Time::MAX`] if the link has stopped.
    pub(super) fn finish(&self) -> Time {
        self.tick.map_or(self.finish, |tick| self.finish.ceil_to(tick))
    }

    /// Changes the capacity from `now` on. The packet in service keeps the fraction already sent.
    pub(super) fn replace(&mut self, now: Time, capacity: Option<Capacity>, tick: Option<Time>) {
        self.work = self.work_left(now);
        self.size = Bytes((self.work / (8 * WORK_PER_BIT)) as u64);
        self.started = now;
        self.capacity = capacity;
        self.tick = tick;
        self.opportunity = Opportunity::default();
        self.finish = self.compute_finish();
    }

    /// Rate at `now`; 0 for a link without a capacity, whose packets take no time.
    pub(super) fn rate(&self, now: Time) -> Bitrate {
        match &self.capacity {
            None => Bitrate::ZERO,
            Some(Capacity::Constant { bps }) => *bps,
            Some(Capacity::Steps { steps }) => rate_of_step(steps, step_index(steps, now)),
            Some(Capacity::Opportunities { times, period, bytes }) => {
                mean_rate(times, *period, *bytes)
            }
        }
    }

    /// Rate that converts a queue limit in time to bytes: the current one, or the last positive one while
    /// the link is stopped, because an outage does not shrink the buffer.
    pub(super) fn rate_for_queue(&self, now: Time) -> Bitrate {
        let Some(Capacity::Steps { steps }) = &self.capacity else { return self.rate(now) };
        let index = step_index(steps, now);
        steps[..=index].iter().rev().chain(steps).map(|s| s.1).find(|r| r.0 > 0).unwrap_or_default()
    }

    /// Start of service in a box with ticks. As in dummynet (`ip_dn_io.c`), credit accrues in whole ticks
    /// from the tick of the arrival on, and the rest of it lasts until the tick ends.
    fn start_in_tick(&self, now: Time, tick: Time) -> Time {
        let begun = now.floor_to(tick);
        let last = self.finish;
        if last <= now && last.ceil_to(tick) >= begun { last } else { begun }
    }

    fn compute_finish(&mut self) -> Time {
        match &self.capacity {
            None => self.started,
            Some(Capacity::Constant { bps }) => finish_at(self.started, self.work, *bps),
            Some(Capacity::Steps { steps }) => finish_over_steps(steps, self.started, self.work),
            Some(Capacity::Opportunities { times, period, bytes }) => {
                self.opportunity.take(times, *period, *bytes, self.started, self.size)
            }
        }
    }

    fn work_left(&self, now: Time) -> u128 {
        let elapsed = |from: Time, to: Time, rate: Bitrate| {
            u128::from(rate.0) * u128::from(to.saturating_sub(from).0)
        };
        let done = match &self.capacity {
            None => self.work,
            Some(Capacity::Constant { bps }) => elapsed(self.started, now, *bps),
            Some(Capacity::Steps { steps }) => {
                let mut done = 0;
                let mut at = self.started;
                let mut index = step_index(steps, at);
                while at < now {
                    let end = steps.get(index + 1).map_or(now, |s| s.0.min(now));
                    done += elapsed(at, end, rate_of_step(steps, index));
                    at = end;
                    index += 1;
                }
                done
            }
            // Nothing flows between opportunities, so no fraction has been sent.
            Some(Capacity::Opportunities { .. }) => 0,
        };
        self.work.saturating_sub(done)
    }
}

impl Opportunity {
    /// Uses opportunities from `start` on until `size` bytes have left, and returns that time.
    fn take(
        &mut self,
        times: &[Time],
        period: Time,
        bytes: Bytes,
        start: Time,
        size: Bytes,
    ) -> Time {
        if times.is_empty() || period == Time::ZERO || bytes == Bytes::ZERO {
            return Time::MAX;
        }
        let time_of = |n: u64| {
            let count = times.len() as u64;
            times[(n % count) as usize] + period * (n / count)
        };
        let mut need = size.0;
        if self.at == start {
            let used = need.min(self.left.0);
            self.left.0 -= used;
            need -= used;
            if need == 0 {
                return start;
            }
        }
        while time_of(self.next) < start {
            let behind = (start.0 - time_of(self.next).0) / period.0;
            self.next += (behind * times.len() as u64).max(1);
        }
        loop {
            self.at = time_of(self.next);
            self.next += 1;
            let used = need.min(bytes.0);
            self.left = Bytes(bytes.0 - used);
            need -= used;
            if need == 0 {
                return self.at;
            }
        }
    }
}

fn step_index(steps: &[(Time, Bitrate)], now: Time) -> usize {
    steps.partition_point(|(from, _)| *from <= now).saturating_sub(1)
}

fn rate_of_step(steps: &[(Time, Bitrate)], index: usize) -> Bitrate {
    steps.get(index).map_or(Bitrate::ZERO, |s| s.1)
}

fn mean_rate(times: &[Time], period: Time, bytes: Bytes) -> Bitrate {
    let bits = u128::from(bytes.bits()) * times.len() as u128 * WORK_PER_BIT;
    Bitrate((bits / u128::from(period.0.max(1))) as u64)
}

fn finish_at(start: Time, work: u128, rate: Bitrate) -> Time {
    if rate == Bitrate::ZERO {
        return Time::MAX;
    }
    let nanos = match u64::try_from(work) {
        Ok(work) => work.div_ceil(rate.0),
        Err(_) => work.div_ceil(u128::from(rate.0)).min(u128::from(u64::MAX)) as u64,
    };
    start.saturating_add(Time(nanos))
}

fn finish_over_steps(steps: &[(Time, Bitrate)], start: Time, mut work: u128) -> Time {
    let mut at = start;
    let mut index = step_index(steps, at);
    loop {
        let rate = rate_of_step(steps, index);
        let finish = finish_at(at, work, rate);
        match steps.get(index + 1) {
            Some((end, _)) if finish > *end => {
                work -= u128::from(rate.0) * u128::from((*end - at).0);
                at = *end;
                index += 1;
            }
            _ => return finish,
        }
    }
}
