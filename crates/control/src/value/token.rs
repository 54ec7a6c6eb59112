//! What is said of tokens, and where their keys are.

use loadline_spanned::{Complaint, Textual};

use super::label::file_path;

/// Where keys are.
#[derive(Clone, Debug)]
pub(crate) enum KeyPlace {
    File(String),
    Url(String),
}

impl Textual for KeyPlace {
    const EXPECTED: &'static str =
        "the path of a file, or a URL like \"https://issuer/.well-known/jwks.json\"";
    const TITLE: &'static str = "a file or a URL";
    const LENGTH_MIN: usize = 1;

    fn read(text: &str) -> Result<Self, Complaint> {
        if !text.contains("://") {
            return file_path(text).map(Self::File);
        }
        let uri: Option<http::Uri> = text.parse().ok();
        let fits = |uri: &http::Uri| {
            let is_web = matches!(uri.scheme_str(), Some("https" | "http"));
            is_web && uri.authority().is_some_and(|it| !it.as_str().contains('@'))
        };
        if uri.as_ref().is_some_and(fits) {
            return Ok(Self::Url(text.to_owned()));
        }
        let help = "write a URL by https: \"https://issuer/.well-known/jwks.json\"";
        Err(Complaint::new(format!("`{text}` is no URL of keys"), help))
    }
}

/// What a claim says.
#[derive(Clone, Debug)]
pub(crate) struct ClaimText(pub(crate) String);

impl Textual for ClaimText {
    const EXPECTED: &'static str = "the text of a claim, like \"admin\"";
    const TITLE: &'static str = "the text of a claim";
    const LENGTH_MIN: usize = 1;

    fn read(text: &str) -> Result<Self, Complaint> {
        if text.is_empty() || text.chars().any(char::is_control) {
            let help = "write it as tokens have it, on one line";
            return Err(Complaint::new(format!("`{}` is in no token", text.escape_debug()), help));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_a_file_or_at_a_url_without_a_password() {
        assert!(matches!(KeyPlace::read("tls/jwks.json"), Ok(KeyPlace::File(_))));
        assert!(matches!(KeyPlace::read("https://[::1]:8/keys?x=y"), Ok(KeyPlace::Url(_))));
        for wrong in ["ftp://a/keys", "https://", "https://me:pw@a/keys", "https://a b/"] {
            assert!(KeyPlace::read(wrong).unwrap_err().help.contains("https://issuer"), "{wrong}");
        }
    }
}
