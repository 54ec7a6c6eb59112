//! Headers of the PROXY protocol, versions 1 and 2: what is found in the whole is found as soon as
//! the header is there and not before, and a header that is written is read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_core::fleet::ProxyVersion;
use proxy_protocol::{Header, read, write};

// The proxy keeps it to itself; nobody but this needs it.
#[path = "../../crates/proxy/src/listener/proxy_protocol.rs"]
mod proxy_protocol;

fuzz_target!(|bytes: &[u8]| {
    let Ok(Header::Whole { ends, length }) = read(bytes) else { return };
    assert!(length <= bytes.len() && length <= proxy_protocol::HEADER_MAX);
    assert_eq!(read(&bytes[..length]), read(bytes));
    for cut in 0..length {
        assert_eq!(read(&bytes[..cut]), Ok(Header::Partial), "{cut}");
    }
    let Some(ends) = ends else { return };
    for version in [ProxyVersion::V1, ProxyVersion::V2] {
        let mut written = Vec::new();
        write(&mut written, version, Some(ends));
        let again = read(&written);
        let Ok(Header::Whole { length, .. }) = again else { panic!("{again:?}") };
        assert_eq!(length, written.len());
    }
});
