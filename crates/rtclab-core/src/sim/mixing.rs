//! Servers that mix: the pictures that they have decoded, and for whom they compose them.

use crate::network::NodeId;
use crate::units::Time;
use std::collections::{BTreeMap, VecDeque};

/// Length of a tick of 90 kHz, rounded up. RTP timestamps of video, and so the times of pictures at a receiver, are
/// rounded down to ticks.
const TICK: Time = Time(11_112);

/// A picture of one camera, or one that is composed of the pictures of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Picture {
    /// When the cameras took what it shows: the mean over the cameras.
    pub(super) captured: Time,
    cameras: u32,
}

impl Picture {
    /// The picture of one camera.
    pub(super) fn of_camera(captured: Time) -> Self {
        Picture { captured, cameras: 1 }
    }

    /// The picture that shows all of these; `None` if there are none.
    fn of_all(pictures: impl Iterator<Item = Picture>) -> Option<Self> {
        let (mut sum, mut cameras) = (0, 0);
        for picture in pictures {
            sum += u128::from(picture.captured.0) * u128::from(picture.cameras);
            cameras += picture.cameras;
        }
        let captured = sum.checked_div(u128::from(cameras))?;
        Some(Picture { captured: Time(captured as u64), cameras })
    }
}

/// A conference at a server. Everybody in it is shown everybody else in it.
pub(super) type Room = (NodeId, usize);

/// The server's end of one connection.
struct Seat {
    room: Room,
    /// Pictures from the far end, with the times at which they are decoded. The first one is shown, once decoded, until
    /// the second one is decoded too.
    pictures: VecDeque<(Time, Picture)>,
    /// Pictures composed for the far end, with the times at which that was done. Older ones than the last that the far
    /// end has shown are forgotten.
    composed: VecDeque<(Time, Picture)>,
}

/// All servers that mix. Ends are named by their index in the driver.
#[derive(Default)]
pub(super) struct Mixer {
    seats: BTreeMap<usize, Seat>,
}

impl Mixer {
    /// Adds an end at a server.
    pub(super) fn add(&mut self, end: usize, room: Room) {
        let seat = Seat { room, pictures: VecDeque::new(), composed: VecDeque::new() };
        self.seats.insert(end, seat);
    }

    /// Takes a picture that the far end of `end` has sent, that arrived at `now` and is decoded at `ready`. Returns the
    /// ends that have a picture to send from then on and had none before.
    pub(super) fn decode(
        &mut self,
        end: usize,
        now: Time,
        ready: Time,
        picture: Picture,
    ) -> Vec<usize> {
        let Some(seat) = self.seats.get_mut(&end) else { return Vec::new() };
        seat.latest(now);
        seat.pictures.push_back((ready, picture));
        match seat.pictures.len() {
            1 => self.others(end).filter(|one| self.sources(*one).count() == 1).collect(),
            _ => Vec::new(),
        }
    }

    /// Composes a picture for the far end of `end`.
    pub(super) fn compose(&mut self, end: usize, now: Time) {
        let others: Vec<usize> = self.others(end).collect();
        let latest = |other| self.seats.get_mut(&other).and_then(|seat| seat.latest(now));
        let picture = Picture::of_all(others.into_iter().filter_map(latest));
        if let (Some(seat), Some(picture)) = (self.seats.get_mut(&end), picture) {
            seat.composed.push_back((now, picture));
        }
    }

