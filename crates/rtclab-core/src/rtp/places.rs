//! A place for each sequence number of a range.

use std::collections::VecDeque;
use std::collections::vec_deque::Iter;

/// What is known of packets by their unwrapped sequence numbers: a range of numbers, each with a place that is
/// empty or not. The caller bounds the range.
#[derive(Debug)]
pub(crate) struct Places<T> {
    /// Number of the first place; `None` before the first number.
    first: Option<i64>,
    places: VecDeque<Option<T>>,
}

impl<T> Default for Places<T> {
    fn default() -> Self {
        Places { first: None, places: VecDeque::new() }
    }
}

impl<T> Places<T> {
    /// The first number of the range. An empty range stays where it is.
    pub(crate) fn first(&self) -> i64 {
        self.first.unwrap_or_default()
    }

    /// One more than the last number of the range.
    pub(crate) fn end(&self) -> i64 {
        self.first() + self.places.len() as i64
    }

    /// The place of a number, if it is in the range.
    pub(crate) fn get_mut(&mut self, number: i64) -> Option<&mut Option<T>> {
        self.places.get_mut(usize::try_from(number - self.first()).ok()?)
    }

    /// The place of a number, after the range has grown to it.
    pub(crate) fn reach(&mut self, number: i64) -> &mut Option<T> {
        let first = self.first.get_or_insert(number);
        while *first > number {
            self.places.push_front(None);
            *first -= 1;
        }
        let index = (number - *first) as usize;
        while self.places.len() <= index {
            self.places.push_back(None);
        }
        &mut self.places[index]
    }

    /// The places from `begin` to before `end`, both in the range.
    pub(crate) fn range(&self, begin: i64, end: i64) -> Iter<'_, Option<T>> {
        let index = |number| (number - self.first()) as usize;
        self.places.range(index(begin)..index(end))
    }

    /// The places from `begin` on, which is in the range, side by side in memory.
    pub(crate) fn side_by_side(&mut self, begin: i64) -> &[Option<T>] {
        let index = (begin - self.first()) as usize;
        &self.places.make_contiguous()[index..]
    }

    /// Drops the places of smaller numbers.
    pub(crate) fn forget_before(&mut self, number: i64) {
        self.forget_while(|at, _| at < number);
    }

    /// Drops places from the first one on, as long as number and content are like this.
    pub(crate) fn forget_while(&mut self, is_like: impl Fn(i64, &Option<T>) -> bool) {
        let Some(first) = &mut self.first else { return };
        while self.places.front().is_some_and(|place| is_like(*first, place)) {
            self.places.pop_front();
            *first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// A map from numbers to values, and the lowest and highest number, say the same.
        #[test]
        fn places_are_a_map_over_a_range(
            steps in prop::collection::vec((-50_i64..50, any::<bool>()), 1..60),
        ) {
            let (mut places, mut model) = (Places::default(), BTreeMap::new());
            let (mut range, mut is_used) = (0..0, false);
            for (index, (number, is_forgetting)) in steps.into_iter().enumerate() {
                if is_forgetting {
                    places.forget_before(number);
                    range.start = number.clamp(range.start, range.end);
                    model.retain(|at, _| *at >= number);
                } else {
                    *places.reach(number) = Some(index);
                    model.insert(number, index);
                    range = match is_used {
                        false => number..number + 1,
                        true => range.start.min(number)..range.end.max(number + 1),
                    };
                    is_used = true;
                }
                prop_assert_eq!(places.first()..places.end(), range.clone());
                let expected: Vec<_> = range.clone().map(|at| model.get(&at).copied()).collect();
                prop_assert_eq!(places.range(range.start, range.end).copied().collect::<Vec<_>>(), &expected[..]);
                prop_assert_eq!(places.side_by_side(range.start), &expected[..]);
                for at in -60..60 {
                    let inside = range.contains(&at).then(|| model.get(&at).copied());
                    prop_assert_eq!(places.get_mut(at).map(|place| *place), inside);
                }
            }
        }
    }
}
