//! What a condition compares with: hosts, paths, texts and networks.

use alloc::{
    format,
    string::{String, ToString},
    vec::Vec,
};
use core::{
    cmp::Ordering,
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

use regex::bytes::{Captures, RegexBuilder};
use regex_syntax::{
    ParserBuilder,
    hir::{Hir, HirKind},
};

use super::{
    Headers,
    normal::{self, Byte, Decoded},
};

/// A host, or all below a domain.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Host {
    /// This one, in lower case.
    Exact(String),
    /// Written `*.example.com`: one or more labels before this domain, not the domain itself.
    Under(String),
}

/// A path, in its normal form.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Path {
    /// This path.
    Exact(String),
    /// This one and all below it: `/api` has `/api` and `/api/x`, not `/apis`. A slash at its end
    /// makes no difference.
    Prefix(String),
    /// The expression matches all of it.
    Regex(Regex),
}

/// A value of a field.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Text {
    /// This one.
    Exact(String),
    /// All that begin so.
    Prefix(String),
    /// All of it matches.
    Regex(Regex),
}

/// A header, a query parameter or a cookie that must be there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Field {
    /// Name of the header, parameter or cookie.
    pub name: String,
    /// One of these values; any where empty. Of several fields of the name one is enough.
    pub values: Vec<Text>,
}

/// A range of addresses, as in `10.0.0.0/8`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network {
    address: IpAddr,
    length: u8,
}

/// A regular expression over bytes, compiled; equal where its text is.
#[derive(Clone)]
pub struct Regex {
    compiled: regex::bytes::Regex,
    text: String,
    directory: String,
}

/// Why a text is no pattern.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// Not a host.
    #[error("a host is a name such as \"example.com\", or \"*.example.com\" for all below it")]
    Host,
    /// Not a path in its normal form.
    #[error(
        "a path begins with \"/\" and is written decoded, without \"//\", \"/./\" and \"/../\""
    )]
    Path,
    /// A path that is too long to be one.
    #[error("a path has at most {PATH_LENGTH_MAX} bytes")]
    PathLength,
    /// Not a network.
    #[error("a network is an address, with /LENGTH for more than one: \"10.0.0.0/8\"")]
    Network,
    /// A network of which the address has bits beyond its length.
    #[error("the network is {0}")]
    NetworkBits(Network),
    /// Not a regular expression.
    #[error("no regular expression: {0}")]
    Regex(String),
}

impl Host {
    /// A host as the file writes it.
    ///
    /// # Errors
    /// If it is neither a name or address without a port, nor `*.` before a name.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let lower = text.to_ascii_lowercase();
        let domain = lower.strip_prefix("*.");
        let name = domain.unwrap_or(&lower);
        let address = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
        let address = address.filter(|_| domain.is_none());
        if let Some(address) = address.and_then(|it| it.parse::<Ipv6Addr>().ok()) {
            return Ok(Self::Exact(format!("[{address}]")));
        }
        let is_label = |label: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            (1..=63).contains(&label.len()) && label.bytes().all(allowed)
        };
        if name.len() > 253 || !name.split('.').all(is_label) {
            return Err(PatternError::Host);
        }
        let name = name.to_string();
        Ok(if domain.is_some() { Self::Under(name) } else { Self::Exact(name) })
    }

    /// Whether a host is one of these.
    #[must_use]
    pub fn matches(&self, host: &[u8]) -> bool {
        match self {
            Self::Exact(name) => host == name.as_bytes(),
            Self::Under(domain) => {
                host.strip_suffix(domain.as_bytes()).is_some_and(ends_with_label)
            }
        }
    }
}

/// Whether what is before a domain ends with a label and its dot.
pub(super) fn ends_with_label(text: &[u8]) -> bool {
    matches!(text, [.., last, b'.'] if *last != b'.')
}

impl Path {
    /// Exactly this path.
    ///
    /// # Errors
    /// If it is not in its normal form.
    pub fn exact(text: &str) -> Result<Self, PatternError> {
        checked(text).map(Self::Exact)
    }

    /// This path and all below it.
    ///
    /// # Errors
    /// If it is not in its normal form.
    pub fn prefix(text: &str) -> Result<Self, PatternError> {
        checked(text).map(|text| Self::Prefix(text.trim_end_matches('/').to_string()))
    }

    /// Whether a path is one of these.
    #[must_use]
    pub fn matches(&self, path: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => path == exact.as_bytes(),
            Self::Prefix(prefix) => is_under(path, prefix),
            Self::Regex(regex) => regex.matches(path),
        }
    }
}

