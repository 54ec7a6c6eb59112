//! URLs that redirects lead to, whole or relative (RFC 3986, 4.1), and whether a request asked for
//! them already.

use alloc::vec::Vec;

use super::{
    Conditions, Request, Template, Variable, Variables, normal, one_of, redirect::asks_for,
};

/// Its parts as they are written, without the fragment. What it does not give is as it was asked
/// for.
struct Reference<'a> {
    scheme: Option<&'a [u8]>,
    authority: Option<&'a [u8]>,
    path: &'a [u8],
    query: Option<&'a [u8]>,
}

/// Whether a location leads to where the request came. Where it has a variable that is not known
/// while routes are compared it is taken to lead elsewhere.
pub(super) fn leads_back<H: ?Sized>(location: &Template, request: &Request<'_, H>) -> bool {
    if location.unknown_to_routes().is_some() {
        return false;
    }
    let mut text = Vec::new();
    location.write(&InUrl(request), &mut text);
    Reference::read(&text).is_of(request)
}

/// Whether a location without maps leads none of the requests back that meet `conditions`. Only
/// true is certain.
pub(super) fn never_leads_back(location: &Template, conditions: &Conditions) -> bool {
    if location.unknown_to_routes().is_some() {
        return true;
    }
    let mut text = Vec::new();
    location.write(&AnyValue, &mut text);
    let to = Reference::read(&text);
    let is_known = |part: &&[u8]| !part.contains(&ANY);
    let (mut host, mut path) = (Vec::new(), Vec::new());
    let is_another_host = to.authority.filter(is_known).is_some_and(|authority| {
        let name = normal::host(authority, &mut host);
        !one_of(&conditions.hosts, |it| it.matches(name))
    });
    let whole_path = Some(to.path).filter(is_known).filter(|path| path.starts_with(b"/"));
    let is_another_path = whole_path.is_some_and(|written| {
        let path = normal::path(written, &mut path);
        !one_of(&conditions.paths, |it| it.matches(path))
    });
    is_another_host || is_another_path
}

impl<'a> Reference<'a> {
    fn read(text: &'a [u8]) -> Self {
        let text = text.split(|byte| *byte == b'#').next().unwrap_or_default();
        let (scheme, rest) = match text.iter().position(|byte| b":/?".contains(byte)) {
            Some(at) if text[at] == b':' => (Some(&text[..at]), &text[at + 1..]),
            _ => (None, text),
        };
        let (rest, query) = match rest.iter().position(|byte| *byte == b'?') {
            Some(at) => (&rest[..at], Some(&rest[at + 1..])),
            None => (rest, None),
        };
        let (authority, path) = match rest.strip_prefix(b"//") {
            Some(rest) => {
                let end = rest.iter().position(|byte| *byte == b'/').unwrap_or(rest.len());
                (Some(&rest[..end]), &rest[end..])
            }
            None => (None, rest),
        };
        Self { scheme, authority, path, query }
    }

    /// Whether it is the URL of the request.
    fn is_of<H: ?Sized>(&self, request: &Request<'_, H>) -> bool {
        let is_scheme = |scheme: &[u8]| scheme.eq_ignore_ascii_case(request.scheme.as_bytes());
        let is_here = match self.authority {
            Some(authority) => asks_for(request, authority),
            None => self.scheme.is_none(),
        };
        let keeps_query = self.authority.is_none() && self.path.is_empty();
        let is_query = match self.query {
            None if keeps_query => true,
            query => query.unwrap_or_default() == request.query,
        };
        is_here && is_query && self.scheme.is_none_or(is_scheme) && self.is_path(request.path)
    }

    fn is_path(&self, asked: &[u8]) -> bool {
        let mut scratch = Vec::new();
        match (self.path, self.authority) {
            (b"", None) => true,
            (b"", Some(_)) => asked == b"/",
            ([b'/', ..], _) => normal::path(self.path, &mut scratch) == asked,
            (beside, _) => {
                let end = asked.iter().rposition(|byte| *byte == b'/').map_or(0, |at| at + 1);
                let mut path = Vec::new();
                normal::encode(&asked[..end], &mut path);
                path.extend_from_slice(beside);
                normal::path(&path, &mut scratch) == asked
            }
        }
    }
}

