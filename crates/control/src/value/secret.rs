//! Secrets in the file. What is wrong with one is told without repeating it.

use loadline_core::{
    fleet::Secret,
    rules::{PasswordHash, PasswordHashError},
};
use loadline_spanned::{Complaint, Textual};

/// The key of sticky sessions.
#[derive(Clone, Debug)]
pub(crate) struct SessionKey(pub(crate) Secret);

impl Textual for SessionKey {
    const TITLE: &'static str = "a secret";
    const LENGTH_MIN: usize = KEY_LENGTH_MIN;

    fn expected() -> String {
        format!("a secret of {KEY_LENGTH_MIN} characters or more")
    }

    fn read(text: &str) -> Result<Self, Complaint> {
        if text.len() < KEY_LENGTH_MIN {
            let message = format!("a key of {} characters can be guessed", text.len());
            return Err(Complaint::new(message, KEY_HELP));
        }
        Ok(Self(Secret::new(text.to_owned())))
    }
}

/// The hash of a password.
#[derive(Clone, Debug)]
pub(crate) struct HashedPassword(pub(crate) PasswordHash);

impl Textual for HashedPassword {
    const EXPECTED: &'static str = "the hash of a password, as `htpasswd -nB NAME` writes it";
    const TITLE: &'static str = "the hash of a password";
    const PATTERN: Option<&'static str> = Some("^\\$(2[aby]|5|6)\\$");

    fn read(text: &str) -> Result<Self, Complaint> {
        let wrong = |error: PasswordHashError| {
            Complaint::new(format!("this password cannot be used: {error}"), HASH_HELP)
        };
        PasswordHash::parse(text).map(Self).map_err(wrong)
    }
}

/// What browsers show when they ask for a password.
#[derive(Clone, Debug)]
pub(crate) struct Realm(pub(crate) String);

impl Textual for Realm {
    const EXPECTED: &'static str = "a text like \"staff only\"";
    const EXAMPLES: &'static [&'static str] = &["staff only"];

    fn read(text: &str) -> Result<Self, Complaint> {
        if text.chars().any(char::is_control) {
            let help = "write one line, without tabs";
            return Err(Complaint::new("a realm with a control character".to_owned(), help));
        }
        Ok(Self(text.to_owned()))
    }
}

/// What to do for a password.
pub(crate) const HASH_HELP: &str = "make one: htpasswd -nB NAME, or openssl passwd -6";

/// What to do for a key.
pub(crate) const KEY_HELP: &str = "make one: openssl rand -hex 16";

/// As many hexadecimal digits are 64 bits, far beyond guessing one by one over a network.
const KEY_LENGTH_MIN: usize = 16;
