//! The page on congestion controls names every algorithm and every stack profile. Its options are generated.

use rtclab_core::catalogue::Catalogue;
use rtclab_core::stack::PROFILES;

#[test]
fn every_algorithm_is_on_the_page_in_the_words_of_the_command_line() {
    let page = include_str!("../../../docs/congestion-control.md");
    for algorithm in Catalogue::ours().algorithms() {
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
        let algorithms = Catalogue::ours().algorithms().iter();
        let users = algorithms.filter(|algorithm| algorithm.stack.name == profile.name);
        for algorithm in users {
            assert!(row.contains(&format!("`{}`", algorithm.name)), "{name}: {}", algorithm.name);
        }
        assert!(!row.is_empty(), "{name}");
    }
}
