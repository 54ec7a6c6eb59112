//! Where a certificate authority is reached, and where it may write to.

use loadline_spanned::{Complaint, Textual};

/// The URL of a directory of ACME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DirectoryUrl(pub(crate) String);

impl Textual for DirectoryUrl {
    const EXPECTED: &'static str = "a URL like \"https://acme-v02.api.letsencrypt.org/directory\"";
    const TITLE: &'static str = "a URL";
    const PATTERN: Option<&'static str> = Some("^https://[^/@]+(/.*)?$");

    fn read(text: &str) -> Result<Self, Complaint> {
        let uri: Option<http::Uri> = text.parse().ok();
        let fits = |uri: &http::Uri| {
            let authority = uri.authority().map_or("", |it| it.as_str());
            uri.scheme_str() == Some("https") && !authority.is_empty() && !authority.contains('@')
        };
        if uri.as_ref().is_some_and(fits) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write a URL by https: \"https://acme-v02.api.letsencrypt.org/directory\"";
        Err(Complaint::new(format!("`{text}` is no directory of ACME"), help))
    }
}

/// An address of mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Email(pub(crate) String);

impl Textual for Email {
    const EXPECTED: &'static str = "an email address like \"you@example.com\"";
    const TITLE: &'static str = "an email address";
    const PATTERN: Option<&'static str> =
        Some("^[^@?,;&#%\"<>() ]+@[^@?,;&#%\"<>() ]+\\.[^@?,;&#%\"<>() ]+$");
    const EXAMPLES: &'static [&'static str] = &["you@example.com"];

    fn read(text: &str) -> Result<Self, Complaint> {
        // More than one address, or headers, are possible in a `mailto:` (RFC 8555, section 7.3).
        let fits = |c: char| c.is_ascii_graphic() && !"?,;&#%\"<>()".contains(c);
        let parts = text.split_once('@');
        let is_email = |(user, host): (&str, &str)| {
            !user.is_empty() && !host.contains('@') && host.trim_matches('.').contains('.')
        };
        if parts.is_some_and(is_email) && text.chars().all(fits) {
            return Ok(Self(text.to_owned()));
        }
        let help = "write one address: \"you@example.com\"";
        Err(Complaint::new(format!("`{text}` is no email address"), help))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_directory_or_address_says_what_would_be() {
        for wrong in ["", "acme.test", "http://ca.test/dir", "https://", "https://me:pw@ca.test/"] {
            assert!(DirectoryUrl::read(wrong).unwrap_err().help.contains("https"), "{wrong}");
        }
        assert!(DirectoryUrl::read("https://[::1]:14000/dir").is_ok());
        for wrong in ["", "you", "you@", "@example.com", "you@host", "a@b.c,d@e.f", "a@b.c?x=y"] {
            assert!(Email::read(wrong).unwrap_err().help.contains("you@"), "{wrong}");
        }
        assert!(Email::read("first.last+acme@example.co.uk").is_ok());
    }
}
