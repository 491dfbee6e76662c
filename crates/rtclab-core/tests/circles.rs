//! Dependencies between modules of core point one way. They are read from the sources: paths that begin
//! with `crate`, `super` or `self`, in `use` and elsewhere, except in tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Modules of core. Each may use those before it, but none after it.
const ORDER: [&str; 34] = [
    "units",
    "ecn",
    "limits",
    "sliding",
    "timeouts",
    "simulcast",
    "normal",
    "ipv4",
    "pcapng",
    "path",
    "rtp",
    "network",
    "packet",
    "nat",
    "table",
    "parquet",
    "event_log",
    "cc",
    "media",
    "stack",
    "catalogue",
    "transport_history",
    "replay",
    "tcp",
    "udp",
    "turn_tcp",
    "endpoint",
    "signalling",
    "node",
    "record",
    "monitor",
    "capture",
    "sim",
    "environment",
];

type Module = Vec<String>;

/// Source text of each module without tests, by its path in the crate: `["endpoint", "setup"]`.
fn sources() -> BTreeMap<Module, String> {
    let mut sources = BTreeMap::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    read(&root, &[], &mut sources);
    sources
}

fn read(folder: &Path, above: &[String], sources: &mut BTreeMap<Module, String>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        let name = path.file_stem().and_then(|stem| stem.to_str()).expect("a name").to_owned();
        if name == "tests" || name == "lib" {
            continue;
        }
        let module = match name.as_str() {
            "mod" => above.to_vec(),
            _ => [above, &[name]].concat(),
        };
        if path.is_dir() {
            read(&path, &module, sources);
        } else {
            let text = fs::read_to_string(&path).expect("a source");
            sources.insert(module, production(&text));
        }
    }
}

/// The text without comments and without items marked `#[cfg(test)]`, up to their `;` or closing brace.
fn production(text: &str) -> String {
    let code = |line: &str| line.split("//").next().unwrap_or_default().to_owned();
    let text = text.lines().map(code).collect::<Vec<_>>().join("\n");
    let mut pieces = text.split("#[cfg(test)]");
    let mut code_text = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        let mut depth = 0;
        let end = piece.find(|c| {
            depth += i32::from(c == '{') - i32::from(c == '}');
            depth == 0 && (c == ';' || c == '}')
        });
        code_text.push_str(&piece[end.map_or(piece.len(), |end| end + 1)..]);
    }
    code_text
}

/// All paths in a text that begin with `crate`, `super` or `self`; trees are expanded.
fn paths(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for start in ["crate::", "super::", "self::"] {
        for (at, _) in text.match_indices(start) {
            let before = text[..at].chars().next_back();
            // `super::super::x` is read from its first word.
            if !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == ':') {
                tree(&text[at..], &[], &mut found);
            }
        }
    }
    found
}

/// Reads a path or a tree of paths after `prefix`; returns the rest of the text.
fn tree<'a>(text: &'a str, prefix: &[String], found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut rest) = text.strip_prefix('{') {
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == ',');
            match rest.strip_prefix('}') {
                Some(rest) => return rest,
                None if rest.is_empty() => return rest,
                None => rest = tree(rest, prefix, found),
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    if end == 0 {
        // A glob, or something that is not a path.
        return &text[text.chars().next().map_or(0, char::len_utf8)..];
    }
    let path = [prefix, &[text[..end].to_owned()]].concat();
    let rest = &text[end..];
    match rest.strip_prefix("::") {
        Some(rest) if !rest.starts_with('<') => tree(rest, &path, found),
        _ => {
            found.push(path);
            let named = rest.trim_start().strip_prefix("as ");
            named.map_or(rest, |name| {
                name.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_')
            })
        }
    }
}

/// The path from the root of the crate, as it resolves in `module`.
fn absolute(module: &[String], path: &[String]) -> Vec<String> {
    let supers = path.iter().take_while(|word| *word == "super").count();
    match path.first().map(String::as_str) {
        Some("crate") => path[1..].to_vec(),
        Some("self") => [module, &path[1..]].concat(),
        _ => [&module[..module.len().saturating_sub(supers)], &path[supers..]].concat(),
    }
}

