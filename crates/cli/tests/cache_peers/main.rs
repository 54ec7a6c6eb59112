//! Tries the cases of `cache_conformance` on loadline and on the caches of the distribution, and
//! writes what each obeys to the page of the study: `make conformance`, 3 minutes.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../cache_conformance/caches.rs"]
mod caches;
#[path = "../cache_conformance/dates.rs"]
mod dates;
#[path = "../cache_conformance/message.rs"]
mod message;
#[path = "../cache_conformance/origin.rs"]
mod origin;
mod page;
mod peers;
#[path = "../../../core/tests/ports/mod.rs"]
mod ports;
#[path = "../cache_conformance/run.rs"]
mod run;
#[path = "../cache_conformance/script.rs"]
mod script;

use std::{collections::BTreeMap, env, path::Path};

use caches::{Cache, Launcher};
use origin::Origin;
use run::Verdict;

#[test]
fn every_cache_is_tried_and_the_page_written() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cases = script::read(&repository.join("crates/cli/tests/cache_conformance/cases"));
    let wanted = env::var("CACHES").unwrap_or_default();
    let mut results: Vec<(&str, BTreeMap<String, Verdict>)> = Vec::new();
    for &(name, launcher) in CACHES.iter().filter(|it| wanted.is_empty() || wanted == it.0) {
        let origin = Origin::start();
        let cache = Cache::start(launcher, origin.address);
        let verdicts = run::run(&cases, &cache.address, &origin);
        for (case, verdict) in &verdicts {
            if let Verdict::Broken(seen) = verdict {
                println!("{name} {case}: {seen}");
            }
        }
        results.push((name, verdicts));
    }
    println!("{}", page::summary(&cases, &results));
    if wanted.is_empty() {
        page::write(&repository.join("docs/studies/cache.md"), &cases, &results);
    }
}

const CACHES: [(&str, Launcher); 4] = [
    ("loadline", caches::loadline),
    ("nginx", peers::nginx),
    ("Varnish", peers::varnish),
    ("Traffic Server", peers::traffic_server),
];
