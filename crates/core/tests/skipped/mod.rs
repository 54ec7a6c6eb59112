//! A test that cannot be run here is counted as skipped: the harness would count it as passed.
//!
//! `make test` names the file of the count in `LOADLINE_SKIPPED` and prints it at the end. Without
//! that file nobody would hear of it, so the test fails.
#![expect(clippy::print_stdout, reason = "says why nothing was tested")]

use std::{env, fs::OpenOptions, io::Write as _, thread};

/// Counts the running test as skipped for want of `what`; fails where nothing counts.
pub(crate) fn skipped(what: &str) {
    let test = thread::current().name().unwrap_or("a test").to_owned();
    println!("skipped {test}: {what}");
    let Some(list) = env::var_os(LIST) else {
        panic!("needs {what}; `make test` counts what cannot be run, or set {LIST} to a file");
    };
    let mut list = OpenOptions::new().create(true).append(true).open(list).unwrap();
    writeln!(list, "{test}: {what}").unwrap();
}

/// Where a line for each skipped test goes.
pub(crate) const LIST: &str = "LOADLINE_SKIPPED";
