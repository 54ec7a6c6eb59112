//! Where an etcd is reached, and which of its keys are ours.

use loadline_spanned::{Complaint, Textual};

use super::address::{Place, port_help};

/// The URL of a member of an etcd cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EtcdUrl {
    /// Over TLS.
    pub(crate) is_secure: bool,
    /// Host and port.
    pub(crate) place: Place,
}

impl Textual for EtcdUrl {
    const EXPECTED: &'static str = "a URL like \"https://10.0.0.1:2379\"";
    const TITLE: &'static str = "the URL of an etcd";
    const PATTERN: Option<&'static str> = Some("^https?://[^/@?]+/?$");
    const EXAMPLES: &'static [&'static str] = &["https://10.0.0.1:2379"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong =
            |help: &str| Complaint::new(format!("`{text}` is not the URL of an etcd"), help);
        let (is_secure, rest) = match (text.strip_prefix("https://"), text.strip_prefix("http://"))
        {
            (Some(rest), _) => (true, rest),
            (_, Some(rest)) => (false, rest),
            _ => return Err(wrong("write scheme, host and port: \"https://10.0.0.1:2379\"")),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        if rest.contains(['/', '@', '?']) {
            return Err(wrong(
                "scheme, host and port alone; who we are is said by `user` and `password_file`, \
                 and where our keys begin by `prefix`",
            ));
        }
        let place = Place::read(rest).or_else(|error| match port_help(rest) {
            Some(_) => Err(error),
            None => Place::read(&format!("{rest}:{USUAL_PORT}")),
        });
        let place = place.map_err(|Complaint { help, .. }| wrong(&help))?;
        Ok(Self { is_secure, place })
    }
}

/// What every key of ours begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPrefix(pub(crate) String);

impl Textual for KeyPrefix {
    const EXPECTED: &'static str = "the beginning of keys, like \"/loadline/\"";
    const TITLE: &'static str = "the beginning of keys";
    const PATTERN: Option<&'static str> = Some("^[A-Za-z0-9/._-]*/$");
    const EXAMPLES: &'static [&'static str] = &["/loadline/shop/"];

    fn read(text: &str) -> Result<Self, Complaint> {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
        if text.is_empty() || !text.ends_with('/') || !text.chars().all(fits) {
            let help = "letters, digits, `.`, `_`, `-` and `/`, with a `/` at the end: \
                        \"/loadline/shop/\"";
            return Err(Complaint::new(format!("`{text}` is not a prefix of keys"), help));
        }
        Ok(Self(text.to_owned()))
    }
}

/// Where etcd listens for clients, unless it is told otherwise.
const USUAL_PORT: u16 = 2379;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_etcd_is_named_by_scheme_host_and_port() {
        let url = EtcdUrl::read("https://etcd-1.internal:2379").unwrap();
        assert!(url.is_secure && url.place == Place::Name("etcd-1.internal".to_owned(), 2379));
        let url = EtcdUrl::read("http://127.0.0.1/").unwrap();
        assert!(!url.is_secure && url.place == Place::Address(([127, 0, 0, 1], 2379).into()));
        for (text, words) in [
            ("10.0.0.1:2379", "\"https://10.0.0.1:2379\""),
            ("https://user:secret@etcd:2379", "password_file"),
            ("https://etcd:2379/loadline", "prefix"),
            ("https://etcd:99999", "1 to 65535"),
        ] {
            let complaint = EtcdUrl::read(text).unwrap_err();
            assert!(complaint.help.contains(words), "{text}: {}", complaint.help);
        }
    }

    #[test]
    fn a_prefix_ends_with_a_slash_so_that_it_is_not_the_beginning_of_another() {
        assert!(KeyPrefix::read("/loadline/").is_ok() && KeyPrefix::read("shop/").is_ok());
        for wrong in ["", "/loadline", "/lo adline/"] {
            assert!(KeyPrefix::read(wrong).unwrap_err().help.contains("at the end"), "{wrong}");
        }
    }
}
