//! What the pictures of servers that mix show: when the cameras took it.
//!
//! Only the record needs this. No node knows it.

use crate::node::Decoded;
use crate::units::Time;
use std::collections::{HashMap, VecDeque};

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

/// The pictures of one end at a server that mixes.
#[derive(Default)]
struct Pictures {
    /// Number of the first of `decoded`.
    first: u64,
    /// Pictures from the far end that may still be composed.
    decoded: VecDeque<Option<Picture>>,
    /// Pictures composed for the far end, with the times at which that was done. Older ones than the last that the far
    /// end has shown are forgotten.
    composed: VecDeque<(Time, Picture)>,
}

/// The pictures of all ends at servers that mix, by the port of the end.
#[derive(Default)]
pub(super) struct Compositions {
    ends: HashMap<u32, Pictures>,
}

impl Compositions {
    /// Adds an end at a server.
    pub(super) fn add(&mut self, end: u32) {
        self.ends.insert(end, Pictures::default());
    }

    /// Notes the next picture that an end has decoded; `None` if nothing is known of it.
    pub(super) fn decoded(&mut self, end: u32, picture: Option<Picture>) {
        if let Some(pictures) = self.ends.get_mut(&end) {
            pictures.decoded.push_back(picture);
        }
    }

    /// Notes that a picture was composed of these for the far end of `end`.
    pub(super) fn composed(&mut self, end: u32, at: Time, of: &[Decoded]) {
        let picture = Picture::of_all(of.iter().filter_map(|decoded| self.picture(*decoded)));
        if let (Some(pictures), Some(picture)) = (self.ends.get_mut(&end), picture) {
            pictures.composed.push_back((at, picture));
        }
    }

    /// What the far end of `end` shows that was taken at `captured`, to a tick; `None` if nothing is known of it.
    pub(super) fn shown(&mut self, end: u32, captured: Time) -> Option<Picture> {
        let Some(pictures) = self.ends.get_mut(&end) else {
            return Some(Picture::of_camera(captured));
        };
        let is_by_then = |(at, _): &(Time, Picture)| *at < captured.saturating_add(TICK);
        while pictures.composed.get(1).is_some_and(is_by_then) {
            pictures.composed.pop_front();
        }
        let composed = pictures.composed.front();
        composed.filter(|composed| is_by_then(composed)).map(|(_, picture)| *picture)
    }

    /// A picture that an end has decoded. Earlier ones are not composed any more, and are forgotten.
    fn picture(&mut self, Decoded { end, number }: Decoded) -> Option<Picture> {
        let pictures = self.ends.get_mut(&end)?;
        while pictures.first < number {
            pictures.decoded.pop_front()?;
            pictures.first += 1;
        }
        *pictures.decoded.front()?
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Ends 1, 3 and 5 with the pictures of their cameras taken at these times, in ms.
    fn compositions(pictures: &[(u32, u64)]) -> Compositions {
        let mut compositions = Compositions::default();
        [1, 3, 5].into_iter().for_each(|end| compositions.add(end));
        for (end, captured) in pictures {
            compositions.decoded(*end, Some(Picture::of_camera(ms(*captured))));
        }
        compositions
    }

    fn of<const N: usize>(pictures: [(u32, u64); N]) -> [Decoded; N] {
        pictures.map(|(end, number)| Decoded { end, number })
    }

    fn shown(compositions: &mut Compositions, end: u32, at: Time) -> Option<Time> {
        compositions.shown(end, at).map(|picture| picture.captured)
    }

    #[test]
    fn a_composition_shows_the_mean_of_its_pictures() {
        let mut compositions = compositions(&[(1, 10), (3, 20), (1, 50)]);
        compositions.composed(5, ms(40), &of([(1, 0)]));
        compositions.composed(5, ms(69), &of([(1, 0), (3, 0)]));
        compositions.composed(5, ms(70), &of([(1, 1), (3, 0)]));
        assert_eq!(shown(&mut compositions, 5, ms(39)), None);
        assert_eq!(shown(&mut compositions, 5, ms(40)), Some(ms(10)));
        assert_eq!(shown(&mut compositions, 5, ms(69)), Some(ms(15)));
        assert_eq!(shown(&mut compositions, 5, ms(70)), Some(ms(35)));
        assert_eq!(shown(&mut compositions, 1, ms(70)), None);
    }

    /// A composition of two cameras and a picture of a third: (10 + 20 + 60) / 3.
    #[test]
    fn a_composition_counts_as_often_as_it_has_cameras() {
        let two = Picture::of_all([ms(10), ms(20)].map(Picture::of_camera).into_iter());
        let mut compositions = compositions(&[(3, 60)]);
        compositions.decoded(1, two);
        compositions.composed(5, ms(70), &of([(1, 0), (3, 0)]));
        assert_eq!(shown(&mut compositions, 5, ms(70)), Some(ms(30)));
    }

    /// A receiver knows times of pictures to a tick of 90 kHz, rounded down. It need not show all pictures.
    #[test]
    fn a_picture_is_recognised_by_the_time_at_which_it_was_composed() {
        let mut compositions = compositions(&[(1, 10), (1, 50), (1, 90)]);
        for (number, at) in [(0, 40), (1, 80), (2, 120)] {
            compositions.composed(3, ms(at), &of([(1, number)]));
        }
        for (at, captured) in [(ms(80) - Time(11_111), 50), (ms(80), 50), (ms(120), 90)] {
            assert_eq!(shown(&mut compositions, 3, at), Some(ms(captured)), "{at}");
        }
        assert_eq!(shown(&mut compositions, 2, ms(77)), Some(ms(77)));
    }
}
