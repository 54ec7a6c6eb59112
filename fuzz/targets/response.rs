//! Answers: pieces give what the whole gives, and what is forwarded has the same status and frame.
//!
//! The first byte says where the rest is cut, and what was asked.
#![no_main]

use libfuzzer_sys::fuzz_target;
use loadline_http1::{
    Forwarded, Method, ResponseHead, ResponseOptions, Status, lenient_status, write_response,
};

fuzz_target!(|input: &[u8]| {
    let [cut, bytes @ ..] = input else { return };
    let to = if cut % 2 == 0 { Method::Get } else { Method::Head };
    let _ = lenient_status(bytes);
    let mut whole = ResponseHead::default();
    let result = whole.parse(bytes, to);
    let mut pieces = ResponseHead::default();
    let cut = usize::from(*cut).min(bytes.len());
    if pieces.parse(&bytes[..cut], to) == Ok(Status::Partial) {
        assert_eq!(pieces.parse(bytes, to), result);
        assert_eq!(pieces.fields().as_slice(), whole.fields().as_slice());
    }
    let Ok(Status::Complete(length)) = result else { return };
    let mut out = Vec::new();
    let options = ResponseOptions::default();
    if write_response(&mut out, bytes, &whole, options) == Forwarded::Unchanged {
        out.extend_from_slice(&bytes[..length]);
    }
    let mut again = ResponseHead::default();
    assert_eq!(again.parse(&out, to), Ok(Status::Complete(out.len())), "{}", out.escape_ascii());
    assert_eq!((again.status(), again.framing()), (whole.status(), whole.framing()));
});