/// Whether a path is this one or below it.
pub(super) fn is_under(path: &[u8], prefix: impl AsRef<[u8]>) -> bool {
    let prefix = prefix.as_ref();
    let rest = path.strip_prefix(prefix);
    prefix.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(b"/"))
}

fn checked(text: &str) -> Result<String, PatternError> {
    if text.len() > PATH_LENGTH_MAX {
        return Err(PatternError::PathLength);
    }
    let mut scratch = Vec::new();
    let is_normal = normal::path(text.as_bytes(), &mut scratch) == text.as_bytes();
    let is_path = text.starts_with('/') && is_normal && !text.contains(['?', '#']);
    is_path.then(|| text.to_string()).ok_or(PatternError::Path)
}

impl Text {
    /// Whether a value is one of these.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => value == exact.as_bytes(),
            Self::Prefix(prefix) => value.starts_with(prefix.as_bytes()),
            Self::Regex(regex) => regex.matches(value),
        }
    }

    /// The same of a value that is still encoded as in a query.
    fn matches_encoded(&self, value: &[u8]) -> bool {
        match self {
            Self::Exact(exact) => decoded(value).eq(exact.bytes()),
            Self::Prefix(prefix) => {
                let mut value = decoded(value);
                prefix.bytes().all(|byte| value.next() == Some(byte))
            }
            Self::Regex(regex) if value.iter().any(|byte| matches!(byte, b'%' | b'+')) => {
                regex.matches(&decoded(value).collect::<Vec<u8>>())
            }
            Self::Regex(regex) => regex.matches(value),
        }
    }
}

/// The bytes that a part of a query stands for.
pub(super) fn decoded(text: &[u8]) -> impl Iterator<Item = u8> {
    Decoded { rest: text }.map(|byte| match byte {
        Byte::Plain(b'+') => b' ',
        Byte::Plain(byte) | Byte::Encoded(byte) => byte,
    })
}

impl Field {
    pub(super) fn in_headers<H: Headers + ?Sized>(&self, headers: &H) -> bool {
        headers.any(&self.name, &mut |value| self.has(|text| text.matches(value)))
    }

    pub(super) fn in_query(&self, query: &[u8]) -> bool {
        query.split(|byte| *byte == b'&').filter(|part| !part.is_empty()).any(|part| {
            let (name, value) = split_once(part, b'=');
            decoded(name).eq(self.name.bytes()) && self.has(|text| text.matches_encoded(value))
        })
    }

    pub(super) fn in_cookies<H: Headers + ?Sized>(&self, headers: &H) -> bool {
        any_cookie(headers, &self.name, &mut |value| self.has(|text| text.matches(value)))
    }

    fn has(&self, matches: impl Fn(&Text) -> bool) -> bool {
        self.values.is_empty() || self.values.iter().any(matches)
    }
}

/// Whether `test` holds of the value of any cookie of this name.
#[must_use]
pub fn any_cookie<H: Headers + ?Sized>(
    headers: &H,
    name: &str,
    test: &mut dyn FnMut(&[u8]) -> bool,
) -> bool {
    headers.any("cookie", &mut |line| {
        line.split(|byte| *byte == b';').any(|pair| {
            let (found, value) = split_once(pair.trim_ascii(), b'=');
            found == name.as_bytes() && test(value)
        })
    })
}

fn split_once(text: &[u8], at: u8) -> (&[u8], &[u8]) {
    match text.iter().position(|byte| *byte == at) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, b""),
    }
}

impl Network {
    /// Whether an address is in it; an IPv4 address in IPv6 clothes counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let differ = u64::from(own.to_bits() ^ other.to_bits());
                differ >> (32 - self.length) == 0
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let differ = own.to_bits() ^ other.to_bits();
                differ.checked_shr(128 - u32::from(self.length)).unwrap_or(0) == 0
            }
            _ => false,
        }
    }

    /// The first and the last address.
    pub(super) fn ends(&self) -> (IpAddr, IpAddr) {
        let last = match self.address {
            IpAddr::V4(it) => {
                let host = u32::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V4((it.to_bits() | host).into())
            }
            IpAddr::V6(it) => {
                let host = u128::MAX.checked_shr(self.length.into()).unwrap_or(0);
                IpAddr::V6((it.to_bits() | host).into())
            }
        };
        (self.address, last)
    }
}

impl FromStr for Network {
    type Err = PatternError;

