//! What one decision of the content rules costs, with 10 to 10,000 of them.
//!
//! One line a case, `rules CASE COUNT NS ns ALLOCS allocs`: the median over batches of the mean
//! time of [`Table::find`], and how often the allocator was called in all of them. Requests are for
//! one rule after another, far apart, so that caches do not know what comes next. `typical` has ten
//! paths on each host and a fall-back; `hosts`, `paths` and `expressions` put all rules into one
//! map; `last` is the request that no rule but the last is for. `others` is what does not scale:
//! rules that differ in a header alone.
#![expect(unsafe_code, reason = "an allocator that counts is an unsafe impl of GlobalAlloc")]
#![expect(clippy::print_stdout, reason = "the lines are the result")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    hint::black_box,
    net::{IpAddr, Ipv4Addr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time,
};

use loadline_core::rules::{
    Action, Conditions, Field, Host, Path, Regex, Request, Rule, Split, Table, Text,
};

fn main() {
    for case in CASES {
        for count in [10, 100, 1_000, 10_000] {
            measure(&case, count);
        }
    }
}

/// A way to write many rules, and the request that the n-th of them is for.
struct Case {
    name: &'static str,
    conditions: fn(usize) -> Conditions,
    request: fn(usize, usize) -> [String; 3],
}

const CASES: [Case; 6] = [
    Case {
        name: "typical",
        conditions: |n| Conditions {
            hosts: host(n / 10),
            paths: vec![Path::prefix(&format!("/api/v{}", n % 10)).expect("a path")],
            ..Conditions::default()
        },
        request: |n, _| [host_name(n / 10), format!("/api/v{}/users/17", n % 10), "x".into()],
    },
    Case {
        name: "hosts",
        conditions: |n| Conditions { hosts: host(n), ..Conditions::default() },
        request: |n, _| [host_name(n), "/index.html".into(), "x".into()],
    },
    Case {
        name: "paths",
        conditions: |n| Conditions {
            paths: vec![Path::prefix(&format!("/service/{n}")).expect("a path")],
            ..Conditions::default()
        },
        request: |n, _| ["example.com".into(), format!("/service/{n}/users"), "x".into()],
    },
    Case {
        name: "expressions",
        conditions: |n| Conditions {
            paths: vec![Path::Regex(regex(&format!("/service/{n}/[0-9]+")))],
            ..Conditions::default()
        },
        request: |n, _| ["example.com".into(), format!("/service/{n}/4711"), "x".into()],
    },
    Case {
        name: "last",
        conditions: |n| Conditions {
            paths: vec![Path::prefix(&format!("/service/{n}")).expect("a path")],
            ..Conditions::default()
        },
        request: |_, count| {
            let path = format!("/service/{}/users", count - 1);
            ["example.com".into(), path, "x".into()]
        },
    },
    Case {
        name: "others",
        conditions: |n| Conditions {
            headers: vec![Field {
                name: "x-tenant".into(),
                values: vec![Text::Exact(n.to_string())],
            }],
            ..Conditions::default()
        },
        request: |n, _| ["example.com".into(), "/".into(), n.to_string()],
    },
];

fn measure(case: &Case, count: usize) {
    let table = Table::compile((0..count).map(|n| rule((case.conditions)(n))).collect());
    // A stride that has no factor in common with a power of ten.
    let asked: Vec<[String; 3]> =
        (0..count).map(|n| (case.request)(n * 7_919 % count, count)).collect();
    let source = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let find = |[host, path, tenant]: &[String; 3]| {
        let headers = [("accept", "*/*"), ("x-tenant", tenant.as_str())];
        let request = Request {
            authority: host.as_bytes(),
            host: host.as_bytes(),
            path: path.as_bytes(),
            query: b"",
            method: b"GET",
            source,
            scheme: "http",
            headers: &headers[..],
        };
        black_box(table.find(&request)).is_some()
    };
    assert!(asked.iter().all(find), "each request has its rule");
    let before = ALLOCS.load(Relaxed);
    let mut nanos = [0.0; BATCHES];
    let mut requests = asked.iter().cycle();
    for batch in &mut nanos {
        let start = time::Instant::now();
        for asked in requests.by_ref().take(BATCH) {
            black_box(find(asked));
        }
        *batch = start.elapsed().as_nanos() as f64 / BATCH as f64;
    }
    let allocs = ALLOCS.load(Relaxed) - before;
    nanos.sort_by(f64::total_cmp);
    println!("rules {} {count} {:.0} ns {allocs} allocs", case.name, nanos[BATCHES / 2]);
}

fn rule(when: Conditions) -> Rule {
    Rule::new(when, Action::Service(Split::all(0)))
}

fn host_name(n: usize) -> String {
    format!("shop-{n}.example.com")
}

fn host(n: usize) -> Vec<Host> {
    vec![Host::parse(&host_name(n)).expect("a host")]
}

fn regex(text: &str) -> Regex {
    Regex::whole(text).expect("an expression")
}

const BATCHES: usize = 51;
const BATCH: usize = 2_000;

/// The system's allocator, counting.
struct Counting;

static ALLOCS: AtomicU64 = AtomicU64::new(0);

// SAFETY: everything is passed on to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCS.fetch_add(1, Relaxed);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;
