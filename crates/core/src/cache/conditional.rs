//! Conditional requests answered from what is stored: RFC 9110 section 13, RFC 9111
//! section 4.3.2.

use super::{
    date::parse_date,
    entity_tag::{EntityTag, entity_tags},
    field::Fields,
    freshness::date,
    message::{Request, Response},
};
use crate::time::UnixTime;

/// What the conditions of a request make of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    /// The response is sent; a `Range` may select a part of it.
    Send,
    /// 304: the client has it. Sent with [`is_sent_with_304`] of its fields.
    NotModified,
    /// 412: the client wanted another one.
    Failed,
}

impl Condition {
    /// Evaluates the conditions of a request in the order of RFC 9110 section 13.2.2, against a
    /// response that may be used for it, received or last validated at `received`.
    ///
    /// Conditions are about a representation: on any other response than 200 and 206 they have
    /// no effect.
    #[must_use]
    pub fn of(request: &Request<'_>, response: &Response<'_>, received: UnixTime) -> Self {
        if !matches!(response.status, 200 | 206) {
            return Self::Send;
        }
        let stored = Representation { fields: response.fields, received };
        let asked = request.fields;
        let met = if asked.has("if-match") {
            stored.is_any_of(asked, "if-match", Comparison::Strong)
        } else {
            let since = stored.parsed(asked, "if-unmodified-since");
            // What is not known to have changed at a time makes no condition (section 13.1.4).
            since.zip(stored.last_modified()).is_none_or(|(since, modified)| modified <= since)
        };
        if !met {
            return Self::Failed;
        }
        if asked.has("if-none-match") {
            let same = stored.is_any_of(asked, "if-none-match", Comparison::Weak);
            return match (same, request.is_retrieval()) {
                (false, _) => Self::Send,
                (true, true) => Self::NotModified,
                (true, false) => Self::Failed,
            };
        }
        let since = stored.parsed(asked, "if-modified-since");
        let unmodified = since.is_some_and(|since| stored.modified() <= since);
        if unmodified && request.is_retrieval() { Self::NotModified } else { Self::Send }
    }
}

/// Whether a field of the stored response is sent with a 304: not what describes the content that
/// is not sent, but `Content-Location` (RFC 9110 section 15.4.5).
#[must_use]
pub fn is_sent_with_304(name: &[u8]) -> bool {
    !OF_CONTENT.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// Removes the conditions of a client, for a request that must bring the whole response.
#[must_use]
pub fn is_condition(name: &[u8]) -> bool {
    CONDITIONS.iter().any(|known| name.eq_ignore_ascii_case(known.as_bytes()))
}

/// RFC 9110 section 8.8.3.2.
#[derive(Clone, Copy)]
enum Comparison {
    Strong,
    Weak,
}

struct Representation<'a> {
    fields: Fields<'a>,
    received: UnixTime,
}

impl Representation<'_> {
    /// Whether a list of tags has `*` or the tag of this representation.
    fn is_any_of(&self, asked: Fields<'_>, name: &str, comparison: Comparison) -> bool {
        if asked.all(name).any(|value| value == b"*") {
            return true;
        }
        let Some(tag) = self.fields.single("etag").map(EntityTag::parse) else { return false };
        asked.all(name).flat_map(entity_tags).any(|other| match comparison {
            Comparison::Strong => tag.equals_strongly(&other),
            Comparison::Weak => tag.equals_weakly(&other),
        })
    }

    /// The date in a field; none where it is invalid.
    fn parsed(&self, fields: Fields<'_>, name: &str) -> Option<UnixTime> {
        fields.single(name).and_then(|text| parse_date(text, self.received))
    }

    /// When it changed for the last time, as its server says.
    fn last_modified(&self) -> Option<UnixTime> {
        self.parsed(self.fields, "last-modified")
    }

    /// When it changed for the last time: at the latest when it was made.
    fn modified(&self) -> UnixTime {
        self.last_modified().unwrap_or_else(|| date(self.fields, self.received))
    }
}

const OF_CONTENT: [&str; 7] = [
    "content-length", "content-type", "content-encoding", "content-language", "content-range",
    "content-md5", "content-disposition",
];