/// The variables of a request with its path as URLs have it.
struct InUrl<'a>(&'a dyn Variables);

impl Variables for InUrl<'_> {
    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        if variable != Variable::Path {
            return self.0.write(variable, out);
        }
        let mut path = Vec::new();
        self.0.write(variable, &mut path);
        normal::encode(&path, out);
    }
}

/// Variables of which nothing is known but where a URL goes on behind them.
struct AnyValue;

impl Variables for AnyValue {
    fn write(&self, variable: Variable, out: &mut Vec<u8>) {
        out.extend_from_slice(match variable {
            Variable::Path | Variable::NormalPath => &[b'/', ANY],
            // It may have slashes.
            Variable::Query => &[ANY, b'?'],
            _ => &[ANY],
        });
    }
}

/// No location has this byte.
const ANY: u8 = 0xff;

#[cfg(test)]
mod tests {
    use core::net::Ipv4Addr;

    use super::*;
    use crate::rules::{Host, Path};

    /// Whether a location leads to `authority`, `path` and query `a=b` by http.
    fn is_back(location: &str, (authority, path): (&str, &str)) -> bool {
        let (mut host, mut scratch) = (Vec::new(), Vec::new());
        let headers: [(&str, &str); 0] = [];
        let request = Request {
            authority: authority.as_bytes(),
            host: normal::host(authority.as_bytes(), &mut host),
            path: normal::path(path.as_bytes(), &mut scratch),
            query: b"a=b",
            method: b"GET",
            source: Ipv4Addr::LOCALHOST.into(),
            scheme: "http",
            headers: &headers[..],
        };
        leads_back(&Template::read(location).expect("a template"), &request)
    }

    #[test]
    fn a_location_leads_back_where_it_is_what_was_asked_for() {
        let asked = ("a.test:8080", "/d/x%20y%3F");
        for (location, expected) in [
            ("$scheme://$host:8080$path?$query", true),
            ("http://A.test:8080/d/x%20y%3f?a=b#top", true),
            ("//a.test:8080$path?$query", true),
            ("$path?$query", true),
            ("x%20y%3F?a=b", true),
            ("../d/./x%20y%3F?a=b", true),
            ("", true),
            ("#top", true),
            ("?a=b", true),
            ("https://$host:8080$path?$query", false),
            ("$scheme://$host$path?$query", false),
            ("$scheme://b.test:8080$path?$query", false),
            ("$scheme://$host:8080$path", false),
            ("/d/x?a=b", false),
            ("/new$path?$query", false),
            ("z?a=b", false),
            ("?a=c", false),
            ("mailto:a@a.test", false),
            ("$path?$query&id=$request_id", false),
        ] {
            assert_eq!(is_back(location, asked), expected, "{location}");
        }
        assert!(is_back("http://a.test?$query", ("a.test:80", "/")));
        assert!(is_back("http://a.test:80/?$query", ("a.test", "/")));
    }

    #[test]
    fn a_location_of_another_host_or_path_than_is_asked_for_leads_nobody_back() {
        let conditions = Conditions {
            hosts: [Host::parse("a.test").expect("a host")].into(),
            paths: [Path::prefix("/old/").expect("a path")].into(),
            ..Conditions::default()
        };
        for (location, expected) in [
            ("https://b.test$path", true),
            ("https://b.test/?$query", true),
            ("$scheme://$host/new/", true),
            ("/new/", true),
            ("https://a.test$path", false),
            ("https://a.test/old/x", false),
            ("https://$host$path", false),
            ("http://$query/new/", false),
            ("/new$path", false),
            ("new", false),
            ("/old/$request_id", true),
        ] {
            let location = Template::read(location).expect("a template");
            assert_eq!(never_leads_back(&location, &conditions), expected, "{location}");
        }
        let everybody = Conditions::default();
        let location = Template::read("https://b.test/").expect("a template");
        assert!(!never_leads_back(&location, &everybody));
    }
}
