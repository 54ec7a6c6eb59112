//! Requests: pieces give what the whole gives, and what is forwarded is read as the same message.
//!
//! The first two bytes say where the rest is cut.
#![no_main]

use std::net::{IpAddr, Ipv4Addr};

use libfuzzer_sys::fuzz_target;
use loadline_http1::{
    ClientLines, ForwardRules, HeadLimits, Method, RequestHead, RequestOptions, Status,
    write_request,
};

fuzz_target!(|input: &[u8]| {
    let [first, second, bytes @ ..] = input else { return };
    let mut whole = RequestHead::default();
    let result = whole.parse(bytes);
    let mut pieces = RequestHead::default();
    let mut cuts = [first, second].map(|cut| usize::from(*cut).min(bytes.len()));
    cuts.sort_unstable();
    let early = cuts.iter().map(|cut| pieces.parse(&bytes[..*cut]));
    let early = early.take_while(|early| *early == Ok(Status::Partial)).count();
    if early == cuts.len() {
        assert_eq!(pieces.parse(bytes), result);
        assert_eq!(pieces.fields().as_slice(), whole.fields().as_slice());
    }
    let Ok(Status::Complete(length)) = result else { return };
    assert!(length <= bytes.len());
    if whole.method() == Method::Connect {
        return;
    }
    let client = ClientLines::new(ForwardRules::default(), IpAddr::V4(Ipv4Addr::LOCALHOST), "http");
    let mut out = Vec::new();
    write_request(&mut out, bytes, &whole, &client, RequestOptions::default());
    // The server's limits are its own: forwarding adds some lines.
    let HeadLimits { bytes: most, fields } = HeadLimits::default();
    let mut again = RequestHead::new(HeadLimits { bytes: 2 * most, fields: 2 * fields });
    assert_eq!(again.parse(&out), Ok(Status::Complete(out.len())), "{}", out.escape_ascii());
    assert_eq!(again.framing(), whole.framing());
    assert_eq!(again.method_text(&out), whole.method_text(bytes));
});
