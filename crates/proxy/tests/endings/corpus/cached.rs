//! The same messages where responses are cached: what is stored is for nobody else, and nothing
//! that another parser reads differently.

use std::{io::Write as _, sync::Arc};

use loadline_core::{
    fleet::Fleet,
    rules::{Action, Caching, Conditions, Routes, Rule, Split},
    state::Purge,
};
use loadline_http1::Method;

use super::{
    cases::{self, Case},
    reading::{self, Reading},
    requests::{Log, NEXT, ask, hyper_server, is_as_told},
    responses::{hyper_client, is_right},
};
use crate::support::{Proxy, Scripted, fleet, head};

/// The fleet, with a cache for every path.
fn cached(mut fleet: Fleet) -> Fleet {
    let rule = Rule {
        cache: Some(Caching::default()),
        ..Rule::new(Conditions::default(), Action::Service(Split::all(0)))
    };
    fleet.listeners[0].routes = Routes::new(vec![rule]);
    fleet
}

#[test]
fn no_ambiguous_request_changes_what_others_get_from_the_cache() {
    let log: Log = Arc::default();
    let proxy = Proxy::of(cached(fleet(&[hyper_server(log.clone())])));
    let all = Purge { url: None, prefix: Some("http".into()), tag: None, soft: false };
    let mut wrong = Vec::new();
    for Case { name, is, message, .. } in cases::read(include_str!("requests.txt")) {
        let bytes = [&message, NEXT].concat();
        let answer = ask(&proxy, &bytes);
        let ours = reading::requests(&bytes);
        let theirs = std::mem::take(&mut *log.lock().unwrap());
        let unknown = theirs.iter().find(|it| !ours.iter().any(|own| is_same(own, it)));
        if let Some(unknown) = unknown {
            wrong.push(format!("{name}: it reads {unknown:?}, not of {ours:?}"));
        } else if !is_as_told(&is, ours.len(), &answer) {
            wrong.push(format!("{name}: not {is}, but {} forwarded: {answer}", ours.len()));
        }
        for read in theirs.iter().filter(|read| read.start.starts_with("GET ")) {
            wrong.extend(poisoned(&proxy, read).map(|got| format!("{name}: others get {got}")));
        }
        log.lock().unwrap().clear();
        let _ = proxy.runtime.handle().purge(&all);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether what was read behind the cache is this request: it drops what is the client's alone, and
/// may ask for less than all of them.
fn is_same(own: &Reading, read: &Reading) -> bool {
    own.start == read.start && own.fields[0] == read.fields[0] && own.body == read.body
}

/// What somebody gets who asks for the same plainly, if that is for another request.
fn poisoned(proxy: &Proxy, read: &Reading) -> Option<String> {
    let host = read.fields[0].1.escape_ascii().to_string();
    let plain = format!("{} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n", read.start);
    let got = ask(proxy, plain.as_bytes());
    (!got.ends_with(&format!("\r\n\r\n{} of {host}", read.start))).then_some(got)
}

#[test]
fn no_ambiguous_response_is_stored_in_a_form_that_another_parser_reads_differently() {
    let mut wrong = Vec::new();
    for Case { name, is, message, .. } in cases::read(include_str!("responses.txt")) {
        let message = storable(&message);
        let ours = reading::response(&message, Method::Get);
        let server = Scripted::new(move |mut stream, _| {
            if head(&mut stream).is_some() {
                stream.write_all(&message).unwrap();
            }
        });
        let proxy = Proxy::of(cached(fleet(&[server.address])));
        for time in ["first", "second"] {
            let theirs = hyper_client(&proxy);
            // The head goes on before the body has come: the client sees then that it is cut.
            let is_cut = is == "refused" && theirs.is_err() && ours.is_none();
            if !is_cut && !is_right(&is, &theirs, ours.as_ref()) {
                wrong.push(format!("{name}, {time}: {is}, but {theirs:?}, ours {ours:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The response with a lifetime behind each of its first lines.
fn storable(message: &[u8]) -> Vec<u8> {
    let mut text = Vec::new();
    for line in message.split_inclusive(|byte| *byte == b'\n') {
        text.extend_from_slice(line);
        if line.starts_with(b"HTTP/1.") && line.ends_with(b"\r\n") {
            text.extend_from_slice(b"Cache-Control: max-age=60\r\n");
        }
    }
    text
}
