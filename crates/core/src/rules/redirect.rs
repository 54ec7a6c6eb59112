//! Redirects, and the requests for which they are none, since they would lead to the same URL.

use alloc::{string::String, vec::Vec};

use super::{
    Conditions, Headers, Path, PathChange, Request, Template, Variables, normal,
    pattern::is_under,
    reference::{leads_back, never_leads_back},
};

/// A response that sends the client elsewhere. What is not given stays as it was asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redirect {
    /// 301, 302, 303, 307 or 308.
    pub status: u16,
    /// `http` or `https`.
    pub scheme: Option<String>,
    /// The host, with its port where it has one.
    pub host: Option<String>,
    /// What becomes of the path.
    pub path: Option<PathChange>,
    /// All of where to, instead of the parts. It decides as well: the redirect is for nobody for
    /// whom a map in it has no value.
    pub location: Option<Template>,
}

impl Redirect {
    /// Whether it leads somewhere else than to where the request came.
    pub(super) fn leads_elsewhere<H: Headers + ?Sized>(&self, request: &Request<'_, H>) -> bool {
        if request.path == b"*" {
            // `OPTIONS *` asks about the server, and has no URL.
            return false;
        }
        if let Some(location) = &self.location {
            // It asks for the response by GET (RFC 9110, 15.4.4).
            let changes_method = self.status == 303 && !matches!(request.method, b"GET" | b"HEAD");
            return location.maps().all(|map| !map.value(request).is_empty())
                && (changes_method || !leads_back(location, request));
        }
        self.scheme.as_deref().is_some_and(|it| it != request.scheme)
            || self.host.as_deref().is_some_and(|host| !asks_for(request, host.as_bytes()))
            || self.path.as_ref().is_some_and(|path| {
                path.filled_in(request).as_ref().unwrap_or(path).changes(request.path)
            })
    }

    /// Whether it leads elsewhere for all requests that meet `conditions`. Only true is certain.
    pub(super) fn always_leads_elsewhere(&self, conditions: &Conditions) -> bool {
        if let Some(location) = &self.location {
            return location.maps().next().is_none() && never_leads_back(location, conditions);
        }
        let Conditions { hosts, paths, .. } = conditions;
        let is_elsewhere = match &self.path {
            Some(PathChange::Whole(to)) => {
                let path = normal_written(to);
                !paths.is_empty() && !paths.iter().any(|it| it.matches(&path))
            }
            Some(change @ PathChange::Prefix { from, .. }) => {
                let paths = [Path::Prefix(from.clone())].into();
                let is_below = Conditions { paths, ..Conditions::default() }.cover(conditions);
                is_below && change.inner_prefix().is_none()
            }
            Some(PathChange::Regex { .. } | PathChange::Map(_)) | None => false,
        };
        let is_another = |host: &str| {
            let mut scratch = Vec::new();
            let name = normal::host(host.as_bytes(), &mut scratch);
            !hosts.is_empty() && !hosts.iter().any(|it| it.matches(name))
        };
        is_elsewhere || self.host.as_deref().is_some_and(is_another)
    }

    /// Whether it is known where to: to another scheme only with a host, which a request of
    /// HTTP/1.0 need not have.
    #[must_use]
    pub fn is_known(&self, asked: &Asked<'_>) -> bool {
        let is_relative = self.scheme.as_deref().is_none_or(|scheme| scheme == asked.scheme);
        self.location.is_some() || self.host.is_some() || !asked.host.is_empty() || is_relative
    }

