//! The directives of `Cache-Control`: RFC 9111 section 5.2, RFC 5861 and RFC 8246.
//!
//! Read so that a mistake never keeps content alive: names in any case, arguments quoted or not,
//! of a directive that is there twice the strictest, and a lifetime that is no number is zero.
//! What is not known is ignored, as the RFC wants it.

use super::{
    field::{Fields, members, unquote},
    targeted,
};
use crate::time::Duration;

/// What a response says about storing and using it again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// How long the response stays fresh; zero if the argument is invalid.
    pub max_age: Option<Duration>,
    /// The same for shared caches, and it forbids stale responses as `proxy-revalidate` does.
    pub s_maxage: Option<Duration>,
    /// May not be stored.
    pub no_store: bool,
    /// May not be used without successful validation.
    pub no_cache: bool,
    /// May not be stored by a shared cache.
    pub private: bool,
    /// May be stored where the default says no.
    pub public: bool,
    /// May not be used stale.
    pub must_revalidate: bool,
    /// May not be used stale by a shared cache.
    pub proxy_revalidate: bool,
    /// May be stored only if the status code is understood; then `no-store` does not count.
    pub must_understand: bool,
    /// Does not change while it is fresh: RFC 8246.
    pub immutable: bool,
    /// The content may not be transformed.
    pub no_transform: bool,
    /// How long it may be used stale while it is validated: RFC 5861 section 3.
    pub stale_while_revalidate: Option<Duration>,
    /// How long it may be used stale where its server fails: RFC 5861 section 4.
    pub stale_if_error: Option<Duration>,
    /// From a field for this class of caches (RFC 9213): `Expires` does not count.
    pub targeted: bool,
}

impl ResponseDirectives {
    /// The directives that count for this cache: of the first field of `targets` that is valid
    /// and not empty, otherwise of `Cache-Control` (RFC 9213 section 2.2). A response with
    /// neither but `Pragma: no-cache` is read as HTTP/1.0 meant it.
    #[must_use]
    pub fn of(fields: Fields<'_>, targets: &[&str]) -> Self {
        let targeted = targets.iter().find_map(|target| targeted::directives(fields, target));
        if let Some(directives) = targeted {
            return directives;
        }
        let mut directives = Self::default();
        for (name, argument) in fields.list("cache-control").map(split) {
            directives.add(name, argument);
        }
        directives.no_cache |= !fields.has("cache-control") && has_pragma_no_cache(fields);
        directives
    }

    /// Adds one directive; of two that contradict each other the stricter one is kept.
    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        // With an argument in quotes these are about the fields that it names: `withheld_fields`.
        let whole = argument.is_none_or(|text| unquote(text).is_none_or(<[u8]>::is_empty));
        match Name::of(name) {
            Some(Name::NoStore) => self.no_store = true,
            Some(Name::NoCache) => self.no_cache |= whole,
            Some(Name::Private) => self.private |= whole,
            Some(Name::Public) => self.public = true,
            Some(Name::MustRevalidate) => self.must_revalidate = true,
            Some(Name::ProxyRevalidate) => self.proxy_revalidate = true,
            Some(Name::MustUnderstand) => self.must_understand = true,
            Some(Name::Immutable) => self.immutable = true,
            Some(Name::NoTransform) => self.no_transform = true,
            Some(name) => self.set_span(name, argument.and_then(delta_seconds).unwrap_or_default()),
            None => {}
        }
    }

    /// Records the duration of a directive; the shorter one where it is repeated.
    pub(super) fn set_span(&mut self, name: Name, span: Duration) {
        let place = match name {
            Name::MaxAge => &mut self.max_age,
            Name::SMaxage => &mut self.s_maxage,
            Name::StaleWhileRevalidate => &mut self.stale_while_revalidate,
            Name::StaleIfError => &mut self.stale_if_error,
            _ => return,
        };
        *place = Some(place.map_or(span, |other| other.min(span)));
    }

    /// Takes a directive without an argument.
    pub(super) fn set_flag(&mut self, name: &[u8]) {
        self.add(name, None);
    }

    /// Whether it says that the response may never be used stale by a shared cache: RFC 9111
    /// section 4.2.4.
    #[must_use]
    pub fn forbids_stale(&self) -> bool {
        self.must_revalidate || self.proxy_revalidate || self.s_maxage.is_some() || self.no_cache
    }

    /// Whether it allows a shared cache to store the response to a request with `Authorization`:
    /// RFC 9111 section 3.5.
    #[must_use]
    pub fn allows_authorized(&self) -> bool {
        self.public || self.must_revalidate || self.s_maxage.is_some()
    }
}