const CONDITIONS: [&str; 5] =
    ["if-match", "if-none-match", "if-modified-since", "if-unmodified-since", "if-range"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cache::{
        field::tests::lines,
        message::tests::{NOW, get},
    };

    const LATER: &str = "Tue, 24 Nov 2026 11:30:00 GMT";
    const MODIFIED: &str = "Tue, 24 Nov 2026 11:00:00 GMT";
    const EARLIER: &str = "Tue, 24 Nov 2026 10:00:00 GMT";

    fn condition(method: &str, request: &[&str], response: &[&str]) -> Condition {
        let (asked, stored) = (lines(request), lines(response));
        let request = Request { method: method.as_bytes(), ..get(&asked) };
        let response = Response { status: 200, fields: Fields(&stored) };
        Condition::of(&request, &response, NOW)
    }

    fn tagged(request: &[&str]) -> Condition {
        let modified = std::format!("Last-Modified: {MODIFIED}");
        condition("GET", request, &["ETag: \"b\"", &modified])
    }

    #[test]
    fn a_tag_that_the_client_has_is_not_modified() {
        for tags in ["\"b\"", "W/\"b\"", "\"a\", \"b\", \"c\"", "\"a\",\"b\"", "*"] {
            let field = std::format!("If-None-Match: {tags}");
            assert_eq!(tagged(&[&field]), Condition::NotModified, "{tags}");
        }
        for tags in ["\"a\"", "b", "", "\"B\""] {
            let field = std::format!("If-None-Match: {tags}");
            assert_eq!(tagged(&[&field]), Condition::Send, "{tags}");
        }
        assert_eq!(
            tagged(&["If-None-Match: \"a\"", "If-None-Match: \"b\""]),
            Condition::NotModified
        );
    }

    #[test]
    fn tags_come_before_dates() {
        let since = std::format!("If-Modified-Since: {LATER}");
        assert_eq!(tagged(&["If-None-Match: \"a\"", &since]), Condition::Send);
        let since = std::format!("If-Modified-Since: {EARLIER}");
        assert_eq!(tagged(&["If-None-Match: \"b\"", &since]), Condition::NotModified);
        let since = std::format!("If-Unmodified-Since: {EARLIER}");
        assert_eq!(tagged(&["If-Match: \"b\"", &since]), Condition::Send);
    }

    #[test]
    fn a_response_not_newer_than_the_date_is_not_modified() {
        for (since, expected) in [
            (LATER, Condition::NotModified),
            (MODIFIED, Condition::NotModified),
            ("Tuesday, 24-Nov-26 11:00:00 GMT", Condition::NotModified),
            (EARLIER, Condition::Send),
            ("yesterday", Condition::Send),
        ] {
            assert_eq!(tagged(&[&std::format!("If-Modified-Since: {since}")]), expected, "{since}");
        }
    }

    #[test]
    fn without_last_modified_the_date_counts() {
        let date = std::format!("Date: {MODIFIED}");
        let asked = |since: &str| {
            condition("GET", &[&std::format!("If-Modified-Since: {since}")], &[&date])
        };
        assert_eq!(asked(LATER), Condition::NotModified);
        assert_eq!(asked(EARLIER), Condition::Send);
    }

    #[test]
    fn a_response_without_last_modified_is_sent_to_who_wants_it_unmodified() {
        let date = std::format!("Date: {MODIFIED}");
        let since = std::format!("If-Unmodified-Since: {EARLIER}");
        for stored in [&[&*date][..], &[&*date, "Last-Modified: yesterday"]] {
            assert_eq!(condition("GET", &[&since], stored), Condition::Send, "{stored:?}");
        }
    }

    #[test]
    fn who_wants_another_one_gets_412() {
        assert_eq!(tagged(&["If-Match: \"a\""]), Condition::Failed);
        assert_eq!(tagged(&["If-Match: W/\"b\""]), Condition::Failed);
        assert_eq!(tagged(&["If-Match: *"]), Condition::Send);
        let since = std::format!("If-Unmodified-Since: {EARLIER}");
        assert_eq!(tagged(&[&since]), Condition::Failed);
        let tag = ["ETag: \"b\""];
        assert_eq!(condition("PUT", &["If-None-Match: *"], &tag), Condition::Failed);
        assert_eq!(condition("HEAD", &["If-None-Match: *"], &tag), Condition::NotModified);
    }

    #[test]
    fn an_error_is_sent_whatever_the_conditions_say() {
        let asked = lines(&["If-None-Match: *"]);
        let response = Response { status: 404, fields: Fields(&[]) };
        assert_eq!(Condition::of(&get(&asked), &response, NOW), Condition::Send);
    }
}
