//! Packets whose exit from one path is foreseen, and that enter the next path then.

use super::Hop;
use crate::path::OnWire;
use crate::units::{Bytes, Time};
use std::collections::VecDeque;

/// A point in the order of all exits: by time, at one moment by the index of the path, and from one path by the number
/// of the packet. Drops on a path come before its exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) at: Time,
    /// Index of the path.
    path: u32,
    /// Number of a packet that leaves the path; 0 before all of them.
    number: u64,
}

impl Position {
    pub(super) const BEGINNING: Position = Position::before(Time::ZERO, 0);

    /// After all exits before `at`, and those at `at` from paths with a lower index.
    pub(super) const fn before(at: Time, path: u32) -> Self {
        Position { at, path, number: 0 }
    }

    /// At the exit of the packet with this number from `path`.
    pub(super) const fn exit(at: Time, path: u32, number: u64) -> Self {
        Position { at, path, number }
    }

    /// After all exits at `at`.
    pub(super) const fn end_of(at: Time) -> Self {
        Position { at, path: u32::MAX, number: u64::MAX }
    }

    /// The highest number of a packet that exits from `path` at `at` and not after this position. `at` is not later than
    /// the position.
    pub(super) fn last_exit(&self, at: Time, path: u32) -> u64 {
        if (self.at, self.path) == (at, path) { self.number } else { u64::MAX }
    }
}

/// A packet that enters a path when it exits from another one.
pub(super) struct Incoming<P> {
    /// Index of the path from which it exits.
    pub(super) from: u32,
    /// Which path of its route it enters.
    pub(super) hop: u32,
    /// The packet as it exits.
    pub(super) packet: OnWire<Hop<P>>,
}

impl<P> Incoming<P> {
    fn position(&self) -> Position {
        Position::exit(self.packet.at, self.from, self.packet.number)
    }
}

/// The packets that will enter one path, in the order of their exits.
pub(super) struct Ingress<P> {
    packets: VecDeque<Incoming<P>>,
    bytes: Bytes,
}

impl<P> Default for Ingress<P> {
    fn default() -> Self {
        Ingress { packets: VecDeque::new(), bytes: Bytes::ZERO }
    }
}

impl<P> Ingress<P> {
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    pub(super) fn bytes(&self) -> Bytes {
        self.bytes
    }

    pub(super) fn first(&self) -> Option<&Incoming<P>> {
        self.packets.front()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Incoming<P>> {
        self.packets.iter()
    }

    /// Adds a packet; returns whether it is the first to enter.
    #[inline]
    pub(super) fn insert(&mut self, incoming: Incoming<P>) -> bool {
        self.bytes += incoming.packet.packet.size;
        let position = incoming.position();
        if self.packets.back().is_none_or(|last| last.position() <= position) {
            self.packets.push_back(incoming);
            return self.packets.len() == 1;
        }
        let index = self.packets.partition_point(|other| other.position() <= position);
        self.packets.insert(index, incoming);
        index == 0
    }

    /// Removes the first packet, if it enters by `limit`.
    #[inline]
    pub(super) fn pop_by(&mut self, limit: Position) -> Option<Incoming<P>> {
        self.packets.front().filter(|first| first.position() <= limit)?;
        let first = self.packets.pop_front()?;
        self.bytes -= first.packet.packet.size;
        Some(first)
    }

    /// Removes the last packet.
    pub(super) fn pop_last(&mut self) -> Option<Incoming<P>> {
        let last = self.packets.pop_back()?;
        self.bytes -= last.packet.packet.size;
        Some(last)
    }
}
