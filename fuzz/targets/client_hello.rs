//! Names in TLS: a ClientHello that is found is found as soon as it is there, whatever follows.
#![no_main]

use client_hello::{Hello, read};
use libfuzzer_sys::fuzz_target;

// The proxy keeps it to itself; nobody but this needs it.
#[path = "../../crates/proxy/src/tcp/client_hello.rs"]
mod client_hello;

fuzz_target!(|bytes: &[u8]| {
    let whole = read(bytes);
    for cut in (0..bytes.len()).rev().take(64) {
        match read(&bytes[..cut]) {
            Ok(Hello::Partial) => {}
            // What is decided stays decided.
            decided => assert_eq!(decided, whole, "{cut}"),
        }
    }
    if let Ok(Hello::Whole(Some(name))) = whole {
        assert!(name.is_ascii() && !name.is_empty() && name.len() <= 253);
    }
});
