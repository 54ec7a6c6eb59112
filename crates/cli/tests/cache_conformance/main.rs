//! The rules of RFC 9111 and its neighbours, one case each, over sockets: a client, loadline with
//! a cache, and a server that responds as the case says. `make conformance` tries the same
//! cases on other caches.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

mod caches;
mod dates;
mod message;
mod origin;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
mod run;
mod script;

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use caches::Cache;
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
    let cache = Cache::start(caches::loadline, origin.address);
    let verdicts = run::run(&cases, &cache.address, &origin);
    let broken: BTreeMap<_, _> = cases
        .iter()
        .filter_map(|case| match &verdicts[&case.name] {
            Verdict::Broken(seen) => Some((case.name.as_str(), (case.required, seen))),
            Verdict::Kept | Verdict::NotApplicable => None,
        })
        .collect();
    let known: BTreeMap<_, _> = KNOWN.iter().copied().collect();
    let unexpected: Vec<_> = broken.iter().filter(|(name, _)| !known.contains_key(*name)).collect();
    assert!(unexpected.is_empty(), "{} of {}: {unexpected:#?}", unexpected.len(), cases.len());
    let mended: Vec<_> = known.keys().filter(|name| !broken.contains_key(*name)).collect();
    assert!(mended.is_empty(), "no longer broken, so take them out of KNOWN: {mended:?}");
}

fn cases() -> Vec<script::Case> {
    script::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cache_conformance/cases"))
}

/// The cases that loadline does not obey, and why.
const KNOWN: &[(&str, &str)] = &[
    ("post-stored", "responses to POST are never stored"),
    ("vary-language-wanted", "Content-Language does not select among stored responses"),
];
