//! Inputs of the fuzz targets that are kept: `fuzz/corpus` has what reaches most of a target's code in few
//! bytes, `fuzz/regressions` what failed once.

use std::fs::{self, DirEntry};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

const FUZZ: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fuzz");

/// An input, and where it is below the folder `fuzz`.
pub(crate) type Input = (String, Vec<u8>);

/// Names in a folder below `fuzz`, in order. There are none if there is no such folder.
pub(crate) fn names(folder: &str) -> Vec<String> {
    let Ok(entries) = fs::read_dir(Path::new(FUZZ).join(folder)) else { return Vec::new() };
    let name = |entry: DirEntry| entry.file_name().into_string().expect("a name in UTF-8");
    let mut names: Vec<String> = entries.map(|entry| name(entry.expect("an entry"))).collect();
    names.sort();
    names
}

/// All inputs of a target. Fails if fewer than `at_least` are in its corpus.
pub(crate) fn of_target(target: &str, at_least: usize) -> Vec<Input> {
    let corpus = in_folder(&format!("corpus/{target}"));
    assert!(corpus.len() >= at_least, "fuzz/corpus/{target} has only {} inputs", corpus.len());
    [corpus, in_folder(&format!("regressions/{target}"))].concat()
}

fn in_folder(folder: &str) -> Vec<Input> {
    let read = |name| {
        let path = format!("{folder}/{name}");
        let bytes = fs::read(Path::new(FUZZ).join(&path)).expect("an input");
        (path, bytes)
    };
    names(folder).into_iter().map(read).collect()
}

/// Which inputs end what is run with them. Each of them has said why.
pub(crate) fn failing(inputs: &[Input], run: &dyn Fn(&[u8])) -> Vec<String> {
    let failing = inputs.iter().filter(|(_, bytes)| fails(bytes, run));
    failing.map(|(path, _)| format!("fuzz/{path}")).collect()
}

pub(crate) fn fails(input: &[u8], run: &dyn Fn(&[u8])) -> bool {
    catch_unwind(AssertUnwindSafe(|| run(input))).is_err()
}
