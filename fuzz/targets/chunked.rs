//! Chunked bodies: pieces of any size give what the whole gives.
//!
//! The first byte is the size of the pieces.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_http1::{BodyReader, Framing, ParseError};

fuzz_target!(|input: &[u8]| {
    let [size, bytes @ ..] = input else { return };
    assert_eq!(read(bytes, usize::from(*size).max(1)), read(bytes, usize::MAX));
});

/// What was consumed, whether that was all, the payload, and the number of trailers.
fn read(bytes: &[u8], size: usize) -> Result<(usize, bool, Vec<u8>, Option<usize>), ParseError> {
    let mut reader = BodyReader::new(Framing::Chunked);
    let (mut at, mut data) = (0, Vec::new());
    while at < bytes.len() && !reader.is_finished() {
        let piece = &bytes[at..at + size.min(bytes.len() - at)];
        at += reader.feed_data(piece, |payload| data.extend_from_slice(payload))?.consumed;
    }
    let trailers = reader.trailers().map(|trailers| trailers.iter().count());
    Ok((at, reader.is_finished(), data, trailers))
}
