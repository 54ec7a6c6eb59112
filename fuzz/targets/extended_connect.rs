//! Beginnings of streams of HTTP/3: what is taken out of a head is the same in pieces and whole, and
//! everything else comes out as it went in.
#![no_main]

use extended::Opening;
use libfuzzer_sys::fuzz_target;

// The proxy keeps it to itself; nobody but this needs it.
#[path = "../../crates/proxy/src/http3/extended.rs"]
mod extended;

fuzz_target!(|bytes: &[u8]| {
    let Some((size, stream)) = bytes.split_first() else { return };
    let (whole, has_protocol) = seen(stream, usize::MAX);
    assert_eq!(seen(stream, usize::from(*size).max(1)), (whole.clone(), has_protocol));
    if has_protocol {
        // Type and length take two to nine bytes, and the line that is gone took nine at least.
        assert!(whole.len() < stream.len());
    } else {
        assert_eq!(whole, stream);
    }
});

/// What comes out of a stream in pieces of this size, and whether it has `:protocol`.
fn seen(stream: &[u8], size: usize) -> (Vec<u8>, bool) {
    let mut opening = Opening::new(512);
    let mut seen = Vec::new();
    for piece in stream.chunks(size) {
        seen.extend_from_slice(&opening.take(piece));
        assert!(!opening.is_over() || opening.rest().is_empty());
    }
    seen.extend_from_slice(&opening.rest());
    (seen, opening.protocol.is_some())
}
