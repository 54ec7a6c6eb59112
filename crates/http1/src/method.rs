//! Request methods.

/// A request method. Methods are case-sensitive: `get` is [`Method::Other`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// GET
    Get,
    /// HEAD: the response has the head of a GET and no body.
    Head,
    /// POST
    Post,
    /// PUT
    Put,
    /// DELETE
    Delete,
    /// CONNECT: a 2xx answer turns the connection into a tunnel.
    Connect,
    /// OPTIONS
    Options,
    /// TRACE
    Trace,
    /// PATCH
    Patch,
    /// Any other token; its text is in the head it came from.
    Other,
}

impl Method {
    /// The method written as `text`; [`Method::Other`] for every text that is not listed.
    #[must_use]
    pub const fn of(text: &[u8]) -> Self {
        match text {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"DELETE" => Self::Delete,
            b"CONNECT" => Self::Connect,
            b"OPTIONS" => Self::Options,
            b"TRACE" => Self::Trace,
            b"PATCH" => Self::Patch,
            _ => Self::Other,
        }
    }

    /// The text of the method; `OTHER` for a method that is not listed.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Head => "HEAD",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
            Self::Options => "OPTIONS",
            Self::Trace => "TRACE",
            Self::Patch => "PATCH",
            Self::Other => "OTHER",
        }
    }

    /// Whether sending the request twice has the effect of sending it once (RFC 9110, 9.2.2).
    /// Unknown methods are not assumed to be.
    #[must_use]
    pub const fn is_idempotent(self) -> bool {
        matches!(
            self,
            Self::Get | Self::Head | Self::Put | Self::Delete | Self::Options | Self::Trace
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Method;

    #[test]
    fn methods_are_case_sensitive_and_known_ones_round_trip() {
        for text in ["GET", "HEAD", "POST", "PUT", "DELETE", "CONNECT", "OPTIONS", "TRACE", "PATCH"]
        {
            assert_eq!(Method::of(text.as_bytes()).as_str(), text);
        }
        assert_eq!(Method::of(b"get"), Method::Other);
        assert!(!Method::Post.is_idempotent() && !Method::Other.is_idempotent());
        assert!(Method::Put.is_idempotent());
    }
}
