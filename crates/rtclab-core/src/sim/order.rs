//! Sorts by time, when times are spread over a window.

use crate::units::Time;
use std::cmp::Ordering;

/// Something at a time: the time, and where it is.
pub(super) type Happening = (Time, u32, u32);

/// Puts what happens in a window in order. Its memory is used again for the next window.
#[derive(Default)]
pub(super) struct Order {
    happenings: Vec<Happening>,
    /// Number of happenings in each slice of the window; then where the next one of each slice belongs.
    slices: Vec<u32>,
    sorted: Vec<Happening>,
}

impl Order {
    /// Forgets everything.
    pub(super) fn clear(&mut self) {
        self.happenings.clear();
    }

    /// Adds happenings, in any order.
    pub(super) fn extend(&mut self, happenings: impl Iterator<Item = Happening>) {
        self.happenings.extend(happenings);
    }

    /// Sorts by time, and happenings at one time by `tie`. Returns them in order.
    ///
    /// The window has about as many slices as happenings, so most slices have one or two, and hardly anything is compared.
    pub(super) fn sort_by(
        &mut self,
        tie: impl Fn(&Happening, &Happening) -> Ordering,
    ) -> &[Happening] {
        let Order { happenings, slices, sorted } = self;
        let first = happenings.iter().map(|one| one.0.0).min().unwrap_or(0);
        let last = happenings.iter().map(|one| one.0.0).max().unwrap_or(0);
        // A slice has a power of two of nanoseconds, so that no division is needed.
        let width = (last - first) / happenings.len().max(1) as u64;
        let shift = u64::BITS - width.leading_zeros();
        let slice = |at: Time| ((at.0 - first) >> shift) as usize;
        slices.clear();
        slices.resize(slice(Time(last)) + 1, 0);
        for one in &*happenings {
            slices[slice(one.0)] += 1;
        }
        let mut before = 0;
        for count in &mut *slices {
            before += std::mem::replace(count, before);
        }
        sorted.clear();
        sorted.resize(happenings.len(), (Time::ZERO, 0, 0));
        for one in &*happenings {
            let place = &mut slices[slice(one.0)];
            sorted[*place as usize] = *one;
            *place += 1;
        }
        let mut begin = 0;
        for end in &*slices {
            let end = *end as usize;
            if end - begin > 1 {
                sorted[begin..end]
                    .sort_by(|one, other| one.0.cmp(&other.0).then_with(|| tie(one, other)));
            }
            begin = end;
        }
        sorted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_order_is_that_of_a_sort(
            times in prop::collection::vec(prop_oneof![0_u64..20, 1_000_u64..2_000_000, any::<u64>()], 0..200),
        ) {
            let mut order = Order::default();
            for part in times.chunks(100) {
                let mut expected: Vec<_> =
                    (0..).zip(part).map(|(place, at)| (Time(*at), place % 3, place)).collect();
                order.clear();
                order.extend(expected.iter().copied());
                expected.sort_unstable();
                prop_assert_eq!(order.sort_by(Ord::cmp), &expected[..]);
            }
        }
    }
}
