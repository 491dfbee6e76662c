//! The resolutions that libwebrtc's adaptation makes of a camera's.
//!
//! A step down has at most 3/5 of the pixels, but not fewer than 320x180 allow. What fits is found among the
//! full size times 3/4 and 2/3 in turn, or times 2/3 first if width and height are multiples of 3. Sources: libwebrtc
//! f3ae3eb62e, `call/adaptation/video_stream_adapter.cc`, `media/base/video_adapter.cc` (`FindScale`).

/// Fewest pixels that a step may aim at.
const MIN_PIXELS: u32 = 320 * 180;

/// Where a stream is between its full and its smallest size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ladder {
    full: (u16, u16),
    step: usize,
}

impl Ladder {
    pub(super) fn new(width: u16, height: u16) -> Self {
        Ladder { full: (width, height), step: 0 }
    }

    /// Current width and height.
    pub(super) fn resolution(&self) -> (u16, u16) {
        let (numerator, denominator) = self.scale();
        let scaled = |full: u16| (u64::from(full) * numerator / denominator) as u16;
        (scaled(self.full.0), scaled(self.full.1))
    }

    /// Current number of pixels.
    pub(super) fn pixels(&self) -> u32 {
        let (width, height) = self.resolution();
        u32::from(width) * u32::from(height)
    }

    /// Numerator and denominator of the current size through the full one.
    fn scale(&self) -> (u64, u64) {
        let are_multiples = |of: u16| self.full.0 % of == 0 && self.full.1 % of == 0;
        let unreduced = if are_multiples(9) {
            36
        } else if are_multiples(3) {
            6
        } else {
            1
        };
        (0..self.step).fold((unreduced, unreduced), |(numerator, denominator), _| {
            match numerator % 3 == 0 && denominator % 2 == 0 {
                true => (numerator / 3, denominator / 2),
                false => (numerator * 3, denominator * 4),
            }
        })
    }

    /// By how many steps the picture is smaller than the camera's.
    pub(super) fn step(&self) -> usize {
        self.step
    }

    /// Makes the picture smaller; returns whether it could.
    pub(super) fn shrink(&mut self) -> bool {
        let may = self.pixels() * 3 / 5 >= MIN_PIXELS;
        self.step += usize::from(may);
        may
    }

    /// Makes the picture larger; returns whether it could.
    pub(super) fn grow(&mut self) -> bool {
        let may = self.step > 0;
        self.step -= usize::from(may);
        may
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn down(width: u16, height: u16) -> Vec<(u16, u16)> {
        let mut ladder = Ladder::new(width, height);
        let mut sizes = vec![ladder.resolution()];
        while ladder.shrink() {
            sizes.push(ladder.resolution());
        }
        sizes
    }

    #[test]
    fn sizes_are_those_of_libwebrtc() {
        assert_eq!(down(640, 480), [(640, 480), (480, 360), (320, 240)]);
        let sizes = [(1280, 720), (960, 540), (640, 360), (480, 270), (320, 180)];
        assert_eq!(down(1280, 720), sizes);
        assert_eq!(down(320, 180), [(320, 180)]);
        let sizes = [(1920, 1080), (1280, 720), (960, 540), (640, 360), (480, 270), (320, 180)];
        assert_eq!(down(1920, 1080), sizes);
        let sizes = [(1440, 1080), (960, 720), (640, 480), (480, 360), (320, 240)];
        assert_eq!(down(1440, 1080), sizes);
    }

    #[test]
    fn it_returns_the_way_it_came() {
        let mut ladder = Ladder::new(1280, 720);
        while ladder.shrink() {}
        let up: Vec<_> =
            std::iter::from_fn(|| ladder.grow().then(|| ladder.resolution().1)).collect();
        assert_eq!(up, [270, 360, 540, 720]);
        assert_eq!(ladder.step(), 0);
    }
}
