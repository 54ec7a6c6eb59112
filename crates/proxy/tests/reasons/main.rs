//! Every way a server can fail, run through a proxy: what is told of each.
#![expect(clippy::unwrap_used, reason = "a test helper fails the test it helps")]

mod connecting;
mod http1;
mod http2;
mod support;
mod tls;
mod warnings;

use std::{collections::BTreeMap, thread};

use support::Case;

fn cases() -> Vec<Case> {
    let all = [connecting::cases(), tls::cases(), http1::cases(), http2::cases()];
    all.into_iter().flatten().collect()
}

#[test]
fn every_way_a_server_can_fail_is_told_in_words_of_its_own() {
    let told: Vec<(Case, String)> = thread::scope(|scope| {
        let run = |case: Case| {
            scope.spawn(move || {
                let told = case.run();
                (case, told)
            })
        };
        let running: Vec<_> = cases().into_iter().map(run).collect();
        running.into_iter().map(|running| running.join().unwrap()).collect()
    });
    let wrong = told.iter().filter(|(case, told)| *told != case.expected());
    let wrong: Vec<String> = wrong
        .map(|(case, told)| format!("{}: {told}\n    not {}", case.name, case.expected()))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let mut by_text: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (case, told) in &told {
        by_text.entry(told).or_default().push(case.name);
    }
    by_text.retain(|_, names| names.len() > 1);
    assert!(by_text.is_empty(), "these read alike: {by_text:#?}");
    assert!(told.len() >= 75, "{} ways", told.len());
}
