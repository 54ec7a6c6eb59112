//! Whether and how a server's response is compressed.

use super::{Algorithm, Offer, elements, etag};
use crate::fleet::Compression;

/// What happens to a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It is unchanged.
    Keep,
    /// It is unchanged and gets `Vary`: another client would get it compressed.
    Vary,
    /// It says that the client's response is still good (304), and gets the weak form of its tag.
    Weaken,
    /// It is compressed; for HEAD, its head is that of the compressed response.
    Compress(Algorithm),
}

/// What the decision needs to know of a response.
#[derive(Clone, Copy, Debug)]
pub struct Response<F> {
    /// HTTP status code.
    pub status: u16,
    /// How long its body is, where that is known; for the answer to HEAD, how long it would be.
    pub length: Option<u64>,
    /// Names and values of its header fields.
    pub fields: F,
}

impl Treatment {
    /// What becomes of `response`, which answers a request with this `offer`.
    #[must_use]
    pub fn of<'a, F>(compression: &Compression, offer: &Offer, response: Response<F>) -> Self
    where
        F: Iterator<Item = (&'a [u8], &'a [u8])>,
    {
        let seen = Seen::of(compression, response.fields);
        if response.status == 304 {
            // Its type is mostly left out. The whole may vary, which it then has to say, too
            // (RFC 9110 section 15.4.5); where it does not, it does no harm.
            let is_of_unknown = seen.types == 0 && !seen.is_fixed;
            return if offer.asks_weakly && seen.has_strong_tag {
                Self::Weaken
            } else if is_of_unknown {
                Self::Vary
            } else {
                seen.of_part()
            };
        }
        if response.status == 206 {
            return seen.of_part();
        }
        let is_short = response.length.is_some_and(|length| compression.is_short(length));
        if !has_whole_body(response.status) || is_short || !seen.is_compressible() {
            return Self::Keep;
        }
        match offer.algorithm {
            Some(algorithm) if !offer.is_private || seen.is_for_everybody() => {
                Self::Compress(algorithm)
            }
            _ => Self::Vary,
        }
    }
}

/// Whether a response of this status has content that is a whole representation.
const fn has_whole_body(status: u16) -> bool {
    status >= 200 && !matches!(status, 204 | 205 | 206 | 304)
}

/// What the header fields of a response say.
#[derive(Default)]
struct Seen {
    /// How many Content-Type fields there are: of two, nobody knows which one a client goes by.
    types: u32,
    has_type: bool,
    /// It has a coding already, is not to be changed, or has a checksum that would not be true any
    /// more.
    is_fixed: bool,
    is_part: bool,
    is_public: bool,
    /// It is for its client alone, whatever else it says.
    is_private: bool,
    has_strong_tag: bool,
}

impl Seen {
    fn of<'a>(
        compression: &Compression,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
    ) -> Self {
        let mut seen = Self::default();
        for (name, value) in fields {
            seen.add(compression, name, value);
        }
        seen
    }

    fn add(&mut self, compression: &Compression, name: &[u8], value: &[u8]) {
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        match name.len() {
            4 if is("etag") => self.has_strong_tag = etag::is_strong(value),
            12 if is("content-type") => {
                self.types += 1;
                self.has_type =
                    !is_grpc(value) && compression.types.iter().any(|range| range.contains(value));
            }
            13 if is("cache-control") => elements(value).for_each(|it| self.add_directive(it)),
            13 if is("content-range") => self.is_part = true,
            6 | 11 | 14 | 16 if FIXING.iter().any(|other| is(other)) => self.is_fixed = true,
            _ => {}
        }
    }

    fn add_directive(&mut self, directive: &[u8]) {
        let name = directive.split(|byte| *byte == b'=').next().unwrap_or_default();
        let is = |other: &str| name.eq_ignore_ascii_case(other.as_bytes());
        self.is_fixed |= is("no-transform");
        self.is_public |= is("public") || is("s-maxage");
        self.is_private |= is("private") || is("no-store");
    }

    const fn is_for_everybody(&self) -> bool {
        self.is_public && !self.is_private
    }

    const fn is_compressible(&self) -> bool {
        self.is_of_compressible() && !self.is_part
    }

    /// Whether it is compressible, or a part of what is.
    const fn is_of_compressible(&self) -> bool {
        self.types == 1 && self.has_type && !self.is_fixed
    }

    /// What becomes of a response that stands for another, or has a part of it: it says what that
    /// one would.
    const fn of_part(&self) -> Treatment {
        if self.is_of_compressible() { Treatment::Vary } else { Treatment::Keep }
    }
}

