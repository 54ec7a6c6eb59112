//! Requests for objects of a bucket, signed by Signature Version 4 or Azure's Shared Key, and what
//! of its responses clients may see.
//!
//! A request is made anew for the store: method, the path of the object, and what of the client's
//! head asks for a part of it or tells what the client has. It is signed just before it is sent, so
//! that each attempt has a time of its own. Responses lose all but what is in [`PASSED`].

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use http::{Request, header::HOST, request::Parts};
use loadline_core::{
    cache::{
        EntityTag, Field, Fields, RangeSpec, format_date, is_sent_with_304, parse_date, parse_range,
    },
    compress::etag,
    decide::reason::Reason,
    fleet::{Bucket, Store},
    time::UnixTime,
};
use reqsign_core::{ErrorKind, SignRequest};

use super::{
    asked::{Asked, decoded},
    credentials::Credential,
};
use crate::http::rules::field_name;

/// What is sent to the store for a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// This head.
    Request(Vec<u8>),
    /// This one, which asks for the store's error page, not for what the client asks for.
    ErrorPage(Vec<u8>),
    /// Nothing: the client gets this status, with these lines.
    Local(u16, &'static str),
}

/// Makes the request for a client's, whose head `text` begins with, with a signature for `region`
/// if there are credentials; for `all` of the object, where its range does not count.
///
/// # Errors
/// [`Reason::StoreTokenExpired`] where the credentials are no longer valid,
/// [`Reason::StoreCredentials`] where nothing can be signed with them. A request that nobody could
/// sign is refused by itself.
pub(super) fn outgoing(
    (store, bucket): (&Store, &Bucket),
    (text, all): (&[u8], bool),
    (credential, region): (Option<&Credential>, &str),
) -> Result<Outgoing, Reason> {
    let asked = Asked::of(text);
    let method = match asked.method {
        b"GET" => "GET",
        b"HEAD" => "HEAD",
        _ => return Ok(Outgoing::Local(405, "Allow: GET, HEAD\r\n")),
    };
    if asked.fields().any(|field| frames_body(&field)) {
        return Ok(Outgoing::Local(400, ""));
    }
    let Some(path) = path(store, bucket, asked.path) else { return Ok(Outgoing::Local(404, "")) };
    let mut fields = told(asked, all, bucket.account.is_none());
    if bucket.account.is_some() {
        // Each is signed once.
        fields.sort_by_key(|field| field.name.to_ascii_lowercase());
        fields.dedup_by(|one, other| one.name.eq_ignore_ascii_case(other.name));
    }
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut add = |parts: &[&[u8]]| parts.iter().for_each(|it| head.extend_from_slice(it));
    let Some(parts) = parts(method, (bucket, &path), &fields, (credential, region))? else {
        return Ok(Outgoing::Local(400, ""));
    };
    let host = bucket.authority.as_bytes();
    let target = parts.uri.path_and_query().map_or(&*path, |it| it.as_str());
    add(&[method.as_bytes(), b" ", target.as_bytes(), b" HTTP/1.1\r\nHost: ", host, b"\r\n"]);
    fields.iter().for_each(|field| add(&[field.name, b": ", field.value, b"\r\n"]));
    for (name, value) in &parts.headers {
        if name != HOST && !is_listed(ASKED, name.as_str().as_bytes()) {
            add(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
        }
    }
    add(&[b"\r\n"]);
    Ok(Outgoing::Request(head))
}

/// What of a client's head the store is told: what all stores read alike. A range is for `GET`
/// alone (RFC 9110 section 14.2), and tags come before dates (13.1.3 and 13.1.4). Without its range
/// a client gets the whole; conditions that are left out are judged by the head of the response.
fn told(asked: Asked<'_>, all: bool, takes_last: bool) -> Vec<Field<'_>> {
    let mut fields: Vec<Field<'_>> =
        asked.fields().filter(|field| is_listed(ASKED, field.name)).collect();
    for field in fields.iter_mut().filter(|field| field.is("if-none-match")) {
        field.value = etag::in_one_form(field.value);
    }
    let has = |name| Fields(&fields).has(name);
    let no_range = all || asked.method != b"GET" || !is_one_range(Fields(&fields), takes_last);
    let left_out = [
        ("range", no_range),
        ("if-range", no_range),
        ("if-modified-since", has("if-none-match")),
        ("if-unmodified-since", has("if-match")),
    ];
    fields.retain(|field| !left_out.iter().any(|(name, is_out)| *is_out && field.is(name)));
    if !are_plain(Fields(&fields)) {
        fields.retain(|field| !CONDITIONS.iter().any(|(name, _)| field.is(name)));
    }
    fields.retain(|field| is_text(field.value));
    fields
}

/// Whether a value has nothing but what can be signed.
fn is_text(value: &[u8]) -> bool {
    value.iter().all(|byte| matches!(byte, b' '..=b'~' | b'\t'))
}

/// Whether one range is asked for, written as all stores read it. Azure does not know the last
/// bytes.
fn is_one_range(fields: Fields<'_>, takes_last: bool) -> bool {
    let Some(value) = fields.single("range") else { return false };
    let fits = |byte: &u8| byte.is_ascii_digit() || *byte == b'-';
    let is_plain = value.strip_prefix(b"bytes=").is_some_and(|range| range.iter().all(fits));
    match parse_range(value).as_deref() {
        Some([RangeSpec::From(..)]) => is_plain,
        Some([RangeSpec::Suffix(_)]) => is_plain && takes_last,
        _ => false,
    }
}

/// Whether each condition has one strong tag, or a date in the form in which dates are written.
fn are_plain(fields: Fields<'_>) -> bool {
    CONDITIONS.iter().all(|(name, is_of_tag)| {
        let mut values = fields.all(name);
        match (values.next(), values.next()) {
            (None, _) => true,
            (Some(value), None) if *is_of_tag => {
                let tag = EntityTag::parse(value);
                tag.is_valid() && !tag.weak && is_text(value)
            }
            (Some(value), None) => {
                parse_date(value, UnixTime::EPOCH).is_some_and(|at| format_date(at) == *value)
            }
            _ => false,
        }
    })
}

/// Whether a request has conditions of which the store was `told` none.
pub(crate) fn leaves_out_conditions(asked: Fields<'_>, told: Fields<'_>) -> bool {
    let has_any = |fields: Fields<'_>| CONDITIONS.iter().any(|(name, _)| fields.has(name));
    has_any(asked) && !has_any(told)
}

/// Whether a field says that a body follows.
fn frames_body(field: &Field<'_>) -> bool {
    let is_long = || field.value.iter().any(|byte| matches!(byte, b'1'..=b'9'));
    field.is("transfer-encoding") || field.is("content-length") && is_long()
}

/// The path of an object; none for one that can lead out of the prefix, or be that of no object.
fn path(store: &Store, bucket: &Bucket, asked: &[u8]) -> Option<String> {
    let mut key = decoded(asked);
    let dots = |segment: &[u8]| segment == b"." || segment == b"..";
    if !key.starts_with(b"/") || key.contains(&0) || key.split(|it| *it == b'/').any(dots) {
        return None;
    }
    if key.ends_with(b"/") {
        key.extend_from_slice(store.index.as_bytes());
    }
    let key = String::from_utf8(key).ok().filter(|key| !is_too_long(bucket, key))?;
    Some(format!("{}{}", bucket.base, Bucket::encoded(key.as_bytes())))
}

/// Whether a name is longer, with the prefix before it, than that of any object: in bytes, at Azure
/// in characters.
fn is_too_long(bucket: &Bucket, key: &str) -> bool {
    if bucket.base.len() + key.len() <= NAME_MAX {
        return false;
    }
    // Above the prefix is the bucket, and above that the account where the host does not name it.
    let is_named = |account: &String| {
        bucket.authority.strip_prefix(&**account).is_some_and(|rest| rest.starts_with('.'))
    };
    let above = if bucket.account.as_ref().is_some_and(|it| !is_named(it)) { 2 } else { 1 };
    let prefix = bucket.base.splitn(above + 2, '/').nth(above + 1);
    let length = |text: &str| match bucket.account {
        None => text.len(),
        Some(_) => text.chars().count(),
    };
    let of_prefix = prefix.map_or(0, |it| {
        // The slash between the two is the one with which the name begins.
        length(&String::from_utf8_lossy(&decoded(it.as_bytes()))) + 1
    });
    of_prefix + length(key) - 1 > NAME_MAX
}

/// The head of a request with the fields of a signature, if there are credentials; none where it
/// cannot be signed with any.
fn parts(
    method: &str,
    (bucket, path): (&Bucket, &str),
    fields: &[Field<'_>],
    (credential, region): (Option<&Credential>, &str),
) -> Result<Option<Parts>, Reason> {
    let uri = format!("https://{}{path}", bucket.authority);
    let mut request = Request::builder().method(method).uri(uri);
    if bucket.account.is_some() {
        request = request.header("x-ms-version", AZURE_VERSION);
        for field in fields {
            request = request.header(field.name, field.value);
        }
    }
    let Ok(request) = request.body(()) else { return Ok(None) };
    let (mut parts, ()) = request.into_parts();
    let is_signed = match credential {
        None => true,
        Some(Credential::Aws(credential)) => {
            let signer = reqsign_aws_v4::RequestSigner::new("s3", region);
            sign(&signer, &mut parts, credential)?
        }
        Some(Credential::Azure(credential)) => {
            let signer = reqsign_azure_storage::RequestSigner::new();
            let is_signed = sign(&signer, &mut parts, credential)?;
            let has_token =
                matches!(credential, reqsign_azure_storage::Credential::SasToken { .. });
            // All that is done with a token is to append it, so that it is the token that is wrong.
            if !is_signed && has_token {
                return Err(Reason::StoreCredentials);
            }
            is_signed
        }
    };
    Ok(is_signed.then_some(parts))
}

/// Signs a request: false where it is the request with which that cannot be done.
fn sign<S: SignRequest>(
    signer: &S,
    parts: &mut Parts,
    credential: &S::Credential,
) -> Result<bool, Reason> {
    let context = reqsign_core::Context::new();
    let done = {
        let signing = pin!(signer.sign_request(&context, parts, Some(credential), None));
        // It is a computation, which the trait lets be more: it has nothing to wait for.
        signing.poll(&mut Context::from_waker(Waker::noop()))
    };
    match done {
        Poll::Ready(Ok(())) => Ok(true),
        Poll::Ready(Err(error)) => match error.kind() {
            ErrorKind::CredentialInvalid => Err(Reason::StoreTokenExpired),
            ErrorKind::RequestInvalid => Ok(false),
            _ => Err(Reason::StoreCredentials),
        },
        Poll::Pending => Err(Reason::StoreCredentials),
    }
}

/// Leaves in the head of a response, with which `text` ends, what clients may see of it.
pub(crate) fn hide_rest(text: &mut Vec<u8>) {
    let old = std::mem::take(text);
    for (index, line) in old.split_inclusive(|byte| *byte == b'\n').enumerate() {
        if index == 0 || line == b"\r\n" || is_listed(PASSED, field_name(line)) {
            text.extend_from_slice(line);
        }
    }
}

/// Makes the head of an object, with which `text` ends, that of a 304. Where something is still to
/// come of the object, which is nobody's, the connection is not `reusable`.
pub(crate) fn make_not_modified(text: &mut Vec<u8>, reusable: bool) {
    let old = std::mem::replace(text, b"HTTP/1.1 304 Not Modified\r\n".to_vec());
    for line in old.split_inclusive(|byte| *byte == b'\n').skip(1) {
        let name = field_name(line);
        if line != b"\r\n" && is_sent_with_304(name) && !is_listed(OF_THE_BODY, name) {
            text.extend_from_slice(line);
        }
    }
    let end: &[u8] = if reusable { b"\r\n" } else { b"Connection: close\r\n\r\n" };
    text.extend_from_slice(end);
}

fn is_listed(names: &[&str], name: &[u8]) -> bool {
    names.iter().any(|it| it.as_bytes().eq_ignore_ascii_case(name))
}

/// Whether a response is an object, a part of one, or tells that the client has it.
pub(crate) const fn is_object(status: u16) -> bool {
    matches!(status, 200 | 206 | 304)
}

/// What of a client's head a store is told.
const ASKED: &[&str] = &[
    "Range", "If-Range", "If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since",
    "Accept-Encoding",
];

/// The conditions that stores know, and whether each has tags.
const CONDITIONS: &[(&str, bool)] = &[
    ("if-match", true),
    ("if-none-match", true),
    ("if-modified-since", false),
    ("if-unmodified-since", false),
];

/// What of [`PASSED`] says how a body comes.
const OF_THE_BODY: &[&str] = &["Connection", "Trailer", "Transfer-Encoding"];

/// What of a response goes on: what describes the object and how it comes. Owners, identifiers of
/// requests, keys of encryption and names of software stay here.
const PASSED: &[&str] = &[
    "Accept-Ranges", "Age", "Cache-Control", "Connection", "Content-Disposition",
    "Content-Encoding", "Content-Language", "Content-Length", "Content-Range", "Content-Type",
    "Date", "ETag", "Expires", "Last-Modified", "Trailer", "Transfer-Encoding", "Vary",
];

/// The version of Azure's API whose rules of signatures and ranges are meant.
const AZURE_VERSION: &str = "2021-12-02";

/// The longest name of an object (S3 User Guide, "Creating object key names"; "Naming and
/// referencing containers, blobs, and metadata").
const NAME_MAX: usize = 1_024;

/// Room for a head with its signature.
const HEAD_BYTES: usize = 1 << 10;

#[cfg(test)]
mod tests {
    use loadline_core::fleet::StorePlace;

    use super::*;

    fn bucket(base: &str) -> Bucket {
        Bucket {
            authority: "s3.eu-central-1.amazonaws.com".into(),
            base: base.into(),
            region: "eu-central-1".into(),
            ..Bucket::default()
        }
    }

    fn made(base: &str, text: &str, credential: Option<&Credential>) -> Outgoing {
        let bucket = bucket(base);
        let store = Store::at(StorePlace::Bucket(bucket.clone()));
        outgoing((&store, &bucket), (text.as_bytes(), false), (credential, "eu-central-1"))
            .expect("a request")
    }

    fn line(target: &str) -> String {
        match made("/photos/web", &format!("GET {target} HTTP/1.1\r\n\r\n"), None) {
            Outgoing::Request(head) | Outgoing::ErrorPage(head) => {
                let head = String::from_utf8(head).unwrap();
                head.lines().next().unwrap().to_owned()
            }
            Outgoing::Local(status, _) => status.to_string(),
        }
    }

    #[test]
    fn keys_are_encoded_as_signatures_want_them_and_stay_below_the_prefix() {
        for (target, expected) in [
            ("/a.jpg?width=3", "GET /photos/web/a.jpg HTTP/1.1"),
            ("/a%20b+c%2fd", "GET /photos/web/a%20b%2Bc/d HTTP/1.1"),
            ("/50%25%E2%82%ac", "GET /photos/web/50%25%E2%82%AC HTTP/1.1"),
            ("/a//b", "GET /photos/web/a//b HTTP/1.1"),
            ("/dots../x.", "GET /photos/web/dots../x. HTTP/1.1"),
            ("/!'()*@:=", "GET /photos/web/%21%27%28%29%2A%40%3A%3D HTTP/1.1"),
            ("/", "GET /photos/web/index.html HTTP/1.1"),
            ("/docs/", "GET /photos/web/docs/index.html HTTP/1.1"),
            ("/../secret", "404"),
            ("/a/%2e%2e/%2E%2E/secret", "404"),
            ("/./a", "404"),
            ("/a%00", "404"),
            ("*", "404"),
        ] {
            assert_eq!(line(target), expected, "{target}");
        }
    }

    #[test]
    fn a_name_that_no_object_can_have_is_a_404_for_which_nothing_is_signed() {
        for target in ["/%e9", "/%C3", "/a%ff/b", "/%F0%9F%98", "/%ED%A0%80"] {
            assert_eq!(line(target), "404", "{target}");
            let aws = Credential::Aws(reqsign_aws_v4::Credential {
                access_key_id: "AKIAEXAMPLE".into(),
                secret_access_key: "secret".into(),
                session_token: None,
                expires_in: None,
            });
            let text = format!("GET {target} HTTP/1.1\r\n\r\n");
            assert_eq!(made("/photos", &text, Some(&aws)), Outgoing::Local(404, ""), "{target}");
        }
    }

    #[test]
    fn a_name_of_more_than_1024_bytes_is_a_404_with_the_prefix_that_goes_before_it() {
        // The prefix is `web/`.
        let of = |bytes: usize| line(&format!("/{}", "x".repeat(bytes)));
        assert!(of(1_020).starts_with("GET /photos/web/xxx"));
        assert_eq!(of(1_021), "404");
        let of_index = |bytes: usize| line(&format!("/{}/", "x".repeat(bytes)));
        assert!(of_index(1_009).ends_with("x/index.html HTTP/1.1"));
        assert_eq!(of_index(1_010), "404");
        // Encoded it is three times as long.
        assert!(line(&format!("/{}", "%C3%A9".repeat(510))).starts_with("GET "));
        assert_eq!(line(&format!("/{}", "%C3%A9".repeat(511))), "404");
    }

    #[test]
    fn a_name_at_azure_has_as_many_characters_below_its_account() {
        for (authority, base) in [
            ("shop.blob.core.windows.net", "/web/site"),
            ("127.0.0.1:10000", "/shop/web/site"),
            ("shop-of.example", "/shop/web/site"),
        ] {
            let bucket = Bucket {
                authority: authority.into(),
                account: Some("shop".into()),
                ..bucket(base)
            };
            let store = Store::at(StorePlace::Bucket(bucket.clone()));
            let is_asked = |characters: usize| {
                let text = format!("GET /{} HTTP/1.1\r\n\r\n", "%C3%A9".repeat(characters));
                let of = (text.as_bytes(), false);
                let made = outgoing((&store, &bucket), of, (None, "")).expect("no credentials");
                matches!(made, Outgoing::Request(_))
            };
            assert!(is_asked(1_019), "{authority}");
            assert!(!is_asked(1_020), "{authority}");
        }
    }

    #[test]
    fn a_store_is_told_what_it_needs_and_nothing_else_of_the_client() {
        let text = "GET /a HTTP/1.1\r\nHost: shop.example\r\nCookie: session=1\r\n\
            Authorization: Bearer x\r\nX-Forwarded-For: 192.0.2.1\r\nrange: bytes=0-1\r\n\
            If-None-Match: \"a\"\r\nx-amz-acl: public-read\r\n\r\n";
        let expected = "GET /b/a HTTP/1.1\r\nHost: s3.eu-central-1.amazonaws.com\r\n\
            range: bytes=0-1\r\nIf-None-Match: \"a\"\r\n\r\n";
        assert_eq!(made("/b", text, None), Outgoing::Request(expected.into()));
    }

    /// The fields that a store is told for a request with these.
    fn told_of(method: &str, lines: &str) -> String {
        match made("/b", &format!("{method} /a HTTP/1.1\r\n{lines}\r\n"), None) {
            Outgoing::Request(head) => {
                let head = String::from_utf8(head).expect("text");
                head.lines().skip(2).filter(|line| !line.is_empty()).collect()
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_head_of_an_object_is_asked_for_without_a_range() {
        let lines = "Range: bytes=0-1\r\nIf-Range: \"a\"\r\n";
        assert_eq!(told_of("HEAD", lines), "");
        assert_eq!(told_of("GET", lines), "Range: bytes=0-1If-Range: \"a\"");
    }

    #[test]
    fn a_store_is_told_of_two_conditions_the_one_that_counts() {
        let date = "Tue, 24 Nov 2026 11:00:00 GMT";
        for (tag, since) in
            [("If-None-Match", "If-Modified-Since"), ("If-Match", "If-Unmodified-Since")]
        {
            let lines = format!("{since}: {date}\r\n{tag}: \"a\"\r\n");
            assert_eq!(told_of("GET", &lines), format!("{tag}: \"a\""));
            assert_eq!(told_of("GET", &format!("{since}: {date}\r\n")), format!("{since}: {date}"));
        }
    }

    #[test]
    fn a_tag_that_was_made_weak_is_told_as_the_store_has_it() {
        let told = told_of("GET", "If-None-Match: W/\"a\", \"a\"\r\n");
        assert_eq!(told, "If-None-Match: \"a\"");
    }

    #[test]
    fn a_store_is_told_of_one_range_as_all_stores_read_it() {
        for range in ["bytes=0-1", "bytes=5-", "bytes=-4"] {
            let line = format!("Range: {range}");
            assert_eq!(told_of("GET", &format!("{line}\r\n")), line);
        }
        let twice = "bytes=0-1\r\nRange: bytes=2-3";
        for range in ["bytes=a", "bytes=3-1", "x=1-2", "Bytes=0-1", "bytes=0-0,3-4", "", twice] {
            let lines = format!("Range: {range}\r\nIf-Range: \"a\"\r\n");
            assert_eq!(told_of("GET", &lines), "", "{range}");
        }
    }

    #[test]
    fn a_store_is_told_of_conditions_only_as_all_stores_read_them() {
        let date = "Tue, 24 Nov 2026 11:00:00 GMT";
        for condition in [
            "If-None-Match: *",
            "If-None-Match: W/\"a\"",
            "If-None-Match: \"a\", \"b\"",
            "If-None-Match: \"a\"\r\nIf-None-Match: \"b\"",
            "If-Match: *",
            "If-Match: a",
            "If-Modified-Since: junk",
            "If-Unmodified-Since: Tuesday, 24-Nov-26 11:00:00 GMT",
            "If-None-Match: \"a\"\r\nIf-Match: *",
            "If-None-Match: \"\u{e9}\"",
            "If-Match: \"\u{e9}\"\r\nIf-None-Match: \"a\"",
        ] {
            assert_eq!(told_of("GET", &format!("{condition}\r\n")), "", "{condition}");
        }
        for condition in ["If-None-Match: \"a\"".to_owned(), format!("If-Modified-Since: {date}")] {
            assert_eq!(told_of("GET", &format!("{condition}\r\n")), condition);
        }
        let junk = "If-None-Match: \"a\"\r\nIf-Modified-Since: junk\r\n";
        assert_eq!(told_of("GET", junk), "If-None-Match: \"a\"", "the date does not count");
    }

    #[test]
    fn the_head_of_an_object_that_a_client_has_says_so_and_ends_the_connection_before_the_object() {
        for (reusable, last) in [(false, "Connection: close\r\n"), (true, "")] {
            let mut text = b"HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 1\r\n\
                Vary: Origin\r\nConnection: keep-alive\r\nContent-Type: text/html\r\n\r\n"
                .to_vec();
            make_not_modified(&mut text, reusable);
            let expected = "HTTP/1.1 304 Not Modified\r\nETag: \"a\"\r\nVary: Origin\r\n";
            assert_eq!(String::from_utf8(text).unwrap(), format!("{expected}{last}\r\n"));
        }
    }

    #[test]
    fn a_request_with_a_body_is_refused_by_its_head_whatever_has_come_of_it() {
        let given = |lines: &str| made("/b", &format!("GET /a HTTP/1.1\r\n{lines}\r\n"), None);
        for lines in ["Content-Length: 10\r\n", "transfer-encoding: chunked\r\n"] {
            assert_eq!(given(lines), Outgoing::Local(400, ""), "{lines}");
        }
        assert!(matches!(given("Content-Length: 0\r\n"), Outgoing::Request(_)));
    }

    #[test]
    fn a_signature_covers_host_and_time_and_carries_the_token() {
        let credential = Credential::Aws(reqsign_aws_v4::Credential {
            access_key_id: "AKIAEXAMPLE".into(),
            secret_access_key: "secret".into(),
            session_token: Some("token".into()),
            expires_in: None,
        });
        let Outgoing::Request(head) = made("/b", "GET /a HTTP/1.1\r\n\r\n", Some(&credential))
        else {
            panic!("a request");
        };
        let head = String::from_utf8(head).unwrap().to_ascii_lowercase();
        for words in [
            "authorization: aws4-hmac-sha256 credential=akiaexample/",
            "/eu-central-1/s3/aws4_request",
            "signedheaders=host;x-amz-content-sha256;x-amz-date;x-amz-security-token",
            "x-amz-security-token: token\r\n",
        ] {
            assert!(head.contains(words), "{words}: {head}");
        }
        assert_eq!(head.matches("host: ").count(), 1, "{head}");
        assert!(!head.contains("secret\r"), "{head}");
    }

    #[test]
    fn every_byte_of_a_key_is_sent_once_and_can_be_read_back() {
        // All bytes that UTF-8 has: some as a character, others in pairs.
        let of_character = |it: u32| char::from_u32(it).map(|it| it.to_string().into_bytes());
        let characters = (1..=0x7ff).chain([0x20ac, 0xfffd, 0x1f600, 0x10_fffd]);
        for bytes in characters.filter(|it| *it != u32::from('/')).filter_map(of_character) {
            let escaped: String = bytes.iter().map(|byte| format!("%{byte:02x}")).collect();
            let line = line(&format!("/n{escaped}m"));
            let path = line.strip_prefix("GET ").and_then(|it| it.strip_suffix(" HTTP/1.1"));
            let path = path.expect("a line");
            assert!(path.bytes().all(|it| it.is_ascii_graphic() && it != b'+'), "{line}");
            assert_eq!(decoded(path.as_bytes()), [b"/photos/web/n", &bytes[..], b"m"].concat());
        }
    }

    #[test]
    fn azure_is_asked_in_its_own_way() {
        let bucket = Bucket {
            authority: "shop.blob.core.windows.net".into(),
            account: Some("shop".into()),
            ..bucket("/web")
        };
        let store = Store::at(StorePlace::Bucket(bucket.clone()));
        let text =
            b"GET /a%20b HTTP/1.1\r\nRange: bytes=0-1\r\nrange: bytes=0-1\r\nCookie: a\r\n\r\n";
        let head = |credential: Option<Credential>| {
            let with = (credential.as_ref(), "");
            match outgoing((&store, &bucket), (&text[..], false), with) {
                Ok(Outgoing::Request(head)) => String::from_utf8(head).expect("text"),
                other => panic!("{other:?}"),
            }
        };
        let expected = "GET /web/a%20b HTTP/1.1\r\nHost: shop.blob.core.windows.net\r\n\
            Range: bytes=0-1\r\nx-ms-version: 2021-12-02\r\n\r\n";
        assert_eq!(head(None), expected);
        let key = reqsign_azure_storage::Credential::with_shared_key("shop", "c2VjcmV0");
        let signed = head(Some(Credential::Azure(key)));
        for line in ["authorization: SharedKey shop:", "x-ms-date: ", "Range: bytes=0-1"] {
            assert_eq!(signed.matches(&format!("\r\n{line}")).count(), 1, "{line}: {signed}");
        }
        let last = b"GET /a HTTP/1.1\r\nRange: bytes=-4\r\n\r\n";
        let Ok(Outgoing::Request(told)) =
            outgoing((&store, &bucket), (&last[..], false), (None, ""))
        else {
            panic!("a request");
        };
        assert!(!String::from_utf8_lossy(&told).contains("Range"), "Azure has no last bytes");
        let token = reqsign_azure_storage::Credential::with_sas_token("sv=2021&sig=a%2Bb");
        let signed = head(Some(Credential::Azure(token)));
        assert!(signed.starts_with("GET /web/a%20b?sv=2021&sig=a%2Bb HTTP/1.1\r\n"), "{signed}");
    }

    #[test]
    fn azure_is_asked_without_what_of_the_client_cannot_be_signed() {
        let bucket = Bucket { account: Some("shop".into()), ..bucket("/web") };
        let store = Store::at(StorePlace::Bucket(bucket.clone()));
        let key = reqsign_azure_storage::Credential::with_shared_key("shop", "c2VjcmV0");
        let credential = Credential::Azure(key);
        for name in ["If-None-Match", "If-Match", "Accept-Encoding"] {
            let value = b": \"\xe9\"\r\nRange: bytes=0-1\r\nIf-Range: \"\xff\"\r\n\r\n";
            let text = [b"GET /a HTTP/1.1\r\n", name.as_bytes(), value].concat();
            let made = outgoing((&store, &bucket), (&text[..], false), (Some(&credential), ""));
            let Ok(Outgoing::Request(head)) = made else { panic!("{name}: {made:?}") };
            let head = String::from_utf8(head).expect("text");
            assert!(!head.contains(name) && !head.contains("If-Range"), "{name}: {head}");
            assert!(head.contains("\r\nRange: bytes=0-1\r\n"), "{name}: {head}");
        }
    }

    #[test]
    fn only_what_describes_the_object_goes_on() {
        let mut text = b"HTTP/1.1 200 OK\r\nx-amz-id-2: x\r\nETag: \"a\"\r\nServer: AmazonS3\r\n\
            x-amz-server-side-encryption-aws-kms-key-id: arn\r\nContent-Length: 1\r\n\r\n"
            .to_vec();
        hide_rest(&mut text);
        let expected = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