    /// What the far end of `end` shows that was taken at `captured`, to a tick; `None` if nothing is known of it.
    pub(super) fn shown(&mut self, end: usize, captured: Time) -> Option<Picture> {
        let Some(seat) = self.seats.get_mut(&end) else {
            return Some(Picture::of_camera(captured));
        };
        let is_by_then = |(at, _): &(Time, Picture)| *at < captured.saturating_add(TICK);
        while seat.composed.get(1).is_some_and(is_by_then) {
            seat.composed.pop_front();
        }
        seat.composed.front().filter(|composed| is_by_then(composed)).map(|(_, picture)| *picture)
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
    fn latest(&mut self, now: Time) -> Option<Picture> {
        while self.pictures.get(1).is_some_and(|(ready, _)| *ready <= now) {
            self.pictures.pop_front();
        }
        self.pictures.front().filter(|(ready, _)| *ready <= now).map(|(_, picture)| *picture)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: Room = (NodeId(3), 0);

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Ends 1, 3 and 5 in one room, and 7 in another at the same server.
    fn mixer() -> Mixer {
        let mut mixer = Mixer::default();
        for (end, room) in [(1, ROOM), (3, ROOM), (5, ROOM), (7, (NodeId(3), 1))] {
            mixer.add(end, room);
        }
        mixer
    }

    fn composed(mixer: &mut Mixer, end: usize, at: Time) -> Option<Time> {
        mixer.compose(end, at);
        mixer.shown(end, at).map(|picture| picture.captured)
    }

    #[test]
    fn each_is_shown_the_mean_of_the_latest_decoded_pictures_of_the_others() {
        let mut mixer = mixer();
        for (end, captured, ready) in [(1, 10, 40), (3, 20, 45), (5, 99, 100), (1, 50, 70)] {
            mixer.decode(end, ms(captured), ms(ready), Picture::of_camera(ms(captured)));
        }
        assert_eq!(composed(&mut mixer, 5, ms(39)), None);
        assert_eq!(composed(&mut mixer, 5, ms(40)), Some(ms(10)));
        assert_eq!(composed(&mut mixer, 5, ms(69)), Some(ms(15)));
        assert_eq!(composed(&mut mixer, 5, ms(70)), Some(ms(35)));
        assert_eq!(composed(&mut mixer, 1, ms(99)), Some(ms(20)));
        assert_eq!(composed(&mut mixer, 7, ms(99)), None);
    }

    /// A composition of two cameras and a picture of a third: (10 + 20 + 60) / 3.
    #[test]
    fn a_composition_counts_as_often_as_it_has_cameras() {
        let two = Picture::of_all([ms(10), ms(20)].map(Picture::of_camera).into_iter());
        let mut mixer = mixer();
        mixer.decode(1, ms(20), ms(50), two.expect("a picture"));
        mixer.decode(3, ms(60), ms(65), Picture::of_camera(ms(60)));
        assert_eq!(composed(&mut mixer, 5, ms(70)), Some(ms(30)));
    }

    #[test]
    fn pictures_begin_with_the_first_of_somebody_else_and_end_when_all_others_have_left() {
        let mut mixer = mixer();
        let picture = Picture::of_camera(ms(10));
        assert_eq!(mixer.decode(1, ms(10), ms(40), picture), [3, 5]);
        assert!(mixer.decode(1, ms(10), ms(70), picture).is_empty());
        assert_eq!(mixer.decode(3, ms(10), ms(75), picture), [1]);
        assert_eq!(mixer.leave(1), [3]);
        assert_eq!(mixer.leave(3), [1, 5]);
        assert!(mixer.leave(7).is_empty());
        assert_eq!(mixer.decode(5, ms(10), ms(90), picture), [1, 3]);
    }

    /// A receiver knows times of pictures to a tick of 90 kHz, rounded down. It need not show all pictures.
    #[test]
    fn a_picture_is_recognised_by_the_time_at_which_it_was_composed() {
        let mut mixer = mixer();
        for (captured, at) in [(10, 40), (50, 80), (90, 120)] {
            mixer.decode(1, ms(captured), ms(at), Picture::of_camera(ms(captured)));
            mixer.compose(3, ms(at));
        }
        for (at, captured) in [(ms(80) - Time(11_111), 50), (ms(80), 50), (ms(120), 90)] {
            assert_eq!(mixer.shown(3, at), Some(Picture::of_camera(ms(captured))), "{at}");
        }
        let of_camera = mixer.shown(2, ms(77));
        assert_eq!(of_camera, Some(Picture::of_camera(ms(77))));
    }
}