    /// Writes where to: `raw` is the path as it was asked for, `path` its normal form, `query`
    /// goes along. A port goes with the host that was asked for, but not to another scheme. Without
    /// a host it is a path.
    pub fn location(&self, asked: &Asked<'_>, variables: &dyn Variables, out: &mut Vec<u8>) {
        if let Some(location) = &self.location {
            return location.write(variables, out);
        }
        let scheme = self.scheme.as_deref().unwrap_or(asked.scheme);
        let host = match &self.host {
            Some(host) => host.as_bytes(),
            None if scheme == asked.scheme => asked.authority,
            None => asked.host,
        };
        if !host.is_empty() {
            out.extend_from_slice(scheme.as_bytes());
            out.extend_from_slice(b"://");
            out.extend_from_slice(host);
        }
        let mapped = self.path.as_ref().and_then(|path| path.filled_in(variables));
        let path = mapped.as_ref().or(self.path.as_ref());
        let is_asked = |host: &String| host.as_bytes().eq_ignore_ascii_case(asked.host);
        let is_same_host = self.host.as_ref().is_none_or(is_asked);
        let path = path.filter(|path| !(is_same_host && path.has_moved(asked.path)));
        let changed = path.is_some_and(|path| path.write_raw(asked.raw_path, asked.path, out));
        if !changed {
            out.extend_from_slice(asked.raw_path);
        }
        if !asked.query.is_empty() {
            out.push(b'?');
            out.extend_from_slice(asked.query);
        }
    }
}

/// The parts of the address that a client asked for.
#[derive(Clone, Copy, Debug)]
pub struct Asked<'a> {
    /// `http` or `https`.
    pub scheme: &'a str,
    /// Host and port as they came.
    pub authority: &'a [u8],
    /// The host in its normal form.
    pub host: &'a [u8],
    /// The path as it came.
    pub raw_path: &'a [u8],
    /// The path in its normal form.
    pub path: &'a [u8],
    /// Without the question mark.
    pub query: &'a [u8],
}

/// Whether a request came to this host, with this port where it has one.
pub(super) fn asks_for<H: ?Sized>(request: &Request<'_, H>, authority: &[u8]) -> bool {
    let asked = without_default_port(request.authority, request.scheme);
    asked.eq_ignore_ascii_case(without_default_port(authority, request.scheme))
}

fn without_default_port<'a>(authority: &'a [u8], scheme: &str) -> &'a [u8] {
    let port: &[u8] = if scheme == "https" { b":443" } else { b":80" };
    let shorter = authority.strip_suffix(port).or_else(|| authority.strip_suffix(b":"));
    shorter.unwrap_or(authority)
}

impl PathChange {
    /// Whether a path is in the directory below its prefix to which that is moved. There it stays:
    /// it would become longer without end.
    #[must_use]
    pub fn has_moved(&self, path: &[u8]) -> bool {
        self.inner_prefix().is_some_and(|to| is_under(path, to))
    }

    /// Whether a path becomes another.
    fn changes(&self, path: &[u8]) -> bool {
        if self.has_moved(path) {
            return false;
        }
        let (mut to, mut scratch) = (Vec::new(), Vec::new());
        self.write(path, &mut to) && normal::path(&to, &mut scratch) != path
    }

    /// The normal form of the new prefix, where that is below the old one.
    fn inner_prefix(&self) -> Option<Vec<u8>> {
        let Self::Prefix { from, to } = self else { return None };
        let to = normal_written(to);
        let to = to.strip_suffix(b"/").unwrap_or(&to);
        is_under(to, from).then(|| to.to_vec())
    }
}