    fn from_str(text: &str) -> Result<Self, PatternError> {
        let (address, length) =
            text.split_once('/').map_or((text, None), |(address, length)| (address, Some(length)));
        let address: IpAddr = address.parse().map_err(|_| PatternError::Network)?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let digits = length.is_none_or(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
        let length = length.map_or(Ok(most), str::parse).map_err(|_| PatternError::Network)?;
        if !digits || length > most {
            return Err(PatternError::Network);
        }
        // Clients at such addresses are known by those of IPv4.
        let (address, length) = match (address, address.to_canonical()) {
            (IpAddr::V6(_), mapped @ IpAddr::V4(_)) if length >= MAPPED => {
                (mapped, length - MAPPED)
            }
            _ => (address, length),
        };
        let cleared = match address {
            IpAddr::V4(it) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
                IpAddr::V4((it.to_bits() & mask).into())
            }
            IpAddr::V6(it) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(length)).unwrap_or(0);
                IpAddr::V6((it.to_bits() & mask).into())
            }
        };
        let network = Self { address: cleared, length };
        if cleared == address { Ok(network) } else { Err(PatternError::NetworkBits(network)) }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Regex {
    /// Compiles an expression that has to match the whole of a text, byte by byte: `.` is any byte,
    /// a line break too, `\d` and `(?i)` know ASCII only.
    ///
    /// # Errors
    /// If it is none, or needs more than [`REGEX_SIZE_MAX`] bytes.
    pub fn whole(text: &str) -> Result<Self, PatternError> {
        // Alone first, because `a)(b` is no expression although `^(?:a)(b)$` is.
        compile(text)?;
        let whole = compile(&format!("^(?:{text})$"));
        Ok(Self {
            // With `(?x)` it may end with a comment, which goes on to the end of the line.
            compiled: whole.or_else(|_| compile(&format!("^(?:{text}\n)$")))?,
            text: text.to_string(),
            directory: directory(text).unwrap_or_default(),
        })
    }

    /// Compiles an expression that may match a part of a text.
    ///
    /// # Errors
    /// As [`Regex::whole`].
    pub fn part(text: &str) -> Result<Self, PatternError> {
        Ok(Self { compiled: compile(text)?, text: text.to_string(), directory: String::new() })
    }

    /// The expression as it was written.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches.
    #[must_use]
    pub fn matches(&self, text: &[u8]) -> bool {
        self.compiled.is_match(text)
    }

    /// The groups of the first match.
    pub(super) fn captures<'t>(&self, text: &'t [u8]) -> Option<Captures<'t>> {
        self.compiled.captures(text)
    }

    /// The index of the group of this name or number.
    pub(super) fn group(&self, name: &str) -> Option<usize> {
        match name.parse() {
            Ok(number) => (0..self.compiled.captures_len()).contains(&number).then_some(number),
            Err(_) => self.compiled.capture_names().position(|it| it == Some(name)),
        }
    }

    /// The prefix ([`Path::Prefix`]) below which every path is that matches as a whole.
    pub(super) fn directory(&self) -> &str {
        &self.directory
    }
}

fn compile(text: &str) -> Result<regex::bytes::Regex, PatternError> {
    let mut builder = RegexBuilder::new(text);
    // A path has a line break as `%0A`, which must not get around an expression with `.`.
    builder.unicode(false).dot_matches_new_line(true).size_limit(REGEX_SIZE_MAX);
    builder.build().map_err(|error| PatternError::Regex(error.to_string()))
}

/// What stands literally before the last slash at the beginning of an expression.
fn directory(text: &str) -> Option<String> {
    let mut builder = ParserBuilder::new();
    builder.unicode(false).utf8(false).dot_matches_new_line(true);
    let hir = builder.build().parse(text).ok()?;
    let literal = literal(&hir)?;
    let slash = literal.iter().rposition(|byte| *byte == b'/')?;
    let directory = str::from_utf8(&literal[..slash]).ok()?;
    // A prefix is looked up segment by segment from the first slash on.
    (directory.is_empty() || directory.starts_with('/')).then(|| directory.to_string())
}

fn literal(hir: &Hir) -> Option<&[u8]> {
    match hir.kind() {
        HirKind::Literal(literal) => Some(&literal.0),
        HirKind::Capture(group) => literal(&group.sub),
        HirKind::Concat(parts) => {
            parts.iter().find(|part| !matches!(part.kind(), HirKind::Look(_))).and_then(literal)
        }
        _ => None,
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Regex {}

impl PartialOrd for Regex {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Regex {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl fmt::Debug for Regex {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Regex").field(&self.text).finish()
    }
}

/// The longest path of a pattern: longer ones are no paths, and the tree of paths is as deep.
pub const PATH_LENGTH_MAX: usize = 2_000;

/// What one expression may take in memory once it is compiled.
pub const REGEX_SIZE_MAX: usize = 1 << 20;

/// The length of `::ffff:0:0/96`, which has the addresses of IPv4.
const MAPPED: u8 = 96;
