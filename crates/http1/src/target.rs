//! Request targets and the authorities in them (RFC 9112, 3.2).

use crate::error::ParseError;
use crate::fields::Span;
use crate::method::Method;

/// The form of a request target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum TargetForm {
    /// `/path?query`, what nearly every request has.
    #[default]
    Origin,
    /// `http://host/path?query`, as sent to proxies.
    Absolute,
    /// `host:port`, with CONNECT only.
    Authority,
    /// `*`, with OPTIONS only.
    Asterisk,
}

/// A target taken apart.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Target {
    pub(crate) form: TargetForm,
    /// The whole target.
    pub(crate) whole: Span,
    /// The authority of an absolute or authority form.
    pub(crate) authority: Span,
    /// Path and query as written; of an absolute form it may lack the path.
    pub(crate) path: Span,
}

impl Target {
    /// Takes `buf[start..end]` apart, all of which are target bytes.
    ///
    /// # Errors
    /// If it is in none of the forms, or not in one that goes with `method`.
    #[inline]
    pub(crate) fn parse(
        buf: &[u8],
        start: usize,
        end: usize,
        method: Method,
    ) -> Result<Self, ParseError> {
        let text = &buf[start..end];
        let whole = Span::new(start, end);
        match (method, text) {
            (Method::Connect, _) => {
                if port_of(text).is_none_or(<[u8]>::is_empty) || !is_authority(text) {
                    return Err(ParseError::BadTarget);
                }
                Ok(Self { form: TargetForm::Authority, whole, authority: whole, path: whole })
            }
            (_, [b'/', ..]) => Ok(Self {
                form: TargetForm::Origin,
                whole,
                authority: Span::default(),
                path: whole,
            }),
            (Method::Options, b"*") => Ok(Self {
                form: TargetForm::Asterisk,
                whole,
                authority: Span::default(),
                path: whole,
            }),
            _ => Self::absolute(text, start, end),
        }
    }

    fn absolute(text: &[u8], start: usize, end: usize) -> Result<Self, ParseError> {
        let scheme = [&b"http://"[..], b"https://"]
            .into_iter()
            .find(|scheme| {
                text.get(..scheme.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(scheme))
            })
            .ok_or(ParseError::BadTarget)?;
        let rest = &text[scheme.len()..];
        let length =
            rest.iter().position(|&byte| byte == b'/' || byte == b'?').unwrap_or(rest.len());
        if !names_host(&rest[..length]) || !is_authority(&rest[..length]) {
            return Err(ParseError::BadHost);
        }
        let host = start + scheme.len();
        Ok(Self {
            form: TargetForm::Absolute,
            whole: Span::new(start, end),
            authority: Span::new(host, host + length),
            path: Span::new(host + length, end),
        })
    }
}

/// Whether `byte` may be part of a target: visible ASCII, and no fragment.
#[inline]
pub(crate) const fn is_target_byte(byte: u8) -> bool {
    byte.is_ascii_graphic() && byte != b'#'
}

/// Whether `text` is `host` or `host:port`: a name, an IPv4 address or an IPv6 address in
/// brackets. User information is refused. An empty text is a host without a name.
pub(crate) fn is_authority(text: &[u8]) -> bool {
    if let [b'[', rest @ ..] = text {
        let Some(close) = rest.iter().position(|&byte| byte == b']') else { return false };
        let inside = rest[..close].iter().all(|byte| {
            byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.' | b'%' | b'v' | b'-')
        });
        return close > 0 && inside && is_port_part(&rest[close + 1..]);
    }
    let length = text.iter().position(|&byte| byte == b':').unwrap_or(text.len());
    text[..length].iter().all(|&byte| is_host_byte(byte)) && is_port_part(&text[length..])
}

/// Whether an authority has more than a port.
pub(crate) const fn names_host(text: &[u8]) -> bool {
    !matches!(text, [] | [b':', ..])
}

/// What follows the last colon outside brackets.
fn port_of(text: &[u8]) -> Option<&[u8]> {
    let colon = text.iter().rposition(|&byte| byte == b':')?;
    let port = &text[colon + 1..];
    (!port.contains(&b']')).then_some(port)
}

/// Nothing, or a colon and a port number (which may be missing).
fn is_port_part(text: &[u8]) -> bool {
    match text {
        [] => true,
        [b':', digits @ ..] => {
            digits.iter().all(u8::is_ascii_digit)
                && digits.len() <= 5
                && digits.iter().fold(0_u32, |port, digit| port * 10 + u32::from(digit - b'0'))
                    <= u32::from(u16::MAX)
        }
        _ => false,
    }
}

/// Unreserved, percent-encoded or a sub-delimiter (RFC 3986, `reg-name`), but no comma: a list of
/// hosts is an attempt at confusion.
const fn is_host_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'-' | b'.'
                | b'_'
                | b'~'
                | b'%'
                | b'!'
                | b'$'
                | b'&'
                | b'\''
                | b'('
                | b')'
                | b'*'
                | b'+'
                | b';'
                | b'='
        )
}

#[cfg(test)]
mod tests {
    use super::is_authority;

    #[test]
    fn authorities() {
        for good in ["", "a", "a.example:80", "a:", "127.0.0.1:8080", "[::1]", "[::1]:65535"] {
            assert!(is_authority(good.as_bytes()), "{good}");
        }
        for bad in ["a b", "u@a", "a,b", "a:b", "a:1:2", "a:65536", "[::1", "[]", "[::1]x", "a/b"] {
            assert!(!is_authority(bad.as_bytes()), "{bad}");
        }
    }
}