/// The normal form of a path that the file gives.
fn normal_written(path: &str) -> Vec<u8> {
    let (mut written, mut scratch) = (Vec::new(), Vec::new());
    normal::encode_written(path.as_bytes(), &mut written);
    normal::path(&written, &mut scratch).to_vec()
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use core::net::Ipv4Addr;

    use super::*;
    use crate::rules::Variable;

    struct Nothing;

    impl Variables for Nothing {
        fn write(&self, _: Variable, _: &mut Vec<u8>) {}
    }

    #[test]
    fn a_redirect_to_https_keeps_host_path_and_query_but_not_the_port() {
        let redirect = |host: Option<&str>, path| Redirect {
            status: 308,
            scheme: Some("https".into()),
            host: host.map(Into::into),
            path,
            location: None,
        };
        let asked = Asked {
            scheme: "http",
            authority: b"example.com:8080",
            host: b"example.com",
            raw_path: b"/a%2fb",
            path: b"/a/b",
            query: b"x=1",
        };
        let location = |redirect: Redirect| {
            let mut out = vec![];
            redirect.location(&asked, &Nothing, &mut out);
            String::from_utf8(out).expect("ASCII")
        };
        assert_eq!(location(redirect(None, None)), "https://example.com/a%2fb?x=1");
        let moved = PathChange::Prefix { from: "/a".into(), to: "/c".into() };
        let moved = location(redirect(Some("new.example:8443"), Some(moved)));
        assert_eq!(moved, "https://new.example:8443/c/b?x=1");
    }

    #[test]
    fn what_is_in_the_directory_that_a_redirect_leads_to_stays_there_by_https() {
        let location = |host: Option<&str>, path: &str, from: &str, to: &str| {
            let redirect = Redirect {
                status: 308,
                scheme: Some("https".into()),
                host: host.map(Into::into),
                path: Some(PathChange::Prefix { from: from.into(), to: to.into() }),
                location: None,
            };
            let mut scratch = vec![];
            let asked = Asked {
                scheme: "http",
                authority: b"h",
                host: b"h",
                raw_path: path.as_bytes(),
                path: normal::path(path.as_bytes(), &mut scratch),
                query: b"",
            };
            let mut out = vec![];
            redirect.location(&asked, &Nothing, &mut out);
            String::from_utf8(out).expect("ASCII")
        };
        for (host, path, from, to, expected) in [
            (None, "/x", "", "/docs", "https://h/docs/x"),
            (None, "/docs/x%2Fy", "", "/docs", "https://h/docs/x%2Fy"),
            (None, "/a/b%20c/d", "/a", "/a/b%20c", "https://h/a/b%20c/d"),
            (Some("H"), "/docs/x", "", "/docs", "https://H/docs/x"),
            (Some("other"), "/docs/x", "", "/docs", "https://other/docs/docs/x"),
        ] {
            assert_eq!(location(host, path, from, to), expected, "{host:?} {path}");
        }
    }

    #[test]
    fn a_request_without_a_host_is_led_to_a_path_or_nowhere() {
        let redirect = |scheme: Option<&str>| Redirect {
            status: 308,
            scheme: scheme.map(Into::into),
            host: None,
            path: Some(PathChange::Whole("/b".into())),
            location: None,
        };
        let asked = Asked {
            scheme: "http",
            authority: b"",
            host: b"",
            raw_path: b"/a",
            path: b"/a",
            query: b"x=1",
        };
        let mut out = vec![];
        redirect(None).location(&asked, &Nothing, &mut out);
        assert_eq!(out, b"/b?x=1");
        assert!(redirect(None).is_known(&asked) && redirect(Some("http")).is_known(&asked));
        assert!(!redirect(Some("https")).is_known(&asked));
        let to_host = Redirect { host: Some("c".into()), ..redirect(Some("https")) };
        assert!(to_host.is_known(&asked));
    }

    #[test]
    fn a_form_that_is_posted_is_led_to_the_page_of_its_url_and_the_page_is_not() {
        let headers: [(&str, &str); 0] = [];
        let leads = |method: &[u8], status| {
            let request = Request {
                authority: b"a.test",
                host: b"a.test",
                path: b"/form",
                query: b"",
                method,
                source: Ipv4Addr::LOCALHOST.into(),
                scheme: "http",
                headers: &headers[..],
            };
            let location = Template::read("$path").ok();
            let redirect = Redirect { status, scheme: None, host: None, path: None, location };
            redirect.leads_elsewhere(&request)
        };
        let led = [leads(b"POST", 303), leads(b"GET", 303), leads(b"POST", 308)];
        assert_eq!(led, [true, false, false]);
    }
}
