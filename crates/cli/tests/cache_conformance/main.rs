//! The rules of RFC 9111 and its neighbours, one case each, over sockets: a client, loadline with
//! a cache, and a server that responds as the case says. `make cache-conformance` tries the same
//! cases on other caches.

mod caches;
mod dates;
mod message;
mod origin;
mod run;
mod script;

use std::{collections::BTreeSet, path::Path};

use caches::{Cache, Kind};
use origin::Origin;
use run::Verdict;

#[test]
fn there_are_many_cases_and_each_has_a_name_of_its_own() {
    let cases = cases();
    let names: BTreeSet<_> = cases.iter().map(|case| &case.name).collect();
    assert_eq!(names.len(), cases.len());
    assert!(cases.iter().filter(|case| case.required).count() >= 150);
    for case in &cases {
        assert!(case.section.contains(" section "), "{}: {}", case.name, case.section);
        assert!(case.title.ends_with('.'), "{}: {}", case.name, case.title);
    }
}

#[test]
fn loadline_obeys_them() {
    let cases = cases();
    let origin = Origin::start();
    let cache = Cache::start(Kind::Loadline, origin.address);
    let verdicts = run::run(&cases, &cache.address, &origin);
    let broken = |required: bool| -> Vec<String> {
        let of_kind = cases.iter().filter(|case| case.required == required);
        let broken = of_kind.filter_map(|case| match &verdicts[&case.name] {
            Verdict::Broken(seen) => Some(format!("{}: {seen}", case.name)),
            Verdict::Kept | Verdict::NotApplicable => None,
        });
        broken.collect()
    };
    let required = broken(true);
    assert!(required.is_empty(), "{} required: {required:#?}", required.len());
    let optional = broken(false);
    assert!(optional.len() <= OPTIONAL_BROKEN_MAX, "{} optional: {optional:#?}", optional.len());
}

fn cases() -> Vec<script::Case> {
    script::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cache_conformance/cases"))
}

/// What loadline does not do though it might.
const OPTIONAL_BROKEN_MAX: usize = 0;
