//! The rooms of a server that mixes: which pictures it has decoded, and for whom it composes them.

use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

/// A picture that an end at a server that mixes has decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The port of the end.
    pub end: u32,
    /// How many pictures this end had decoded before.
    pub number: u64,
}

/// The server's end of one connection.
struct Seat {
    room: usize,
    /// Number of the next picture.
    next: u64,
    /// Pictures from the far end, with the times at which they are decoded. The first one is shown, once decoded, until
    /// the second one is decoded too.
    pictures: VecDeque<(Time, u64)>,
}

/// The rooms of a server. Everybody in a room is shown everybody else in it. Ends are named by their index.
#[derive(Default)]
pub(super) struct Rooms {
    seats: BTreeMap<usize, Seat>,
}

impl Rooms {
    pub(super) fn is_empty(&self) -> bool {
        self.seats.is_empty()
    }

    /// Puts an end into a room.
    pub(super) fn enter(&mut self, end: usize, room: usize) {
        self.seats.insert(end, Seat { room, next: 0, pictures: VecDeque::new() });
    }

    /// Takes the next picture that the far end of `end` has sent, which arrived at `now` and is decoded at `ready`.
    /// Returns the ends that have a picture to send from then on and had none before.
    pub(super) fn decode(&mut self, end: usize, now: Time, ready: Time) -> Vec<usize> {
        let Some(seat) = self.seats.get_mut(&end) else { return Vec::new() };
        seat.latest(now);
        seat.pictures.push_back((ready, seat.next));
        seat.next += 1;
        match seat.pictures.len() {
            1 => self.others(end).filter(|one| self.sources(*one).count() == 1).collect(),
            _ => Vec::new(),
        }
    }

    /// The pictures in what is composed now for the far end of `end`: their ends, and their numbers there.
    pub(super) fn compose(&mut self, end: usize, now: Time) -> impl Iterator<Item = (usize, u64)> {
        let room = self.seats.get(&end).map(|seat| seat.room);
        let others = self
            .seats
            .iter_mut()
            .filter(move |(other, seat)| **other != end && Some(seat.room) == room);
        others.filter_map(move |(other, seat)| Some((*other, seat.latest(now)?)))
    }

    /// Forgets what the far end of `end` has sent. Returns the ends that have nothing to send any more.
    pub(super) fn leave(&mut self, end: usize) -> Vec<usize> {
        let Some(seat) = self.seats.get_mut(&end) else { return Vec::new() };
        seat.pictures.clear();
        self.others(end).filter(|one| self.sources(*one).count() == 0).collect()
    }

    /// The other ends in the same room.
    fn others(&self, end: usize) -> impl Iterator<Item = usize> {
        let room = self.seats.get(&end).map(|seat| seat.room);
        let seats = self.seats.iter();
        seats
            .filter(move |(other, seat)| **other != end && Some(seat.room) == room)
            .map(|(i, _)| *i)
    }

    /// The other ends in the same room that have pictures.
    fn sources(&self, end: usize) -> impl Iterator<Item = usize> {
        self.others(end).filter(|other| !self.seats[other].pictures.is_empty())
    }
}

impl Seat {
    /// The latest picture that is decoded.
    fn latest(&mut self, now: Time) -> Option<u64> {
        while self.pictures.get(1).is_some_and(|(ready, _)| *ready <= now) {
            self.pictures.pop_front();
        }
        self.pictures.front().filter(|(ready, _)| *ready <= now).map(|(_, picture)| *picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Ends 1, 3 and 5 in one room, and 7 in another at the same server.
    fn rooms() -> Rooms {
        let mut rooms = Rooms::default();
        for (end, room) in [(1, 0), (3, 0), (5, 0), (7, 1)] {
            rooms.enter(end, room);
        }
        rooms
    }

    fn composed(rooms: &mut Rooms, end: usize, at: Time) -> Vec<(usize, u64)> {
        rooms.compose(end, at).collect()
    }

    #[test]
    fn each_is_shown_the_latest_decoded_pictures_of_the_others() {
        let mut rooms = rooms();
        for (end, at, ready) in [(1, 10, 40), (3, 20, 45), (5, 99, 100), (1, 50, 70)] {
            rooms.decode(end, ms(at), ms(ready));
        }
        assert_eq!(composed(&mut rooms, 5, ms(39)), []);
        assert_eq!(composed(&mut rooms, 5, ms(40)), [(1, 0)]);
        assert_eq!(composed(&mut rooms, 5, ms(69)), [(1, 0), (3, 0)]);
        assert_eq!(composed(&mut rooms, 5, ms(70)), [(1, 1), (3, 0)]);
        assert_eq!(composed(&mut rooms, 1, ms(99)), [(3, 0)]);
        assert_eq!(composed(&mut rooms, 7, ms(99)), []);
    }

    #[test]
    fn pictures_begin_with_the_first_of_somebody_else_and_end_when_all_others_have_left() {
        let mut rooms = rooms();
        assert_eq!(rooms.decode(1, ms(10), ms(40)), [3, 5]);
        assert!(rooms.decode(1, ms(10), ms(70)).is_empty());
        assert_eq!(rooms.decode(3, ms(10), ms(75)), [1]);
        assert_eq!(rooms.leave(1), [3]);
        assert_eq!(rooms.leave(3), [1, 5]);
        assert!(rooms.leave(7).is_empty());
        assert_eq!(rooms.decode(5, ms(10), ms(90)), [1, 3]);
    }
}