/// Whether a value of Vary says that responses differ by coding.
#[must_use]
pub fn varies_by_coding(vary: &[u8]) -> bool {
    elements(vary).any(|name| name == b"*" || name.eq_ignore_ascii_case(b"accept-encoding"))
}

/// Whether it is a stream of gRPC, which compresses its messages by itself.
fn is_grpc(media_type: &[u8]) -> bool {
    const PREFIX: &[u8] = b"application/grpc";
    media_type.get(..PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(PREFIX))
}

/// Fields with which content cannot be compressed on the way: it has a coding, or its bytes are
/// vouched for (RFC 9530, RFC 3230, RFC 1864).
const FIXING: [&str; 5] =
    ["content-encoding", "content-digest", "repr-digest", "content-md5", "digest"];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::Bytes;

    const HTML: (&str, &str) = ("Content-Type", "text/html");

    fn offered(algorithm: Option<Algorithm>) -> Offer {
        Offer { algorithm, ..Offer::default() }
    }

    fn treated(
        offer: Offer,
        status: u16,
        length: Option<u64>,
        fields: &[(&str, &str)],
    ) -> Treatment {
        let fields = fields.iter().map(|field| (field.0.as_bytes(), field.1.as_bytes()));
        let response = Response { status, length, fields };
        Treatment::of(&Compression::default(), &offer, response)
    }

    /// What becomes of a long response to a client that accepts gzip.
    fn gzipped(fields: &[(&str, &str)]) -> Treatment {
        treated(offered(Some(Algorithm::Gzip)), 200, Some(10_000), fields)
    }

    const COMPRESSED: Treatment = Treatment::Compress(Algorithm::Gzip);

    #[test]
    fn text_is_compressed_and_others_are_told_that_it_could_be() {
        assert_eq!(gzipped(&[HTML]), COMPRESSED);
        assert_eq!(treated(Offer::default(), 200, None, &[HTML]), Treatment::Vary);
        assert_eq!(gzipped(&[("Content-Type", "image/png")]), Treatment::Keep);
        assert_eq!(gzipped(&[]), Treatment::Keep);
        assert_eq!(gzipped(&[("Content-Type", "application/grpc+proto")]), Treatment::Keep);
    }

    #[test]
    fn what_must_not_be_changed_stays() {
        for field in [
            ("Content-Encoding", "br"),
            ("Content-Encoding", "identity"),
            ("Content-Range", "bytes 0-1/2"),
            ("Cache-Control", "max-age=1, No-Transform"),
            ("Content-Digest", "sha-256=:x:"),
            ("Repr-Digest", "sha-256=:x:"),
            ("Digest", "sha-256=x"),
            ("Content-MD5", "x"),
            ("Content-Type", "text/plain"),
        ] {
            assert_eq!(gzipped(&[HTML, field]), Treatment::Keep, "{field:?}");
        }
        let directive = [HTML, ("Cache-Control", "private=\"a, no-transform\"")];
        assert_eq!(gzipped(&directive), COMPRESSED);
    }

    #[test]
    fn only_whole_bodies_that_are_long_enough_are_compressed() {
        let offer = offered(Some(Algorithm::Gzip));
        for status in [200, 201, 203, 301, 400, 404, 500, 503] {
            assert_eq!(treated(offer, status, None, &[HTML]), COMPRESSED, "{status}");
        }
        for status in [204, 205] {
            assert_eq!(treated(offer, status, None, &[HTML]), Treatment::Keep, "{status}");
        }
        assert_eq!(treated(offer, 200, Some(999), &[HTML]), Treatment::Keep);
        assert_eq!(treated(offer, 200, Some(1_000), &[HTML]), COMPRESSED);
    }

    #[test]
    fn an_empty_body_is_never_compressed() {
        let compression = Compression { min_size: Bytes::new(0), ..Compression::default() };
        let fields = [(&b"Content-Type"[..], &b"text/html"[..])].into_iter();
        let treated = |length| {
            let response = Response { status: 302, length, fields: fields.clone() };
            Treatment::of(&compression, &offered(Some(Algorithm::Gzip)), response)
        };
        assert_eq!(treated(Some(0)), Treatment::Keep);
        assert_eq!(treated(Some(1)), COMPRESSED);
        assert_eq!(treated(None), COMPRESSED);
    }

    #[test]
    fn a_part_and_a_304_vary_as_the_whole_would() {
        let part = ("Content-Range", "bytes 0-1/20000");
        for (status, fields, told) in [
            (206, &[HTML, part][..], Treatment::Vary),
            (206, &[("Content-Type", "image/png"), part], Treatment::Keep),
            (206, &[HTML, part, ("Content-Encoding", "gzip")], Treatment::Keep),
            (304, &[HTML], Treatment::Vary),
            (304, &[], Treatment::Vary),
            (304, &[("Content-Type", "image/png")], Treatment::Keep),
            (304, &[("Cache-Control", "no-transform")], Treatment::Keep),
        ] {
            let offer = offered(Some(Algorithm::Gzip));
            assert_eq!(treated(offer, status, Some(2), fields), told, "{status} {fields:?}");
        }
    }

    #[test]
    fn a_private_request_gets_what_is_for_everybody() {
        let offer = Offer { is_private: true, ..offered(Some(Algorithm::Gzip)) };
        let treated = |control| treated(offer, 200, None, &[HTML, ("Cache-Control", control)]);
        for control in ["public", "max-age=60, public", "s-maxage=60", "public, immutable"] {
            assert_eq!(treated(control), COMPRESSED, "{control}");
        }
        for control in ["private", "max-age=60", "no-store", "x-public", "max-age=60, immutable"] {
            assert_eq!(treated(control), Treatment::Vary, "{control}");
        }
    }

    #[test]
    fn what_is_for_one_client_is_not_for_everybody_whatever_else_it_says() {
        let offer = Offer { is_private: true, ..offered(Some(Algorithm::Gzip)) };
        for control in [
            "private, immutable",
            "private, max-age=60, immutable",
            "no-store, immutable",
            "private, public",
            "public, Private=\"X-User\"",
            "no-store, public",
            "private, s-maxage=0",
        ] {
            let fields = [HTML, ("Cache-Control", control)];
            assert_eq!(treated(offer, 200, None, &fields), Treatment::Vary, "{control}");
        }
        let fields = [HTML, ("Cache-Control", "public"), ("Cache-Control", "private")];
        assert_eq!(treated(offer, 200, None, &fields), Treatment::Vary);
    }

    #[test]
    fn a_304_gives_the_client_the_tag_that_it_asked_by() {
        let asked = Offer { asks_weakly: true, ..Offer::default() };
        let strong = &[("ETag", "\"a\"")][..];
        assert_eq!(treated(asked, 304, None, strong), Treatment::Weaken);
        assert_eq!(treated(asked, 304, None, &[("ETag", "W/\"a\"")]), Treatment::Vary);
        assert_eq!(treated(Offer::default(), 304, None, strong), Treatment::Vary);
    }
}
