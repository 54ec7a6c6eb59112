//! Session persistence, and priority classes.

use alloc::string::String;
use core::fmt;

use super::HashKey;
use crate::time::Duration;

/// What keeps the requests of a session on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sticky {
    /// A cookie that the response to the first request sets.
    Cookie(Cookie),
    /// What is the same in all requests of a session; nothing is told to the client.
    Hash(HashKey),
}

/// The cookie of a session (RFC 6265). Its value is a keyed hash of the server's address: the same
/// on every edge that has the key and after every restart, and it tells nobody the address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cookie {
    /// Name of the cookie.
    pub name: String,
    /// The key of the hash.
    pub key: Secret,
    /// How long browsers keep it; until they are closed if omitted.
    pub ttl: Option<Duration>,
    /// The paths it is sent for.
    pub path: String,
    /// Whether it is sent over TLS alone.
    pub secure: bool,
    /// Whether it is sent with requests that other sites cause.
    pub same_site: SameSite,
}

/// Whether a cookie is sent with requests that other sites cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SameSite {
    /// Only where the user follows a link.
    Lax,
    /// Never.
    Strict,
    /// Always; browsers want `secure` for that.
    None,
}

impl SameSite {
    /// As it is written in a cookie.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lax => "Lax",
            Self::Strict => "Strict",
            Self::None => "None",
        }
    }
}

/// A text that is not to be shown, not even by mistake.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Hides a text.
    #[must_use]
    pub const fn new(text: String) -> Self {
        Self(text)
    }

    /// The text in the clear.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(...)")
    }
}

/// How much a request matters where not all can be served; the first is the highest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Served before all others.
    High,
    /// What nobody said anything about.
    #[default]
    Normal,
    /// The first to be refused.
    Low,
}

impl Class {
    /// All of them, the highest first.
    pub const ALL: [Self; 3] = [Self::High, Self::Normal, Self::Low];

    /// The name in the file.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::High => "high",
            Self::Normal => "normal",
            Self::Low => "low",
        }
    }
}