/// The module that a path leads to: the longest part of it that is one.
fn module_of(path: &[String], sources: &BTreeMap<Module, String>) -> Module {
    let longest = (0..=path.len()).rev().find(|len| sources.contains_key(&path[..*len]));
    path[..longest.unwrap_or(0)].to_vec()
}

/// For each folder (the crate is `[]`), which of its modules uses which others.
fn dependencies() -> BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> {
    let sources = sources();
    let mut dependencies: BTreeMap<Module, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (from, text) in &sources {
        for path in paths(text) {
            let to = module_of(&absolute(from, &path), &sources);
            let common = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(common), to.get(common)) {
                let folder = dependencies.entry(from[..common].to_vec()).or_default();
                folder.entry(a.clone()).or_default().insert(b.clone());
            }
        }
    }
    dependencies
}

/// A chain of dependencies from a module back to itself.
fn cycle(dependencies: &BTreeMap<String, BTreeSet<String>>) -> Option<Vec<String>> {
    fn walk(
        dependencies: &BTreeMap<String, BTreeSet<String>>,
        chain: &mut Vec<String>,
        done: &mut BTreeSet<String>,
    ) -> bool {
        let last = chain[chain.len() - 1].clone();
        for next in dependencies.get(&last).into_iter().flatten() {
            let closed = chain.contains(next);
            if closed || !done.contains(next) {
                chain.push(next.clone());
                if closed || walk(dependencies, chain, done) {
                    return true;
                }
                chain.pop();
            }
        }
        done.insert(last);
        false
    }
    let mut done = BTreeSet::new();
    dependencies.keys().find_map(|module| {
        let mut chain = vec![module.clone()];
        walk(dependencies, &mut chain, &mut done).then_some(chain)
    })
}

#[test]
fn modules_of_core_use_only_those_before_them() {
    let dependencies = dependencies();
    let dependencies = dependencies.get([].as_slice()).expect("modules of the crate");
    let place = |name: &str| ORDER.iter().position(|module| *module == name);
    for (from, to) in dependencies.iter().flat_map(|(a, all)| all.iter().map(move |b| (a, b))) {
        let places = (place(from), place(to));
        let (Some(a), Some(b)) = places else { panic!("{from} or {to} has no place in the order") };
        assert!(b < a, "{from} uses {to}, which comes after it");
    }
    // Dependencies are found at all: the simulator uses endpoints.
    assert!(dependencies["sim"].contains("endpoint") && dependencies["packet"].contains("rtp"));
}

#[test]
fn modules_of_a_folder_do_not_depend_on_each_other_in_a_cycle() {
    let dependencies = dependencies();
    let cycles = dependencies
        .iter()
        .filter_map(|(folder, dependencies)| Some((folder, cycle(dependencies)?)));
    let cycles: Vec<(String, Vec<String>)> =
        cycles.map(|(folder, cycle)| (folder.join("::"), cycle)).collect();
    assert_eq!(cycles, []);
    assert!(dependencies.contains_key(["endpoint".to_owned()].as_slice()));
}

#[test]
fn a_cycle_is_found() {
    let uses = |from: &str, to: &[&str]| {
        (from.to_owned(), to.iter().map(|to| to.to_string()).collect::<BTreeSet<_>>())
    };
    let line = [uses("a", &["b", "c"]), uses("b", &["c"]), uses("c", &["d"])];
    assert_eq!(cycle(&line.clone().into()), None);
    let closed = line.into_iter().chain([uses("d", &["b"])]).collect();
    assert_eq!(cycle(&closed), Some(["a", "b", "c", "d", "b"].map(str::to_owned).to_vec()));
}

#[test]
fn paths_are_read_from_trees_and_expressions_but_not_from_tests() {
    let text = "use crate::{a::{B, c::D as E}, f::*};\nfn g() { super::super::h::<crate::i>(); }\n\
                #[cfg(test)]\nmod tests { use crate::j; }\nuse self::k; // crate::l\n";
    let found: BTreeSet<String> =
        paths(&production(text)).iter().map(|path| path.join("::")).collect();
    let expected = ["crate::a::B", "crate::a::c::D", "super::super::h", "crate::i", "self::k"];
    assert!(expected.iter().all(|path| found.contains(*path)), "{found:?}");
    assert!(!found.iter().any(|path| path.ends_with('j') || path.ends_with('l')), "{found:?}");
}
