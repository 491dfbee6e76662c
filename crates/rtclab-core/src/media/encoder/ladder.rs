//! The resolutions that libwebrtc's adaptation makes of a camera's.
//!
//! A step down has at most 3/5 of the pixels, but not fewer than 320x180 allow. What fits is found among the
//! full size times 3/4 and 2/3 in turn. Sources: libwebrtc f3ae3eb62e, `call/adaptation/
//! video_stream_adapter.cc`, `media/base/video_adapter.cc`.

/// Sizes in sixteenths of the full width.
const SIXTEENTHS: [u32; 7] = [16, 12, 8, 6, 4, 3, 2];
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
        let scaled = |full: u16| (u32::from(full) * SIXTEENTHS[self.step] / 16) as u16;
        (scaled(self.full.0), scaled(self.full.1))
    }

    /// Current number of pixels.
    pub(super) fn pixels(&self) -> u32 {
        let (width, height) = self.resolution();
        u32::from(width) * u32::from(height)
    }

    /// Whether the picture is smaller than the camera's.
    pub(super) fn is_reduced(&self) -> bool {
        self.step > 0
    }

    /// Makes the picture smaller; returns whether it could.
    pub(super) fn shrink(&mut self) -> bool {
        let may = self.step + 1 < SIXTEENTHS.len() && self.pixels() * 3 / 5 >= MIN_PIXELS;
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
    fn vga_has_three_sizes_and_720p_five() {
        assert_eq!(down(640, 480), [(640, 480), (480, 360), (320, 240)]);
        let sizes = [(1280, 720), (960, 540), (640, 360), (480, 270), (320, 180)];
        assert_eq!(down(1280, 720), sizes);
        assert_eq!(down(320, 180), [(320, 180)]);
    }

    #[test]
    fn it_returns_the_way_it_came() {
        let mut ladder = Ladder::new(1280, 720);
        while ladder.shrink() {}
        let up: Vec<_> =
            std::iter::from_fn(|| ladder.grow().then(|| ladder.resolution().1)).collect();
        assert_eq!(up, [270, 360, 540, 720]);
        assert!(!ladder.is_reduced());
    }
}
