//! The claims of a token.

use alloc::{string::String, vec::Vec};

/// The claims of a token, as texts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// When it ends to count, in seconds since 1970.
    pub exp: Option<i64>,
    /// When it begins to count, likewise.
    pub nbf: Option<i64>,
    /// When it was issued, likewise.
    pub iat: Option<i64>,
    /// Every claim with its values: one of a text, a number or a truth value, any number of a list.
    /// What is inside of an object has the names on the way there with dots between them:
    /// `realm_access.roles`.
    pub all: Vec<(String, Vec<String>)>,
}

/// A claim that a token has to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredClaim {
    /// Its name, with dots where it is inside of another.
    pub name: String,
    /// Accepted values; a list must have one of them.
    pub values: Vec<String>,
}

impl Claims {
    /// The values of a claim; none where it is not there.
    #[must_use]
    pub fn values(&self, name: &str) -> &[String] {
        self.all.iter().find(|claim| claim.0 == name).map_or(&[], |claim| &claim.1)
    }

    /// Appends the values of a claim, with commas between them, to a header; nothing where one has
    /// a character that would end the header or be another's to read.
    pub fn write(&self, name: &str, out: &mut Vec<u8>) {
        let values = self.values(name);
        if values.iter().any(|value| value.chars().any(char::is_control)) {
            return;
        }
        for (index, value) in values.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            out.extend_from_slice(value.as_bytes());
        }
    }

    /// About how much memory it takes, in bytes.
    #[must_use]
    pub fn size(&self) -> usize {
        let of_texts = |texts: &[String]| texts.iter().map(|text| 24 + text.len()).sum::<usize>();
        self.all.iter().map(|(name, values)| 48 + name.len() + of_texts(values)).sum()
    }
}

impl RequiredClaim {
    /// Whether a token says it. A `scope` has words with spaces between them (RFC 8693, 4.2).
    #[must_use]
    pub fn is_met_by(&self, claims: &Claims) -> bool {
        let is_right = |text: &str| self.values.iter().any(|value| value == text);
        claims.values(&self.name).iter().any(|value| match &*self.name {
            "scope" => value.split(' ').any(is_right) || is_right(value),
            _ => is_right(value),
        })
    }
}