/// What a request wants from caches. All of it is advice: RFC 9111 section 5.2.1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// The response may be this old at most.
    pub max_age: Option<Duration>,
    /// It stays fresh for at least this long.
    pub min_fresh: Option<Duration>,
    /// It may be stale for this long; [`Duration::MAX`] for any time.
    pub max_stale: Option<Duration>,
    /// It may be stale for this long where its server fails: RFC 5861 section 4.
    pub stale_if_error: Option<Duration>,
    /// Nothing stored is used without validation.
    pub no_cache: bool,
    /// Neither the request nor its response is stored.
    pub no_store: bool,
    /// Only what is stored is wanted.
    pub only_if_cached: bool,
}

impl RequestDirectives {
    /// The directives of a request; `Pragma: no-cache` counts if there is no `Cache-Control`.
    /// A directive whose argument is invalid is ignored.
    #[must_use]
    pub fn of(fields: Fields<'_>) -> Self {
        let mut directives = Self::default();
        for (name, argument) in fields.list("cache-control").map(split) {
            directives.add(name, argument);
        }
        directives.no_cache |= !fields.has("cache-control") && has_pragma_no_cache(fields);
        directives
    }

    fn add(&mut self, name: &[u8], argument: Option<&[u8]>) {
        let is = |known: &str| name.eq_ignore_ascii_case(known.as_bytes());
        let span = argument.and_then(delta_seconds);
        let shorter = |place: Option<Duration>| match (place, span) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        if is("no-cache") {
            self.no_cache = true;
        } else if is("no-store") {
            self.no_store = true;
        } else if is("only-if-cached") {
            self.only_if_cached = true;
        } else if is("max-age") {
            self.max_age = shorter(self.max_age);
        } else if is("stale-if-error") {
            self.stale_if_error = shorter(self.stale_if_error);
        } else if is("min-fresh") {
            self.min_fresh = self.min_fresh.max(span);
        } else if is("max-stale") {
            let span = if argument.is_none() { Some(Duration::MAX) } else { span };
            self.max_stale = match (self.max_stale, span) {
                (Some(one), Some(other)) => Some(one.min(other)),
                (one, other) => one.or(other),
            };
        }
    }
}

/// The fields that a response names as `private="..."` or `no-cache="..."`: a shared cache may not
/// keep the former, nor use the latter without validation, so neither are stored.
pub fn withheld_fields(fields: Fields<'_>) -> impl Iterator<Item = &[u8]> {
    fields.list("cache-control").map(split).flat_map(|(name, argument)| {
        let qualified = matches!(Name::of(name), Some(Name::Private | Name::NoCache));
        let names = argument.filter(|_| qualified).and_then(unquote).unwrap_or_default();
        members(names)
    })
}

/// The directives of responses that this cache knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Name {
    MaxAge,
    SMaxage,
    NoStore,
    NoCache,
    Private,
    Public,
    MustRevalidate,
    ProxyRevalidate,
    MustUnderstand,
    Immutable,
    NoTransform,
    StaleWhileRevalidate,
    StaleIfError,
}

impl Name {
    pub(super) fn of(name: &[u8]) -> Option<Self> {
        let known = |(text, _): &&(&str, Self)| name.eq_ignore_ascii_case(text.as_bytes());
        NAMES.iter().find(known).map(|&(_, name)| name)
    }

    /// Whether its argument is a number of seconds.
    pub(super) fn takes_span(self) -> bool {
        use Name::{MaxAge, SMaxage, StaleIfError, StaleWhileRevalidate};
        matches!(self, MaxAge | SMaxage | StaleIfError | StaleWhileRevalidate)
    }
}

/// Reads a number of seconds (RFC 9111 section 1.2.2), quoted or not; more than
/// [`Duration::MAX`] is that.
pub(super) fn delta_seconds(text: &[u8]) -> Option<Duration> {
    let digits = unquote(text).unwrap_or(text);
    let right = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    right.then(|| {
        let add =
            |secs: u64, digit: &u8| secs.saturating_mul(10).saturating_add(u64::from(digit - b'0'));
        Duration::from_secs(digits.iter().fold(0, add))
    })
}

/// A directive in its name and its argument. White space before the `=` is no syntax of the RFC;
/// the argument keeps what follows it and is then invalid, which is the careful reading.
fn split(directive: &[u8]) -> (&[u8], Option<&[u8]>) {
    match directive.iter().position(|&byte| byte == b'=') {
        None => (directive, None),
        Some(at) if directive[..at].ends_with(b" ") => (directive[..at].trim_ascii(), Some(b"")),
        Some(at) => (&directive[..at], Some(&directive[at + 1..])),
    }
}

fn has_pragma_no_cache(fields: Fields<'_>) -> bool {
    fields.list("pragma").any(|member| member.eq_ignore_ascii_case(b"no-cache"))
}

const NAMES: [(&str, Name); 13] = [
    ("max-age", Name::MaxAge),
    ("s-maxage", Name::SMaxage),
    ("no-store", Name::NoStore),
    ("no-cache", Name::NoCache),
    ("private", Name::Private),
    ("public", Name::Public),
    ("must-revalidate", Name::MustRevalidate),
    ("proxy-revalidate", Name::ProxyRevalidate),
    ("must-understand", Name::MustUnderstand),
    ("immutable", Name::Immutable),
    ("no-transform", Name::NoTransform),
    ("stale-while-revalidate", Name::StaleWhileRevalidate),
    ("stale-if-error", Name::StaleIfError),
];

