//! The page on congestion controls names all there are.

use rtclab_core::cc::ALGORITHMS;

#[test]
fn every_algorithm_and_every_option_is_on_the_page() {
    let page = include_str!("../../../docs/congestion-control.md");
    for algorithm in ALGORITHMS {
        assert!(page.contains(&format!("| `{}` |", algorithm.name)), "{}", algorithm.name);
        for option in algorithm.options {
            assert!(page.contains(&format!("`{}`", option.name)), "{}", option.name);
        }
    }
}
