//! The URL of a collector of spans.

use loadline_spanned::{Complaint, Textual};

use super::{address::Place, label::UrlPath};

/// A collector that speaks OTLP over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Collector {
    /// Host and port.
    pub(crate) authority: String,
    /// The path that takes spans.
    pub(crate) path: String,
}

impl Textual for Collector {
    const EXPECTED: &'static str = "a URL like \"http://127.0.0.1:4318\"";
    const TITLE: &'static str = "a URL";
    const PATTERN: Option<&'static str> =
        Some("^http://([A-Za-z0-9._-]+|\\[[0-9A-Fa-f:.%]+\\]):[0-9]{1,5}(/[!-\"$->@-~]*)?$");
    const EXAMPLES: &'static [&'static str] = &["http://127.0.0.1:4318"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong = |help: &str| Complaint::new(format!("`{text}` is no collector"), help);
        if text.starts_with("https://") {
            return Err(wrong(
                "spans go out in clear: send them to a collector on this machine, \
                 \"http://127.0.0.1:4318\", which passes them on",
            ));
        }
        let Some(rest) = text.strip_prefix("http://") else {
            return Err(wrong("write \"http://127.0.0.1:4318\""));
        };
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        Place::read(authority).map_err(|Complaint { help, .. }| wrong(&help))?;
        if path.contains('?') {
            return Err(wrong("spans are sent to a path: leave the query out"));
        }
        let base = path.trim_end_matches('/');
        let base = base.strip_suffix(TRACES).unwrap_or(base);
        let path = UrlPath::read(&format!("{base}{TRACES}"))?.0;
        Ok(Self { authority: authority.to_owned(), path })
    }
}

/// Where OTLP over HTTP takes spans.
const TRACES: &str = "/v1/traces";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_go_below_the_path_of_the_collector() {
        for (text, path) in [
            ("http://10.0.0.9:4318", "/v1/traces"),
            ("http://10.0.0.9:4318/", "/v1/traces"),
            ("http://10.0.0.9:4318/otel/", "/otel/v1/traces"),
            ("http://10.0.0.9:4318/v1/traces", "/v1/traces"),
        ] {
            let collector = Collector::read(text).unwrap();
            assert_eq!((&*collector.authority, &*collector.path), ("10.0.0.9:4318", path));
        }
    }

    #[test]
    fn what_is_no_collector_says_what_would_be() {
        for (text, words) in [
            ("127.0.0.1:4318", "write \"http://127.0.0.1:4318\""),
            ("https://otel.example.com:4318", "passes them on"),
            ("http://127.0.0.1", "add the port"),
            ("http://user:secret@otel:4318", "name:80"),
            ("http://otel:4318/a b", "holds no spaces"),
            ("http://otel:4318/a?token=b", "leave the query out"),
        ] {
            let complaint = Collector::read(text).unwrap_err();
            assert!(complaint.help.contains(words), "{text}: {}", complaint.help);
        }
    }
}