#[cfg(test)]
mod tests {
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::cache::field::tests::lines;

    fn response(value: &str) -> ResponseDirectives {
        let field = crate::cache::Field::new(b"Cache-Control", value.as_bytes());
        ResponseDirectives::of(Fields(&[field]), &[])
    }

    fn request(value: &str) -> RequestDirectives {
        let field = crate::cache::Field::new(b"Cache-Control", value.as_bytes());
        RequestDirectives::of(Fields(&[field]))
    }

    fn secs(n: u64) -> Option<Duration> {
        Some(Duration::from_secs(n))
    }

    #[test]
    fn of_a_directive_that_is_there_twice_the_strictest_counts() {
        assert_eq!(response("max-age=1800, max-age=1").max_age, secs(1));
        assert_eq!(response("max-age=1, max-age=1800").max_age, secs(1));
        let two = lines(&["Cache-Control: max-age=9", "cache-control: s-maxage=3, max-age=7"]);
        let both = ResponseDirectives::of(Fields(&two), &[]);
        assert_eq!((both.max_age, both.s_maxage), (secs(7), secs(3)));
        assert_eq!(request("max-stale, max-stale=5").max_stale, secs(5));
        assert_eq!(request("min-fresh=5, min-fresh=50").min_fresh, secs(50));
    }

    #[test]
    fn a_lifetime_that_is_no_number_is_zero() {
        for value in ["a3600", "3600a", "3600.0", "-1", "'3600'", "", " 3600", "\"36", "0x10"] {
            let read = response(&std::format!("max-age={value}")).max_age;
            assert_eq!(read, secs(0), "{value}");
        }
        assert_eq!(response("max-age").max_age, secs(0));
        assert_eq!(response("max-age =3600").max_age, secs(0));
        assert_eq!(response("max-age=003600").max_age, secs(3600));
        assert_eq!(response("max-age=\"3600\"").max_age, secs(3600));
        assert_eq!(response("max-age=99999999999999999999999").max_age, Some(Duration::MAX));
    }

    #[test]
    fn names_are_read_in_any_case_and_unknown_ones_ignored() {
        let read = response("foobar, Max-AGE=5, No-Store, ext=\"max-age=1, no-cache\", immutable");
        assert_eq!(read.max_age, secs(5));
        assert!(read.no_store && read.immutable && !read.no_cache);
    }

    #[test]
    fn private_and_no_cache_with_names_are_about_those_fields() {
        let read = response("private=\"X-User, X-Plan\", no-cache=\"Set-Cookie\", max-age=5");
        assert!(!read.private && !read.no_cache);
        let field = lines(&["Cache-Control: private=\"X-User, X-Plan\", no-cache=\"Set-Cookie\""]);
        let names: Vec<_> = withheld_fields(Fields(&field)).collect();
        assert_eq!(names, [&b"X-User"[..], b"X-Plan", b"Set-Cookie"]);
        for whole in
            ["private", "private=\"\"", "private=x", "private=\"x", "private, private=\"x\""]
        {
            assert!(response(whole).private, "{whole}");
        }
    }

    #[test]
    fn pragma_counts_only_without_cache_control() {
        let alone = lines(&["Pragma: x, No-Cache"]);
        assert!(RequestDirectives::of(Fields(&alone)).no_cache);
        assert!(ResponseDirectives::of(Fields(&alone), &[]).no_cache);
        let both = lines(&["Pragma: no-cache", "Cache-Control: max-age=5"]);
        assert!(!RequestDirectives::of(Fields(&both)).no_cache);
        assert!(!ResponseDirectives::of(Fields(&both), &[]).no_cache);
    }

    #[test]
    fn invalid_wishes_of_a_client_are_ignored() {
        let read = request("max-age=x, min-fresh=-1, max-stale=y, stale-if-error=");
        assert_eq!(read, RequestDirectives::default());
        assert_eq!(request("max-stale").max_stale, Some(Duration::MAX));
    }

    proptest! {
        #[test]
        fn no_store_is_found_wherever_it_is(
            before in r"[a-z=, \\0-9]{0,20}", after in "[a-z=\", ]{0,20}",
        ) {
            let read = response(&std::format!("{before},no-store,{after}"));
            prop_assert!(read.no_store);
        }

        #[test]
        fn any_value_is_read_without_a_panic(value in prop::collection::vec(any::<u8>(), 0..60)) {
            let field = [crate::cache::Field::new(b"cache-control", &value)];
            let _ = ResponseDirectives::of(Fields(&field), &[]);
            let _ = RequestDirectives::of(Fields(&field));
            let _ = withheld_fields(Fields(&field)).count();
        }
    }
}
