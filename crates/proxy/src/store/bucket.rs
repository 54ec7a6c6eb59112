//! Requests for objects of a bucket, signed by Signature Version 4, and what of its responses
//! clients may see.
//!
//! A request is made anew for the store: method, the path of the object, and what of the client's
//! head asks for a part of it or tells what the client has. It is signed just before it is sent, so
//! that each attempt has a time of its own. Responses lose all but what is in [`PASSED`].

use std::{
    pin::pin,
    task::{Context, Poll, Waker},
};

use http::{HeaderName, Request, request::Parts};
use loadline_core::{
    decide::reason::Reason,
    fleet::{Bucket, Store},
};
use reqsign_aws_v4::{Credential, RequestSigner};
use reqsign_core::SignRequest as _;

use super::asked::{Asked, decoded};

/// What is sent to the store for a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// This head.
    Request(Vec<u8>),
    /// Nothing: the client gets this status, with these lines.
    Local(u16, &'static str),
}

/// Makes the request for a client's, whose head `text` begins with, with a signature for `region`
/// if there are credentials.
///
/// # Errors
/// [`Reason::StoreTokenExpired`] where the credentials are no longer valid,
/// [`Reason::StoreCredentials`] where nothing can be signed with them.
pub(super) fn outgoing(
    (store, bucket): (&Store, &Bucket),
    text: &[u8],
    has_body: bool,
    (credential, region): (Option<&Credential>, &str),
) -> Result<Outgoing, Reason> {
    let asked = Asked::of(text);
    let method = match asked.method {
        b"GET" => "GET",
        b"HEAD" => "HEAD",
        _ => return Ok(Outgoing::Local(405, "Allow: GET, HEAD\r\n")),
    };
    if has_body {
        return Ok(Outgoing::Local(400, ""));
    }
    let Some(path) = path(store, bucket, asked.path) else { return Ok(Outgoing::Local(404, "")) };
    let mut head = Vec::with_capacity(HEAD_BYTES);
    let mut add = |parts: &[&[u8]]| parts.iter().for_each(|it| head.extend_from_slice(it));
    let host = bucket.authority.as_bytes();
    add(&[method.as_bytes(), b" ", path.as_bytes(), b" HTTP/1.1\r\nHost: ", host, b"\r\n"]);
    for field in asked.fields().filter(|field| is_listed(ASKED, field.name)) {
        add(&[field.name, b": ", field.value, b"\r\n"]);
    }
    if let Some(credential) = credential {
        for (name, value) in &signed(method, (bucket, &path), credential, region)?.headers {
            if name != HeaderName::from_static("host") {
                add(&[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
            }
        }
    }
    add(&[b"\r\n"]);
    Ok(Outgoing::Request(head))
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
    Some(format!("{}{}", bucket.base, Bucket::encoded(&key)))
}

/// The head of a request with the fields of a signature.
fn signed(
    method: &str,
    (bucket, path): (&Bucket, &str),
    credential: &Credential,
    region: &str,
) -> Result<Parts, Reason> {
    let uri = format!("https://{}{path}", bucket.authority);
    let request = Request::builder().method(method).uri(uri).body(());
    let (mut parts, ()) = request.map_err(|_| Reason::StoreCredentials)?.into_parts();
    let signer = RequestSigner::new("s3", region);
    let context = reqsign_core::Context::new();
    let done = {
        let signing = pin!(signer.sign_request(&context, &mut parts, Some(credential), None));
        // It is a computation, which the trait lets be more: it has nothing to wait for.
        signing.poll(&mut Context::from_waker(Waker::noop()))
    };
    match done {
        Poll::Ready(Ok(())) => Ok(parts),
        Poll::Ready(Err(error)) if error.kind() == reqsign_core::ErrorKind::CredentialInvalid => {
            Err(Reason::StoreTokenExpired)
        }
        Poll::Ready(Err(_)) | Poll::Pending => Err(Reason::StoreCredentials),
    }
}

/// Leaves in the head of a response, with which `text` ends, what clients may see of it.
pub(crate) fn hide_rest(text: &mut Vec<u8>) {
    let old = std::mem::take(text);
    for (index, line) in old.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let name = line.split(|byte| *byte == b':').next().unwrap_or_default();
        if index == 0 || line == b"\r\n" || is_listed(PASSED, name) {
            text.extend_from_slice(line);
        }
    }
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
    "Range",
    "If-Range",
    "If-Match",
    "If-None-Match",
    "If-Modified-Since",
    "If-Unmodified-Since",
    "Accept-Encoding",
];

/// What of a response goes on: what describes the object and how it comes. Owners, identifiers of
/// requests, keys of encryption and names of software stay here.
const PASSED: &[&str] = &[
    "Accept-Ranges",
    "Age",
    "Cache-Control",
    "Connection",
    "Content-Disposition",
    "Content-Encoding",
    "Content-Language",
    "Content-Length",
    "Content-Range",
    "Content-Type",
    "Date",
    "ETag",
    "Expires",
    "Last-Modified",
    "Strict-Transport-Security",
    "Trailer",
    "Transfer-Encoding",
    "Vary",
];

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
        outgoing((&store, &bucket), text.as_bytes(), false, (credential, "eu-central-1"))
            .expect("a request")
    }

    fn line(target: &str) -> String {
        match made("/photos/web", &format!("GET {target} HTTP/1.1\r\n\r\n"), None) {
            Outgoing::Request(head) => {
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
    fn a_store_is_told_what_it_needs_and_nothing_else_of_the_client() {
        let text = "GET /a HTTP/1.1\r\nHost: shop.example\r\nCookie: session=1\r\n\
            Authorization: Bearer x\r\nX-Forwarded-For: 192.0.2.1\r\nrange: bytes=0-1\r\n\
            If-None-Match: \"a\"\r\nx-amz-acl: public-read\r\n\r\n";
        let expected = "GET /b/a HTTP/1.1\r\nHost: s3.eu-central-1.amazonaws.com\r\n\
            range: bytes=0-1\r\nIf-None-Match: \"a\"\r\n\r\n";
        assert_eq!(made("/b", text, None), Outgoing::Request(expected.into()));
    }

    #[test]
    fn a_signature_covers_host_and_time_and_carries_the_token() {
        let credential = Credential {
            access_key_id: "AKIAEXAMPLE".into(),
            secret_access_key: "secret".into(),
            session_token: Some("token".into()),
            expires_in: None,
        };
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
    fn only_what_describes_the_object_goes_on() {
        let mut text = b"HTTP/1.1 200 OK\r\nx-amz-id-2: x\r\nETag: \"a\"\r\nServer: AmazonS3\r\n\
            x-amz-server-side-encryption-aws-kms-key-id: arn\r\nContent-Length: 1\r\n\r\n"
            .to_vec();
        hide_rest(&mut text);
        let expected = "HTTP/1.1 200 OK\r\nETag: \"a\"\r\nContent-Length: 1\r\n\r\n";
        assert_eq!(String::from_utf8(text).unwrap(), expected);
    }
}
