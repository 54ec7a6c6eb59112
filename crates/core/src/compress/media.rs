//! Media types and ranges of them (RFC 9110, 8.3.1 and 12.5.1), with the structured suffixes of
//! RFC 6838, 4.2.8.

use alloc::{string::String, vec::Vec};
use core::{fmt, str::FromStr};

/// Some media types: `text/html`, `text/*`, `application/*+json` or `*/*`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MediaRange {
    /// The type, in lower case; any if empty.
    kind: String,
    /// How the subtype begins or, without a star, what it is; in lower case.
    before: String,
    /// How it ends, where there is a star.
    after: Option<String>,
}

/// A text that is no range of media types.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a media type is written like `text/html`, `text/*` or `application/*+json`")]
pub struct MediaError;

impl MediaRange {
    /// What is worth being compressed wherever it comes from: text in the widest sense, and the few
    /// formats of images and fonts that are not compressed by themselves.
    #[must_use]
    pub fn compressible() -> Vec<Self> {
        COMPRESSIBLE.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Whether a media type, which may have parameters, is one of these.
    #[must_use]
    pub fn contains(&self, media_type: &[u8]) -> bool {
        let bare = media_type.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
        let mut halves = bare.splitn(2, |byte| *byte == b'/');
        let (Some(kind), Some(subtype)) = (halves.next(), halves.next()) else { return false };
        (self.kind.is_empty() || kind.eq_ignore_ascii_case(self.kind.as_bytes()))
            && self.has_subtype(subtype)
    }

    fn has_subtype(&self, subtype: &[u8]) -> bool {
        let (before, Some(after)) = (self.before.as_bytes(), &self.after) else {
            return subtype.eq_ignore_ascii_case(self.before.as_bytes());
        };
        let (Some(start), Some(end)) = (
            subtype.get(..before.len()),
            subtype.len().checked_sub(after.len()).and_then(|at| subtype.get(at..)),
        ) else {
            return false;
        };
        subtype.len() >= before.len() + after.len()
            && start.eq_ignore_ascii_case(before)
            && end.eq_ignore_ascii_case(after.as_bytes())
    }
}

impl FromStr for MediaRange {
    type Err = MediaError;

    fn from_str(text: &str) -> Result<Self, MediaError> {
        let (kind, subtype) = text.split_once('/').ok_or(MediaError)?;
        let (before, after) = match subtype.split_once('*') {
            Some((before, after)) => (before, Some(after)),
            None => (subtype, None),
        };
        let has_subtype = after.is_some() || !before.is_empty();
        let is_any = kind == "*" && subtype == "*";
        if !has_subtype || !(is_any || is_name(kind) && !kind.is_empty()) {
            return Err(MediaError);
        }
        if !is_name(before) || !after.is_none_or(is_name) {
            return Err(MediaError);
        }
        let kind = if is_any { String::new() } else { kind.to_ascii_lowercase() };
        let after = after.map(str::to_ascii_lowercase);
        Ok(Self { kind, before: before.to_ascii_lowercase(), after })
    }
}

impl fmt::Display for MediaRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.kind.is_empty() { "*" } else { &self.kind };
        write!(f, "{kind}/{}", self.before)?;
        self.after.iter().try_for_each(|after| write!(f, "*{after}"))
    }
}

/// Whether a text may be part of a name of a media type (RFC 6838, 4.2).
fn is_name(text: &str) -> bool {
    let is_restricted = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
    text.bytes().all(is_restricted)
}

/// As [`MediaRange::compressible`] says.
const COMPRESSIBLE: [&str; 22] = [
    "text/*",
    "application/javascript",
    "application/x-javascript",
    "application/json",
    "application/*+json",
    "application/x-ndjson",
    "application/json-seq",
    "application/xml",
    "application/*+xml",
    "application/yaml",
    "application/graphql",
    "application/sql",
    "application/rtf",
    "application/wasm",
    "application/vnd.ms-fontobject",
    "font/ttf",
    "font/otf",
    "font/collection",
    "image/svg+xml",
    "image/bmp",
    "image/vnd.microsoft.icon",
    "image/x-icon",
];

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn text_is_compressible_and_what_is_compressed_already_is_not() {
        let ranges = MediaRange::compressible();
        assert_eq!(ranges.len(), COMPRESSIBLE.len());
        let compresses = |it: &str| ranges.iter().any(|range| range.contains(it.as_bytes()));
        for yes in [
            "text/html",
            "Text/HTML; charset=utf-8",
            "text/event-stream",
            "application/json;charset=utf-8",
            "application/problem+json",
            "application/ld+JSON ; x=y",
            "image/svg+xml",
            "application/wasm",
            "font/ttf",
        ] {
            assert!(compresses(yes), "{yes}");
        }
        for no in [
            "image/png", "video/mp4", "font/woff2", "application/zip", "application/grpc",
            "application/octet-stream", "application/jsonx", "text", "", "/", "application/+jso",
            "application/pdf", "xtext/html",
        ] {
            assert!(!compresses(no), "{no}");
        }
    }

    #[test]
    fn a_range_reads_as_it_is_written_and_contains_what_it_says() {
        for (range, inside, outside) in [
            ("text/html", "text/html", "text/htm"),
            ("text/*", "text/x", "texts/x"),
            ("application/*+json", "application/a+json", "application/json"),
            ("application/vnd.a.*", "application/vnd.a.b", "application/vnd.b.a"),
            ("application/x*x", "application/xx", "application/x"),
            ("*/*", "a/b", "b"),
        ] {
            let parsed: MediaRange = range.parse().expect(range);
            assert_eq!(parsed.to_string(), range);
            assert!(parsed.contains(inside.as_bytes()), "{range} {inside}");
            assert!(!parsed.contains(outside.as_bytes()), "{range} {outside}");
        }
        for bad in
            ["", "text", "text/", "/html", "*/html", "text/html; q=1", "te xt/*", "*", "a/b/c"]
        {
            assert_eq!(bad.parse::<MediaRange>(), Err(MediaError), "{bad}");
        }
    }
}
