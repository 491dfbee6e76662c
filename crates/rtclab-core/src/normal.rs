//! Normal random numbers that are the same on every machine.
//!
//! Written here because `rand_distr` draws the same numbers, but uses the logarithm and exponential of the host's C
//! library as soon as any crate of the build asks `num-traits` to, and their last bits depend on the processor. A test
//! compares the numbers.

use rand::distr::{Distribution, Open01};
use rand::{Rng, RngExt};
use std::sync::LazyLock;

/// The normal distribution with mean 0 and standard deviation 1.
///
/// Method: ziggurat with 256 layers, variant ZIGNOR (Doornik 2005, "An improved ziggurat method to generate
/// normal random samples").
pub(crate) struct StandardNormal;

const LAYERS: usize = 256;
/// Where the tail begins (Doornik 2005, table 1).
const TAIL: f64 = 3.654_152_885_361_009;
/// Area of each layer (Doornik 2005, table 1).
const AREA: f64 = 0.004_928_673_233_99;

/// Right edges of the layers, from the tail to the top, and the density at each.
static EDGES: LazyLock<[(f64, f64); LAYERS + 1]> = LazyLock::new(|| {
    let mut x = AREA / density(TAIL);
    let mut next = TAIL;
    std::array::from_fn(|layer| {
        let edge = if layer == LAYERS { 0.0 } else { x };
        x = next;
        next = (-2.0 * libm::log((AREA / x + density(x)).min(1.0))).sqrt();
        (edge, density(edge))
    })
});

fn density(x: f64) -> f64 {
    libm::exp(-x * x / 2.0)
}

impl Distribution<f64> for StandardNormal {
    fn sample<R: Rng + ?Sized>(&self, rng: &mut R) -> f64 {
        let edges = &*EDGES;
        loop {
            let bits = rng.next_u64();
            let layer = bits as usize % LAYERS;
            // The upper 52 bits as a number from -1 to 1.
            let uniform = f64::from_bits((1024 << 52) | (bits >> 12)) - 3.0;
            let ((edge, low), (inner, high)) = (edges[layer], edges[layer + 1]);
            let x = uniform * edge;
            if x.abs() < inner {
                return x;
            }
            if layer == 0 {
                return tail(rng).copysign(uniform);
            }
            if high + (low - high) * rng.random::<f64>() < density(x) {
                return x;
            }
        }
    }
}

/// A number beyond [`TAIL`] (Marsaglia 1964).
fn tail<R: Rng + ?Sized>(rng: &mut R) -> f64 {
    loop {
        let x = libm::log(rng.sample(Open01)) / TAIL;
        let y = libm::log(rng.sample(Open01));
        if -2.0 * y >= x * x {
            return TAIL - x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_pcg::Pcg64Mcg;

    #[test]
    fn the_numbers_are_those_of_rand_distr_up_to_rounding() {
        let (mut ours, mut theirs) = (Pcg64Mcg::seed_from_u64(1), Pcg64Mcg::seed_from_u64(1));
        let mut in_the_tail = 0;
        for _ in 0..200_000 {
            let (x, y): (f64, f64) =
                (ours.sample(StandardNormal), theirs.sample(rand_distr::StandardNormal));
            assert!((x - y).abs() < 1e-12, "{x} instead of {y}");
            in_the_tail += u32::from(x.abs() > TAIL);
        }
        // 200,000 numbers with probability 2.6e-4, plus or minus four standard deviations
        assert!((23..=81).contains(&in_the_tail), "{in_the_tail}");
    }
}
