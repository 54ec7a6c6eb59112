//! What a request that changes something makes invalid: RFC 9111 section 4.4.

use alloc::vec::Vec;

use super::{
    key::primary_key,
    message::{Request, Response},
};

/// The primary keys that a response makes invalid, none if the method is safe or the response an
/// error: the target of the request, and what `Location` and `Content-Location` name on the same
/// host. Other hosts are left alone, or a server could empty another's cache.
#[must_use]
pub fn invalidated_keys(request: &Request<'_>, response: &Response<'_>) -> Vec<Vec<u8>> {
    if is_safe(request.method) || !(200..400).contains(&response.status) {
        return Vec::new();
    }
    let mut keys = Vec::from([primary_key(request)]);
    for name in ["location", "content-location"] {
        let named = response.fields.single(name).and_then(|uri| resolve(request, uri));
        keys.extend(named.filter(|key| !keys.contains(key)));
    }
    keys
}

/// Whether a method asks for no change: RFC 9110 section 9.2.1, and RFC 3253, 4918, 5323. A method
/// that is not known may change anything.
#[must_use]
pub fn is_safe(method: &[u8]) -> bool {
    matches!(
        method,
        b"GET" | b"HEAD" | b"OPTIONS" | b"TRACE" | b"PROPFIND" | b"REPORT" | b"SEARCH" | b"QUERY"
    )
}

/// The primary key of a URI reference in the response to a request (RFC 3986 section 5.2); `None`
/// if it is on another host.
pub(super) fn resolve(request: &Request<'_>, reference: &[u8]) -> Option<Vec<u8>> {
    let reference = reference.split(|&byte| byte == b'#').next()?;
    let (scheme, rest) = split_scheme(reference).unwrap_or((request.scheme, reference));
    let target = if let Some(rest) = rest.strip_prefix(b"//") {
        let end = rest.iter().position(|byte| b"/?".contains(byte)).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let there = Request { scheme, authority, target: b"/", ..*request };
        let here = Request { target: b"/", ..*request };
        if primary_key(&there) != primary_key(&here) {
            return None;
        }
        path.to_vec()
    } else if scheme.eq_ignore_ascii_case(request.scheme) {
        relative_to(request.target, rest)
    } else {
        return None;
    };
    Some(primary_key(&Request { target: &without_dot_segments(&target), ..*request }))
}

fn split_scheme(reference: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = reference.iter().position(|byte| b":/?".contains(byte))?;
    (end > 0 && reference[end] == b':').then(|| (&reference[..end], &reference[end + 1..]))
}

/// The target that a path or query names beside `base`.
fn relative_to(base: &[u8], reference: &[u8]) -> Vec<u8> {
    let path = base.split(|&byte| byte == b'?').next().unwrap_or(base);
    match reference.first() {
        None => base.to_vec(),
        Some(b'/') => reference.to_vec(),
        Some(b'?') => [path, reference].concat(),
        Some(_) => {
            let directory = path.iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
            [&path[..directory], reference].concat()
        }
    }
}

/// RFC 3986 section 5.2.4, for a target with its query.
fn without_dot_segments(target: &[u8]) -> Vec<u8> {
    let end = target.iter().position(|&byte| byte == b'?').unwrap_or(target.len());
    let (path, query) = target.split_at(end);
    let mut kept: Vec<&[u8]> = Vec::new();
    let segments = path.strip_prefix(b"/").unwrap_or(path).split(|&byte| byte == b'/');
    let mut ends_in_directory = false;
    for segment in segments {
        ends_in_directory = matches!(segment, b"." | b"..");
        match segment {
            b"." => {}
            b".." => drop(kept.pop()),
            segment => kept.push(segment),
        }
    }
    let mut out = Vec::with_capacity(target.len() + 1);
    for segment in &kept {
        out.push(b'/');
        out.extend_from_slice(segment);
    }
    if ends_in_directory || out.is_empty() {
        out.push(b'/');
    }
    out.extend_from_slice(query);
    out
}

#[cfg(test)]
mod tests {
    use std::string::String;

    use super::*;
    use crate::cache::{
        field::{Fields, tests::lines},
        message::tests::get,
    };

    fn keys(method: &str, status: u16, response: &[&str]) -> Vec<String> {
        let fields = lines(response);
        let request = Request { method: method.as_bytes(), target: b"/d/a?q", ..get(&[]) };
        let response = Response { status, fields: Fields(&fields) };
        let keys = invalidated_keys(&request, &response);
        keys.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
    }

    #[test]
    fn what_changes_something_invalidates_its_target() {
        let target = ["http://www.example.com/d/a?q"];
        for method in ["POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"] {
            assert_eq!(keys(method, 204, &[]), target, "{method}");
            assert!(keys(method, 500, &[]).is_empty(), "{method}");
            assert!(keys(method, 404, &[]).is_empty(), "{method}");
        }
        for method in ["GET", "HEAD", "OPTIONS", "TRACE"] {
            assert!(keys(method, 200, &[]).is_empty(), "{method}");
        }
    }

    #[test]
    fn what_it_names_on_the_same_host_too() {
        for (reference, expected) in [
            ("/b", "/b"),
            ("b", "/d/b"),
            ("../b", "/b"),
            ("../../../b/.", "/b/"),
            ("./b?x=/../", "/d/b?x=/../"),
            ("?x", "/d/a?x"),
            ("http://WWW.example.com:80/c#f", "/c"),
            ("//www.example.com", "/"),
            ("", "/d/a?q"),
        ] {
            let all = keys("POST", 201, &[&std::format!("Location: {reference}")]);
            let expected = std::format!("http://www.example.com{expected}");
            assert_eq!(all.last(), Some(&expected), "{reference}");
        }
    }

    #[test]
    fn other_hosts_are_left_alone() {
        for reference in [
            "http://other.example/a", "https://www.example.com/a", "//other.example/a",
            "http://www.example.com:81/a", "mailto:x@www.example.com",
        ] {
            let fields = [
                &*std::format!("Location: {reference}"),
                &*std::format!("Content-Location: {reference}"),
            ];
            assert_eq!(keys("PUT", 200, &fields).len(), 1, "{reference}");
        }
    }
}
