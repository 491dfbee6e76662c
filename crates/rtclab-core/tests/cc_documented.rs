//! The page on congestion controls names every algorithm and every stack profile. Its options are generated.

use rtclab_core::cc::ALGORITHMS;
use rtclab_core::stack::PROFILES;

#[test]
fn every_algorithm_is_on_the_page_in_the_words_of_the_command_line() {
    let page = include_str!("../../../docs/congestion-control.md");
    for algorithm in ALGORITHMS {
        let row = format!("| `{}` | {} |", algorithm.name, algorithm.summary);
        assert!(page.contains(&row), "{row}");
    }
}

#[test]
fn every_stack_profile_is_on_the_page_with_the_algorithms_that_use_it() {
    let page = include_str!("../../../docs/congestion-control.md");
    for profile in PROFILES {
        let name = format!("| `{}` |", profile.name);
        let row = page.lines().find(|line| line.starts_with(&name)).unwrap_or_default();
        let users = ALGORITHMS.iter().filter(|algorithm| algorithm.stack == profile.name);
        for algorithm in users {
            assert!(row.contains(&format!("`{}`", algorithm.name)), "{name}: {}", algorithm.name);
        }
        assert!(!row.is_empty(), "{name}");
    }
}
