//! Rules: the compiled table finds what asking them one after another finds.
//!
//! Each byte of the input is a choice among few, so that rules and requests meet.
#![no_main]

use std::cmp::Reverse;

use libfuzzer_sys::fuzz_target;
use loadline_core::rules::{Action, Conditions, Host, Path, Regex, Request, Rule, Split, Table};

fuzz_target!(|bytes: &[u8]| {
    let mut choices = Choices(bytes);
    let rules: Vec<Rule> = (0..choices.below(12)).map(|_| choices.rule()).collect();
    let table = Table::compile(rules.clone());
    while !choices.0.is_empty() {
        let (host, path) = (choices.host(), choices.path());
        let headers: &[(&str, &str)] = &[("x-a", "1")];
        let request = Request {
            authority: host.as_bytes(),
            host: host.as_bytes(),
            path: path.as_bytes(),
            query: if choices.below(2) == 0 { b"" } else { b"a=1" },
            method: if choices.below(2) == 0 { b"GET" } else { b"POST" },
            source: [127, 0, 0, 1].into(),
            scheme: "http",
            headers,
        };
        let found = table.find(&request).map(|matched| matched.index);
        assert_eq!(found, naive(&rules, &request), "{host} {path} {rules:?}");
    }
});

/// The rule that decides, by the letter: one after another in the order of priority.
fn naive(rules: &[Rule], request: &Request<'_, [(&str, &str)]>) -> Option<usize> {
    let mut order: Vec<_> = rules.iter().enumerate().collect();
    order.sort_by_key(|(_, rule)| Reverse(rule.priority));
    order.into_iter().find(|(_, rule)| rule.when.hold(request)).map(|(index, _)| index)
}

/// Choices that are still to be made.
struct Choices<'a>(&'a [u8]);

impl Choices<'_> {
    fn below(&mut self, count: usize) -> usize {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        usize::from(*first) % count
    }

    fn host(&mut self) -> &'static str {
        HOSTS[self.below(HOSTS.len())]
    }

    fn path(&mut self) -> String {
        let segments = self.below(5);
        let path: String =
            (0..segments).map(|_| format!("/{}", SEGMENTS[self.below(SEGMENTS.len())])).collect();
        if path.is_empty() { "/".to_owned() } else { path }
    }

    fn rule(&mut self) -> Rule {
        let hosts = (0..self.below(3)).map(|_| {
            let wildcard = if self.below(3) == 0 { "*." } else { "" };
            Host::parse(&format!("{wildcard}{}", self.host()))
        });
        let hosts = hosts.filter_map(Result::ok).collect();
        let paths = (0..self.below(3)).map(|_| {
            let path = self.path();
            match self.below(3) {
                0 => Path::exact(&path),
                1 => Path::prefix(&path),
                _ => Regex::whole(&format!("{path}[a-c]*")).map(Path::Regex),
            }
        });
        let paths = paths.filter_map(Result::ok).collect();
        let methods = if self.below(4) == 0 { vec!["POST".to_owned()] } else { Vec::new() };
        Rule {
            priority: self.below(3) as i32,
            ..Rule::new(
                Conditions { hosts, paths, methods, ..Conditions::default() },
                Action::Service(Split::all(0)),
            )
        }
    }
}

const HOSTS: [&str; 6] = ["a", "b.a", "c.b.a", "d", "b.d", "c.b.d"];
const SEGMENTS: [&str; 5] = ["a", "b", "ab", "abc", ""];
