//! The token that changes need: `Authorization: Bearer TOKEN`.

use std::{fs, path::Path};

use axum::http::{HeaderMap, HeaderValue, header::AUTHORIZATION};
use subtle::ConstantTimeEq as _;

use super::AdminError;

/// The token required for changes.
pub(crate) struct Token(String);

impl Token {
    /// The token of the file, else the one made `before`, else a new one; what was made is given
    /// back as well.
    pub(crate) fn of(
        file: Option<&Path>,
        before: Option<String>,
    ) -> Result<(Self, Option<String>), AdminError> {
        let Some(path) = file else {
            let made = before.unwrap_or_else(|| format!("{:032x}", rand::random::<u128>()));
            return Ok((Self(made.clone()), Some(made)));
        };
        Ok((Self(read(path)?), None))
    }

    /// Whether the request shows it. The time this takes tells nothing but the length.
    pub(crate) fn is_shown_by(&self, headers: &HeaderMap) -> bool {
        let value = headers.get(AUTHORIZATION).map(HeaderValue::as_bytes);
        // A scheme in any case, and blanks behind it (RFC 9110, 11.1 and 11.4).
        let shown = value.and_then(|value| value.split_at_checked(SCHEME.len()));
        let shown = shown.filter(|(scheme, _)| scheme.eq_ignore_ascii_case(SCHEME));
        let shown =
            shown.and_then(|(_, rest)| rest.strip_prefix(b" ")).map(<[u8]>::trim_ascii_start);
        shown.is_some_and(|shown| shown.ct_eq(self.0.as_bytes()).into())
    }
}

/// The token in the first line of the file at `path`.
///
/// # Errors
/// Why it has none.
pub fn read(path: &Path) -> Result<String, AdminError> {
    let failed = |source| AdminError::TokenFile { path: path.to_owned(), source };
    let text = fs::read_to_string(path).map_err(failed)?;
    let token = text.lines().next().unwrap_or_default().trim();
    if token.len() < LENGTH_MIN {
        return Err(AdminError::TokenShort { path: path.to_owned() });
    }
    Ok(token.to_owned())
}

const SCHEME: &[u8] = b"Bearer";

/// 64 bits in hexadecimal: more than can be tried over a network.
const LENGTH_MIN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(value: &str) -> HeaderMap {
        HeaderMap::from_iter([(AUTHORIZATION, value.parse().unwrap())])
    }

    #[test]
    fn only_the_whole_token_opens() {
        let token = Token("0123456789abcdef".to_owned());
        assert!(token.is_shown_by(&shown("Bearer 0123456789abcdef")));
        for wrong in ["Bearer 0123456789abcde", "Bearer ", "0123456789abcdef", "Basic x"] {
            assert!(!token.is_shown_by(&shown(wrong)), "{wrong}");
        }
        assert!(!token.is_shown_by(&HeaderMap::new()));
    }

    #[test]
    fn a_token_is_made_where_no_file_gives_one_and_a_short_one_is_refused() {
        let (_, one) = Token::of(None, None).unwrap();
        let (_, other) = Token::of(None, None).unwrap();
        assert!(one.as_ref().unwrap().len() == 32 && one != other);
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "secret\n").unwrap();
        assert!(matches!(Token::of(Some(file.path()), None), Err(AdminError::TokenShort { .. })));
        fs::write(file.path(), " 0123456789abcdef \nsecond line").unwrap();
        let (token, made) = Token::of(Some(file.path()), None).unwrap();
        assert!(made.is_none() && token.is_shown_by(&shown("Bearer 0123456789abcdef")));
    }
}
